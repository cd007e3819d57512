//! Policies pushed by the bridge decide, are swapped, and refuse.

use filter::host::fake::Exchange;
use kv_routing::policy::CostWeights;
use kv_routing::policy::document::{
    Busy, Document, ExplainLevel, HeaderMatch, HeaderTest, Match, Mode, Overload, Policy, Rule, RuleSet, SessionKey,
    Shadow,
};

use crate::stage::{Stage, Thread, completion, target};

fn policy(name: &str, mode: Mode) -> Policy {
    Policy { mode, ..Policy::named(name) }
}

fn only(policy: Policy) -> RuleSet {
    RuleSet { rules: vec![], policies: vec![policy], default_policy: 0 }
}

fn put(stage: &mut Stage, live: RuleSet) {
    let version = stage.policy.as_ref().map_or(0, |document| document.version) + 1;
    stage.policy = Some(Document { version, live, shadow: None });
    stage.push();
    stage.envoy.pass(10);
}

fn send(stage: &mut Stage, headers: &[(&str, &[u8])], ids: std::ops::Range<u32>) -> Exchange {
    post(stage, "/v1/completions", headers, &completion("base", ids))
}

fn post(stage: &mut Stage, path: &str, headers: &[(&str, &[u8])], body: &[u8]) -> Exchange {
    let exchange = stage.open(0, path, headers);
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.body(host, vm, body, true);
    exchange
}

/// A completion of the base model with one more field.
fn with_field(field: &str, ids: std::ops::Range<u32>) -> Vec<u8> {
    let body = completion("base", ids);
    [b"{", field.as_bytes(), b",", &body[1..]].concat()
}

/// Three policies that can be told apart, and these rules over them; the first one is the default.
fn ruled(rules: Vec<Rule>) -> RuleSet {
    let policies = ["a", "b", "c"].map(|name| policy(name, Mode::LeastLoaded));
    RuleSet { rules, policies: policies.into(), default_policy: 0 }
}

fn rule(name: &str, policy: u16, when: Match) -> Rule {
    Rule { name: name.into(), policy, when }
}

/// Policy and rule that decided.
fn decided(stage: &Stage, exchange: &Exchange) -> (String, String) {
    let decision = stage.decision(0, exchange);
    let word = |field: &str| decision[field].as_str().expect(field).to_owned();
    (word("policy"), word("rule"))
}

#[test]
fn a_policy_decides_and_is_named_and_the_next_one_takes_over() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    put(&mut stage, only(policy("turns", Mode::RoundRobin)));
    let firsts: Vec<String> = (0..6)
        .map(|_| {
            let exchange = stage.prompt(0..160);
            assert_eq!(stage.decision(0, &exchange)["policy"], "turns");
            assert_eq!(stage.decision(0, &exchange)["rung"], "mode");
            stage.endpoints(0, &exchange)[0].clone()
        })
        .collect();
    assert_eq!(firsts[..3], firsts[3..]);
    let mut different = firsts[..3].to_vec();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), 3);
    put(&mut stage, only(policy("cache", Mode::Kv)));
    let exchange = stage.prompt(0..160);
    assert_eq!(
        (&stage.decision(0, &exchange)["policy"], &*stage.endpoints(0, &exchange)[0]),
        (&"cache".into(), "10.0.0.2:8000")
    );
    stage.envoy.pass(200);
    stage.threads[0].tick();
    assert_eq!(stage.row(0).policy_version, 2);
}

#[test]
fn rules_look_at_headers_and_tokens() {
    let mut stage = Stage::new();
    let gold = HeaderMatch { name: "x-tenant".into(), test: HeaderTest::Exact("gold".into()) };
    let rules = vec![
        rule("gold tenants", 1, Match { headers: vec![gold], ..Match::default() }),
        rule("long prompts", 2, Match { min_prompt_tokens: Some(100), ..Match::default() }),
    ];
    put(&mut stage, ruled(rules));
    let mut by = |headers: &[(&str, &[u8])], ids| {
        let exchange = send(&mut stage, headers, ids);
        decided(&stage, &exchange)
    };
    assert_eq!(by(&[("X-Tenant", b"gold")], 0..200), ("b".into(), "gold tenants".into()));
    assert_eq!(by(&[("x-tenant", b"\xff")], 0..200), ("c".into(), "long prompts".into()));
    assert_eq!(by(&[], 0..99), ("a".into(), "default".into()));
}

