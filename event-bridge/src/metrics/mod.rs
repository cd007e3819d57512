//! Prometheus metrics, all named `kv_bridge_*`. Counts of pushes are kept here as they happen; everything else is read
//! off the pools' and Envoys' state when a scrape asks.

mod live;
mod scrape;

pub use live::Metrics;
pub use scrape::text;
