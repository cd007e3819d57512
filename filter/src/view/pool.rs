//! A pool with its target table.

use kv_routing::block::BlockSize;
use kv_routing::wire::{Epoch, PoolManifest, TargetEntry, TargetTable, keys};

use crate::counters::{Counter, Counters};
use crate::host::{Host, Severity};

/// One pool as of one generation.
#[derive(Debug)]
pub struct Pool {
    /// What the manifest says of it.
    pub manifest: PoolManifest,
    /// Epoch its pages must have.
    pub epoch: Epoch,
    /// Its targets; empty when the table is missing or cannot be read.
    pub targets: Vec<TargetEntry>,
}

/// Where a model name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serves {
    /// Position of the pool.
    pub pool: usize,
    /// Whether the name is an adapter's.
    pub adapter: bool,
}

impl Pool {
    /// Reads the pool's target table.
    pub fn load(host: &impl Host, counters: &Counters, manifest: PoolManifest, epoch: Epoch) -> Self {
        let targets = match host.shared(&keys::targets(manifest.id)).value.map(|bytes| TargetTable::decode(&bytes)) {
            Some(Ok(table)) => table.targets,
            Some(Err(error)) => {
                counters.count(host, Counter::ViewErrors);
                host.log(Severity::Warn, &format!("kv-router: target table of pool {}: {error}", manifest.name));
                Vec::new()
            }
            None => Vec::new(),
        };
        Self { manifest, epoch, targets }
    }

    /// Names the pool, which is at `position`, is known by.
    pub fn served(&self, position: usize) -> impl Iterator<Item = (String, Serves)> + '_ {
        let name = move |adapter| move |name: &String| (name.clone(), Serves { pool: position, adapter });
        self.manifest.adapters.iter().map(name(true)).chain(self.manifest.models.iter().map(name(false)))
    }

    /// Tokens per block, once known.
    pub fn block_size(&self) -> Option<BlockSize> {
        self.manifest.block_size()
    }
}
