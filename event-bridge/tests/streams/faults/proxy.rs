//! Stands between an engine's sockets and the bridge's, PUB/SUB and ROUTER/DEALER, and does to their messages what networks, full
//! buffers and dying engines do. Made of the `zeromq` crate, which knows nothing of the sockets under test.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zeromq::{DealerSocket, PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, SubSocket, ZmqMessage};

use super::dice::Dice;
use super::engine::Engine;

/// Chances in a thousand messages, replays for the last three.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) drop: usize,
    pub(crate) duplicate: usize,
    pub(crate) reorder: usize,
    pub(crate) truncate: usize,
    /// A message of a replay is lost.
    pub(crate) thin_replay: usize,
    pub(crate) without_marker: usize,
    /// The engine dies after some of the replay's messages: the rest never comes, or comes from a process that is gone.
    pub(crate) restart_in_replay: usize,
}

/// How often each fault was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) drop: u64,
    pub(crate) duplicate: u64,
    pub(crate) reorder: u64,
    pub(crate) truncate: u64,
    pub(crate) thin_replay: u64,
    pub(crate) without_marker: u64,
    pub(crate) restart_in_replay: u64,
}

/// Where the bridge finds what it takes for the engine.
pub(crate) struct Proxy {
    pub(crate) live: String,
    pub(crate) replay: String,
    commands: mpsc::UnboundedSender<Command>,
    _task: JoinSet<()>,
}

enum Command {
    Weather(Weather),
    /// Hang up on the bridge, as a process does that ends.
    HangUp,
    Made(tokio::sync::oneshot::Sender<Made>),
}

impl Proxy {
    pub(crate) async fn start(engine: Engine, seed: u64) -> Self {
        let (mut publish, mut router) = (PubSocket::new(), RouterSocket::new());
        let published = publish.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
        let relay = Relay::start(published.trim_start_matches("tcp://").to_owned()).await;
        let live = format!("tcp://{}", relay.address);
        let replay = router.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
        let mut subscriber = SubSocket::new();
        subscriber.connect(&engine.live()).await.unwrap();
        subscriber.subscribe("").await.unwrap();
        let (commands, told) = mpsc::unbounded_channel();
        let (answers, answered) = mpsc::channel(64);
        let running = Running {
            engine,
            dice: Dice::new(seed),
            weather: Weather::default(),
            made: Made::default(),
            relay,
            publish,
            late: None,
            answers,
            replays: JoinSet::new(),
        };
        let mut task = JoinSet::new();
        task.spawn(running.run(subscriber, router, told, answered));
        Self { live, replay, commands, _task: task }
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        self.commands.send(Command::Weather(weather)).unwrap();
    }

    pub(crate) fn hang_up(&self) {
        self.commands.send(Command::HangUp).unwrap();
    }

    pub(crate) async fn made(&self) -> Made {
        let (reply, made) = tokio::sync::oneshot::channel();
        self.commands.send(Command::Made(reply)).unwrap();
        made.await.unwrap()
    }
}

struct Running {
    engine: Engine,
    dice: Dice,
    weather: Weather,
    made: Made,
    /// What the bridge connects to instead of `publish`.
    relay: Relay,
    publish: PubSocket,
    /// A message that lets the next one pass.
    late: Option<ZmqMessage>,
    answers: mpsc::Sender<ZmqMessage>,
    replays: JoinSet<()>,
}

/// What happens to one replay.
struct Fate {
    /// Messages that get through before the engine dies.
    dies_after: Option<usize>,
    /// What was on its way then still arrives.
    remains: bool,
    /// Every so many messages one is lost.
    thin: Option<usize>,
    without_marker: bool,
}

impl Running {
    async fn run(
        mut self,
        mut subscriber: SubSocket,
        mut router: RouterSocket,
        mut told: mpsc::UnboundedReceiver<Command>,
        mut answered: mpsc::Receiver<ZmqMessage>,
    ) {
        loop {
            tokio::select! {
                message = subscriber.recv() => self.live(message.unwrap()).await,
                request = router.recv() => self.replay(request.unwrap()),
                // The bridge may have hung up on a replay it wants no more.
                Some(answer) = answered.recv() => drop(router.send(answer).await),
                command = told.recv() => match command {
                    Some(Command::Weather(weather)) => {
                        self.weather = weather;
                        self.pass_late().await;
                    }
                    Some(Command::HangUp) => self.hang_up(),
                    Some(Command::Made(reply)) => reply.send(self.made).unwrap(),
                    None => return,
                },
            }
        }
    }

