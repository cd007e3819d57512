use std::time::{Duration, Instant};

use kv_routing::target::{Slot, Tier};
use kv_routing::wire::SourceState;
use serde_json::{Value, json};

use super::*;
use crate::stream::StreamEvent;

const SLOT: Slot = Slot(2);

/// A pool with one target whose parity was shown, connected.
fn following(spec: SourceSpec) -> Ingest {
    following_with(spec, IngestConfig::default())
}

fn following_with(spec: SourceSpec, config: IngestConfig) -> Ingest {
    let mut ingest = Ingest::new(config);
    ingest.add_target(SLOT, spec);
    ingest.set_parity(SLOT, Parity::Shown);
    ingest.handle(SLOT, StreamEvent::Connected, Instant::now());
    ingest
}

fn polled() -> Ingest {
    following(SourceSpec { polled: true, ..SourceSpec::default() })
}

fn give(ingest: &mut Ingest, seq: u64, payload: impl Into<bytes::Bytes>) {
    let event = StreamEvent::Live { seq, payload: payload.into(), received: Instant::now() };
    ingest.handle(SLOT, event, Instant::now());
}

fn poll(ingest: &mut Ingest, id: u64, window: u64, data: Value) {
    give(ingest, id, json!({ "event_id": id, "window_size": window, "data": data }).to_string());
}

fn created() -> Value {
    json!({ "type": "created", "num_blocks_per_cache_level": [9, 9] })
}

/// A store of one block of 32 tokens.
fn store(hash: u64, token: u32) -> Value {
    let tokens: Vec<Value> = (0..32).map(|at| json!({ "token_id": token + at, "token_extra_id": 0 })).collect();
    json!({ "type": "stored", "parent_hash": null,
            "blocks": [{ "block_hash": hash, "tokens": tokens, "cache_level": 0 }] })
}

fn held(ingest: &Ingest, tier: Tier) -> usize {
    let mut count = 0;
    ingest.index().for_each_holder(|_, on, _, _| count += usize::from(on == tier));
    count
}

fn state(ingest: &Ingest) -> (SourceState, Reason) {
    let report = ingest.report(SLOT).unwrap();
    (report.state, report.reason)
}

#[test]
fn failed_parity_takes_the_target_out_of_the_choice_or_is_only_told() {
    for (parity_policy, expected) in
        [(ParityPolicy::Enforce, SourceState::Mismatch), (ParityPolicy::Report, SourceState::Unverified)]
    {
        let spec = SourceSpec { polled: true, ..SourceSpec::default() };
        let mut ingest = following_with(spec, IngestConfig { parity_policy, ..IngestConfig::default() });
        poll(&mut ingest, 0, 4096, created());
        ingest.set_parity(SLOT, Parity::Failed(Cause::Template));
        assert_eq!(state(&ingest), (expected, Reason::ParityFailed(Cause::Template)));
        ingest.set_parity(SLOT, Parity::Shown);
        assert_eq!(state(&ingest), (SourceState::Exact, Reason::InOrder));
    }
}

#[test]
fn a_restarted_engine_may_have_a_smaller_window() {
    let mut ingest = polled();
    poll(&mut ingest, 0, 4096, created());
    poll(&mut ingest, 1, 4096, store(1, 100));
    assert_eq!((held(&ingest, Tier::Device), state(&ingest)), (1, (SourceState::Exact, Reason::InOrder)));
    poll(&mut ingest, 0, 2048, created());
    poll(&mut ingest, 1, 2048, store(2, 200));
    ingest.set_parity(SLOT, Parity::Shown);
    assert_eq!((held(&ingest, Tier::Device), state(&ingest)), (1, (SourceState::Exact, Reason::InOrder)));
    assert_eq!(ingest.report(SLOT).unwrap().restarts, 1);
}

