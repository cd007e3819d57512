use kv_routing::block::TokenId;

use super::*;
use crate::engine::{EngineHash, ExtraKey, Moved, Tokens};

/// Field by field as the engine's serialiser writes it.
const BODY: &str = r#"[
  {"event_id": 0, "window_size": 2048, "data": {"type": "created", "num_blocks_per_cache_level": [10, 0]}},
  {"event_id": 1, "window_size": 2048, "attention_dp_rank": 1, "layer_group_id": 0, "hash_algo": "v1_block_key", "data":
    {"type": "stored", "parent_hash": null, "blocks": [
      {"type": "stored_block", "block_hash": 10745268876067371298, "tokens": [
         {"type": "unique_token", "token_id": 5, "token_extra_id": 0}, {"type": "unique_token", "token_id": 6, "token_extra_id": 0}],
       "cache_level": 0, "priority": 35, "mm_keys": [{"type": "mm_key", "hash": "ab", "start_offset": -1, "uuid": "u"}], "cache_salt": null},
      {"type": "stored_block", "block_hash": 7, "tokens": [
         {"type": "unique_token", "token_id": 8, "token_extra_id": 0}], "cache_level": 0, "priority": 35}]}},
  {"event_id": 2, "data": {"type": "removed", "block_hashes": [7, "00000000000000000000000000000000000000000000000000000000000000ff"]}},
  {"event_id": 3, "data": {"type": "updated", "block_hash": 7, "cache_level": {"type": "event_diff", "new_value": 1, "old_value": 0}, "priority": null}},
  {"event_id": 4, "data": {"type": "updated", "block_hash": 7, "cache_level": null, "priority": {"type": "event_diff", "new_value": 1, "old_value": 0}}},
  {"event_id": 5, "data": {"type": "removed", "block_hashes": [1.5]}},
  {"event_id": 6, "data": {"type": "compacted", "into": 3}}
]"#;

#[test]
fn every_kind_of_event() {
    let events = decode_polled(BODY.as_bytes()).unwrap();
    let ids: Vec<Option<u64>> = events.iter().map(|event| event.as_ref().ok().map(|event| event.id)).collect();
    assert_eq!(ids, [Some(0), Some(1), Some(2), Some(3), Some(4), None, Some(6)]);
    assert!(matches!(&events[5], Err(PolledError::Event { index: 5, .. })));
    let event = |at: usize| events[at].as_ref().unwrap();
    assert_eq!((event(0).window, event(0).changes.len()), (Some(2048), 0));
    assert_eq!(
        [0, 1, 4, 6].map(|at| event(at).kind),
        [PolledKind::Created, PolledKind::Changed, PolledKind::Changed, PolledKind::Unknown]
    );
    assert_eq!(event(1).rank, Some(1));
    let [Event::Stored(full), Event::Stored(tail)] = event(1).changes.as_slice() else { panic!("{:?}", event(1)) };
    assert_eq!((full.hashes.as_slice(), full.parent), (&[EngineHash(10_745_268_876_067_371_298)][..], None));
    assert_eq!(full.tokens, Tokens::Plain(vec![TokenId(5), TokenId(6)]));
    assert_eq!((full.block_size, full.may_be_partial, full.medium.as_deref()), (Some(2), false, Some("GPU")));
    assert_eq!(full.extra_keys, [vec![ExtraKey::Item { id: "ab".into(), offset: -1 }]]);
    assert_eq!((tail.hashes.as_slice(), tail.parent), (&[EngineHash(7)][..], Some(full.hashes[0])));
    assert_eq!((tail.block_size, tail.may_be_partial), (Some(1), true));
    let [Event::Removed(removed)] = event(2).changes.as_slice() else { panic!("{:?}", event(2)) };
    assert_eq!((removed.hashes.as_slice(), removed.every_tier), (&[EngineHash(7), EngineHash(255)][..], true));
    assert_eq!(event(3).changes, [Event::Moved(Moved { hash: EngineHash(7), from_level: 0, to_level: 1 })]);
    assert!(event(4).changes.is_empty() && event(6).changes.is_empty());
}

#[test]
fn tokens_that_are_more_than_ids_cannot_be_indexed() {
    let body = r#"[{"event_id": 1, "data": {"type": "stored", "parent_hash": 3, "blocks": [
        {"block_hash": 4, "tokens": [{"token_id": 1, "token_extra_id": 9}], "cache_level": 1}]}}]"#;
    let events = decode_polled(body.as_bytes()).unwrap();
    let [Event::Stored(store)] = events[0].as_ref().unwrap().changes.as_slice() else { panic!() };
    assert_eq!(store.tokens, Tokens::Unindexable { positions: 1 });
    assert_eq!(store.medium.as_deref(), Some("CPU"));
}

#[test]
fn bodies_that_are_no_arrays() {
    assert!(matches!(decode_polled(b"{}"), Err(PolledError::Body(_))));
    assert!(matches!(decode_polled(b"[1"), Err(PolledError::Body(_))));
    assert_eq!(decode_polled(b"[]").unwrap().len(), 0);
    assert!(decode_polled(b"[1]").unwrap()[0].is_err());
    assert_eq!(polled_head(r#"{"event_id": 4, "attention_dp_rank": 2, "data": 1}"#).unwrap(), (4, Some(2)));
}
