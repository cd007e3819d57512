//! Inputs to begin from: recordings of real engines, and what this repository's encoders write.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Instant;

use event_bridge::ingest::{Action, Ingest, IngestConfig, SourceSpec};
use event_bridge::policy::{Surroundings, compile};
use event_bridge::stream::StreamEvent;
use event_bridge::tokenizer::{ModelFiles, RenderOptions, compile_files};
use kv_routing::block::SequenceHash;
use kv_routing::index::{IndexLimits, PrefixIndex};
use kv_routing::policy::document::Document;
use kv_routing::target::{Slot, TargetId, Tier};
use kv_routing::wire::{
    Booking, Bootstrap, BridgeShare, DecisionBatch, Epoch, Generation, Health, LoadRow, LoadRowEntry, Manifest,
    ManifestHeader, PoolId, PoolManifest, Push, PushReply, Put, RecentPrompt, Role, SourceState, TargetEntry,
    TargetTable, TokenizerRef, UnixMillis,
};
use serde_json::{Value, json};

use crate::join;

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}: run `make setup`", path.display()))
}

/// Recorded messages of `channels`, as their frames.
fn recorded(channels: &[&str]) -> Vec<Vec<Vec<u8>>> {
    let text = file("tests/data/kv-events-samples.jsonl");
    let samples = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("checked-in JSON"));
    let wanted = samples.filter(|sample| channels.iter().any(|channel| sample["channel"] == *channel));
    let frames = |sample: Value| sample["frames"].as_array().into_iter().flatten().map(unhex).collect();
    wanted.map(frames).collect()
}

fn unhex(text: &Value) -> Vec<u8> {
    let digits: Vec<u8> =
        text.as_str().unwrap_or_default().chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
}

fn payloads(channels: &[&str]) -> Vec<Vec<u8>> {
    recorded(channels).into_iter().filter_map(|mut frames| frames.pop()).filter(|payload| !payload.is_empty()).collect()
}

/// Payloads of every engine release that was recorded.
pub fn batches() -> Vec<Vec<u8>> {
    payloads(&["pub", "load"]).into_iter().filter(|payload| crate::targets::engine::batch(payload)).collect()
}

/// TensorRT-LLM's array.
pub fn polled() -> Vec<Vec<u8>> {
    let tokens: Vec<Value> = (0..4).map(|token| json!({"token_id": token, "token_extra_id": 0})).collect();
    let block = |hash: Value| {
        json!({"block_hash": hash, "tokens": tokens, "cache_level": 0, "priority": 35,
        "mm_keys": [{"type": "mm_key", "hash": "00ff", "start_offset": 0}], "cache_salt": "s"})
    };
    let bodies = [
        json!([{"event_id": 0, "window_size": 2048, "data": {"type": "created", "num_blocks_per_cache_level": [9, 3]}},
            {"event_id": 1, "attention_dp_rank": 1, "hash_algo": "v1_block_key",
             "data": {"type": "stored", "parent_hash": null, "blocks": [block(json!(10_745_268_876_067_371_298_u64))]}},
            {"event_id": 2, "data": {"type": "updated", "block_hash": 7, "cache_level": {"old_value": 0, "new_value": 1}}},
            {"event_id": 3, "data": {"type": "removed", "block_hashes": [7, "00ffee"]}}]),
        json!([{"event_id": 9, "data": {"type": "stored", "parent_hash": "0a0b", "blocks": [block(json!("0c0d")), block(json!(5))]}}]),
    ];
    bodies.iter().map(|body| body.to_string().into_bytes()).collect()
}

/// Messages of Dynamo's event plane.
pub fn relay() -> Vec<Vec<u8>> {
    recorded(&["event-plane"]).iter().map(|frames| join(frames)).collect()
}

