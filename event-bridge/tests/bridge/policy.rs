//! Policies come from the watched file and over the admin API, and reach Envoys whole or not at all.

use event_bridge::bridge::Bridge;
use event_bridge::config::Config;
use kv_routing::block::BlockSize;
use kv_routing::target::TargetId;
use kv_routing::wire::{Decision, Generation, Imagined, LoadRow, PoolId};
use serde_json::{Value, json};

use crate::envoy::FakeEnvoy;
use crate::support::{Scratch, call, config, metrics, one_envoy, until};
use crate::worker::FakeWorker;

fn document(mode: &str) -> String {
    json!({"version": 1, "policies": {"p": {"mode": mode}}, "default": "p"}).to_string()
}

/// Mode of the policy an Envoy has.
fn mode(envoy: &FakeEnvoy) -> Option<&'static str> {
    envoy.policy().map(|document| document.live.policies[0].mode.as_str())
}

async fn has(envoy: &FakeEnvoy, wanted: &'static str) {
    until(wanted, async || (mode(envoy) == Some(wanted)).then_some(())).await;
}

async fn started(scratch: &Scratch, config: Config) -> (Bridge, FakeEnvoy, FakeWorker, crate::envoy::Listening) {
    let (worker, envoy) = (FakeWorker::start().await, FakeEnvoy::default());
    let listening = envoy.listen_unix(&scratch.path("ingest.sock"));
    scratch.workers(&[&worker]);
    let bridge = Bridge::start(config).await.unwrap();
    until("an Envoy is supplied", async || envoy.is_whole().then_some(())).await;
    (bridge, envoy, worker, listening)
}

