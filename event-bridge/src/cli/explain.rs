//! `event-bridge explain`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hyper::Method;
use serde_json::Value;

use super::admin::{AdminArgs, Call};
use super::out::{self, Cell, Tone, list, word};
use super::render::endpoint;
use super::{CliError, input};

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge explain --request body.json
  event-bridge explain --request body.json --header 'x-tenant: gold' --path /v1/completions --json

Prints what the filter would decide now: policy, rule, tokens, and for every target its overlap by tier, its load and the
parts of its cost, in blocks. Decided by the running bridge from its own index, with the code that runs in Envoy.";

/// A long prompt takes a while to tokenize.
const WAIT: Duration = Duration::from_secs(25);

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// Request body; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// Path the body would be sent to. Default: chat completions for a body with `messages`, else completions.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Header of the request, as `name: value`; may be given several times.
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// Envoy whose requests under way count as load. Default: the first of the configuration.
    #[arg(long, value_name = "NAME")]
    envoy: Option<String>,
    /// Decides between targets of equal cost; the time without.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    admin: AdminArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn explain(args: &ExplainArgs) -> Result<(), CliError> {
    let body = input::read(&args.request)?;
    let mut path = format!("/explain?path={}", endpoint(args.path.as_deref(), &body)?.path());
    if let Some(envoy) = &args.envoy {
        path.push_str(&format!("&envoy={envoy}"));
    }
    if let Some(seed) = args.seed {
        path.push_str(&format!("&seed={seed}"));
    }
    let headers = args.header.iter().map(|text| header(text)).collect::<Result<Vec<_>, CliError>>()?;
    let answer = args.admin.expect(Call { method: Method::POST, path: &path, headers, body, wait: WAIT })?;
    if args.json {
        return out::print(&format!("{answer:#}\n"));
    }
    out::print(&format!("{}\n{}", summary(&answer), out::table(&rows(&answer), out::colour())))
}

