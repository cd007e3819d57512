//! What one Envoy holds, and what it should be sent next. No sockets and no clock.
//!
//! Two modes. While *filling*, everything is sent in pieces that any Envoy accepts, and the manifest last, when all of
//! it has arrived: an Envoy never routes by half a state. Then *steady*: every push may carry new tables, policy,
//! tokenizer parts and pages, and ends with the manifest, which is the heartbeat too. The manifest names a page set or
//! a tokenizer only once the Envoy has acknowledged all of it; until then it names the one before.

use std::collections::HashMap;

use bytes::Bytes;
use kv_routing::wire::{
    Epoch, Generation, Manifest, ManifestHeader, PoolId, PoolManifest, TokenizerRef, UnixMillis, WireError, keys,
};

use super::desired::{Desired, PoolView};
use super::draft::Draft;

/// State of one Envoy as far as acknowledged.
#[derive(Debug)]
pub(super) struct Link {
    epoch: Epoch,
    generation: u64,
    filling: bool,
    pools: Vec<PoolLink>,
    policy: u64,
    /// Parts acknowledged, by tokenizer.
    tokenizers: HashMap<u64, u32>,
    /// What the last manifest said that may have arrived.
    sent: Option<Covered>,
    /// What the manifest in place says.
    covered: Option<Covered>,
}

#[derive(Clone, Debug, Default)]
struct PoolLink {
    table: u64,
    /// The newest page set that arrived whole.
    page_bits: Option<u8>,
    /// The tokenizer the manifest in place names.
    tokenizer: Option<TokenizerRef>,
}

/// Everything a VM takes over when the generation changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Covered {
    pools: Vec<PoolManifest>,
    /// Table version by pool; 0 for a pool that is not in the manifest.
    pub(super) tables: Vec<u64>,
    /// Version of the policy document.
    pub(super) policy: u64,
}

impl Covered {
    /// Ids of the tokenizers that the manifest names.
    pub(super) fn tokenizers(&self) -> Vec<u64> {
        self.pools.iter().filter_map(|pool| Some(pool.tokenizer?.id)).collect()
    }
}

impl Link {
    /// Nothing is known of what the Envoy holds, so it is filled.
    pub(super) fn new(epoch: Epoch, pools: usize) -> Self {
        Self {
            epoch,
            generation: 0,
            filling: true,
            pools: vec![PoolLink::default(); pools],
            policy: 0,
            tokenizers: HashMap::new(),
            sent: None,
            covered: None,
        }
    }

    /// The Envoy holds nothing of ours. The generation goes on, so that a VM never takes new state for old.
    pub(super) fn forget(&mut self) {
        let generation = self.generation;
        *self = Self { generation, ..Self::new(self.epoch, self.pools.len()) };
    }

    /// Whether the Envoy has no complete state yet.
    pub(super) fn filling(&self) -> bool {
        self.filling
    }

    /// What the manifest in place says.
    pub(super) fn covered(&self) -> Option<&Covered> {
        self.covered.as_ref()
    }

    /// A push with whatever of tables, policy and tokenizers has not arrived yet, as far as it fits.
    pub(super) fn draft(&self, desired: &Desired) -> Draft {
        let mut draft = Draft::default();
        for (at, view) in present(desired) {
            let arrived = self.pools.get(at).map_or(0, |pool| pool.table);
            if arrived == view.table_version {
                continue;
            }
            if draft.fits(&view.table) {
                draft.put(keys::targets(pool_id(at)), view.table.clone());
                draft.tables.push((at, view.table_version));
            } else {
                draft.more = true;
            }
        }
        if let Some(policy) = &desired.policy
            && policy.version != self.policy
        {
            if draft.fits(&policy.bytes) {
                draft.put(keys::POLICY.to_owned(), policy.bytes.clone());
                draft.policy = Some(policy.version);
            } else {
                draft.more = true;
            }
        }
        self.add_tokenizers(desired, &mut draft);
        draft
    }

    fn add_tokenizers(&self, desired: &Desired, draft: &mut Draft) {
        for tokenizer in present(desired).filter_map(|(_, view)| view.tokenizer.as_ref()) {
            let id = tokenizer.reference.id;
            let arrived = self.tokenizers.get(&id).copied().unwrap_or(0);
            for (part, bytes) in (0_u32..).zip(&tokenizer.parts).skip(arrived as usize) {
                if draft.parts.contains(&(id, part)) {
                    continue;
                }
                if !draft.fits(bytes) {
                    draft.more = true;
                    return;
                }
                draft.put(keys::tokenizer(id, part), bytes.clone());
                draft.parts.push((id, part));
            }
        }
    }

