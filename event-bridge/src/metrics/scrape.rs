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
        self.gauge("index_blocks", "Distinct blocks in the index", &labels, index.blocks as f64);
        self.gauge("index_runs", "Runs in the index", &labels, index.runs as f64);
        self.gauge("index_holder_blocks", "Blocks times targets that hold them", &labels, index.holder_blocks as f64);
        self.gauge("index_pages", "Pages of the page set", &labels, index.pages as f64);
        self.gauge("index_max_blocks", "Most distinct blocks it may have", &labels, pool.max_blocks as f64);
        self.gauge("index_page_bytes", "Estimated size of all pages", &labels, index.page_bytes as f64);
        self.gauge("index_bytes", "Estimated memory of the index", &labels, index.bytes as f64);
        self.count("index_evicted_blocks", "Blocks dropped to stay in bounds", &labels, index.evicted_blocks);
        let block_size = pool.block_size.map_or(0, |size| size.tokens());
        self.gauge("block_size_tokens", "Block size learned from events; 0: none yet", &labels, f64::from(block_size));
        let disagrees = pool.block_size.is_some_and(|size| pool.expected_block_size.is_some_and(|want| want != size));
        self.gauge("block_size_mismatch", "Learned and configured size differ", &labels, flag(disagrees));
        let refused = flag(pool.workers_error.is_some());
        self.gauge("workers_file_refused", "The workers file in place is refused", &labels, refused);
        self.count("workers_files_refused", "Workers files refused", &labels, pool.counters.refused_workers);
        let failed = flag(pool.eds_error.is_some());
        self.gauge("endpoint_file_failed", "The endpoint file cannot be written", &labels, failed);
        let loaded = flag(matches!(pool.tokenizer, TokenizerStatus::Loaded(_) | TokenizerStatus::NotConfigured));
        let by_bridge = flag(matches!(pool.tokenizer, TokenizerStatus::Bridge(_)));
        self.gauge(
            "tokenizer_by_bridge",
            "Prompts are tokenized by the bridge, as the filter cannot",
            &labels,
            by_bridge,
        );
        self.gauge("tokenizer_ready", "The tokenizer is in use, or none is configured", &labels, loaded);
        self.count("decisions", "Routing decisions reported by Envoys", &labels, pool.counters.decisions);
        self.count("decision_prompt_tokens", "Their prompt tokens", &labels, pool.counters.prompt_tokens);
        let predicted = pool.counters.predicted_blocks;
        self.count("decision_predicted_blocks", "Blocks they expected to find cached", &labels, predicted);
        self.count("targets_without_slot", "Targets left out: slots ran out", &labels, pool.counters.slotless);
        for member in &pool.members {
            self.member(pool, member);
        }
    }

    fn member(&mut self, pool: &PoolSnapshot, member: &Member) {
        let labels = vec![("pool", pool.name.clone()), ("worker", member.spec.address.to_string())];
        let healthy = f64::from(u8::from(member.health == Health::Healthy));
        self.gauge("worker_healthy", "The worker answers health probes", &labels, healthy);
        let routable = f64::from(u8::from(member.in_table()));
        self.gauge("worker_in_table", "The worker is in the target table", &labels, routable);
        self.count("worker_restarts", "New engine processes noticed", &labels, member.restarts);
        for target in &member.targets {
            self.target(pool, member, target);
        }
    }

    fn target(&mut self, pool: &PoolSnapshot, member: &Member, target: &MemberTarget) {
        let rank = target.spec.rank.map(|rank| rank.to_string()).unwrap_or_default();
        let labels = vec![("pool", pool.name.clone()), ("worker", member.spec.address.to_string()), ("rank", rank)];
        let load = member.load.of(target.spec.rank);
        self.gauge("engine_running", "Requests the engine runs", &labels, f64::from(load.running));
        self.gauge("engine_waiting", "Requests waiting in the engine", &labels, f64::from(load.waiting));
        self.gauge("engine_kv_usage", "Share of the engine's cache in use", &labels, f64::from(load.kv_usage));
        let mut with_state = labels.clone();
        with_state.push(("state", target.source.0.as_str().to_owned()));
        let reason = pool.sources.get(&target.slot).map_or("none", |(report, _)| report.reason.as_str());
        with_state.push(("reason", reason.to_owned()));
        self.gauge("source_state", "State of the target's KV source, and why; always 1", &with_state, 1.0);
        let exact = f64::from(u8::from(target.source.0 == SourceState::Exact));
        self.gauge("source_exact", "The target's KV source is exact", &labels, exact);
        if let Some((report, stats)) = pool.sources.get(&target.slot) {
            self.source(report, stats, &labels);
        }
    }

    fn source(&mut self, report: &SourceReport, stats: &StreamStats, labels: &Labels) {
        self.count("source_batches", "Event batches applied", labels, report.batches);
        self.count("source_events", "Events applied", labels, report.events);
        self.count("source_stored_blocks", "Blocks stored", labels, report.stored_blocks);
        self.count("source_removed_blocks", "Blocks removed", labels, report.removed_blocks);
        self.count("source_unknown_removals", "Removals of unknown blocks", labels, report.unknown_removals);
        self.count("source_gaps", "Missing sequence numbers noticed", labels, report.gaps);
        self.count("source_checks", "Checks against the replay buffer", labels, report.checks);
        self.count("source_restarts", "New incarnations of the engine", labels, report.restarts);
        self.count("source_undecodable", "Batches and events that did not decode", labels, report.undecodable);
        self.count("source_unindexable", "Stores that cannot be indexed", labels, report.unindexable);
        self.count("source_rank_mismatches", "Batches of another rank", labels, report.rank_mismatches);
        let parity = report.parity;
        self.count("source_parity_matched", "Answered prompts whose blocks were announced", labels, parity.matched);
        self.count("source_parity_missing", "Answered prompts whose blocks were not", labels, parity.missing);
        self.count("source_parity_open", "Answered prompts nothing can be said about", labels, parity.open);
        self.gauge("source_engine_blocks", "Engine blocks known", labels, report.pages as f64);
        self.gauge("source_bytes", "Estimated memory of what is known of them", labels, report.bytes as f64);
        self.gauge("source_orphans", "Blocks waiting for their parents", labels, report.orphans as f64);
        self.count("source_orphans_dropped", "Such blocks dropped", labels, report.orphans_dropped);
        self.gauge("source_held_batches", "Batches waiting for a replay", labels, report.held_batches as f64);
        self.gauge("stream_backlog_messages", "Messages not yet taken", labels, stats.backlog_messages as f64);
        self.gauge("stream_backlog_bytes", "Their size", labels, stats.backlog_bytes as f64);
        self.count("stream_dropped", "Messages dropped: the backlog was full", labels, stats.dropped);
        self.count("stream_received", "Messages received", labels, stats.received);
        self.count("stream_connects", "Connections made", labels, stats.connects);
        self.count("stream_connect_failures", "Failed attempts to connect", labels, stats.connect_failures);
    }

    fn shadow(&mut self, shadow: &TallySummary) {
        let none = Labels::new();
        self.count("shadow_requests", "Routed requests that the shadow policy looked at", &none, shadow.requests);
        self.count("shadow_agreed", "Those it would have sent to the same target", &none, shadow.agreed);
        self.count("shadow_prompt_tokens", "Their prompt tokens", &none, shadow.prompt_tokens);
        for (policy, tokens, variation) in [
            ("live", shadow.live_hit_tokens, shadow.live_load_variation),
            ("shadow", shadow.shadow_hit_tokens, shadow.shadow_load_variation),
        ] {
            let labels = vec![("policy", policy.to_owned())];
            self.count(
                "shadow_hit_tokens",
                "Tokens believed to be cached on the target of each policy",
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
            self.gauge("envoy_state", "How pushing to the Envoy goes: 1 for the state it is in", &labels, on);
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
            self.gauge("booked_requests", "Requests under way", &labels, f64::from(requests));
            self.gauge("booked_prefill_tokens", "Their uncached prompt tokens", &labels, prefill_tokens as f64);
            self.gauge("booked_decode_blocks", "Their prompt blocks", &labels, decode_blocks as f64);
            self.gauge("booked_failures", "Failures since the VMs started", &labels, f64::from(failures));
        }
    }
}
