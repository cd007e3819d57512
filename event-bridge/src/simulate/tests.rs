//! The model against what can be worked out by hand, and policies against each other on a real trace.

use kv_routing::policy::document::{Mode, Policy, RuleSet, SessionKey};

use super::*;

fn rules(mode: Mode) -> RuleSet {
    RuleSet { rules: vec![], policies: vec![Policy { mode, ..Policy::named("p") }], default_policy: 0 }
}

fn setup(engines: u16) -> Setup {
    let model = EngineModel {
        prefill_tokens_per_second: 10_240.0,
        decode_ms_per_token: 10.0,
        max_requests: 2,
        cache_tokens: 512 * 100,
    };
    Setup { engines, model, seed: 1 }
}

fn lines(requests: &[(u64, u32, &[u64])]) -> String {
    let line = |(timestamp, output, ids): &(u64, u32, &[u64])| {
        let tokens = ids.len() * 512;
        serde_json::json!({"timestamp": timestamp, "input_length": tokens, "output_length": output, "hash_ids": ids})
            .to_string()
    };
    requests.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn read(text: &str) -> Result<Vec<Arrival>, TraceError> {
    parse(text, Reading { speedup: 1.0, answer_tokens: 7 })
}

fn run(text: &str, mode: Mode, setup: &Setup) -> Report {
    simulate(&read(text).unwrap(), &rules(mode), None, setup, |_| {})
}

#[test]
fn one_engine_by_hand() {
    // 10 blocks take 500 ms. The second request repeats the first: one token is left, 0.1 ms.
    let ids: Vec<u64> = (0..10).collect();
    let report = run(&lines(&[(0, 1, &ids), (1000, 1, &ids)]), Mode::Kv, &setup(1));
    assert_eq!((report.served, report.refused), (2, 0));
    assert!((report.ttft_ms.mean - 250.05).abs() < 0.1, "{report:?}");
    assert!((report.hit_rate - 5119.0 / 10_240.0).abs() < 1e-6, "{report:?}");

    // Prefills follow one another, and a third request waits for one of two places: the first is free after 500 + 90 ms.
    let (a, b, c) = ([1_u64; 1], [2_u64; 1], [3_u64; 1]);
    let report = run(&lines(&[(0, 10, &a), (0, 10, &b), (0, 1, &c)]), Mode::Kv, &setup(1));
    assert_eq!(report.longest_queue, 2, "one waits for the prefill before it, one for a place");
    // First tokens at 50, 100, and, after the first request's end at 140, at 190 ms.
    assert!((report.ttft_ms.mean - (50.0 + 100.0 + 190.0) / 3.0).abs() < 0.1, "{report:?}");
    assert!((report.queued_ms.mean - (0.0 + 50.0 + 140.0) / 3.0).abs() < 0.1, "{report:?}");
}

/// Turns of two conversations on two engines: with a cost they would be drawn to where others are not, as a session they stay.
#[test]
fn a_session_stays_where_its_conversation_began_until_it_is_forgotten() {
    let turn = |conversation: u64, turns: u64| -> Vec<u64> { (0..turns).map(|at| conversation * 100 + at).collect() };
    let text = lines(&[
        (0, 200, &turn(1, 1)),
        (0, 200, &turn(2, 1)),
        (10_000, 200, &turn(1, 2)),
        (10_000, 200, &turn(1, 3)),
        (10_000, 200, &turn(1, 4)),
    ]);
    let session = |ttl_seconds| Mode::Session { key: SessionKey::User, hard: true, ttl_seconds };
    // Four turns of one conversation on one engine, one on the other: deviation 1.5 of a mean of 2.5.
    let stayed = run(&text, session(600), &setup(2));
    assert!((stayed.load_variation - 0.6).abs() < 1e-9, "{stayed:?}");
    let beside = |live, shadow| {
        simulate(&read(&text).unwrap(), &rules(live), Some(&rules(shadow)), &setup(2), |_| {}).shadow.unwrap().agreement
    };
    assert_eq!(beside(session(600), session(600)), 1.0);
    assert!(beside(Mode::RoundRobin, session(600)) < 1.0, "what round robin does is remembered by nobody");
}

#[test]
fn a_trace_may_name_conversations_and_workers() {
    let line = |session: &str, worker: u16| {
        serde_json::json!({"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1],
                           "session_id": session, "worker": worker})
        .to_string()
    };
    let text = [line("a", 1), line("b", 1), line("a", 0), line("a", 7)].join("\n");
    let named: Vec<String> = read(&text).unwrap().into_iter().map(|arrival| arrival.session).collect();
    assert_eq!(named, ["a", "b", "a", "a"]);
    let report = run(&text, Mode::Direct { header: "x-worker".into() }, &setup(2));
    assert_eq!((report.served, report.refused), (3, 1), "there is no engine 7");
    assert!((report.load_variation - 1.0 / 3.0).abs() < 1e-9, "two and one: {report:?}");
    let unnamed = lines(&[(0, 1, &[1])]);
    assert_eq!(run(&unnamed, Mode::Direct { header: "x-worker".into() }, &setup(2)).refused, 1);
}

#[test]
fn the_cache_is_bounded_and_evicts_what_was_used_longest_ago() {
    let mut small = setup(1);
    small.model.cache_tokens = 512 * 2;
    let (a, b, c): (&[u64], &[u64], &[u64]) = (&[1], &[2], &[3]);
    let kept = lines(&[(0, 1, a), (1000, 1, b), (2000, 1, a)]);
    assert!(run(&kept, Mode::Kv, &small).hit_rate > 0.3);
    let evicted = lines(&[(0, 1, a), (1000, 1, b), (2000, 1, c), (3000, 1, a)]);
    assert_eq!(run(&evicted, Mode::Kv, &small).hit_rate, 0.0);
}

#[test]
fn bad_lines_are_named() {
    assert_eq!(read("{}").unwrap_err().line, 1);
    let short = r#"{"timestamp":0,"input_length":1000,"output_length":1,"hash_ids":[1]}"#;
    assert!(read(short).unwrap_err().to_string().contains("need 2 hash ids, there are 1"));
    let backwards = lines(&[(5, 1, &[1]), (4, 1, &[1])]);
    assert_eq!(read(&backwards).unwrap_err().line, 2);
}

/// Engines that a real trace keeps busy.
fn eight_engines() -> Setup {
    let model = EngineModel {
        prefill_tokens_per_second: 8_000.0,
        decode_ms_per_token: 20.0,
        max_requests: 64,
        cache_tokens: 1_000_000,
    };
    Setup { engines: 8, model, seed: 7 }
}

#[test]
fn equal_seeds_give_equal_reports_and_kv_beats_the_others_on_a_real_trace() {
    let text = include_str!("../../../tests/data/mooncake-conversation.jsonl");
    let head: Vec<&str> = text.lines().take(1500).collect();
    let arrivals = read(&head.join("\n")).unwrap();
    let setup = eight_engines();
    let report = |mode| simulate(&arrivals, &rules(mode), None, &setup, |_| {});
    let kv = report(Mode::Kv);
    assert_eq!(kv, report(Mode::Kv));
    for other in [Mode::LeastLoaded, Mode::RoundRobin] {
        let other = report(other);
        assert!(kv.ttft_ms.mean < other.ttft_ms.mean && kv.hit_rate > other.hit_rate, "{kv:?} {other:?}");
    }
}

/// Caches are those that the live policy makes, so a shadow's figure is a prediction and not a replay.
#[test]
fn a_shadow_predicts_the_hit_rate_of_round_robin_and_agrees_with_itself() {
    let arrivals = read(include_str!("../../../tests/data/mooncake-conversation.jsonl")).unwrap();
    let setup = eight_engines();
    let beside = |mode, shadow| simulate(&arrivals, &rules(mode), Some(&rules(shadow)), &setup, |_| {}).shadow.unwrap();
    let predicted = beside(Mode::Kv, Mode::RoundRobin);
    let found = simulate(&arrivals, &rules(Mode::RoundRobin), None, &setup, |_| {}).hit_rate;
    assert!((predicted.hit_rate - found).abs() < 0.02, "{predicted:?}, at work {found}");
    assert!(predicted.agreement < 0.5, "{predicted:?}");
    let session = Mode::Session { key: SessionKey::User, hard: false, ttl_seconds: 600 };
    let prefix_hash = Mode::PrefixHash { tokens: 2_048, load_bound_percent: 125 };
    for mode in [Mode::Kv, Mode::RoundRobin, Mode::Random, Mode::PowerOfTwo, session, prefix_hash] {
        assert_eq!(beside(mode.clone(), mode).agreement, 1.0);
    }
}

#[test]
fn an_access_log_is_a_trace_when_decisions_bear_one() {
    let line = |ms: u64, tokens: u32, ids: &[u64]| {
        let decision = serde_json::json!({"pool": "p", "tokens": tokens, "trace": {"timestamp": ms, "hash_ids": ids}});
        format!("[2026-11-30T20:00:00.000Z] status=200 kv={decision}")
    };
    let unrouted = r#"[x] status=200 kv={"unrouted":"no_body"}"#;
    let log = [line(9_000, 1_030, &[5, 6]), line(8_500, 100, &[]), "[x] status=404 kv=-".into(), unrouted.into()];
    let arrivals = read(&log.join("\n")).unwrap();
    let told: Vec<_> =
        arrivals.iter().map(|one| (one.at_us, one.prompt_tokens, one.output_tokens, one.chain.len())).collect();
    assert_eq!(told, [(0, 100, 7, 0), (500_000, 1_030, 7, 2)]);
    assert!(read(r#"[x] kv={"tokens":5}"#).unwrap_err().to_string().contains("explain"));
    assert!(read("[x] status=200").is_err());
}
