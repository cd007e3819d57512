//! What a load measured.

use std::time::Duration;

/// Latencies, ascending once finished, and failures.
#[derive(Clone, Debug, Default)]
pub struct Report {
    latencies: Vec<Duration>,
    elapsed: Duration,
    /// Requests without a 200 answer.
    pub failures: u64,
    /// What the first of them was.
    pub first_failure: Option<String>,
}

impl Report {
    pub(super) fn success(&mut self, latency: Duration) {
        self.latencies.push(latency);
    }

    pub(super) fn failure(&mut self, what: String) {
        self.failures += 1;
        self.first_failure.get_or_insert(what);
    }

    pub(super) fn merge(&mut self, other: Self) {
        let Self { latencies, elapsed: _, failures, first_failure } = other;
        self.latencies.extend(latencies);
        self.failures += failures;
        self.first_failure = self.first_failure.take().or(first_failure);
    }

    pub(super) fn finish(&mut self, elapsed: Duration) {
        self.latencies.sort_unstable();
        self.elapsed = elapsed;
    }

    /// Requests answered with 200.
    pub fn requests(&self) -> usize {
        self.latencies.len()
    }

    /// Answered requests per second.
    pub fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// Latency below which `share` (0 to 1) of the answered requests lie; zero when there are none.
    pub fn quantile(&self, share: f64) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    /// Mean latency; zero when there are no answered requests.
    pub fn mean(&self) -> Duration {
        self.latencies.iter().sum::<Duration>() / u32::try_from(self.latencies.len()).unwrap_or(u32::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_latencies() {
        let mut report = Report::default();
        for millis in (1..=101).rev() {
            report.success(Duration::from_millis(millis));
        }
        report.failure("x".into());
        report.finish(Duration::from_secs(2));
        assert_eq!(report.quantile(0.5), Duration::from_millis(51));
        assert_eq!(report.quantile(0.99), Duration::from_millis(100));
        assert_eq!(report.mean(), Duration::from_millis(51));
        assert_eq!(report.per_second(), 50.5);
        assert_eq!(report.failures, 1);
        assert_eq!(Report::default().quantile(0.5), Duration::ZERO);
    }
}
