//! `event-bridge policy`.

mod change;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::Value;

use self::change::{ChangeArgs, accepted, refused};
use self::show::{ShowArgs, warnings};
use super::admin::{AdminArgs, Call};
use super::out::{self, word};
use super::{CliError, input};
use crate::config::Config;
use crate::policy::{Surroundings, compile};

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge policy show
  event-bridge policy check policy.json --config bridge.yaml
  event-bridge policy push policy.json --author ci --wait 5
  event-bridge policy rollback
  event-bridge policy shadow candidate.json --sample 0.1
  event-bridge policy variables

A refused document leaves the old one in force; every problem is printed with the JSON pointer of its field, exit code 3.";

#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The document in force, who runs it, its predecessors, and how a shadow does.
    Show(ShowArgs),
    /// Check a document without effect.
    Check(CheckArgs),
    /// Put a document in force.
    Push(PushArgs),
    /// Go back to an earlier document.
    Rollback(RollbackArgs),
    /// Evaluate a document beside the one in force, without effect.
    Shadow(ShadowArgs),
    /// The numbers a cost expression may use.
    Variables,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// Document; `-` is standard input.
    file: PathBuf,
    /// Check model and adapter names against this configuration instead of a running bridge.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Take every model and adapter name for one that exists; needs neither configuration nor bridge.
    #[arg(long, conflicts_with = "config")]
    any_name: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Args)]
struct PushArgs {
    /// Document; `-` is standard input.
    file: PathBuf,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
struct RollbackArgs {
    /// Version to go back to; the one before that in force without.
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
struct ShadowArgs {
    /// Document; `-` is standard input.
    #[arg(required_unless_present = "off")]
    file: Option<PathBuf>,
    /// Share of requests, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    sample: f64,
    /// End the shadow.
    #[arg(long, conflicts_with = "file")]
    off: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) fn policy(args: &PolicyArgs) -> Result<(), CliError> {
    match &args.command {
        Command::Show(args) => show::show(args),
        Command::Check(args) => check(args),
        Command::Push(args) => {
            let body = input::read(&args.file)?;
            args.change.make(Method::PUT, "/policy", &[], body, Some(&args.file))
        }
        Command::Rollback(args) => {
            let version = args.version.map(|version| format!("version={version}"));
            args.change.make(Method::POST, "/policy/rollback", version.as_slice(), Vec::new(), None)
        }
        Command::Shadow(args) => shadow(args),
        Command::Variables => {
            let rows = crate::policy::expression::variables().map(|(name, meaning)| vec![name.into(), meaning.into()]);
            out::print(&out::table(&rows.collect::<Vec<_>>(), false))
        }
    }
}

fn check(args: &CheckArgs) -> Result<(), CliError> {
    let text = input::read(&args.file)?;
    let surroundings = match &args.config {
        Some(path) => Some(Surroundings::of(&Config::load(path)?)),
        None => args.any_name.then(Surroundings::anything),
    };
    let warnings = match surroundings {
        Some(surroundings) => compile(&text, &surroundings).map_err(|problems| refused(&args.file, problems))?.warnings,
        None => {
            let call = Call { method: Method::PUT, body: text, ..Call::get("/policy?dry_run=true") };
            let answer = accepted(args.admin.call(call)?, Some(&args.file))?;
            serde_json::from_value(answer.get("warnings").cloned().unwrap_or_default())?
        }
    };
    let lines: String = warnings.iter().map(|warning| format!("{warning}\n")).collect();
    out::print(&format!("{lines}{}: good, {} warnings\n", args.file.display(), warnings.len()))
}

fn shadow(args: &ShadowArgs) -> Result<(), CliError> {
    let Some(file) = &args.file else {
        let call = Call { method: Method::DELETE, ..Call::get("/policy/shadow") };
        let dropped = args.change.admin.expect(call)?.get("dropped") == Some(&Value::Bool(true));
        return out::print(if dropped { "the shadow is gone\n" } else { "there was no shadow\n" });
    };
    let path = format!("/policy/shadow?sample={}", args.sample);
    let body = input::read(file)?;
    let call = Call { method: Method::PUT, headers: args.change.headers(), body, ..Call::get(&path) };
    let answer = accepted(args.change.admin.call(call)?, Some(file))?;
    let loaded = answer.get("shadow").unwrap_or(&Value::Null);
    let (hash, warnings) = (word(loaded, "hash"), warnings(loaded));
    out::print(&format!("{warnings}shadow loaded, hash {hash}; `event-bridge policy show` tells how it does\n"))
}
