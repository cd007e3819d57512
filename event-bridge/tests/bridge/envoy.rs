//! An ingest listener that keeps what it is sent in a map, by the rules written down in the push protocol.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use event_bridge::clock::unix_millis;
use kv_routing::block::SequenceHash;
use kv_routing::index::{Overlaps, PageSource, lookup};
use kv_routing::policy::document::Document;
use kv_routing::wire::{
    Decision, Epoch, LoadRow, Manifest, ManifestHeader, PoolId, Push, PushReply, TargetTable, UnixMillis, keys,
};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::AbortHandle;

use crate::support::endpoints;

/// What the listener does, apart from keeping values.
#[derive(Default)]
pub(crate) struct Behaviour {
    /// Secret it asks for.
    pub(crate) secret: Option<String>,
    /// Endpoint file that every target table has to agree with.
    pub(crate) eds_file: Option<PathBuf>,
    /// Load rows of its VMs.
    pub(crate) load_rows: Vec<(u32, LoadRow)>,
    /// Decisions to hand over with the next reply.
    pub(crate) decisions: Vec<Decision>,
    /// Age at which another bridge's heartbeat counts for nothing.
    pub(crate) heartbeat_limit: Option<Duration>,
    /// Answer this many pushes with 503.
    pub(crate) failures: u32,
}

#[derive(Default)]
struct Inner {
    values: HashMap<String, Vec<u8>>,
    behaviour: Behaviour,
    /// Keys of every push applied, in order.
    pushes: Vec<Vec<String>>,
    /// Targets that were pushed although their endpoint was not in the file.
    strays: Vec<String>,
    largest_push: usize,
}

/// A running listener, and the values it holds.
#[derive(Clone, Default)]
pub(crate) struct FakeEnvoy(Arc<Mutex<Inner>>);

/// Ends its listener when it is dropped; the values stay.
pub(crate) struct Listening(AbortHandle);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl FakeEnvoy {
    pub(crate) fn new(behaviour: Behaviour) -> Self {
        let envoy = Self::default();
        envoy.lock().behaviour = behaviour;
        envoy
    }

    pub(crate) fn listen_unix(&self, path: &Path) -> Listening {
        drop(std::fs::remove_file(path));
        let listener = UnixListener::bind(path).unwrap();
        let router = self.router();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Listening(task.abort_handle())
    }

    pub(crate) async fn listen_tcp(&self) -> (Listening, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = self.router();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (Listening(task.abort_handle()), port)
    }

    fn router(&self) -> Router {
        Router::new().route("/kv/v1/push", post(push)).layer(DefaultBodyLimit::max(16 << 20)).with_state(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub(crate) fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.lock().behaviour);
    }

    /// Loses everything, as after a restart.
    pub(crate) fn wipe(&self) {
        self.lock().values.clear();
    }

    pub(crate) fn put(&self, key: &str, value: Vec<u8>) {
        self.lock().values.insert(key.to_owned(), value);
    }

    pub(crate) fn manifest(&self) -> Option<Manifest> {
        self.lock().values.get(keys::MANIFEST).map(|bytes| Manifest::decode(bytes).unwrap())
    }

    /// Target table of the first pool, once the manifest covers one.
    pub(crate) fn table(&self) -> Option<TargetTable> {
        let manifest = self.manifest()?;
        let inner = self.lock();
        let bytes = inner.values.get(&keys::targets(manifest.pools.first()?.id))?;
        Some(TargetTable::decode(bytes).unwrap())
    }

    /// The policy document that the manifest names.
    pub(crate) fn policy(&self) -> Option<Document> {
        let version = self.manifest()?.policy_version;
        let document = Document::decode(self.lock().values.get(keys::POLICY)?).unwrap();
        (document.version == version).then_some(document)
    }

