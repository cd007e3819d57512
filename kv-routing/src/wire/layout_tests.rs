//! The bytes of every message, pinned: a bridge and a filter that differ in them must differ in their version too.

use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::block::{SequenceHash, TokenId};
use crate::handoff::Protocol;
use crate::target::{Slot, TargetId};

/// Version, then length and XXH3-64 of all messages below. Whoever changes the latter two raises the former.
const PINNED: (u8, usize, u64) = (3, 915, 7_264_843_429_545_814_932);

fn decision() -> Decision {
    Decision {
        at: UnixMillis(1),
        pool: PoolId(2),
        target: TargetId(3),
        answered: true,
        prompt_tokens: 4,
        predicted_blocks: 5,
        block_size: 6,
        blocks: 7,
        certain_blocks: 8,
        marks: vec![SequenceHash(9), SequenceHash(10)],
        head: vec![TokenId(11)],
        seed: 12,
        adapter: false,
        shadow: Some(Imagined { version: 13, target: Some(TargetId(14)), predicted_blocks: 15 }),
    }
}

fn row() -> LoadRow {
    let booking = Booking { requests: 20, prefill_tokens: 21, decode_blocks: 22, failures: 23, peak_requests: 24 };
    LoadRow {
        owner: 16,
        written: UnixMillis(17),
        generation: Generation(18),
        policy_version: 19,
        entries: vec![LoadRowEntry { target: TargetId(25), booking }],
        recent: vec![RecentPrompt {
            target: TargetId(26),
            until: UnixMillis(27),
            blocks: 28,
            marks: vec![SequenceHash(29)],
        }],
    }
}

fn target() -> TargetEntry {
    TargetEntry {
        role: Role::Decode,
        health: Health::Draining,
        source: SourceState::Mismatch,
        source_since: UnixMillis(30),
        capacity_blocks: 31,
        max_batched_tokens: 32,
        running: 33,
        waiting: 34,
        kv_usage: 0.5,
        labels: vec![("zone".into(), "a".into())],
        bootstrap: Some(Bootstrap { host: "10.0.0.1".into(), port: 59, ranks: 60, engine_id: Some("e".into()) }),
        ..TargetEntry::new(Slot(35), "10.0.0.1:8000", Some(36))
    }
}

fn manifest() -> Manifest {
    let pool = PoolManifest {
        id: PoolId(37),
        name: "pool".into(),
        models: vec!["model".into()],
        adapters: vec!["adapter".into()],
        block_size: Some(38),
        page_bits: 4,
        tokenizer: Some(TokenizerRef { id: 39, parts: 40, bytes: 41 }),
        bridge: BridgeShare::Chats,
        cluster: "workers".into(),
        handoff: Protocol::Mooncake,
        prefill_cluster: "prefill".into(),
        stale_after_ms: 42,
        stale_decay_ms: 43,
        predict_ms: 44,
        predict_without_events_ms: 45,
    };
    let header = ManifestHeader { epoch: Epoch(46), generation: Generation(47), heartbeat: UnixMillis(48) };
    Manifest { header, pools: vec![pool], policy_version: 49 }
}

#[test]
fn a_layout_belongs_to_its_version() {
    let reply = PushReply {
        in_place: Some((Epoch(50), Generation(51))),
        need_snapshot: true,
        load_rows: vec![(52, row())],
        decisions: vec![decision()],
        decisions_dropped: 53,
    };
    let push = Push { epoch: Epoch(54), snapshot: true, puts: vec![Put { key: "key", value: b"value" }] };
    let messages = [
        reply.encode(),
        push.encode(),
        row().encode(),
        TargetTable { targets: vec![target()] }.encode(),
        manifest().encode(),
        DecisionBatch { dropped: 55, decisions: vec![decision()] }.encode(),
        Tokenized { tokens: 56, exact_tokens: 57, chain: vec![SequenceHash(58)] }.encode(),
    ];
    let bytes: Vec<u8> = messages.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!((VERSION, bytes.len(), xxh3_64(&bytes)), PINNED);
}
