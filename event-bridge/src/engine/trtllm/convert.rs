//! JSON to the events every engine has.

use std::borrow::Cow;

use kv_routing::block::TokenId;

use super::layout::{Block, Change, Data, Envelope, Hash};
use super::{Polled, PolledKind};
use crate::engine::{EngineHash, Event, ExtraKey, Moved, Removed, Stored, Tokens};

pub(super) fn polled(envelope: Envelope<'_>) -> Polled<'_> {
    let Envelope { event_id, window_size, attention_dp_rank, data } = envelope;
    let kind = match data {
        Data::Created {} => PolledKind::Created,
        Data::Unknown => PolledKind::Unknown,
        Data::Stored { .. } | Data::Removed { .. } | Data::Updated { .. } => PolledKind::Changed,
    };
    let changes = match data {
        Data::Created {} | Data::Unknown => Vec::new(),
        Data::Stored { parent_hash, blocks } => stored(parent_hash.map(|Hash(hash)| hash), blocks),
        Data::Removed { block_hashes } => {
            let hashes = block_hashes.into_iter().map(|Hash(hash)| hash).collect();
            vec![Event::Removed(Removed { hashes, every_tier: true, ..Removed::default() })]
        }
        Data::Updated { block_hash: Hash(hash), cache_level: Some(Change { old_value, new_value }) } => {
            vec![Event::Moved(Moved { hash, from_level: old_value, to_level: new_value })]
        }
        Data::Updated { cache_level: None, .. } => Vec::new(),
    };
    Polled { id: event_id, window: window_size, rank: attention_dp_rank, changes, kind }
}

/// Runs of blocks that agree in size, level and salt become one store each.
fn stored(mut parent: Option<EngineHash>, blocks: Vec<Block<'_>>) -> Vec<Event<'_>> {
    let mut runs: Vec<Stored<'_>> = Vec::new();
    let last = blocks.len().saturating_sub(1);
    for (at, block) in blocks.into_iter().enumerate() {
        let Hash(hash) = block.block_hash;
        let size = block.tokens.len() as u32;
        let medium = level(block.cache_level);
        let plain = block.tokens.iter().all(|token| token.token_extra_id == 0);
        let keys = block.mm_keys.into_iter().flatten();
        let keys: Vec<ExtraKey<'_>> =
            keys.map(|key| ExtraKey::Item { id: key.hash, offset: key.start_offset }).collect();
        let may_be_partial = at == last;
        let joins = runs.last().is_some_and(|run| {
            run.block_size == Some(size)
                && run.medium == medium
                && run.cache_salt == block.cache_salt
                && plain
                && !may_be_partial
                && matches!(run.tokens, Tokens::Plain(_))
        });
        if !joins {
            runs.push(Stored {
                parent,
                block_size: Some(size),
                medium,
                cache_salt: block.cache_salt,
                may_be_partial,
                tokens: if plain { Tokens::default() } else { Tokens::Unindexable { positions: size } },
                ..Stored::default()
            });
        }
        if let Some(run) = runs.last_mut() {
            run.hashes.push(hash);
            if let Tokens::Plain(ids) = &mut run.tokens {
                ids.extend(block.tokens.iter().map(|token| TokenId(token.token_id)));
            }
            run.extra_keys.push(keys);
        }
        parent = Some(hash);
    }
    runs.into_iter().map(Event::Stored).collect()
}

fn level(level: u32) -> Option<Cow<'static, str>> {
    Some(Cow::Borrowed(match level {
        0 => "GPU",
        1 => "CPU",
        2 => "DISK",
        _ => "unknown level",
    }))
}
