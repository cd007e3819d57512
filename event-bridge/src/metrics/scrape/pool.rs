//! A pool, its workers and their targets.

use kv_routing::wire::{Health, SourceState};

use super::{Scrape, flag};
use crate::cross_check::Outcome;
use crate::metrics::live::Labels;
use crate::pool::{Member, MemberTarget, PoolSnapshot, TokenizerStatus};

impl Scrape {
    pub(super) fn pool(&mut self, pool: &PoolSnapshot) {
        let labels = &vec![("pool", pool.name.clone())];
        self.index(pool, labels);
        self.block_size(pool, labels);
        self.files(pool, labels);
        self.tokenizer(pool, labels);
        self.decisions(pool, labels);
        for member in &pool.members {
            self.member(pool, member);
        }
    }

    fn index(&mut self, pool: &PoolSnapshot, labels: &Labels) {
        let index = pool.index;
        self.count(
            "index_evicted_blocks",
            "Blocks dropped from the index to stay within limits.max_blocks",
            labels,
            index.evicted_blocks,
        );
        self.gauges(
            labels,
            [
                ("index_blocks", "Distinct blocks in the pool's index", index.blocks as f64),
                ("index_runs", "Runs (unbranched chains of blocks) in the pool's index", index.runs as f64),
                (
                    "index_holder_blocks",
                    "Sum over the index's blocks of the targets that hold each",
                    index.holder_blocks as f64,
                ),
                ("index_pages", "Pages the pool's index is published in", index.pages as f64),
                (
                    "index_max_blocks",
                    "Most distinct blocks the pool's index may have (limits.max_blocks)",
                    pool.max_blocks as f64,
                ),
                (
                    "index_page_bytes",
                    "Estimated size of all published pages of the pool, in bytes",
                    index.page_bytes as f64,
                ),
                ("index_bytes", "Estimated memory of the pool's index in the bridge, in bytes", index.bytes as f64),
            ],
        );
    }

    fn block_size(&mut self, pool: &PoolSnapshot, labels: &Labels) {
        let block_size = pool.block_size.map_or(0, |size| size.tokens());
        let disagrees = pool.block_size.is_some_and(|size| pool.expected_block_size.is_some_and(|want| want != size));
        self.gauges(
            labels,
            [
                (
                    "block_size_tokens",
                    "Tokens per block, learned from the engines' events; 0: none yet",
                    f64::from(block_size),
                ),
                (
                    "block_size_mismatch",
                    "1 while the block size learned from events differs from the configured one",
                    flag(disagrees),
                ),
            ],
        );
    }

    /// Files that are watched and written.
    fn files(&mut self, pool: &PoolSnapshot, labels: &Labels) {
        let refused = pool.counters.refused_workers;
        self.count("workers_files_refused", "Versions of the workers file that were refused", labels, refused);
        self.gauges(
            labels,
            [
                (
                    "workers_file_refused",
                    "1 while the latest workers file is refused and the one before is in force",
                    flag(pool.workers_error.is_some()),
                ),
                (
                    "endpoint_file_failed",
                    "1 while Envoy's endpoint file cannot be written",
                    flag(pool.eds_error.is_some()),
                ),
            ],
        );
    }

    fn tokenizer(&mut self, pool: &PoolSnapshot, labels: &Labels) {
        let loaded = matches!(pool.tokenizer, TokenizerStatus::Loaded(_) | TokenizerStatus::NotConfigured);
        self.gauges(
            labels,
            [
                (
                    "tokenizer_by_bridge",
                    "1 while the bridge tokenizes this pool's prompts, since the filter cannot",
                    flag(matches!(pool.tokenizer, TokenizerStatus::Bridge(_))),
                ),
                (
                    "tokenizer_without_chats",
                    "1 while no chat of this pool's model can be rendered exactly, see /workers",
                    flag(pool.chats_problem.is_some()),
                ),
                ("tokenizer_ready", "1 while the filter has the pool's tokenizer, or none is configured", flag(loaded)),
            ],
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
    }

    fn decisions(&mut self, pool: &PoolSnapshot, labels: &Labels) {
        self.counts(
            labels,
            [
                ("decisions", "Routing decisions of this pool reported by Envoys", pool.counters.decisions),
                ("decision_prompt_tokens", "Prompt tokens of all reported decisions", pool.counters.prompt_tokens),
                (
                    "decision_predicted_blocks",
                    "Prompt blocks that reported decisions expected to find cached on their target",
                    pool.counters.predicted_blocks,
                ),
                (
                    "targets_without_slot",
                    "Targets left out of the table because all slots are taken",
                    pool.counters.slotless,
                ),
            ],
        );
    }

    fn member(&mut self, pool: &PoolSnapshot, member: &Member) {
        let labels = vec![("pool", pool.name.clone()), ("worker", member.spec.address.to_string())];
        let healthy = flag(member.health == Health::Healthy);
        self.gauge("worker_healthy", "1 while the worker answers health probes", &labels, healthy);
        let routable = flag(member.in_table());
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
        let exact = flag(target.source.0 == SourceState::Exact);
        self.gauge("source_exact", "1 while the target's KV state is exact", &labels, exact);
        if let Some((report, stats)) = pool.sources.get(&target.slot) {
            self.source(report, stats, &labels);
        }
    }
}