/// Answers that name event sockets.
pub fn sources() -> Vec<Vec<u8>> {
    let vllm = json!({"0": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5557",
            "replay_endpoint": "tcp://*:5657", "buffer_steps": 10000, "topic": "kv"},
        "1": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://[::]:5558", "replay_endpoint": null}});
    let sglang = json!({"kv_events": {"publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": 5557, "topic": "t",
        "block_size": 1, "dp_size": 4, "replay_endpoint_port_base": 5657}});
    [vllm, sglang].iter().map(|body| body.to_string().into_bytes()).collect()
}

/// Live and replayed messages.
pub fn frames() -> Vec<Vec<u8>> {
    let all = recorded(&["pub", "replay-reply"]);
    all.iter().map(|frames| join(frames)).filter(|input| crate::targets::engine::frames(input)).collect()
}

/// All that a PUB and a ROUTER send.
pub fn zmtp() -> Vec<Vec<u8>> {
    let peer = |role: u8, kind: &str, minor: u8| {
        let mut sent = vec![role, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, minor];
        sent.extend_from_slice(b"NULL");
        sent.resize(1 + 64, 0);
        let mut ready = b"\x05READY\x0bSocket-Type".to_vec();
        ready.extend_from_slice(&(kind.len() as u32).to_be_bytes());
        ready.extend_from_slice(kind.as_bytes());
        sent.extend_from_slice(&[4, ready.len() as u8]);
        sent.extend_from_slice(&ready);
        sent
    };
    let mut live = peer(0, "PUB", 1);
    live.extend_from_slice(b"\x04\x0b\x04PING\x00\x0anext");
    live.extend_from_slice(b"\x01\x05topic\x01\x08\0\0\0\0\0\0\0\x05\x02\0\0\0\0\0\0\0\x03abc");
    let mut replayed = peer(1, "ROUTER", 0);
    replayed.extend_from_slice(b"\x01\x00\x01\x08\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00");
    vec![live, replayed]
}

/// Recorded batches, one after another, for either of two targets.
pub fn ingest() -> Vec<Vec<u8>> {
    let text = file("tests/data/vllm-real-frames.jsonl");
    let frames = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("checked-in JSON"));
    let mut payloads = payloads(&["pub"]);
    payloads.extend(frames.map(|line| unhex(&line["payload_hex"])).filter(|payload| payload.len() < 8 << 10));
    let mut inputs = Vec::new();
    for (at, several) in payloads.chunks(5).enumerate() {
        let led = |payload: &Vec<u8>| [&[(at % 2) as u8], payload.as_slice()].concat();
        inputs.push(join(&several.iter().map(led).collect::<Vec<_>>()));
    }
    inputs.into_iter().filter(|input| crate::targets::engine::ingest(input)).collect()
}

/// State of a target that has replayed some of the recording, behind magic and checksum.
pub fn saved() -> Vec<Vec<u8>> {
    let text = file("tests/data/vllm-real-frames.jsonl");
    let mut ingest = Ingest::new(IngestConfig::default());
    let (slot, now) = (Slot(0), Instant::now());
    ingest.add_target(slot, SourceSpec { replay: true, ..SourceSpec::default() });
    let asked = ingest.handle(slot, StreamEvent::Connected, now);
    let [Action::Replay { id, .. }] = asked.as_slice() else { panic!("{asked:?}") };
    for (seq, line) in (0..).zip(text.lines().take(3)) {
        let line: Value = serde_json::from_str(line).expect("checked-in JSON");
        let payload = unhex(&line["payload_hex"]).into();
        ingest.handle(slot, StreamEvent::Replayed { id: *id, seq, payload }, now);
    }
    ingest.handle(slot, StreamEvent::ReplayEnd { id: *id, complete: true }, now);
    let saved = ingest.save(slot, "target".into()).expect("nothing is in doubt");
    vec![saved.encode().split_off(16)]
}

/// A real page, and one line of each other engine.
pub fn prometheus() -> Vec<Vec<u8>> {
    let sglang = "sglang:num_running_reqs{dp_rank=\"1\"} 2\nsglang:token_usage{dp_rank=\"1\",a=\"b\\\"c\"} 0.25 17\n";
    let trtllm =
        "# TYPE trtllm_num_requests_running gauge\ntrtllm_num_requests_running 2\ntrtllm_kv_cache_max_blocks 128\n";
    vec![file("tests/data/vllm-metrics.txt").into_bytes(), sglang.into(), trtllm.into()]
}

