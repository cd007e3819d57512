//! Processes die; requests do not.

use std::ops::Range;
use std::time::{Duration, Instant};

use e2e::bridge::Bridge;
use e2e::client::Failure;
use e2e::engine::{self, Engine};
use e2e::prompt;
use e2e::stack::{Options, Stack};
use e2e::traffic::{self, Traffic};
use e2e::wait;
use mock_engine::{EngineConfig, Speed};

/// Exact routing has to be back this soon after whatever was gone is there again.
const BACK_WITHIN: Duration = Duration::from_secs(2);

async fn stack_of(engines: &[Engine]) -> Stack {
    let workers: Vec<_> = engines.iter().map(Engine::worker).collect();
    Stack::start(&workers, Options::default()).await
}

/// Gives `engine` prompts that it alone holds, past Envoy, so that only the engine's own events tell of them.
async fn give(engine: &Engine, stack: &Stack, seeds: Range<u64>) {
    for seed in seeds {
        let document = prompt::question("mock", seed, 200);
        stack.client.post(&engine.url("/v1/chat/completions"), &document).await.expect("engine").expect_ok();
    }
}

/// Sends prompts that `holder` alone holds, a new one each time, until one is routed to it for all of its blocks.
async fn until_exact(stack: &mut Stack, holder: &Engine, mut seeds: Range<u64>) {
    wait::until("a prompt is routed exactly", 4 * BACK_WITHIN, async || {
        let seed = seeds.next().expect("enough prompts");
        stack.chat(&prompt::question("mock", seed, 200)).await.expect_ok();
        let decision = stack.next_line().await.decision?;
        let whole = decision.rung == "exact" && decision.overlap.total() == decision.blocks;
        (whole && decision.target == holder.address()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn requests_flow_without_the_bridge_and_exact_routing_is_back_after_its_restart() {
    let engines = Engine::start_many(2, &engine::config()).await;
    let mut stack = stack_of(&engines).await;
    give(&engines[0], &stack, 0..50).await;
    until_exact(&mut stack, &engines[0], 0..50).await;

    stack.bridge.kill().await;
    let url = stack.envoy.url("/v1/chat/completions");
    let traffic = Traffic::start(&url, 4, |serial| prompt::question("mock", 10_000 + serial, 100));
    wait::until("traffic", Duration::from_secs(20), async || (traffic.ended() > 100).then_some(())).await;
    let results = traffic.stop().await;
    traffic::expect_all_ok(&results);
    stack.skip_lines(results.len()).await;

    // Only what the engine replays can tell the new bridge of these.
    give(&engines[1], &stack, 1_000..1_200).await;
    let started = Instant::now();
    stack.bridge = Bridge::launch(&stack.scratch).await;
    until_exact(&mut stack, &engines[1], 1_000..1_200).await;
    let took = started.elapsed();
    println!("exact routing back {took:?} after the bridge's start");
    assert!(took < BACK_WITHIN, "exact routing came back {took:?} after the bridge's start");
}

#[tokio::test]
async fn exact_routing_is_back_after_a_restart_of_envoy() {
    let engines = Engine::start_many(2, &engine::config()).await;
    let mut stack = stack_of(&engines).await;
    give(&engines[1], &stack, 0..200).await;
    stack.restart_envoy().await;
    let started = Instant::now();
    until_exact(&mut stack, &engines[1], 0..200).await;
    let took = started.elapsed();
    println!("exact routing back {took:?} after Envoy was ready");
    assert!(took < BACK_WITHIN, "exact routing came back {took:?} after Envoy was ready");
}

/// Slow enough that every engine always has requests waiting, computing and streaming.
fn slow() -> EngineConfig {
    let speed = Speed { prefill_tokens_per_s: 20_000.0, decode_ms_per_token: 5.0, speedup: 1.0 };
    EngineConfig { speed, ..engine::config() }
}

#[tokio::test]
async fn a_worker_that_dies_under_load_costs_no_request_that_had_not_begun_to_stream() {
    let mut engines = Engine::start_many(3, &slow()).await;
    let mut stack = stack_of(&engines).await;
    let url = stack.envoy.url("/v1/chat/completions");
    let traffic = Traffic::start(&url, 24, |serial| {
        let mut document = prompt::question("mock", serial, 150);
        document["max_tokens"] = 20.into();
        document["stream"] = (serial % 2 == 0).into();
        document
    });
    wait::until("traffic", Duration::from_secs(20), async || (traffic.ended() > 60).then_some(())).await;
    engines.remove(0).die();
    let died = traffic.ended();
    wait::until("traffic after", Duration::from_secs(20), async || (traffic.ended() > died + 150).then_some(())).await;
    let results = traffic.stop().await;

    let mut broken = 0;
    for result in &results {
        match result {
            Ok(reply) => assert_eq!(reply.status, 200, "{}", reply.text()),
            // An answer that a client has begun to read cannot be taken back.
            Err(Failure::Broken { .. }) => broken += 1,
            Err(failure @ Failure::NoAnswer(_)) => panic!("{failure}"),
        }
    }
    println!("{broken} of {} answers broke off in their stream", results.len());
    assert!(broken <= 24, "{broken} broken answers are more than were in flight");
    let lines = stack.next_lines(results.len()).await;
    let retried = lines.iter().filter(|line| line.attempts > 1 && line.status == 200).count();
    assert!(retried > 0, "no request was retried: nothing is shown");
}

/// Dead and unknown to the bridge still: the list's next endpoint takes over, without help from probes.
#[tokio::test]
async fn a_retry_goes_to_the_next_endpoint_of_the_list() {
    let mut engines = Engine::start_many(3, &engine::config()).await;
    let workers: Vec<_> = engines.iter().map(Engine::worker).collect();
    let pool = serde_json::json!({"probe": {"interval_ms": 60_000, "timeout_ms": 1000}});
    let mut stack = Stack::start(&workers, Options { pool, ..Options::default() }).await;
    give(&engines[0], &stack, 0..20).await;
    until_exact(&mut stack, &engines[0], 0..20).await;
    let dead = engines[0].address();
    engines.remove(0).die();
    stack.chat(&prompt::question("mock", 0, 200)).await.expect_ok();
    let line = stack.next_line().await;
    let decision = line.decision.expect("routed");
    assert_eq!(decision.target, dead, "the bridge cannot know yet");
    assert_eq!(line.attempts, 2);
    assert_eq!(line.upstream, decision.fallbacks[0]);
}