fn header(text: &str) -> Result<(String, String), CliError> {
    let parts = text.split_once(':');
    let (name, value) = parts.ok_or_else(|| CliError::Usage(format!("--header: `{text}` is not `name: value`")))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// What is decided, and by what.
fn summary(answer: &Value) -> String {
    let (pool, policy, mode) = (word(answer, "pool"), word(answer, "policy"), word(answer, "mode"));
    let mut text = format!("pool {pool}, policy {policy} (mode {mode}) by rule {}\n", word(answer, "rule"));
    let size = word(answer, "block_size");
    match answer.get("estimated").and_then(Value::as_str) {
        None => text.push_str(&format!(
            "{} tokens, {} full blocks of {size}\n",
            word(answer, "tokens"),
            word(answer, "blocks")
        )),
        Some(why) => text.push_str(&format!("about {} tokens, not tokenized: {why}\n", word(answer, "tokens"))),
    }
    let decision = answer.get("decision").unwrap_or(&Value::Null);
    match answer.get("outcome").and_then(Value::as_str) {
        Some("chosen") => text.push_str(&chosen(decision)),
        Some("refused") => {
            text.push_str(&format!("refused with {}: {}\n", word(answer, "status"), word(answer, "reason")));
        }
        _ => text.push_str(&format!("left to Envoy's own balancing: {}\n", word(answer, "reason"))),
    }
    text
}

fn chosen(decision: &Value) -> String {
    let cost = decision.get("cost").unwrap_or(&Value::Null);
    let mut text = format!(
        "goes to {}{}, by {}, state {}, at cost {}",
        word(decision, "target"),
        rank(decision),
        word(decision, "rung"),
        word(decision, "state"),
        word(cost, "total")
    );
    if let Some(second) = decision.get("runner_up").filter(|second| !second.is_null()) {
        text.push_str(&format!("; runner-up {}{} at {}", word(second, "target"), rank(second), word(second, "cost")));
    }
    let times = decision.get("us").and_then(Value::as_object).into_iter().flatten();
    let times: Vec<String> = times.map(|(step, us)| format!("{step} {us}")).collect();
    format!("{text}\nmicroseconds here: {}\n", times.join(", "))
}

fn rank(value: &Value) -> String {
    value.get("rank").and_then(Value::as_u64).map(|rank| format!("#{rank}")).unwrap_or_default()
}

fn rows(answer: &Value) -> Vec<Vec<Cell>> {
    let head = [
        "",
        "TARGET",
        "HEALTH",
        "KV STATE",
        "DEVICE",
        "HOST",
        "DISK",
        "REQUESTS",
        "QUEUED TOKENS",
        "BLOCKS",
        "CREDIT",
        "PREFILL",
        "DECODE",
        "COST",
    ];
    let mut rows = vec![head.map(Cell::from).to_vec()];
    rows.extend(list(answer, "targets").map(row));
    rows
}

fn row(target: &Value) -> Vec<Cell> {
    let left_out = target.get("left_out").and_then(Value::as_str);
    let place = target.get("place").and_then(Value::as_u64);
    let mark = match (place, left_out) {
        (Some(1), _) => Cell::new("chosen", Tone::Good),
        (Some(place), _) => Cell::from(format!("fallback {}", place - 1)),
        (None, Some(why)) => Cell::new(why, Tone::Doubtful),
        (None, None) => Cell::from(""),
    };
    let overlap = target.get("overlap").unwrap_or(&Value::Null);
    let cost = target.get("cost").unwrap_or(&Value::Null);
    let mut cells = vec![mark, Cell::from(format!("{}{}", word(target, "target"), rank(target)))];
    cells.extend([word(target, "health"), word(target, "state")].map(Cell::from));
    cells.extend(["device", "host", "disk"].map(|tier| Cell::from(word(overlap, tier))));
    cells.extend(["requests", "prefill_tokens", "decode_blocks"].map(|load| Cell::from(word(target, load))));
    cells.extend(["credit", "prefill", "decode", "total"].map(|part| Cell::from(word(cost, part))));
    cells
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_a_sentence_and_a_table() {
        let target = |name: &str, place: Value, left_out: Value| {
            json!({"target": name, "rank": 1, "place": place, "left_out": left_out, "health": "healthy", "state": "exact",
                "overlap": {"device": 40, "host": 2, "disk": 0}, "requests": 3.0, "prefill_tokens": 7, "decode_blocks": 9.0,
                "cost": {"credit": 41.5, "prefill": 3.0, "decode": 50.0, "requests": 0.0, "total": 53.0}})
        };
        let answer = json!({
            "outcome": "chosen", "policy": "chat", "mode": "kv", "rule": "default", "pool": "p", "tokens": 700, "estimated": null,
            "block_size": 16, "blocks": 43,
            "decision": {"target": "10.0.0.1:80", "rank": 1, "rung": "exact", "state": "exact", "cost": {"total": 53.0},
                "runner_up": {"target": "10.0.0.2:80", "cost": 90.0}, "us": {"parse": 5, "pick": 6}},
            "targets": [target("10.0.0.1:80", json!(1), Value::Null), target("10.0.0.3:80", Value::Null, json!("busy"))],
        });
        let said = summary(&answer);
        assert!(
            said.contains("goes to 10.0.0.1:80#1, by exact, state exact, at cost 53.0; runner-up 10.0.0.2:80 at 90.0")
        );
        assert!(said.contains("700 tokens, 43 full blocks of 16") && said.contains("parse 5, pick 6"));
        let text = out::table(&rows(&answer), false);
        assert!(text.contains("chosen  10.0.0.1:80#1") && text.contains("busy    10.0.0.3:80#1"), "{text}");
    }

    #[test]
    fn what_is_not_routed_says_why() {
        let pass = json!({"outcome": "pass", "reason": "busy", "tokens": 9, "estimated": "no tokenizer"});
        assert!(summary(&pass).contains("about 9 tokens, not tokenized: no tokenizer"));
        assert!(summary(&pass).contains("left to Envoy's own balancing: busy"));
        let refused = json!({"outcome": "refused", "status": 429, "reason": "every worker is busy"});
        assert!(summary(&refused).contains("refused with 429: every worker is busy"));
        assert!(header("nothing").is_err());
        assert_eq!(header("a: b:c").unwrap(), ("a".to_owned(), "b:c".to_owned()));
    }
}
