//! Polling: tests wait for what they need to see, never for an amount of time.

use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(5);

/// Calls `probe` until it gives a value, and returns it with the time that took.
///
/// # Panics
/// After `limit`, naming `what`.
pub async fn until<T>(what: &str, limit: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> (T, Duration) {
    let start = Instant::now();
    loop {
        if let Some(value) = probe().await {
            return (value, start.elapsed());
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(PERIOD).await;
    }
}