#[test]
fn the_lag_of_a_batch_is_that_of_its_way_into_the_index() {
    let mut ingest = following(SourceSpec { replay: true, ..SourceSpec::default() });
    let now = Instant::now();
    let payload: bytes::Bytes = vec![0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x90].into();
    let live = StreamEvent::Live { seq: 0, payload: payload.clone(), received: now };
    ingest.handle(SLOT, live, now + Duration::from_millis(2));
    assert_eq!(ingest.report(SLOT).unwrap().lag, None, "it is held back until the replay ends");
    let id = crate::stream::ReplayId(1);
    let later = now + Duration::from_secs(9);
    ingest.handle(SLOT, StreamEvent::ReplayEnd { id, complete: false }, later);
    let id = crate::stream::ReplayId(2);
    ingest.handle(SLOT, StreamEvent::Replayed { id, seq: 0, payload: payload.clone() }, later);
    assert_eq!(ingest.report(SLOT).unwrap().lag, None, "what is replayed was not waited for");
    let live = StreamEvent::Live { seq: 1, payload, received: now };
    ingest.handle(SLOT, live, later);
    ingest.handle(SLOT, StreamEvent::ReplayEnd { id, complete: true }, later);
    assert_eq!(ingest.report(SLOT).unwrap().lag, Some(Duration::from_secs(9)));
}

#[test]
fn a_polled_event_of_an_unknown_kind_is_told_and_weakens() {
    let mut ingest = polled();
    poll(&mut ingest, 0, 4096, created());
    poll(&mut ingest, 1, 4096, json!({ "type": "compacted", "into": 3 }));
    assert_eq!(state(&ingest), (SourceState::Warm, Reason::UnknownEvents));
    assert_eq!(ingest.report(SLOT).unwrap().unknown_events, 1);
}

#[test]
fn a_process_whose_numbers_go_on_by_chance_is_known_by_its_first_event() {
    let mut ingest = polled();
    poll(&mut ingest, 0, 4096, created());
    poll(&mut ingest, 1, 128, created());
    poll(&mut ingest, 2, 4096, store(1, 100));
    assert_eq!(state(&ingest), (SourceState::Exact, Reason::InOrder));
    poll(&mut ingest, 3, 128, created());
    assert_eq!((held(&ingest, Tier::Device), state(&ingest)), (0, (SourceState::Warm, Reason::BatchesLost)));
}

