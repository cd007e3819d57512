//! Events as JSON, with the engines' own field names, for people who debug. Absent and nil fields are left out; hashes
//! are decimal strings of their unsigned 64-bit form.

use serde_json::{Map, Value, json};

use super::event::{EngineHash, Event, ExtraKey, Moved, Removed, Stored, Tokens};

/// One event as a JSON object.
pub fn describe(event: &Event<'_>) -> Value {
    match event {
        Event::Stored(event) => stored(event),
        Event::Removed(event) => removed(event),
        Event::Moved(Moved { hash, from_level, to_level }) => json!({
            "type": "BlockMoved", "block_hash": hash.to_string(), "from_level": from_level, "to_level": to_level,
        }),
        Event::Cleared => json!({ "type": "AllBlocksCleared" }),
    }
}

fn stored(event: &Stored<'_>) -> Value {
    let Stored {
        hashes: blocks,
        parent,
        tokens: ids,
        block_size,
        may_be_partial: _,
        may_repeat: _,
        lora_id,
        lora_name,
        medium,
        cache_salt,
        extra_keys: keys,
        group,
        kind,
        sliding_window,
        locality,
        ownership,
        session_id,
        lookahead,
    } = event;
    let mut object = Map::new();
    object.insert("type".into(), json!("BlockStored"));
    object.insert("block_hashes".into(), hashes(blocks));
    object.insert("token_ids".into(), tokens(ids));
    let optional = [
        ("parent_block_hash", parent.map(|parent| json!(parent.to_string()))),
        ("block_size", block_size.map(Value::from)),
        ("lora_id", lora_id.map(Value::from)),
        ("lora_name", lora_name.as_deref().map(Value::from)),
        ("medium", medium.as_deref().map(Value::from)),
        ("cache_salt", cache_salt.as_deref().map(Value::from)),
        ("group_idx", group.map(Value::from)),
        ("kv_cache_spec_kind", kind.as_deref().map(Value::from)),
        ("kv_cache_spec_sliding_window", sliding_window.map(Value::from)),
        ("locality", locality.as_deref().map(Value::from)),
        ("ownership", ownership.as_deref().map(Value::from)),
        ("session_id", session_id.as_deref().map(Value::from)),
        ("extra_keys", Some(extra_keys(keys)).filter(|_| !keys.is_empty())),
        ("lookahead_token_ids", Some(json!(lookahead)).filter(|_| !lookahead.is_empty())),
    ];
    for (name, value) in optional {
        object.extend(value.map(|value| (name.to_owned(), value)));
    }
    Value::Object(object)
}

fn removed(event: &Removed<'_>) -> Value {
    let Removed { hashes: blocks, medium, every_tier: _, group, locality, ownership } = event;
    let mut object = Map::new();
    object.insert("type".into(), json!("BlockRemoved"));
    object.insert("block_hashes".into(), hashes(blocks));
    let optional = [
        ("medium", medium.as_deref().map(Value::from)),
        ("group_idx", group.map(Value::from)),
        ("locality", locality.as_deref().map(Value::from)),
        ("ownership", ownership.as_deref().map(Value::from)),
    ];
    for (name, value) in optional {
        object.extend(value.map(|value| (name.to_owned(), value)));
    }
    Value::Object(object)
}

fn hashes(blocks: &[EngineHash]) -> Value {
    blocks.iter().map(ToString::to_string).collect::<Vec<_>>().into()
}

fn tokens(tokens: &Tokens) -> Value {
    match tokens {
        Tokens::Plain(ids) => ids.iter().map(|id| id.0).collect::<Vec<_>>().into(),
        Tokens::Pairs { first, next } => {
            let second = first.iter().skip(1).chain(std::iter::once(next));
            first.iter().zip(second).map(|(left, right)| json!([left.0, right.0])).collect::<Vec<_>>().into()
        }
        Tokens::Unindexable { positions } => json!({ "unindexable": positions }),
    }
}

fn extra_keys(blocks: &[Vec<ExtraKey<'_>>]) -> Value {
    let key = |key: &ExtraKey<'_>| match key {
        ExtraKey::Text(text) => json!(text),
        ExtraKey::Item { id, offset } => json!([id, offset]),
        ExtraKey::Digest(bytes) => {
            json!(bytes.iter().fold(String::from("0x"), |text, byte| format!("{text}{byte:02x}")))
        }
        ExtraKey::Other => json!("?"),
    };
    let block = |keys: &Vec<ExtraKey<'_>>| match keys.as_slice() {
        [] => Value::Null,
        keys => keys.iter().map(key).collect::<Vec<_>>().into(),
    };
    blocks.iter().map(block).collect::<Vec<_>>().into()
}
