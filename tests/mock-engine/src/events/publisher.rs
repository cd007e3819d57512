//! One rank's event socket: a PUB that binds, sequence numbers from 0, and a bounded buffer for replay.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zeromq::{PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

use super::encode::{KvEvent, encode_batch};
use super::replay;

/// Where and what one rank publishes.
#[derive(Clone, Debug)]
pub struct PublisherConfig {
    /// PUB endpoint; port 0 lets the system choose.
    pub endpoint: String,
    /// ROUTER endpoint for replay; none means no replay.
    pub replay_endpoint: Option<String>,
    /// First frame of every message.
    pub topic: String,
    /// Batches kept for replay.
    pub buffer_steps: usize,
    /// Data-parallel rank written into every batch.
    pub rank: u32,
}

/// A socket that could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot bind the {what} socket {endpoint}: {reason}")]
pub struct PublisherError {
    what: &'static str,
    endpoint: String,
    reason: String,
}

/// What tests can break about the events of one rank. Counters count down as batches pass.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventFaults {
    /// Do not send this many batches; they stay replayable.
    pub drop_next: u64,
    /// Neither send nor keep this many batches: their sequence numbers are gone for good.
    pub lose_next: u64,
    /// Send this many batches twice.
    pub duplicate_next: u64,
    /// Cut the payload of this many batches in half, live only.
    pub corrupt_next: u64,
    /// Send this many batches behind the one that follows them.
    pub reorder_next: u64,
    /// While set, batches are kept for replay but not sent.
    pub stopped: bool,
    /// While set, replay requests get no answer.
    pub replay_silent: bool,
    /// While set, replays end without the end marker.
    pub replay_without_end: bool,
}

enum Command {
    Publish(Vec<KvEvent>),
    Restart,
}

/// Handle of one rank's publisher task. Dropping it closes the sockets.
#[derive(Debug)]
pub struct Publisher {
    commands: mpsc::UnboundedSender<Command>,
    faults: Arc<Mutex<EventFaults>>,
    endpoint: String,
    replay_endpoint: Option<String>,
    task: JoinHandle<()>,
}

impl Publisher {
    /// Binds the sockets and starts the task.
    ///
    /// # Errors
    /// When an endpoint cannot be bound.
    pub async fn start(config: PublisherConfig) -> Result<Self, PublisherError> {
        let mut publish = PubSocket::new();
        let endpoint = bind(&mut publish, "event", &config.endpoint).await?;
        let mut router = None;
        let mut replay_endpoint = None;
        if let Some(wanted) = &config.replay_endpoint {
            let mut socket = RouterSocket::new();
            replay_endpoint = Some(bind(&mut socket, "replay", wanted).await?);
            router = Some(socket);
        }
        let faults = Arc::new(Mutex::new(EventFaults::default()));
        let (commands, receiver) = mpsc::unbounded_channel();
        let state = State {
            topic: Bytes::from(config.topic.into_bytes()),
            rank: config.rank,
            buffer_steps: config.buffer_steps,
            faults: faults.clone(),
            next_sequence: 0,
            retained: VecDeque::new(),
            late: None,
        };
        let task = tokio::spawn(run(state, publish, router, receiver));
        Ok(Self { commands, faults, endpoint, replay_endpoint, task })
    }

    /// Publishes one batch; nothing when `events` is empty.
    pub fn publish(&self, events: Vec<KvEvent>) {
        if !events.is_empty() {
            // The task only ends with this handle.
            let _ = self.commands.send(Command::Publish(events));
        }
    }

    /// Starts over as a new process would: sequence 0 and nothing to replay.
    pub fn restart(&self) {
        let _ = self.commands.send(Command::Restart);
    }

    /// The bound PUB endpoint.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The bound replay endpoint.
    pub fn replay_endpoint(&self) -> Option<&str> {
        self.replay_endpoint.as_deref()
    }

