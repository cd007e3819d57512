//! The first 500 requests of the Mooncake conversation trace on four simulated engines, by way of balancing;
//! `make bench-replay` starts it.

#![allow(clippy::print_stdout, reason = "its output is a table")]

use anyhow::Result;
use clap::Parser;
use e2e::replay::{self, Balancing, Outcome};

#[derive(Parser)]
struct Arguments {
    /// Requests of the trace.
    #[arg(long, default_value_t = 500)]
    requests: usize,
    /// How many times faster than recorded everything happens.
    #[arg(long, default_value_t = 5.0)]
    compression: f64,
    /// Two engines prefill and two decode, by way of choosing them.
    #[arg(long)]
    split: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { requests, compression, split } = Arguments::parse();
    let requests = replay::first(requests);
    println!("{} requests, {compression} times as fast; times are in the trace's own time\n", requests.len());
    println!("| balancing | prefix hit rate | TTFT mean | TTFT p90 | TTFT p99 |");
    println!("|---|---|---|---|---|");
    if split {
        for (name, policy) in replay::splits() {
            // What decode engines report as cached came over from the prefill engines.
            row(&name, "-", &replay::replay_split(&policy, &requests, compression).await?, compression);
        }
        return Ok(());
    }
    for balancing in Balancing::ALL {
        let outcome = balancing.replay(&requests, compression).await?;
        row(balancing.name(), &format!("{:.2} %", 100.0 * outcome.hit_rate()), &outcome, compression);
    }
    Ok(())
}

fn row(name: &str, hit_rate: &str, outcome: &Outcome, compression: f64) {
    println!(
        "| {name} | {hit_rate} | {:.0} ms | {:.0} ms | {:.0} ms |",
        outcome.mean().as_secs_f64() * compression * 1e3,
        outcome.quantile(0.9).as_secs_f64() * compression * 1e3,
        outcome.quantile(0.99).as_secs_f64() * compression * 1e3,
    );
}
