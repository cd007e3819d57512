//! The recorded frames of a real vLLM 0.32, by request.

use mock_engine::events::{BlockStored, KvEvent};
use serde_json::Value;

use crate::support::data_file;

/// One published batch.
pub(crate) struct Frame {
    pub(crate) sequence: u64,
    pub(crate) timestamp: f64,
    pub(crate) payload: Vec<u8>,
    pub(crate) events: Vec<KvEvent>,
}

/// One request and the batches it caused.
pub(crate) struct Recorded {
    pub(crate) scenario: String,
    pub(crate) path: String,
    pub(crate) request: Value,
    pub(crate) prompt: Vec<u32>,
    pub(crate) outputs: Vec<u32>,
    pub(crate) usage: Value,
    pub(crate) frames: Vec<Frame>,
}

/// Ordinary traffic first (2048 blocks), then eviction and reset (128 blocks): two engine lives.
pub(crate) fn lives() -> [Vec<Recorded>; 2] {
    let mut lives = [Vec::new(), Vec::new()];
    let mut life = 0;
    let mut previous = None;
    for line in data_file("vllm-real-frames.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let frame = frame(&line);
        if previous.is_some_and(|previous| frame.sequence < previous) {
            life += 1;
        }
        previous = Some(frame.sequence);
        let recorded: &mut Vec<Recorded> = &mut lives[life];
        match recorded.last_mut() {
            Some(last) if last.request == line["request"] && last.scenario == line["scenario"] => {
                last.frames.push(frame);
            }
            _ => recorded.push(record(&line, frame)),
        }
    }
    lives
}

fn record(line: &Value, frame: Frame) -> Recorded {
    let mut prompt = numbers(&line["prompt_token_ids"]);
    let prompt_tokens = line["usage"]["prompt_tokens"].as_u64().unwrap() as usize;
    if prompt.len() != prompt_tokens {
        // The chat with tools was recorded with the prompt of the same chat without them. Its full blocks are in the
        // event; one token follows them, and the ids of the recorded prompt end the same way.
        let KvEvent::Stored(stored) = &frame.events[0] else { panic!("first event is a store") };
        let last = *prompt.last().unwrap();
        prompt = stored.token_ids.clone();
        prompt.push(last);
        assert_eq!(prompt.len(), prompt_tokens);
    }
    Recorded {
        scenario: line["scenario"].as_str().unwrap().to_owned(),
        path: line["path"].as_str().unwrap().to_owned(),
        request: line["request"].clone(),
        prompt,
        outputs: numbers(&line["output_token_ids"]),
        usage: line["usage"].clone(),
        frames: vec![frame],
    }
}

fn frame(line: &Value) -> Frame {
    let events = line["decoded"][1].as_array().unwrap().iter().map(event).collect();
    Frame {
        sequence: line["seq"].as_u64().unwrap(),
        timestamp: line["decoded"][0].as_f64().unwrap(),
        payload: unhex(line["payload_hex"].as_str().unwrap()),
        events,
    }
}

fn event(event: &Value) -> KvEvent {
    let hashes = || event["block_hashes"].as_array().unwrap().iter().map(|hash| hash.as_u64().unwrap());
    match event["type"].as_str().unwrap() {
        "BlockStored" => KvEvent::Stored(BlockStored {
            block_hashes: hashes().collect(),
            parent_block_hash: event["parent_block_hash"].as_u64(),
            token_ids: numbers(&event["token_ids"]),
            block_size: event["block_size"].as_u64().unwrap() as u32,
            lora_id: None,
            lora_name: None,
            extra_keys: serde_json::from_value(event["extra_keys"].clone()).unwrap(),
        }),
        "BlockRemoved" => KvEvent::Removed { hash: hashes().next().unwrap() },
        "AllBlocksCleared" => KvEvent::AllCleared,
        other => panic!("unexpected event {other}"),
    }
}

fn numbers(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as u32).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
