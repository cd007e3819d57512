//! The program as people and process managers meet it: exit codes, where answers go, and its end by signal.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test stops at the first surprise")]

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
