//! SGLang: both sides meet at the prefill engine's bootstrap server, in a room that the router picks.

use super::edit::{Edit, edit, string};
use super::{HandoffError, Transfer};
use crate::openai::json::{elements, members};

/// A room for `random`: below 2^62, so that the rooms of a batch fit in 63 bits too, and congruent to the prefill target's
/// data-parallel rank modulo the number of ranks, by which SGLang finds the rank.
pub fn bootstrap_room(random: u64, rank: Option<u32>, ranks: u32) -> u64 {
    let room = random >> 2;
    match rank {
        None => room,
        Some(rank) => {
            let ranks = u64::from(ranks.max(1));
            room - room % ranks + u64::from(rank) % ranks
        }
    }
}

/// Both calls carry the same three fields; a batch of prompts carries arrays of them, and a room of its own for each.
pub(super) fn both(body: &[u8], transfer: &Transfer<'_>) -> Result<Vec<u8>, HandoffError> {
    let host = string(transfer.bootstrap_host);
    let port = transfer.bootstrap_port.to_string().into_bytes();
    let room =
        |at: u64| transfer.id.wrapping_add(at.wrapping_mul(u64::from(transfer.ranks.max(1)))).to_string().into_bytes();
    let (host, port, room) = match batch(body)? {
        None => (host, port, room(0)),
        Some(prompts) => (
            list((0..prompts).map(|_| host.clone())),
            list((0..prompts).map(|_| port.clone())),
            // A stride of the number of ranks keeps every room congruent to the same rank.
            list((0..prompts).map(room)),
        ),
    };
    edit(
        body,
        &[Edit::Set("bootstrap_host", host), Edit::Set("bootstrap_port", port), Edit::Set("bootstrap_room", room)],
    )
}

/// Number of prompts of a batched body: a list of texts or of token lists.
fn batch(body: &[u8]) -> Result<Option<u64>, HandoffError> {
    let mut count = None;
    for member in members(body).map_err(HandoffError::Body)? {
        if !["prompt", "text", "input_ids"].contains(&member.key.as_ref()) {
            continue;
        }
        let value = body.get(member.value).unwrap_or_default();
        if value.first() != Some(&b'[') {
            continue;
        }
        let elements = elements(value).map_err(HandoffError::Body)?;
        let first = elements.first().and_then(|first| value.get(first.start));
        if matches!(first, Some(b'"' | b'[')) {
            count = Some(elements.len() as u64);
        }
    }
    Ok(count)
}

fn list(items: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut out = vec![b'['];
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend(item);
    }
    out.push(b']');
    out
}
