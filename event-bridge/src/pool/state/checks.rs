//! Engines asked whether they compute what is hashed here.

use std::sync::Arc;
use std::time::Duration;

use kv_routing::wire::{BridgeShare, Health};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{info, warn};

use super::State;
use crate::config::WorkerAddress;
use crate::cross_check::{self, Counts, Culprit, Difference, Model, Ours, Outcome};
use crate::ingest::Parity;
use crate::pool::snapshot::TokenizerStatus;
use crate::pool::tokenizer::Bridged;
use crate::probe::WorkerClient;
use crate::tokenizer::{BridgeTokenizer, ModelFiles};

/// Longest wait for one answer: rendering takes an engine longer than answering a probe.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What came of asking one worker.
#[derive(Debug)]
pub(in crate::pool) struct Checked {
    worker: WorkerAddress,
    outcome: Outcome,
    /// What tokenizes right, when the core does not.
    right: Option<Arc<BridgeTokenizer>>,
}

impl State {
    /// Asks the next worker that is due, in the background.
    pub(super) fn ask_engine(&mut self, now: Instant) {
        let tokenizes = self.tokenizer_parts.is_some() || self.bridged.is_some();
        if !self.config.check_with_engine || !tokenizes {
            return;
        }
        let Some(dir) = self.config.model_dir.clone() else { return };
        let Self { checks, membership, .. } = self;
        checks.retain(|worker| membership.members().any(|member| member.spec.address == worker));
        let healthy = |worker| {
            let mut members = membership.members();
            members.any(|member| member.spec.address == worker && member.health == Health::Healthy)
        };
        let Some(worker) = checks.next(healthy, now) else { return };
        let ours = Ours {
            core: self.tokenizer_parts.as_ref().map(|parts| parts.parts.concat()),
            bridge: self.bridged.as_ref().map(|bridged| (Arc::clone(&bridged.tokenizer), bridged.share)),
        };
        let (options, tx) = (self.config.chat.clone(), self.checked.clone());
        tokio::spawn(async move {
            let files = tokio::task::spawn_blocking(move || ModelFiles::read(&dir)).await;
            let (outcome, right) = match files {
                Ok(Ok(files)) => {
                    let client = WorkerClient::new(&worker, TIMEOUT);
                    cross_check::run(&client, ours, Model { files, options }).await
                }
                Ok(Err(error)) => (Outcome::Unanswered { why: error.to_string(), again: false }, None),
                Err(error) => (Outcome::Unanswered { why: error.to_string(), again: true }, None),
            };
            // Fails when the pool has ended meanwhile.
            drop(tx.send(Checked { worker, outcome, right }).await);
        });
    }

    /// Takes what an engine said.
    pub(in crate::pool) fn on_checked(&mut self, checked: Checked, now: Instant) {
        let Checked { worker, outcome, right } = checked;
        let pool = self.config.name.clone();
        match &outcome {
            Outcome::Agrees(Counts { equal, tokens, refused, unanswered }) => {
                info!(pool, %worker, equal, tokens, refused, unanswered, "the engine computes the prompts that are hashed here");
            }
            Outcome::Differs(difference) => {
                let difference = difference.to_string();
                warn!(pool, %worker, difference, "the engine computes other prompts than are hashed here");
            }
            Outcome::Unanswered { why, again } if self.checks.outcome(worker) != Some(&outcome) => {
                warn!(pool, %worker, why, again, "the engine does not say what it makes of prompts");
            }
            Outcome::Unanswered { .. } => {}
        }
        match &outcome {
            Outcome::Differs(difference) => self.follow_engine(worker, difference, right),
            // Its prompts will tell.
            Outcome::Agrees(_) if self.checks.differed(worker) => self.set_parity(worker, Parity::Unknown),
            Outcome::Agrees(_) | Outcome::Unanswered { .. } => {}
        }
        self.checks.done(worker, outcome, now);
        self.refresh_sources();
        self.stale = true;
        self.tell(now);
    }

    /// The engine is right: what of its prompts is not known here is not credited, until prompts that it answers show otherwise.
    fn follow_engine(&mut self, worker: WorkerAddress, difference: &Difference, right: Option<Arc<BridgeTokenizer>>) {
        match (difference.culprit, right) {
            (Culprit::Core, Some(tokenizer)) => {
                let why = format!("worker {worker} computes other tokens than the filter's core: {difference}");
                self.tokenizer = TokenizerStatus::Bridge(why.clone());
                self.tokenizer_parts = None;
                self.bridged = Some(Bridged { tokenizer, share: BridgeShare::All, why });
            }
            (Culprit::Core, None) => {}
            (Culprit::Files(cause), _) => self.set_parity(worker, Parity::Failed(cause)),
        }
    }

    fn set_parity(&mut self, worker: WorkerAddress, parity: Parity) {
        let Self { membership, ingest, .. } = self;
        let member = membership.members().find(|member| member.spec.address == worker);
        for target in member.into_iter().flat_map(|member| &member.targets) {
            ingest.set_parity(target.slot, parity);
        }
    }
}

/// Where outcomes of checks go.
pub(in crate::pool) type CheckedSender = mpsc::Sender<Checked>;
