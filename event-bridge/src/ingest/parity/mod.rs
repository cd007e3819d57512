//! Token parity: whether the chains that the filter computes for prompts are those the engine announces.
//!
//! The filter tells which prompts a target answered; the target has computed those. So the last block of each must be among
//! the target's blocks, or have left them a moment ago.
//!
//! ```text
//! answered ──▶ pending ─┬─ last block held, or held lately ──────▶ matched ──▶ SHOWN (after a failure: two in a row)
//!                       ├─ everything was cleared meanwhile,
//!                       │  or it has blocks of another size ─────▶ nothing
//!                       └─ absent for 2 s ─┬─ proves something ──▶ missing ──▶ five different ones, and none matched: FAILED
//!                                          └─ proves nothing ────▶ nothing
//! ```
//!
//! Where some prompts match and a quarter is missing, parity is partial; it fails when sixteen are missing in a row, and until
//! fewer than a quarter is ([`share`]).
//!
//! What absence proves depends on how much of the engine's history is known ([`Absence`]). A block that turns up late still
//! counts as matched. Other clients' prompts and generated blocks are never looked for, so they cannot fail anything.

mod announced;
mod cause;
mod finding;
mod kinds;
mod share;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId};
use kv_routing::index::PrefixIndex;
use kv_routing::target::{Slot, Tier};
use kv_routing::wire::Decision;

use self::announced::Announced;
pub use self::cause::{Cause, Vocabulary};
pub use self::finding::Finding;
use self::kinds::{Kind, Kinds};
use self::share::Share;
use super::Parity;
use super::residency::Residency;
use crate::engine::Stored;

/// Time for the events of a prompt that was answered to come in.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where the engine's history is incomplete, a missing prompt counts only if the engine announced anything since so long
/// before it was answered.
const LOOKBACK: Duration = Duration::from_secs(5);
/// Different prompts missing in a row that make a failure when none matched.
const FAIL_AFTER: usize = 5;
/// Matches in a row that end a failure, once few prompts are missing.
const RECOVER_AFTER: u32 = 2;
/// Prompts waiting to be judged; while there are as many, further ones are passed over.
const MOST_PENDING: usize = 128;

/// What it says that a block is not in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// The whole history was applied: the engine does not have it.
    Proof,
    /// The engine may have had it before anyone listened; but then nothing it announces now is unknown to it either.
    ProofAmongStores,
    /// Nothing.
    Nothing,
}

/// What a prompt is judged by.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) index: &'a PrefixIndex,
    pub(super) slot: Slot,
    pub(super) residency: &'a Residency,
    pub(super) block_size: Option<BlockSize>,
    pub(super) absence: Absence,
    pub(super) vocabulary: Option<&'a Vocabulary>,
}

/// Numbers of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParityCounts {
    /// Prompts whose blocks the engine announced.
    pub matched: u64,
    /// Prompts whose blocks it did not.
    pub missing: u64,
    /// Prompts nothing can be said about.
    pub open: u64,
}

/// Parity of one target.
#[derive(Debug, Default)]
pub(super) struct Verifier {
    verdict: Parity,
    counts: ParityCounts,
    pending: VecDeque<Prompt>,
    /// Those missing since the last match, oldest first.
    missing: VecDeque<Prompt>,
    kinds: Kinds,
    share: Share,
    /// [`Residency::lives`] when prompts were last judged.
    life: u64,
    /// Matches since the last one missing.
    streak: u32,
    announced: Announced,
    /// Blocks the engine had announced when that was last seen to have grown, and when.
    stored: (u64, Option<Instant>),
    finding: Option<Box<Finding>>,
}

/// A prompt that the target answered.
#[derive(Debug)]
struct Prompt {
    last: SequenceHash,
    block_size: Option<BlockSize>,
    blocks: u32,
    marks: Vec<SequenceHash>,
    head: Vec<TokenId>,
    seed: HashSeed,
    adapter: bool,
    arrived: Instant,
    /// [`Residency::lives`] at that time.
    life: u64,
}

impl Verifier {
    pub(super) fn verdict(&self) -> Parity {
        self.verdict
    }

    pub(super) fn set_verdict(&mut self, verdict: Parity) {
        self.verdict = verdict;
    }

    /// Whether prompts of some kind, or a good share of all, are missing, although others match.
    pub(super) fn is_partial(&self) -> bool {
        self.kinds.any_missing() || self.share.is_partial()
    }

    /// The engine is another process: whether it agrees must be shown again.
    pub(super) fn begin_anew(&mut self) {
        self.share = Share::default();
        if self.verdict == Parity::Shown {
            self.verdict = Parity::Unknown;
        }
    }

