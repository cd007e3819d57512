//! Data-parallel ranks: several caches behind one address.

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::engine::{self, Engine};
use e2e::stack::{Options, Stack};
use e2e::{ports, prompt, wait};
use mock_engine::{EngineConfig, EventsConfig};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(10);

/// The first of two ports in a row.
fn two_ports() -> u16 {
    loop {
        let (first, second) = (ports::free(), ports::free());
        if second == first + 1 {
            return first;
        }
    }
}

/// Each rank is a target of its own, and the engine is told which one a prompt was routed to: it finds there what was predicted.
#[tokio::test]
async fn each_rank_is_a_target_and_the_engine_is_told_which() {
    let [events, replay] = [two_ports(), two_ports()].map(|port| format!("tcp://127.0.0.1:{port}"));
    let sockets =
        EventsConfig { endpoint: events.clone(), replay_endpoint: Some(replay.clone()), ..EventsConfig::default() };
    let config = EngineConfig { data_parallel_size: 2, events: Some(sockets), ..engine::config() };
    let engine = Engine::start(config).await;
    let worker = json!({"address": engine.address(), "ranks": 2, "events": {"endpoint": events, "replay": replay}});
    let pool = json!({"workers_file": null, "workers": [worker]});
    let mut stack = Stack::start(&[engine.worker()], Options { pool, ..Options::default() }).await;

    let mut used = BTreeSet::new();
    for seed in 0..8 {
        let question = prompt::question("mock", seed, 300);
        let before = stack.bridge.metric("kv_bridge_index_holder_blocks", "").await;
        stack.chat(&question).await.expect_ok();
        let first = stack.next_decision().await;
        wait::until("the prompt is found", LIMIT, || async {
            let indexed = stack.bridge.metric("kv_bridge_index_holder_blocks", "").await;
            (indexed >= before + first.blocks as f64).then_some(())
        })
        .await;
        let answer = stack.chat(&question).await.expect_ok().json();
        let again = stack.next_decision().await;
        assert_eq!((again.rank, again.overlap.total()), (first.rank, first.blocks));
        let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
        assert_eq!(cached, Some(again.predicted_cached_tokens(16)), "by the cache of that rank");
        used.insert(first.rank.expect("a rank"));
    }
    assert_eq!(used, BTreeSet::from([0, 1]));
    wait::until("both ranks are exact", LIMIT, || async {
        let pools = stack.bridge.get("/workers").await;
        let targets = pools["pools"][0]["workers"][0]["targets"].as_array().expect("targets").clone();
        (targets.len() == 2 && targets.iter().all(|target| target["state"] == "exact")).then_some(())
    })
    .await;
}
