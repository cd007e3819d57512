//! Names that both sides must agree on.

use sha2::{Digest, Sha256};

use crate::cache::CacheScope;

/// Identifies a prompt within a cache scope: what a decode engine must compute to be given the blocks.
pub fn prompt_digest(prompt: &[u32], scope: &CacheScope) -> String {
    let mut hash = Sha256::new();
    for text in [scope.adapter.as_ref().map(|adapter| adapter.name.as_str()), scope.salt.as_deref()] {
        hash.update(text.unwrap_or_default().as_bytes());
        hash.update([0]);
    }
    prompt.iter().for_each(|token| hash.update(token.to_le_bytes()));
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Engine id of a rank: stable for one life of the engine.
pub fn engine_id(started: f64, port: u16, rank: usize) -> String {
    let mut hash = Sha256::new();
    hash.update(started.to_bits().to_le_bytes());
    hash.update(port.to_le_bytes());
    let hex: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}_dp{rank}")
}

/// `host:port` in a form without quotes, slashes or colons, for TensorRT-LLM's opaque state.
pub fn seal(address: &str) -> String {
    address.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The address in an opaque state, if it is one of ours.
pub(super) fn unseal(state: &str) -> Option<String> {
    if !state.len().is_multiple_of(2) || !state.is_ascii() {
        return None;
    }
    let bytes = (0..state.len()).step_by(2).map(|at| u8::from_str_radix(&state[at..at + 2], 16).ok());
    String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opaque_state_opens_only_whole() {
        let sealed = seal("127.0.0.1:8998");
        assert_eq!(unseal(&sealed).as_deref(), Some("127.0.0.1:8998"));
        assert_eq!(unseal(&sealed[1..]), None);
        assert_eq!(unseal("zz"), None);
    }

    #[test]
    fn a_digest_tells_prompts_and_scopes_apart() {
        let plain = CacheScope::default();
        let salted = CacheScope { adapter: None, salt: Some("t".to_owned()) };
        assert_eq!(prompt_digest(&[1, 2], &plain), prompt_digest(&[1, 2], &plain));
        assert_ne!(prompt_digest(&[1, 2], &plain), prompt_digest(&[2, 1], &plain));
        assert_ne!(prompt_digest(&[1, 2], &plain), prompt_digest(&[1, 2], &salted));
    }
}
