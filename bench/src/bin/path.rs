//! Measures what the filter adds to a request's path and writes the table into `bench/README.md`; `make bench-path`
//! starts it.

#![allow(clippy::print_stdout, reason = "it tells how far it is, and its output is a table")]

use std::fs;

use anyhow::{Context, Result};
use bench::path::{self, Case, Scene};
use clap::Parser;
use e2e::paths;

const BEGIN: &str = "<!-- make bench-path writes from here -->\n";
const END: &str = "<!-- to here -->\n";

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
    let scene = Scene::start().await?;
    let mut outcomes = Vec::new();
    for case in Case::ALL {
        println!("measuring {} tokens, {:?}", case.tokens, case.unique);
        outcomes.push(case.measure(&scene, seconds).await?);
    }
    let table = path::render(&outcomes);
    println!("\n{table}");
    if !keep_readme {
        write_readme(&table)?;
    }
    Ok(())
}

fn write_readme(table: &str) -> Result<()> {
    let path = paths::repository().join("bench/README.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (before, rest) = text.split_once(BEGIN).context("bench/README.md has no place for the table")?;
    let (_, after) = rest.split_once(END).context("bench/README.md has no end of the table")?;
    fs::write(&path, format!("{before}{BEGIN}\n{table}\n{END}{after}")).context("writing bench/README.md")
}
