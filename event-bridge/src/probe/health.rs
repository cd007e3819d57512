//! Probe outcomes to health: one success makes a worker healthy, several failures in a row make it unhealthy.

use kv_routing::wire::Health;

/// Health of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HealthTracker {
    health: Health,
    failures: u32,
    unhealthy_after: u32,
}

impl HealthTracker {
    /// Not probed yet.
    pub(super) fn new(unhealthy_after: u32) -> Self {
        Self { health: Health::Unknown, failures: 0, unhealthy_after }
    }

    /// Takes one probe's outcome.
    pub(super) fn record(&mut self, success: bool) -> Health {
        if success {
            self.failures = 0;
            self.health = Health::Healthy;
        } else {
            self.failures = self.failures.saturating_add(1);
            if self.failures >= self.unhealthy_after {
                self.health = Health::Unhealthy;
            }
        }
        self.health
    }

    /// Whether the last probe failed and the next one decides, so that it should come soon.
    pub(super) fn in_doubt(&self) -> bool {
        self.failures > 0 && self.failures < self.unhealthy_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_decide() {
        let mut tracker = HealthTracker::new(2);
        assert_eq!(tracker.record(false), Health::Unknown);
        assert!(tracker.in_doubt());
        assert_eq!(tracker.record(true), Health::Healthy);
        assert_eq!(tracker.record(false), Health::Healthy);
        assert_eq!(tracker.record(false), Health::Unhealthy);
        assert!(!tracker.in_doubt());
        assert_eq!(tracker.record(true), Health::Healthy);
    }
}