    pub(super) fn counts(&self) -> ParityCounts {
        self.counts
    }

    /// What differs, while the verdict is that parity failed.
    pub(super) fn finding(&self) -> Option<&Finding> {
        self.finding.as_deref()
    }

    /// Whether it matters what the engine announces.
    pub(super) fn listens(&self) -> bool {
        self.verdict != Parity::Shown || !self.missing.is_empty()
    }

    /// Notes a store. `behind` is the block before it; `None` where that is not known.
    pub(super) fn note(&mut self, stored: &Stored<'_>, behind: Option<Option<SequenceHash>>) {
        self.announced.note(stored, behind);
    }

    /// Takes a prompt that the target answered.
    pub(super) fn answered(&mut self, decision: &Decision, now: Instant, life: u64) {
        let Some(last) = decision.marks.last().copied() else { return };
        if self.pending.len() == MOST_PENDING {
            self.counts.open += 1;
            return;
        }
        self.pending.push_back(Prompt {
            last,
            block_size: BlockSize::new(decision.block_size),
            blocks: decision.certain_blocks,
            marks: decision.marks.clone(),
            head: decision.head.clone(),
            seed: HashSeed::from_value(decision.seed),
            adapter: decision.adapter,
            arrived: now,
            life,
        });
    }

    /// Judges what can be judged by now.
    pub(super) fn judge(&mut self, now: Instant, evidence: &Evidence<'_>) {
        let stored = evidence.residency.counters().stored;
        if stored != self.stored.0 {
            self.stored = (stored, Some(now));
        }
        let life = evidence.residency.lives();
        self.missing.retain(|prompt| prompt.life == life);
        self.kinds.live(life);
        if std::mem::replace(&mut self.life, life) != life {
            self.share.break_row();
        }
        if let Some(late) = self.missing.iter().find(|prompt| evidence.has(prompt.last)) {
            let (kind, last) = (late.kind(), late.last);
            self.matched(kind, last);
        }
        for prompt in std::mem::take(&mut self.pending) {
            if prompt.life != life || prompt.block_size != evidence.block_size {
                self.counts.open += 1;
            } else if evidence.has(prompt.last) {
                self.matched(prompt.kind(), prompt.last);
            } else if now.saturating_duration_since(prompt.arrived) < PATIENCE {
                self.pending.push_back(prompt);
            } else if self.is_proof(&prompt, evidence.absence) {
                self.missed(prompt, evidence);
            } else {
                self.counts.open += 1;
            }
        }
    }

    fn is_proof(&self, prompt: &Prompt, absence: Absence) -> bool {
        match absence {
            Absence::Proof => true,
            Absence::ProofAmongStores => self.stored.1.is_some_and(|at| at + LOOKBACK >= prompt.arrived),
            Absence::Nothing => false,
        }
    }

    fn matched(&mut self, kind: Kind, last: SequenceHash) {
        self.counts.matched += 1;
        self.kinds.matched(kind);
        self.share.matched(last);
        self.streak = self.streak.saturating_add(1);
        self.missing.clear();
        let recovered = self.streak >= RECOVER_AFTER && self.share.is_low();
        if !matches!(self.verdict, Parity::Failed(_)) || recovered {
            self.verdict = Parity::Shown;
            self.finding = None;
            self.announced.clear();
        }
    }

    fn missed(&mut self, prompt: Prompt, evidence: &Evidence<'_>) {
        self.counts.missing += 1;
        self.kinds.missed(prompt.kind(), prompt.last);
        self.share.missed(prompt.last);
        self.streak = 0;
        // One prompt asked again and again is one piece of evidence.
        if self.missing.iter().any(|known| known.last == prompt.last) {
            return;
        }
        self.missing.push_back(prompt);
        if self.missing.len() > FAIL_AFTER {
            self.missing.pop_front();
        }
        if self.share.is_failure() && self.missing.len() == FAIL_AFTER {
            let finding = finding::explain(&self.missing, &self.announced, evidence);
            self.verdict = Parity::Failed(finding.cause);
            self.finding = Some(Box::new(finding));
        }
    }
}

impl Prompt {
    fn kind(&self) -> Kind {
        Kind { seed: self.seed, adapter: self.adapter }
    }
}

impl Evidence<'_> {
    /// Whether the target has a block, or had it a moment ago.
    fn has(&self, block: SequenceHash) -> bool {
        Tier::ALL.into_iter().any(|tier| self.index.holds(self.slot, tier, block)) || self.residency.had_lately(block)
    }
}
