//! Pushing to Envoys: one task per Envoy, each with its own idea of what that Envoy holds.
//!
//! | file | what |
//! |---|---|
//! | `desired` | what every Envoy should hold, set by pools |
//! | `link` | what one Envoy holds, what to send next, in what order; pure |
//! | `draft` | one push in the making |
//! | `task` | the loop: wait, ask pools for pages, push |
//! | `reply` | what replies and failures mean for what is sent next |
//! | `client` | HTTP over a Unix socket or TCP |
//! | `pace` | gathering and backing off |

mod client;
mod desired;
mod draft;
mod error;
mod link;
#[cfg(test)]
mod link_tests;
mod pace;
mod reply;
mod status;
mod task;
mod wake;

pub use desired::{Catalog, Desired, PolicyView, PoolView, TokenizerParts};
pub use error::PushError;
#[cfg(test)]
pub(crate) use status::test_status;
pub use status::{EnvoyStatus, LinkState};
pub use task::Publisher;
pub use wake::{EnvoyIndex, Wakes};
