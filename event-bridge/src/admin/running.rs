//! Which Envoys run a policy document, as far as they have said.

use serde_json::{Value, json};

use crate::publish::{EnvoyStatus, LinkState};

/// What is known of one Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Threads of it have routed, and all of them run the document.
    Running,
    /// It can be reached, and does not hold the document yet, or some thread still runs another one.
    Pending,
    /// It has not said: no thread has routed yet, so each will read the document at its first request; or another bridge
    /// supplies it.
    Unknown,
    /// The last push failed.
    Unreachable,
}

impl Known {
    fn of(envoy: &EnvoyStatus, version: u64) -> Self {
        let (all, running) = threads(envoy, version);
        match envoy.state {
            LinkState::Unreachable => Self::Unreachable,
            LinkState::Superseded => Self::Unknown,
            LinkState::Waiting | LinkState::Filling => Self::Pending,
            LinkState::InSync if envoy.policy != version || running < all => Self::Pending,
            LinkState::InSync if all == 0 => Self::Unknown,
            LinkState::InSync => Self::Running,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Pending => "pending",
            Self::Unknown => "unknown",
            Self::Unreachable => "unreachable",
        }
    }
}

/// Threads with a load row that is kept fresh, which begins with the first request they route; and those of them that
/// route by `version`.
fn threads(envoy: &EnvoyStatus, version: u64) -> (usize, usize) {
    let running = envoy.load_rows.iter().filter(|(_, row)| row.policy_version == version).count();
    (envoy.load_rows.len(), running)
}

/// Whether every thread of every Envoy is known to run `version`.
pub(super) fn everywhere(envoys: &[EnvoyStatus], version: u64) -> bool {
    envoys.iter().all(|envoy| Known::of(envoy, version) == Known::Running)
}

/// Whether waiting may change what is known: an Envoy that can be reached still runs something else.
pub(super) fn is_pending(envoys: &[EnvoyStatus], version: u64) -> bool {
    envoys.iter().any(|envoy| Known::of(envoy, version) == Known::Pending)
}

/// Each Envoy for the admin API.
pub(super) fn shown(envoys: &[EnvoyStatus], version: u64) -> Vec<Value> {
    let envoy = |envoy: &EnvoyStatus| {
        let (all, running) = threads(envoy, version);
        json!({
            "name": envoy.name,
            "state": envoy.state.as_str(),
            "policy": Known::of(envoy, version).as_str(),
            "holds": envoy.policy,
            "threads": all,
            "threads_running": running,
        })
    };
    envoys.iter().map(envoy).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kv_routing::wire::{Generation, LoadRow, UnixMillis};

    use super::*;
    use crate::publish::test_status;

    /// An Envoy whose manifest names document `holds`, with threads that run these.
    fn envoy(state: LinkState, holds: u64, threads: &[u64]) -> EnvoyStatus {
        let row = |version: &u64| LoadRow {
            owner: 1,
            written: UnixMillis(1),
            generation: Generation(1),
            policy_version: *version,
            entries: Vec::new(),
            recent: Vec::new(),
        };
        let rows = (0..).zip(threads.iter().map(row)).collect();
        EnvoyStatus { policy: holds, load_rows: Arc::new(rows), ..test_status(state) }
    }

    #[test]
    fn nothing_is_claimed_of_an_envoy_that_has_not_said() {
        use LinkState::{Filling, InSync, Superseded, Unreachable, Waiting};
        for (state, holds, threads, expected) in [
            (InSync, 7, &[7, 7][..], Known::Running),
            (InSync, 7, &[7, 6], Known::Pending),
            (InSync, 6, &[6, 6], Known::Pending),
            (InSync, 7, &[], Known::Unknown),
            // Counted by the bridge before this one.
            (InSync, 7, &[9], Known::Pending),
            (Waiting, 0, &[], Known::Pending),
            (Filling, 7, &[7], Known::Pending),
            (Superseded, 7, &[7], Known::Unknown),
            (Unreachable, 7, &[7], Known::Unreachable),
        ] {
            let status = envoy(state, holds, threads);
            assert_eq!(Known::of(&status, 7), expected, "{status:?}");
            let envoys = [envoy(InSync, 7, &[7]), status];
            assert_eq!(everywhere(&envoys, 7), expected == Known::Running, "{envoys:?}");
            assert_eq!(is_pending(&envoys, 7), expected == Known::Pending, "{envoys:?}");
        }
    }
}
