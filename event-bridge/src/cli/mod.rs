//! The command line. Every command is a file here; `main` only calls [`main`].
//!
//! Answers go to standard output, logs and errors to standard error. Colour is used on terminals only, and not when
//! `NO_COLOR` is set.

mod admin;
mod capture;
mod check;
mod completions;
mod error;
mod events;
mod explain;
mod index;
mod input;
mod messages;
mod model;
mod out;
mod policy;
mod render;
mod run;
mod simulate;
mod tokenizer;
mod workers;

use clap::{Parser, Subcommand};

pub use error::CliError;

const EXIT_CODES: &str =
    "Exit codes: 0 success, 1 the command failed, 2 wrong usage, 3 a configuration or policy document was refused.";

/// Follows the KV-cache events of inference engines and supplies Envoys with what they need to route by them.
#[derive(Debug, Parser)]
#[command(name = "event-bridge", version, about, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the bridge until SIGTERM or SIGINT.
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    /// Check a configuration and what it names, and print what the bridge would do.
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Print what the filter makes of a request: prompt text, token ids, block hashes.
    #[command(after_help = render::EXAMPLES)]
    Render(render::RenderArgs),
    /// Compile and check tokenizers.
    #[command(after_help = tokenizer::EXAMPLES)]
    Tokenizer(tokenizer::TokenizerArgs),
    /// Decode captured KV events, or follow a live engine.
    #[command(after_help = events::EXAMPLES)]
    Events(events::EventsArgs),
    /// Build the prefix index of a capture.
    #[command(after_help = index::EXAMPLES)]
    Index(index::IndexArgs),
    /// Replay a trace against modelled engines, policy beside policy.
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::SimulateArgs),
    /// Show, check, put in force and take back route policies of a running bridge.
    #[command(after_help = policy::EXAMPLES)]
    Policy(policy::PolicyArgs),
    /// Print what the filter would do with a request now, and why.
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::ExplainArgs),
    /// Show the workers of a running bridge.
    #[command(after_help = workers::EXAMPLES)]
    Workers(workers::WorkersArgs),
    /// Print a completion script for a shell.
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::CompletionsArgs),
}

/// Carries out a command.
///
/// # Errors
/// [`CliError`] with the text for standard error and the exit code.
pub fn main(cli: Cli) -> Result<(), CliError> {
    match cli.command {
        Command::Run(args) => run::run(args),
        Command::Check(args) => check::check(&args),
        Command::Render(args) => render::render(&args),
        Command::Tokenizer(args) => tokenizer::tokenizer(&args),
        Command::Events(args) => events::events(args),
        Command::Index(args) => index::index(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Policy(args) => policy::policy(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Workers(args) => workers::workers(&args),
        Command::Completions(args) => completions::completions(&args),
    }
}
