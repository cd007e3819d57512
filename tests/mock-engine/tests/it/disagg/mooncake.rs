use std::time::Duration;

use mock_engine::{PdProtocol, TransferConfig};
use serde_json::{Value, json};

use super::{Pair, body, plain_text, prompt, text};
use crate::support::Client;

fn ask(id: &str) -> Value {
    json!({"kv_transfer_params": {"do_remote_decode": true, "do_remote_prefill": false, "transfer_id": id}})
}

fn take(pair: &Pair, id: &str, engine: &str) -> Value {
    json!({"kv_transfer_params": {
        "do_remote_decode": false, "do_remote_prefill": true, "transfer_id": id, "remote_engine_id": engine,
        "remote_bootstrap_addr": format!("http://127.0.0.1:{}", pair.bootstrap_port()),
    }})
}

async fn engine_id(pair: &Pair) -> String {
    let bootstrap = Client::new(pair.prefill.side_addr().unwrap());
    bootstrap.get("/query").await.json()["0"]["engine_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_calls_may_start_in_any_order() {
    let pair = Pair::start(PdProtocol::Mooncake).await;
    let engine = engine_id(&pair).await;
    let expected = plain_text(&body(prompt(0), 6, json!({}))).await;
    for (id, decode_first) in [("xfer-1", true), ("xfer-2", false)] {
        let decode_body = body(prompt(0), 6, take(&pair, id, &engine));
        let prefill_body = body(prompt(0), 1, ask(id));
        let later = Duration::from_millis(50);
        let decode = async {
            tokio::time::sleep(if decode_first { Duration::ZERO } else { later }).await;
            pair.to_decode.post("/v1/completions", &decode_body).await
        };
        let prefill = async {
            tokio::time::sleep(if decode_first { later } else { Duration::ZERO }).await;
            pair.to_prefill.post("/v1/completions", &prefill_body).await
        };
        let (decode, prefill) = tokio::join!(decode, prefill);
        assert_eq!(text(&decode), expected);
        assert!(prefill.json()["kv_transfer_params"].is_null(), "Mooncake answers no parameters");
        pair.held_within(Duration::ZERO, (0, 0)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_engine_or_a_missing_prefill_is_refused() {
    let transfer = TransferConfig {
        protocol: PdProtocol::Mooncake,
        rendezvous_timeout: Duration::from_millis(200),
        ..TransferConfig::default()
    };
    let pair = Pair::with(transfer, 1).await;
    let engine = engine_id(&pair).await;
    text(&pair.to_prefill.post("/v1/completions", &body(prompt(0), 1, ask("xfer-1"))).await);
    let wrong = pair.to_decode.post("/v1/completions", &body(prompt(0), 6, take(&pair, "xfer-1", "other"))).await;
    assert!(wrong.status == 500 && wrong.body.contains("the engine id differs"), "{}", wrong.body);
    let missing = pair.to_decode.post("/v1/completions", &body(prompt(0), 6, take(&pair, "xfer-9", &engine))).await;
    assert!(missing.status == 500 && missing.body.contains("did not come in time"), "{}", missing.body);
    let twice = pair.to_prefill.post("/v1/completions", &body(prompt(0), 1, ask("xfer-1"))).await;
    assert_eq!(twice.status, 400, "an id is used once");
    let no_id = json!({"kv_transfer_params": {"do_remote_decode": true}});
    assert_eq!(pair.to_prefill.post("/v1/completions", &body(prompt(0), 1, no_id)).await.status, 400);
}
