//! What each mode is for, on one Envoy whose policy is swapped from case to case.
//!
//! In every case one worker holds the whole prompt, or is the idlest, so that another mode would choose differently.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::client::{self, Body, Client};
use e2e::decision::{Decision, LogLine};
use e2e::engine::{self, Engine};
use e2e::envoy;
use e2e::prompt;
use e2e::stack::{Options, Stack};
use e2e::wait;
use hyper::body::Incoming;
use hyper::{Request, Response};
use mock_engine::{EngineConfig, Speed};
use serde_json::{Value, json};

/// Sends a request to the worker it names, whatever the policy under test.
const PLACE: &str = "x-place";
const SESSION: &str = "x-session";
const WORKER: &str = "x-worker";
/// An event is routable well within it.
const THINK_TIME: Duration = Duration::from_millis(50);
/// Threads tell one another of what changed within a few milliseconds.
const ROW_TIME: Duration = Duration::from_millis(50);
const BLOCK: u32 = 16;

/// An answer that is being streamed; its load lasts until it is dropped.
type Held = Response<Incoming>;

struct Theatre {
    stack: Stack,
    engines: Vec<Engine>,
}

/// Slow to decode, so that a long answer lasts; a first token comes at once.
fn slow() -> EngineConfig {
    let speed = Speed { prefill_tokens_per_s: 1_000_000.0, decode_ms_per_token: 20.0, speedup: 1.0 };
    EngineConfig { speed, ..engine::config() }
}

/// Token ids of `blocks` blocks that belong to `name`.
fn ids(name: u32, blocks: u32) -> Vec<u32> {
    (0..blocks * BLOCK).map(|at| 1_000 + name * 97 + at).collect()
}

impl Theatre {
    async fn open() -> Self {
        let engines = Engine::start_many(4, &slow()).await;
        let workers: Vec<_> = engines.iter().map(Engine::worker).collect();
        let options = Options { envoy: envoy::Options::spread_connections(), family: None, ..Options::default() };
        Self { stack: Stack::start(&workers, options).await, engines }
    }

    fn address(&self, engine: usize) -> String {
        self.engines[engine].address()
    }

    /// Position of the engine with this address.
    fn number(&self, address: &str) -> usize {
        let number = self.engines.iter().position(|engine| engine.address() == address);
        number.unwrap_or_else(|| panic!("{address} is no engine"))
    }

    async fn policy(&self, policy: Value) {
        let document = json!({
            "version": 1,
            "policies": {"tested": policy, "placed": {"mode": "direct", "direct": {"header": PLACE}}},
            "rules": [{"name": "placing", "when": {"header": [{"name": PLACE, "present": true}]}, "policy": "placed"}],
            "default": "tested",
        });
        self.stack.bridge.put_policy(&document).await;
    }

    fn request(&self, ids: &[u32], max_tokens: u32, headers: &[(&str, &str)]) -> Request<Body> {
        let mut document = prompt::token_ids("mock", ids, max_tokens);
        document["stream"] = (max_tokens > 1).into();
        document["ignore_eos"] = true.into();
        let mut request = client::json(&self.stack.envoy.url("/v1/completions"), &document);
        for (name, value) in headers {
            let name = hyper::header::HeaderName::try_from(*name).expect("name");
            request.headers_mut().insert(name, value.parse().expect("value"));
        }
        request
    }

    async fn line(&mut self, client: &Client, ids: &[u32], headers: &[(&str, &str)]) -> LogLine {
        client.send(self.request(ids, 1, headers)).await.expect("answer");
        self.stack.next_line().await
    }

    async fn ask_as(&mut self, client: &Client, ids: &[u32], headers: &[(&str, &str)]) -> Decision {
        let line = self.line(client, ids, headers).await;
        assert_eq!(line.status, 200, "{line:?}");
        line.decision.unwrap_or_else(|| panic!("not routed: {:?} {:?}", line.unrouted, line.refused))
    }

    /// Where a prompt goes.
    async fn ask(&mut self, ids: &[u32], headers: &[(&str, &str)]) -> Decision {
        let client = self.stack.client.clone();
        self.ask_as(&client, ids, headers).await
    }

