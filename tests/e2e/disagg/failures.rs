//! Prefill engines die and come back.

use std::time::{Duration, Instant};

use e2e::bridge;
use e2e::disagg::{self, Split, with_role};
use e2e::engine::Engine;
use e2e::prompt;
use e2e::stack::Options;
use e2e::traffic::{self, Traffic};
use e2e::wait;
use mock_engine::{EngineConfig, PdProtocol, Role, Speed, TransferConfig};
use serde_json::{Value, json};

use super::{config, expect_no_bookings};

/// A prefill engine that returned has to be used this soon.
const BACK_WITHIN: Duration = Duration::from_secs(2);

fn slow(protocol: PdProtocol) -> EngineConfig {
    let speed = Speed { prefill_tokens_per_s: 50_000.0, decode_ms_per_token: 2.0, speedup: 1.0 };
    EngineConfig { speed, ..config(protocol) }
}

fn question(serial: u64) -> Value {
    let mut document = prompt::question("mock", serial, 150);
    document["max_tokens"] = 8.into();
    document["stream"] = serial.is_multiple_of(2).into();
    document
}

/// A pool whose bridge does not notice in time that an engine died.
fn without_probes(protocol: PdProtocol) -> Options {
    let mut pool = disagg::pool(protocol);
    pool["probe"] = json!({"interval_ms": 60_000, "timeout_ms": 1000});
    Options { envoy: disagg::envoy(protocol), pool, ..Options::default() }
}

async fn more(traffic: &Traffic, count: u64) {
    let ended = traffic.ended();
    wait::until("traffic", Duration::from_secs(20), async || (traffic.ended() >= ended + count).then_some(())).await;
}

/// Both prefill engines die under load, then one returns: on other ports, as another pod would, or on the `same` ones.
async fn die_one_by_one(protocol: PdProtocol, same: bool) {
    let mut config = slow(protocol);
    // What an engine has prefilled and not yet handed over dies with it.
    config.transfer.recompute_lost = true;
    let mut pool = disagg::pool(protocol);
    if same {
        // As often as it looks unless it is told otherwise.
        pool["probe"] = json!({});
    }
    let options = Options { envoy: disagg::envoy(protocol), pool, ..Options::default() };
    let mut split = Split::start_with(&config, 2, 2, options).await;
    let url = split.stack.envoy.url("/v1/chat/completions");
    let traffic = Traffic::start(&url, 12, question);
    more(&traffic, 40).await;
    split.prefill.remove(0).die();
    more(&traffic, 80).await;
    let last = split.prefill.remove(0);
    let ports = last.same_ports();
    // SGLang's decode engines serve nothing alone: what is under way when the last prefill engine dies is refused.
    let serves_whole = protocol != PdProtocol::Sglang;
    if serves_whole {
        last.die();
        more(&traffic, 80).await;
        traffic::expect_all_ok(&traffic.stop().await);
        let whole = split.stack.envoy.stat("kv_router.handoff.whole").await;
        assert!(whole > 0, "aggregated while there is no prefill engine");
    } else {
        traffic::expect_all_ok(&traffic.stop().await);
        let traffic = Traffic::start(&url, 12, |serial| question(5_000 + serial));
        more(&traffic, 40).await;
        last.die();
        more(&traffic, 80).await;
        for reply in traffic.stop().await {
            let reply = reply.expect("an answer");
            assert!([200, 503].contains(&reply.status.as_u16()), "{} {}", reply.status, reply.text());
        }
    }

    let returning = if same { ports } else { with_role(&config, Role::Prefill) };
    let back = Engine::start_again(returning).await;
    let returned = Instant::now();
    let workers: Vec<_> = split.decode.iter().chain([&back]).map(Engine::worker).collect();
    let traffic = Traffic::start(&url, 4, |serial| question(10_000 + serial));
    if !same {
        bridge::write_workers(&split.stack.scratch, &workers);
    }
    wait::until("the returned engine is used", 4 * BACK_WITHIN, async || {
        (back.metric("mock:pulls_total").await > 0).then_some(())
    })
    .await;
    let took = returned.elapsed();
    let ports = if same { "the same" } else { "other" };
    println!("{protocol:?}: first pull {took:?} after a prefill engine returned on {ports} ports");
    assert!(took < BACK_WITHIN, "{took:?}");
    let replies = traffic.stop().await;
    if serves_whole {
        traffic::expect_all_ok(&replies);
    }
    split.prefill.push(back);
    expect_no_bookings(&split).await;
}

#[tokio::test]
async fn prefill_engines_die_one_by_one_and_no_client_notices() {
    for protocol in [PdProtocol::Nixl, PdProtocol::Mooncake, PdProtocol::Trtllm] {
        die_one_by_one(protocol, false).await;
        die_one_by_one(protocol, true).await;
    }
}

/// Its calls are made at once, so a hand-over that came to nothing is repeated as a whole.
#[tokio::test]
async fn prefill_engines_of_calls_made_at_once_die_one_by_one_and_no_client_notices() {
    die_one_by_one(PdProtocol::Sglang, false).await;
    die_one_by_one(PdProtocol::Sglang, true).await;
}

