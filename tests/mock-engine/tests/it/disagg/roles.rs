use mock_engine::PdProtocol;
use serde_json::json;

use super::{Pair, body, prompt, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_side_refuses_the_others_work_and_serves_plain_requests() {
    let pair = Pair::start(PdProtocol::Nixl).await;
    let hold = json!({"kv_transfer_params": {"do_remote_decode": true}});
    let fetch = json!({"kv_transfer_params": {
        "do_remote_prefill": true, "remote_block_ids": [[1]], "remote_engine_id": "x", "remote_request_id": "y",
        "remote_host": "127.0.0.1", "remote_port": 1,
    }});
    assert_eq!(pair.to_decode.post("/v1/completions", &body(prompt(0), 1, hold)).await.status, 400);
    assert_eq!(pair.to_prefill.post("/v1/completions", &body(prompt(0), 1, fetch)).await.status, 400);
    for client in [&pair.to_prefill, &pair.to_decode] {
        text(&client.post("/v1/completions", &body(prompt(0), 2, json!({"kv_transfer_params": null}))).await);
    }
    assert!(pair.decode.side_addr().is_none(), "decode engines have no side channel");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_another_protocol_are_noticed() {
    let vllm = json!({"kv_transfer_params": {"do_remote_decode": true}});
    let sglang = json!({"bootstrap_host": "127.0.0.1", "bootstrap_port": 1, "bootstrap_room": 1});
    let trtllm = json!({"disaggregated_params": {"request_type": "context_only"}});
    let cases = [
        (PdProtocol::Nixl, &sglang, "bootstrap_host"),
        (PdProtocol::Nixl, &trtllm, "disaggregated_params"),
        (PdProtocol::Sglang, &vllm, "kv_transfer_params"),
        (PdProtocol::Trtllm, &vllm, "kv_transfer_params"),
        (PdProtocol::Trtllm, &sglang, "bootstrap_host"),
    ];
    for (protocol, fields, named) in cases {
        let pair = Pair::start(protocol).await;
        let answer = pair.to_prefill.post("/v1/completions", &body(prompt(0), 1, fields.clone())).await;
        assert!(answer.status == 400 && answer.body.contains(named), "{protocol:?}: {}", answer.body);
    }
}
