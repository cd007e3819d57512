//! The event bridge's process: arguments, and what becomes of the result.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use event_bridge::cli::{self, Cli};

fn main() -> ExitCode {
    match cli::main(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With standard error gone there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "event-bridge: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
