//! Virtual time, a network that loses things, and an ingest at its end.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use event_bridge::ingest::{Action, GapPolicy, Ingest, IngestConfig, Parity, Saved, SourceReport, SourceSpec};
use event_bridge::stream::{ReplayId, StreamEvent};
use kv_routing::target::Slot;
use kv_routing::wire::SourceState;

use super::dice::Dice;
use super::engine::{Engine, Layout};

const SLOT: Slot = Slot(1);

/// How bad a run is; chances in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// The engine has a replay endpoint.
    pub(crate) replay: bool,
    pub(crate) keep: bool,
    pub(crate) layout: Layout,
    /// Batches the engine keeps.
    pub(crate) keeps: usize,
    pub(crate) drop: usize,
    pub(crate) duplicate: usize,
    pub(crate) reorder: usize,
    pub(crate) truncate: usize,
    pub(crate) disconnect: usize,
    pub(crate) restart: usize,
    /// A replay loses its end marker, and with it some of its batches.
    pub(crate) cut_replay: usize,
    /// A replay loses batches in the middle.
    pub(crate) thin_replay: usize,
    /// The replay endpoint does not answer at all.
    pub(crate) deaf: usize,
    /// The bridge saves its state.
    pub(crate) save: usize,
    /// The bridge is started anew, with the state it saved last.
    pub(crate) bridge_restart: usize,
}

/// What happens at a time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Deliver(Delivery),
    Subscribed { connection: u64 },
    AskReplay { id: u64, from: u64 },
}

/// Something for ingest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Delivery {
    Connected { life: u64 },
    Disconnected,
    Live { seq: u64, payload: Bytes },
    Replayed { id: u64, seq: u64, payload: Bytes },
    ReplayEnd { id: u64, complete: bool },
}

/// What former bridges of a run met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    pub(crate) gaps: u64,
    pub(crate) restarts: u64,
    pub(crate) losses: u64,
    pub(crate) duplicates: u64,
    /// Bridges that were given the state of a former one.
    pub(crate) restored: u64,
}

pub(crate) struct World {
    pub(crate) weather: Weather,
    dice: Dice,
    pub(crate) engine: Engine,
    ingest: Ingest,
    /// Milliseconds since the beginning.
    now: u64,
    began: Instant,
    agenda: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    order: u64,
    /// The present connection, and whether the engine knows that it is subscribed.
    connection: u64,
    subscribed: bool,
    /// When the last message sent on the connection arrives: later ones do not overtake it.
    line_busy: u64,
    /// Newest replay asked for; answers to older ones are cut off, as the stream does.
    asked: u64,
    /// A batch that lets the next one pass.
    late: Option<Delivery>,
    lives: u64,
    /// What each life held after each of its batches.
    truths: HashMap<(u64, u64), BTreeSet<u64>>,
    /// The oldest life that the bridge may still take for the present one: that at the other end of its connection.
    oldest: u64,
    /// Looks at an exact index that agreed with what the engine had then.
    pub(crate) looks: u64,
    saved: Option<Vec<u8>>,
    /// Counters of former bridges.
    pub(crate) past: Past,
    /// Faults happen.
    stormy: bool,
}

impl World {
    pub(crate) fn new(seed: u64, weather: Weather) -> Self {
        Self {
            dice: Dice::new(seed),
            engine: Engine::new(weather.layout, weather.keeps, seed),
            weather,
            ingest: new_ingest(weather),
            now: 0,
            began: Instant::now(),
            agenda: BinaryHeap::new(),
            order: 0,
            connection: 0,
            subscribed: false,
            line_busy: 0,
            asked: 0,
            late: None,
            lives: 1,
            truths: HashMap::new(),
            oldest: 1,
            looks: 0,
            saved: None,
            past: Past::default(),
            stormy: true,
        }
    }

    fn plan(&mut self, at: u64, happening: Happening) {
        self.order += 1;
        self.agenda.push(Reverse((at, self.order, happening)));
    }

    /// Sends something over the event connection, behind everything sent on it before.
    fn send(&mut self, delivery: Delivery) {
        self.line_busy = self.line_busy.max(self.now) + self.dice.below(4) as u64;
        self.plan(self.line_busy, Happening::Deliver(delivery));
    }

    pub(crate) fn connect(&mut self) {
        self.connection += 1;
        self.subscribed = false;
        self.send(Delivery::Connected { life: self.lives });
        let takes_effect = self.line_busy + self.dice.below(30) as u64;
        self.plan(takes_effect, Happening::Subscribed { connection: self.connection });
    }

