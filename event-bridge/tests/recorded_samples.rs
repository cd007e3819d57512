//! Every recorded frame of every engine release decodes to what an independent decoder made of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test stops at the first surprise")]

use event_bridge::engine::{
    EventFault, LoadStat, RelayData, Replay, decode_batch, decode_load, decode_relay, describe, live, replay,
};
use serde_json::{Map, Value, json};

#[test]
fn every_sample_decodes_to_what_is_expected() {
    let samples = include_str!("../../tests/data/kv-events-samples.jsonl");
    let mut seen = 0;
    for line in samples.lines() {
        let sample: Value = serde_json::from_str(line).unwrap();
        let id = sample["id"].as_str().unwrap();
        let frames: Vec<Vec<u8>> =
            sample["frames"].as_array().unwrap().iter().map(|frame| unhex(frame.as_str().unwrap())).collect();
        let expected = &sample["expected"];
        match sample["channel"].as_str().unwrap() {
            "pub" => check_live(id, &frames, expected),
            "replay-reply" => check_reply(id, &frames, expected),
            "replay-request" => check_request(id, &frames, expected),
            "load" => check_load(id, &frames, expected),
            "event-plane" => check_relay(id, &frames, expected),
            other => panic!("{id}: unknown channel {other}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 205);
}

/// The command line shows the same, of every line.
#[test]
fn the_command_decodes_the_whole_file() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/kv-events-samples.jsonl");
    let program = std::process::Command::new(env!("CARGO_BIN_EXE_event-bridge"))
        .args(["events", "decode", "--input", file])
        .output()
        .unwrap();
    let shown = String::from_utf8(program.stdout).unwrap();
    let samples = std::fs::read_to_string(file).unwrap();
    let (mut lines, mut bad) = (0, 0);
    for (sample, shown) in samples.lines().zip(shown.lines()) {
        let (sample, shown): (Value, Value) =
            (serde_json::from_str(sample).unwrap(), serde_json::from_str(shown).unwrap());
        let (id, expected) = (sample["id"].as_str().unwrap(), &sample["expected"]);
        lines += 1;
        bad += u64::from(shown.get("error").is_some());
        match sample["channel"].as_str().unwrap() {
            "replay-request" => assert_eq!(shown["replay_request"], expected["start_seq"], "{id}"),
            "load" => assert_eq!(shown["load"], subset(&expected["load"], &shown["load"]), "{id}"),
            "event-plane" => {
                let payload = expected["envelope"]["payload"].as_array().unwrap();
                let kinds: Vec<_> = payload.iter().map(|event| kind(&event["event"]["data"])).collect();
                let relayed = shown["relayed"].as_array().unwrap();
                assert_eq!(
                    relayed.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<_>>(),
                    kinds,
                    "{id}"
                );
                assert_eq!(shown["publisher_id"], expected["publisher_id"], "{id}");
            }
            _ if expected["end"] == json!(true) => assert_eq!(shown["end_of_replay"], true, "{id}"),
            _ => match expected.get("batch") {
                Some(batch) => {
                    let events: Vec<Value> = batch["events"].as_array().unwrap().iter().map(normalised).collect();
                    assert_eq!(shown["events"], Value::from(events), "{id}");
                }
                None => assert_eq!(shown.get("error").is_some(), expected.get("error").is_some(), "{id}: {shown}"),
            },
        }
    }
    let wrong = samples.lines().filter(|line| line.contains("\"expected\": {\"error\"")).count() as u64;
    assert_eq!((lines, bad), (205, wrong));
    assert_eq!(program.status.success(), wrong == 0);
}

/// The members of `all` that `like` has.
fn subset(all: &Value, like: &Value) -> Value {
    let names = like.as_object().unwrap().keys();
    names.map(|name| (name.clone(), all[name].clone())).collect::<Map<_, _>>().into()
}

fn kind(data: &Value) -> &str {
    data.as_str().unwrap_or_else(|| data.as_object().unwrap().keys().next().unwrap())
}

fn check_live(id: &str, frames: &[Vec<u8>], expected: &Value) {
    if expected.get("error").is_some() {
        assert!(live(frames).is_err(), "{id}");
        return;
    }
    let message = live(frames).unwrap();
    if let Some(topic) = expected.get("topic") {
        assert_eq!(json!(std::str::from_utf8(message.topic).unwrap()), *topic, "{id}");
        assert_eq!(json!(message.seq), expected["seq"], "{id}");
    }
    let Some(batch) = expected.get("batch") else {
        return check_edge_case(id, message.payload, expected);
    };
    check_batch(id, message.payload, batch);
}

fn check_edge_case(id: &str, payload: &[u8], expected: &Value) {
    let (mut kept, mut unknown, mut bad) = (0, 0, 0);
    let info = decode_batch(payload, |event| match event {
        Ok(_) => kept += 1,
        Err(EventFault::Unknown { .. }) => unknown += 1,
        Err(EventFault::Malformed { .. }) => bad += 1,
    })
    .unwrap();
    let number = |key| expected.get(key).and_then(Value::as_u64).unwrap_or(0);
    assert_eq!((kept, unknown, bad), (number("events_kept"), number("skip_unknown"), number("skip_bad_event")), "{id}");
    if expected.get("dp_rank").is_some() {
        assert_eq!(info.rank, None, "{id}");
    }
}

fn check_batch(id: &str, payload: &[u8], expected: &Value) {
    let mut events = Vec::new();
    let info = decode_batch(payload, |event| events.push(describe(&event.unwrap()))).unwrap();
    // serde_json reads floats to within one unit in the last place.
    assert!((info.time - expected["ts"].as_f64().unwrap()).abs() < 1e-6, "{id}");
    assert_eq!(json!(info.rank), expected["dp_rank"], "{id}");
    let expected: Vec<Value> = expected["events"].as_array().unwrap().iter().map(normalised).collect();
    assert_eq!(events, expected, "{id}");
}

/// The sample file keeps hashes as they were on the wire beside their unsigned form, and nil fields as null.
fn normalised(event: &Value) -> Value {
    let mut fields: Map<String, Value> = event.as_object().unwrap().clone();
    for name in ["block_hashes", "parent_block_hash"] {
        if let Some(unsigned) = fields.remove(&format!("{name}_u64")) {
            fields.insert(name.to_owned(), unsigned);
        }
    }
    if let Some(blocks) = fields.remove("mm_keys") {
        let item = |key: &Value| json!([key["hash"], key["start_offset"]]);
        let block = |keys: &Value| keys.as_array().unwrap().iter().map(item).collect::<Vec<_>>();
        fields.insert("extra_keys".to_owned(), blocks.as_array().unwrap().iter().map(block).collect::<Vec<_>>().into());
    }
    if let Some(tokens) = fields.get("token_ids").and_then(Value::as_array)
        && tokens.iter().any(Value::is_string)
    {
        fields.insert("token_ids".to_owned(), json!({ "unindexable": tokens.len() }));
    }
    let nothing = |keys: &Value| keys.as_array().is_some_and(|keys| keys.iter().all(Value::is_null));
    fields.retain(|name, value| !(value.is_null() || name == "extra_keys" && nothing(value)));
    Value::Object(fields)
}

fn check_reply(id: &str, frames: &[Vec<u8>], expected: &Value) {
    match replay(frames).unwrap() {
        Replay::End => assert_eq!(expected["end"], json!(true), "{id}"),
        Replay::Batch { topic, seq, payload } => {
            assert_eq!(expected["end"], json!(false), "{id}");
            assert_eq!(json!(topic.map(|topic| std::str::from_utf8(topic).unwrap())), expected["topic"], "{id}");
            assert_eq!(json!(seq), expected["seq"], "{id}");
            check_batch(id, payload, &expected["batch"]);
            // With the delimiter already taken off, an empty topic cannot be told from it; nothing else changes.
            let topic = topic.filter(|topic| !topic.is_empty());
            assert_eq!(replay(&frames[1..]).unwrap(), Replay::Batch { topic, seq, payload }, "{id}");
        }
    }
}

fn check_request(id: &str, frames: &[Vec<u8>], expected: &Value) {
    let request = event_bridge::engine::replay_request(expected["start_seq"].as_u64().unwrap());
    assert_eq!(frames, [Vec::new(), request.to_vec()], "{id}");
}

fn check_load(id: &str, frames: &[Vec<u8>], expected: &Value) {
    let load = &expected["load"];
    let number = |key: &str| load[key].as_u64().unwrap();
    let wanted = LoadStat {
        running: number("num_running_reqs"),
        waiting: number("num_waiting_reqs"),
        used_tokens: number("num_tokens"),
        capacity_tokens: number("max_total_num_tokens"),
        rank: number("attn_dp_rank"),
        waiting_uncached_tokens: number("num_waiting_uncached_tokens"),
        total_tokens: number("num_total_tokens"),
        max_running: number("max_running_requests"),
        prefilled_tokens: number("total_prefill_uncached_tokens"),
        prefill_busy_us: number("total_prefill_busy_us"),
    };
    assert_eq!(decode_load(live(frames).unwrap().payload).unwrap(), wanted, "{id}");
}

fn check_relay(id: &str, frames: &[Vec<u8>], expected: &Value) {
    let message = decode_relay(frames).unwrap();
    assert_eq!(json!(message.publisher.to_string()), expected["publisher_id"], "{id}");
    assert_eq!(json!(message.seq), expected["seq"], "{id}");
    assert_eq!(json!(message.published_at), expected["envelope"]["published_at"], "{id}");
    let payload = expected["envelope"]["payload"].as_array().unwrap();
    assert_eq!(message.events.len(), payload.len(), "{id}");
    for (event, wanted) in message.events.iter().zip(payload) {
        assert_eq!(json!(event.worker.to_string()), wanted["worker_id"], "{id}");
        assert_eq!(json!(event.tier), wanted["storage_tier"], "{id}");
        assert_eq!(json!(event.event_id), wanted["event"]["event_id"], "{id}");
        assert_eq!(json!(event.rank), wanted["event"]["dp_rank"], "{id}");
        let data = match &event.data {
            RelayData::Cleared => json!("cleared"),
            RelayData::Removed(hashes) => {
                json!({ "removed": { "block_hashes": hashes.iter().map(ToString::to_string).collect::<Vec<_>>() } })
            }
            RelayData::Stored(parent, blocks) => {
                let block = |(engine, local): &(_, u64)| json!({ "block_hash": ToString::to_string(engine), "tokens_hash": local.to_string(), "mm_extra_info": null });
                json!({ "stored": {
                    "parent_hash": parent.map(|parent| parent.to_string()),
                    "start_position": null,
                    "blocks": blocks.iter().map(block).collect::<Vec<_>>(),
                } })
            }
        };
        assert_eq!(data, wanted["event"]["data"], "{id}");
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
