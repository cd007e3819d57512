//! Time of the step loop: deadlines follow each other exactly, so that timer granularity does not add up.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The end of the last step.
#[derive(Debug)]
pub(super) struct StepClock {
    last: Instant,
}

impl StepClock {
    pub(super) fn new() -> Self {
        Self { last: Instant::now() }
    }

    /// Starts counting from now, after the loop was idle.
    pub(super) fn resume(&mut self) {
        self.last = Instant::now();
    }

    /// Waits until `duration` after the end of the previous step.
    pub(super) async fn pass(&mut self, duration: Duration) {
        self.last += duration;
        sleep_until(self.last).await;
    }
}
