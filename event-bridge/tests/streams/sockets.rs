//! Live batches, reconnection, backlog, binding, replays.

use std::time::Duration;

use event_bridge::stream::{ReplayId, SharedLimits, Sharing, StreamEvent, StreamSpec};
use tokio::time::{sleep, timeout};

use super::fake::{Fake, Replies};
use super::{Rig, spec};

const ANY: &str = "tcp://127.0.0.1:0";

/// A subscription takes effect a moment after it was sent: publish until the first batch arrives.
async fn first_live(rig: &mut Rig, fake: &mut Fake) -> u64 {
    loop {
        fake.publish(b"ping");
        if let Ok(Some((_, event))) = timeout(Duration::from_millis(50), rig.events.recv()).await {
            match event {
                StreamEvent::Live { seq, .. } => return seq,
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn batches_arrive_and_a_publisher_started_anew_is_a_new_connection() {
    let mut fake = Fake::bind(ANY, ANY, Replies::WithTopic).await;
    let (live, replay) = (fake.live.clone(), fake.replay.clone());
    let mut rig = Rig::new(StreamSpec { topic: "kv".into(), ..spec(&live) });
    rig.connected().await;
    let first = first_live(&mut rig, &mut fake).await;
    fake.publish(b"payload");
    let (seq, payload) = rig.live().await;
    assert!(seq > first);
    assert_eq!(payload, b"payload");
    drop(fake);
    assert_eq!(rig.disconnected().await, "closed by the peer");
    let mut fake = Fake::bind(&live, &replay, Replies::WithTopic).await;
    rig.connected().await;
    let again = first_live(&mut rig, &mut fake).await;
    assert!(again < seq + 50);
    assert_eq!(rig.stream.stats().connects, 2);
}

#[tokio::test]
async fn a_topic_keeps_other_messages_away() {
    let mut fake = Fake::bind(ANY, ANY, Replies::WithTopic).await;
    let mut rig = Rig::new(StreamSpec { topic: "load".into(), ..spec(&fake.live) });
    rig.connected().await;
    for _ in 0..20 {
        fake.publish(b"x");
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(rig.stream.stats().received, 0);
}

#[tokio::test]
async fn sockets_in_the_file_system() {
    let folder = std::env::temp_dir().join(format!("kv-stream-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = format!("ipc://{}/live.sock", folder.display());
    let mut fake = Fake::bind(&path, ANY, Replies::WithTopic).await;
    let mut rig = Rig::new(spec(&path));
    rig.connected().await;
    first_live(&mut rig, &mut fake).await;
    drop(fake);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn an_engine_that_connects_is_waited_for() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("tcp://127.0.0.1:{port}");
    let mut rig = Rig::new(StreamSpec { bind: true, ..spec(&endpoint) });
    sleep(Duration::from_millis(100)).await;
    let mut fake = Fake::connect(&endpoint).await;
    rig.connected().await;
    first_live(&mut rig, &mut fake).await;
    drop(fake);
    rig.disconnected().await;
    let mut fake = Fake::connect(&endpoint).await;
    rig.connected().await;
    first_live(&mut rig, &mut fake).await;
    // Another one takes its place.
    let mut second = Fake::connect(&endpoint).await;
    assert_eq!(rig.disconnected().await, "another engine connected");
    rig.connected().await;
    first_live(&mut rig, &mut second).await;
}

#[tokio::test]
async fn who_does_not_publish_takes_nobodys_place_on_a_bound_socket() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut rig = Rig::new(StreamSpec { bind: true, ..spec(&format!("tcp://127.0.0.1:{port}")) });
    sleep(Duration::from_millis(100)).await;
    let mut fake = Fake::connect(&format!("tcp://127.0.0.1:{port}")).await;
    rig.connected().await;
    first_live(&mut rig, &mut fake).await;
    // A scan that hangs up, a probe that asks for a page, one that says nothing and stays.
    drop(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    let mut probe = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut probe, &[b'G'; 100]).await.unwrap();
    let _silent = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    sleep(Duration::from_millis(200)).await;
    first_live(&mut rig, &mut fake).await;
    let stats = rig.stream.stats();
    assert_eq!(stats.connects, 1, "{stats:?}");
    assert!(stats.peer.is_some_and(|peer| peer.ip().is_loopback()), "{stats:?}");
}

#[tokio::test]
async fn a_slow_taker_never_keeps_the_socket_waiting() {
    let mut fake = Fake::bind(ANY, ANY, Replies::WithTopic).await;
    let mut slow = spec(&fake.live);
    slow.limits.backlog_messages = 100;
    let mut rig = Rig::new(slow);
    rig.connected().await;
    let first = first_live(&mut rig, &mut fake).await;
    let published = 2000;
    for _ in 0..published {
        fake.publish(&[0; 10_000]);
    }
    // Nobody takes anything, and yet everything is received.
    while rig.stream.stats().received < published {
        sleep(Duration::from_millis(10)).await;
    }
    let stats = rig.stream.stats();
    // A hundred, and the note that there was no room for more.
    assert_eq!(stats.backlog_messages, 101);
    assert!(stats.backlog_bytes >= 900_000, "{stats:?}");
    assert!(stats.dropped >= published - 100 - 20, "{stats:?}");
    // What is left is the oldest, in order; the gap is for ingest to notice.
    let mut last = first;
    for _ in 0..100 {
        let (seq, _) = rig.live().await;
        assert!(seq > last);
        last = seq;
    }
    while !matches!(rig.next().await, StreamEvent::Undecodable { .. }) {}
}

/// Everything a replay reports.
async fn replay(rig: &mut Rig, id: u64, from: u64) -> (Vec<u64>, bool) {
    rig.stream.replay(ReplayId(id), from);
    let mut batches = Vec::new();
    loop {
        match rig.next().await {
            StreamEvent::Replayed { id: of, seq, payload } => {
                assert_eq!((of, payload.as_ref()), (ReplayId(id), &seq.to_le_bytes()[..]));
                batches.push(seq);
            }
            StreamEvent::ReplayEnd { id: of, complete } => {
                assert_eq!(of, ReplayId(id));
                return (batches, complete);
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn remembering(replies: Replies, batches: u64) -> (Fake, Rig) {
    let mut fake = Fake::bind(ANY, ANY, replies).await;
    (0..batches).for_each(|seq| fake.remember(&seq.to_le_bytes()));
    let mut rig = Rig::new(StreamSpec { replay_endpoint: Some(fake.replay.clone()), ..spec(&fake.live) });
    rig.connected().await;
    (fake, rig)
}

#[tokio::test]
async fn replays_of_both_layouts() {
    for replies in [Replies::WithTopic, Replies::WithoutTopic] {
        let (_fake, mut rig) = remembering(replies, 500).await;
        assert_eq!(replay(&mut rig, 1, 0).await, ((0..500).collect(), true), "{replies:?}");
        assert_eq!(replay(&mut rig, 2, 498).await, (vec![498, 499], true), "{replies:?}");
        assert_eq!(replay(&mut rig, 3, 500).await, (vec![], true), "{replies:?}");
    }
}

#[tokio::test]
async fn a_replay_without_end_or_answer_is_incomplete() {
    let (fake, mut rig) = remembering(Replies::WithoutEnd, 3).await;
    assert_eq!(replay(&mut rig, 1, 1).await, (vec![1, 2], false));
    drop(fake);
    rig.disconnected().await;
    assert_eq!(replay(&mut rig, 2, 0).await, (vec![], false));
}

#[tokio::test]
async fn replays_of_one_pool_wait_for_their_turn() {
    let (silent, _) = remembering(Replies::WithoutEnd, 3).await;
    let sharing = Sharing::new(SharedLimits { replays: 1, ..SharedLimits::default() });
    let with_replay = |fake: &Fake| StreamSpec { replay_endpoint: Some(fake.replay.clone()), ..spec(&fake.live) };
    let mut first = Rig::sharing(with_replay(&silent), &sharing);
    let (second_fake, _) = remembering(Replies::WithTopic, 5).await;
    let mut second = Rig::sharing(with_replay(&second_fake), &sharing);
    first.connected().await;
    second.connected().await;
    first.stream.replay(ReplayId(1), 0);
    assert!(matches!(first.next().await, StreamEvent::Replayed { .. }));
    // It asks for something else while it waits, and is answered that alone.
    second.stream.replay(ReplayId(1), 0);
    sleep(Duration::from_millis(50)).await;
    assert_eq!(second.stream.stats().backlog_messages, 0);
    assert!(second.events.try_recv().is_err());
    let answered = replay(&mut second, 2, 3).await;
    assert_eq!(answered, (vec![3, 4], true));
    while !matches!(first.next().await, StreamEvent::ReplayEnd { complete: false, .. }) {}
}

#[tokio::test]
async fn a_newer_request_ends_the_one_under_way() {
    let (_fake, mut rig) = remembering(Replies::WithoutEnd, 3).await;
    rig.stream.replay(ReplayId(1), 0);
    assert!(matches!(rig.next().await, StreamEvent::Replayed { id: ReplayId(1), .. }));
    rig.stream.replay(ReplayId(2), 2);
    let mut ended = Vec::new();
    while ended.is_empty() {
        match rig.next().await {
            StreamEvent::ReplayEnd { id, complete: false } => ended.push(id),
            StreamEvent::Replayed { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ended, [ReplayId(2)]);
}
