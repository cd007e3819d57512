use kv_routing::wire::{Health, SourceState};

use crate::stage::{Stage, completion, route};

#[test]
fn the_holder_of_the_prompt_is_chosen_and_explained() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    let exchange = stage.prompt(0..320);
    let endpoints = stage.endpoints(0, &exchange);
    assert_eq!(endpoints[0], "10.0.0.2:8000");
    assert_eq!(endpoints.len(), 3);
    let decision = stage.decision(0, &exchange);
    assert_eq!(decision["pool"], "pool");
    assert_eq!((&decision["rung"], &decision["state"]), (&"exact".into(), &"exact".into()));
    assert_eq!((&decision["tokens"], &decision["blocks"]), (&320.into(), &20.into()));
    assert_eq!(decision["overlap"]["device"], 10);
    assert_eq!(decision["cost"]["total"], 10.0 + 20.0);
    assert_eq!(decision["runner_up"]["cost"], 20.0 + 20.0);
    assert_eq!(stage.envoy.count("routed"), 1);
    assert_eq!(stage.envoy.count("rung.exact"), 1);
    assert_eq!((stage.envoy.count("prompt_tokens"), stage.envoy.count("predicted_tokens")), (320, 160));
}

#[test]
fn a_prompt_without_a_full_block_goes_by_load() {
    let mut stage = Stage::new();
    for round in 0..3 {
        let exchange = stage.prompt(round * 100..round * 100 + 15);
        assert_eq!(stage.decision(0, &exchange)["rung"], "load");
    }
    // Three requests, three idle targets: each got one.
    let mut booked: Vec<u32> = stage.row(0).entries.iter().map(|entry| entry.booking.requests).collect();
    stage.threads[0].tick();
    booked.sort_unstable();
    assert_eq!(stage.envoy.count("rung.load"), 3);
}

#[test]
fn nothing_pushed_leaves_requests_to_envoy() {
    let mut stage = Stage::empty();
    let exchange = stage.prompt(0..64);
    assert_eq!(stage.unrouted(0, &exchange), "no_manifest");
    assert_eq!(stage.envoy.count("unrouted.no_manifest"), 1);
}

#[test]
fn an_unknown_model_is_left_to_envoy_and_names_are_exact() {
    let mut stage = Stage::new();
    for model in ["other", "Base", "", "base "] {
        let exchange = stage.request(0, &completion(model, 0..64));
        assert_eq!(stage.unrouted(0, &exchange), "unknown_model", "{model}");
    }
    for model in ["base", "alias", "lora"] {
        let exchange = stage.request(0, &completion(model, 0..64));
        assert_eq!(stage.endpoints(0, &exchange).len(), 3, "{model}");
    }
}

#[test]
fn without_a_model_the_only_pool_serves() {
    let mut stage = Stage::new();
    let body = br#"{"prompt":[1,2,3]}"#;
    let exchange = stage.request(0, body);
    assert_eq!(stage.endpoints(0, &exchange).len(), 3);

    let mut second = stage.pools[0].clone();
    second.id = kv_routing::wire::PoolId(1);
    second.name = "second".into();
    second.models = vec!["two".into()];
    second.adapters.clear();
    stage.pools.push(second);
    stage.push();
    stage.envoy.pass(10);
    let exchange = stage.request(0, body);
    assert_eq!(stage.unrouted(0, &exchange), "unknown_model");

    stage.config = route(r#"{"role":"route","pools":["second"]}"#);
    let exchange = stage.request(0, body);
    assert_eq!(stage.decision(0, &exchange)["pool"], "second");
    let exchange = stage.request(0, &completion("base", 0..64));
    assert_eq!(stage.unrouted(0, &exchange), "unknown_model", "restricted to another pool");
}

#[test]
fn an_adapter_has_a_cache_of_its_own() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    let exchange = stage.request(0, &completion("lora", 0..160));
    assert_eq!(stage.decision(0, &exchange)["overlap"]["device"], 0);
}

#[test]
fn a_salt_has_a_cache_of_its_own() {
    let mut stage = Stage::new();
    stage.holds(2, 0..32);
    let ids: Vec<String> = (0..32).map(|id: u32| id.to_string()).collect();
    let body = |salt: &str| format!("{{\"model\":\"base\",\"prompt\":[{}]{salt}}}", ids.join(","));
    let plain = stage.request(0, body("").as_bytes());
    let salted = stage.request(0, body(",\"cache_salt\":\"x\"").as_bytes());
    assert_eq!(stage.decision(0, &plain)["overlap"]["device"], 2);
    assert_eq!(stage.decision(0, &salted)["overlap"]["device"], 0);
}

