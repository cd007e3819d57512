//! What is read off state when a scrape asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;

use kv_routing::target::TargetId;
use kv_routing::wire::{Booking, Health, SourceState};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::live::{Labels, Metrics};
use crate::cross_check::Outcome;
use crate::ingest::SourceReport;
use crate::policy::TallySummary;
use crate::pool::{Member, MemberTarget, PoolSnapshot, TokenizerStatus};
use crate::publish::{EnvoyStatus, LinkState};
use crate::stream::StreamStats;

/// Text of all metrics; `shadow` is how the shadow policy does, if there is one.
///
/// # Errors
/// Never in practice: writing to a string cannot fail.
pub fn text(
    metrics: &Metrics,
    pools: &[PoolSnapshot],
    envoys: &[EnvoyStatus],
    shadow: Option<&TallySummary>,
) -> Result<String, fmt::Error> {
    let mut scrape = Scrape::default();
    pools.iter().for_each(|pool| scrape.pool(pool));
    envoys.iter().for_each(|envoy| scrape.envoy(envoy));
    shadow.into_iter().for_each(|shadow| scrape.shadow(shadow));
    let mut registry = Registry::with_prefix("kv_bridge");
    for (name, (help, family)) in scrape.gauges {
        registry.register(name, help, family);
    }
    for (name, (help, family)) in scrape.counters {
        registry.register(name, help, family);
    }
    let mut text = String::new();
    encode_registry(&mut text, metrics.registry())?;
    encode_registry(&mut text, &registry)?;
    encode_eof(&mut text)?;
    Ok(text)
}

type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Counters = Family<Labels, Counter>;

#[derive(Default)]
struct Scrape {
    gauges: BTreeMap<&'static str, (&'static str, Gauges)>,
    counters: BTreeMap<&'static str, (&'static str, Counters)>,
}

impl Scrape {
    fn gauge(&mut self, name: &'static str, help: &'static str, labels: &Labels, value: f64) {
        let (_, family) = self.gauges.entry(name).or_insert_with(|| (help, Gauges::default()));
        family.get_or_create(labels).set(value);
    }

    fn count(&mut self, name: &'static str, help: &'static str, labels: &Labels, value: u64) {
        let (_, family) = self.counters.entry(name).or_insert_with(|| (help, Counters::default()));
        family.get_or_create(labels).inc_by(value);
    }