/// One event of the map layout in a batch: `fields` are names and packed values.
fn batch(events: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x90 | events.len() as u8];
    events.iter().for_each(|event| out.extend_from_slice(event));
    out.push(0);
    out
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(0xa0 | text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

fn cleared() -> Vec<u8> {
    let mut out = vec![0x91];
    text(&mut out, "AllBlocksCleared");
    out
}

/// A store of one block of 16 tokens, in SGLang's array layout.
fn stored(hash: u8, medium: &str) -> Vec<u8> {
    let mut out = vec![0x97];
    text(&mut out, "BlockStored");
    out.extend_from_slice(&[0x91, hash, 0xc0, 0xdc, 0, 16]);
    out.extend(std::iter::repeat_n(hash, 16));
    out.extend_from_slice(&[16, 0xc0]);
    text(&mut out, medium);
    out
}

#[test]
fn the_clear_with_which_an_engine_begins_leaves_no_doubt_about_other_tiers() {
    let mut ingest = following(SourceSpec::default());
    give(&mut ingest, 0, batch(&[cleared()]));
    give(&mut ingest, 1, batch(&[stored(1, "GPU")]));
    give(&mut ingest, 2, batch(&[stored(1, "CPU_PINNED")]));
    assert_eq!((held(&ingest, Tier::Host), state(&ingest)), (1, (SourceState::Exact, Reason::InOrder)));
    // Now something is elsewhere, and the clear does not say whether it still is.
    give(&mut ingest, 3, batch(&[cleared()]));
    assert_eq!(state(&ingest), (SourceState::Warm, Reason::TiersCleared));
    // Of an engine that was met later it is not known what was elsewhere before the clear.
    let mut ingest = following(SourceSpec::default());
    give(&mut ingest, 7, batch(&[cleared(), stored(1, "GPU")]));
    assert_eq!(state(&ingest), (SourceState::Exact, Reason::InOrder));
    give(&mut ingest, 8, batch(&[stored(1, "CPU_PINNED")]));
    assert_eq!(state(&ingest), (SourceState::Warm, Reason::TiersCleared));
}

#[test]
fn an_engine_that_sleeps_has_dropped_what_it_has_not_said_yet() {
    let says = |asleep| EngineSays { capacity_tokens: 0, asleep };
    let mut ingest = following(SourceSpec::default());
    give(&mut ingest, 0, batch(&[stored(1, "GPU")]));
    ingest.hear(SLOT, says(true));
    assert_eq!((held(&ingest, Tier::Device), state(&ingest)), (0, (SourceState::Warm, Reason::Asleep)));
    // Awake, but its first batch is still to come: something stored before may have been on its way.
    ingest.hear(SLOT, says(false));
    assert_eq!(state(&ingest), (SourceState::Warm, Reason::Asleep));
    give(&mut ingest, 1, batch(&[cleared(), stored(2, "GPU")]));
    assert_eq!((held(&ingest, Tier::Device), state(&ingest)), (1, (SourceState::Exact, Reason::InOrder)));
    // With blocks elsewhere it is not known what is left of them.
    give(&mut ingest, 2, batch(&[stored(2, "CPU_PINNED")]));
    ingest.hear(SLOT, says(true));
    ingest.hear(SLOT, says(false));
    give(&mut ingest, 3, batch(&[cleared()]));
    assert_eq!(state(&ingest), (SourceState::Warm, Reason::TiersCleared));
    give(&mut ingest, 4, batch(&[cleared()]));
    assert_eq!(state(&ingest), (SourceState::Warm, Reason::TiersCleared));
}

#[test]
fn a_process_that_started_anew_behind_a_connection_that_stayed_is_not_believed() {
    let before = Instant::now() + std::time::Duration::from_secs(1);
    let mut ingest = following(SourceSpec::default());
    give(&mut ingest, 0, batch(&[stored(1, "GPU")]));
    assert_eq!(state(&ingest), (SourceState::Exact, Reason::InOrder));
    assert!(ingest.process_changed(SLOT, before, before).is_empty());
    assert_eq!((held(&ingest, Tier::Device), state(&ingest)), (0, (SourceState::None, Reason::NoEvents)));
    let mut ingest = following(SourceSpec { replay: true, ..SourceSpec::default() });
    ingest.handle(SLOT, StreamEvent::ReplayEnd { id: crate::stream::ReplayId(1), complete: true }, Instant::now());
    let asked = ingest.process_changed(SLOT, before, before);
    assert!(matches!(asked.as_slice(), [Action::Replay { from: 0, .. }]), "{asked:?}");
    assert_eq!(state(&ingest), (SourceState::Warm, Reason::Synchronizing));
}

#[test]
fn another_ranks_batches_on_the_stream_are_not_believed() {
    let mut ingest = following(SourceSpec { rank: Some(1), ..SourceSpec::default() });
    give(&mut ingest, 0, batch(&[stored(1, "GPU")]));
    assert_eq!(state(&ingest), (SourceState::Warm, Reason::RankMismatch));
    assert_eq!(ingest.report(SLOT).unwrap().rank_mismatches, 1);
}

#[test]
fn another_peer_on_a_bound_socket_is_not_believed_unless_it_can_be_asked() {
    let changed = StreamEvent::PeerChanged { peer: std::net::Ipv4Addr::LOCALHOST.into() };
    let mut ingest = following(SourceSpec::default());
    give(&mut ingest, 0, batch(&[stored(1, "GPU")]));
    ingest.handle(SLOT, StreamEvent::Connected, Instant::now());
    ingest.handle(SLOT, changed.clone(), Instant::now());
    give(&mut ingest, 0, batch(&[stored(2, "GPU")]));
    assert_eq!((held(&ingest, Tier::Device), state(&ingest)), (1, (SourceState::Warm, Reason::PeerChanged)));
    // Its cache empty, it does not matter any more who it was.
    give(&mut ingest, 1, batch(&[cleared()]));
    assert_eq!(state(&ingest), (SourceState::Exact, Reason::InOrder));
}

#[test]
fn another_process_has_to_show_anew_that_its_tokens_agree() {
    let mut ingest = polled();
    poll(&mut ingest, 0, 4096, created());
    assert_eq!(state(&ingest), (SourceState::Exact, Reason::InOrder));
    poll(&mut ingest, 0, 4096, created());
    assert_eq!(state(&ingest), (SourceState::Unverified, Reason::ParityUnknown));
}
