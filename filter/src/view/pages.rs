//! Index pages out of shared data.

use kv_routing::index::PageSource;
use kv_routing::wire::{PoolId, keys};

use crate::host::Host;

/// Pages of one pool's page set.
#[derive(Debug)]
pub struct SharedPages<'a, H> {
    /// Where they lie.
    pub host: &'a H,
    /// Pool.
    pub pool: PoolId,
    /// Page set.
    pub page_bits: u8,
}

impl<H: Host> PageSource for SharedPages<'_, H> {
    fn page(&mut self, page: u32) -> Option<Vec<u8>> {
        self.host.shared(&keys::page(self.pool, self.page_bits, page)).value
    }
}
