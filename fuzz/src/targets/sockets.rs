//! What workers send over sockets that we connect to.

use event_bridge::config::EngineKind;
use event_bridge::probe::EngineLoad;
use event_bridge::stream::zmtp::{Connection, Role};

/// Largest frame accepted here.
const MAX_FRAME: usize = 1 << 16;

/// All that a peer ever sends, its greeting first; the lowest bit of the first byte chooses our socket.
pub(crate) fn zmtp(input: &[u8]) -> bool {
    let Some((role, sent)) = input.split_first() else { return false };
    let role = if role & 1 == 0 { Role::Subscriber } else { Role::Dealer };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("nothing can be missing for it");
    runtime.block_on(async {
        let stream = tokio::io::join(sent, tokio::io::sink());
        let Ok(mut connection) = Connection::open(stream, role, MAX_FRAME).await else { return false };
        if connection.subscribe("topic").await.is_err() {
            return false;
        }
        let mut messages = 0;
        while let Ok(frames) = connection.receive(None).await {
            let bytes: usize = frames.iter().map(bytes::Bytes::len).sum();
            assert!(!frames.is_empty() && bytes <= MAX_FRAME);
            messages += 1;
        }
        messages > 0
    })
}

/// A worker's `/metrics`.
pub(crate) fn prometheus(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let mut accepted = false;
    for engine in [EngineKind::Vllm, EngineKind::Sglang, EngineKind::Trtllm] {
        let load = EngineLoad::parse(&text, engine);
        for rank in load.ranks.keys().copied().chain([None, Some(0)]) {
            assert!((0.0..=1.0).contains(&load.of(rank).kv_usage));
        }
        accepted |= !load.ranks.is_empty();
    }
    accepted
}
