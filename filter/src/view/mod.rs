//! One VM's view of shared data: what the bridge says, parsed once per change.

mod heartbeat;
mod pages;
mod pool;
mod rows;
mod tokenizers;

pub use pages::SharedPages;
pub use pool::{Pool, Serves};
pub use rows::{PERIOD_MS as ROW_PERIOD_MS, ROW_EXPIRY_MS, RoutesBy, Rows, live_rows, row_count};
pub use tokenizers::{Tokenizer, Tokenizers};

use std::collections::HashMap;
use std::rc::Rc;

use kv_routing::policy::BridgeSilence;
use kv_routing::policy::document::Document;
use kv_routing::wire::{Epoch, Manifest, ManifestHeader, PoolId, UnixMillis, WireError, keys};

use crate::counters::{Counter, Counters};
use crate::host::{Host, Severity};
use heartbeat::Heartbeat;

/// The manifest is read again after this long, so that a busy VM does not read it for every request.
const RECHECK_MS: u64 = 5;

/// What a VM knows of the bridge's state.
#[derive(Debug, Default)]
pub struct View {
    checked: Option<UnixMillis>,
    manifest: Option<Seen>,
    heartbeat: Heartbeat,
    pools: Vec<Rc<Pool>>,
    models: HashMap<String, Serves>,
    policy: Option<Ruling>,
}

/// A policy document with what it was read for: a new bridge counts versions anew.
#[derive(Debug)]
struct Ruling {
    version: (Epoch, u64),
    document: Rc<Document>,
}

#[derive(Debug)]
struct Seen {
    /// `None` when not even that could be read.
    header: Option<ManifestHeader>,
    readable: bool,
}

/// Why there is no view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blind {
    /// Shared data has no manifest.
    NoManifest,
    /// It cannot be read.
    BadManifest,
}

/// What a refresh did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// Nothing but the heartbeat can have changed.
    Same,
    /// Pools and target tables were read anew.
    Anew,
}

impl View {
    /// Reads what changed since the last time. Costs nothing within 5 ms of that, and one call when nothing changed.
    pub fn refresh(&mut self, host: &impl Host, counters: &Counters, now: UnixMillis) -> Refreshed {
        if self.checked.is_some_and(|checked| checked.age(now) < RECHECK_MS && checked <= now) {
            return Refreshed::Same;
        }
        self.checked = Some(now);
        let Some(bytes) = host.shared(keys::MANIFEST).value else {
            let had_one = self.manifest.take().is_some();
            self.forget();
            return if had_one { Refreshed::Anew } else { Refreshed::Same };
        };
        let header = match ManifestHeader::decode(&bytes) {
            Ok(header) => header,
            Err(error) => return self.refuse(host, counters, None, &error),
        };
        self.heartbeat.observe(header, now);
        let version = |header: ManifestHeader| (header.epoch, header.generation);
        if let Some(seen) = self.manifest.as_mut()
            && seen.header.map(version) == Some(version(header))
        {
            seen.header = Some(header);
            return Refreshed::Same;
        }
        match Manifest::decode(&bytes) {
            Ok(manifest) => {
                self.take(host, counters, manifest);
                Refreshed::Anew
            }
            Err(error) => self.refuse(host, counters, Some(header), &error),
        }
    }

    fn take(&mut self, host: &impl Host, counters: &Counters, manifest: Manifest) {
        counters.count(host, Counter::ViewReloads);
        self.take_policy(host, counters, (manifest.header.epoch, manifest.policy_version));
        let Manifest { header, pools, policy_version: _ } = manifest;
        self.forget();
        for pool in pools {
            let pool = Rc::new(Pool::load(host, counters, pool, header.epoch));
            self.models.extend(pool.served(self.pools.len()));
            self.pools.push(pool);
        }
        self.manifest = Some(Seen { header: Some(header), readable: true });
    }