    /// The connection ends. What is on its way may still arrive, or not.
    fn disconnect(&mut self) {
        self.late = None;
        self.send(Delivery::Disconnected);
        self.subscribed = false;
        self.line_busy += self.dice.between(1, 300) as u64;
        let back = self.line_busy;
        self.pass(back.saturating_sub(self.now) / 2);
        self.connect();
    }

    fn restart(&mut self) {
        self.lives += 1;
        let salt = self.lives * 7919 + self.dice.below(1000) as u64;
        self.engine = Engine::new(self.weather.layout, self.weather.keeps, salt);
        self.disconnect();
    }

    /// The bridge ends and begins anew, with what it saved at some time. Nothing that was under way reaches it.
    fn restart_bridge(&mut self) {
        let report = self.report();
        self.past.gaps += report.gaps;
        self.past.restarts += report.restarts;
        self.past.losses += report.losses;
        self.past.duplicates += report.duplicate_batches;
        self.ingest = new_ingest(self.weather);
        if let Some(saved) = &self.saved {
            let saved = Saved::decode(saved).unwrap();
            assert!(self.ingest.restore(SLOT, &saved), "nothing else is in the index");
            self.past.restored += 1;
            let report = self.report();
            assert!(matches!(report.state, SourceState::Stale), "not before the engine was asked: {report:?}");
        }
        (self.agenda, self.late, self.asked) = (BinaryHeap::new(), None, 0);
        self.line_busy = self.now + self.dice.between(1, 300) as u64;
        self.connect();
    }

    fn save(&mut self) {
        if let Some(saved) = self.ingest.save(SLOT, "target".into()) {
            self.saved = Some(saved.encode());
        }
    }

    /// One batch of the engine, and perhaps a fault.
    pub(crate) fn work(&mut self) {
        let weather = self.weather;
        if self.stormy && self.dice.permille(weather.restart) {
            self.restart();
        } else if self.stormy && self.dice.permille(weather.disconnect) {
            self.disconnect();
        } else if self.stormy && self.dice.permille(weather.bridge_restart) {
            self.restart_bridge();
        }
        if self.dice.permille(weather.save) {
            self.save();
        }
        let (seq, payload) = self.engine.work(&mut self.dice);
        self.truths.insert((self.lives, seq), self.engine.holds());
        if !self.subscribed {
            return;
        }
        let late = self.late.take();
        if self.stormy && self.dice.permille(weather.drop) {
            self.late = late;
            return;
        }
        let payload = if self.stormy && self.dice.permille(weather.truncate) {
            payload.slice(..self.dice.below(payload.len()))
        } else {
            payload
        };
        let batch = Delivery::Live { seq, payload };
        if self.stormy && late.is_none() && self.dice.permille(weather.reorder) {
            self.late = Some(batch);
            return;
        }
        if self.stormy && self.dice.permille(weather.duplicate) {
            self.send(batch.clone());
        }
        self.send(batch);
        if let Some(late) = late {
            self.send(late);
        }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, millis: u64) {
        let until = self.now + millis;
        loop {
            let tick = (self.now / 1000 + 1) * 1000;
            let next = self.agenda.peek().map(|Reverse((at, ..))| *at).unwrap_or(u64::MAX);
            let at = next.min(tick).max(self.now);
            if at > until {
                break;
            }
            self.now = at;
            if next <= tick {
                if let Some(Reverse((_, _, happening))) = self.agenda.pop() {
                    self.happen(happening);
                }
            } else {
                let actions = self.ingest.tick(self.instant());
                self.carry_out(actions.into_iter().map(|(_, action)| action).collect());
                self.now = tick;
            }
        }
        self.now = until;
    }

    fn instant(&self) -> Instant {
        self.began + Duration::from_millis(self.now)
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Subscribed { connection } => self.subscribed |= connection == self.connection,
            Happening::AskReplay { id, from } => self.answer(id, from),
            Happening::Deliver(delivery) => self.deliver(delivery),
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let received = self.instant();
        let event = match delivery {
            Delivery::Connected { life } => {
                self.oldest = life;
                StreamEvent::Connected
            }
            Delivery::Disconnected => StreamEvent::Disconnected { reason: "gone".into() },
            Delivery::Live { seq, payload } => StreamEvent::Live { seq, payload, received },
            Delivery::Replayed { id, .. } | Delivery::ReplayEnd { id, .. } if id != self.asked => return,
            Delivery::Replayed { id, seq, payload } => StreamEvent::Replayed { id: ReplayId(id), seq, payload },
            Delivery::ReplayEnd { id, complete } => StreamEvent::ReplayEnd { id: ReplayId(id), complete },
        };
        let actions = self.ingest.handle(SLOT, event, received);
        self.carry_out(actions);
        // Another process has to show that it agrees, which is not the matter here.
        self.ingest.set_parity(SLOT, Parity::Shown);
        self.look();
    }

