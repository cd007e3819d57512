//! Which engines are asked for their tokens, when, and what they said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::WorkerAddress;
use crate::cross_check::Outcome;

/// An engine that could not be asked is asked again after this time.
const AGAIN: Duration = Duration::from_secs(30);

/// Every worker is asked once it is healthy, and again when its process is another one. One is asked at a time.
#[derive(Debug, Default)]
pub(super) struct EngineChecks {
    due: BTreeMap<WorkerAddress, Instant>,
    running: Option<WorkerAddress>,
    outcomes: BTreeMap<WorkerAddress, Outcome>,
    /// Those that differed when they answered last.
    differing: BTreeSet<WorkerAddress>,
}

impl EngineChecks {
    /// A worker has become healthy, or is another process than before.
    pub(super) fn is_new(&mut self, worker: WorkerAddress, now: Instant) {
        self.due.insert(worker, now);
    }

    /// The worker to ask now, if there is one among the `healthy`. It counts as being asked until [`EngineChecks::done`].
    pub(super) fn next(&mut self, healthy: impl Fn(WorkerAddress) -> bool, now: Instant) -> Option<WorkerAddress> {
        if self.running.is_some() {
            return None;
        }
        let due = self.due.iter().find(|(worker, at)| **at <= now && healthy(**worker)).map(|(worker, _)| *worker)?;
        self.due.remove(&due);
        self.running = Some(due);
        Some(due)
    }

    /// Takes what came of asking.
    pub(super) fn done(&mut self, worker: WorkerAddress, outcome: Outcome, now: Instant) {
        self.running = None;
        match outcome {
            Outcome::Differs(_) => drop(self.differing.insert(worker)),
            Outcome::Agrees(_) => drop(self.differing.remove(&worker)),
            Outcome::Unanswered { .. } => {}
        }
        if matches!(outcome, Outcome::Unanswered { again: true, .. }) {
            self.due.entry(worker).or_insert(now + AGAIN);
        }
        self.outcomes.insert(worker, outcome);
    }

    /// What a worker has said last.
    pub(super) fn outcome(&self, worker: WorkerAddress) -> Option<&Outcome> {
        self.outcomes.get(&worker)
    }

    /// Whether a worker differed when it answered last.
    pub(super) fn differed(&self, worker: WorkerAddress) -> bool {
        self.differing.contains(&worker)
    }

    /// Forgets workers that are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(WorkerAddress) -> bool) {
        self.due.retain(|worker, _| is_there(*worker));
        self.outcomes.retain(|worker, _| is_there(*worker));
        self.differing.retain(|worker| is_there(*worker));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(port: u16) -> WorkerAddress {
        WorkerAddress::parse(&format!("127.0.0.1:{port}")).unwrap()
    }

    #[test]
    fn one_at_a_time_again_when_it_failed_and_when_the_process_is_new() {
        let (mut checks, now) = (EngineChecks::default(), Instant::now());
        let unanswered = |again| Outcome::Unanswered { why: "no".into(), again };
        assert_eq!(checks.next(|_| true, now), None);
        checks.is_new(worker(1), now);
        checks.is_new(worker(2), now);
        assert_eq!(checks.next(|_| false, now), None);
        assert_eq!(checks.next(|_| true, now), Some(worker(1)));
        assert_eq!(checks.next(|_| true, now), None, "one is being asked");
        checks.done(worker(1), unanswered(true), now);
        assert_eq!(checks.next(|_| true, now), Some(worker(2)));
        checks.done(worker(2), unanswered(false), now);
        assert_eq!(checks.next(|_| true, now), None);
        assert_eq!(checks.next(|_| true, now + AGAIN), Some(worker(1)), "and not the one for which it is no use");
        checks.is_new(worker(1), now);
        checks.done(worker(1), unanswered(false), now);
        assert_eq!(checks.next(|_| true, now), Some(worker(1)), "restarted while it was asked");
        checks.done(worker(1), unanswered(false), now);
        assert_eq!(checks.outcome(worker(2)), Some(&unanswered(false)));
        checks.retain(|there| there == worker(1));
        assert_eq!(checks.outcome(worker(2)), None);
    }
}
