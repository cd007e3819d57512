//! Bridge tokenization: the filter POSTs a request's body to the bridge and gets its chain of block hashes.
//!
//! Only for prompts that the filter's own core cannot tokenize: see [`BridgeShare`].

use bincode::{Decode, Encode};

use super::codec;
use crate::block::SequenceHash;
use crate::openai::PromptInput;

/// Path on the bridge. Query: `block_size` (tokens), `path` (the client's request path).
pub const TOKENIZE_PATH: &str = "/v1/tokenize";
/// Header with the pool's name.
pub const POOL_HEADER: &str = "x-kv-pool";
/// Header with the LoRA adapter the request is for.
pub const ADAPTER_HEADER: &str = "x-kv-adapter";
/// Media type of an encoded [`Tokenized`].
pub const TOKENIZED_TYPE: &str = "application/octet-stream";

/// Which prompts of a pool the bridge tokenizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum BridgeShare {
    /// None.
    #[default]
    None,
    /// Chats: the core has the tokenizer, but cannot render the messages.
    Chats,
    /// All.
    All,
}

impl BridgeShare {
    /// Whether the bridge tokenizes this prompt.
    pub fn takes(self, prompt: &PromptInput<'_>) -> bool {
        match prompt {
            PromptInput::Chat(_) => self != Self::None,
            PromptInput::Text(_) => self == Self::All,
            PromptInput::Tokens(_) | PromptInput::Absent => false,
        }
    }
}

/// What the bridge makes of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Tokenized {
    /// Prompt tokens.
    pub tokens: u32,
    /// The first of them, which are the engine's: all, or those before the first image, audio or video.
    pub exact_tokens: u32,
    /// Sequence hashes of its full blocks.
    pub chain: Vec<SequenceHash>,
}

codec::message!(Tokenized);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_hostile_bytes() {
        let tokenized = Tokenized { tokens: 33, exact_tokens: 32, chain: vec![SequenceHash(1), SequenceHash(2)] };
        let bytes = tokenized.encode().unwrap();
        assert_eq!(Tokenized::decode(&bytes).unwrap(), tokenized);
        for cut in 0..bytes.len() {
            assert!(Tokenized::decode(&bytes[..cut]).is_err());
        }
        let mut long = bytes;
        long[9..17].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Tokenized::decode(&long).is_err());
    }
}