    /// Takes note of the page set a pool sends from, and adds pages of it.
    pub(super) fn add_pages(
        &mut self,
        draft: &mut Draft,
        pool: usize,
        page_bits: u8,
        complete: bool,
        pages: Vec<(u32, Bytes)>,
    ) {
        if let Some(link) = self.pools.get_mut(pool)
            && complete
        {
            link.page_bits = Some(page_bits);
        }
        draft.pages += pages.len() as u64;
        for (page, bytes) in pages {
            draft.put(keys::page(pool_id(pool), page_bits, page), bytes);
        }
    }

    /// Ends the push with the manifest, unless it would name what has not arrived. Returns whether it says something
    /// new.
    ///
    /// # Errors
    /// [`WireError`] when the manifest cannot be encoded.
    pub(super) fn add_manifest(
        &mut self,
        draft: &mut Draft,
        desired: &Desired,
        now: UnixMillis,
    ) -> Result<bool, WireError> {
        let Some(covered) = self.coverable(draft, desired) else { return Ok(false) };
        let news = self.sent.as_ref() != Some(&covered);
        if news {
            // Counted even if the push gets lost: it may have arrived all the same.
            self.generation += 1;
            self.sent = Some(covered.clone());
        }
        let header = ManifestHeader { epoch: self.epoch, generation: Generation(self.generation), heartbeat: now };
        let manifest = Manifest { header, pools: covered.pools.clone(), policy_version: covered.policy };
        draft.put(keys::MANIFEST.to_owned(), Bytes::from(manifest.encode()?));
        draft.manifest = Some(covered);
        Ok(news)
    }

    /// What a manifest behind `draft` may say; `None` while something it depends on is missing.
    fn coverable(&self, draft: &Draft, desired: &Desired) -> Option<Covered> {
        let policy = desired.policy.as_ref().map_or(0, |policy| policy.version);
        if policy != self.policy && draft.policy != Some(policy) {
            return None;
        }
        let mut covered = Covered { pools: Vec::new(), tables: vec![0; self.pools.len()], policy };
        for (at, view) in present(desired) {
            let link = self.pools.get(at)?;
            let table = (at, view.table_version);
            if link.table != view.table_version && !draft.tables.contains(&table) {
                return None;
            }
            let wanted = view.tokenizer.as_ref().map(|tokenizer| tokenizer.reference);
            let arrived = wanted.is_none_or(|wanted| self.tokenizer_arrived(wanted, draft));
            if self.filling && (link.page_bits.is_none() || !arrived) {
                return None;
            }
            // A pool that came late has no complete page set yet and is not shown before it has.
            let Some(page_bits) = link.page_bits else { continue };
            let tokenizer = if arrived { wanted } else { link.tokenizer };
            covered.pools.push(PoolManifest { page_bits, tokenizer, ..view.manifest.clone() });
            if let Some(version) = covered.tables.get_mut(at) {
                *version = view.table_version;
            }
        }
        Some(covered)
    }

    fn tokenizer_arrived(&self, wanted: TokenizerRef, draft: &Draft) -> bool {
        let arrived = self.tokenizers.get(&wanted.id).copied().unwrap_or(0);
        let on_the_way = draft.parts.iter().filter(|part| part.0 == wanted.id).count();
        u64::from(arrived) + on_the_way as u64 >= u64::from(wanted.parts)
    }

    /// The push was applied.
    pub(super) fn acknowledged(&mut self, draft: &Draft) {
        for &(pool, version) in &draft.tables {
            if let Some(link) = self.pools.get_mut(pool) {
                link.table = version;
            }
        }
        self.policy = draft.policy.unwrap_or(self.policy);
        for &(id, part) in &draft.parts {
            let arrived = self.tokenizers.entry(id).or_default();
            *arrived = (*arrived).max(part + 1);
        }
        if let Some(covered) = &draft.manifest {
            for pool in &covered.pools {
                if let Some(link) = self.pools.get_mut(usize::from(pool.id.0)) {
                    link.tokenizer = pool.tokenizer;
                }
            }
            self.covered = Some(covered.clone());
            self.filling = false;
        }
    }

    /// The push may have been applied or not. Values are full states, so they are simply sent again.
    pub(super) fn lost(&mut self) {
        self.sent = None;
    }
}

fn present(desired: &Desired) -> impl Iterator<Item = (usize, &PoolView)> {
    desired.pools.iter().enumerate().filter_map(|(at, view)| view.as_deref().map(|view| (at, view)))
}

fn pool_id(at: usize) -> PoolId {
    // Configuration allows 256 pools.
    PoolId(u16::try_from(at).unwrap_or(u16::MAX))
}
