//! Peers that are not what they should be.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zeromq::{RouterSocket, Socket};

use super::{Rig, spec};

/// A listener, and a stream that connects to it.
async fn raw() -> (TcpListener, Rig) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::new(spec(&format!("tcp://{}", listener.local_addr().unwrap())));
    (listener, rig)
}

fn greeting(minor: u8) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[0] = 0xff;
    bytes[9] = 0x7f;
    bytes[10] = 3;
    bytes[11] = minor;
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

const READY_PUB: &[u8] = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB";

/// Shakes hands as a PUB of version 3.`minor` and returns the socket after the subscription.
async fn shake_hands(listener: &TcpListener, minor: u8) -> TcpStream {
    let (mut peer, _) = listener.accept().await.unwrap();
    peer.write_all(&greeting(minor)).await.unwrap();
    peer.write_all(READY_PUB).await.unwrap();
    let mut theirs = [0; 64];
    peer.read_exact(&mut theirs).await.unwrap();
    assert_eq!(theirs[..12], greeting(1)[..12]);
    for _ in 0..2 {
        let mut head = [0; 2];
        peer.read_exact(&mut head).await.unwrap();
        let mut body = vec![0; usize::from(head[1])];
        peer.read_exact(&mut body).await.unwrap();
    }
    peer
}

#[tokio::test]
async fn a_web_server_is_no_publisher() {
    let (listener, mut rig) = raw().await;
    for _ in 0..3 {
        let (mut peer, _) = listener.accept().await.unwrap();
        let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 40\r\n\r\n0123456789012345678901234567890123456789";
        peer.write_all(answer).await.unwrap();
        // It is hung up on.
        let mut rest = Vec::new();
        let _ = peer.read_to_end(&mut rest).await;
    }
    assert!(rig.events.try_recv().is_err());
    assert!(rig.stream.stats().connect_failures >= 2);
}

#[tokio::test]
async fn a_replay_socket_is_no_event_socket() {
    let mut router = RouterSocket::new();
    let endpoint = router.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
    let mut rig = Rig::new(spec(&endpoint));
    while rig.stream.stats().connect_failures < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(rig.events.try_recv().is_err());
}

#[tokio::test]
async fn a_frame_that_claims_a_terabyte_ends_the_connection() {
    let (listener, mut rig) = raw().await;
    let mut peer = shake_hands(&listener, 0).await;
    rig.connected().await;
    peer.write_all(b"\x02\x00\x00\x01\x00\x00\x00\x00\x00").await.unwrap();
    assert!(rig.disconnected().await.contains("at most"));
}

#[tokio::test]
async fn a_message_of_endless_frames_ends_the_connection() {
    let (listener, mut rig) = raw().await;
    let mut peer = shake_hands(&listener, 0).await;
    rig.connected().await;
    peer.write_all(&b"\x01\x01x".repeat(100)).await.unwrap();
    assert!(rig.disconnected().await.contains("frames"));
}

#[tokio::test]
async fn messages_without_a_sequence_are_reported_and_the_rest_still_arrives() {
    let (listener, mut rig) = raw().await;
    let mut peer = shake_hands(&listener, 0).await;
    rig.connected().await;
    peer.write_all(b"\x01\x02kv\x00\x01x").await.unwrap();
    let event = rig.next().await;
    assert!(matches!(event, event_bridge::stream::StreamEvent::Undecodable { .. }), "{event:?}");
    peer.write_all(b"\x01\x00\x01\x08\x00\x00\x00\x00\x00\x00\x00\x07\x00\x01x").await.unwrap();
    assert_eq!(rig.live().await, (7, b"x".to_vec()));
}

#[tokio::test]
async fn pings_are_answered_and_a_silent_peer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut spec = spec(&format!("tcp://{}", listener.local_addr().unwrap()));
    spec.limits.ping_after = Duration::from_millis(100);
    spec.limits.ping_patience = Duration::from_millis(200);
    let mut rig = Rig::new(spec);
    let mut peer = shake_hands(&listener, 1).await;
    rig.connected().await;
    let mut ping = [0; 9];
    peer.read_exact(&mut ping).await.unwrap();
    assert_eq!(&ping, b"\x04\x07\x04PING\x00\x00");
    // Any answer will do; a ping of theirs is answered with its context.
    peer.write_all(b"\x04\x09\x04PING\x00\x00ab").await.unwrap();
    let mut pong = [0; 9];
    peer.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"\x04\x07\x04PONGab");
    assert_eq!(rig.disconnected().await, "no answer to a ping");
}

#[tokio::test]
async fn peers_of_older_versions_are_never_pinged() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut spec = spec(&format!("tcp://{}", listener.local_addr().unwrap()));
    spec.limits.ping_after = Duration::from_millis(20);
    spec.limits.ping_patience = Duration::from_millis(20);
    let mut rig = Rig::new(spec);
    let mut peer = shake_hands(&listener, 0).await;
    rig.connected().await;
    let mut byte = [0; 1];
    let heard = tokio::time::timeout(Duration::from_millis(300), peer.read_exact(&mut byte)).await;
    assert!(heard.is_err(), "{heard:?}");
}
