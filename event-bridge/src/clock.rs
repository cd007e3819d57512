//! Wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use kv_routing::wire::UnixMillis;

/// Now. A clock before 1970 reads as 1970.
pub fn unix_millis() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
