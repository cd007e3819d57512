//! The outcome as a Markdown table.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Outcome, Unique};

/// One row per case. What is "added" is the difference to the same Envoy without the filter.
pub fn render(outcomes: &[Outcome]) -> String {
    let mut table = String::from(
        "| prompt | text | direct p50 | Envoy p50 | with filter p50 | added p50 | budget | added p99 | CPU/request, Envoy alone | CPU/request, with filter | requests/s, Envoy alone | requests/s, with filter |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for Outcome { case, direct, plain, filter } in outcomes {
        let text = match case.unique {
            Unique::Tail => "shared prefix",
            Unique::Throughout => "unseen",
        };
        let _infallible = writeln!(
            table,
            "| {}K | {text} | {} | {} | {} | **{}** | {} | {} | {} | {} | {:.0} | {:.0} |",
            case.tokens / 1000,
            millis(direct.p50),
            millis(plain.p50),
            millis(filter.p50),
            difference(filter.p50, plain.p50),
            millis(case.budget),
            difference(filter.p99, plain.p99),
            millis(plain.cpu),
            millis(filter.cpu),
            plain.per_second,
            filter.per_second,
        );
    }
    table
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Noise can make it negative, and hiding that would hide the noise.
fn difference(more: Duration, less: Duration) -> String {
    format!("{:.2} ms", (more.as_secs_f64() - less.as_secs_f64()) * 1e3)
}
