//! What is read off state when a scrape asks.

mod envoy;
mod pool;
mod shadow;
mod source;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::live::{Labels, Metrics};
use crate::policy::TallySummary;
use crate::pool::PoolSnapshot;
use crate::publish::EnvoyStatus;

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

/// Name, help and value of a metric.
type Row<T> = (&'static str, &'static str, T);

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

    fn gauges<const N: usize>(&mut self, labels: &Labels, rows: [Row<f64>; N]) {
        for (name, help, value) in rows {
            self.gauge(name, help, labels, value);
        }
    }

    fn counts<const N: usize>(&mut self, labels: &Labels, rows: [Row<u64>; N]) {
        for (name, help, value) in rows {
            self.count(name, help, labels, value);
        }
    }
}

/// A gauge that is on or off.
fn flag(on: bool) -> f64 {
    f64::from(u8::from(on))
}
