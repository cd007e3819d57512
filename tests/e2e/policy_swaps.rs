//! Policies are swapped under traffic: no request notices, and every thread follows at once.
//!
//! `E2E_SWAPS` and `E2E_SWAP_PERIOD_MS` set how many swaps there are and how far apart; `make test-swaps` runs 50 in 50 s.

use std::env;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use e2e::client::{Body, Failure, Reply, json};
use e2e::decision::LogLine;
use e2e::engine::{self, Engine};
use e2e::envoy;
use e2e::prompt::{self, message};
use e2e::stack::{Options, Stack};
use e2e::traffic::{self, Paced};
use e2e::wait;
use hyper::Request;
use serde_json::{Value, json};

const REQUESTS_PER_SECOND: u32 = 200;
/// Fewer than these a second would not be the traffic that is meant.
const LEAST_REQUESTS_PER_SECOND: f64 = 190.0;
const CLIENTS: usize = 16;
/// A document has to decide every request that begins this long after it was sent to the bridge.
const EFFECTIVE_WITHIN: Duration = Duration::from_millis(100);
/// Every fifth document is one that has to be refused.
const INVALID_EVERY: usize = 5;

/// A document put in force, and when it was sent.
struct Swap {
    number: usize,
    sent: Duration,
}

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970")
}

/// Document number `number`: its policies are named by it, and streamed requests get one of their own.
fn document(number: usize) -> Value {
    let policies = [
        json!({"mode": "kv", "temperature": 0.2}),
        json!({"mode": "least_loaded"}),
        json!({"mode": "kv", "cost": "prefill_scale * prefill_blocks + decode_blocks + 4 * waiting"}),
        json!({"mode": "round_robin"}),
        json!({"mode": "prefix_hash"}),
        json!({"mode": "session", "session": {"user": true}}),
        json!({"mode": "power_of_two"}),
        json!({"mode": "random"}),
    ];
    let policy = |shift: usize| policies[(number + shift) % policies.len()].clone();
    let (whole, streamed) = (format!("swap-{number}"), format!("swap-{number}-streamed"));
    json!({
        "version": 1,
        "policies": {whole.as_str(): policy(0), streamed.as_str(): policy(3)},
        "rules": [{"when": {"stream": true}, "policy": streamed}],
        "default": whole,
    })
}

