//! The push protocol: the bridge POSTs a [`Push`] to the ingest listener and gets a [`PushReply`].
//!
//! Rules the filter applies, in this order:
//!
//! 1. Another wire version, or bytes that do not decode: 400, nothing written.
//! 2. A key that [`super::keys::is_bridge_key`] refuses: 400, nothing written.
//! 3. A manifest of a later epoch is in place and its heartbeat is younger than 3 s: another bridge has taken over.
//!    Nothing is written, `need_snapshot` is false and `in_place` names the other epoch. Epochs grow with every start
//!    of a bridge (Unix milliseconds of the start), so of two bridges the younger one wins and they never alternate.
//! 4. `snapshot` is false and the manifest is missing or of another epoch: nothing is written, `need_snapshot` is true.
//! 5. Otherwise every value is written, in order. A manifest of the same epoch and a lower generation than the one in
//!    place is left out, as it can only be a late repetition.
//!
//! A snapshot may take several pushes. It ends with the manifest: pages of the new epoch are ignored until the manifest
//! names it. A bridge has one push in flight per Envoy, since pages carry no version of their own.
//! `GET` of the same path answers 200 while the listener works.

use bincode::{BorrowDecode, Decode, Encode};

use super::codec::{self, WireError};
use super::{Epoch, Generation, LoadRow, PoolId, UnixMillis};
use crate::block::{SequenceHash, TokenId};
use crate::target::TargetId;

/// The bridge begins a new push when the values of one reach this many bytes.
pub const PUSH_PART_BYTES: usize = 1 << 20;

/// Values to write into shared data, in order. Each is a full state, so a push may be repeated without harm.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Push<'a> {
    /// Epoch of the bridge.
    pub epoch: Epoch,
    /// Whether a filter with a manifest of another epoch, or without one, takes this push. Parts of a snapshot do;
    /// a delta is refused there, and the reply asks for a snapshot.
    pub snapshot: bool,
    /// What to write.
    pub puts: Vec<Put<'a>>,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Put<'a> {
    /// Its key, one of [`super::keys`].
    pub key: &'a str,
    /// All of its new bytes.
    pub value: &'a [u8],
}

/// The ingest listener's answer.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PushReply {
    /// Epoch and generation of the manifest now in place; `None` when there is none.
    pub in_place: Option<(Epoch, Generation)>,
    /// The push was not applied, or the manifest is missing or of another epoch: send everything.
    pub need_snapshot: bool,
    /// This Envoy's load rows, with their numbers.
    pub load_rows: Vec<(u32, LoadRow)>,
    /// Routing decisions since the last reply, oldest first; bounded.
    pub decisions: Vec<Decision>,
    /// Decisions dropped since the last reply because the bound was reached.
    pub decisions_dropped: u64,
}

/// One routed prompt, for token parity and for decision logs. Sent when the first byte of its answer has come, or when it
/// ended without one.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Decision {
    /// When it was routed.
    pub at: UnixMillis,
    /// Pool it was routed in.
    pub pool: PoolId,
    /// Target that served it; the one it was sent to when none did.
    pub target: TargetId,
    /// The target answered, with a status below 400: it has computed the prompt.
    pub answered: bool,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Leading blocks the target was believed to hold.
    pub predicted_blocks: u32,
    /// Tokens per block of its chain.
    pub block_size: u32,
    /// Full blocks of the prompt.
    pub blocks: u32,
    /// The first of them, whose tokens are the engine's for certain: none where tokens were only estimated, those before the
    /// first image where there is one.
    pub certain_blocks: u32,
    /// [`crate::block::marks`] of those.
    pub marks: Vec<SequenceHash>,
    /// The first tokens, at most [`crate::block::HEAD_TOKENS`].
    pub head: Vec<TokenId>,
    /// [`crate::block::HashSeed`] of the hashes: what adapter and salt made of it.
    pub seed: u64,
    /// The request named an adapter.
    pub adapter: bool,
    /// What the shadow would have done, when it looked at this request.
    pub shadow: Option<Imagined>,
}

/// What a shadow would have done with a routed prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Imagined {
    /// Version of the document that has the shadow.
    pub version: u64,
    /// Target it would have chosen; `None` where it would have left the request to Envoy, or refused it.
    pub target: Option<TargetId>,
    /// Leading blocks that target was believed to hold.
    pub predicted_blocks: u32,
}

/// Decisions of one VM on their way to the ingest role, through a shared queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct DecisionBatch {
    /// Decisions lost since the VM's last batch because its bound was reached.
    pub dropped: u64,
    /// Oldest first.
    pub decisions: Vec<Decision>,
}

codec::message!(DecisionBatch);

impl<'a> Push<'a> {
    /// Encodes.
    ///
    /// # Errors
    /// [`WireError::Encode`] when the push is larger than a message may be.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        codec::encode(&[], self)
    }

    /// Decodes; keys and values borrow from `bytes`.
    ///
    /// # Errors
    /// [`WireError`] for anything [`Push::encode`] did not make.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        codec::decode(codec::versioned(bytes)?)
    }
}

codec::message!(PushReply);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_round_trip_and_hostile_bytes() {
        let push = Push { epoch: Epoch(5), snapshot: true, puts: vec![Put { key: "kv/p/0/1/0", value: b"abc" }] };
        let bytes = push.encode().unwrap();
        assert_eq!(Push::decode(&bytes).unwrap(), push);
        for cut in 0..bytes.len() {
            assert!(Push::decode(&bytes[..cut]).is_err());
        }
        let mut long = bytes.clone();
        long.push(0);
        assert!(Push::decode(&long).is_err());
        let mut claims_too_much = bytes;
        let count = 1 + 8 + 1;
        claims_too_much[count..count + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Push::decode(&claims_too_much).is_err());
    }

    #[test]
    fn reply_round_trip() {
        let reply = PushReply {
            in_place: Some((Epoch(1), Generation(2))),
            need_snapshot: false,
            load_rows: vec![],
            decisions: vec![],
            decisions_dropped: 3,
        };
        assert_eq!(PushReply::decode(&reply.encode().unwrap()).unwrap(), reply);
    }
}
