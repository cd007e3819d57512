//! A publisher as engines have it (PUB, and a ROUTER for replays), made of the `zeromq` crate, which knows nothing of the
//! sockets under test.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zeromq::{PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

/// How a publisher answers replay requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    /// `[topic, sequence, payload]`, then the end marker.
    WithTopic,
    /// `[sequence, payload]`, then the end marker.
    WithoutTopic,
    /// No end marker.
    WithoutEnd,
}

/// A running publisher; dropping it closes its sockets.
pub(crate) struct Fake {
    pub(crate) live: String,
    pub(crate) replay: String,
    publish: mpsc::UnboundedSender<(u64, Bytes)>,
    kept: Arc<Mutex<VecDeque<(u64, Bytes)>>>,
    tasks: Vec<JoinHandle<()>>,
    next: u64,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Fake {
    /// Binds both sockets; `tcp://127.0.0.1:0` takes free ports.
    pub(crate) async fn bind(live: &str, replay: &str, replies: Replies) -> Self {
        let mut socket = PubSocket::new();
        let live = socket.bind(live).await.unwrap().to_string();
        Self::start(socket, live, replay, replies).await
    }

    /// Connects its PUB instead, as an engine told a literal address does.
    pub(crate) async fn connect(live: &str) -> Self {
        let mut socket = PubSocket::new();
        socket.connect(live).await.unwrap();
        Self::start(socket, live.to_owned(), "tcp://127.0.0.1:0", Replies::WithTopic).await
    }

    async fn start(mut socket: PubSocket, live: String, replay: &str, replies: Replies) -> Self {
        let mut router = RouterSocket::new();
        let replay = router.bind(replay).await.unwrap().to_string();
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (publish, mut published) = mpsc::unbounded_channel::<(u64, Bytes)>();
        let publishing = tokio::spawn(async move {
            while let Some((seq, payload)) = published.recv().await {
                let mut message = ZmqMessage::from(Bytes::from_static(b"kv-events"));
                message.push_back(Bytes::copy_from_slice(&seq.to_be_bytes()));
                message.push_back(payload);
                socket.send(message).await.unwrap();
            }
        });
        let replaying = tokio::spawn(serve(router, kept.clone(), replies));
        Self { live, replay, publish, kept, tasks: vec![publishing, replaying], next: 0 }
    }

    /// Publishes a batch under the next number.
    pub(crate) fn publish(&mut self, payload: &[u8]) {
        let batch = (self.next, Bytes::copy_from_slice(payload));
        self.next += 1;
        self.kept.lock().unwrap().push_back(batch.clone());
        self.publish.send(batch).unwrap();
    }

    /// Forgets all batches but the newest.
    pub(crate) fn keep_last(&mut self, count: usize) {
        let mut kept = self.kept.lock().unwrap();
        while kept.len() > count {
            kept.pop_front();
        }
    }

    /// A batch that is replayed and was never published, as before the subscription.
    pub(crate) fn remember(&mut self, payload: &[u8]) {
        self.kept.lock().unwrap().push_back((self.next, Bytes::copy_from_slice(payload)));
        self.next += 1;
    }
}

async fn serve(mut router: RouterSocket, kept: Arc<Mutex<VecDeque<(u64, Bytes)>>>, replies: Replies) {
    loop {
        let request = router.recv().await.unwrap().into_vec();
        let [peer, delimiter, from] = request.as_slice() else { continue };
        assert!(delimiter.is_empty());
        let from = u64::from_be_bytes(from.as_ref().try_into().unwrap());
        let batches: Vec<(u64, Bytes)> = kept.lock().unwrap().iter().filter(|(seq, _)| *seq >= from).cloned().collect();
        let end = (replies != Replies::WithoutEnd).then_some((u64::MAX, Bytes::new()));
        for (seq, payload) in batches.into_iter().chain(end) {
            let mut message = ZmqMessage::from(peer.clone());
            message.push_back(Bytes::new());
            if replies != Replies::WithoutTopic {
                message.push_back(Bytes::from_static(b"kv-events"));
            }
            message.push_back(Bytes::copy_from_slice(&seq.to_be_bytes()));
            message.push_back(payload);
            router.send(message).await.unwrap();
        }
    }
}