    /// How often each engine is chosen for the same prompt, and the choices in order.
    async fn choices(&mut self, ids: &[u32], count: usize) -> (BTreeMap<usize, usize>, Vec<usize>) {
        let (mut counts, mut order) = (BTreeMap::new(), Vec::new());
        for _ in 0..count {
            let decision = self.ask(ids, &[]).await;
            assert_eq!(decision.rung, "mode");
            let chosen = self.number(&decision.target);
            *counts.entry(chosen).or_default() += 1;
            order.push(chosen);
        }
        (counts, order)
    }

    /// Lets an engine hold a prompt.
    async fn give(&mut self, engine: usize, ids: &[u32]) {
        let address = self.address(engine);
        let decision = self.ask(ids, &[(PLACE, &address)]).await;
        assert_eq!((&decision.target, decision.policy.as_str()), (&address, "placed"));
        tokio::time::sleep(THINK_TIME).await;
    }

    /// Begins an answer that lasts, by a connection of its own.
    async fn begin(&self, ids: &[u32], headers: &[(&str, &str)]) -> Held {
        let held = Client::new().open(self.request(ids, 3_000, headers)).await.expect("answer");
        assert_eq!(held.status(), 200);
        held
    }

    /// Lasting answers, so many on each engine.
    async fn occupy(&self, on_each: &[usize]) -> Vec<Held> {
        let mut held = Vec::new();
        for (engine, count) in on_each.iter().enumerate() {
            let address = self.address(engine);
            for number in 0..*count {
                held.push(self.begin(&ids(900 + number as u32, 2), &[(PLACE, &address)]).await);
            }
        }
        tokio::time::sleep(ROW_TIME).await;
        held
    }

    /// Breaks lasting answers off, and waits until nobody counts them any more.
    async fn end(&mut self, held: Vec<Held>) -> Vec<LogLine> {
        let count = held.len();
        drop(held);
        let lines = self.stack.next_lines(count).await;
        wait::until("nothing is booked", Duration::from_secs(5), async || {
            (self.stack.bridge.metric("kv_bridge_booked_requests", "").await == 0.0).then_some(())
        })
        .await;
        lines
    }
}

#[tokio::test]
async fn every_mode_does_what_it_is_for() {
    let mut theatre = Theatre::open().await;
    let held_by_0 = ids(1, 60);
    theatre.policy(json!({"mode": "kv"})).await;
    theatre.give(0, &held_by_0).await;

    kv(&mut theatre, &held_by_0).await;
    least_loaded(&mut theatre, &held_by_0).await;
    power_of_two(&mut theatre, &held_by_0).await;
    round_robin(&mut theatre, &held_by_0).await;
    random(&mut theatre, &held_by_0).await;
    prefix_hash(&mut theatre).await;
    direct(&mut theatre, &held_by_0).await;
    pass(&mut theatre, &held_by_0).await;
    session(&mut theatre).await;
    overload(&mut theatre, &held_by_0).await;
}

/// The holder, although it is the busiest.
async fn kv(theatre: &mut Theatre, prompt: &[u32]) {
    let held = theatre.occupy(&[2, 0, 0, 0]).await;
    for _ in 0..3 {
        let decision = theatre.ask(prompt, &[]).await;
        assert_eq!((theatre.number(&decision.target), decision.overlap.total()), (0, 60));
        assert_eq!((decision.rung.as_str(), decision.policy.as_str()), ("exact", "tested"));
    }
    theatre.end(held).await;
}

/// The idlest, although another holds the prompt.
async fn least_loaded(theatre: &mut Theatre, prompt: &[u32]) {
    theatre.policy(json!({"mode": "least_loaded"})).await;
    let held = theatre.occupy(&[2, 1, 1, 0]).await;
    assert_eq!(theatre.choices(prompt, 6).await.0, [(3, 6)].into());
    theatre.end(held).await;
}

/// Never the busiest, often not the idlest.
async fn power_of_two(theatre: &mut Theatre, prompt: &[u32]) {
    theatre.policy(json!({"mode": "power_of_two"})).await;
    let held = theatre.occupy(&[3, 2, 1, 0]).await;
    let (counts, _) = theatre.choices(prompt, 60).await;
    // Of six pairs the idlest wins three, the next two, the next one.
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [1, 2, 3], "{counts:?}");
    assert!(counts[&3] > counts[&1], "{counts:?}");
    theatre.end(held).await;
}