    /// Endpoints in that table.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.table().map(|table| table.targets.into_iter().map(|target| target.endpoint).collect()).unwrap_or_default()
    }

    /// Whether every page of every page set that the manifest names is there and of its epoch.
    pub(crate) fn is_whole(&self) -> bool {
        let Some(manifest) = self.manifest() else { return false };
        let inner = self.lock();
        manifest.pools.iter().all(|pool| {
            (0..1_u32 << pool.page_bits)
                .all(|page| inner.values.contains_key(&keys::page(pool.id, pool.page_bits, page)))
        })
    }

    /// What a filter finds for `chain` in the first pool, by slot, and how many pages of another epoch it met.
    pub(crate) fn lookup(&self, chain: &[SequenceHash]) -> (Overlaps, u32) {
        let Some(manifest) = self.manifest() else { return (Overlaps::default(), 0) };
        let Some(pool) = manifest.pools.first() else { return (Overlaps::default(), 0) };
        let mut pages = Pages { inner: self.lock(), pool: pool.id, page_bits: pool.page_bits };
        let (overlaps, stats) = lookup(chain, pool.page_bits, manifest.header.epoch, &mut pages);
        (overlaps, stats.rejected_pages)
    }

    pub(crate) fn pushes(&self) -> Vec<Vec<String>> {
        self.lock().pushes.clone()
    }

    pub(crate) fn strays(&self) -> Vec<String> {
        self.lock().strays.clone()
    }

    pub(crate) fn largest_push(&self) -> usize {
        self.lock().largest_push
    }
}

/// Pages of one pool, as shared data has them.
struct Pages<'a> {
    inner: MutexGuard<'a, Inner>,
    pool: PoolId,
    page_bits: u8,
}

impl PageSource for Pages<'_> {
    fn page(&mut self, page: u32) -> Option<Vec<u8>> {
        self.inner.values.get(&keys::page(self.pool, self.page_bits, page)).cloned()
    }
}

async fn push(State(envoy): State<FakeEnvoy>, headers: HeaderMap, body: Bytes) -> Response {
    let mut inner = envoy.lock();
    if let Some(secret) = &inner.behaviour.secret
        && headers.get("authorization").is_none_or(|value| value != &format!("Bearer {secret}"))
    {
        return (StatusCode::UNAUTHORIZED, "wrong secret").into_response();
    }
    if inner.behaviour.failures > 0 {
        inner.behaviour.failures -= 1;
        return (StatusCode::SERVICE_UNAVAILABLE, "not now").into_response();
    }
    let Ok(push) = Push::decode(&body) else { return StatusCode::BAD_REQUEST.into_response() };
    if push.puts.iter().any(|put| !keys::is_bridge_key(put.key)) {
        return StatusCode::BAD_REQUEST.into_response();
    }
    inner.largest_push = inner.largest_push.max(body.len());
    let need_snapshot = inner.apply(&push, unix_millis());
    let in_place = inner.header().map(|header| (header.epoch, header.generation));
    let reply = PushReply {
        in_place,
        need_snapshot,
        load_rows: inner.behaviour.load_rows.clone(),
        decisions: std::mem::take(&mut inner.behaviour.decisions),
        decisions_dropped: 0,
    };
    reply.encode().unwrap().into_response()
}

impl Inner {
    fn header(&self) -> Option<ManifestHeader> {
        self.values.get(keys::MANIFEST).map(|bytes| ManifestHeader::decode(bytes).unwrap())
    }

    /// Applies rules 3 to 5; whether a snapshot is needed.
    fn apply(&mut self, push: &Push<'_>, now: UnixMillis) -> bool {
        let limit = self.behaviour.heartbeat_limit.unwrap_or(Duration::from_secs(3)).as_millis() as u64;
        let header = self.header();
        if header.is_some_and(|header| header.epoch.0 > push.epoch.0 && header.heartbeat.age(now) < limit) {
            return false;
        }
        let ours = |header: Option<ManifestHeader>| header.is_some_and(|header| header.epoch == push.epoch);
        if !push.snapshot && !ours(header) {
            return true;
        }
        for put in &push.puts {
            self.check_table(put.key, put.value);
            self.values.insert(put.key.to_owned(), put.value.to_vec());
        }
        if !push.puts.is_empty() {
            self.pushes.push(push.puts.iter().map(|put| put.key.to_owned()).collect());
        }
        false
    }

    fn check_table(&mut self, key: &str, value: &[u8]) {
        let (Some(path), true) = (&self.behaviour.eds_file, key.starts_with("kv/targets/")) else { return };
        let listed = endpoints(path);
        let table = TargetTable::decode(value).unwrap();
        let stray = table.targets.into_iter().map(|target| target.endpoint);
        self.strays.extend(stray.filter(|target| !listed.iter().any(|(address, _)| address == target)));
    }
}

/// The manifest of a bridge with `epoch` that last showed life at `heartbeat`.
pub(crate) fn foreign_manifest(epoch: Epoch, heartbeat: UnixMillis) -> Vec<u8> {
    let header = ManifestHeader { epoch, generation: kv_routing::wire::Generation(1), heartbeat };
    Manifest { header, pools: vec![], policy_version: 0 }.encode().unwrap()
}
