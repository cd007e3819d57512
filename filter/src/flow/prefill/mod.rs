//! The prefill router: prefill and decode of one request on different targets.
//!
//! ```text
//!   decide: prefill target by KV cost, decode target by load; both are booked
//!     │
//!     ├─ too many prefill calls under way ──▶ whole on the decode target, or 503
//!     ▼
//!   prefill call ◀────────────────────────────┐ once more, to the next prefill target
//!     │ decode waits       │ both at once     │
//!     ▼                    ▼                  │
//!   Handing              Routed               │
//!     │ answered           │ failed before    │
//!     │                    │ the response     │
//!     │                    └──▶ 503           │
//!     ├─ transfer parameters ──▶ decode body released: Routed
//!     ├─ finished by itself ──▶ whole on the decode target
//!     ├─ 4xx: the client's fault ──▶ answered with it
//!     └─ failed, or no parameters ────────────┴──▶ whole on the decode target, or 503
//! ```
//!
//! The stream may end in any state, and the bookings on both sides are given back. While the prefill call of a request that waits is
//! under way, that is later: Envoy lets the call go on, and the engine would hold the blocks until its own timeout.
//!
//! ```text
//!   Handing ── client gone ──▶ Left ── failed, or nothing held ──▶ over
//!                               │ transfer parameters
//!                               ▼
//!                              decode call for one token, answered to nobody ──▶ over
//! ```
//!
//! So the root context makes the calls of requests that wait: it is still there when the answer comes.
//!
//! What was prefilled may lie unfetched later, too: a client leaves while Envoy connects to the decode target, or the decode engine refuses
//! the client's body, of which the prefill engine has seen less. Then the same call for one token is made at the end of the request.
//!
//! ```text
//!   Routed ── ended before its decode call was sent, or answered with 4xx ──▶ Freeing ── decode call for one token ──▶ over
//! ```

mod answer;
mod call;
mod fail;
mod free;
mod leave;
mod send;

use kv_routing::handoff::{Protocol, Transfer, bootstrap_room};
use kv_routing::openai::Endpoint;
use kv_routing::policy::document::Disaggregation;
use kv_routing::policy::{BookingId, Checkpoints, Choice};
use kv_routing::wire::{BridgeShare, TargetEntry};

use super::book::Pending;
use super::policy::Said;
use super::prompt::{Asked, Prompt};
use super::{Headers, millis};
use crate::host::Host;
use crate::view::Pool;
use crate::vm::Vm;

pub(super) use call::Call;
pub use call::Prefills;
pub(super) use free::Freeing;

/// A request with a target for each phase.
#[derive(Debug)]
pub(super) struct Handing {
    pub(super) asked: Asked,
    pub(super) prompt: Prompt,
    pub(super) said: Said,
    pub(super) rules: Disaggregation,
    pub(super) checkpoints: Checkpoints,
    /// The prefill target, and those to try after it.
    pub(super) prefill: Choice,
    /// Booked without prefill.
    pub(super) decode: Choice,
    /// Tokens the decode target would have to compute if it did it all.
    uncached: u64,
    decode_booking: Option<BookingId>,
    /// The client's request: both calls are made from it, and the second one perhaps when Envoy has dropped it.
    headers: Headers,
    body: Vec<u8>,
    /// Prefill targets tried after the first one.
    retries: u8,
    /// Whether the prefill call was made to the last one.
    is_sent: bool,
    /// Names the hand-over, each try anew.
    random: u64,
    /// The prefill call under way.
    call: Option<Call>,
    /// The decision for its prefill target, until it is known what became of it.
    pending: Option<Pending>,
    /// Microseconds that the answered prefill call took.
    waited_us: u32,
}

impl Handing {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        asked: Asked,
        prompt: Prompt,
        said: Said,
        rules: Disaggregation,
        checkpoints: Checkpoints,
        prefill: Choice,
        mut decode: Choice,
    ) -> Box<Self> {
        let uncached = std::mem::take(&mut decode.prefill_tokens);
        Box::new(Self {
            asked,
            prompt,
            said,
            rules,
            checkpoints,
            prefill,
            decode,
            uncached,
            decode_booking: None,
            headers: Headers::new(),
            body: Vec::new(),
            retries: 0,
            is_sent: false,
            random: 0,
            call: None,
            pending: None,
            waited_us: 0,
        })
    }

    fn protocol(&self) -> Protocol {
        self.asked.pool.manifest.handoff
    }

    fn decode_target(&self) -> Option<TargetEntry> {
        self.asked.pool.targets.get(self.decode.target as usize).cloned()
    }

    /// The prefill target being tried.
    fn prefill_target(&self) -> Option<&TargetEntry> {
        self.asked.pool.targets.get(self.prefill.target as usize)
    }

    /// The prefill call is over, if one is under way: answered well, or not.
    fn end_call(&mut self, vm: &mut Vm, host: &impl Host, answered: bool, failed: bool) {
        if let Some(call) = self.call.take() {
            call.end(vm, failed);
        }
        if let Some(pending) = self.pending.take() {
            pending.settle(vm, host, &self.asked.pool, None, answered, millis(host.now_nanos()));
        }
    }

    /// Gives back what is booked for it.
    pub(super) fn end(mut self, vm: &mut Vm, host: &impl Host) {
        self.end_call(vm, host, false, false);
        if let Some(booking) = self.decode_booking {
            vm.ledger.end(booking, false);
        }
        vm.rows.touch();
    }
}

impl Asked {
    /// Whether this request can be handed over.
    pub(super) fn fits_handoff(&self) -> bool {
        let protocol = self.pool.manifest.handoff;
        match (self.endpoint(), protocol) {
            (_, Protocol::Header) | (Endpoint::Generate, Protocol::Sglang) => true,
            // One set of transfer parameters stands for one answer to one prompt, except with SGLang: vLLM computes, holds and fetches every
            // one of several answers by itself.
            (Endpoint::ChatCompletions | Endpoint::Completions, _) => self.single || protocol == Protocol::Sglang,
            _ => false,
        }
    }
}

/// The hand-off numbered by `random` from `target`.
fn transfer<'a>(pool: &Pool, target: &'a TargetEntry, random: u64) -> Transfer<'a> {
    let protocol = pool.manifest.handoff;
    let bootstrap = target.bootstrap.as_ref();
    let ranks = bootstrap.map_or(1, |bootstrap| bootstrap.ranks);
    Transfer {
        // Engines keep numbers in signed integers.
        id: if protocol == Protocol::Sglang { bootstrap_room(random, target.rank, ranks) } else { random >> 1 },
        bootstrap_host: bootstrap.map_or("", |bootstrap| &bootstrap.host),
        bootstrap_port: bootstrap.map_or(0, |bootstrap| bootstrap.port),
        ranks,
        engine_id: bootstrap.and_then(|bootstrap| bootstrap.engine_id.as_deref()),
        told_tools: told_tools(pool),
    }
}

/// Whether prompts may tell which tool the client demands. Templates that are rendered here are not given it; some that are not are, as that of
/// Kimi K3.
fn told_tools(pool: &Pool) -> bool {
    pool.manifest.bridge != BridgeShare::None
}
