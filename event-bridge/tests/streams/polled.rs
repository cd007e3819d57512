//! Engines whose events are fetched over HTTP.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use event_bridge::ingest::{Ingest, IngestConfig, Parity, Reason, SourceSpec};
use event_bridge::stream::{PollSpec, StreamEvent, spawn_poll};
use kv_routing::block::{BlockSize, HashSeed, TokenId, chain};
use kv_routing::target::{Slot, Tier};
use kv_routing::wire::SourceState;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

type Answers = Arc<Mutex<VecDeque<String>>>;

/// An engine that answers with `answers` one after another, then with nothing.
async fn engine(answers: Answers, by_get: bool) -> (String, tokio::task::JoinHandle<()>) {
    let answer = move || {
        let answers = answers.clone();
        async move { answers.lock().unwrap().pop_front().unwrap_or_else(|| "[]".to_owned()) }
    };
    let route = if by_get { get(answer) } else { post(answer) };
    let router =
        Router::new().route("/kv_cache_events", route).route("/broken", post(|| async { StatusCode::NOT_FOUND }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/kv_cache_events", listener.local_addr().unwrap());
    let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, task)
}

fn store(id: u64, rank: u32, window: u64, parent: Option<u64>, blocks: &[(u64, Vec<u32>)]) -> Value {
    let token = |id: &u32| json!({ "type": "unique_token", "token_id": id, "token_extra_id": 0 });
    let block = |(hash, tokens): &(u64, Vec<u32>)| {
        json!({ "type": "stored_block", "block_hash": hash, "cache_level": 0, "priority": 35,
                "tokens": tokens.iter().map(token).collect::<Vec<_>>() })
    };
    json!({ "event_id": id, "attention_dp_rank": rank, "window_size": window, "data": {
        "type": "stored", "parent_hash": parent, "blocks": blocks.iter().map(block).collect::<Vec<_>>() } })
}

fn tokens(from: u32, count: u32) -> Vec<u32> {
    (from..from + count).collect()
}

/// Names of the blocks of a prompt.
fn names(prompt: &[u32]) -> Vec<u64> {
    let tokens: Vec<TokenId> = prompt.iter().copied().map(TokenId).collect();
    let blocks = chain(&tokens, BlockSize::new(32).unwrap(), HashSeed::default());
    blocks.into_iter().map(|block| block.0).collect()
}

fn held(ingest: &Ingest) -> Vec<(Slot, Tier, u64)> {
    let mut all = Vec::new();
    ingest.index().for_each_holder(|slot, tier, block, _| all.push((slot, tier, block.0)));
    all.sort_unstable();
    all
}

async fn next(events: &mut mpsc::Receiver<(Slot, StreamEvent)>) -> (Slot, StreamEvent) {
    timeout(Duration::from_secs(10), events.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn ranks_windows_levels_and_partial_blocks() {
    let (prompt, partial) = (tokens(0, 64), tokens(64, 9));
    let first = json!([
        { "event_id": 0, "attention_dp_rank": 0, "window_size": 4096, "data": { "type": "created", "num_blocks_per_cache_level": [9, 9] } },
        { "event_id": 1, "attention_dp_rank": 0, "window_size": 128, "data": { "type": "created", "num_blocks_per_cache_level": [9, 9] } },
        store(2, 0, 4096, None, &[(11, prompt[..32].to_vec()), (12, prompt[32..].to_vec()), (13, partial)]),
        store(3, 0, 128, None, &[(99, tokens(500, 32)), (98, tokens(532, 32))]),
        store(0, 1, 4096, None, &[(21, prompt[..32].to_vec())]),
    ]);
    let second = json!([
        { "event_id": 4, "attention_dp_rank": 0, "window_size": 4096, "data": { "type": "updated", "block_hash": 12,
            "cache_level": { "type": "event_diff", "old_value": 0, "new_value": 1 }, "priority": null } },
        { "event_id": 5, "attention_dp_rank": 0, "window_size": 4096, "data": { "type": "removed", "block_hashes": [13] } },
        { "event_id": 1, "attention_dp_rank": 1, "window_size": 4096, "data": { "type": "removed", "block_hashes": ["x"] } },
        { "event_id": 2, "attention_dp_rank": 1, "window_size": 4096, "data": { "type": "removed", "block_hashes": [21] } },
    ]);
    let answers: Answers = Arc::new(Mutex::new([first.to_string(), second.to_string()].into()));
    let (url, server) = engine(answers, false).await;
    let (tx, mut events) = mpsc::channel(4);
    let targets = [Slot(0), Slot(1)];
    let _poller = spawn_poll(vec![(Some(0), targets[0]), (Some(1), targets[1])], PollSpec::new(url), tx);
    let mut ingest = Ingest::new(IngestConfig::default());
    for slot in targets {
        ingest.add_target(slot, SourceSpec { polled: true, ..SourceSpec::default() });
        ingest.set_parity(slot, Parity::Shown);
    }
    let blocks = names(&prompt);
    for step in 0..2 + 5 {
        let (slot, event) = next(&mut events).await;
        assert_eq!(event == StreamEvent::Connected, step < 2, "{event:?}");
        assert!(ingest.handle(slot, event, Instant::now()).is_empty());
    }
    assert_eq!(held(&ingest), {
        let mut all = vec![
            (targets[0], Tier::Device, blocks[0]),
            (targets[0], Tier::Device, blocks[1]),
            (targets[1], Tier::Device, blocks[0]),
        ];
        all.sort_unstable();
        all
    });
    for _ in 0..4 {
        let (slot, event) = next(&mut events).await;
        ingest.handle(slot, event, Instant::now());
    }
    assert_eq!(held(&ingest), [(targets[0], Tier::Device, blocks[0]), (targets[0], Tier::Host, blocks[1])]);
    let (one, other) = (ingest.report(targets[0]).unwrap(), ingest.report(targets[1]).unwrap());
    assert_eq!((one.state, one.reason, one.unknown_removals), (SourceState::Exact, Reason::InOrder, 0));
    // One malformed event costs that event, and the claim to know everything.
    assert_eq!((other.state, other.reason, other.undecodable), (SourceState::Warm, Reason::EventsLost, 1));
    server.abort();
    for _ in 0..2 {
        let (slot, event) = next(&mut events).await;
        assert!(matches!(event, StreamEvent::Disconnected { .. }));
        ingest.handle(slot, event, Instant::now());
        assert_eq!(ingest.report(slot).unwrap().state, SourceState::Stale);
    }
}

#[tokio::test]
async fn an_overflowed_buffer_shows_in_the_numbers() {
    let stores = |ids: std::ops::Range<u64>| {
        let store = |id: u64| store(id, 0, 4096, None, &[(id, tokens(id as u32 * 100, 32))]);
        Value::from(ids.map(store).collect::<Vec<_>>()).to_string()
    };
    let answers: Answers = Arc::new(Mutex::new([stores(0..3), stores(7..9)].into()));
    let (url, _server) = engine(answers, true).await;
    let (tx, mut events) = mpsc::channel(4);
    let slot = Slot(4);
    let _poller = spawn_poll(vec![(None, slot), (Some(0), slot)], PollSpec::new(url), tx);
    let mut ingest = Ingest::new(IngestConfig::default());
    ingest.add_target(slot, SourceSpec { polled: true, ..SourceSpec::default() });
    ingest.set_parity(slot, Parity::Shown);
    let mut batches = 0;
    while batches < 5 {
        let (slot, event) = next(&mut events).await;
        batches += u64::from(matches!(event, StreamEvent::Live { .. }));
        ingest.handle(slot, event, Instant::now());
        if batches == 3 {
            assert_eq!(ingest.report(slot).unwrap().state, SourceState::Exact);
        }
    }
    let report = ingest.report(slot).unwrap();
    assert_eq!((report.state, report.reason), (SourceState::Warm, Reason::BatchesLost));
    assert_eq!(held(&ingest).len(), 2);
}

#[tokio::test]
async fn an_answer_that_does_not_arrive_whole_is_told_and_a_new_target_costs_none() {
    let first = json!([store(0, 0, 4096, None, &[(1, tokens(0, 32))])]).to_string();
    let broken = first[..first.len() - 2].to_owned();
    let answers: Answers = Arc::new(Mutex::new([first, broken].into()));
    let (url, server) = engine(answers.clone(), false).await;
    let (tx, mut events) = mpsc::channel(4);
    let (one, other) = (Slot(4), Slot(5));
    let poller = spawn_poll(vec![(Some(0), one)], PollSpec::new(url), tx);
    let mut ingest = Ingest::new(IngestConfig::default());
    ingest.add_target(one, SourceSpec { polled: true, ..SourceSpec::default() });
    ingest.set_parity(one, Parity::Shown);
    for _ in 0..2 {
        let (slot, event) = next(&mut events).await;
        ingest.handle(slot, event, Instant::now());
    }
    assert_eq!(ingest.report(one).unwrap().state, SourceState::Exact);
    let (slot, event) = next(&mut events).await;
    assert!(matches!(event, StreamEvent::AnswerLost { .. }), "{event:?}");
    ingest.handle(slot, event, Instant::now());
    assert_eq!(ingest.report(one).unwrap().state, SourceState::Stale);
    let (slot, event) = next(&mut events).await;
    assert_eq!(event, StreamEvent::Connected);
    ingest.handle(slot, event, Instant::now());
    assert_eq!(ingest.report(one).unwrap().reason, Reason::Checking);
    // The numbers go on: nothing was in it.
    answers.lock().unwrap().push_back(json!([store(1, 0, 4096, None, &[(2, tokens(50, 32))])]).to_string());
    let (slot, event) = next(&mut events).await;
    ingest.handle(slot, event, Instant::now());
    assert_eq!(ingest.report(one).unwrap().state, SourceState::Exact);
    // Another target joins: everyone hears that there is a connection, and events go on.
    poller.set_targets(vec![(Some(0), one), (Some(1), other)]);
    for slot in [one, other] {
        assert_eq!(next(&mut events).await, (slot, StreamEvent::Connected));
    }
    answers.lock().unwrap().push_back(json!([store(0, 1, 4096, None, &[(3, tokens(0, 32))])]).to_string());
    let (slot, event) = next(&mut events).await;
    assert!(slot == other && matches!(event, StreamEvent::Live { seq: 0, .. }), "{event:?}");
    // An engine that cannot be reached loses nothing.
    server.abort();
    let (slot, event) = next(&mut events).await;
    assert!(slot == one && !matches!(event, StreamEvent::Connected | StreamEvent::Live { .. }), "{event:?}");
    let counts = |slot| {
        let stats = poller.stats(slot);
        (stats.received, stats.connects, stats.connect_failures)
    };
    assert_eq!((counts(one), counts(other)), ((2, 2, 2), (1, 2, 2)));
}