/// Nobody knows of the death yet but the prefill call itself.
#[tokio::test]
async fn an_unnoticed_death_costs_one_more_try_and_then_the_hop() {
    for protocol in [PdProtocol::Nixl, PdProtocol::Mooncake, PdProtocol::Trtllm] {
        let mut split = Split::start_with(&config(protocol), 2, 1, without_probes(protocol)).await;
        split.prefill.remove(0).die();
        // Which of the two is tried first is a matter of chance.
        for seed in 0..20 {
            split.stack.chat(&question(seed)).await.expect_ok();
            let decision = split.stack.next_decision().await;
            let handoff = decision.handoff.unwrap_or_else(|| panic!("{protocol:?} served whole: {:?}", decision.whole));
            assert_eq!(handoff.prefill, split.prefill[0].address());
        }
        split.prefill.remove(0).die();
        split.stack.chat(&question(99)).await.expect_ok();
        assert_eq!(split.stack.next_decision().await.whole.as_deref(), Some("prefill_failed"), "{protocol:?}");
        let failed = split.stack.envoy.stat("kv_router.handoff.failed").await;
        assert!((2..15).contains(&failed), "{failed}: after a failure each thread spares that engine for a second");
    }
}

#[tokio::test]
async fn without_prefill_engines_the_policy_refuses_or_serves_whole() {
    let mut split = Split::start(&config(PdProtocol::Nixl), 1, 1).await;
    split.stack.chat(&question(1)).await.expect_ok();
    let rules = json!({"aggregated_fallback": false});
    let strict = json!({"version": 1, "policies": {"p": {"mode": "kv", "disaggregation": rules}}, "default": "p"});
    split.stack.bridge.put_policy(&strict).await;
    split.prefill.remove(0).die();
    // By the failed call at first, by the bridge's probes later.
    for seed in 2..30 {
        let reply = split.stack.chat(&question(seed)).await;
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert!(reply.text().contains("prefill"), "{}", reply.text());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let lax = json!({"version": 1, "policies": {"p": {"mode": "kv"}}, "default": "p"});
    split.stack.bridge.put_policy(&lax).await;
    split.stack.chat(&question(50)).await.expect_ok();
}

/// Nobody knows of the death yet, which is where SGLang's two calls go.
#[tokio::test]
async fn an_unnoticed_death_costs_calls_made_at_once_one_more_pair() {
    let protocol = PdProtocol::Sglang;
    let mut split = Split::start_with(&config(protocol), 2, 2, without_probes(protocol)).await;
    split.prefill.remove(0).die();
    for seed in 0..20 {
        split.stack.chat(&question(seed)).await.expect_ok();
    }
    let envoy = &split.stack.envoy;
    let (failed, repeated) = (envoy.stat("handoff.failed").await, envoy.stat("cluster.routed.upstream_rq_retry").await);
    assert!(failed > 0 && failed == repeated, "{failed} {repeated}");
    assert_eq!(split.decoded("mock:fetches_total").await, 20);
    expect_no_bookings(&split).await;
}

/// A decode engine that fails costs a new pair, too: what was handed over to it is of no use to another one.
#[tokio::test]
async fn a_decode_call_that_fails_is_repeated_with_a_new_prefill() {
    for protocol in [PdProtocol::Sglang, PdProtocol::Nixl] {
        let options =
            Options { envoy: disagg::envoy(PdProtocol::Sglang), pool: disagg::pool(protocol), ..Options::default() };
        let split = Split::start_with(&config(protocol), 1, 2, options).await;
        for kind in ["close_before_headers", "status"] {
            let once = json!({"requests": {"count": 1, "kind": kind}});
            for engine in &split.decode {
                split.stack.client.post(&engine.url("/mock/faults"), &once).await.expect("engine").expect_ok();
                // By default a policy allows one more try.
                for seed in 0..12 {
                    split.stack.chat(&question(seed)).await.expect_ok();
                }
            }
        }
        assert_eq!(split.stack.envoy.stat("cluster.routed.upstream_rq_retry").await, 4, "{protocol:?}");
        expect_no_bookings(&split).await;
    }
}

/// SGLang's decode call is made already when its prefill fails: the client is told at once instead of when decode gives up.
#[tokio::test]
async fn a_prefill_that_fails_beside_its_decode_call_is_told_at_once() {
    let protocol = PdProtocol::Sglang;
    let transfer = TransferConfig { rendezvous_timeout: Duration::from_secs(20), ..config(protocol).transfer };
    let config = EngineConfig { transfer, ..config(protocol) };
    let mut split = Split::start_with(&config, 1, 1, without_probes(protocol)).await;
    split.stack.chat(&question(1)).await.expect_ok();
    split.prefill.remove(0).die();
    let reply = split.stack.chat(&question(2)).await;
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert!(reply.total < Duration::from_secs(5), "{:?}", reply.total);
    let header = |name: &str| reply.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!((header("retry-after").as_deref(), header("x-kv-router-again")), (Some("1"), None));
    split.stack.envoy.expect_running();
    expect_no_bookings(&split).await;
}

/// Bodies wait in the memory of a VM: each thread lets one of them wait here.
#[tokio::test]
async fn prefill_calls_beyond_the_bound_are_refused_or_spared() {
    const AT_ONCE: u64 = 12;
    let mut config = config(PdProtocol::Nixl);
    config.speed = Speed { prefill_tokens_per_s: 1_000.0, decode_ms_per_token: 1.0, speedup: 1.0 };
    let split = Split::start(&config, 1, 1).await;
    let url = split.stack.envoy.url("/v1/chat/completions");
    for (round, over) in (0..).zip(["reject", "aggregated"]) {
        let rules = json!({"max_waits": 1, "over_limit": over});
        let policy = json!({"version": 1, "policies": {"p": {"mode": "kv", "disaggregation": rules}}, "default": "p"});
        split.stack.bridge.put_policy(&policy).await;
        let traffic = Traffic::start(&url, AT_ONCE as usize, move |serial| question(round * 1_000 + serial));
        more(&traffic, AT_ONCE).await;
        let (mut served, mut refused) = (0, 0);
        for reply in traffic.stop().await {
            let reply = reply.expect("an answer");
            match reply.status.as_u16() {
                200 => served += 1,
                503 => {
                    refused += 1;
                    assert!(reply.text().contains("prefill: too many prefill calls"), "{}", reply.text());
                    assert_eq!(reply.headers["retry-after"], "1");
                }
                other => panic!("{other} {}", reply.text()),
            }
        }
        assert!(served > 0 && (refused > 0) == (over == "reject"), "{over}: {served} served, {refused} refused");
    }
    let envoy = &split.stack.envoy;
    assert!(envoy.stat("kv_router.handoff.over_limit").await > envoy.stat("kv_router.handoff.refused").await);
    expect_no_bookings(&split).await;
}

/// Envoy has no prefill endpoint where the filter knows some: calls fail before they are sent, and the VM survives it.
#[tokio::test]
async fn an_empty_prefill_cluster_is_a_failed_prefill() {
    let mut split = Split::start(&config(PdProtocol::Nixl), 1, 1).await;
    let kind = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
    let nobody = json!({"@type": kind, "cluster_name": "prefill", "endpoints": []});
    split.stack.scratch.replace("prefill-eds.json", &json!({"resources": [nobody]}).to_string());
    wait::until("an empty prefill cluster", Duration::from_secs(5), async || {
        (split.stack.envoy.stat("cluster.prefill.membership_total").await == 0).then_some(())
    })
    .await;
    for seed in 0..6 {
        split.stack.chat(&question(seed)).await.expect_ok();
        assert_eq!(split.stack.next_decision().await.whole.as_deref(), Some("prefill_failed"));
    }
    split.stack.envoy.expect_running();
}

/// What was handed over can be fetched once: an engine that may have fetched it and then fails is not replaced by another one.
#[tokio::test]
async fn a_decode_call_that_reached_an_engine_is_not_repeated() {
    for protocol in [PdProtocol::Nixl, PdProtocol::Trtllm] {
        let mut split = Split::start(&config(protocol), 1, 2).await;
        let once = json!({"requests": {"count": 1, "kind": "close_before_headers"}});
        for engine in &split.decode {
            split.stack.client.post(&engine.url("/mock/faults"), &once).await.expect("engine").expect_ok();
        }
        let mut failed = 0;
        for seed in 0..12 {
            let reply = split.stack.chat(&question(seed)).await;
            assert!([200, 502].contains(&reply.status.as_u16()), "{protocol:?}: {} {}", reply.status, reply.text());
            failed += u64::from(reply.status == 502);
            assert!(split.stack.next_decision().await.handoff.is_some());
        }
        assert_eq!(failed, 2, "{protocol:?}: each of the two engines fails once, and that is the client's answer");
        assert_eq!(split.decoded("mock:fetches_total").await, 10);
    }
}

/// A call that no engine has got leaves everything to fetch, so the next engine gets it.
#[tokio::test]
async fn a_decode_call_that_cannot_connect_goes_to_the_next_engine() {
    let protocol = PdProtocol::Nixl;
    let mut split = Split::start_with(&config(protocol), 1, 2, without_probes(protocol)).await;
    split.decode.remove(0).die();
    for seed in 0..12 {
        split.stack.chat(&question(seed)).await.expect_ok();
        assert!(split.stack.next_decision().await.handoff.is_some());
    }
    assert_eq!(split.decoded("mock:fetches_total").await, 12);
    assert!(split.stack.envoy.stat("kv_router.moved").await > 0, "the dead one was tried");
    // A policy may say otherwise.
    let rules = json!({"decode_retries": 0});
    let once = json!({"version": 1, "policies": {"p": {"mode": "kv", "disaggregation": rules}}, "default": "p"});
    split.stack.bridge.put_policy(&once).await;
    let mut refused = 0;
    for seed in 100..112 {
        let reply = split.stack.chat(&question(seed)).await;
        assert!([200, 502].contains(&reply.status.as_u16()), "{} {}", reply.status, reply.text());
        refused += u64::from(reply.status == 502);
    }
    assert!(refused > 0, "the dead one is not tried, or another one after it");
}