/// A document that has to be refused, and the field that has to be named.
fn invalid(number: usize) -> (Value, &'static str) {
    let wrong: [(&'static str, Value); 5] = [
        ("/policies/p/mode", json!({"mode": "fastest"})),
        ("/policies/p/wieghts", json!({"mode": "kv", "wieghts": {}})),
        ("/policies/p/cost", json!({"mode": "kv", "cost": "prefill_blocks + 4 * wating"})),
        ("/policies/p/tier/host", json!({"mode": "kv", "tier": {"host": 2}})),
        ("/policies/p/session", json!({"mode": "session"})),
    ];
    let (pointer, policy) = wrong[number % wrong.len()].clone();
    (json!({"version": 1, "policies": {"p": policy}, "default": "p"}), pointer)
}

/// Chats and completions, streamed and whole, from conversations that share their beginnings.
fn request(url: &str, serial: u64) -> Request<Body> {
    let stream = serial.is_multiple_of(2);
    let system = prompt::text(serial % 7, 60);
    if serial.is_multiple_of(3) {
        let ids: Vec<u32> = (0..200).map(|at| 1_000 + (serial % 11) as u32 * 300 + at).collect();
        let mut document = prompt::token_ids("mock", &ids, 4);
        document["stream"] = stream.into();
        return json(&format!("{url}/v1/completions"), &document);
    }
    let messages = [message("system", &system), message("user", &prompt::text(serial, 20))];
    let mut document = prompt::chat("mock", &messages, 6);
    document["stream"] = stream.into();
    document["user"] = format!("user {}", serial % 23).into();
    json(&format!("{url}/v1/chat/completions"), &document)
}

/// The number in the name of the policy that decided a request.
fn decided_by(line: &LogLine) -> usize {
    let decision = line.decision.as_ref().unwrap_or_else(|| panic!("not routed: {line:?}"));
    let number = decision.policy.split('-').nth(1).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("policy {}", decision.policy))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swaps_cost_no_request_and_are_effective_on_every_thread_within_100_ms() {
    let swaps = usize::try_from(setting("E2E_SWAPS", 20)).expect("a number of swaps");
    let period = Duration::from_millis(setting("E2E_SWAP_PERIOD_MS", 500));
    let engines = Engine::start_many(3, &engine::config()).await;
    let workers: Vec<_> = engines.iter().map(Engine::worker).collect();
    let options = Options {
        envoy: envoy::Options::spread_connections().edit("[%START_TIME%]", "[%START_TIME(%s.%6f)%]"),
        ..Options::default()
    };
    let stack = Stack::start(&workers, options).await;
    stack.bridge.put_policy(&document(0)).await;
    let url = stack.envoy.url.clone();
    let begun = Instant::now();
    let traffic = Paced::start(REQUESTS_PER_SECOND, CLIENTS, move |serial| request(&url, serial));
    tokio::time::sleep(Duration::from_secs(1)).await;

    let mut in_force = vec![Swap { number: 0, sent: Duration::ZERO }];
    let mut refused = 0;
    let mut ticks = tokio::time::interval(period);
    for number in 1..=swaps {
        ticks.tick().await;
        // Requests keep time too; a swap should not always fall between the same two.
        tokio::time::sleep(Duration::from_micros(number as u64 * 1_300 % 10_000)).await;
        if number % INVALID_EVERY == 0 {
            let (document, pointer) = invalid(number / INVALID_EVERY);
            let reply = stack.bridge.try_policy(&document, "").await;
            assert_eq!((reply.status.as_u16(), &reply.json()["problems"][0]["pointer"]), (422, &json!(pointer)));
            refused += 1;
        } else {
            in_force.push(Swap { number, sent: now() });
            stack.bridge.try_policy(&document(number), "").await.expect_ok();
        }
    }
    tokio::time::sleep(period).await;
    for thread in 0..2 {
        let connections = stack.envoy.stat(&format!("listener.ingress.worker_{thread}.downstream_cx_active")).await;
        assert!(connections >= CLIENTS as u64 / 4, "thread {thread} has {connections} connections");
    }
    let sending = begun.elapsed();
    let results = traffic.stop().await;
    traffic::expect_all_ok(&results);
    expect_mixed(&results, sending);

    let lines = wait::until("every request is logged", Duration::from_secs(10), async || {
        let lines = stack.envoy.access_log();
        (lines.len() >= results.len()).then_some(lines)
    })
    .await
    .0;
    let lines: Vec<LogLine> = lines.iter().map(|line| LogLine::parse(line)).collect();
    let worst = in_force.windows(2).map(|pair| lateness(&lines, &pair[1])).max().expect("swaps");
    println!(
        "{} requests, none failed; {} swaps effective at the latest after {worst:?}, {refused} refused",
        results.len(),
        in_force.len() - 1,
    );
    assert!(worst < EFFECTIVE_WITHIN, "a request that began {worst:?} after a swap was decided by an older document");
    let decided: Vec<usize> = lines.iter().map(decided_by).collect();
    let idle: Vec<usize> = in_force.iter().map(|swap| swap.number).filter(|number| !decided.contains(number)).collect();
    assert!(idle.is_empty(), "documents that decided nothing: {idle:?}");
}

/// Fails the test unless the traffic was dense, half of it streamed, and every stream whole.
fn expect_mixed(results: &[Result<Reply, Failure>], sending: Duration) {
    let streamed: Vec<String> =
        results.iter().flatten().map(Reply::text).filter(|text| text.starts_with("data:")).collect();
    let unfinished = streamed.iter().filter(|answer| !answer.trim_end().ends_with("[DONE]")).count();
    assert_eq!(unfinished, 0, "streams that ended without [DONE]");
    let share = streamed.len() as f64 / results.len() as f64;
    let rate = results.len() as f64 / sending.as_secs_f64();
    println!("{rate:.1} requests/s over {sending:.1?}, {:.0} % of them streamed", 100.0 * share);
    assert!((0.45..0.55).contains(&share), "{share} of the answers are streams");
    assert!(rate >= LEAST_REQUESTS_PER_SECOND, "{rate} requests/s");
}

/// How long after `swap` the last request began that an older document decided.
fn lateness(lines: &[LogLine], swap: &Swap) -> Duration {
    let late = lines.iter().filter(|line| decided_by(line) < swap.number).filter_map(|line| {
        let start: f64 = line.start.parse().unwrap_or_else(|_| panic!("start {}", line.start));
        Duration::from_secs_f64(start).checked_sub(swap.sent)
    });
    late.max().unwrap_or_default()
}