    fn pool(&mut self, pool: &PoolSnapshot) {
        let labels = vec![("pool", pool.name.clone())];
        let flag = |on: bool| f64::from(u8::from(on));
        let index = pool.index;
        self.gauge("index_blocks", "Distinct blocks in the pool's index", &labels, index.blocks as f64);
        self.gauge("index_runs", "Runs (unbranched chains of blocks) in the pool's index", &labels, index.runs as f64);
        self.gauge(
            "index_holder_blocks",
            "Sum over the index's blocks of the targets that hold each",
            &labels,
            index.holder_blocks as f64,
        );
        self.gauge("index_pages", "Pages the pool's index is published in", &labels, index.pages as f64);
        self.gauge(
            "index_max_blocks",
            "Most distinct blocks the pool's index may have (limits.max_blocks)",
            &labels,
            pool.max_blocks as f64,
        );
        self.gauge(
            "index_page_bytes",
            "Estimated size of all published pages of the pool, in bytes",
            &labels,
            index.page_bytes as f64,
        );
        self.gauge(
            "index_bytes",
            "Estimated memory of the pool's index in the bridge, in bytes",
            &labels,
            index.bytes as f64,
        );
        self.count(
            "index_evicted_blocks",
            "Blocks dropped from the index to stay within limits.max_blocks",
            &labels,
            index.evicted_blocks,
        );
        let block_size = pool.block_size.map_or(0, |size| size.tokens());
        self.gauge(
            "block_size_tokens",
            "Tokens per block, learned from the engines' events; 0: none yet",
            &labels,
            f64::from(block_size),
        );
        let disagrees = pool.block_size.is_some_and(|size| pool.expected_block_size.is_some_and(|want| want != size));
        self.gauge(
            "block_size_mismatch",
            "1 while the block size learned from events differs from the configured one",
            &labels,
            flag(disagrees),
        );
        let refused = flag(pool.workers_error.is_some());
        self.gauge(
            "workers_file_refused",
            "1 while the latest workers file is refused and the one before is in force",
            &labels,
            refused,
        );
        self.count(
            "workers_files_refused",
            "Versions of the workers file that were refused",
            &labels,
            pool.counters.refused_workers,
        );
        let failed = flag(pool.eds_error.is_some());
        self.gauge("endpoint_file_failed", "1 while Envoy's endpoint file cannot be written", &labels, failed);
        let loaded = flag(matches!(pool.tokenizer, TokenizerStatus::Loaded(_) | TokenizerStatus::NotConfigured));
        let by_bridge = flag(matches!(pool.tokenizer, TokenizerStatus::Bridge(_)));
        self.gauge(
            "tokenizer_by_bridge",
            "1 while the bridge tokenizes this pool's prompts, since the filter cannot",
            &labels,
            by_bridge,
        );
        let no_chats = flag(pool.chats_problem.is_some());
        self.gauge(
            "tokenizer_without_chats",
            "1 while no chat of this pool's model can be rendered exactly, see /workers",
            &labels,
            no_chats,
        );
        self.gauge(
            "tokenizer_ready",
            "1 while the filter has the pool's tokenizer, or none is configured",
            &labels,
            loaded,
        );
        let results = [Outcome::AGREES, Outcome::DIFFERS, Outcome::UNANSWERED];
        for result in results.into_iter().filter(|_| pool.checks_with_engine) {
            let count = pool.checks.values().filter(|outcome| outcome.as_str() == result).count();
            self.gauge(
                "engine_checks",
                "Workers by what they said when asked for their tokens of built-in prompts: agrees, differs, unanswered",
                &[labels.as_slice(), &[("result", result.to_owned())]].concat(),
                count as f64,
            );
        }
        self.count("decisions", "Routing decisions of this pool reported by Envoys", &labels, pool.counters.decisions);
        self.count(
            "decision_prompt_tokens",
            "Prompt tokens of all reported decisions",
            &labels,
            pool.counters.prompt_tokens,
        );
        let predicted = pool.counters.predicted_blocks;
        self.count(
            "decision_predicted_blocks",
            "Prompt blocks that reported decisions expected to find cached on their target",
            &labels,
            predicted,
        );
        self.count(
            "targets_without_slot",
            "Targets left out of the table because all slots are taken",
            &labels,
            pool.counters.slotless,
        );
        for member in &pool.members {
            self.member(pool, member);
        }
    }

    fn member(&mut self, pool: &PoolSnapshot, member: &Member) {
        let labels = vec![("pool", pool.name.clone()), ("worker", member.spec.address.to_string())];
        let healthy = f64::from(u8::from(member.health == Health::Healthy));
        self.gauge("worker_healthy", "1 while the worker answers health probes", &labels, healthy);
        let routable = f64::from(u8::from(member.in_table()));
        self.gauge(
            "worker_in_table",
            "1 while the worker is in the target table, so that requests may go to it",
            &labels,
            routable,
        );
        self.count("worker_restarts", "New engine processes noticed at the worker's address", &labels, member.restarts);
        for target in &member.targets {
            self.target(pool, member, target);
        }
    }