    /// An exact index is what the engine held after the last batch that was applied. Batches that were lost since then are not
    /// missed yet; whatever is known to be missing is.
    fn look(&mut self) {
        let report = self.report();
        if report.state != SourceState::Exact {
            return;
        }
        self.looks += 1;
        let indexed = self.indexed();
        let Some(seq) = report.last_seq else {
            assert!(indexed.is_empty(), "EXACT, and nothing was applied: {report:?}");
            return;
        };
        let agrees = |life: u64| self.truths.get(&(life, seq)) == Some(&indexed);
        assert!(
            (self.oldest..=self.lives).any(agrees),
            "EXACT and wrong at {} ms: {:?} {report:?}",
            self.now,
            self.weather
        );
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for Action::Replay { id, from } in actions {
            self.asked = id.0;
            let at = self.now + self.dice.between(1, 100) as u64;
            self.plan(at, Happening::AskReplay { id: id.0, from });
        }
    }

    /// The engine that lives now answers a replay request.
    fn answer(&mut self, id: u64, from: u64) {
        let weather = self.weather;
        let mut at = self.now;
        if self.stormy && self.dice.permille(weather.deaf) {
            return self.plan(at + 2000, Happening::Deliver(Delivery::ReplayEnd { id, complete: false }));
        }
        let mut batches: Vec<(u64, Bytes)> =
            self.engine.buffer.iter().filter(|(seq, _)| *seq >= from).cloned().collect();
        let is_cut = self.stormy && self.dice.permille(weather.cut_replay);
        if is_cut {
            batches.truncate(self.dice.below(batches.len() + 1));
        }
        if self.stormy && self.dice.permille(weather.thin_replay) {
            batches.retain(|_| !self.dice.permille(200));
        }
        for (seq, payload) in batches {
            at += self.dice.below(3) as u64;
            self.plan(at, Happening::Deliver(Delivery::Replayed { id, seq, payload }));
        }
        let end = if is_cut { at + 2000 } else { at };
        self.plan(end, Happening::Deliver(Delivery::ReplayEnd { id, complete: !is_cut }));
        // A restart while the answer is on its way: the rest never comes.
        if self.stormy && self.dice.permille(weather.restart) {
            let cut = self.now + self.dice.between(0, 20) as u64;
            let rest = std::mem::take(&mut self.agenda).into_iter();
            self.agenda = rest.filter(|Reverse((at, _, happening))| *at < cut || !is_answer(happening, id)).collect();
            self.plan(cut + 1, Happening::Deliver(Delivery::ReplayEnd { id, complete: false }));
            self.restart();
        }
    }

    /// No more faults.
    pub(crate) fn calm(&mut self) {
        self.stormy = false;
        if let Some(late) = self.late.take() {
            self.send(late);
        }
    }

    pub(crate) fn report(&self) -> SourceReport {
        self.ingest.report(SLOT).unwrap()
    }

    /// Names of all blocks in the index.
    pub(crate) fn indexed(&self) -> BTreeSet<u64> {
        let mut all = BTreeSet::new();
        self.ingest.index().for_each_holder(|_, _, block, _| {
            all.insert(block.0);
        });
        all
    }
}

fn new_ingest(weather: Weather) -> Ingest {
    let gap_policy = if weather.keep { GapPolicy::Keep } else { GapPolicy::Clear };
    let mut ingest = Ingest::new(IngestConfig { gap_policy, ..IngestConfig::default() });
    ingest.add_target(SLOT, SourceSpec { replay: weather.replay, rank: Some(0), ..SourceSpec::default() });
    ingest.set_parity(SLOT, Parity::Shown);
    ingest
}

fn is_answer(happening: &Happening, of: u64) -> bool {
    matches!(
        happening,
        Happening::Deliver(Delivery::Replayed { id, .. } | Delivery::ReplayEnd { id, .. }) if *id == of
    )
}
