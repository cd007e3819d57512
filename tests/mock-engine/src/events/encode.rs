//! The msgpack bytes of vLLM 0.32: batch `[ts, events, rank]`, events as maps in this key order.

use rmp::encode::{write_array_len, write_f64, write_map_len, write_nil, write_str, write_uint};

/// One change of the cache.
#[derive(Clone, PartialEq, Debug)]
pub enum KvEvent {
    /// A run of new full blocks of one request.
    Stored(BlockStored),
    /// A cached block was reused for something else.
    Removed {
        /// Its hash.
        hash: u64,
    },
    /// Everything was forgotten.
    AllCleared,
}

/// A run of new full blocks, in prompt order.
#[derive(Clone, PartialEq, Debug)]
pub struct BlockStored {
    /// One hash per block.
    pub block_hashes: Vec<u64>,
    /// Hash of the block before the first one; `None` at the start of a prompt.
    pub parent_block_hash: Option<u64>,
    /// `block_size` tokens per block.
    pub token_ids: Vec<u32>,
    /// Tokens in a block.
    pub block_size: u32,
    /// Per-process number of the adapter.
    pub lora_id: Option<u32>,
    /// Name of the adapter.
    pub lora_name: Option<String>,
    /// Per block: adapter name and salt, where it has any.
    pub extra_keys: Vec<Option<Vec<String>>>,
}

/// The payload of one batch. `timestamp` is seconds since 1970, `rank` the data-parallel rank.
pub fn encode_batch(timestamp: f64, events: &[KvEvent], rank: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + events.iter().map(estimate).sum::<usize>());
    // Writing to a Vec cannot fail, so the encoder's results carry nothing.
    let _ = write_array_len(&mut out, 3);
    let _ = write_f64(&mut out, timestamp);
    let _ = write_array_len(&mut out, events.len() as u32);
    events.iter().for_each(|event| put_event(&mut out, event));
    put_uint(&mut out, u64::from(rank));
    out
}

fn estimate(event: &KvEvent) -> usize {
    match event {
        KvEvent::Stored(stored) => 200 + 10 * stored.block_hashes.len() + 5 * stored.token_ids.len(),
        KvEvent::Removed { .. } | KvEvent::AllCleared => 70,
    }
}

fn put_event(out: &mut Vec<u8>, event: &KvEvent) {
    match event {
        KvEvent::Stored(stored) => put_stored(out, stored),
        KvEvent::Removed { hash } => {
            put_tag(out, 4, "BlockRemoved");
            put_hashes(out, &[*hash]);
            put_pair(out, "medium", "GPU");
            put_str(out, "group_idx");
            put_uint(out, 0);
        }
        KvEvent::AllCleared => put_tag(out, 1, "AllBlocksCleared"),
    }
}

fn put_stored(out: &mut Vec<u8>, stored: &BlockStored) {
    put_tag(out, 11, "BlockStored");
    put_hashes(out, &stored.block_hashes);
    put_str(out, "parent_block_hash");
    put_optional_uint(out, stored.parent_block_hash);
    put_str(out, "token_ids");
    put_array(out, stored.token_ids.len());
    stored.token_ids.iter().for_each(|token| put_uint(out, u64::from(*token)));
    put_str(out, "block_size");
    put_uint(out, u64::from(stored.block_size));
    put_str(out, "lora_id");
    put_optional_uint(out, stored.lora_id.map(u64::from));
    put_pair(out, "medium", "GPU");
    put_str(out, "lora_name");
    match &stored.lora_name {
        Some(name) => put_str(out, name),
        None => put_nil(out),
    }
    put_str(out, "extra_keys");
    put_array(out, stored.extra_keys.len());
    for keys in &stored.extra_keys {
        match keys {
            Some(keys) => {
                put_array(out, keys.len());
                keys.iter().for_each(|key| put_str(out, key));
            }
            None => put_nil(out),
        }
    }
    put_str(out, "group_idx");
    put_uint(out, 0);
    put_pair(out, "kv_cache_spec_kind", "full_attention");
}

fn put_tag(out: &mut Vec<u8>, keys: u32, tag: &str) {
    let _ = write_map_len(out, keys);
    put_pair(out, "type", tag);
}

fn put_hashes(out: &mut Vec<u8>, hashes: &[u64]) {
    put_str(out, "block_hashes");
    put_array(out, hashes.len());
    hashes.iter().for_each(|hash| put_uint(out, *hash));
}

fn put_pair(out: &mut Vec<u8>, key: &str, value: &str) {
    put_str(out, key);
    put_str(out, value);
}

fn put_optional_uint(out: &mut Vec<u8>, value: Option<u64>) {
    match value {
        Some(value) => put_uint(out, value),
        None => put_nil(out),
    }
}

fn put_str(out: &mut Vec<u8>, value: &str) {
    let _ = write_str(out, value);
}

fn put_uint(out: &mut Vec<u8>, value: u64) {
    let _ = write_uint(out, value);
}

fn put_array(out: &mut Vec<u8>, len: usize) {
    let _ = write_array_len(out, len as u32);
}

fn put_nil(out: &mut Vec<u8>) {
    let _ = write_nil(out);
}
