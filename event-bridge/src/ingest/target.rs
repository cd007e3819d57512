//! One target: its stream's order, what it holds, and how far that can be trusted.

use std::time::{Duration, Instant};

use kv_routing::block::BlockSize;
use kv_routing::index::PrefixIndex;
use kv_routing::target::Slot;
use kv_routing::wire::{Decision, SourceState};

use super::bounds::Kept;
use super::parity::{Absence, Evidence, Finding, Verifier, Vocabulary};
use super::residency::{Blocks, Bounds, Context, Residency};
use super::sequence::{Access, Batch, Era, Origin, Sequencer, Standing, Step, Verdict};
use super::{EngineSays, IngestConfig, Parity, ParityPolicy, Reason, Saved, SourceReport, SourceSpec};
use crate::engine::{Event, EventFault, PolledKind, decode_batch, decode_polled_event};
use crate::stream::{ReplayId, StreamEvent};

/// See the module.
#[derive(Debug)]
pub(super) struct Target {
    slot: Slot,
    spec: SourceSpec,
    sequencer: Sequencer,
    residency: Residency,
    parity: Verifier,
    parity_policy: ParityPolicy,
    /// Largest attention window seen, where events name one.
    window: Option<u64>,
    /// A polled engine's process has told of changes, so that its caches have all been made.
    has_changed: bool,
    /// The history is complete only since a clear, so tiers filled before it are unknown.
    healed: bool,
    /// The cache was cleared while something was elsewhere than on the device, and whether it still is nobody says.
    tiers_unknown: bool,
    /// The engine was seen asleep with blocks announced; that they are gone it says when it is awake.
    clear_awaited: bool,
    asleep: bool,
    /// What it holds was counted in blocks of another size than the pool's and is forgotten: it is asked for again when time
    /// allows.
    recount_due: bool,
    /// Restarts of the engine that parity knows of.
    restarts: u64,
    counts: Counts,
    lag: Option<Duration>,
    last_applied: Option<Instant>,
    last_batch_time: Option<f64>,
    /// Used again for every stream event.
    steps: Vec<Step>,
}

#[derive(Debug, Default)]
struct Counts {
    batches: u64,
    events: u64,
    undecodable: u64,
    unknown_events: u64,
    rank_mismatches: u64,
}

/// A replay to ask for.
pub(super) type Ask = (ReplayId, u64);

impl Target {
    pub(super) fn new(slot: Slot, spec: SourceSpec, config: &IngestConfig) -> Self {
        let access = match spec {
            SourceSpec { polled: true, .. } => Access::Polled,
            SourceSpec { replay: true, .. } => Access::Replay,
            _ => Access::Live,
        };
        let bounds = Bounds { orphans: config.max_orphans, pages: config.max_pages };
        Self {
            slot,
            spec,
            sequencer: Sequencer::new(access, config.gap_policy, config.audit_every, config.max_held_bytes),
            residency: Residency::new(slot, config.secret, bounds),
            parity: Verifier::default(),
            parity_policy: config.parity_policy,
            window: None,
            has_changed: false,
            healed: false,
            tiers_unknown: false,
            clear_awaited: false,
            asleep: false,
            recount_due: false,
            restarts: 0,
            counts: Counts::default(),
            lag: None,
            last_applied: None,
            last_batch_time: None,
            steps: Vec::new(),
        }
    }

    pub(super) fn set_parity(&mut self, parity: Parity) {
        self.parity.set_verdict(parity);
    }

    /// Takes a prompt that the target answered.
    pub(super) fn answered(&mut self, decision: &Decision, now: Instant) {
        self.parity.answered(decision, now, self.residency.lives());
    }

