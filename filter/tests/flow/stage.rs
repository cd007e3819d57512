//! An Envoy with two worker threads, a bridge that pushed one pool, and requests to it.

use std::rc::Rc;

use filter::config::{Config, IngestConfig, RouteConfig};
use filter::held::{SLICE_TICK_MS, Ticker};
use filter::host::fake::{Exchange, FakeAnswer, FakeCall, FakeEnvoy, FakeHost, FakeStream, ROOT};
use filter::ingest::IngestStream;
use filter::vm::Vm;
use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId, chain};
use kv_routing::index::{IndexLimits, PrefixIndex};
use kv_routing::policy::document::Document;
use kv_routing::target::{Slot, Tier};
use kv_routing::wire::{
    BridgeShare, Epoch, Generation, LoadRow, Manifest, ManifestHeader, PoolId, PoolManifest, Push, PushReply, Put,
    TargetEntry, TargetTable, UnixMillis, keys,
};

pub const START: u64 = 1_800_000_000_000;
pub const BLOCK: u32 = 16;

/// One thread.
pub struct Thread {
    pub host: FakeHost,
    pub vm: Vm,
    pub ticker: Ticker,
}

/// Everything a test needs.
pub struct Stage {
    pub envoy: Rc<FakeEnvoy>,
    pub threads: Vec<Thread>,
    pub config: Rc<RouteConfig>,
    pub targets: Vec<TargetEntry>,
    pub index: PrefixIndex,
    pub epoch: u64,
    pub generation: u64,
    pub pools: Vec<PoolManifest>,
    pub policy: Option<Document>,
}

pub fn target(slot: u16) -> TargetEntry {
    TargetEntry::new(Slot(slot), &format!("10.0.0.{slot}:8000"), None)
}

pub fn route(json: &str) -> Rc<RouteConfig> {
    match Config::parse(json.as_bytes()).unwrap() {
        Config::Route(route) => Rc::from(route),
        Config::Ingest(_) => panic!("not a route"),
    }
}

pub fn tokens(ids: std::ops::Range<u32>) -> Vec<TokenId> {
    ids.map(TokenId).collect()
}

pub fn chain_of(ids: std::ops::Range<u32>) -> Vec<SequenceHash> {
    chain(&tokens(ids), BlockSize::new(BLOCK).unwrap(), HashSeed::default())
}

/// A completion body whose prompt is token ids.
pub fn completion(model: &str, ids: std::ops::Range<u32>) -> Vec<u8> {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    format!("{{\"model\":\"{model}\",\"prompt\":[{}]}}", ids.join(",")).into_bytes()
}

impl Thread {
    pub fn new(envoy: &Rc<FakeEnvoy>) -> Self {
        let host = FakeHost::new(envoy);
        let mut vm = Vm::new(&host);
        vm.start(&host);
        Self { host, vm, ticker: Ticker::default() }
    }

    /// As Envoy ticks the root context, when its period is over.
    pub fn tick(&mut self) {
        self.host.set_current(ROOT);
        let now = UnixMillis(self.host.envoy.millis());
        self.ticker.tick(&mut self.vm, &self.host, ROOT, now);
        self.host.call_roots(&mut self.vm);
    }

    /// The next slice of what is held; `false` when nothing is, or when its tick is not soon.
    pub fn slice(&mut self) -> bool {
        if self.host.tick_period.get() != SLICE_TICK_MS {
            return false;
        }
        self.host.envoy.pass(1);
        self.tick();
        true
    }
}

