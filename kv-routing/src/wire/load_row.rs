//! Load rows: what one VM has routed and not yet seen the end of.

use bincode::{Decode, Encode};

use super::codec;
use super::{Generation, UnixMillis};
use crate::block::SequenceHash;
use crate::target::TargetId;

/// Everything one VM has in flight. Only that VM writes its row.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LoadRow {
    /// Random number of the VM, so that a row claimed anew is noticed by its former owner.
    pub owner: u64,
    /// Time of the last write; a row not refreshed for 10 s counts for nothing.
    pub written: UnixMillis,
    /// Manifest generation this VM routes by.
    pub generation: Generation,
    /// Policy version this VM routes by.
    pub policy_version: u64,
    /// Bookings by target.
    pub entries: Vec<LoadRowEntry>,
    /// Prompts it routed last, for siblings of theirs that other VMs route.
    pub recent: Vec<RecentPrompt>,
}

/// A prompt that counts as held by the target it was routed to.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RecentPrompt {
    /// The target.
    pub target: TargetId,
    /// Until then.
    pub until: UnixMillis,
    /// Full blocks of the prompt.
    pub blocks: u32,
    /// [`crate::block::marks`] of those.
    pub marks: Vec<SequenceHash>,
}

/// Bookings of one target in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct LoadRowEntry {
    /// The target.
    pub target: TargetId,
    /// What is in flight on it.
    pub booking: Booking,
}

/// The load routed requests put on a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Booking {
    /// Requests from dispatch to their end.
    pub requests: u32,
    /// Uncached prompt tokens of requests that have had no first byte yet.
    pub prefill_tokens: u64,
    /// Prompt blocks of requests from dispatch to their end.
    pub decode_blocks: u64,
    /// Requests that failed on it since the VM started.
    pub failures: u32,
    /// Most requests at once within the last seconds, the ones in flight included. An engine's report is older than these
    /// bookings, so only what it has beyond this counts as load from outside.
    pub peak_requests: u32,
}

codec::message!(LoadRow);
