//! The ranks as tasks: each drives one scheduler through time and publishes its events.

mod clock;
mod rank;
#[cfg(test)]
mod tests;
mod tracked;

pub use rank::{Rank, RankConfig, Submission, Ticket};
