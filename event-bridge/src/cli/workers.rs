//! `event-bridge workers`.

use clap::Args;
use serde_json::Value;

use super::CliError;
use super::admin::AdminArgs;
use super::out::{self, Cell, Tone, list, word};

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge workers
  event-bridge workers --admin 127.0.0.1:9902 --json | jq '.pools[].workers[].address'";

#[derive(Debug, Args)]
pub(super) struct WorkersArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Print the admin server's JSON as it is.
    #[arg(long)]
    json: bool,
}

pub(super) fn workers(args: &WorkersArgs) -> Result<(), CliError> {
    let value = args.admin.get("/workers")?;
    if args.json {
        return out::print(&format!("{value:#}\n"));
    }
    out::print(&out::table(&rows(&value), out::colour()))
}

fn rows(value: &Value) -> Vec<Vec<Cell>> {
    let head = ["POOL", "WORKER", "RANK", "ROLE", "HEALTH", "KV STATE", "WHY", "RUNNING", "WAITING", "KV USED"];
    let mut rows = vec![head.map(Cell::from).to_vec()];
    for pool in list(value, "pools") {
        for worker in list(pool, "workers") {
            let mut targets = list(worker, "targets").peekable();
            if targets.peek().is_none() {
                rows.push(row(pool, worker, &Value::Null));
            }
            rows.extend(targets.map(|target| row(pool, worker, target)));
        }
    }
    rows
}

fn row(pool: &Value, worker: &Value, target: &Value) -> Vec<Cell> {
    let leaving = worker.get("leaving").and_then(Value::as_bool).unwrap_or(false);
    let health = if leaving { "leaving".to_owned() } else { word(worker, "health") };
    let health_tone = match health.as_str() {
        "healthy" => Tone::Good,
        "unhealthy" => Tone::Bad,
        _ => Tone::Doubtful,
    };
    let state = word(target, "state");
    let state_tone = match state.as_str() {
        "exact" => Tone::Good,
        "mismatch" => Tone::Bad,
        "none" | "-" => Tone::Plain,
        _ => Tone::Doubtful,
    };
    let used = target.get("kv_usage").and_then(Value::as_f64);
    vec![
        word(pool, "name").into(),
        word(worker, "address").into(),
        word(target, "rank").into(),
        word(worker, "role").into(),
        Cell::new(health, health_tone),
        Cell::new(state, state_tone),
        word(target, "reason").into(),
        word(target, "running").into(),
        word(target, "waiting").into(),
        used.map_or_else(|| "-".to_owned(), |used| format!("{:.0} %", used * 100.0)).into(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_row_per_target_and_one_for_a_worker_without() {
        let target =
            json!({"rank": 1, "state": "exact", "reason": "in_order", "running": 2, "waiting": 3, "kv_usage": 0.5});
        let value = json!({"pools": [{"name": "p", "workers": [
            {"address": "10.0.0.1:80", "role": "both", "health": "healthy", "leaving": false, "targets": [target]},
            {"address": "10.0.0.2:80", "role": "both", "health": "healthy", "leaving": true, "targets": []},
        ]}]});
        let text = out::table(&rows(&value), false);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["p", "10.0.0.1:80", "1", "both", "healthy", "exact", "in_order", "2", "3", "50", "%"]);
        assert_eq!(lines[2], ["p", "10.0.0.2:80", "-", "both", "leaving", "-", "-", "-", "-", "-"]);
    }
}
