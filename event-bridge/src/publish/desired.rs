//! What every Envoy should hold, pages excepted: set by pools and policy, read by publishers.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use kv_routing::block::TokenId;
use kv_routing::wire::{PoolId, PoolManifest, TokenizerRef};
use tokio::sync::watch;

use super::wake::Wakes;

/// Everything but pages.
#[derive(Clone, Debug)]
pub struct Desired {
    /// By pool number; `None` until the pool has said what it is.
    pub pools: Vec<Option<Arc<PoolView>>>,
    /// The policy document in force.
    pub policy: Option<PolicyView>,
}

/// What one pool wants Envoys to hold.
#[derive(Clone, Debug)]
pub struct PoolView {
    /// Manifest entry. The publisher replaces `page_bits` and `tokenizer` by what the Envoy already holds.
    pub manifest: PoolManifest,
    /// Encoded target table.
    pub table: Bytes,
    /// Grows with every change of the table; never 0.
    pub table_version: u64,
    /// Compiled tokenizer.
    pub tokenizer: Option<Arc<TokenizerParts>>,
    /// Workers were probed, streams synchronized and the tokenizer loaded, or have shown that they will not be soon.
    /// A new bridge does not replace what its predecessor left in an Envoy before its pools are settled.
    pub settled: bool,
}

/// A compiled tokenizer, cut to pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerParts {
    /// Its name in the manifest.
    pub reference: TokenizerRef,
    /// Pieces of at most 1 MiB, in order.
    pub parts: Vec<Bytes>,
    /// Ids of added tokens, which the bridge itself wants to know.
    pub added: BTreeSet<TokenId>,
}

/// A policy document as Envoys get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyView {
    /// Grows with every change; never 0.
    pub version: u64,
    /// Its compiled form.
    pub bytes: Bytes,
}

/// Where pools and policy say what Envoys should hold. Clones share the state.
#[derive(Clone, Debug)]
pub struct Catalog {
    desired: Arc<watch::Sender<Desired>>,
    wakes: Wakes,
}

impl Catalog {
    /// A catalog of `pools` pools that have said nothing yet.
    pub fn new(pools: usize, wakes: Wakes) -> Self {
        let desired = watch::Sender::new(Desired { pools: vec![None; pools], policy: None });
        Self { desired: Arc::new(desired), wakes }
    }

    /// Replaces what a pool wants, and wakes publishers.
    pub fn set_pool(&self, pool: PoolId, view: PoolView) {
        self.desired.send_modify(|desired| {
            if let Some(entry) = desired.pools.get_mut(usize::from(pool.0)) {
                *entry = Some(Arc::new(view));
            }
        });
        self.wakes.wake_all();
    }

    /// Replaces the policy document, and wakes publishers.
    pub fn set_policy(&self, policy: PolicyView) {
        self.desired.send_modify(|desired| desired.policy = Some(policy));
        self.wakes.wake_all();
    }

    /// What is wanted now.
    pub fn desired(&self) -> Desired {
        self.desired.borrow().clone()
    }
}