impl Stage {
    /// Nothing was pushed yet.
    pub fn empty() -> Self {
        let envoy = FakeEnvoy::at(START);
        let threads = (0..2).map(|_| Thread::new(&envoy)).collect();
        let pool = PoolManifest {
            id: PoolId(0),
            name: "pool".into(),
            models: vec!["base".into(), "alias".into()],
            adapters: vec!["lora".into()],
            block_size: Some(BLOCK),
            page_bits: 0,
            tokenizer: None,
            bridge: BridgeShare::None,
            cluster: "workers".into(),
            handoff: kv_routing::handoff::Protocol::Nixl,
            prefill_cluster: "prefill".into(),
            stale_after_ms: 3000,
            stale_decay_ms: 10_000,
            predict_ms: 0,
            predict_without_events_ms: 0,
        };
        Self {
            envoy,
            threads,
            config: route(r#"{"role":"route"}"#),
            targets: (1..=3).map(target).collect(),
            index: PrefixIndex::new(IndexLimits { max_blocks: 1 << 20 }),
            epoch: START,
            generation: 1,
            pools: vec![pool],
            policy: None,
        }
    }

    /// The pool and its targets were pushed.
    pub fn new() -> Self {
        let mut stage = Self::empty();
        stage.push();
        stage
    }

    /// `slot` holds the blocks of `ids` from now on.
    pub fn holds(&mut self, slot: u16, ids: std::ops::Range<u32>) {
        self.index.store(Slot(slot), Tier::Device, None, &chain_of(ids));
        self.push();
    }

    /// Pushes everything, as a bridge does after its start or a change.
    pub fn push(&mut self) -> PushReply {
        self.generation += 1;
        let puts = self.snapshot();
        self.push_of(true, &puts)
    }

    pub fn heartbeat(&mut self) -> PushReply {
        let puts = vec![(keys::MANIFEST.to_owned(), self.manifest())];
        self.push_of(false, &puts)
    }

    pub fn manifest(&self) -> Vec<u8> {
        let header = ManifestHeader {
            epoch: Epoch(self.epoch),
            generation: Generation(self.generation),
            heartbeat: UnixMillis(self.envoy.millis()),
        };
        let policy_version = self.policy.as_ref().map_or(0, |document| document.version);
        Manifest { header, pools: self.pools.clone(), policy_version }.encode().unwrap()
    }

    fn snapshot(&mut self) -> Vec<(String, Vec<u8>)> {
        let mut puts = Vec::new();
        let bits = self.index.page_bits();
        for pool in &mut self.pools {
            pool.page_bits = bits;
            for page in 0..1 << bits {
                puts.push((keys::page(pool.id, bits, page), self.index.encode_page(page, Epoch(self.epoch))));
            }
            let table = TargetTable { targets: self.targets.clone() };
            puts.push((keys::targets(pool.id), table.encode().unwrap()));
        }
        if let Some(document) = &self.policy {
            puts.push((keys::POLICY.to_owned(), document.encode().unwrap()));
        }
        puts.push((keys::MANIFEST.to_owned(), self.manifest()));
        puts
    }

    pub fn push_of(&mut self, snapshot: bool, puts: &[(String, Vec<u8>)]) -> PushReply {
        let puts = puts.iter().map(|(key, value)| Put { key, value }).collect();
        let push = Push { epoch: Epoch(self.epoch), snapshot, puts }.encode().unwrap();
        let (status, body) = self.ingest("POST", "/kv/v1/push", &[], &push);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        PushReply::decode(&body).unwrap()
    }

    /// A request on the ingest listener, taken by the second thread.
    pub fn ingest(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u32, Vec<u8>) {
        let config = IngestConfig { secret: None, max_push_bytes: 1 << 20 };
        self.ingest_with(config, method, path, headers, body)
    }

    pub fn ingest_with(
        &mut self,
        config: IngestConfig,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u32, Vec<u8>) {
        let Thread { host, vm, .. } = &mut self.threads[1];
        let mut pairs = vec![(":method", method.as_bytes()), (":path", path.as_bytes())];
        pairs.extend(headers.iter().map(|(name, value)| (*name, value.as_bytes())));
        let mut stream = IngestStream::new(Rc::new(config));
        let seen = Exchange::ingest(host, vm, &mut stream, &pairs, body);
        seen.reply.unwrap_or((0, Vec::new()))
    }

    /// Opens a POST of `path` on thread `at`, with more to come.
    pub fn open(&mut self, at: usize, path: &str, headers: &[(&str, &[u8])]) -> Exchange {
        let Thread { host, vm, .. } = &mut self.threads[at];
        let mut pairs: Vec<(&str, &[u8])> =
            vec![(":method", b"POST"), (":path", path.as_bytes()), (":authority", b"llm")];
        pairs.extend_from_slice(headers);
        Exchange::open(host, vm, &self.config, &pairs, false)
    }

    /// Sends a whole request for `body` on thread `at`; it has been decided on return.
    pub fn request(&mut self, at: usize, body: &[u8]) -> Exchange {
        let exchange = self.open(at, "/v1/completions", &[]);
        let Thread { host, vm, .. } = &mut self.threads[at];
        exchange.body(host, vm, body, true);
        exchange
    }

    /// Sends a prompt of token ids to the base model on the first thread.
    pub fn prompt(&mut self, ids: std::ops::Range<u32>) -> Exchange {
        self.request(0, &completion("base", ids))
    }

    /// Answers with 200 and a body, and ends the stream.
    pub fn finish(&mut self, at: usize, exchange: &Exchange) -> FakeStream {
        let upstream = self.endpoints(at, exchange).first().cloned();
        let Thread { host, vm, .. } = &mut self.threads[at];
        exchange.response(host, vm, 200, upstream.as_deref());
        exchange.response_body(host, vm, b"{}", true);
        exchange.done(host, vm)
    }

    /// Endpoints named in the destination header.
    pub fn endpoints(&self, at: usize, exchange: &Exchange) -> Vec<String> {
        let values =
            exchange.see(&self.threads[at].host, |stream| stream.request_header("x-gateway-destination-endpoint"));
        assert!(values.len() <= 1, "{values:?}");
        values.first().map(|list| list.split(',').map(str::to_owned).collect()).unwrap_or_default()
    }

    /// The decision in filter state.
    pub fn decision(&self, at: usize, exchange: &Exchange) -> serde_json::Value {
        let state = exchange.see(&self.threads[at].host, |stream| stream.filter_state.get("kv_decision").cloned());
        serde_json::from_str(&state.expect("a decision")).unwrap()
    }

    /// Why the request was left to Envoy.
    pub fn unrouted(&self, at: usize, exchange: &Exchange) -> String {
        assert!(exchange.is_released(&self.threads[at].host), "still held");
        assert!(self.endpoints(at, exchange).is_empty());
        self.decision(at, exchange)["unrouted"].as_str().expect("unrouted").to_owned()
    }

    /// The load row of a thread as others see it.
    pub fn row(&self, at: usize) -> LoadRow {
        let row = self.threads[at].vm.rows.own().expect("a row");
        let data = self.envoy.data.borrow();
        LoadRow::decode(&data[&keys::load_row(row)].0).unwrap()
    }
}

/// The one call that a request of the first thread has under way.
pub fn call(stage: &Stage, exchange: &Exchange) -> FakeCall {
    let calls = exchange.calls(&stage.threads[0].host);
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls[0].clone()
}

/// Answers it.
pub fn answer(stage: &mut Stage, exchange: &Exchange, answer: FakeAnswer) {
    let number = call(stage, exchange).number;
    let Thread { host, vm, .. } = &mut stage.threads[0];
    exchange.answer(host, vm, number, answer);
}