#[test]
fn rules_look_at_priority_adapter_path_model_and_streaming() {
    let mut stage = Stage::new();
    let cases: [(Match, &str, Vec<u8>); 6] = [
        (
            Match { min_priority: Some(5), max_priority: Some(9), ..Match::default() },
            "/v1/completions",
            with_field("\"priority\":9", 0..64),
        ),
        (Match { max_priority: Some(-1), ..Match::default() }, "/v1/completions", with_field("\"priority\":-1", 0..64)),
        (Match { adapters: vec!["lora".into()], ..Match::default() }, "/v1/completions", completion("lora", 0..64)),
        (
            Match { paths: vec!["/v1/embeddings".into()], ..Match::default() },
            "/v1/embeddings?x=1",
            b"{\"model\":\"base\",\"input\":[1,2,3]}".to_vec(),
        ),
        (Match { models: vec!["alias".into()], ..Match::default() }, "/v1/completions", completion("alias", 0..64)),
        (Match { stream: Some(true), ..Match::default() }, "/v1/completions", with_field("\"stream\":true", 0..64)),
    ];
    for (when, path, body) in cases {
        put(&mut stage, ruled(vec![rule("tested", 1, when.clone())]));
        let exchange = post(&mut stage, path, &[], &body);
        assert_eq!(decided(&stage, &exchange), ("b".into(), "tested".into()), "{when:?}");
        let exchange = stage.prompt(0..64);
        assert_eq!(decided(&stage, &exchange), ("a".into(), "default".into()), "{when:?}");
    }
    put(&mut stage, ruled(vec![rule("urgent", 1, Match { max_priority: Some(4), ..Match::default() })]));
    let exchange = post(&mut stage, "/v1/completions", &[], &with_field("\"priority\":5", 0..64));
    assert_eq!(decided(&stage, &exchange).0, "a", "above the highest priority");
}

#[test]
fn pass_leaves_the_request_to_envoy() {
    let mut stage = Stage::new();
    put(&mut stage, only(policy("out", Mode::Pass)));
    let exchange = stage.prompt(0..64);
    assert_eq!(stage.unrouted(0, &exchange), "policy");
}

#[test]
fn a_refused_request_is_answered_once_says_when_to_come_back_and_books_nothing() {
    let mut stage = Stage::new();
    stage.targets.iter_mut().for_each(|target| target.waiting = 1);
    for (status, seconds) in [(429, 7), (503, 1), (529, 30)] {
        let mut full = policy("full", Mode::Kv);
        full.busy = Busy { waiting: Some(0), ..Busy::default() };
        full.overload = Overload::Reject { status, retry_after_seconds: seconds };
        put(&mut stage, only(full));
        let exchange = stage.prompt(0..64);
        assert!(!exchange.is_released(&stage.threads[0].host));
        assert_eq!(stage.decision(0, &exchange)["refused"], status);
        let Thread { host, vm, .. } = &mut stage.threads[0];
        let stream = exchange.done(host, vm);
        let (answered, body) = stream.reply.clone().unwrap();
        assert_eq!(answered, u32::from(status));
        assert!(stream.reply_headers.contains(&("retry-after".into(), seconds.to_string())), "{stream:?}");
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["message"], "every worker is busy");
    }
    assert_eq!((stage.envoy.count("refused"), stage.envoy.count("routed")), (3, 0));
    assert_eq!(stage.threads[0].vm.ledger.requests(), 0);
}

#[test]
fn direct_obeys_the_caller_and_refuses_what_is_unknown() {
    let mut stage = Stage::new();
    put(&mut stage, only(policy("direct", Mode::Direct { header: "x-worker".into() })));
    let exchange = send(&mut stage, &[("x-worker", b"10.0.0.3:8000")], 0..64);
    assert_eq!(stage.endpoints(0, &exchange), ["10.0.0.3:8000"]);
    let exchange = send(&mut stage, &[("x-worker", b"1.2.3.4:5")], 0..64);
    assert_eq!(stage.decision(0, &exchange)["refused"], 400);
}

#[test]
fn sessions_stay_on_every_thread_until_they_expire() {
    let mut stage = Stage::new();
    let key = SessionKey::Header("x-session".into());
    put(&mut stage, only(policy("sticky", Mode::Session { key, hard: true, ttl_seconds: 60 })));
    let first = send(&mut stage, &[("x-session", b"s1")], 0..64);
    let home = stage.endpoints(0, &first)[0].clone();
    for at in [0, 1, 0, 1] {
        let exchange = stage.open(at, "/v1/completions", &[("x-session", b"s1")]);
        let Thread { host, vm, .. } = &mut stage.threads[at];
        exchange.body(host, vm, &completion("base", 0..64), true);
        assert_eq!(stage.endpoints(at, &exchange)[0], home);
    }
    let others: Vec<String> = (0..8)
        .map(|session| {
            let exchange = send(&mut stage, &[("x-session", format!("t{session}").as_bytes())], 0..64);
            stage.endpoints(0, &exchange)[0].clone()
        })
        .collect();
    assert!(others.iter().any(|other| *other != home), "sessions spread: {others:?}");
}

