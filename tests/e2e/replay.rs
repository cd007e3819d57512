//! A real trace is served better with the filter than without, and a shadow tells how another policy would have served it.

use e2e::replay::{self, Balancing, Outcome};
use serde_json::json;

/// Requests arrive, and engines work, this many times as fast as recorded.
const COMPRESSION: f64 = 10.0;
const REQUESTS: usize = 500;
/// How far a shadow's predicted hit rate may be from that of its policy at work. Where turns begin is chance, and over 500 requests
/// that alone moves the hit rate of round robin by one to two points; the simulator's test is paired and narrow.
const SHADOW_ERROR: f64 = 0.05;

fn report(name: &str, outcome: &Outcome) {
    println!(
        "{name:<14} hit rate {:5.2} %  mean {:?}  p90 {:?}",
        100.0 * outcome.hit_rate(),
        outcome.mean(),
        outcome.quantile(0.9)
    );
}

#[tokio::test]
async fn the_mooncake_trace_hits_more_and_waits_less() {
    let requests = replay::first(REQUESTS);
    let turns = json!({"version": 1, "policies": {"turns": {"mode": "round_robin"}}, "default": "turns"});
    let (kv, shadow) = Balancing::Kv.replay_with_shadow(&requests, COMPRESSION, &turns).await.expect("every answer");
    report(Balancing::Kv.name(), &kv);
    println!("shadow         {shadow}");
    for other in [Balancing::LeastRequest, Balancing::RoundRobin] {
        let name = other.name();
        let outcome = other.replay(&requests, COMPRESSION).await.expect("every request is answered");
        report(name, &outcome);
        assert_eq!(kv.prompt_tokens, outcome.prompt_tokens, "the same prompts");
        assert!(kv.hit_rate() > outcome.hit_rate(), "{name}: {} against {}", outcome.hit_rate(), kv.hit_rate());
        assert!(kv.mean() < outcome.mean(), "{name}: {:?} against {:?}", outcome.mean(), kv.mean());
        if other == Balancing::RoundRobin {
            let predicted = shadow["shadow_hit_rate"].as_f64().expect("a rate");
            let off = (predicted - outcome.hit_rate()).abs();
            assert!(off < SHADOW_ERROR, "the shadow predicted {predicted}, at work it is {}", outcome.hit_rate());
        }
    }
    assert_eq!(shadow["requests"], REQUESTS, "every decision is reported: {shadow}");
    assert!(shadow["agreement"].as_f64().expect("a share") < 0.6, "taking turns is not following caches: {shadow}");
}
