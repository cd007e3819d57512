//! `event-bridge policy`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::admin::{AdminArgs, Call};
use super::out::{self, Cell, Tone, list, word};
use super::{CliError, input};
use crate::clock;
use crate::config::Config;
use crate::policy::{Problem, Refused, Surroundings, compile};

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
struct ShowArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Print the document itself and nothing else.
    #[arg(long, conflicts_with = "json")]
    document: bool,
    /// Print the admin server's JSON as it is.
    #[arg(long)]
    json: bool,
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
struct ChangeArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Name in the history.
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// Seconds to wait while an Envoy thread is known to run another one; that, and an Envoy that cannot be reached, is exit code 1.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=30))]
    wait: Option<u64>,
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
        Command::Show(args) => show(args),
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

impl ChangeArgs {
    fn headers(&self) -> Vec<(String, String)> {
        self.author.iter().map(|author| ("x-policy-author".to_owned(), author.clone())).collect()
    }

    /// Changes what is in force and prints what came of it.
    fn make(
        &self,
        method: Method,
        path: &str,
        query: &[String],
        body: Vec<u8>,
        file: Option<&Path>,
    ) -> Result<(), CliError> {
        let wait = Duration::from_secs(self.wait.unwrap_or(0));
        let mut query = query.to_vec();
        query.push(format!("wait_ms={}", wait.as_millis()));
        let path = format!("{path}?{}", query.join("&"));
        let call = Call { method, path: &path, headers: self.headers(), body, wait };
        let answer = accepted(self.admin.call(call)?, file)?;
        let in_force = answer.get("in_force").unwrap_or(&Value::Null);
        let text = format!("version {} is in force, hash {}\n", word(in_force, "version"), word(in_force, "hash"));
        let envoys = out::table(&envoys(&answer), out::colour());
        out::print(&format!("{text}{}{envoys}", warnings(in_force)))?;
        match self.wait {
            Some(_) => effective(&answer),
            None => Ok(()),
        }
    }
}

/// Whether nothing else is known to be run. Threads that have not routed yet are no failure: they begin with this document.
fn effective(answer: &Value) -> Result<(), CliError> {
    let (pending, unreachable) = (named(answer, "pending"), named(answer, "unreachable"));
    if pending.is_empty() && unreachable.is_empty() {
        return Ok(());
    }
    Err(CliError::NotEverywhere { pending, unreachable })
}

/// Names of the Envoys in such a state.
fn named(answer: &Value, state: &str) -> Vec<String> {
    let envoys = list(answer, "envoys").filter(|envoy| word(envoy, "policy") == state);
    envoys.map(|envoy| word(envoy, "name")).collect()
}

/// The answer, unless the document was refused.
fn accepted((status, answer): (StatusCode, Value), file: Option<&Path>) -> Result<Value, CliError> {
    if status.is_success() {
        return Ok(answer);
    }
    let problems: Vec<Problem> = match answer.get("problems") {
        Some(problems) => serde_json::from_value(problems.clone())?,
        None => Vec::new(),
    };
    match file {
        Some(file) if !problems.is_empty() => Err(refused(file, Refused(problems))),
        _ => Err(CliError::Input(format!("the bridge answered {status}: {}", word(&answer, "error")))),
    }
}

