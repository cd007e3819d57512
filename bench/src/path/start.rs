//! How long Envoy takes from its start until it is ready, which is mostly compiling the filter.

use std::time::{Duration, Instant};

use e2e::envoy::{self, Envoy};
use e2e::scratch::Scratch;

const STARTS: usize = 5;
/// Budget for the median.
const BUDGET: Duration = Duration::from_secs(4);

/// Median of several starts, one after another.
pub async fn ready() -> Duration {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let scratch = Scratch::new();
        scratch.replace("eds.json", r#"{"resources": []}"#);
        let began = Instant::now();
        let envoy = Envoy::start(&scratch, &envoy::Options::default()).await;
        times.push(began.elapsed());
        drop(envoy);
    }
    times.sort_unstable();
    times[STARTS / 2]
}

/// The sentence below the table.
pub fn render_ready(time: Duration) -> String {
    format!(
        "\nEnvoy with the filter and two threads is ready {:.2} s after its start (median of {STARTS}; budget {} s).",
        time.as_secs_f64(),
        BUDGET.as_secs()
    )
}