    /// A message of the engine's PUB.
    async fn live(&mut self, message: ZmqMessage) {
        // Where nobody hangs up, nothing but numbers that begin anew tells of another process: its first batch arrives, and none of
        // the former one's after it.
        let begins = message.get(1).is_some_and(|seq| seq[..] == [0; 8]);
        if begins {
            self.late = None;
        }
        let (dice, weather, made) = (&mut self.dice, self.weather, &mut self.made);
        if !begins && dice.permille(weather.drop) {
            made.drop += 1;
            return;
        }
        let message = if dice.permille(weather.truncate) {
            made.truncate += 1;
            truncated(&message)
        } else {
            message
        };
        if !begins && self.late.is_none() && dice.permille(weather.reorder) {
            made.reorder += 1;
            self.late = Some(message);
            return;
        }
        if dice.permille(weather.duplicate) {
            made.duplicate += 1;
            self.publish.send(message.clone()).await.unwrap();
        }
        self.publish.send(message).await.unwrap();
        self.pass_late().await;
    }

    async fn pass_late(&mut self) {
        if let Some(late) = self.late.take() {
            self.publish.send(late).await.unwrap();
        }
    }

    fn hang_up(&mut self) {
        self.late = None;
        self.relay.hang_up.send_modify(|times| *times += 1);
    }

    /// A request at our ROUTER: asked of the engine on a connection of its own, whose answers go back under the asker's name.
    fn replay(&mut self, request: ZmqMessage) {
        let mut frames = request.into_vec();
        let asker = frames.remove(0);
        let (dice, weather, made) = (&mut self.dice, self.weather, &mut self.made);
        let mut happens = |chance: usize, count: &mut u64| {
            let happens = dice.permille(chance);
            *count += u64::from(happens);
            happens
        };
        let dies = happens(weather.restart_in_replay, &mut made.restart_in_replay);
        let thin = happens(weather.thin_replay, &mut made.thin_replay);
        let without_marker = happens(weather.without_marker, &mut made.without_marker);
        let fate = Fate {
            dies_after: dies.then(|| dice.below(12)),
            remains: dice.below(2) == 0,
            thin: thin.then(|| dice.between(2, 6)),
            without_marker,
        };
        self.replays.spawn(pass_on(self.engine.clone(), frames, asker, fate, self.answers.clone()));
    }
}

/// Has a replay from the engine, and passes on what its fate leaves of it.
async fn pass_on(engine: Engine, request: Vec<Bytes>, asker: Bytes, fate: Fate, answers: mpsc::Sender<ZmqMessage>) {
    let mut dealer = DealerSocket::new();
    dealer.connect(&engine.replay()).await.unwrap();
    dealer.send(ZmqMessage::try_from(request).unwrap()).await.unwrap();
    let mut passed = 0;
    // Engines answer at once; silence is the end of one that had no marker to send.
    while let Ok(Ok(message)) = timeout(Duration::from_secs(2), dealer.recv()).await {
        if fate.dies_after == Some(passed) {
            engine.restart();
            if !fate.remains {
                return;
            }
        }
        passed += 1;
        let is_end = message.get(message.len() - 1).is_some_and(Bytes::is_empty);
        let is_lost = if is_end { fate.without_marker } else { fate.thin.is_some_and(|every| passed % every == 0) };
        if !is_lost {
            let mut answer = ZmqMessage::from(asker.clone());
            message.into_vec().into_iter().for_each(|frame| answer.push_back(frame));
            if answers.send(answer).await.is_err() {
                return;
            }
        }
        if is_end {
            return;
        }
    }
}

/// Passes on the bytes of connections, all of which can be ended at once: sockets of the `zeromq` crate may keep some that their
/// last owner has left.
struct Relay {
    address: SocketAddr,
    /// How often it hung up.
    hang_up: watch::Sender<u64>,
    _task: JoinSet<()>,
}

impl Relay {
    async fn start(to: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (hang_up, hung_up) = watch::channel(0);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut pipes = JoinSet::new();
            loop {
                let (mut caller, _) = listener.accept().await.unwrap();
                let (to, mut hung_up) = (to.clone(), hung_up.clone());
                hung_up.mark_unchanged();
                pipes.spawn(async move {
                    let mut called = TcpStream::connect(to).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut caller, &mut called) => {}
                        _ = hung_up.changed() => {}
                    }
                });
            }
        });
        Self { address, hang_up, _task: task }
    }
}

/// The same with half of its payload.
fn truncated(message: &ZmqMessage) -> ZmqMessage {
    let mut frames = message.clone().into_vec();
    let payload = frames.pop().unwrap();
    frames.push(payload.slice(..payload.len() / 2));
    ZmqMessage::try_from(frames).unwrap()
}
