//! Workers come and go under traffic.

use std::time::{Duration, Instant};

use e2e::bridge;
use e2e::engine::{self, Engine};
use e2e::prompt;
use e2e::stack::{Options, Stack};
use e2e::traffic::{self, Traffic};
use e2e::wait;

#[tokio::test]
async fn an_added_worker_gets_requests_within_a_second_and_a_removed_one_costs_none() {
    let engines = Engine::start_many(3, &engine::config()).await;
    let workers: Vec<_> = engines.iter().map(Engine::worker).collect();
    let stack = Stack::start(&workers[..2], Options::default()).await;
    let url = stack.envoy.url("/v1/chat/completions");
    let traffic = Traffic::start(&url, 6, |serial| prompt::question("mock", serial, 200));
    wait::until("traffic", Duration::from_secs(10), || async { (traffic.ended() > 20).then_some(()) }).await;

    let added = Instant::now();
    bridge::write_workers(&stack.scratch, &workers);
    wait::until("a request at the added worker", Duration::from_secs(5), || async {
        (engines[2].requests().await > 0).then_some(())
    })
    .await;
    let took = added.elapsed();
    assert!(took < Duration::from_secs(1), "the first request came after {took:?}");

    // A third of the traffic and more is in flight at the worker that goes.
    let removed = Instant::now();
    bridge::write_workers(&stack.scratch, &workers[1..]);
    wait::until("the removed worker is no endpoint any more", Duration::from_secs(10), || async {
        (stack.envoy.stat("cluster.workers.membership_total").await == 2).then_some(())
    })
    .await;
    println!("endpoint gone {:?} after its removal", removed.elapsed());
    let before = engines[0].requests().await;
    let ended = traffic.ended();
    wait::until("more traffic", Duration::from_secs(10), || async { (traffic.ended() > ended + 30).then_some(()) })
        .await;
    assert_eq!(engines[0].requests().await, before, "a removed worker gets nothing new");

    let results = traffic.stop().await;
    assert!(results.len() > 60);
    traffic::expect_all_ok(&results);
}
