//! `event-bridge simulate`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use kv_routing::policy::document::{Mode, Policy, RuleSet, SessionKey};
use serde_json::{Value, json};

use super::CliError;
use super::out::{self, Cell};
use crate::policy::{Surroundings, compile};
use crate::simulate::{Arrival, EngineModel, Reading, Report, Setup, parse, simulate};

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge simulate --trace mooncake.jsonl --policy old.json --policy new.json
  event-bridge simulate --trace access.log --policy old.json --shadow new.json
  event-bridge simulate --trace mooncake.jsonl --modes --engines 8 --json";

#[derive(Debug, Args)]
pub(super) struct SimulateArgs {
    /// Trace: JSON lines in the Mooncake format, or Envoy's access log under a policy with `"explain": "trace"`.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Policy document; may be given several times, each is a column. Its rules see no headers, and no model but the default.
    #[arg(long, value_name = "FILE")]
    policy: Vec<PathBuf>,
    /// Policy document evaluated beside each of the others, without effect.
    #[arg(long, value_name = "FILE")]
    shadow: Option<PathBuf>,
    /// Also every mode, with default settings. Sessions are the conversations that the trace names by `session_id`, or else prompts
    /// that begin with the latest prompt of an earlier one. Mode `direct` needs a trace that names a `worker` (from 0) for each request.
    #[arg(long)]
    modes: bool,
    /// Number of engines.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    engines: u16,
    /// Prompt tokens an engine computes per second.
    #[arg(long, value_name = "N", default_value_t = 8000.0)]
    prefill_tokens_per_second: f64,
    /// Milliseconds per answer token.
    #[arg(long, value_name = "MS", default_value_t = 20.0)]
    decode_ms_per_token: f64,
    /// Requests an engine has in prefill and decode together.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    max_requests: u32,
    /// Tokens an engine's cache holds.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    cache_tokens: u64,
    /// Answer tokens of requests of which the trace does not tell, as an access log does not.
    #[arg(long, value_name = "N", default_value_t = 200)]
    answer_tokens: u32,
    /// How much faster than recorded requests arrive.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speedup: f64,
    /// Seed of every random choice; equal seeds give equal results.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &SimulateArgs) -> Result<(), CliError> {
    let rule_sets = rule_sets(args)?;
    let shadow = args.shadow.as_deref().map(rules_of).transpose()?;
    let setup = setup(args)?;
    let arrivals = parse(&read(&args.trace)?, Reading { speedup: args.speedup, answer_tokens: args.answer_tokens })
        .map_err(|error| CliError::Input(format!("{}: {error}", args.trace.display())))?;
    let names_workers = arrivals.iter().any(|arrival| arrival.worker.is_some());
    let mut rows = Vec::new();
    for (name, rules) in &rule_sets {
        let told = |done| progress(name, done, arrivals.len());
        let found = match needs_workers(rules) && !names_workers {
            true => Err(NO_WORKERS),
            false => Ok(simulate(&arrivals, rules, shadow.as_ref(), &setup, told)),
        };
        rows.push((name.clone(), found));
    }
    if args.json {
        let policies: Vec<Value> = rows.iter().map(|(name, found)| as_json(name, found)).collect();
        return out::print(&format!("{:#}\n", json!({"requests": arrivals.len(), "policies": policies})));
    }
    let mut text = out::table(&table(&rows), out::colour());
    if rule_sets.iter().any(|(_, rules)| has_sessions(rules)) {
        text.push_str(&conversations(&arrivals));
    }
    out::print(&format!("{text}{}", notes(&rows)))
}

fn setup(args: &SimulateArgs) -> Result<Setup, CliError> {
    for (name, value) in [
        ("--prefill-tokens-per-second", args.prefill_tokens_per_second),
        ("--decode-ms-per-token", args.decode_ms_per_token),
        ("--speedup", args.speedup),
    ] {
        if !value.is_finite() || value <= 0.0 {
            return Err(CliError::Usage(format!("{name} is {value}, must be above 0")));
        }
    }
    let model = EngineModel {
        prefill_tokens_per_second: args.prefill_tokens_per_second,
        decode_ms_per_token: args.decode_ms_per_token,
        max_requests: args.max_requests,
        cache_tokens: args.cache_tokens,
    };
    Ok(Setup { engines: args.engines, model, seed: args.seed })
}

/// What sessions were taken for.
fn conversations(arrivals: &[Arrival]) -> String {
    let named: BTreeSet<&str> = arrivals.iter().map(|arrival| arrival.session.as_str()).collect();
    let told = "named by `session_id`, or told by prompts that continue an earlier one";
    format!("sessions: {} conversations, {told}\n", named.len())
}

/// Figures of a policy, or why there are none.
type Found = Result<Report, &'static str>;

const NO_WORKERS: &str = "not applicable: the trace names no `worker`";

