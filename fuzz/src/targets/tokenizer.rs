//! Compiled tokenizers, damaged behind their checksum.

use kv_routing::tokens::{CacheLimits, Prompter};
use xxhash_rust::xxh3::xxh3_128;

use crate::seeds;

/// Where the image has its content hash, and where what it covers begins.
const HASH_AT: usize = 24;
const CONTENT_AT: usize = 64;
/// Most bytes changed in one input.
const MOST_CHANGES: u8 = 32;

/// A number of changes, for each a position (`u32`) and a byte, then a text to tokenize. An input without changes and text is
/// taken for a whole image.
pub(crate) fn damaged(input: &[u8]) -> bool {
    let Some((changes, mut rest)) = input.split_first() else { return false };
    let mut image = seeds::image().to_vec();
    for _ in 0..changes % (MOST_CHANGES + 1) {
        let Some((change, after)) = rest.split_first_chunk::<5>() else { break };
        let [a, b, c, d, byte] = *change;
        let length = image.len();
        if let Some(place) = image.get_mut(u32::from_le_bytes([a, b, c, d]) as usize % length) {
            *place = byte;
        }
        rest = after;
    }
    let hash = xxh3_128(image.get(CONTENT_AT..).unwrap_or_default());
    if let Some(place) = image.get_mut(HASH_AT..HASH_AT + 16) {
        place.copy_from_slice(&hash.to_le_bytes());
    }
    let text = String::from_utf8_lossy(rest);
    // Raw bytes are no image but by a miracle; they must be refused in peace.
    drop(Prompter::load(rest.to_vec(), CacheLimits { bytes: 1 << 16 }));
    let Ok(mut prompter) = Prompter::load(image, CacheLimits { bytes: 1 << 16 }) else { return false };
    for special in [false, true] {
        let tokens = prompter.encode(&text, special);
        let again = prompter.encode(&text, special);
        assert_eq!(tokens, again, "a text from the cache has the same tokens");
    }
    drop(prompter.tokenizer().template());
    true
}
