//! The ranks as tasks: each drives one scheduler through time and publishes its events.

mod clock;
mod driver;
mod rank;
#[cfg(test)]
mod tests;
mod ticket;
mod tracked;

pub use rank::{Rank, RankConfig};
pub use ticket::{Submission, Ticket};
