//! Without our pieces Envoy serves as it always did, and a counter says why.

use std::collections::HashSet;

use e2e::bridge::Worker;
use e2e::client::Client;
use e2e::envoy::{self, Envoy};
use e2e::prompt;
use e2e::recorder::Recorder;
use e2e::scratch::Scratch;
use e2e::stack::{Options, Stack};
use serde_json::{Value, json};

/// What the bridge would have written.
fn endpoints(recorders: &[Recorder]) -> Value {
    let endpoints: Vec<Value> = recorders
        .iter()
        .map(|recorder| {
            let socket = json!({"address": recorder.address.ip().to_string(), "port_value": recorder.address.port()});
            json!({"endpoint": {"address": {"socket_address": socket}}})
        })
        .collect();
    json!({"resources": [{
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": "workers",
        "endpoints": [{"lb_endpoints": endpoints}],
    }]})
}

/// Sends 20 requests to an Envoy with no bridge; all are served, by both workers, with no routing header.
async fn served_without_routing(scratch: &Scratch, options: envoy::Options) -> Envoy {
    let recorders = [Recorder::start().await, Recorder::start().await];
    scratch.replace("eds.json", &endpoints(&recorders).to_string());
    let envoy = Envoy::start(scratch, &options).await;
    let client = Client::new();
    for seed in 0..20 {
        let document = prompt::question("mock", seed, 100);
        client.post(&envoy.url("/v1/chat/completions"), &document).await.unwrap().expect_ok();
    }
    let seen: Vec<_> = recorders.iter().flat_map(Recorder::seen).collect();
    assert_eq!(seen.len(), 20);
    assert!(recorders.iter().all(|recorder| !recorder.seen().is_empty()), "Envoy's own balancing uses both");
    assert!(seen.iter().all(|seen| !seen.headers.contains_key("x-gateway-destination-endpoint")));
    envoy
}

#[tokio::test]
async fn with_empty_shared_data_envoy_balances() {
    let scratch = Scratch::new();
    let mut envoy = served_without_routing(&scratch, envoy::Options::default()).await;
    assert_eq!(envoy.stat("kv_router.unrouted.no_manifest").await, 20);
    assert_eq!(envoy.stat("kv_router.routed").await, 0);
    envoy.stop().await;
}

#[tokio::test]
async fn with_a_configuration_the_filter_refuses_envoy_balances() {
    let options = envoy::Options::default().edit(r#"{"role":"route"}"#, r#"{"role":"route","endpoint":3}"#);
    let scratch = Scratch::new();
    let mut envoy = served_without_routing(&scratch, options).await;
    assert_eq!(envoy.stat("kv_router.unrouted.bad_configuration").await, 20);
    assert!(envoy.output().contains("unknown field `endpoint`"), "the log names the field");
    envoy.stop().await;
}

/// A model that no pool serves is the cluster's business.
#[tokio::test]
async fn an_unknown_model_is_left_to_envoy() {
    let recorder = Recorder::start().await;
    let worker = Worker { address: recorder.address.to_string(), events: None, ..Worker::default() };
    let mut stack = Stack::start(&[worker], Options::default()).await;
    stack.chat(&prompt::question("another", 1, 100)).await.expect_ok();
    assert_eq!(stack.next_line().await.unrouted.as_deref(), Some("unknown_model"));
    assert_eq!(stack.envoy.stat("kv_router.unrouted.unknown_model").await, 1);
}

/// No events, no tokenizer: still routed, by prefix, and the same prefix stays where it was.
#[tokio::test]
async fn without_events_and_tokenizer_prefixes_stick() {
    let recorders = [Recorder::start().await, Recorder::start().await, Recorder::start().await];
    let workers: Vec<_> = recorders
        .iter()
        .map(|recorder| Worker { address: recorder.address.to_string(), events: None, ..Worker::default() })
        .collect();
    let mut stack = Stack::start(&workers, Options { family: None, ..Options::default() }).await;
    let mut used = HashSet::new();
    for seed in 0..12 {
        let mut targets = HashSet::new();
        for _ in 0..4 {
            stack.chat(&prompt::question("mock", seed, 400)).await.expect_ok();
            targets.insert(stack.next_decision().await.target);
        }
        assert_eq!(targets.len(), 1, "prompt {seed} moved");
        used.extend(targets);
    }
    assert!(used.len() > 1, "12 different prompts all went to one worker");
}