    /// Reads the policy document if it changed. One that cannot be read leaves the old one in force.
    fn take_policy(&mut self, host: &impl Host, counters: &Counters, version: (Epoch, u64)) {
        if version.1 == 0 {
            self.policy = None;
        } else if self.policy.as_ref().is_none_or(|ruling| ruling.version != version) {
            match host.shared(keys::POLICY).value.map(|bytes| Document::decode(&bytes)) {
                Some(Ok(document)) => self.policy = Some(Ruling { version, document: Rc::new(document) }),
                Some(Err(error)) => {
                    counters.count(host, Counter::ViewErrors);
                    host.log(Severity::Warn, &format!("kv-router: policy document: {error}"));
                }
                None => counters.count(host, Counter::ViewErrors),
            }
        }
    }

    /// Notes a manifest that cannot be read, and says so once per change.
    fn refuse(
        &mut self,
        host: &impl Host,
        counters: &Counters,
        header: Option<ManifestHeader>,
        error: &WireError,
    ) -> Refreshed {
        let was_readable = self.manifest.as_ref().is_none_or(|seen| seen.readable);
        self.manifest = Some(Seen { header, readable: false });
        if !was_readable {
            return Refreshed::Same;
        }
        counters.count(host, Counter::ViewErrors);
        host.log(Severity::Warn, &format!("kv-router: manifest in shared data: {error}"));
        self.forget();
        Refreshed::Anew
    }

    fn forget(&mut self) {
        self.pools.clear();
        self.models.clear();
    }

    /// The pool that serves `model`, and the adapter if `model` is one. Without a model, the only pool allowed.
    /// `allowed` restricts pools by name.
    ///
    /// # Errors
    /// [`Blind`] when nothing is known. `Ok(None)`: no allowed pool serves the model.
    pub fn pool_for(&self, model: Option<&str>, allowed: Option<&[String]>) -> Result<Option<(Rc<Pool>, bool)>, Blind> {
        match &self.manifest {
            None => return Err(Blind::NoManifest),
            Some(Seen { readable: false, .. }) => return Err(Blind::BadManifest),
            Some(_) => {}
        }
        let is_allowed = |pool: &&Rc<Pool>| allowed.is_none_or(|names| names.contains(&pool.manifest.name));
        let found = match model {
            Some(model) => self.models.get(model).and_then(|serves| {
                let pool = self.pools.get(serves.pool).filter(is_allowed)?;
                Some((Rc::clone(pool), serves.adapter))
            }),
            None => {
                let mut pools = self.pools.iter().filter(is_allowed);
                pools.next().filter(|_| pools.next().is_none()).map(|pool| (Rc::clone(pool), false))
            }
        };
        Ok(found)
    }

    /// The pool with number `id` as it is now.
    pub fn pool(&self, id: PoolId) -> Option<&Rc<Pool>> {
        self.pools.iter().find(|pool| pool.manifest.id == id)
    }

    /// All pools.
    pub fn pools(&self) -> &[Rc<Pool>] {
        &self.pools
    }

    /// Header of the manifest in place, when it can be read.
    pub fn header(&self) -> Option<ManifestHeader> {
        self.manifest.as_ref().filter(|seen| seen.readable).and_then(|seen| seen.header)
    }

    /// The policy document in force, when the bridge has one.
    pub fn policy(&self) -> Option<&Rc<Document>> {
        self.policy.as_ref().map(|ruling| &ruling.document)
    }

    /// Version of the policy document in force; 0 for none.
    pub fn policy_version(&self) -> u64 {
        self.policy.as_ref().map_or(0, |ruling| ruling.version.1)
    }

    /// Since when the bridge is silent, if it has been for longer than `tolerated_ms`.
    pub fn silence(&self, tolerated_ms: u64, now: UnixMillis) -> Option<BridgeSilence> {
        self.heartbeat.silence(tolerated_ms, now)
    }

    /// Forgets when it was last checked, so that the next refresh reads.
    pub fn expire(&mut self) {
        self.checked = None;
    }
}