/// Each in turn, whatever they hold and are doing.
async fn round_robin(theatre: &mut Theatre, prompt: &[u32]) {
    theatre.policy(json!({"mode": "round_robin"})).await;
    let held = theatre.occupy(&[1, 0, 0, 0]).await;
    let (counts, order) = theatre.choices(prompt, 12).await;
    assert!(counts.len() == 4 && counts.values().all(|count| *count == 3), "{order:?}");
    assert!(order.windows(5).all(|window| window[0] == window[4]), "{order:?}");
    theatre.end(held).await;
}

/// All, the busiest too, in no order.
async fn random(theatre: &mut Theatre, prompt: &[u32]) {
    theatre.policy(json!({"mode": "random"})).await;
    let held = theatre.occupy(&[2, 0, 0, 0]).await;
    let (counts, order) = theatre.choices(prompt, 80).await;
    assert!(counts.len() == 4 && counts.values().all(|count| *count >= 5), "{counts:?}");
    assert!(order.windows(2).any(|pair| pair[0] == pair[1]), "{order:?}");
    theatre.end(held).await;
}

/// Equal beginnings go together, though another holds more of the prompt; a hot one spreads within its bound.
async fn prefix_hash(theatre: &mut Theatre) {
    theatre.policy(json!({"mode": "prefix_hash", "prefix_hash": {"tokens": 256, "load_bound": 1.25}})).await;
    let beginning = ids(40, 16);
    let with = |end: u32, blocks: u32| [beginning.clone(), ids(50 + end, blocks)].concat();
    let home = theatre.ask(&with(0, 1), &[]).await;
    assert_eq!(home.rung, "mode");
    let home = theatre.number(&home.target);
    for end in 1..6 {
        let decision = theatre.ask(&with(end, 1), &[]).await;
        assert_eq!(theatre.number(&decision.target), home);
    }
    let elsewhere = (home + 1) % 4;
    theatre.give(elsewhere, &with(9, 100)).await;
    let decision = theatre.ask(&with(9, 100), &[]).await;
    assert_eq!(theatre.number(&decision.target), home, "the hash counts, not the cache");

    let mut homes = BTreeMap::new();
    for beginning in 60..72 {
        let decision = theatre.ask(&ids(beginning, 16), &[]).await;
        *homes.entry(decision.target).or_insert(0) += 1;
    }
    assert!(homes.len() > 1, "twelve beginnings go to one worker: {homes:?}");

    // The fair share counts healthy workers, and a busy machine may have kept one from answering its probe.
    theatre.stack.settle(4).await;
    let mut held = Vec::new();
    for end in 0..16 {
        held.push(theatre.begin(&with(100 + end, 1), &[]).await);
        // So that every thread knows of the one before.
        tokio::time::sleep(ROW_TIME).await;
    }
    let mut counts = BTreeMap::new();
    for line in theatre.end(held).await {
        *counts.entry(theatre.number(&line.decision.expect("routed").target)).or_insert(0) += 1;
    }
    // A quarter more than a fair share of 16: 5.
    assert!(counts.len() == 4 && counts.values().all(|count| *count <= 5), "{counts:?}");
    assert_eq!(counts[&home], 5, "its home takes as much as it may: {counts:?}");
}

/// The worker the caller names; a name that leads nowhere is explained.
async fn direct(theatre: &mut Theatre, prompt: &[u32]) {
    theatre.policy(json!({"mode": "direct", "direct": {"header": WORKER}})).await;
    for engine in [2, 1, 3] {
        let address = theatre.address(engine);
        let decision = theatre.ask(prompt, &[(WORKER, &address)]).await;
        assert_eq!((&decision.target, decision.fallbacks.len()), (&address, 0));
    }
    let client = theatre.stack.client.clone();
    for (headers, told) in [
        (vec![(WORKER, "10.9.8.7:80")], "worker `10.9.8.7:80`, which this pool does not have"),
        (vec![], "header `x-worker` must name the worker"),
    ] {
        let reply = client.send(theatre.request(prompt, 1, &headers)).await.expect("answer");
        assert_eq!(reply.status, 400);
        let (answer, line) = (reply.json(), theatre.stack.next_line().await);
        let message = answer["error"]["message"].as_str().expect("message");
        assert!(message.contains(told), "{message}");
        assert_eq!(line.refused.as_deref(), Some(message));
    }
}