/// One who was where nobody would send the next prompt comes back there, until the time to live is over.
#[test]
fn the_user_of_the_body_names_a_session_that_ends_after_its_time_to_live() {
    let mut stage = Stage::new();
    put(&mut stage, only(policy("sticky", Mode::Session { key: SessionKey::User, hard: true, ttl_seconds: 60 })));
    let ask = |stage: &mut Stage, user: &str, ids: std::ops::Range<u32>| {
        let exchange = post(stage, "/v1/completions", &[], &with_field(&format!("\"user\":\"{user}\""), ids));
        let endpoint = stage.endpoints(0, &exchange)[0].clone();
        stage.finish(0, &exchange);
        endpoint
    };
    let home = ask(&mut stage, "ann", 0..64);
    let elsewhere = (1..=3).find(|slot| target(*slot).endpoint != home).unwrap();
    stage.holds(elsewhere, 1_000..1_160);
    assert_eq!(ask(&mut stage, "ben", 1_000..1_160), target(elsewhere).endpoint, "no session: by cost");
    assert_eq!(ask(&mut stage, "ann", 1_000..1_160), home, "where the session is");
    for seconds in [60, 60] {
        stage.envoy.pass(seconds * 1_000);
        stage.push();
        assert_eq!(ask(&mut stage, "ann", 1_000..1_160), home, "every request renews the session");
    }
    stage.envoy.pass(61_000);
    stage.push();
    assert_eq!(ask(&mut stage, "ann", 1_000..1_160), target(elsewhere).endpoint, "the session is forgotten");
}

#[test]
fn a_shadow_is_counted_and_has_no_effect() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    let shadow = Shadow { sample_per_million: 1_000_000, rules: only(policy("same", Mode::Kv)) };
    stage.policy = Some(Document { version: 1, live: only(policy("live", Mode::Kv)), shadow: Some(shadow) });
    stage.push();
    stage.envoy.pass(10);
    for _ in 0..5 {
        let exchange = stage.prompt(0..160);
        assert_eq!(stage.endpoints(0, &exchange)[0], "10.0.0.2:8000");
    }
    assert_eq!((stage.envoy.count("shadow.evaluated"), stage.envoy.count("shadow.agreed")), (5, 5));
}

/// Live and shadow draw the same random numbers, so nothing but their documents can make them differ.
#[test]
fn a_shadow_of_an_identical_document_always_agrees_and_is_reported() {
    const ROUNDS: u32 = 20;
    for mode in [
        Mode::Kv,
        Mode::LeastLoaded,
        Mode::PowerOfTwo,
        Mode::RoundRobin,
        Mode::Random,
        Mode::PrefixHash { tokens: 64, load_bound_percent: 125 },
        Mode::Session { key: SessionKey::Header("x-session".into()), hard: false, ttl_seconds: 60 },
        Mode::Session { key: SessionKey::Header("x-session".into()), hard: true, ttl_seconds: 60 },
        Mode::Direct { header: "x-worker".into() },
        Mode::Pass,
    ] {
        let (mut stage, routed) = (Stage::new(), mode != Mode::Pass);
        let mut document = policy("p", mode.clone());
        document.weights.temperature = 0.5;
        let shadow = Shadow { sample_per_million: 1_000_000, rules: only(document.clone()) };
        stage.policy = Some(Document { version: 1, live: only(document), shadow: Some(shadow) });
        stage.push();
        stage.envoy.pass(10);
        for round in 0..ROUNDS {
            let (session, worker) = (format!("s{}", round % 5), target(1 + (round % 3) as u16).endpoint);
            let headers = [("x-session", session.as_bytes()), ("x-worker", worker.as_bytes())];
            let exchange = send(&mut stage, &headers, round * 100..round * 100 + 160);
            stage.finish(0, &exchange);
        }
        let counted = (stage.envoy.count("shadow.evaluated"), stage.envoy.count("shadow.agreed"));
        assert_eq!(counted, (ROUNDS.into(), ROUNDS.into()), "{mode:?}");
        stage.envoy.pass(200);
        stage.threads[0].tick();
        let decisions = stage.push().decisions;
        assert_eq!(decisions.len(), if routed { ROUNDS as usize } else { 0 }, "{mode:?}");
        assert!(decisions.iter().all(|decision| decision.shadow.unwrap().target == Some(decision.target)), "{mode:?}");
    }
}

