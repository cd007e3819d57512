//! Messages between event bridge and filter, and the shared-data keys and values they carry.
//!
//! The layout is written down in `README.md` beside this file. Every message begins with [`VERSION`]; a reader refuses
//! any other version before it decodes a byte. All decoding is bounded and never panics: what arrives may be hostile.

mod codec;
pub mod keys;
#[cfg(test)]
mod layout_tests;
mod load_row;
mod manifest;
mod push;
mod target_table;
mod tokenized;

pub use codec::{MAX_MESSAGE_BYTES, WireError};
pub use load_row::{Booking, LoadRow, LoadRowEntry, RecentPrompt};
pub use manifest::{Manifest, ManifestHeader, PoolManifest, TokenizerRef, set_heartbeat};
pub use push::{Decision, DecisionBatch, Imagined, PUSH_PART_BYTES, Push, PushReply, Put};
pub use target_table::{Bootstrap, Health, Role, SourceState, TargetEntry, TargetTable};
pub use tokenized::{ADAPTER_HEADER, BridgeShare, POOL_HEADER, TOKENIZE_PATH, TOKENIZED_TYPE, Tokenized};

use bincode::{Decode, Encode};

/// First byte of every message and of every shared-data value but tokenizer parts.
pub const VERSION: u8 = 3;

/// One life of a bridge process; pages and manifest of different epochs never mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Epoch(pub u64);

/// Counts changes of everything but pages (manifest, target tables, policy, tokenizer) within an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct Generation(pub u64);

/// Number of a pool within one epoch, part of its shared-data keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct PoolId(pub u16);

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// How long before `now` this was; zero when the clocks disagree.
    pub fn age(self, now: Self) -> u64 {
        now.0.saturating_sub(self.0)
    }
}

/// A value with nothing but the version byte in front. For types of other modules that live in shared data.
pub(crate) fn encode_value(value: &impl Encode) -> Result<Vec<u8>, WireError> {
    codec::encode(&[], value)
}

/// Inverse of [`encode_value`].
pub(crate) fn decode_value<'a, T: bincode::BorrowDecode<'a, ()>>(bytes: &'a [u8]) -> Result<T, WireError> {
    codec::decode(codec::versioned(bytes)?)
}