fn refused(file: &Path, refused: Refused) -> CliError {
    CliError::Policy { path: file.to_owned(), refused }
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

fn show(args: &ShowArgs) -> Result<(), CliError> {
    let shown = args.admin.get("/policy")?;
    if args.json {
        return out::print(&format!("{shown:#}\n"));
    }
    let in_force = shown.get("in_force").filter(|entry| !entry.is_null());
    if args.document {
        let document = in_force.and_then(|entry| entry.get("document"));
        let none = || CliError::Input("there is no policy document: the filter's own configuration applies".into());
        return out::print(&format!("{:#}\n", document.ok_or_else(none)?));
    }
    let history = args.admin.get("/policy/history")?;
    let colour = out::colour();
    let mut text = match in_force {
        Some(entry) => format!("in force: version {}, hash {}\n", word(entry, "version"), word(entry, "hash")),
        None => "in force: no document, the filter's own configuration applies\n".to_owned(),
    };
    text.push_str(&in_force.map(warnings).unwrap_or_default());
    text.push_str(&file(shown.get("file").unwrap_or(&Value::Null)));
    text.push_str(&format!("\n{}", out::table(&envoys(&shown), colour)));
    let rows = history_rows(&history, clock::unix_millis().0);
    if rows.len() > 1 {
        text.push_str(&format!("\n{}", out::table(&rows, false)));
    }
    text.push_str(&shadow_text(shown.get("shadow").unwrap_or(&Value::Null)));
    out::print(&text)
}

fn warnings(entry: &Value) -> String {
    let line = |problem: &Value| format!("warning at `{}`: {}\n", word(problem, "pointer"), word(problem, "message"));
    list(entry, "warnings").map(line).collect()
}

/// The watched file, when there is one.
fn file(file: &Value) -> String {
    let Some(path) = file.get("path").and_then(Value::as_str) else { return String::new() };
    let mut text = format!("file: {path}\n");
    for problem in list(file, "refused").filter(|problem| word(problem, "severity") == "error") {
        text.push_str(&format!("  refused at `{}`: {}\n", word(problem, "pointer"), word(problem, "message")));
    }
    if let Some(error) = file.get("unreadable").and_then(Value::as_str) {
        text.push_str(&format!("  cannot be read: {error}\n"));
    }
    text
}

fn envoys(answer: &Value) -> Vec<Vec<Cell>> {
    let mut rows = vec![["ENVOY", "STATE", "HOLDS", "THREADS", "RUNNING IT", "POLICY"].map(Cell::from).to_vec()];
    rows.extend(list(answer, "envoys").map(|envoy| {
        let (all, running) = (word(envoy, "threads"), word(envoy, "threads_running"));
        let state = word(envoy, "state");
        let state_tone = if state == "in_sync" { Tone::Good } else { Tone::Doubtful };
        let tone = if all == running { Tone::Good } else { Tone::Doubtful };
        let policy = word(envoy, "policy");
        let policy_tone = if policy == "running" { Tone::Good } else { Tone::Doubtful };
        vec![
            word(envoy, "name").into(),
            Cell::new(state, state_tone),
            word(envoy, "holds").into(),
            all.into(),
            Cell::new(running, tone),
            Cell::new(policy, policy_tone),
        ]
    }));
    rows
}

fn history_rows(history: &Value, now: u64) -> Vec<Vec<Cell>> {
    let mut rows = vec![["VERSION", "HASH", "WHO", "AGO", "WARNINGS"].map(Cell::from).to_vec()];
    rows.extend(list(history, "documents").map(|entry| {
        let at = entry.get("at_unix_ms").and_then(Value::as_u64).unwrap_or(now);
        [
            word(entry, "version"),
            word(entry, "hash"),
            word(entry, "who"),
            ago(now.saturating_sub(at)),
            list(entry, "warnings").count().to_string(),
        ]
        .map(Cell::from)
        .to_vec()
    }));
    rows
}

fn ago(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

/// How a shadow does beside the document in force.
fn shadow_text(shadow: &Value) -> String {
    if shadow.is_null() {
        return String::new();
    }
    let sample = shadow.get("sample_per_million").and_then(Value::as_f64).unwrap_or(0.0) / 1e4;
    let mut text = format!("\nshadow: hash {}, {sample} % of requests\n", word(shadow, "hash"));
    let Some(tally) = shadow.get("tally") else { return text };
    let number = |field: &str| tally.get(field).and_then(Value::as_f64).unwrap_or(0.0);
    let share = |field: &str| Cell::from(format!("{:.1} %", 100.0 * number(field)));
    let rows = [
        ["", "LIVE", "SHADOW"].map(Cell::from).to_vec(),
        vec!["predicted hit rate".into(), share("live_hit_rate"), share("shadow_hit_rate")],
        vec![
            "load variation".into(),
            format!("{:.2}", number("live_load_variation")).into(),
            format!("{:.2}", number("shadow_load_variation")).into(),
        ],
    ];
    text.push_str(&format!("{} requests, {:.1} % agree\n", number("requests"), 100.0 * number("agreement")));
    text.push_str(&out::table(&rows, false));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_names_every_field() {
        let problem = json!({"severity": "error", "pointer": "/policies/p/mode", "message": "unknown variant"});
        let answer = (StatusCode::UNPROCESSABLE_ENTITY, json!({"error": "refused", "problems": [problem]}));
        let error = accepted(answer, Some(Path::new("new.json"))).unwrap_err();
        assert_eq!(error.to_string(), "new.json is refused: error at `/policies/p/mode`: unknown variant");
        assert_eq!(error.exit_code(), 3);
        let gone = accepted((StatusCode::NOT_FOUND, json!({"error": "nothing to go back to"})), None).unwrap_err();
        assert!(gone.to_string().contains("nothing to go back to") && gone.exit_code() == 1);
    }

    #[test]
    fn envoys_that_run_something_else_or_cannot_be_asked_are_named() {
        let answer = |states: &[&str]| {
            let envoys =
                (0..).zip(states).map(|(number, state)| json!({"name": format!("e{number}"), "policy": state}));
            json!({"envoys": envoys.collect::<Vec<_>>()})
        };
        assert!(effective(&answer(&["running", "unknown"])).is_ok());
        let error = effective(&answer(&["running", "pending", "unreachable", "pending"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("e1, e3 still run another") && text.contains("e2 cannot be reached"), "{text}");
        assert_eq!(error.exit_code(), 1);
        assert!(!effective(&answer(&["unreachable"])).unwrap_err().to_string().contains("another"));
    }

    #[test]
    fn ages_are_rounded_down() {
        assert_eq!([ago(1_999), ago(119_000), ago(120_000), ago(9_000_000)], ["1 s", "119 s", "2 min", "2 h"]);
    }
}