fn pointers(answer: &Value) -> Vec<&str> {
    answer["problems"].as_array().unwrap().iter().map(|problem| problem["pointer"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn put_check_rollback_and_history() {
    let scratch = Scratch::new();
    let (bridge, envoy, _worker, _listening) = started(&scratch, config(&scratch, one_envoy())).await;
    assert_eq!(envoy.policy(), None);

    let (status, answer) = call(&bridge, "PUT", "/policy?wait_ms=5000", &document("round_robin")).await;
    // It holds the document, and none of its threads has routed yet.
    let said = (&answer["everywhere"], &answer["envoys"][0]["policy"]);
    assert_eq!((status, said), (200, (&json!(false), &json!("unknown"))), "{answer}");
    assert_eq!(mode(&envoy), Some("round_robin"));

    let (status, answer) = call(&bridge, "PUT", "/policy?dry_run=true", &document("random")).await;
    assert_eq!((status, &answer["warnings"]), (200, &json!([])));
    let (status, answer) = call(&bridge, "PUT", "/policy", &document("fastest")).await;
    assert_eq!((status, pointers(&answer)), (422, vec!["/policies/p/mode"]));
    let (_, shown) = call(&bridge, "GET", "/policy", "").await;
    assert_eq!(shown["in_force"]["document"]["policies"]["p"]["mode"], "round_robin");
    assert_eq!(mode(&envoy), Some("round_robin"));

    assert_eq!(call(&bridge, "POST", "/policy/rollback", "").await.0, 404);
    call(&bridge, "PUT", "/policy?wait_ms=5000", &document("random")).await;
    let (status, _) = call(&bridge, "POST", "/policy/rollback?wait_ms=5000", "").await;
    assert_eq!((status, mode(&envoy)), (200, Some("round_robin")));
    let (_, history) = call(&bridge, "GET", "/policy/history", "").await;
    assert_eq!(history["documents"].as_array().unwrap().len(), 3);
    let (status, text) = call(&bridge, "GET", "/policy/history/2", "").await;
    assert_eq!((status, &text["policies"]["p"]["mode"]), (200, &json!("random")));
    bridge.stop().await;
}

#[tokio::test]
async fn a_shadow_is_published_beside_the_live_document() {
    let scratch = Scratch::new();
    let (bridge, envoy, _worker, _listening) = started(&scratch, config(&scratch, one_envoy())).await;
    assert_eq!(call(&bridge, "PUT", "/policy/shadow?sample=1.5", &document("kv")).await.0, 400);
    assert_eq!(call(&bridge, "PUT", "/policy/shadow?sample=0.25", &document("round_robin")).await.0, 200);
    until("it has a shadow", async || envoy.policy()?.shadow).await;
    let document = envoy.policy().unwrap();
    assert_eq!((document.shadow.unwrap().sample_per_million, document.live.policies[0].mode.as_str()), (250_000, "kv"));
    call(&bridge, "DELETE", "/policy/shadow", "").await;
    until("it has none", async || envoy.policy()?.shadow.is_none().then_some(())).await;
    bridge.stop().await;
}

#[tokio::test]
async fn what_a_shadow_would_have_done_is_summed() {
    let scratch = Scratch::new();
    let mut config = config(&scratch, one_envoy());
    config.pools[0].block_size = BlockSize::new(16);
    let (bridge, envoy, worker, _listening) = started(&scratch, config).await;
    call(&bridge, "PUT", "/policy/shadow?sample=1", &document("round_robin")).await;
    let version = until("it has a shadow", async || envoy.policy().map(|document| document.version)).await.0;
    let target = TargetId::of(&worker.address(), None);
    let decision = |version, imagined: Option<TargetId>| Decision {
        at: event_bridge::clock::unix_millis(),
        pool: PoolId(0),
        target,
        answered: true,
        prompt_tokens: 160,
        predicted_blocks: 5,
        block_size: 16,
        blocks: 10,
        certain_blocks: 0,
        marks: Vec::new(),
        head: Vec::new(),
        seed: 0,
        adapter: false,
        shadow: Some(Imagined { version, target: imagined, predicted_blocks: 1 }),
    };
    let reported = vec![decision(version, Some(target)), decision(version, None), decision(version + 1, None)];
    envoy.behave(|behaviour| behaviour.decisions = reported);
    let tally = until("both are counted", async || {
        let (_, mut shown) = call(&bridge, "GET", "/policy", "").await;
        (shown["shadow"]["tally"]["requests"] == 2).then(|| shown["shadow"]["tally"].take())
    })
    .await
    .0;
    assert_eq!((&tally["agreement"], &tally["prompt_tokens"]), (&json!(0.5), &json!(320)), "{tally}");
    assert_eq!((&tally["live_hit_tokens"], &tally["shadow_hit_tokens"]), (&json!(160), &json!(32)));
    let text = metrics(&bridge).await;
    assert!(text.contains("kv_bridge_shadow_requests_total 2") && text.contains("kv_bridge_shadow_agreed_total 1"));
    call(&bridge, "PUT", "/policy", &document("kv")).await;
    let (_, shown) = call(&bridge, "GET", "/policy", "").await;
    assert_eq!(shown["shadow"]["tally"]["requests"], 0, "another pair to compare");
    bridge.stop().await;
}

#[tokio::test]
async fn the_watched_file_is_followed_and_a_bad_one_changes_nothing() {
    let scratch = Scratch::new();
    scratch.replace("policy.json", &document("least_loaded"));
    let mut config = config(&scratch, one_envoy());
    config.policy_file = Some(scratch.path("policy.json"));
    let (bridge, envoy, _worker, _listening) = started(&scratch, config).await;
    has(&envoy, "least_loaded").await;
    scratch.replace("policy.json", &document("random"));
    has(&envoy, "random").await;
    scratch.replace("policy.json", &document("fastest"));
    let refused = async || {
        let (_, shown) = call(&bridge, "GET", "/policy", "").await;
        (shown["file"]["refused"][0]["pointer"] == "/policies/p/mode").then_some(())
    };
    until("it is refused", refused).await;
    assert_eq!(mode(&envoy), Some("random"));
    scratch.replace("policy.json", &document("pass"));
    has(&envoy, "pass").await;
    bridge.stop().await;
}

#[tokio::test]
async fn threads_that_lag_are_told() {
    let scratch = Scratch::new();
    let (bridge, envoy, _worker, _listening) = started(&scratch, config(&scratch, one_envoy())).await;
    let row = |policy_version| {
        let written = event_bridge::clock::unix_millis();
        let row =
            LoadRow { owner: 1, written, generation: Generation(1), policy_version, entries: vec![], recent: vec![] };
        (0, row)
    };
    envoy.behave(|behaviour| behaviour.load_rows = vec![row(0)]);
    let (_, answer) = call(&bridge, "PUT", "/policy?wait_ms=700", &document("kv")).await;
    let said = |answer: &Value| {
        let envoy = &answer["envoys"][0];
        (answer["everywhere"].clone(), envoy["policy"].clone(), envoy["threads_running"].clone())
    };
    assert_eq!(said(&answer), (json!(false), json!("pending"), json!(0)), "{answer}");
    let version = answer["in_force"]["version"].as_u64().unwrap();
    envoy.behave(|behaviour| behaviour.load_rows = vec![row(version + 1)]);
    let (_, answer) = call(&bridge, "PUT", "/policy?wait_ms=5000", &document("random")).await;
    assert_eq!(said(&answer), (json!(true), json!("running"), json!(1)), "{answer}");
    bridge.stop().await;
}

/// What an Envoy ran when it was last seen says nothing of what it runs now.
#[tokio::test]
async fn an_envoy_that_is_gone_is_named_and_not_waited_for() {
    let scratch = Scratch::new();
    let (bridge, _envoy, _worker, listening) = started(&scratch, config(&scratch, one_envoy())).await;
    drop(listening);
    let gone = async || {
        let (_, shown) = call(&bridge, "GET", "/policy", "").await;
        (shown["envoys"][0]["policy"] == "unreachable").then_some(())
    };
    until("it is missed", gone).await;
    let asked = std::time::Instant::now();
    let (status, answer) = call(&bridge, "PUT", "/policy?wait_ms=20000", &document("kv")).await;
    assert_eq!((status, &answer["everywhere"]), (200, &json!(false)), "{answer}");
    assert_eq!(answer["envoys"][0]["policy"], "unreachable", "{answer}");
    assert!(asked.elapsed() < std::time::Duration::from_secs(10), "{:?}", asked.elapsed());
    bridge.stop().await;
}
