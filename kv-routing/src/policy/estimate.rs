//! What is known of a prompt that is not tokenized.

use crate::block::BlockSize;

use super::{PREFIX_TOKENS, prefix_key};

/// Bytes per token where tokens can only be estimated.
const BYTES_PER_TOKEN: usize = 4;

/// Prompt tokens of a request with this body, about, and the key of its prefix.
pub fn estimate(body: &[u8], block_size: BlockSize) -> (u32, Option<u64>) {
    let tokens = u32::try_from(body.len() / BYTES_PER_TOKEN).unwrap_or(u32::MAX);
    (tokens, prefix_key(&[], block_size, conversation(body), PREFIX_TOKENS))
}

/// The part of a body that begins with the conversation, so that equal conversations have equal prefixes whatever options
/// stand before them.
fn conversation(body: &[u8]) -> &[u8] {
    const FIELDS: [&[u8]; 4] = [b"\"messages\"", b"\"prompt\"", b"\"input\"", b"\"input_ids\""];
    /// Options before the prompt are short; looking further would only cost time.
    const LOOK: usize = 4096;
    let head = body.get(..LOOK).unwrap_or(body);
    let starts = FIELDS.iter().filter_map(|field| head.windows(field.len()).position(|window| window == *field));
    starts.min().and_then(|start| body.get(start..)).unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_in_front_of_a_conversation_do_not_change_its_prefix() {
        let block_size = BlockSize::new(16).unwrap();
        let one =
            estimate(br#"{"model":"m","temperature":0.5,"messages":[{"role":"user","content":"hello"}]}"#, block_size);
        let other = estimate(br#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#, block_size);
        assert_eq!((one.1, one.0), (other.1, 19));
        assert_ne!(estimate(b"{\"messages\":[1]}", block_size).1, estimate(b"{\"messages\":[2]}", block_size).1);
        assert_eq!(estimate(b"", block_size), (0, None));
    }
}
