//! Data-parallel ranks on both sides.

use std::collections::BTreeSet;

use e2e::disagg::{self, Split, with_role};
use e2e::engine::Engine;
use e2e::prompt;
use e2e::stack::{Options, Stack};
use mock_engine::{EngineConfig, PdProtocol, Role};
use serde_json::{Value, json};

use super::{config, expect_no_bookings};

/// Ranks of each engine.
const RANKS: u32 = 2;

fn worker(engine: &Engine, role: &str) -> Value {
    let mut worker = json!({"address": engine.address(), "role": role, "ranks": RANKS, "events": {"enabled": false}});
    if let Some(port) = engine.worker().bootstrap_port {
        worker["bootstrap"] = json!({"port": port});
    }
    worker
}

/// Either engine refuses a request for a rank that is not the one its bootstrap room belongs to, and a decode engine blocks of another rank
/// than it was told.
#[tokio::test]
async fn each_phase_names_its_rank() {
    for protocol in [PdProtocol::Nixl, PdProtocol::Sglang] {
        let config = EngineConfig { data_parallel_size: RANKS, ..config(protocol) };
        let prefill = Engine::start(with_role(&config, Role::Prefill)).await;
        let decode = Engine::start(with_role(&config, Role::Decode)).await;
        let mut pool = disagg::pool(protocol);
        pool["workers_file"] = Value::Null;
        pool["workers"] = json!([worker(&prefill, "prefill"), worker(&decode, "decode")]);
        let options = Options { envoy: disagg::envoy(protocol), pool, ..Options::default() };
        let stack = Stack::start(&[prefill.worker(), decode.worker()], options).await;
        let mut split = Split { stack, prefill: vec![prefill], decode: vec![decode] };
        let mut used = BTreeSet::new();
        for seed in 0..16 {
            split.stack.chat(&prompt::question("mock", seed, 100)).await.expect_ok();
            let decision = split.stack.next_decision().await;
            let handoff = decision.handoff.unwrap_or_else(|| panic!("{protocol:?}: {:?}", decision.whole));
            used.insert((handoff.rank.expect("a prefill rank"), decision.rank.expect("a decode rank")));
        }
        let (first, second): (BTreeSet<_>, BTreeSet<_>) = used.into_iter().unzip();
        assert_eq!((first, second), (BTreeSet::from([0, 1]), BTreeSet::from([0, 1])), "{protocol:?}");
        assert_eq!(split.decoded("mock:fetches_total").await, 16);
        expect_no_bookings(&split).await;
    }
}