    fn target(&mut self, pool: &PoolSnapshot, member: &Member, target: &MemberTarget) {
        let rank = target.spec.rank.map(|rank| rank.to_string()).unwrap_or_default();
        let labels = vec![("pool", pool.name.clone()), ("worker", member.spec.address.to_string()), ("rank", rank)];
        let load = member.load.of(target.spec.rank);
        self.gauge("engine_running", "Requests running, as the engine last reported", &labels, f64::from(load.running));
        self.gauge("engine_waiting", "Requests waiting, as the engine last reported", &labels, f64::from(load.waiting));
        self.gauge(
            "engine_kv_usage",
            "Share of the KV cache in use, 0 to 1, as the engine last reported",
            &labels,
            f64::from(load.kv_usage),
        );
        let mut with_state = labels.clone();
        with_state.push(("state", target.source.0.as_str().to_owned()));
        let reason = pool.sources.get(&target.slot).map_or("none", |(report, _)| report.reason.as_str());
        with_state.push(("reason", reason.to_owned()));
        self.gauge("source_state", "State of the target's KV source, and why; always 1", &with_state, 1.0);
        let exact = f64::from(u8::from(target.source.0 == SourceState::Exact));
        self.gauge("source_exact", "1 while the target's KV state is exact", &labels, exact);
        if let Some((report, stats)) = pool.sources.get(&target.slot) {
            self.source(report, stats, &labels);
        }
    }

    fn source(&mut self, report: &SourceReport, stats: &StreamStats, labels: &Labels) {
        self.count("source_batches", "Batches of KV events applied to the index", labels, report.batches);
        self.count("source_events", "KV events applied to the index", labels, report.events);
        self.count("source_stored_blocks", "Blocks that applied events stored", labels, report.stored_blocks);
        self.count("source_removed_blocks", "Blocks that applied events removed", labels, report.removed_blocks);
        self.count(
            "source_unknown_removals",
            "Blocks that events removed without having stored them",
            labels,
            report.unknown_removals,
        );
        self.count("source_gaps", "Gaps noticed in the sequence numbers of event batches", labels, report.gaps);
        self.count(
            "source_checks",
            "Times the target's event history was checked against the engine's replay buffer",
            labels,
            report.checks,
        );
        self.count("source_restarts", "Restarts of the engine noticed in its events", labels, report.restarts);
        self.count(
            "source_undecodable",
            "Event batches and events that could not be decoded",
            labels,
            report.undecodable,
        );
        self.count(
            "source_unindexable",
            "Store events that cannot be indexed, such as ones without tokens",
            labels,
            report.unindexable,
        );
        self.count(
            "source_rank_mismatches",
            "Event batches that name another data-parallel rank than the stream's",
            labels,
            report.rank_mismatches,
        );
        self.count("source_losses", "Times that event batches were lost for good", labels, report.losses);
        self.count(
            "source_duplicate_batches",
            "Event batches that had been received before",
            labels,
            report.duplicate_batches,
        );
        self.count(
            "source_unknown_events",
            "Events of kinds that this release does not know",
            labels,
            report.unknown_events,
        );
        self.count(
            "source_hash_conflicts",
            "Blocks stored under an engine hash that had another meaning",
            labels,
            report.hash_conflicts,
        );
        self.count("source_clears", "Times that the engine emptied its cache", labels, report.clears);
        self.gauge(
            "source_lag_seconds",
            "Time that the last live batch waited between socket and index",
            labels,
            report.lag.unwrap_or_default().as_secs_f64(),
        );
        let parity = report.parity;
        self.count(
            "source_parity_matched",
            "Answered prompts whose blocks the engine announced: tokens are the engine's",
            labels,
            parity.matched,
        );
        self.count(
            "source_parity_missing",
            "Answered prompts whose blocks the engine did not announce",
            labels,
            parity.missing,
        );
        self.count(
            "source_parity_open",
            "Answered prompts of which events prove nothing either way",
            labels,
            parity.open,
        );
        self.gauge(
            "source_engine_blocks",
            "Engine blocks known, by the engine's own hashes",
            labels,
            report.pages as f64,
        );
        self.gauge(
            "source_bytes",
            "Estimated memory of what is known of the target's engine blocks, in bytes",
            labels,
            report.bytes as f64,
        );
        self.gauge("source_orphans", "Blocks waiting until their parent block is known", labels, report.orphans as f64);
        self.count(
            "source_orphans_dropped",
            "Blocks dropped because their parent never became known",
            labels,
            report.orphans_dropped,
        );
        self.gauge(
            "source_held_batches",
            "Event batches held back until a replay fills the gap before them",
            labels,
            report.held_batches as f64,
        );
        self.gauge(
            "stream_backlog_messages",
            "Event messages received and not yet taken by the index",
            labels,
            stats.backlog_messages as f64,
        );
        self.gauge(
            "stream_backlog_bytes",
            "Size of event messages received and not yet taken, in bytes",
            labels,
            stats.backlog_bytes as f64,
        );
        self.count("stream_dropped", "Event messages dropped because the backlog was full", labels, stats.dropped);
        self.count("stream_received", "Event messages received", labels, stats.received);
        self.count(
            "stream_connects",
            "Connections made to the event socket; of polled engines, times that polling began to work",
            labels,
            stats.connects,
        );
        self.count(
            "stream_connect_failures",
            "Failed attempts to connect to the event socket; of polled engines, failed polls",
            labels,
            stats.connect_failures,
        );
    }

