//! Captured messages as JSON, for people who debug.

use serde_json::{Map, Value, json};

use super::capture::{Captured, Message};
use crate::engine::{
    EngineHash, LoadStat, Polled, PolledError, PolledKind, RelayData, RelayEvent, RelayMessage, decode_batch,
    decode_polled, describe,
};

/// A captured message.
///
/// # Errors
/// Why it does not decode.
pub(super) fn captured(captured: &Captured) -> Result<Value, String> {
    let Captured { worker, topic, seq, message } = captured;
    let head = json!({ "topic": topic, "seq": seq, "worker": worker });
    match message {
        Message::Batch(payload) => batch(head, payload),
        Message::EndOfReplay => Ok(json!({ "end_of_replay": true })),
        Message::ReplayRequest(from) => Ok(json!({ "replay_request": from })),
        Message::Load(stat) => Ok(with(head, json!({ "load": load(stat) }))),
        Message::Relay(message) => Ok(with(head, relay(message))),
        Message::Polled(answer) => polled(answer),
    }
}

/// `head` with what the batch in `payload` says; absent members left out.
pub(super) fn batch(head: Value, payload: &[u8]) -> Result<Value, String> {
    let (mut events, mut faults) = (Vec::new(), Vec::new());
    let decoded = decode_batch(payload, |event| match event {
        Ok(event) => events.push(describe(&event)),
        Err(fault) => faults.push(fault.to_string()),
    });
    let info = decoded.map_err(|error| error.to_string())?;
    let faults = (!faults.is_empty()).then_some(faults);
    Ok(with(head, json!({ "time": info.time, "rank": info.rank, "events": events, "faults": faults })))
}

/// Members of both, without those that are null.
fn with(head: Value, more: Value) -> Value {
    let members = [head, more].into_iter().filter_map(|value| match value {
        Value::Object(object) => Some(object),
        _ => None,
    });
    let mut all: Map<String, Value> = members.flatten().collect();
    all.retain(|_, value| !value.is_null());
    Value::Object(all)
}

/// By the engine's names.
fn load(stat: &LoadStat) -> Value {
    json!({
        "num_running_reqs": stat.running,
        "num_waiting_reqs": stat.waiting,
        "num_tokens": stat.used_tokens,
        "max_total_num_tokens": stat.capacity_tokens,
        "attn_dp_rank": stat.rank,
        "num_waiting_uncached_tokens": stat.waiting_uncached_tokens,
        "num_total_tokens": stat.total_tokens,
        "max_running_requests": stat.max_running,
        "total_prefill_uncached_tokens": stat.prefilled_tokens,
        "total_prefill_busy_us": stat.prefill_busy_us,
    })
}

fn relay(message: &RelayMessage) -> Value {
    let RelayMessage { publisher, seq: _, published_at, events } = message;
    let event = |event: &RelayEvent| {
        let RelayEvent { worker, tier, event_id, rank, data } = event;
        let head =
            json!({ "worker_id": worker.to_string(), "storage_tier": tier, "event_id": event_id, "dp_rank": rank });
        let names = |hashes: &[EngineHash]| hashes.iter().map(ToString::to_string).collect::<Vec<_>>();
        let data = match data {
            RelayData::Cleared => json!({ "type": "cleared" }),
            RelayData::Removed(hashes) => json!({ "type": "removed", "block_hashes": names(hashes) }),
            RelayData::Stored(parent, blocks) => json!({
                "type": "stored",
                "parent_hash": parent.map(|parent| parent.to_string()),
                "block_hashes": blocks.iter().map(|(hash, _)| hash.to_string()).collect::<Vec<_>>(),
                "tokens_hashes": blocks.iter().map(|(_, tokens)| tokens.to_string()).collect::<Vec<_>>(),
            }),
        };
        with(head, data)
    };
    let events: Vec<Value> = events.iter().map(event).collect();
    json!({ "publisher_id": publisher.to_string(), "published_at": published_at, "relayed": events })
}

fn polled(answer: &str) -> Result<Value, String> {
    let event = |event: Result<Polled<'_>, PolledError>| match event {
        Ok(Polled { id, window, rank, changes, kind }) => {
            let kind = match kind {
                PolledKind::Created => Some("created"),
                PolledKind::Changed => None,
                PolledKind::Unknown => Some("unknown"),
            };
            let changes: Vec<Value> = changes.iter().map(describe).collect();
            let said = json!({ "event_id": id, "window_size": window, "attention_dp_rank": rank, "kind": kind });
            with(said, json!({ "events": changes }))
        }
        Err(error) => json!({ "error": error.to_string() }),
    };
    let events = decode_polled(answer.as_bytes()).map_err(|error| error.to_string())?;
    Ok(json!({ "polled": events.into_iter().map(event).collect::<Vec<_>>() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::capture::read;

    #[test]
    fn a_batch_is_shown_with_its_events_and_the_faults_beside_them() {
        // [1.0, [["AllBlocksCleared"], ["Other"]]]
        let payload = [
            &[0x92, 0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0x92, 0x91, 0xb0][..],
            b"AllBlocksCleared",
            &[0x91, 0xa5],
            b"Other",
        ]
        .concat();
        let shown = batch(json!({ "seq": 3, "topic": null }), &payload).unwrap();
        assert_eq!(shown["events"], json!([{ "type": "AllBlocksCleared" }]));
        assert_eq!((shown["seq"].as_u64(), shown["time"].as_f64(), shown.get("topic")), (Some(3), Some(1.0), None));
        assert!(shown["faults"][0].as_str().unwrap().contains("Other"), "{shown}");
        assert!(batch(json!({}), &payload[..5]).is_err());
    }

    #[test]
    fn an_answer_of_a_polled_engine_is_shown_event_by_event() {
        let answer = json!([
            { "event_id": 0, "window_size": 64, "data": { "type": "created", "num_blocks_per_cache_level": [9] } },
            { "event_id": 1, "attention_dp_rank": 2, "data": { "type": "removed", "block_hashes": [7] } },
            { "event_id": 2 },
        ]);
        let shown = captured(&read(&answer.to_string()).unwrap()).unwrap();
        let polled = shown["polled"].as_array().unwrap();
        assert_eq!(polled[0], json!({ "event_id": 0, "window_size": 64, "kind": "created", "events": [] }));
        assert_eq!(polled[1]["events"][0]["block_hashes"], json!(["7"]));
        assert_eq!(polled[1]["attention_dp_rank"], 2);
        assert!(polled[2]["error"].is_string(), "{shown}");
        assert!(captured(&read("[1, 2").unwrap()).is_err());
    }
}
