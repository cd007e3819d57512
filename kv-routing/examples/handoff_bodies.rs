//! Bodies that engines are sent for the client bodies on standard input, one per line: `scripts/check-vllm-handoff.py` holds
//! them against vLLM's own request models.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a developer's tool")]

use std::io::{BufRead, stdin};

use kv_routing::handoff::{PrefillAnswer, Protocol, Transfer, decode_body, prefill_body};
use serde_json::json;

/// What a vLLM prefill engine answers, with every field its connector sets.
const ANSWER: &[u8] = br#"{"choices":[{"finish_reason":"length"}],"kv_transfer_params":{"do_remote_prefill":true,
"do_remote_decode":false,"remote_block_ids":[[1,2,3]],"remote_engine_id":"e","remote_request_id":"r","remote_host":"10.0.0.7",
"remote_port":5600,"tp_size":1}}"#;

fn main() {
    let transfer = Transfer {
        id: 1 << 62,
        bootstrap_host: "10.0.0.7",
        bootstrap_port: 8998,
        ranks: 1,
        engine_id: Some("e"),
        told_tools: false,
    };
    for line in stdin().lock().lines() {
        let body = line.unwrap();
        for protocol in [Protocol::Nixl, Protocol::Mooncake] {
            let answer = PrefillAnswer::read(ANSWER).unwrap();
            let text = |made: Option<Vec<u8>>| String::from_utf8(made.unwrap()).unwrap();
            let prefill = text(prefill_body(protocol, body.as_bytes(), &transfer).unwrap());
            let decode = text(decode_body(protocol, body.as_bytes(), &transfer, Some(&answer)).unwrap());
            let line = json!({"protocol": protocol.as_str(), "client": body, "prefill": prefill, "decode": decode});
            println!("{line}");
        }
    }
}
