//! The document as a shared-data value (key [`crate::wire::keys::POLICY`]).

use super::Document;
use crate::wire::{self, WireError};

impl Document {
    /// Encodes, version byte first.
    ///
    /// # Errors
    /// [`WireError::Encode`] when the document is larger than a message may be.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        wire::encode_value(self)
    }

    /// Decodes.
    ///
    /// # Errors
    /// [`WireError`] for anything [`Document::encode`] did not make.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        wire::decode_value(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::document::{Mode, Policy, RuleSet, Shadow};
    use crate::policy::program::{Op, Program};

    #[test]
    fn round_trip_and_cut_bytes() {
        let mut policy = Policy::named("p");
        policy.mode = Mode::PrefixHash { tokens: 256, load_bound_percent: 125 };
        policy.cost = Some(Program::new(vec![Op::Const(1.0)]).unwrap());
        let rules = RuleSet { rules: vec![], policies: vec![policy], default_policy: 0 };
        let shadow = Shadow { sample_per_million: 10_000, rules: rules.clone() };
        let document = Document { version: 3, live: rules, shadow: Some(shadow) };
        let bytes = document.encode().unwrap();
        assert_eq!(Document::decode(&bytes).unwrap(), document);
        for cut in 0..bytes.len() {
            assert!(Document::decode(&bytes[..cut]).is_err());
        }
    }
}
