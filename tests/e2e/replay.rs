//! A real trace is served better with the filter than without.

use e2e::replay::{self, Balancing, Outcome};

/// Requests arrive, and engines work, this many times as fast as recorded.
const COMPRESSION: f64 = 10.0;
const REQUESTS: usize = 500;

async fn replay(balancing: Balancing) -> Outcome {
    let outcome = balancing.replay(&replay::first(REQUESTS), COMPRESSION).await.expect("every request is answered");
    println!(
        "{:<14} hit rate {:5.2} %  mean {:?}  p90 {:?}",
        balancing.name(),
        100.0 * outcome.hit_rate(),
        outcome.mean(),
        outcome.quantile(0.9)
    );
    outcome
}

#[tokio::test]
async fn the_mooncake_trace_hits_more_and_waits_less() {
    let kv = replay(Balancing::Kv).await;
    for other in [Balancing::LeastRequest, Balancing::RoundRobin] {
        let name = other.name();
        let other = replay(other).await;
        assert_eq!(kv.prompt_tokens, other.prompt_tokens, "the same prompts");
        assert!(kv.hit_rate() > other.hit_rate(), "{name}: {} against {}", other.hit_rate(), kv.hit_rate());
        assert!(kv.mean() < other.mean(), "{name}: {:?} against {:?}", other.mean(), kv.mean());
    }
}