fn led(kind: u8, bytes: Result<Vec<u8>, kv_routing::wire::WireError>) -> Vec<u8> {
    [vec![kind], bytes.expect("small")].concat()
}

/// One of each message and value.
pub fn wire() -> Vec<Vec<u8>> {
    let (epoch, generation) = (Epoch(7), Generation(3));
    let push = Push { epoch, snapshot: true, puts: vec![Put { key: "kv/manifest", value: b"value" }] };
    let booking = Booking { requests: 1, prefill_tokens: 2, decode_blocks: 3, failures: 4, peak_requests: 5 };
    let target = TargetId::of("10.0.0.1:80", Some(1));
    let row = LoadRow {
        owner: 1,
        written: UnixMillis(2),
        generation,
        policy_version: 3,
        entries: vec![LoadRowEntry { target, booking }],
        recent: vec![RecentPrompt { target, until: UnixMillis(3), blocks: 2, marks: vec![SequenceHash(4); 2] }],
    };
    let reply = PushReply {
        in_place: Some((epoch, generation)),
        need_snapshot: false,
        load_rows: vec![(4, row.clone())],
        decisions: Vec::new(),
        decisions_dropped: 1,
    };
    vec![
        led(0, push.encode()),
        led(1, reply.encode()),
        led(2, manifest(epoch, generation).encode()),
        led(3, table().encode()),
        led(4, row.encode()),
        led(5, DecisionBatch::default().encode()),
        led(6, document().encode()),
    ]
}

fn manifest(epoch: Epoch, generation: Generation) -> Manifest {
    let pool = PoolManifest {
        id: PoolId(0),
        name: "pool".into(),
        models: vec!["m".into()],
        adapters: vec!["a".into()],
        block_size: Some(16),
        page_bits: 4,
        tokenizer: Some(TokenizerRef { id: 9, bytes: 10, parts: 1 }),
        bridge: BridgeShare::None,
        cluster: "workers".into(),
        handoff: kv_routing::handoff::Protocol::Nixl,
        prefill_cluster: "prefill".into(),
        stale_after_ms: 3000,
        stale_decay_ms: 60_000,
        predict_ms: 5_000,
        predict_without_events_ms: 120_000,
    };
    let header = ManifestHeader { epoch, generation, heartbeat: UnixMillis(1) };
    Manifest { header, pools: vec![pool], policy_version: 1 }
}

fn table() -> TargetTable {
    let target = TargetEntry {
        slot: Slot(1),
        id: TargetId::of("10.0.0.1:80", None),
        endpoint: "10.0.0.1:80".into(),
        rank: Some(1),
        role: Role::Both,
        health: Health::Healthy,
        source: SourceState::Exact,
        source_since: UnixMillis(1),
        capacity_blocks: 100,
        max_batched_tokens: 8192,
        running: 1,
        waiting: 2,
        kv_usage: 0.5,
        labels: vec![("zone".into(), "a".into())],
        bootstrap: Some(Bootstrap { host: "10.0.0.1".into(), port: 8998, ranks: 2, engine_id: Some("e".into()) }),
    };
    TargetTable { targets: vec![target] }
}

fn document() -> Document {
    let compiled = compile(&policy()[0], &Surroundings::anything()).expect("the example compiles");
    Document { version: 1, live: compiled.rules, shadow: None }
}

