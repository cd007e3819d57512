use super::*;

const MINIMAL: &str = "pools: [{name: p, models: [m], workers: [{address: '10.0.0.1:8000'}]}]";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("/etc/kv/bridge.yaml"))
}

fn refused(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

fn socket(rank: &RankSpec) -> EventStream {
    match &rank.events {
        Some(EventFeed::Socket(stream)) => stream.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_says_where_events_come_from() {
    let first = |engine: &str, events: &str, worker: &str| {
        let worker = format!("{{address: '1.1.1.1:80', ranks: 2, events: {worker}}}");
        let pool = format!("{{name: p, models: [m], engine: {engine}, events: {events}, workers: [{worker}]}}");
        let pool = parse(&format!("pools: [{pool}]")).unwrap().pools.remove(0);
        let WorkerSource::Static(mut workers) = pool.workers else { panic!("static workers") };
        (workers[0].ask_sources, workers[0].ranks.remove(1).events)
    };
    for engine in ["vllm", "sglang"] {
        assert_eq!(first(engine, "{source: engine}", "{}"), (true, None));
    }
    let polled = Some(EventFeed::Polled { url: "http://1.1.1.1:80/kv_cache_events".into() });
    assert_eq!(first("trtllm", "{source: engine}", "{}"), (false, polled.clone()));
    assert_eq!(first("trtllm", "{}", "{}"), (false, polled));
    let endpoint = |feed: Option<EventFeed>| socket(&RankSpec { rank: None, events: feed }).endpoint;
    let (asked, feed) = first("trtllm", "{port: 5557}", "{}");
    assert_eq!((asked, endpoint(feed)), (false, "tcp://1.1.1.1:5558".into()));
    let (asked, feed) = first("vllm", "{source: engine}", "{endpoint: 'tcp://2.2.2.2:7'}");
    assert_eq!((asked, endpoint(feed)), (false, "tcp://2.2.2.2:8".into()));
    assert_eq!(first("vllm", "{source: engine}", "{enabled: false}"), (false, None));
}

#[test]
fn the_documented_example_is_accepted() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/config.example.yaml"));
    let config = Config::load(path).unwrap();
    assert_eq!(config.envoys[0].endpoint, IngestEndpoint::Unix("/run/kv-router/ingest.sock".into()));
    assert_eq!(config.envoys[1].secret_file.as_deref(), Some(Path::new("/etc/kv-router/secret")));
    let pool = &config.pools[0];
    let WorkerSource::Static(workers) = &pool.workers else { panic!("static workers") };
    let endpoints = |at: usize| -> Vec<String> { workers[at].ranks.iter().map(|rank| socket(rank).endpoint).collect() };
    assert_eq!(endpoints(0), ["tcp://10.0.0.11:5557"]);
    assert_eq!(endpoints(1), ["tcp://10.0.0.12:5557", "tcp://10.0.0.12:5558"]);
    assert_eq!(socket(&workers[1].ranks[1]).replay.as_deref(), Some("tcp://10.0.0.12:5658"));
    assert_eq!(endpoints(2), ["tcp://10.0.0.13:6557"]);
    assert_eq!((workers[0].max_batched_tokens, workers[1].max_batched_tokens), (Some(8192), Some(16384)));
}

/// The example states defaults; a default that changes must change there too.
#[test]
fn the_example_states_the_defaults() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/config.example.yaml"));
    let (example, minimal) = (Config::load(path).unwrap(), parse(MINIMAL).unwrap());
    assert_eq!(example.admin, minimal.admin);
    assert_eq!(example.log, minimal.log);
    assert_eq!(example.push, minimal.push);
    let (example, minimal) = (&example.pools[0], &minimal.pools[0]);
    assert_eq!(example.cluster, minimal.cluster);
    assert_eq!(example.check_with_engine, minimal.check_with_engine);
    assert_eq!(example.engine, minimal.engine);
    assert_eq!(example.drain, minimal.drain);
    assert_eq!(example.probe, minimal.probe);
    assert_eq!(example.stale, minimal.stale);
    assert_eq!(example.predict, minimal.predict);
    assert_eq!(example.limits, minimal.limits);
    // An empty object and none at all mean the same to templates.
    let chat = crate::tokenizer::RenderOptions { default_kwargs: String::new(), ..example.chat.clone() };
    assert_eq!((example.chat.default_kwargs.as_str(), chat), ("{}", minimal.chat.clone()));
    let EventDefaults { enabled, origin, port, replay: _, topic, gap_policy, parity_policy } =
        &minimal.worker_defaults.events;
    let events = &example.worker_defaults.events;
    assert_eq!((enabled, origin, port, topic), (&events.enabled, &events.origin, &events.port, &events.topic));
    assert_eq!((gap_policy, parity_policy), (&events.gap_policy, &events.parity_policy));
}

#[test]
fn relative_paths_belong_to_the_folder_of_the_file() {
    let text =
        "envoys: [{endpoint: 'unix:in.sock'}]\npools: [{name: p, models: [m], workers_file: w.yaml, eds_file: e}]";
    let config = parse(text).unwrap();
    assert_eq!(config.envoys[0].endpoint, IngestEndpoint::Unix("/etc/kv/in.sock".into()));
    assert_eq!(config.pools[0].workers, WorkerSource::File("/etc/kv/w.yaml".into()));
    assert_eq!(config.pools[0].eds_file.as_deref(), Some(Path::new("/etc/kv/e")));
}

/// (text, what the error must say)
#[test]
fn a_refused_file_names_field_and_fix() {
    let pool = |rest: &str| format!("pools: [{{name: p, models: [m], {rest}}}]");
    let workers = |list: &str| pool(&format!("workers: [{list}]"));
    let cases: Vec<(String, &[&str])> = vec![
        ("pools: [".into(), &["bridge.yaml", "line"]),
        ("{}".into(), &["pools"]),
        ("pools: []".into(), &["pools: 0 pools"]),
        (format!("{MINIMAL}\nadmin: {{listen: localhost}}"), &["admin.listen", "127.0.0.1:9902"]),
        (format!("{MINIMAL}\nadmin: {{port: 1}}"), &["admin", "unknown field `port`", "listen"]),
        (format!("{MINIMAL}\npush: {{heartbeat_ms: 5000}}"), &["push.heartbeat_ms", "50 to 1000"]),
        (format!("{MINIMAL}\nlog: {{filter: 'a=b=c'}}"), &["log.filter"]),
        (format!("{MINIMAL}\nenvoys: [{{endpoint: 'http://a:1'}}]"), &["envoys[0].secret_file", "Unix socket"]),
        (format!("{MINIMAL}\nenvoys: [{{endpoint: 'ftp:a'}}]"), &["envoys[0].endpoint", "unix:/path"]),
        (pool("workers: 3"), &["pools[0].workers", "sequence"]),
        (pool("block_size: 0, workers: []"), &["pools[0].block_size", "learned"]),
        (pool("cluster: w"), &["pools[0].workers", "workers_file"]),
        (pool("workers: [], workers_file: a"), &["pools[0].workers_file", "keep"]),
        (workers("{address: 'a:1'}"), &["pools[0].workers[0].address", "10.0.0.7:8000"]),
        (workers("{address: '1.1.1.1:1'}, {address: '1.1.1.1:1'}"), &["pools[0].workers[1].address", "already"]),
        (workers("{address: '1.1.1.1:1', role: x}"), &["pools[0].workers[0].role", "prefill"]),
        (
            workers("{address: '1.1.1.1:1', labels: {llm-d.ai/role: encode}}"),
            &["pools[0].workers[0].labels", "`encode`", "prefill-decode"],
        ),
        (workers("{address: '1.1.1.1:1', ranks: 0}"), &["pools[0].workers[0].ranks"]),
        (workers("{address: '1.1.1.1:1', first_rank: 1}"), &["pools[0].workers[0].first_rank", "`ranks`"]),
        (
            workers("{address: '1.1.1.1:1', ranks: 2, events: {endpoint: 'ipc:///a'}}"),
            &["pools[0].workers[0].ranks", "ipc:///a"],
        ),
        (workers("{address: '1.1.1.1:1', events: {endpoint: 'udp://a:1'}}"), &["workers[0].events.endpoint", "tcp://"]),
        (pool("workers: [], events: {port: 1, port_offset: 2}"), &["pools[0].events.port", "keep one"]),
        (pool("workers: [], events: {source: engine, port: 1}"), &["pools[0].events.source", "source: ports"]),
        (pool("workers: [], events: {source: dns}"), &["pools[0].events.source", "engine"]),
        (
            pool("workers: [{address: '1.1.1.1:80', events: {topic: t}}], events: {source: engine}"),
            &["pools[0].workers[0].events", "endpoint"],
        ),
        (
            pool("workers: [{address: '1.1.1.1:80'}], events: {port_offset: -100}"),
            &["pools[0].workers[0].events.endpoint", "-100"],
        ),
        (format!("warm_start: {{interval_ms: 1000}}\n{MINIMAL}"), &["warm_start.dir", "missing"]),
        (format!("warm_start: {{dir: d, interval_ms: 1}}\n{MINIMAL}"), &["warm_start.interval_ms", "100"]),
        (pool("workers: [], limits: {max_engine_blocks: 5}"), &["pools[0].limits.max_engine_blocks", "1024"]),
        (
            pool("workers: [], limits: {max_engine_blocks: 2000, max_pool_engine_blocks: 1999}"),
            &["pools[0].limits.max_pool_engine_blocks", "max_engine_blocks"],
        ),
        (pool("workers: [], events: {gap_policy: forget}"), &["pools[0].events.gap_policy", "keep"]),
        (pool("workers: [], events: {parity: ignore}"), &["pools[0].events.parity", "report"]),
        (pool("workers: [], engine: trtllm, adapters: [a]"), &["pools[0].adapters", "events.enabled: false"]),
        (pool("workers: [], chat: {utc_offset_minutes: 9000}"), &["pools[0].chat.utc_offset_minutes"]),
        (pool("workers: [], chat: {content_format: xml}"), &["pools[0].chat.content_format", "openai"]),
        (pool("workers: [], chat: {default_kwargs: [1]}"), &["pools[0].chat.default_kwargs"]),
        (pool("workers: [], stale: {after_ms: 5}"), &["pools[0].stale.after_ms"]),
        (pool("workers: [], predict: {ms: 86400001}"), &["pools[0].predict.ms", "a day"]),
        (pool("workers: [], probe: {health_path: health}"), &["pools[0].probe.health_path"]),
        ("pools: [{name: p, models: [], workers: []}]".into(), &["pools[0].models"]),
        ("pools: [{name: '', models: [m], workers: []}]".into(), &["pools[0].name", "empty"]),
        (
            "pools: [{name: a, models: [m], workers: []}, {name: b, models: [x], adapters: [m], workers: []}]".into(),
            &["pools[1].adapters[0]", "`m` already names pool 0"],
        ),
        (
            "pools: [{name: a, models: [m], workers: [], eds_file: e}, {name: b, models: [n], workers: [], eds_file: e}]"
                .into(),
            &["pools[1].eds_file"],
        ),
    ];
    for (text, expected) in cases {
        let error = refused(&text);
        for part in expected {
            assert!(error.contains(part), "`{part}` missing in: {error}\nfor: {text}");
        }
    }
}

#[test]
fn roles_are_told_by_a_label_too() {
    use kv_routing::wire::Role;
    let role = |rest: &str, pool: &str| {
        let text = format!("pools: [{{name: p, models: [m], workers: [{{address: '1.1.1.1:1', {rest}}}], {pool}}}]");
        let config = parse(&text).unwrap();
        let WorkerSource::Static(workers) = &config.pools[0].workers else { panic!("not static") };
        workers[0].role
    };
    for (label, expected) in
        [("prefill", Role::Prefill), ("decode", Role::Decode), ("both", Role::Both), ("prefill-decode", Role::Both)]
    {
        assert_eq!(role(&format!("labels: {{llm-d.ai/role: {label}}}"), ""), Some(expected), "{label}");
    }
    assert_eq!(role("labels: {llm-d.ai/role: decode}, role: prefill", ""), Some(Role::Prefill), "as configured");
    assert_eq!(role("labels: {zone: prefill}", ""), None);
    assert_eq!(role("labels: {zone: prefill}", "disaggregation: {role_label: zone}"), Some(Role::Prefill));
}

#[test]
fn workers_files_are_yaml_or_json() {
    let pool = parse(MINIMAL).unwrap().pools.remove(0);
    let parse = |text: &str| parse_workers(text, Path::new("w"), &pool.worker_defaults, pool.limits);
    let yaml = parse("workers:\n- address: 1.2.3.4:80\n  labels: {zone: a}\n  drain: true\n").unwrap();
    let json = parse(r#"{"workers":[{"address":"1.2.3.4:80","labels":{"zone":"a"},"drain":true}]}"#).unwrap();
    assert_eq!(yaml, json);
    assert!(yaml[0].drain);
    // An empty or cut-off file must never be read as "no workers".
    for bad in ["", "workers:", "workers:\n- address", "[]", "workers: [{address: '1.2.3.4:80', zone: a}]"] {
        assert!(parse(bad).is_err(), "{bad:?}");
    }
    assert!(parse("workers: []").unwrap().is_empty());
}