/// Whether all that these rules can do is to obey the caller.
fn needs_workers(rules: &RuleSet) -> bool {
    rules.policies.iter().all(|policy| matches!(policy.mode, Mode::Direct { .. }))
}

fn has_sessions(rules: &RuleSet) -> bool {
    rules.policies.iter().any(|policy| matches!(policy.mode, Mode::Session { .. }))
}

fn as_json(name: &str, found: &Found) -> Value {
    match found {
        Ok(report) => json!({"policy": name, "report": report}),
        Err(why) => json!({"policy": name, "not_applicable": why}),
    }
}

/// Lines under the table.
fn notes(rows: &[(String, Found)]) -> String {
    rows.iter().filter_map(|(name, found)| Some(format!("{name}: {}\n", found.as_ref().err()?))).collect()
}

fn rule_sets(args: &SimulateArgs) -> Result<Vec<(String, RuleSet)>, CliError> {
    let mut sets = Vec::new();
    for path in &args.policy {
        sets.push((path.display().to_string(), rules_of(path)?));
    }
    if args.modes || sets.is_empty() {
        let modes = [
            Mode::Kv,
            Mode::LeastLoaded,
            Mode::PowerOfTwo,
            Mode::RoundRobin,
            Mode::Random,
            Mode::PrefixHash { tokens: 2048, load_bound_percent: 125 },
            Mode::Session { key: SessionKey::User, hard: true, ttl_seconds: 600 },
            Mode::Direct { header: "x-worker".into() },
            Mode::Pass,
        ];
        sets.extend(modes.map(|mode| {
            let name = mode.as_str().to_owned();
            let policies = vec![Policy { mode, ..Policy::named(&name) }];
            (name, RuleSet { rules: Vec::new(), policies, default_policy: 0 })
        }));
    }
    Ok(sets)
}

/// A document's rules. A trace names no models: conditions on them cannot be checked, and do not match.
fn rules_of(path: &Path) -> Result<RuleSet, CliError> {
    let compiled = compile(read(path)?.as_bytes(), &Surroundings::anything());
    compiled.map(|compiled| compiled.rules).map_err(|refused| CliError::Policy { path: path.to_owned(), refused })
}

fn read(path: &Path) -> Result<String, CliError> {
    fs::read_to_string(path).map_err(|error| CliError::Input(format!("{}: {error}", path.display())))
}

/// A line on the terminal that overwrites itself; nothing elsewhere.
fn progress(name: &str, done: usize, all: usize) {
    let step = (all / 100).max(1);
    if !done.is_multiple_of(step) && done != all || !io::stderr().is_terminal() {
        return;
    }
    let filled = done * 30 / all.max(1);
    let end = if done == all { "\r\u{1b}[K" } else { "" };
    let mut stderr = io::stderr().lock();
    // A terminal that cannot be written to is no reason to stop.
    let _ = write!(stderr, "\r{name} [{:30}] {done}/{all}{end}", "#".repeat(filled));
    let _ = stderr.flush();
}

fn table(rows: &[(String, Found)]) -> Vec<Vec<Cell>> {
    const HEAD: [&str; 11] = [
        "POLICY",
        "HIT RATE",
        "TTFT MEAN",
        "P50",
        "P90",
        "P99",
        "QUEUED MEAN",
        "P99",
        "LONGEST QUEUE",
        "LOAD VARIATION",
        "REFUSED",
    ];
    let mut head: Vec<Cell> = HEAD.map(Cell::from).into();
    if rows.iter().any(|(_, found)| found.as_ref().is_ok_and(|report| report.shadow.is_some())) {
        head.extend(["SHADOW AGREES", "SHADOW HIT RATE"].map(Cell::from));
    }
    let width = head.len();
    let mut table = vec![head];
    table.extend(rows.iter().map(|(name, found)| {
        let mut cells = vec![Cell::from(name.clone())];
        cells.extend(found.iter().flat_map(figures));
        cells.resize_with(width, || Cell::from("-"));
        cells
    }));
    table
}

fn figures(report: &Report) -> Vec<Cell> {
    let ms = |value: f64| format!("{value:.0} ms");
    let share = |value: f64| format!("{:.1} %", value * 100.0);
    let mut cells = vec![
        share(report.hit_rate),
        ms(report.ttft_ms.mean),
        ms(report.ttft_ms.p50),
        ms(report.ttft_ms.p90),
        ms(report.ttft_ms.p99),
        ms(report.queued_ms.mean),
        ms(report.queued_ms.p99),
        report.longest_queue.to_string(),
        format!("{:.2}", report.load_variation),
        report.refused.to_string(),
    ];
    cells.extend(report.shadow.iter().flat_map(|beside| [share(beside.agreement), share(beside.hit_rate)]));
    cells.into_iter().map(Cell::from).collect()
}