    /// Looks for the prompts it answered among its blocks. Whether that changed the verdict.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        index: &PrefixIndex,
        blocks: &Blocks,
        vocabulary: Option<&Vocabulary>,
    ) -> bool {
        let before = self.parity.verdict();
        let absence = self.absence();
        let Self { slot, residency, parity, .. } = self;
        let block_size = blocks.size();
        parity.judge(now, &Evidence { index, slot: *slot, residency, block_size, absence, vocabulary });
        parity.verdict() != before
    }

    /// What differs, when token parity failed.
    pub(super) fn finding(&self) -> Option<&Finding> {
        self.parity.finding()
    }

    /// What it says that a block is not in the index.
    fn absence(&self) -> Absence {
        let among_stores =
            if self.residency.knows_all_parents() { Absence::ProofAmongStores } else { Absence::Nothing };
        match (self.sequencer.standing(), self.residency.fault()) {
            (_, Some(Reason::IndexBound)) | (Standing::None(_) | Standing::Stale(_), _) => Absence::Nothing,
            (Standing::Warm(Reason::Synchronizing | Reason::Checking), _) => Absence::Nothing,
            (Standing::Exact, None) => Absence::Proof,
            // What is doubted there is what is held, or where else.
            (Standing::Exact, Some(fault)) if proves_absence(fault) => Absence::Proof,
            (Standing::Exact | Standing::Warm(_), _) => among_stores,
        }
    }

    /// Takes a stream event; returns the replays to ask for.
    pub(super) fn handle(&mut self, event: StreamEvent, now: Instant, context: &mut Context<'_>) -> Vec<Ask> {
        let mut steps = std::mem::take(&mut self.steps);
        match event {
            StreamEvent::Connected => self.sequencer.connected(now, &mut steps),
            StreamEvent::Disconnected { .. } => self.sequencer.disconnected(),
            StreamEvent::Live { seq, payload, received } => {
                self.sequencer.live(Batch::live(seq, payload, received), now, &mut steps);
            }
            StreamEvent::Undecodable { .. } => {
                self.counts.undecodable += 1;
                self.sequencer.unread(now, &mut steps);
            }
            StreamEvent::AnswerLost { .. } => self.sequencer.answer_lost(),
            StreamEvent::PeerChanged { .. } if self.spec.replay => {}
            StreamEvent::PeerChanged { .. } => self.sequencer.doubt(Reason::PeerChanged),
            StreamEvent::Replayed { id, seq, payload } => {
                self.sequencer.replayed(id, Batch::new(seq, payload), now, &mut steps);
            }
            StreamEvent::ReplayEnd { id, complete } => self.sequencer.replay_ended(id, complete, now, &mut steps),
        }
        self.carry_out(steps, now, context)
    }

    /// What is due by time alone.
    pub(super) fn tick(&mut self, now: Instant, context: &mut Context<'_>) -> Vec<Ask> {
        let mut steps = std::mem::take(&mut self.steps);
        if std::mem::take(&mut self.recount_due) {
            self.sequencer.replay_all(now, &mut steps);
        } else {
            self.sequencer.tick(now, &mut steps);
        }
        self.carry_out(steps, now, context)
    }

    fn carry_out(&mut self, mut steps: Vec<Step>, now: Instant, context: &mut Context<'_>) -> Vec<Ask> {
        let mut asks = Vec::new();
        let mut begins_anew = false;
        let restarts = self.sequencer.counters().restarts;
        if self.restarts != restarts {
            // Another process may have other files.
            self.restarts = restarts;
            self.parity.begin_anew();
        }
        for step in steps.drain(..) {
            match step {
                Step::Apply(batch, origin) => {
                    begins_anew = self.apply(&batch, origin, now, context) == Verdict::BeginAnew;
                    if begins_anew {
                        break;
                    }
                }
                Step::Clear => {
                    (self.healed, self.tiers_unknown, self.clear_awaited) = (false, false, false);
                    self.clear(context);
                }
                Step::Replay { id, from } => asks.push((id, from)),
            }
        }
        if begins_anew {
            self.sequencer.forget_and_begin_anew(now, &mut steps);
            return self.carry_out(steps, now, context);
        }
        self.steps = steps;
        asks
    }

    fn apply(&mut self, batch: &Batch, origin: Origin, now: Instant, context: &mut Context<'_>) -> Verdict {
        self.counts.batches += 1;
        self.last_applied = Some(now);
        if let Some(received) = batch.received {
            self.lag = Some(now.saturating_duration_since(received));
        }
        if self.spec.polled {
            self.apply_polled(&batch.payload, origin.era, context);
            return Verdict::Keep;
        }
        if self.apply_batch(&batch.payload, origin.era, context) {
            return Verdict::Keep;
        }
        self.counts.undecodable += 1;
        let verdict = self.sequencer.undecodable(origin);
        if verdict == Verdict::Clear {
            self.clear(context);
        }
        verdict
    }

    /// Applies a batch of msgpack; `false` when it does not decode to its end.
    fn apply_batch(&mut self, payload: &[u8], era: Era, context: &mut Context<'_>) -> bool {
        let decoded = decode_batch(payload, |event| match event {
            Ok(event) => self.apply_event(&event, era, context),
            Err(EventFault::Unknown { .. }) => {
                self.counts.unknown_events += 1;
                self.sequencer.weaken(era, Reason::UnknownEvents);
            }
            Err(EventFault::Malformed { .. }) => {
                self.counts.undecodable += 1;
                self.sequencer.weaken(era, Reason::EventsLost);
            }
        });
        let Ok(info) = decoded else { return false };
        self.last_batch_time = Some(info.time);
        if matches!((info.rank, self.spec.rank), (Some(said), Some(known)) if said != known) {
            // Several ranks on one socket, or another one's: what is whose cannot be told.
            self.counts.rank_mismatches += 1;
            self.sequencer.weaken(era, Reason::RankMismatch);
        }
        true
    }

    /// Forgets what the process followed so far was known to hold.
    fn clear(&mut self, context: &mut Context<'_>) {
        self.residency.clear(context.index);
        self.window = None;
        self.has_changed = false;
    }

    /// Applies one event of an engine's buffer. Only the largest attention window is that of whole prefixes.
    fn apply_polled(&mut self, payload: &[u8], era: Era, context: &mut Context<'_>) {
        let decoded = std::str::from_utf8(payload).ok().and_then(|text| decode_polled_event(text).ok());
        let Some(event) = decoded else {
            self.counts.undecodable += 1;
            return self.sequencer.weaken(era, Reason::EventsLost);
        };
        match event.kind {
            PolledKind::Created if self.has_changed => {
                // Another process, whose numbers by chance go on where the former one's ended.
                self.clear(context);
                self.sequencer.weaken(era, Reason::BatchesLost);
            }
            PolledKind::Created => {}
            PolledKind::Changed => self.has_changed = true,
            PolledKind::Unknown => {
                self.counts.unknown_events += 1;
                self.sequencer.weaken(era, Reason::UnknownEvents);
            }
        }
        if let Some(window) = event.window {
            if self.window.is_some_and(|known| window < known) {
                return;
            }
            if self.window.replace(window).is_some_and(|known| window > known) {
                self.residency.clear(context.index);
            }
        }
        for change in &event.changes {
            self.apply_event(change, era, context);
        }
    }

    fn apply_event(&mut self, event: &Event<'_>, era: Era, context: &mut Context<'_>) {
        self.counts.events += 1;
        if let Event::Stored(stored) = event
            && self.parity.listens()
        {
            self.parity.note(stored, self.residency.behind(stored));
        }
        let had_other_tiers = self.residency.has_other_tiers();
        let overflows = self.residency.counters().overflows;
        self.residency.apply(event, context);
        if matches!(event, Event::Cleared) {
            // It names no tier. All are dropped, which is exact only when there was nothing elsewhere.
            self.clear_awaited = false;
            self.tiers_unknown |= had_other_tiers;
            if self.tiers_unknown {
                self.sequencer.weaken(era, Reason::TiersCleared);
            } else {
                self.healed |= self.sequencer.heal(era);
            }
        } else if self.healed && !had_other_tiers && self.residency.has_other_tiers() {
            self.sequencer.weaken(era, Reason::TiersCleared);
        }
        if self.residency.counters().overflows > overflows {
            self.sequencer.weaken(era, Reason::Overflow);
        }
    }

    /// The engine is another process than when it was last asked, at `before`. Returns the replays to ask for.
    pub(super) fn process_changed(&mut self, before: Instant, now: Instant, context: &mut Context<'_>) -> Vec<Ask> {
        let mut steps = std::mem::take(&mut self.steps);
        self.sequencer.process_changed(before, now, &mut steps);
        self.carry_out(steps, now, context)
    }

    /// Takes what the engine's metrics say of its cache.
    pub(super) fn hear(&mut self, said: EngineSays, context: &mut Context<'_>) {
        let was_asleep = std::mem::replace(&mut self.asleep, said.asleep);
        if said.asleep && !was_asleep && self.residency.pages() > 0 {
            // An engine that goes to sleep drops its cache; the event waits until it works again.
            self.tiers_unknown |= self.residency.has_other_tiers();
            self.clear_awaited = true;
            self.residency.clear(context.index);
        }
        self.residency.compare_capacity(said.capacity_tokens, context);
    }

    /// What it keeps in memory beside the index.
    pub(super) fn kept(&self) -> Kept {
        let (pages, orphan_bytes) = (self.residency.pages(), self.residency.orphan_bytes());
        Kept { pages, held_bytes: self.sequencer.held_bytes(), orphan_bytes }
    }

    /// Gives up the live batches held back, which are asked for again.
    pub(super) fn shed_held(&mut self) {
        self.sequencer.shed_held();
    }

    /// Forgets blocks with unknown parents.
    pub(super) fn shed_orphans(&mut self) {
        self.residency.shed_orphans();
    }

    /// It is forgotten what it holds, since that is too much.
    pub(super) fn overflow(&mut self, context: &mut Context<'_>) {
        self.residency.overflow(context.index);
        self.sequencer.doubt(Reason::Overflow);
    }

    /// What it holds is counted in blocks of another size than the pool's.
    pub(super) fn recount(&mut self, context: &mut Context<'_>) {
        self.clear(context);
        self.sequencer.void();
        self.recount_due = true;
    }

    /// The index has dropped some of its blocks to stay within a bound.
    pub(super) fn lose_to_bound(&mut self) {
        self.residency.lose_to_bound();
    }

    /// Its state for a later bridge; `None` while that is in doubt.
    pub(super) fn save(&self, name: String, context: &mut Context<'_>) -> Option<Saved> {
        let (last, complete) = self.sequencer.save()?;
        let block_size = context.blocks.size()?.tokens();
        let held = self.residency.save(context.index)?;
        if self.tiers_unknown || self.clear_awaited {
            return None;
        }
        let complete = complete && self.residency.fault().is_none() && self.residency.orphans() == 0;
        Some(Saved { name, block_size, last, complete, healed: self.healed, held })
    }

    /// Takes over the state that a former bridge saved; `false` when it does not fit.
    pub(super) fn restore(&mut self, saved: &Saved, context: &mut Context<'_>) -> bool {
        let size = context.blocks.presume(saved.block_size).map(BlockSize::tokens);
        if size != Some(saved.block_size) || !self.residency.restore(&saved.held, context) {
            return false;
        }
        self.healed = saved.healed;
        let placed = self.sequencer.restore(saved.last, saved.complete);
        if !placed {
            self.clear(context);
        }
        placed
    }

    /// Forgets everything it holds.
    pub(super) fn leave(&mut self, index: &mut PrefixIndex) {
        self.residency.clear(index);
    }

    /// State, and why.
    pub(super) fn state(&self) -> (SourceState, Reason) {
        if let (Parity::Failed(cause), ParityPolicy::Enforce) = (self.parity.verdict(), self.parity_policy) {
            return (SourceState::Mismatch, Reason::ParityFailed(cause));
        }
        match self.sequencer.standing() {
            Standing::None(reason) => (SourceState::None, reason),
            Standing::Stale(reason) => (SourceState::Stale, reason),
            Standing::Warm(reason) => (SourceState::Warm, reason),
            Standing::Exact if self.clear_awaited || self.asleep => (SourceState::Warm, Reason::Asleep),
            Standing::Exact => match (self.residency.fault(), self.parity.verdict()) {
                (Some(reason), _) => (SourceState::Warm, reason),
                (None, Parity::Shown) if self.parity.is_partial() => (SourceState::Warm, Reason::ParityPartial),
                (None, Parity::Shown) => (SourceState::Exact, Reason::InOrder),
                (None, Parity::Failed(cause)) => (SourceState::Unverified, Reason::ParityFailed(cause)),
                (None, Parity::Unknown) => (SourceState::Unverified, Reason::ParityUnknown),
            },
        }
    }

    pub(super) fn report(&self) -> SourceReport {
        let (state, reason) = self.state();
        let (order, held) = (self.sequencer.counters(), self.residency.counters());
        SourceReport {
            state,
            reason,
            last_seq: self.sequencer.last_seq(),
            lag: self.lag,
            last_applied: self.last_applied,
            last_batch_time: self.last_batch_time,
            checks: order.checks,
            gaps: order.gaps,
            restarts: order.restarts,
            losses: order.losses,
            duplicate_batches: order.duplicates,
            batches: self.counts.batches,
            events: self.counts.events,
            stored_blocks: held.stored,
            removed_blocks: held.removed,
            unknown_removals: held.unknown_removals,
            undecodable: self.counts.undecodable,
            unknown_events: self.counts.unknown_events,
            unindexable: held.unindexable + held.misaligned,
            hash_conflicts: held.hash_conflicts,
            clears: held.clears,
            pages: self.residency.pages() as u64,
            bytes: self.residency.bytes() as u64,
            orphans: self.residency.orphans() as u64,
            orphans_dropped: held.orphans_dropped,
            held_batches: self.sequencer.held() as u64,
            page_tokens: self.residency.page_tokens(),
            rank_mismatches: self.counts.rank_mismatches,
            parity: self.parity.counts(),
        }
    }
}

/// Whether a block that is not in the index is not on the device, although `fault` is wrong with what is.
fn proves_absence(fault: Reason) -> bool {
    use Reason::{Duplicates, Lookahead, Overcounted, PageSize, Placeholders};
    matches!(fault, PageSize | Duplicates | Lookahead | Placeholders | Overcounted)
}

/// The parts of a pool that every target changes.
pub(super) fn context<'a>(index: &'a mut PrefixIndex, blocks: &'a mut Blocks) -> Context<'a> {
    Context { index, blocks }
}
