//! Measures tokenizing inside Envoy and writes the table into `bench/README.md`; `make bench-tokens` starts it.

#![allow(clippy::print_stdout, reason = "its output is a table")]

use std::path::PathBuf;

use anyhow::Result;
use bench::{readme, tokens};
use clap::Parser;
use e2e::paths;

#[derive(Parser)]
struct Arguments {
    /// The measuring filter: package `bench-tokens`, built for wasm.
    wasm: PathBuf,
    /// Model family below `.deps/tokenizers`.
    #[arg(long, default_value = "qwen3")]
    model: String,
    /// Leave bench/README.md as it is.
    #[arg(long)]
    keep_readme: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let outcome = tokens::measure(&paths::model_dir(&arguments.model), &arguments.wasm).await?;
    let table = tokens::render(&outcome);
    println!("{table}");
    if !arguments.keep_readme {
        readme::write("bench-tokens", &table)?;
    }
    Ok(())
}