    fn shadow(&mut self, shadow: &TallySummary) {
        let none = Labels::new();
        self.count(
            "shadow_requests",
            "Routed requests that the shadow policy was evaluated for",
            &none,
            shadow.requests,
        );
        self.count(
            "shadow_agreed",
            "Routed requests that the shadow policy would have sent to the same target",
            &none,
            shadow.agreed,
        );
        self.count(
            "shadow_prompt_tokens",
            "Prompt tokens of the requests that the shadow policy was evaluated for",
            &none,
            shadow.prompt_tokens,
        );
        for (policy, tokens, variation) in [
            ("live", shadow.live_hit_tokens, shadow.live_load_variation),
            ("shadow", shadow.shadow_hit_tokens, shadow.shadow_load_variation),
        ] {
            let labels = vec![("policy", policy.to_owned())];
            self.count(
                "shadow_hit_tokens",
                "Prompt tokens believed to be cached on the target that each policy chose",
                &labels,
                tokens,
            );
            let help = "Standard deviation of requests per target over their mean, by policy";
            self.gauge("shadow_load_variation", help, &labels, variation);
        }
    }

    fn envoy(&mut self, envoy: &EnvoyStatus) {
        for state in LinkState::ALL {
            let labels = vec![("envoy", envoy.name.clone()), ("state", state.as_str().to_owned())];
            let on = f64::from(u8::from(envoy.state == state));
            self.gauge(
                "envoy_state",
                "1 for the state that pushing to this Envoy is in, 0 for the others",
                &labels,
                on,
            );
        }
        let mut bookings: BTreeMap<TargetId, Booking> = BTreeMap::new();
        for entry in envoy.load_rows.iter().flat_map(|(_, row)| &row.entries) {
            let sum = bookings.entry(entry.target).or_default();
            sum.requests = sum.requests.saturating_add(entry.booking.requests);
            sum.prefill_tokens = sum.prefill_tokens.saturating_add(entry.booking.prefill_tokens);
            sum.decode_blocks = sum.decode_blocks.saturating_add(entry.booking.decode_blocks);
            sum.failures = sum.failures.saturating_add(entry.booking.failures);
        }
        for (target, booking) in bookings {
            let labels = vec![("envoy", envoy.name.clone()), ("target", target.to_string())];
            let Booking { requests, prefill_tokens, decode_blocks, failures, peak_requests: _ } = booking;
            self.gauge(
                "booked_requests",
                "Requests this Envoy has under way on the target",
                &labels,
                f64::from(requests),
            );
            self.gauge(
                "booked_prefill_tokens",
                "Uncached prompt tokens of this Envoy's requests on the target, before their first byte",
                &labels,
                prefill_tokens as f64,
            );
            self.gauge(
                "booked_decode_blocks",
                "KV blocks of this Envoy's requests on the target",
                &labels,
                decode_blocks as f64,
            );
            self.gauge(
                "booked_failures",
                "Requests of this Envoy that failed on the target since its threads started",
                &labels,
                f64::from(failures),
            );
        }
    }
}
