//! Counters, seen in Envoy's stats as `wasmcustom.kv_router.<name>`.

use crate::host::Host;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A counter of the filter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Counter {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Counter {
            /// Every counter.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in Envoy's stats, without `wasmcustom.`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!("kv_router.", $name),)+
                }
            }
        }
    };
}

counters! {
    /// Requests on an inference path.
    Requests = "requests",
    /// Requests that were given a target.
    Routed = "routed",
    /// Routed by overlap from the index.
    RungExact = "rung.exact",
    /// Routed by overlap from own recent decisions.
    RungPredicted = "rung.predicted",
    /// Routed by bounded-load prefix hash.
    RungPrefixHash = "rung.prefix_hash",
    /// Routed by load alone.
    RungLoad = "rung.load",
    /// Routed as the mode of the policy says, without regard to cost.
    RungMode = "rung.mode",
    /// Routed while the bridge was silent, so every source counted as stale.
    RoutedStale = "routed_stale",

    /// Refused by a policy, answered from here.
    Refused = "refused",
    /// Evaluated by a shadow policy too.
    ShadowEvaluated = "shadow.evaluated",
    /// The shadow would have done the same.
    ShadowAgreed = "shadow.agreed",
    /// A session was not remembered because another thread wrote its bucket at the same time.
    SessionsContended = "sessions_contended",

    /// Left to Envoy's balancer: the policy says so.
    UnroutedPolicy = "unrouted.policy",
    /// Left to Envoy's balancer: every target is over a threshold of the policy.
    UnroutedBusy = "unrouted.busy",
    /// Left to Envoy's balancer: an inference path without a body.
    UnroutedNoBody = "unrouted.no_body",
    /// Left to Envoy's balancer: body above `max_body_bytes`.
    UnroutedBodyTooLarge = "unrouted.body_too_large",
    /// Left to Envoy's balancer: the body cannot be read.
    UnroutedBadBody = "unrouted.bad_body",
    /// Left to Envoy's balancer: shared data is empty, as before the first push.
    UnroutedNoManifest = "unrouted.no_manifest",
    /// Left to Envoy's balancer: the manifest cannot be read; filter and bridge are of different releases.
    UnroutedBadManifest = "unrouted.bad_manifest",
    /// Left to Envoy's balancer: no pool serves the model.
    UnroutedUnknownModel = "unrouted.unknown_model",
    /// Left to Envoy's balancer: the pool has no target that may be chosen.
    UnroutedNoTarget = "unrouted.no_target",
    /// The prefill engine refused the request, or failed beside a decode call already made; the client was told so.
    UnroutedPrefillAnswered = "unrouted.prefill_answered",
    /// The request was answered or reset before it was routed: 413, timeout, client gone.
    UnroutedEndedEarly = "unrouted.ended_early",
    /// Left to Envoy's balancer: the filter's configuration was refused, see Envoy's log.
    UnroutedBadConfiguration = "unrouted.bad_configuration",
    /// Left to Envoy's balancer: a fault of the filter.
    UnroutedInternal = "unrouted.internal",

    /// Prompt not tokenized: the pool has no tokenizer.
    InexactNoTokenizer = "inexact.no_tokenizer",
    /// Prompt not tokenized: the tokenizer could not be loaded.
    InexactTokenizerFailed = "inexact.tokenizer_failed",
    /// Prompt not tokenized: the template refused it, or it is too long.
    InexactPrompt = "inexact.prompt",
    /// Prompt not tokenized: the body says things only the engine can resolve.
    InexactBody = "inexact.body",
    /// Prompt not tokenized: the bridge should have done it, and did not within `bridge_timeout_ms`.
    InexactBridgeLate = "inexact.bridge_late",
    /// Prompt not tokenized: the bridge should have done it, and cannot be reached or answered with an error.
    InexactBridgeFailed = "inexact.bridge_failed",
    /// Prompt not tokenized: others with more than `max_waiting_bytes` of text wait for their turns already.
    InexactCrowded = "inexact.crowded",
    /// Prompt not hashed: the block size is not known yet.
    InexactNoBlockSize = "inexact.no_block_size",
    /// Tokens are the engine's up to the first image, audio or video.
    UpToMedia = "up_to_media",

    /// Prompts tokenized by the bridge, as the core cannot: exact, but hundreds of times slower.
    BridgeTokenized = "bridge_tokenized",
    /// Prefill calls: every one is counted below as `prefills`, `rejected`, `failed` or `unheard`, or is under way.
    HandoffCalls = "handoff.calls",
    /// Prefill calls that Envoy did not send, without an answer, or answered with 404, 408, 429 or 500 and above.
    HandoffFailed = "handoff.failed",
    /// Prefill calls answered with another 4xx: the request's own fault, and its answer.
    HandoffRejected = "handoff.rejected",
    /// Prefill calls beside a decode call, whose answer interests nobody: that of the decode call had begun, or the client had left.
    HandoffUnheard = "handoff.unheard",
    /// Prefill answers without transfer parameters, or a worker that does not say what the protocol needs: the pool is misconfigured.
    HandoffMisconfigured = "handoff.misconfigured",
    /// Decode calls whose prompt is prefilled elsewhere.
    HandoffDecodes = "handoff.decodes",
    /// Requests served whole although their pool has targets of its own for prefill or decode; why is counted below.
    HandoffWhole = "handoff.whole",
    /// Requests refused by such a pool; why is counted below, too.
    HandoffRefused = "handoff.refused",
    /// Not handed over: no prefill target can be chosen.
    HandoffNoPrefill = "handoff.no_prefill",
    /// Not handed over: every prefill target is over a threshold.
    HandoffPrefillBusy = "handoff.prefill_busy",
    /// Not handed over: no decode target can be chosen.
    HandoffNoDecode = "handoff.no_decode",
    /// Not handed over: every decode target is over a threshold.
    HandoffDecodeBusy = "handoff.decode_busy",
    /// Not handed over: little of the prompt is uncached at the decode target.
    HandoffShort = "handoff.short",
    /// Not handed over: no prefill call was left.
    HandoffOverLimit = "handoff.over_limit",
    /// Not handed over: no prefill call worked out.
    HandoffGivenUp = "handoff.given_up",
    /// Not handed over: the prefill engine finished the answer by itself.
    HandoffFinished = "handoff.finished",
    /// Decode calls for one token, made because nobody else would fetch the blocks that the prefill engine held: they are free.
    HandoffFreed = "handoff.freed",
    /// Those that failed, so that the engine holds the blocks until its own timeout.
    HandoffFreeFailed = "handoff.free_failed",
    /// Prefill calls that were answered well.
    HandoffPrefills = "handoff.prefills",
    /// Microseconds these took: queueing and computing at the prefill engine.
    HandoffPrefillUs = "handoff.prefill_us",
    /// Decode calls with a streamed answer that has begun.
    HandoffStreams = "handoff.streams",
    /// Microseconds from these calls to the headers of their answers: the decode engine takes the request in; with engines that send no headers before
    /// the first token, all of it.
    HandoffAcceptUs = "handoff.accept_us",
    /// Microseconds from those headers to the first byte of the body: queueing and transfer at the decode engine, and the first token.
    HandoffFirstByteUs = "handoff.first_byte_us",

    /// Routing headers that clients sent and the filter removed.
    StrippedHeaders = "stripped_headers",
    /// Requests served by another endpoint than the chosen one, after a retry.
    Moved = "moved",
    /// Routed requests answered with a status of 500 or above.
    Failed = "failed",
    /// Prompt tokens of requests routed by a chain.
    PromptTokens = "prompt_tokens",
    /// Those of them believed to be cached on the target.
    PredictedTokens = "predicted_tokens",
    /// Cached tokens the engines reported, where they report them.
    CachedTokens = "cached_tokens",
    /// The engine's report equals the prediction.
    PredictionRight = "prediction.right",
    /// The engine had less than predicted.
    PredictionOver = "prediction.over",
    /// The engine had more than predicted.
    PredictionUnder = "prediction.under",

    /// Pieces of long prompts done after the first one.
    Slices = "slices",
    /// Tokenizers loaded, by any VM.
    TokenizerLoads = "tokenizer_loads",
    /// Tokenizers that could not be loaded.
    TokenizerLoadFailures = "tokenizer_load_failures",
    /// Reads of manifest and target tables after a change, by any VM.
    ViewReloads = "view_reloads",
    /// Values of shared data that could not be read.
    ViewErrors = "view_errors",
    /// Index pages ignored: of another epoch or version, or malformed.
    RejectedPages = "rejected_pages",
    /// Load rows claimed by VMs.
    RowsClaimed = "rows_claimed",
    /// Load rows lost to another VM.
    RowsLost = "rows_lost",
    /// Decisions not reported to the bridge.
    DecisionsDropped = "decisions_dropped",

    /// Pushes applied.
    IngestPushes = "ingest.pushes",
    /// Values written.
    IngestPuts = "ingest.puts",
    /// Pushes refused: not readable.
    IngestMalformed = "ingest.malformed",
    /// Pushes refused: a key that is not the bridge's.
    IngestForeignKey = "ingest.foreign_key",
    /// Pushes refused: wrong or missing secret.
    IngestUnauthorized = "ingest.unauthorized",
    /// Pushes refused: body above `max_push_bytes`.
    IngestTooLarge = "ingest.too_large",
    /// Pushes refused: a later bridge has taken over.
    IngestSuperseded = "ingest.superseded",
    /// Pushes refused: a snapshot is needed first.
    IngestNeedSnapshot = "ingest.need_snapshot",
}

/// Handles of all counters in one VM.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    ids: Vec<u32>,
}

impl Counters {
    /// Defines all counters.
    pub fn define(host: &impl Host) -> Self {
        Self { ids: Counter::ALL.iter().map(|counter| host.counter(counter.name())).collect() }
    }

    /// Whether [`Counters::define`] made them.
    pub fn defined(&self) -> bool {
        !self.ids.is_empty()
    }

    /// Adds one.
    pub fn count(&self, host: &impl Host, counter: Counter) {
        self.add(host, counter, 1);
    }

    /// Adds `amount`.
    pub fn add(&self, host: &impl Host, counter: Counter, amount: u32) {
        if let Some(id) = self.ids.get(counter as usize)
            && amount > 0
        {
            host.add(*id, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_positions_match() {
        let names: HashSet<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(names.len(), Counter::ALL.len());
        assert!(Counter::ALL.iter().enumerate().all(|(at, counter)| *counter as usize == at));
    }
}
