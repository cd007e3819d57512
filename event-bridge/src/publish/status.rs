//! What is known of an Envoy, for pools, admin and metrics.

use std::sync::Arc;

use kv_routing::wire::{Epoch, Generation, LoadRow, PoolId};
use tokio::time::Instant;

/// How pushing to an Envoy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Nothing was sent: pools are not settled yet.
    Waiting,
    /// It is being sent everything.
    Filling,
    /// It holds everything, as of the last push.
    InSync,
    /// The last push failed.
    Unreachable,
    /// Another bridge, started later, serves it.
    Superseded,
}

impl LinkState {
    /// Word used in metrics and the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Filling => "filling",
            Self::InSync => "in_sync",
            Self::Unreachable => "unreachable",
            Self::Superseded => "superseded",
        }
    }

    /// Every state.
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Filling, Self::InSync, Self::Unreachable, Self::Superseded];
}

/// What is known of an Envoy.
#[derive(Clone, Debug)]
pub struct EnvoyStatus {
    /// Its name.
    pub name: String,
    /// How pushing goes.
    pub state: LinkState,
    /// Why the last failed push failed; stays until the next success.
    pub error: Option<String>,
    /// Manifest in place, from the last reply.
    pub in_place: Option<(Epoch, Generation)>,
    /// By pool, the version of the target table that the manifest in place stands for.
    pub tables: Vec<u64>,
    /// Ids of the tokenizers that the manifest in place names.
    pub tokenizers: Vec<u64>,
    /// Version of the policy document that the manifest in place names; 0 for none.
    pub policy: u64,
    /// When the last reply came.
    pub last_reply: Option<Instant>,
    /// Load rows of its VMs, from the last reply.
    pub load_rows: Arc<Vec<(u32, LoadRow)>>,
    /// They are no older than this: when the push was sent whose reply brought them.
    pub rows_as_of: Option<Instant>,
}

impl EnvoyStatus {
    /// Nothing is known yet.
    pub(super) fn new(name: String, pools: usize) -> Self {
        Self {
            name,
            state: LinkState::Waiting,
            error: None,
            in_place: None,
            tables: vec![0; pools],
            tokenizers: Vec::new(),
            policy: 0,
            last_reply: None,
            load_rows: Arc::default(),
            rows_as_of: None,
        }
    }

    /// Whether requests cannot be routed by a table older than `version` any more. An Envoy that cannot be reached may
    /// be; it is passed over, since waiting for it would keep removed workers forever.
    pub fn has_table(&self, pool: PoolId, version: u64) -> bool {
        match self.state {
            LinkState::Filling | LinkState::InSync => {
                self.tables.get(usize::from(pool.0)).is_some_and(|table| *table >= version)
            }
            LinkState::Waiting | LinkState::Unreachable | LinkState::Superseded => true,
        }
    }
}

/// A status of an Envoy that is in `state`, for tests elsewhere.
#[cfg(test)]
pub(crate) fn test_status(state: LinkState) -> EnvoyStatus {
    EnvoyStatus { state, ..EnvoyStatus::new("e".to_owned(), 0) }
}
