//! A target's event source.

use super::Scrape;
use crate::ingest::SourceReport;
use crate::metrics::live::Labels;
use crate::stream::StreamStats;

impl Scrape {
    pub(super) fn source(&mut self, report: &SourceReport, stats: &StreamStats, labels: &Labels) {
        self.applied_events(report, labels);
        self.event_faults(report, labels);
        self.parity(report, labels);
        self.memory(report, labels);
        self.stream(stats, labels);
    }

    fn applied_events(&mut self, report: &SourceReport, labels: &Labels) {
        self.counts(
            labels,
            [
                ("source_batches", "Batches of KV events applied to the index", report.batches),
                ("source_events", "KV events applied to the index", report.events),
                ("source_stored_blocks", "Blocks that applied events stored", report.stored_blocks),
                ("source_removed_blocks", "Blocks that applied events removed", report.removed_blocks),
                (
                    "source_checks",
                    "Times the target's event history was checked against the engine's replay buffer",
                    report.checks,
                ),
                ("source_restarts", "Restarts of the engine noticed in its events", report.restarts),
                ("source_clears", "Times that the engine emptied its cache", report.clears),
            ],
        );
    }

    fn event_faults(&mut self, report: &SourceReport, labels: &Labels) {
        self.counts(
            labels,
            [
                (
                    "source_unknown_removals",
                    "Blocks that events removed without having stored them",
                    report.unknown_removals,
                ),
                ("source_gaps", "Gaps noticed in the sequence numbers of event batches", report.gaps),
                ("source_undecodable", "Event batches and events that could not be decoded", report.undecodable),
                (
                    "source_unindexable",
                    "Store events that cannot be indexed, such as ones without tokens",
                    report.unindexable,
                ),
                (
                    "source_rank_mismatches",
                    "Event batches that name another data-parallel rank than the stream's",
                    report.rank_mismatches,
                ),
                ("source_losses", "Times that event batches were lost for good", report.losses),
                ("source_duplicate_batches", "Event batches that had been received before", report.duplicate_batches),
                ("source_unknown_events", "Events of kinds that this release does not know", report.unknown_events),
                (
                    "source_hash_conflicts",
                    "Blocks stored under an engine hash that had another meaning",
                    report.hash_conflicts,
                ),
            ],
        );
    }

    fn parity(&mut self, report: &SourceReport, labels: &Labels) {
        let parity = report.parity;
        self.counts(
            labels,
            [
                (
                    "source_parity_matched",
                    "Answered prompts whose blocks the engine announced: tokens are the engine's",
                    parity.matched,
                ),
                ("source_parity_missing", "Answered prompts whose blocks the engine did not announce", parity.missing),
                ("source_parity_open", "Answered prompts of which events prove nothing either way", parity.open),
            ],
        );
    }

    /// What is known of the engine's blocks, and what waits.
    fn memory(&mut self, report: &SourceReport, labels: &Labels) {
        self.count(
            "source_orphans_dropped",
            "Blocks dropped because their parent never became known",
            labels,
            report.orphans_dropped,
        );
        self.gauges(
            labels,
            [
                (
                    "source_lag_seconds",
                    "Time that the last live batch waited between socket and index",
                    report.lag.unwrap_or_default().as_secs_f64(),
                ),
                ("source_engine_blocks", "Engine blocks known, by the engine's own hashes", report.pages as f64),
                (
                    "source_bytes",
                    "Estimated memory of what is known of the target's engine blocks, in bytes",
                    report.bytes as f64,
                ),
                ("source_orphans", "Blocks waiting until their parent block is known", report.orphans as f64),
                (
                    "source_held_batches",
                    "Event batches held back until a replay fills the gap before them",
                    report.held_batches as f64,
                ),
            ],
        );
    }

    fn stream(&mut self, stats: &StreamStats, labels: &Labels) {
        self.counts(
            labels,
            [
                ("stream_dropped", "Event messages dropped because the backlog was full", stats.dropped),
                ("stream_received", "Event messages received", stats.received),
                (
                    "stream_connects",
                    "Connections made to the event socket; of polled engines, times that polling began to work",
                    stats.connects,
                ),
                (
                    "stream_connect_failures",
                    "Failed attempts to connect to the event socket; of polled engines, failed polls",
                    stats.connect_failures,
                ),
            ],
        );
        self.gauges(
            labels,
            [
                (
                    "stream_backlog_messages",
                    "Event messages received and not yet taken by the index",
                    stats.backlog_messages as f64,
                ),
                (
                    "stream_backlog_bytes",
                    "Size of event messages received and not yet taken, in bytes",
                    stats.backlog_bytes as f64,
                ),
            ],
        );
    }
}
