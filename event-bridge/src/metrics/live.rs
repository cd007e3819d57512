//! What is counted as it happens.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

pub(super) type Labels = Vec<(&'static str, String)>;

type Counters = Family<Labels, Counter>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// Counters of pushes, and how long things take.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pushes: Counters,
    push_bytes: Counters,
    push_pages: Counters,
    push_failures: Counters,
    snapshots: Counters,
    decisions_dropped: Counters,
    prompts_refused: Counters,
    tokenize_seconds: Histograms,
    push_seconds: Histograms,
    routable_seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("kv_bridge"),
            pushes: Counters::default(),
            push_bytes: Counters::default(),
            push_pages: Counters::default(),
            push_failures: Counters::default(),
            snapshots: Counters::default(),
            decisions_dropped: Counters::default(),
            prompts_refused: Counters::default(),
            tokenize_seconds: Histograms::new_with_constructor(seconds),
            push_seconds: Histograms::new_with_constructor(seconds),
            routable_seconds: seconds(),
        };
        metrics.registered()
    }
}

/// 0.25 ms to about 8 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 16))
}

fn of(envoy: &str) -> Labels {
    vec![("envoy", envoy.to_owned())]
}

impl Metrics {
    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register("pushes", "Pushes that an Envoy acknowledged", self.pushes.clone());
        registry.register_with_unit("push", "Size of acknowledged pushes", Unit::Bytes, self.push_bytes.clone());
        registry.register("push_pages", "Index pages in acknowledged pushes", self.push_pages.clone());
        registry.register("push_failures", "Pushes that failed, by kind of failure", self.push_failures.clone());
        registry.register("snapshots", "Times an Envoy asked for everything", self.snapshots.clone());
        registry.register(
            "decisions_dropped",
            "Routing decisions that an Envoy or a busy pool dropped",
            self.decisions_dropped.clone(),
        );
        registry.register(
            "prompts_refused",
            "Prompts that a filter asked for and that could not be tokenized",
            self.prompts_refused.clone(),
        );
        registry.register_with_unit(
            "tokenize",
            "Time from a filter's request for tokens to the answer",
            Unit::Seconds,
            self.tokenize_seconds.clone(),
        );
        registry.register_with_unit(
            "push_duration",
            "Time from sending a push to its reply",
            Unit::Seconds,
            self.push_seconds.clone(),
        );
        registry.register_with_unit(
            "event_to_routable",
            "Time from receiving an engine's event to an Envoy routing by it, oldest event of each push",
            Unit::Seconds,
            self.routable_seconds.clone(),
        );
        self
    }

    /// What was counted.
    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A push was acknowledged after `took`.
    pub fn pushed(&self, envoy: &str, bytes: usize, pages: u64, took: Duration) {
        let labels = of(envoy);
        self.pushes.get_or_create(&labels).inc();
        self.push_bytes.get_or_create(&labels).inc_by(bytes as u64);
        self.push_pages.get_or_create(&labels).inc_by(pages);
        self.push_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A push failed.
    pub fn push_failed(&self, envoy: &str, kind: &'static str) {
        let labels = vec![("envoy", envoy.to_owned()), ("kind", kind.to_owned())];
        self.push_failures.get_or_create(&labels).inc();
    }

    /// An Envoy asked for everything.
    pub fn snapshot(&self, envoy: &str) {
        self.snapshots.get_or_create(&of(envoy)).inc();
    }

    /// An event became routable.
    pub fn routable(&self, after: Duration) {
        self.routable_seconds.observe(after.as_secs_f64());
    }

    /// A prompt was tokenized for a filter.
    pub fn tokenized(&self, pool: &str, took: Duration) {
        self.tokenize_seconds.get_or_create(&vec![("pool", pool.to_owned())]).observe(took.as_secs_f64());
    }

    /// A prompt could not be tokenized.
    pub fn prompt_refused(&self, pool: &str) {
        self.prompts_refused.get_or_create(&vec![("pool", pool.to_owned())]).inc();
    }

    /// Decisions were dropped.
    pub fn decisions_dropped(&self, envoy: &str, count: u64) {
        self.decisions_dropped.get_or_create(&of(envoy)).inc_by(count);
    }
}
