//! `event-bridge policy show`.

use clap::Args;
use serde_json::Value;

use crate::cli::CliError;
use crate::cli::admin::AdminArgs;
use crate::cli::out::{self, Cell, Tone, list, word};
use crate::clock;

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Print the document itself and nothing else.
    #[arg(long, conflicts_with = "json")]
    document: bool,
    /// Print the admin server's JSON as it is.
    #[arg(long)]
    json: bool,
}

pub(super) fn show(args: &ShowArgs) -> Result<(), CliError> {
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

pub(super) fn warnings(entry: &Value) -> String {
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

pub(super) fn envoys(answer: &Value) -> Vec<Vec<Cell>> {
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
    use super::ago;

    #[test]
    fn ages_are_rounded_down() {
        assert_eq!([ago(1_999), ago(119_000), ago(120_000), ago(9_000_000)], ["1 s", "119 s", "2 min", "2 h"]);
    }
}
