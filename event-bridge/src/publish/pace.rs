//! When to push next: changed pages are gathered for a few milliseconds, longer when pushes are slow; failures back off.

use std::time::Duration;

/// Pushes of pages take at most about half of the time, up to this pause between two of them.
const MAX_PAUSE: Duration = Duration::from_millis(10);
/// First pause after a failure; it doubles with every further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
/// Short enough that an Envoy that comes back is refilled within a second.
const MAX_BACKOFF: Duration = Duration::from_millis(400);
/// Pause after a failure that only an operator can mend.
const OPERATOR_BACKOFF: Duration = Duration::from_secs(2);

/// Least time from the start of one push to the start of the next, after one that took `took`.
pub(super) fn gap(interval: Duration, took: Duration) -> Duration {
    interval.max(took + took.min(MAX_PAUSE))
}

/// Pauses between failed pushes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// A push succeeded.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// A push failed; the pause before the next.
    pub(super) fn next(&mut self, needs_operator: bool) -> Duration {
        let pause = FIRST_BACKOFF.saturating_mul(1 << self.failures.min(8)).min(MAX_BACKOFF);
        self.failures = self.failures.saturating_add(1);
        if needs_operator { OPERATOR_BACKOFF } else { pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn quick_pushes_keep_the_interval_and_slow_ones_stretch_it() {
        assert_eq!(gap(MS(4), MS(1)), MS(4));
        assert_eq!(gap(MS(4), MS(6)), MS(12));
        assert_eq!(gap(MS(4), MS(300)), MS(310));
    }

    #[test]
    fn failures_back_off_to_a_bound() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..5).map(|_| backoff.next(false)).collect();
        assert_eq!(pauses, [MS(50), MS(100), MS(200), MS(400), MS(400)]);
        backoff.reset();
        assert_eq!(backoff.next(false), MS(50));
        assert_eq!(backoff.next(true), MS(2000));
    }
}
