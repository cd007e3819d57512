//! What else than tokens names a block: adapter, salt, images. Where an event leaves it open, the context decides.

use kv_routing::block::{HashSeed, image_hash};
use xxhash_rust::xxh3::xxh3_64;

use crate::engine::{ExtraKey, Stored};

/// Keys of one block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BlockKeys {
    /// Hashes of the images that lie in it.
    pub(super) images: Vec<u64>,
    /// Something of unknown meaning enters its engine hash, so nothing can be said about it.
    pub(super) unknown: bool,
}

/// Adapter and salt of an event. `Err` when an adapter is used and only its number is known.
pub(super) fn seed(event: &Stored<'_>) -> Result<HashSeed, UnknownAdapter> {
    let adapter = event.lora_name.as_deref().filter(|name| !name.is_empty());
    if adapter.is_none() && event.lora_id.is_some_and(|id| id != 0) {
        return Err(UnknownAdapter);
    }
    Ok(HashSeed::new(adapter, event.cache_salt.as_deref().or_else(|| first_block_salt(event))))
}

/// The engine names the adapter by a number of its own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownAdapter;

/// vLLM puts the salt among the first block's keys only, untagged: the string that is not the adapter's name.
fn first_block_salt<'a>(event: &'a Stored<'_>) -> Option<&'a str> {
    if event.parent.is_some() {
        return None;
    }
    texts(event, 0).next()
}

/// Strings among a block's keys, without the adapter's name and a salt that has a field of its own.
fn texts<'a>(event: &'a Stored<'_>, block: usize) -> impl Iterator<Item = &'a str> {
    let mut known = [event.lora_name.as_deref(), event.cache_salt.as_deref()];
    let keys = event.extra_keys.get(block).map(Vec::as_slice).unwrap_or_default();
    let text = |key: &'a ExtraKey<'_>| match key {
        ExtraKey::Text(text) => Some(text.as_ref()),
        _ => None,
    };
    keys.iter().filter_map(text).filter(move |text| match known.iter_mut().find(|known| **known == Some(*text)) {
        Some(known) => {
            *known = None;
            false
        }
        None => true,
    })
}

/// Keys of block `block` of an event. A string is an image's identifier (vLLM up to 0.17) unless it is the salt.
pub(super) fn of_block(event: &Stored<'_>, block: usize) -> BlockKeys {
    let Some(keys) = event.extra_keys.get(block).filter(|keys| !keys.is_empty()) else {
        return BlockKeys::default();
    };
    let has_salt = block == 0 && event.cache_salt.is_none() && event.parent.is_none();
    let mut images: Vec<u64> = texts(event, block).skip(usize::from(has_salt)).map(image_hash).collect();
    let mut unknown = false;
    for key in keys {
        match key {
            ExtraKey::Text(_) => {}
            ExtraKey::Item { id, .. } => images.push(image_hash(id)),
            ExtraKey::Digest(bytes) => images.push(xxh3_64(bytes)),
            ExtraKey::Other => unknown = true,
        }
    }
    BlockKeys { images, unknown }
}
