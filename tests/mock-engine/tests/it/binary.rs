//! The program: its ready line, flags and end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Client, tokenizer_dir};

struct Program {
    child: Child,
    ready: Value,
}

impl Program {
    fn start(flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mock-engine"))
            .arg("--model-dir")
            .arg(tokenizer_dir("qwen2_5"))
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut log = String::new();
            child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
            panic!("no ready line: {line}{log}")
        });
        Self { child, ready }
    }

    fn client(&self) -> Client {
        let url = self.ready["http"].as_str().unwrap();
        Client::new(url.strip_prefix("http://").unwrap().parse().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Gone already where the test ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_ready_line_says_where_it_serves() {
    let mut program = Program::start(&["--served-model-name", "qwen", "other", "--data-parallel-size", "2"]);
    assert_eq!(program.ready["ready"], true);
    assert_eq!(program.ready["events_by_rank"].as_array().unwrap().len(), 2);
    let client = program.client();
    for model in ["qwen", "other"] {
        let answer = client.post("/v1/completions", &json!({"model": model, "prompt": "hi", "max_tokens": 1})).await;
        assert_eq!(answer.status, 200);
    }
    let sources = client.get("/kv_event_sources").await.json();
    assert_eq!(sources["0"]["endpoint"], program.ready["events"]);
    assert_eq!(sources["1"]["replay_endpoint"], program.ready["replay_by_rank"][1]);
    // The answer may be lost with the process.
    let _ = client.send("POST", "/mock/crash", &[], String::new()).await;
    assert_eq!(program.child.wait().unwrap().code(), Some(134));
}

#[test]
fn unusable_settings_are_named() {
    let refuse = |flags: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_mock-engine"))
            .arg("--model-dir")
            .arg(tokenizer_dir("qwen2_5"))
            .args(flags)
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refuse(&["--num-blocks", "8", "--max-model-len", "4096"]).contains("--num-blocks"));
    assert!(refuse(&["--block-size", "0"]).contains("--block-size must be greater than zero"));
    assert!(refuse(&["--lora-modules", "sql"]).contains("NAME=PATH"));
    assert!(refuse(&["--events-endpoint", "tcp://256.0.0.1:1"]).contains("tcp://256.0.0.1:1"));
}
