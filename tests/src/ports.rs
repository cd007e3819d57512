//! Ports for processes that must be told one before they start.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range the kernel takes ports of outgoing connections from, so that none can come in between.
const FIRST: u32 = 20_000;
const COUNT: u32 = 10_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port of loopback that nothing listens on and that this process has not given away before.
pub fn free() -> u16 {
    for _ in 0..COUNT {
        // Processes that run at the same time begin at different places.
        let offset = std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + offset % COUNT).expect("below 65536");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT)
}
