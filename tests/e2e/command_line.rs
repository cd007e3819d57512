//! The program's commands against a running stack.

use std::process::Output;

use e2e::engine::{self, Engine};
use e2e::prompt::{self, message};
use e2e::stack::{Options, Stack};
use serde_json::{Value, json};

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn good(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", errors(output));
    assert!(!output.stdout.contains(&0x1b), "colour in a pipe");
    out(output)
}

#[tokio::test]
async fn explain_says_what_the_filter_does_and_policies_come_and_go() {
    let engines = Engine::start_many(3, &engine::config()).await;
    let workers: Vec<_> = engines.iter().map(Engine::worker).collect();
    let mut stack = Stack::start(&workers, Options::default()).await;
    policies(&stack).await;
    explain(&mut stack, &engines).await;
}

/// Every figure of the explanation is that of the decision in the access log.
async fn explain(stack: &mut Stack, engines: &[Engine]) {
    let text = prompt::text(7, 400);
    let first = prompt::chat("mock", &[message("user", &text)], 1);
    stack.client.post(&engines[1].url("/v1/chat/completions"), &first).await.expect("engine").expect_ok();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let longer = prompt::chat("mock", &[message("user", &text), message("user", &prompt::text(8, 200))], 1);
    let asked = stack.bridge.command(&["explain", "--request", "-", "--json"], &longer.to_string()).await;
    let told: Value = serde_json::from_str(&good(&asked)).expect("JSON");
    stack.chat(&longer).await.expect_ok();
    let done = stack.next_decision().await;

    assert_eq!((told["outcome"].as_str(), told["estimated"].is_null()), (Some("chosen"), true), "{told:#}");
    let decision = &told["decision"];
    assert_eq!(done.target, engines[1].address());
    assert_eq!(decision["target"], done.target);
    assert_eq!((&decision["policy"], &decision["rule"]), (&json!(done.policy), &json!(done.rule)));
    assert_eq!((&decision["tokens"], &decision["blocks"]), (&json!(done.tokens), &json!(done.blocks)));
    assert_eq!(decision["overlap"]["device"], done.overlap.device);
    assert!(done.overlap.device > 20);
    assert_eq!(decision["cost"]["total"], done.cost.total);
    assert_eq!(decision["runner_up"]["cost"], done.runner_up.expect("three workers").cost);
    let targets = told["targets"].as_array().expect("targets");
    assert_eq!((targets.len(), &targets[0]["target"], &targets[0]["place"]), (3, &json!(done.target), &json!(1)));

    let table = good(&stack.bridge.command(&["explain", "--request", "-"], &longer.to_string()).await);
    let row = table.lines().find(|line| line.starts_with("chosen")).expect("a chosen row");
    assert!(row.contains(&done.target) && table.contains(&format!("{} tokens", done.tokens)), "{table}");
    let unknown = stack.bridge.command(&["explain", "--request", "-"], r#"{"model":"gpt","prompt":[1]}"#).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(errors(&unknown).contains("no pool serves model `gpt`"), "{}", errors(&unknown));
}

async fn policies(stack: &Stack) {
    let run = async |arguments: &[&str], input: &str| stack.bridge.command(arguments, input).await;
    let document = |mode: &str| json!({"version": 1, "policies": {"p": {"mode": mode}}, "default": "p"}).to_string();
    assert!(good(&run(&["policy", "show"], "").await).contains("no document"));
    assert!(good(&run(&["policy", "check", "-"], &document("kv")).await).contains("good, 0 warnings"));
    let bad = run(&["policy", "check", "-"], &document("fastest")).await;
    assert_eq!(bad.status.code(), Some(3));
    assert!(errors(&bad).contains("/policies/p/mode"), "{}", errors(&bad));

    let pushed = good(&run(&["policy", "push", "-", "--author", "ada", "--wait", "5"], &document("random")).await);
    assert!(pushed.contains("version 1 is in force"), "{pushed}");
    assert_eq!(run(&["policy", "push", "-"], &document("fastest")).await.status.code(), Some(3));
    good(&run(&["policy", "push", "-", "--wait", "5"], &document("round_robin")).await);
    let shown = good(&run(&["policy", "show", "--document"], "").await);
    assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON")["policies"]["p"]["mode"], "round_robin");
    good(&run(&["policy", "rollback", "--wait", "5"], "").await);
    let shown = good(&run(&["policy", "show"], "").await);
    assert!(shown.contains("in force: version 3") && shown.contains("ada"), "{shown}");
    assert_eq!(run(&["policy", "rollback", "--version", "99"], "").await.status.code(), Some(1));
    good(&run(&["policy", "shadow", "-", "--sample", "0.5"], &document("kv")).await);
    assert!(good(&run(&["policy", "show"], "").await).contains("50 % of requests"));
    assert!(good(&run(&["policy", "shadow", "--off"], "").await).contains("gone"));
    good(&run(&["policy", "push", "-", "--wait", "5"], &document("kv")).await);
}