#[test]
fn pools_without_targets_to_choose_are_left_to_envoy() {
    let mut stage = Stage::empty();
    stage.targets.iter_mut().for_each(|target| target.health = Health::Unhealthy);
    stage.push();
    let exchange = stage.prompt(0..64);
    assert_eq!(stage.unrouted(0, &exchange), "no_target");
    stage.targets.clear();
    stage.push();
    stage.envoy.pass(10);
    let exchange = stage.prompt(0..64);
    assert_eq!(stage.unrouted(0, &exchange), "no_target");
    assert_eq!(stage.envoy.count("unrouted.no_target"), 2);
}

#[test]
fn unhealthy_targets_are_not_even_named_as_fallbacks() {
    let mut stage = Stage::empty();
    stage.targets[1].health = Health::Unhealthy;
    stage.targets[2].health = Health::Draining;
    stage.push();
    stage.holds(2, 0..64);
    let exchange = stage.prompt(0..64);
    assert_eq!(stage.endpoints(0, &exchange), ["10.0.0.1:8000"]);
}

#[test]
fn text_without_a_tokenizer_keeps_to_its_prefix() {
    let mut stage = Stage::new();
    let body = |question: &str| format!("{{\"model\":\"base\",\"prompt\":\"{} {question}\"}}", "system ".repeat(300));
    let first = stage.request(0, body("one").as_bytes());
    let decision = stage.decision(0, &first);
    assert_eq!(decision["rung"], "prefix_hash");
    let to = stage.endpoints(0, &first)[0].clone();
    stage.finish(0, &first);
    for question in ["two", "three"] {
        let next = stage.request(0, body(question).as_bytes());
        assert_eq!(stage.endpoints(0, &next)[0], to);
        stage.finish(0, &next);
    }
    assert_eq!(stage.envoy.count("inexact.no_tokenizer"), 3);
}

#[test]
fn options_before_the_conversation_do_not_split_it() {
    let mut stage = Stage::new();
    let mut chosen = Vec::new();
    for user in 0..8 {
        let body = format!(
            "{{\"user\":\"{user}\",\"model\":\"base\",\"messages\":[{{\"role\":\"user\",\"content\":\"{}\"}}]}}",
            "same ".repeat(400)
        );
        let exchange = stage.open(0, "/v1/chat/completions", &[]);
        let thread = &mut stage.threads[0];
        exchange.body(&thread.host, &mut thread.vm, body.as_bytes(), true);
        chosen.push(stage.endpoints(0, &exchange)[0].clone());
        stage.finish(0, &exchange);
    }
    chosen.dedup();
    assert_eq!(chosen.len(), 1, "{chosen:?}");
}

#[test]
fn an_unknown_block_size_routes_without_overlap() {
    let mut stage = Stage::empty();
    stage.pools[0].block_size = None;
    stage.push();
    let exchange = stage.prompt(0..64);
    assert_eq!(stage.decision(0, &exchange)["blocks"], 0);
    assert_eq!(stage.envoy.count("inexact.no_block_size"), 1);
}

#[test]
fn a_mismatched_source_earns_no_credit() {
    let mut stage = Stage::empty();
    stage.targets[1].source = SourceState::Mismatch;
    stage.push();
    stage.holds(2, 0..160);
    let exchange = stage.prompt(0..160);
    assert_eq!(stage.decision(0, &exchange)["overlap"]["device"], 0);
    assert_eq!(stage.decision(0, &exchange)["cost"]["total"], 20.0);
}

#[test]
fn the_ladder_goes_down_to_the_prefix_hash_when_no_source_can_be_trusted() {
    let mut stage = Stage::empty();
    stage.targets.iter_mut().for_each(|target| target.source = SourceState::None);
    stage.push();
    stage.holds(2, 0..160);
    let exchange = stage.prompt(0..160);
    assert_eq!(stage.decision(0, &exchange)["rung"], "prefix_hash");
    assert_eq!(stage.envoy.count("rung.prefix_hash"), 1);
}

#[test]
fn fallbacks_follow_the_configuration() {
    for endpoints in [1, 2, 3] {
        let mut stage = Stage::new();
        stage.config = route(&format!("{{\"role\":\"route\",\"endpoints\":{endpoints}}}"));
        let exchange = stage.prompt(0..64);
        assert_eq!(stage.endpoints(0, &exchange).len(), endpoints);
    }
}

#[test]
fn a_decision_is_shown_to_the_client_only_if_configured() {
    let mut stage = Stage::new();
    let plain = stage.prompt(0..64);
    assert_eq!(stage.finish(0, &plain).response_header("x-kv-router-decision"), None);
    stage.config = route(r#"{"role":"route","explain_header":true}"#);
    let shown = stage.prompt(0..64);
    let state = stage.decision(0, &shown);
    let header = stage.finish(0, &shown).response_header("x-kv-router-decision").expect("the header");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&header).unwrap(), state);
}
