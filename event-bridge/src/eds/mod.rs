//! The endpoint file of an Envoy cluster: one `ClusterLoadAssignment` in a `DiscoveryResponse`, as JSON.
//!
//! Envoy reacts to renames only, so the file is written beside itself and renamed, and only when its content changes.
//! Endpoints carry no health: that is Envoy's business. Only a worker that is leaving on purpose is marked as draining.

mod render;
mod write;

pub use render::{Endpoint, render};
pub use write::{EdsError, EdsFile};
