//! A replay under way.

use std::time::Instant;

use super::Mark;
use crate::stream::ReplayId;

/// See the module.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) id: ReplayId,
    /// First number asked for.
    pub(super) from: u64,
    /// Batches applied that the answer has yet to show, the lowest one last: until then its process may be another one.
    pub(super) unmet: Vec<Mark>,
    /// The last of the batches that live ones were put on when the request was made.
    pub(super) junction: Option<Mark>,
    /// The newest batch of the live socket that was applied, where it has to show that both sockets are one process's.
    pub(super) newest: Option<Mark>,
    /// The present answers had a batch of the live socket.
    pub(super) agrees: bool,
    /// Forget everything when the first batch comes: the replay begins anew.
    pub(super) clear_first: bool,
    /// An audit: nothing is known to be wrong.
    pub(super) quiet: bool,
    /// Requests without progress.
    pub(super) attempts: u32,
    /// The answers to the present request had something new.
    pub(super) progress: bool,
    /// Highest number in the answers to the present request.
    pub(super) top: Option<u64>,
    /// Number of the newest live batch when the present request was made; a complete answer has it.
    pub(super) live_before: Option<u64>,
    /// When the request was made or last answered.
    pub(super) heard: Instant,
}

impl Recovery {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            id: ReplayId(0),
            from: 0,
            unmet: Vec::new(),
            junction: None,
            newest: None,
            agrees: false,
            clear_first: false,
            quiet: false,
            attempts: 0,
            progress: false,
            top: None,
            live_before: None,
            heard: now,
        }
    }
}
