//! Measures what the filter adds to a request's path and writes the table into `bench/README.md`; `make bench-path`
//! starts it.

#![allow(clippy::print_stdout, reason = "it tells how far it is, and its output is a table")]

use anyhow::Result;
use bench::path::{self, Case, Scene};
use bench::readme;
use clap::Parser;

#[derive(Parser)]
struct Arguments {
    /// Length of each of the measurements; there are 18 for each of the 8 cases.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Leave bench/README.md as it is.
    #[arg(long)]
    keep_readme: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { seconds, keep_readme } = Arguments::parse();
    println!("starting Envoy");
    let ready = path::ready().await;
    let scene = Scene::start().await?;
    let mut outcomes = Vec::new();
    for case in Case::ALL {
        println!("measuring {} tokens, {:?}", case.tokens, case.unique);
        outcomes.push(case.measure(&scene, seconds).await?);
    }
    let table = path::render(&outcomes) + &path::render_ready(ready);
    println!("\n{table}");
    if !keep_readme {
        readme::write("bench-path", &table)?;
    }
    Ok(())
}