    /// The faults in force.
    pub fn faults(&self) -> EventFaults {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the faults.
    pub fn set_faults(&self, faults: EventFaults) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn bind(socket: &mut impl Socket, what: &'static str, endpoint: &str) -> Result<String, PublisherError> {
    // vLLM writes a wildcard host as `*`.
    let address = endpoint.replace("//*:", "//0.0.0.0:");
    match socket.bind(&address).await {
        Ok(bound) => Ok(bound.to_string()),
        Err(error) => Err(PublisherError { what, endpoint: endpoint.to_owned(), reason: error.to_string() }),
    }
}

struct State {
    topic: Bytes,
    rank: u32,
    buffer_steps: usize,
    faults: Arc<Mutex<EventFaults>>,
    next_sequence: u64,
    retained: VecDeque<(u64, Bytes)>,
    /// A batch that lets the next one pass.
    late: Option<(u64, Bytes)>,
}

async fn run(
    mut state: State,
    mut publish: PubSocket,
    mut router: Option<RouterSocket>,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Publish(events)) => state.publish(&mut publish, &events).await,
                Some(Command::Restart) => state.restart(),
                None => return,
            },
            request = receive(&mut router) => {
                if let Some(router) = router.as_mut() {
                    let faults = state.current_faults();
                    replay::answer(router, request, &state.topic, &state.retained, &faults).await;
                }
            }
        }
    }
}

/// The next replay request; never resolves without a replay socket.
async fn receive(router: &mut Option<RouterSocket>) -> ZmqMessage {
    let Some(router) = router else { return std::future::pending().await };
    loop {
        match router.recv().await {
            Ok(message) => return message,
            Err(error) => {
                tracing::warn!(%error, "replay socket");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

impl State {
    fn current_faults(&self) -> EventFaults {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn restart(&mut self) {
        self.next_sequence = 0;
        self.retained.clear();
        self.late = None;
    }

    async fn publish(&mut self, socket: &mut PubSocket, events: &[KvEvent]) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let payload = Bytes::from(encode_batch(unix_seconds(), events, self.rank));
        let plan = self.take_plan();
        if !plan.lost {
            self.retained.push_back((sequence, payload.clone()));
            if self.retained.len() > self.buffer_steps {
                self.retained.pop_front();
            }
        }
        let live = if plan.corrupt { payload.slice(..payload.len() / 2) } else { payload };
        let late = self.late.take();
        if plan.late {
            self.late = Some((sequence, live));
        } else {
            for _ in 0..plan.copies {
                self.send(socket, sequence, live.clone()).await;
            }
        }
        if let Some((sequence, live)) = late {
            self.send(socket, sequence, live).await;
        }
    }

    async fn send(&self, socket: &mut PubSocket, sequence: u64, live: Bytes) {
        let mut message = ZmqMessage::from(self.topic.clone());
        message.push_back(Bytes::copy_from_slice(&sequence.to_be_bytes()));
        message.push_back(live);
        if let Err(error) = socket.send(message).await {
            tracing::warn!(%error, sequence, "event batch not sent");
        }
    }

    /// What the faults make of the next batch.
    fn take_plan(&self) -> Plan {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = count_down(&mut faults.lose_next);
        let dropped = !lost && (count_down(&mut faults.drop_next) || faults.stopped);
        let sent = !lost && !dropped;
        let twice = sent && count_down(&mut faults.duplicate_next);
        let corrupt = sent && count_down(&mut faults.corrupt_next);
        let late = sent && count_down(&mut faults.reorder_next);
        Plan { lost, corrupt, late, copies: if sent { 1 + u32::from(twice) } else { 0 } }
    }
}

struct Plan {
    lost: bool,
    corrupt: bool,
    late: bool,
    copies: u32,
}

fn count_down(counter: &mut u64) -> bool {
    let due = *counter > 0;
    *counter = counter.saturating_sub(1);
    due
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