/// A session that is not known yet goes where the cost says, for either document by its own; a known one where it is.
#[test]
fn a_shadow_does_not_take_the_live_choice_for_a_remembered_session() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    let session = |device_credit| {
        let key = SessionKey::Header("x-session".into());
        let mut policy = policy("sticky", Mode::Session { key, hard: true, ttl_seconds: 60 });
        policy.weights = CostWeights { device_credit, request_weight: 1.0, ..CostWeights::default() };
        policy
    };
    let shadow = Shadow { sample_per_million: 1_000_000, rules: only(session(0.0)) };
    stage.policy = Some(Document { version: 1, live: only(session(1.0)), shadow: Some(shadow) });
    stage.push();
    stage.envoy.pass(10);
    // The holder is busier than the others, so that without credit it is the dearest.
    send(&mut stage, &[("x-session", b"first")], 0..160);
    let before = stage.envoy.count("shadow.agreed");
    let exchange = send(&mut stage, &[("x-session", b"second")], 0..160);
    assert_eq!(stage.endpoints(0, &exchange)[0], target(2).endpoint);
    assert_eq!(stage.envoy.count("shadow.agreed"), before, "the shadow would have begun elsewhere");
    send(&mut stage, &[("x-session", b"second")], 0..160);
    assert_eq!(stage.envoy.count("shadow.agreed"), before + 1, "and would have stayed where the session is");
}

/// A policy that leaves everything to Envoy can be compared with one that would not.
#[test]
fn a_shadow_looks_at_what_is_passed_on_too() {
    let mut stage = Stage::new();
    let shadow = Shadow { sample_per_million: 1_000_000, rules: only(policy("cache", Mode::Kv)) };
    stage.policy = Some(Document { version: 1, live: only(policy("out", Mode::Pass)), shadow: Some(shadow) });
    stage.push();
    stage.envoy.pass(10);
    let exchange = stage.prompt(0..160);
    assert_eq!(stage.unrouted(0, &exchange), "policy");
    assert_eq!((stage.envoy.count("shadow.evaluated"), stage.envoy.count("shadow.agreed")), (1, 0));
}

#[test]
fn explanations_can_be_turned_off_or_shown_to_the_client() {
    let mut stage = Stage::new();
    let mut silent = policy("silent", Mode::Kv);
    silent.explain = ExplainLevel::Off;
    put(&mut stage, only(silent));
    let exchange = stage.prompt(0..64);
    assert!(exchange.see(&stage.threads[0].host, |stream| !stream.filter_state.contains_key("kv_decision")));
    let mut shown = policy("shown", Mode::Kv);
    shown.explain = ExplainLevel::Header;
    put(&mut stage, only(shown));
    let exchange = stage.prompt(0..64);
    assert!(stage.finish(0, &exchange).response_header("x-kv-router-decision").unwrap().contains("shown"));
}

#[test]
fn a_traced_decision_bears_what_a_replay_needs() {
    let mut stage = Stage::new();
    let mut traced = policy("traced", Mode::Kv);
    traced.explain = ExplainLevel::Trace;
    put(&mut stage, only(traced));
    let exchange = stage.prompt(0..1_100);
    let trace = stage.decision(0, &exchange)["trace"].take();
    let chain = crate::stage::chain_of(0..1_100);
    assert_eq!(trace["hash_ids"], serde_json::json!([chain[31].0, chain[63].0]), "one per 512 tokens");
    assert_eq!(trace["timestamp"].as_u64(), Some(stage.envoy.millis()));
}

#[test]
fn a_document_that_cannot_be_read_leaves_the_old_one_in_force() {
    let mut stage = Stage::new();
    put(&mut stage, only(policy("good", Mode::RoundRobin)));
    stage.prompt(0..64);
    stage.policy = Some(Document { version: 9, ..Document::default() });
    stage.push();
    stage.push_of(false, &[(kv_routing::wire::keys::POLICY.to_owned(), b"\x01garbage".to_vec())]);
    stage.envoy.pass(10);
    let exchange = stage.prompt(0..64);
    assert_eq!(stage.decision(0, &exchange)["policy"], "good");
    assert!(stage.envoy.count("view_errors") > 0);
}
