//! A real trace is served better with the filter than without, and a shadow tells how another policy would have served it.

use std::env;
use std::f64::consts::SQRT_2;

use e2e::replay::{self, Balancing, Outcome};
use serde_json::json;

/// Requests arrive, and engines work, this many times as fast as recorded.
const COMPRESSION: f64 = 10.0;
const REQUESTS: usize = 500;
/// How far the hit rate that a shadow predicts may be from that of its policy at work: two points.
const SHADOW_ERROR: f64 = 0.02;

fn report(name: &str, outcome: &Outcome) {
    println!(
        "{name:<14} hit rate {:5.2} % +- {:.2}  mean {:?}  p90 {:?}",
        100.0 * outcome.hit_rate(),
        100.0 * outcome.hit_rate_error(),
        outcome.mean(),
        outcome.quantile(0.9)
    );
}

#[tokio::test]
async fn the_mooncake_trace_hits_more_and_waits_less() {
    let requests = replay::first(REQUESTS);
    let kv = Balancing::Kv.replay(&requests, COMPRESSION).await.expect("every request is answered");
    report(Balancing::Kv.name(), &kv);
    for other in [Balancing::LeastRequest, Balancing::RoundRobin] {
        let name = other.name();
        let outcome = other.replay(&requests, COMPRESSION).await.expect("every request is answered");
        report(name, &outcome);
        assert_eq!(kv.prompt_tokens, outcome.prompt_tokens, "the same prompts");
        assert!(kv.hit_rate() > outcome.hit_rate(), "{name}: {} against {}", outcome.hit_rate(), kv.hit_rate());
        assert!(kv.mean() < outcome.mean(), "{name}: {:?} against {:?}", outcome.mean(), kv.mean());
    }
}

/// The trace once by KV cost with round robin as the shadow, and once by round robin. Few requests leave much to chance: then two standard
/// errors of the difference are allowed. `make test-shadow` replays enough of them (`E2E_SHADOW_REQUESTS`) for the two points to hold.
#[tokio::test]
async fn a_shadow_predicts_the_hit_rate_of_round_robin_at_work() {
    let count = env::var("E2E_SHADOW_REQUESTS").map_or(REQUESTS, |count| count.parse().expect("a number of requests"));
    let requests = replay::first(count);
    let turns = json!({"version": 1, "policies": {"turns": {"mode": "round_robin"}}, "default": "turns"});
    let (kv, shadow) = replay::replay_beside(&turns, &requests, COMPRESSION).await.expect("every request is answered");
    let at_work = replay::replay_under(&turns, &requests, COMPRESSION).await.expect("every request is answered");
    report("kv", &kv);
    println!("shadow         {shadow}");
    report("round robin", &at_work);
    assert_eq!(shadow["requests"], count, "every decision is reported: {shadow}");
    assert!(shadow["agreement"].as_f64().expect("a share") < 0.6, "taking turns is not following caches: {shadow}");
    let predicted = shadow["shadow_hit_rate"].as_f64().expect("a rate");
    let allowed = SHADOW_ERROR.max(2.0 * SQRT_2 * at_work.hit_rate_error());
    let off = (predicted - at_work.hit_rate()).abs();
    println!("{count} requests: predicted {predicted:.4}, at work {:.4}, {allowed:.4} allowed", at_work.hit_rate());
    assert!(off < allowed, "the shadow predicted {predicted}, at work it is {}", at_work.hit_rate());
}
