use crate::stage::{Stage, Thread};

fn usage(cached: u32) -> Vec<u8> {
    format!("{{\"usage\":{{\"prompt_tokens\":1,\"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}}}}}")
        .into_bytes()
}

fn answered(stage: &mut Stage, ids: std::ops::Range<u32>, pieces: &[&[u8]]) -> Option<String> {
    let exchange = stage.prompt(ids);
    let to = stage.endpoints(0, &exchange)[0].clone();
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 200, Some(&to));
    for piece in pieces {
        exchange.response_body(host, vm, piece, false);
    }
    exchange.response_body(host, vm, b"", true);
    exchange.done(host, vm).filter_state.get("kv_cached_tokens").cloned()
}

#[test]
fn the_engines_report_is_compared_with_the_prediction() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    assert_eq!(answered(&mut stage, 0..320, &[&usage(160)]), Some("160".into()));
    assert_eq!(answered(&mut stage, 0..320, &[&usage(144)]), Some("144".into()));
    assert_eq!(answered(&mut stage, 0..320, &[&usage(176)]), Some("176".into()));
    let counts = ["prediction.right", "prediction.over", "prediction.under"].map(|name| stage.envoy.count(name));
    assert_eq!(counts, [1, 1, 1]);
    assert_eq!(stage.envoy.count("cached_tokens"), 160 + 144 + 176);
}

#[test]
fn a_wholly_cached_prompt_is_reported_one_block_short() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    answered(&mut stage, 0..160, &[&usage(144)]);
    assert_eq!(stage.envoy.count("prediction.right"), 1);
    answered(&mut stage, 0..160, &[&usage(128)]);
    assert_eq!(stage.envoy.count("prediction.over"), 1);
}

#[test]
fn a_report_is_found_across_pieces_and_at_the_end_of_long_ones() {
    let mut stage = Stage::new();
    let report = usage(16);
    let (head, tail) = report.split_at(report.len() / 2);
    assert_eq!(answered(&mut stage, 0..64, &[head, tail]), Some("16".into()));
    let long = [vec![b'x'; 100_000], report.clone()].concat();
    assert_eq!(answered(&mut stage, 0..64, &[&long]), Some("16".into()));
    let many: Vec<&[u8]> = std::iter::repeat_n(&b"data: {\"token\":1}\n\n"[..], 1000).chain([&report[..]]).collect();
    assert_eq!(answered(&mut stage, 0..64, &many), Some("16".into()));
}

#[test]
fn no_report_is_no_comparison() {
    let mut stage = Stage::new();
    assert_eq!(answered(&mut stage, 0..64, &[b"{\"usage\":{\"prompt_tokens_details\":null}}"]), None);
    assert_eq!(answered(&mut stage, 0..64, &[]), None);
    let counts = ["prediction.right", "prediction.over", "prediction.under"].map(|name| stage.envoy.count(name));
    assert_eq!(counts, [0, 0, 0]);
}

#[test]
fn several_prompts_or_answers_are_not_compared() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    let ids: Vec<u32> = (0..320).collect();
    let one = serde_json::json!({"model": "base", "prompt": ids, "n": 2, "max_tokens": 1});
    let two = serde_json::json!({"model": "base", "prompt": [ids, ids], "max_tokens": 1});
    for body in [one, two] {
        let exchange = stage.request(0, body.to_string().as_bytes());
        let Thread { host, vm, .. } = &mut stage.threads[0];
        exchange.response(host, vm, 200, None);
        exchange.response_body(host, vm, &usage(0), true);
        assert_eq!(exchange.done(host, vm).filter_state["kv_cached_tokens"], "0");
    }
    let counts =
        ["routed", "prediction.right", "prediction.over", "prediction.under"].map(|name| stage.envoy.count(name));
    assert_eq!(counts, [2, 0, 0, 0]);
}

#[test]
fn a_request_served_elsewhere_is_not_compared() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    let exchange = stage.prompt(0..160);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 200, Some("10.0.0.3:8000"));
    exchange.response_body(host, vm, &usage(0), true);
    assert_eq!(exchange.done(host, vm).filter_state["kv_cached_tokens"], "0");
    assert_eq!(stage.envoy.count("prediction.over"), 0);
}

#[test]
fn of_a_response_only_the_end_is_copied() {
    let mut stage = Stage::new();
    let exchange = stage.prompt(0..64);
    let to = stage.endpoints(0, &exchange)[0].clone();
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.response(host, vm, 404, Some(&to));
    host.forget_calls();
    exchange.response_body(host, vm, &[b'x'; 1000], false);
    exchange.response_body(host, vm, b"", true);
    assert!(!host.calls().contains_key("response_body"), "an error bears no report");
}