/// The only page of a small index, with a chain it holds.
pub fn page() -> Vec<Vec<u8>> {
    let mut index = PrefixIndex::with_secret(IndexLimits { max_blocks: 1000 }, 1);
    let chain: Vec<SequenceHash> =
        (1..=8).map(|block: u64| SequenceHash(block.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    index.store(Slot(0), Tier::Device, None, &chain[..6]);
    index.store(Slot(3), Tier::Device, None, &chain[..4]);
    index.store(Slot(3), Tier::Host, None, &chain);
    index.store(Slot(9), Tier::Disk, Some(chain[1]), &[SequenceHash(5), SequenceHash(6)]);
    let bits = index.page_bits();
    let number = kv_routing::index::page_of(chain[0], bits);
    let mut input = vec![bits, u8::try_from(number).expect("few pages"), chain.len() as u8];
    chain.iter().for_each(|block| input.extend_from_slice(&block.0.to_le_bytes()));
    input.extend_from_slice(&index.encode_page(number, Epoch(7)));
    vec![input]
}

/// One body of each endpoint, led by the endpoint's number.
pub fn body() -> Vec<Vec<u8>> {
    let chat = json!({"model": "m", "messages": [{"role": "system", "content": "a\u{e9}\n"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "image_url", "image_url": {"url": "data:x"}}]},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "c"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "stream": true, "max_tokens": 5});
    let completion =
        json!({"model": "m", "prompt": ["a", "b"], "n": 2, "cache_salt": "s", "priority": -1, "temperature": 0.5});
    let responses = json!({"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "o"}], "instructions": "i", "reasoning": {"effort": "low"}});
    let messages = json!({"model": "m", "system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}]}],
        "tools": [{"name": "f", "input_schema": {}}], "max_tokens": 3});
    let embedding = json!({"model": "m", "input": [[1, 2, 3], [4]]});
    let generate =
        json!({"text": "a", "input_ids": [1, 2], "sampling_params": {"max_new_tokens": 4}, "image_data": null});
    let tokens = json!({"model": "m", "token_ids": [1, 2, 3], "sampling_params": {"max_tokens": 3}, "features": null});
    let bodies = [chat, completion, responses, messages, embedding, generate, tokens];
    (0_u8..).zip(bodies).map(|(endpoint, body)| [&[endpoint], body.to_string().as_bytes()].concat()).collect()
}

/// The documented example, and one with every kind of condition.
pub fn policy() -> Vec<Vec<u8>> {
    let conditions = json!({"version": 1, "policies": {"a": {"mode": "least_loaded"}, "b": {"mode": "prefix_hash"}}, "default": "a",
        "rules": [{"when": {"model": ["m"], "path": ["/v1/completions"], "prompt_tokens": {"min": 5, "max": 9}, "stream": true,
            "header": [{"name": "x-tier", "prefix": "gold"}]}, "policy": "b"}]});
    vec![file("event-bridge/policy.example.json").into_bytes(), conditions.to_string().into_bytes()]
}

/// Texts for the small tokenizer, undamaged and with two changes.
pub fn tokenizer() -> Vec<Vec<u8>> {
    let text = "<|im_start|>user\nHello, wörld! 12345 \u{1f600} e\u{301}<|im_end|>\n";
    let changed = [&[2, 200, 16, 0, 0, 0, 201, 16, 0, 0, 0][..], text.as_bytes()].concat();
    let plain = [&[0], text.as_bytes()].concat();
    [plain, changed].into_iter().filter(|input| crate::targets::tokenizer::damaged(input)).collect()
}

/// Qwen3's tokenizer with the first thousand of its merges, compiled.
pub(crate) fn image() -> &'static [u8] {
    static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let files = ModelFiles {
            directory: PathBuf::from("small"),
            tokenizer: small_tokenizer().to_string().into_bytes(),
            template: Some(b"{% for message in messages %}{{ message.content }}{% endfor %}".to_vec()),
            ..ModelFiles::default()
        };
        compile_files(&files, &RenderOptions::default()).unwrap_or_else(|error| panic!("{error}")).bytes
    });
    &IMAGE
}

fn small_tokenizer() -> Value {
    const MERGES: usize = 1000;
    let mut json: Value = serde_json::from_str(&file(".deps/tokenizers/qwen3/tokenizer.json")).expect("a tokenizer");
    let tokens = 256 + MERGES as u64;
    if let Some(merges) = json["model"]["merges"].as_array_mut() {
        merges.truncate(MERGES);
    }
    if let Some(vocabulary) = json["model"]["vocab"].as_object_mut() {
        vocabulary.retain(|_, id| id.as_u64().is_some_and(|id| id < tokens));
    }
    for (at, added) in (0_u64..).zip(json["added_tokens"].as_array_mut().into_iter().flatten()) {
        added["id"] = json!(tokens + at);
    }
    json
}
