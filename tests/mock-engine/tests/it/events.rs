//! The event sockets: sequence, replay, ranks and faults.

use std::time::Duration;

use mock_engine::events::EventFaults;
use mock_engine::{EngineConfig, EventsConfig, Faults, MockEngine};
use serde_json::{Value, json};

use crate::support::{Client, Subscriber, config, decode, replay};

/// Asks for one prompt of three blocks that nobody asked for before: one batch.
async fn ask(client: &Client, number: u32) {
    let prompt: Vec<u32> = (number * 100..number * 100 + 50).collect();
    let answer = client.post("/v1/completions", &json!({"model": "mock", "prompt": prompt, "max_tokens": 1})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

async fn start(config: EngineConfig) -> (MockEngine, Client) {
    let engine = MockEngine::start(config).await.unwrap();
    let client = Client::new(engine.http_addr());
    (engine, client)
}

fn with_events(events: EventFaults) -> Faults {
    Faults { events, ..Faults::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_batches_count_from_zero_and_replay_returns_their_very_bytes() {
    let (engine, client) = start(config()).await;
    let mut subscriber = Subscriber::connect(engine.events_endpoint().unwrap()).await;
    let mut live = Vec::new();
    for number in 0..5 {
        ask(&client, number).await;
        live.push(subscriber.next().await);
    }
    assert_eq!(live.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>(), vec![0, 1, 2, 3, 4]);
    let replies = replay(engine.replay_endpoint().unwrap(), 2).await;
    let (end, batches) = replies.split_last().unwrap();
    assert!(end[0].is_empty(), "the end marker has an empty topic");
    assert_eq!(batches.len(), 3);
    for (reply, (sequence, payload)) in batches.iter().zip(&live[2..]) {
        assert_eq!(reply[0].as_ref(), b"kv-events");
        assert_eq!(reply[1].as_ref(), sequence.to_be_bytes());
        assert_eq!(&reply[2], payload);
    }
    assert_eq!(replay(engine.replay_endpoint().unwrap(), 99).await.len(), 1, "beyond the newest: only the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_replay_buffer_is_bounded() {
    let events = EventsConfig { buffer_steps: 2, ..EventsConfig::default() };
    let (engine, client) = start(EngineConfig { events: Some(events), ..config() }).await;
    for number in 0..4 {
        ask(&client, number).await;
    }
    let replies = replay(engine.replay_endpoint().unwrap(), 0).await;
    let sequences: Vec<&[u8]> = replies.iter().map(|reply| reply[1].as_ref()).collect();
    assert_eq!(sequences, [&2u64.to_be_bytes()[..], &3u64.to_be_bytes()[..], &[0xff; 8][..]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_drop_lose_double_and_corrupt_batches() {
    let (engine, client) = start(config()).await;
    let mut subscriber = Subscriber::connect(engine.events_endpoint().unwrap()).await;
    engine.set_faults(with_events(EventFaults { drop_next: 1, ..EventFaults::default() }));
    ask(&client, 0).await;
    ask(&client, 1).await;
    assert_eq!(subscriber.next().await.0, 1, "0 was dropped");
    engine.set_faults(with_events(EventFaults { lose_next: 1, duplicate_next: 1, ..EventFaults::default() }));
    ask(&client, 2).await;
    ask(&client, 3).await;
    assert_eq!((subscriber.next().await.0, subscriber.next().await.0), (3, 3), "2 is lost and 3 comes twice");
    engine.set_faults(with_events(EventFaults { corrupt_next: 1, ..EventFaults::default() }));
    ask(&client, 4).await;
    let (_, cut) = subscriber.next().await;
    let replies = replay(engine.replay_endpoint().unwrap(), 0).await;
    let sequences: Vec<u64> =
        replies.iter().map(|reply| u64::from_be_bytes(reply[1].as_ref().try_into().unwrap())).collect();
    assert_eq!(sequences, vec![0, 1, 3, 4, u64::MAX], "dropped batches replay, lost ones do not");
    let whole = &replies[3][2];
    assert_eq!(cut, whole.slice(..whole.len() / 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_events_stay_replayable_and_a_silent_replay_says_nothing() {
    let (engine, client) = start(config()).await;
    let mut subscriber = Subscriber::connect(engine.events_endpoint().unwrap()).await;
    let stopped = EventFaults { stopped: true, replay_without_end: true, ..EventFaults::default() };
    engine.set_faults(with_events(stopped));
    ask(&client, 0).await;
    assert!(subscriber.next_within(Duration::from_millis(100)).await.is_none());
    engine.set_faults(Faults::default());
    ask(&client, 1).await;
    assert_eq!(subscriber.next().await.0, 1);
    assert_eq!(replay(engine.replay_endpoint().unwrap(), 0).await.len(), 3);
    engine.set_faults(with_events(EventFaults { replay_silent: true, ..EventFaults::default() }));
    let endpoint = engine.replay_endpoint().unwrap().to_owned();
    assert!(tokio::time::timeout(Duration::from_millis(200), replay(&endpoint, 0)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_events_count_from_zero_and_forget_the_past() {
    let (engine, client) = start(config()).await;
    let mut subscriber = Subscriber::connect(engine.events_endpoint().unwrap()).await;
    ask(&client, 0).await;
    ask(&client, 1).await;
    assert_eq!((subscriber.next().await.0, subscriber.next().await.0), (0, 1));
    assert_eq!(client.post("/mock/restart_events", &Value::Null).await.status, 200);
    ask(&client, 2).await;
    assert_eq!(subscriber.next().await.0, 0);
    assert_eq!(replay(engine.replay_endpoint().unwrap(), 0).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_sources_name_the_bound_sockets_of_every_rank() {
    let (engine, client) = start(EngineConfig { data_parallel_size: 3, ..config() }).await;
    let sources = client.get("/kv_event_sources").await.json();
    for rank in 0..3 {
        let source = &sources[rank.to_string()];
        assert_eq!(source["endpoint"].as_str(), engine.events_endpoint_of(rank));
        assert_eq!(source["replay_endpoint"].as_str(), engine.replay_endpoint_of(rank));
        assert_eq!((source["publisher"].as_str(), source["topic"].as_str()), (Some("zmq"), Some("kv-events")));
    }
    assert_eq!(sources.as_object().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fixed_ports_shift_by_rank_and_can_be_bound_again_at_once() {
    let port = free_port_pair();
    for _ in 0..2 {
        let events =
            EventsConfig { endpoint: format!("tcp://*:{port}"), replay_endpoint: None, ..EventsConfig::default() };
        let config = EngineConfig { events: Some(events), data_parallel_size: 2, ..config() };
        let (engine, client) = start(config).await;
        assert_eq!(engine.events_endpoint_of(1).unwrap(), format!("tcp://0.0.0.0:{}", port + 1));
        let mut subscriber = Subscriber::connect(&format!("tcp://127.0.0.1:{port}")).await;
        let prompt: Vec<u32> = (0..16).collect();
        let body = json!({"model": "mock", "prompt": prompt, "max_tokens": 1}).to_string();
        client.send("POST", "/v1/completions", &[("x-data-parallel-rank", "0")], body).await.unwrap();
        let (sequence, payload) = subscriber.next().await;
        assert_eq!((sequence, decode(&payload)[1][0]["type"].as_str()), (0, Some("BlockStored")));
        engine.stop();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A port that is free, with the next one free too.
fn free_port_pair() -> u16 {
    for _ in 0..50 {
        let first = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if port < u16::MAX && std::net::TcpListener::bind(("0.0.0.0", port + 1)).is_ok() {
            return port;
        }
    }
    panic!("no two neighbouring ports are free");
}