/// Envoy's own balancing.
async fn pass(theatre: &mut Theatre, prompt: &[u32]) {
    theatre.policy(json!({"mode": "pass"})).await;
    let client = theatre.stack.client.clone();
    let before = theatre.stack.envoy.stat("kv_router.unrouted.policy").await;
    for _ in 0..3 {
        let line = theatre.line(&client, prompt, &[]).await;
        assert_eq!((line.status, line.unrouted.as_deref()), (200, Some("policy")));
    }
    assert_eq!(theatre.stack.envoy.stat("kv_router.unrouted.policy").await, before + 3);
}

/// Where the session was before: on another thread, after a restart of the engine, and, if it is hard, when that is busy.
async fn session(theatre: &mut Theatre) {
    let policy = |stickiness: &str| {
        json!({
            "mode": "session",
            "session": {"header": SESSION, "stickiness": stickiness},
            "busy": {"decode_blocks_share": 0.001},
        })
    };
    theatre.policy(policy("hard")).await;
    let session = [(SESSION, "a session")];
    let first = theatre.ask(&ids(80, 30), &session).await;
    let home = theatre.number(&first.target);
    let elsewhere = (home + 1) % 4;
    let held_elsewhere = ids(81, 60);
    theatre.give(elsewhere, &held_elsewhere).await;
    let decision = theatre.ask(&held_elsewhere, &[]).await;
    assert_eq!(theatre.number(&decision.target), elsewhere, "no session: by cost");
    for _ in 0..4 {
        // Connections go to both threads in turn.
        let decision = theatre.ask_as(&Client::new(), &held_elsewhere, &session).await;
        assert_eq!((theatre.number(&decision.target), decision.rung.as_str()), (home, "mode"));
    }

    let restarted = theatre.engines.remove(home).restart().await;
    theatre.engines.insert(home, restarted);
    theatre.stack.settle(4).await;
    assert_eq!(theatre.engines[home].requests().await, 0, "a new life");
    theatre.ask(&held_elsewhere, &session).await;
    assert_eq!(theatre.engines[home].requests().await, 1, "the session came back");

    // Two per mille of its cache are in use, one is allowed.
    let address = theatre.address(home);
    let held = theatre.begin(&ids(82, 40), &[(PLACE, &address)]).await;
    tokio::time::sleep(THINK_TIME).await;
    let decision = theatre.ask(&held_elsewhere, &session).await;
    assert_eq!(theatre.number(&decision.target), home, "a hard session stays");
    theatre.policy(policy("soft")).await;
    let decision = theatre.ask(&held_elsewhere, &session).await;
    assert_eq!(theatre.number(&decision.target), elsewhere, "a soft one leaves");
    theatre.end(vec![held]).await;
}

/// Nobody is idle enough: the client is told to come back, and is served when somebody is.
async fn overload(theatre: &mut Theatre, prompt: &[u32]) {
    let reject = json!({"action": "reject", "status": 429, "retry_after_seconds": 7});
    theatre.policy(json!({"mode": "kv", "busy": {"decode_blocks_share": 0.00001}, "overload": reject})).await;
    let held = theatre.occupy(&[1, 1, 1, 1]).await;
    let client = theatre.stack.client.clone();
    let reply = client.send(theatre.request(prompt, 1, &[])).await.expect("answer");
    assert_eq!(reply.status, 429);
    assert_eq!(reply.headers["retry-after"], "7");
    assert_eq!(reply.json()["error"]["message"], "every worker is busy");
    assert_eq!(theatre.stack.next_line().await.refused.as_deref(), Some("every worker is busy"));
    theatre.end(held).await;
    assert_eq!(theatre.ask(prompt, &[]).await.policy, "tested");
}
