//! The program as people and process managers meet it: exit codes, where answers go, and its end by signal.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_event-bridge"));
    command.env_remove("NO_COLOR");
    command
}

/// A file of one test, removed at its end.
struct Config(PathBuf);

impl Config {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kv-bridge-command-{}-{name}.yaml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

fn check(config: &Config) -> Output {
    program().args(["check", "--config"]).arg(config.path()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const GOOD: &str = "admin: {listen: '127.0.0.1:0'}\npools: [{name: p, models: [m], workers: []}]";

#[test]
fn exit_codes_tell_what_went_wrong() {
    let good = check(&Config::new("good", GOOD));
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    assert!(text(&good.stdout).contains("pool p: models m"));

    let unusable = check(&Config::new("unusable", "pools: [{name: p, models: [m], workers_file: /nowhere/w.yaml}]"));
    assert_eq!(unusable.status.code(), Some(1));
    assert!(text(&unusable.stdout).contains("PROBLEM: /nowhere/w.yaml"), "{}", text(&unusable.stdout));

    assert_eq!(program().arg("chekc").output().unwrap().status.code(), Some(2));

    let refused = check(&Config::new("refused", "pools: [{name: p, models: [m], worker: []}]"));
    assert_eq!(refused.status.code(), Some(3));
    assert!(refused.stdout.is_empty());
    assert!(text(&refused.stderr).contains("pools[0]") && text(&refused.stderr).contains("unknown field `worker`"));
}

#[test]
fn a_pipe_gets_no_colour_and_a_bad_line_costs_only_itself() {
    let mut child = program().args(["events", "decode"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let batch = "92cb3ff00000000000009191b0416c6c426c6f636b73436c6561726564";
    child.stdin.take().unwrap().write_all(format!("{batch}\nxyz1\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let out = text(&output.stdout);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("AllBlocksCleared") && lines[1].contains("\"line\":2"), "{out}");
    assert!(!out.contains('\u{1b}'));
}

#[test]
fn sigterm_ends_a_running_bridge_in_order() {
    let config = Config::new("run", &format!("log: {{format: json}}\n{GOOD}"));
    let mut child = program().args(["run", "--config"]).arg(config.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let started = lines.find(|line| line.as_ref().unwrap().contains("bridge started")).unwrap().unwrap();
    assert!(started.starts_with('{'), "one JSON object per line: {started}");
    let asked = Instant::now();
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert!(rest.iter().any(|line| line.contains("SIGTERM")) && rest.last().unwrap().contains("stopped"), "{rest:?}");
}

#[test]
fn simulate_puts_every_mode_side_by_side() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/mooncake-conversation.jsonl");
    let started = Instant::now();
    let output =
        program().args(["simulate", "--trace", trace, "--modes", "--engines", "8", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert!(output.stderr.is_empty(), "a progress bar is for terminals");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = |mode: &str| {
        let policies = told["policies"].as_array().unwrap();
        policies.iter().find(|policy| policy["policy"] == mode).unwrap()["report"].clone()
    };
    assert_eq!((told["requests"].as_u64(), report("kv")["served"].as_u64()), (Some(12_031), Some(12_031)));
    let ttft = |mode: &str| report(mode)["ttft_ms"]["mean"].as_f64().unwrap();
    for other in ["least_loaded", "round_robin", "random", "power_of_two", "pass"] {
        assert!(ttft("kv") < ttft(other), "kv {} ms, {other} {} ms", ttft("kv"), ttft(other));
    }
    let policies = told["policies"].as_array().unwrap();
    assert_eq!(policies.len(), 9, "every mode has a row");
    for mode in ["prefix_hash", "session"] {
        assert_eq!(report(mode)["served"], 12_031);
    }
    assert_ne!(report("session"), report("kv"), "conversations stay where they began");
    let direct = policies.iter().find(|policy| policy["policy"] == "direct").unwrap();
    assert!(direct["not_applicable"].as_str().unwrap().contains("names no `worker`"), "{direct}");

    let output = program().args(["simulate", "--trace", trace, "--modes"]).output().unwrap();
    let table = text(&output.stdout);
    assert!(table.contains("direct        -") && table.contains("direct: not applicable"), "{table}");
}

#[test]
fn policies_are_checked_without_a_bridge_and_completions_are_printed() {
    let document = Config::new("policy", r#"{"version": 1, "policies": {"p": {"mode": "fastest"}}, "default": "p"}"#);
    let refused = program().args(["policy", "check", "--any-name"]).arg(document.path()).output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).contains("/policies/p/mode"), "{}", text(&refused.stderr));
    let bridge = Config::new("names", GOOD);
    let named = r#"{"version": 1, "policies": {"p": {"mode": "kv"}}, "default": "p", "rules": [{"when": {"model": ["x"]}, "policy": "p"}]}"#;
    let named = Config::new("named", named);
    let checked = program().args(["policy", "check"]).arg(named.path()).arg("--config").arg(bridge.path()).output();
    assert!(text(&checked.unwrap().stderr).contains("/rules/0/when/model/0"));
    let variables = program().args(["policy", "variables"]).output().unwrap();
    assert!(text(&variables.stdout).contains("queued_prefill_blocks"));
    let script = program().args(["completions", "bash"]).output().unwrap();
    assert!(script.status.success() && text(&script.stdout).contains("rollback"));
    let help = program().args(["policy", "--help"]).output().unwrap();
    assert!(text(&help.stdout).contains("Examples:"));
}

/// `event-bridge render` with `input` as its standard input.
fn render(model: &Path, option: Option<&str>, input: &str) -> Output {
    let mut command = program();
    command.args(["render", "--request", "-", "--model-dir"]).arg(model).args(option);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn many_requests_are_rendered_as_each_is_alone() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/tokenizers/qwen3");
    let chat = r#"{"model": "m", "messages": [{"role": "user", "content": "h\u00e9"}], "cache_salt": "s"}"#;
    let lines = [("/v1/completions", "{"), ("/v1/chat/completions", chat), ("/v1/chat/completions", chat)];
    let lines = lines.map(|(path, body)| serde_json::json!({"path": path, "body": body}).to_string()).join("\n");
    let many = render(&model, Some("--json-lines"), &lines);
    assert!(many.status.success(), "{}", text(&many.stderr));
    let many: Vec<serde_json::Value> =
        text(&many.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let alone: serde_json::Value = serde_json::from_slice(&render(&model, None, chat).stdout).unwrap();
    assert!(alone["prompt"].as_str().unwrap().contains("hé"), "{alone}");
    assert!(many[0]["error"].as_str().unwrap().contains("not a JSON object"), "{}", many[0]);
    assert_eq!(many[1..], [alone.clone(), alone]);
}

/// A model directory with the files of a tokenizer, to which others may be added.
fn model_copy(family: &str) -> tempfile::TempDir {
    let model = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/tokenizers").join(family);
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(from.join(file), model.path().join(file))
            .expect("run `make setup`, it fetches the tokenizers tests need");
    }
    model
}

/// gpt-oss's chats are harmony, which only the bridge builds.
#[test]
fn what_the_filter_cannot_tokenize_is_rendered_as_the_bridge_does() {
    let model = model_copy("gptoss");
    std::fs::write(model.path().join("config.json"), r#"{"model_type": "gpt_oss"}"#).unwrap();
    let render = |body: &str, reference: bool| render(model.path(), reference.then_some("--reference"), body);
    let chat = r#"{"model": "m", "messages": [{"role": "user", "content": "hi"}]}"#;
    let refused = render(chat, false);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    let bridged: serde_json::Value = serde_json::from_slice(&render(chat, true).stdout).unwrap();
    assert_eq!(bridged["tokenized_by"], "bridge");
    assert!(bridged["prompt"].as_str().unwrap().ends_with("<|start|>user<|message|>hi<|end|><|start|>assistant"));
    let plain: serde_json::Value =
        serde_json::from_slice(&render(r#"{"model": "m", "prompt": "hello world"}"#, true).stdout).unwrap();
    assert_eq!((&plain["tokens"], plain.get("tokenized_by")), (&serde_json::json!([24912, 2375]), None));
}

#[test]
fn a_tokenizer_check_compares_texts_and_chats() {
    let model = model_copy("qwen2_5");
    let check = || program().args(["tokenizer", "check", "--model-dir"]).arg(model.path()).output().unwrap();
    let good = check();
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    let told = text(&good.stdout);
    assert!(told.contains("equal to the Hugging Face library on ") && told.contains("chats: equal to "), "{told}");
    std::fs::write(model.path().join("chat_template.jinja"), "{{ raise_exception('not for chats') }}").unwrap();
    let told = text(&check().stdout);
    assert!(
        told.contains("chats cannot be rendered: the template refuses every") && told.contains("not for chats"),
        "{told}"
    );
}
