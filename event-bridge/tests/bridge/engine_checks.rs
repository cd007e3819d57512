//! Engines are asked what they make of built-in prompts.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use event_bridge::bridge::Bridge;
use event_bridge::config::{Config, WorkerAddress};
use event_bridge::cross_check::{self, Culprit, Model, Ours, Outcome};
use event_bridge::probe::WorkerClient;
use event_bridge::tokenizer::{BridgeTokenizer, ModelFiles, Reference, RenderOptions, compile_files};
use kv_routing::openai::{Endpoint, parse};
use kv_routing::wire::UnixMillis;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Scratch, admin, metrics, one_envoy, until};
use crate::worker::FakeWorker;

/// Folder of a tokenizer that `make setup` fetches.
fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.deps/tokenizers").join(name)
}

fn files(folder: &Path) -> ModelFiles {
    ModelFiles::read(folder).expect("run `make setup`, it fetches the tokenizers tests need")
}

/// What a fake engine serves.
#[derive(Clone)]
struct Engine {
    tokenizer: Arc<Mutex<Arc<BridgeTokenizer>>>,
    renders: bool,
    broken: Arc<AtomicBool>,
}

impl Engine {
    fn new(files: &ModelFiles, renders: bool) -> Self {
        let tokenizer = Arc::new(Mutex::new(Arc::new(serve(files))));
        Self { tokenizer, renders, broken: Arc::default() }
    }

    fn replace(&self, files: &ModelFiles) {
        *self.tokenizer.lock().unwrap() = Arc::new(serve(files));
    }

    fn router(self) -> Router {
        let models = Json(json!({"object": "list", "data": [{"id": "served", "object": "model"}]}));
        let engine = self.clone();
        let tokenize = post(move |uri: Uri, body: Bytes| async move { self.answer(&uri, &body) });
        let render = post(move |uri: Uri, body: Bytes| async move { engine.answer(&uri, &body) });
        Router::new()
            .route("/v1/models", get(move || async move { models }))
            .route("/tokenize", tokenize)
            .route("/v1/chat/completions/render", render)
    }

    fn answer(&self, uri: &Uri, body: &[u8]) -> Response {
        let renders = uri.path().ends_with("/render");
        if renders && !self.renders {
            return (StatusCode::FORBIDDEN, "scale-out endpoints are disabled").into_response();
        }
        if self.broken.load(Ordering::Relaxed) {
            return (StatusCode::SERVICE_UNAVAILABLE, "loading").into_response();
        }
        let fields: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(fields["model"], "served");
        let chat = fields.get("messages").is_some();
        let request = parse(if chat { Endpoint::ChatCompletions } else { Endpoint::Completions }, body).unwrap();
        let tokenizer = Arc::clone(&self.tokenizer.lock().unwrap());
        match tokenizer.tokenize(&request, UnixMillis(1_796_051_160_000)) {
            Ok(prompt) => {
                let tokens: Vec<u32> = prompt.tokens.iter().map(|token| token.0).collect();
                let name = if renders { "token_ids" } else { "tokens" };
                Json(json!({name: tokens, "count": tokens.len(), "max_model_len": 4096})).into_response()
            }
            Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
        }
    }
}

fn serve(files: &ModelFiles) -> BridgeTokenizer {
    BridgeTokenizer::as_written(Reference::load(files).unwrap(), files, &RenderOptions::default())
}

/// The same model with another end of a tool's answer.
fn other_template(files: &ModelFiles) -> ModelFiles {
    let template = files.templates(RenderOptions::default().content_format).unwrap().template;
    let template = template.replace("</tool_response>", "</tool_answer>");
    ModelFiles { template: Some(template.into_bytes()), ..files.clone() }
}

fn config(scratch: &Scratch, workers: &[&FakeWorker]) -> Config {
    let list: Vec<Value> = workers.iter().map(|worker| json!({"address": worker.address()})).collect();
    let config = json!({
        "envoys": one_envoy(),
        "admin": {"listen": "127.0.0.1:0"},
        "pools": [{
            "name": "pool", "models": ["m"], "workers": list, "model_dir": folder("qwen2_5"), "check_with_engine": true,
            "probe": {"interval_ms": 100, "timeout_ms": 500}, "events": {"port": 1},
        }],
    });
    Config::parse(&config.to_string(), &scratch.path("bridge.yaml")).unwrap()
}

/// The pool and what `worker` said, once that is `status`.
async fn told(bridge: &Bridge, worker: &FakeWorker, status: &str) -> (Value, Value) {
    let look = async || {
        let pool = admin(bridge, "/workers").await.unwrap()["pools"][0].clone();
        let address = worker.address();
        let one = pool["workers"].as_array()?.iter().find(|one| one["address"] == address.as_str())?.clone();
        (one["engine_check"]["status"] == status).then_some((pool, one))
    };
    until(&format!("{} {status}", worker.address()), look).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn every_worker_says_whether_it_computes_what_is_hashed_here() {
    let qwen = files(&folder("qwen2_5"));
    let engines = [Engine::new(&qwen, false), Engine::new(&other_template(&qwen), true)];
    let [same, other] = engines.clone().map(Engine::router);
    let (same, other) = (FakeWorker::start_with(same).await, FakeWorker::start_with(other).await);
    let silent = FakeWorker::start().await;
    let scratch = Scratch::new();
    let bridge = Bridge::start(config(&scratch, &[&same, &other, &silent])).await.unwrap();

    let (pool, said) = told(&bridge, &same, "agrees").await;
    assert_eq!(pool["tokenizer"]["status"], "loaded");
    let counts = |name: &str| said["engine_check"][name].as_u64().unwrap();
    assert!(counts("equal") > 20 && counts("unanswered") > 5, "without /render some cannot be asked: {said}");

    let (pool, said) = told(&bridge, &other, "differs").await;
    let why = said["engine_check"]["why"].as_str().unwrap();
    assert!(why.contains("conversation \"") && why.contains("compare its chat template"), "{why}");
    assert_ne!(said["engine_check"]["filter_tokens"], said["engine_check"]["engine_tokens"]);
    assert_eq!(said["targets"][0]["state"], "mismatch", "{said}");
    assert_eq!(said["targets"][0]["reason"], "parity_template", "{said}");
    assert_eq!(pool["tokenizer"]["status"], "loaded", "the library says what the filter says");

    let (_, said) = told(&bridge, &silent, "unanswered").await;
    assert_eq!(said["engine_check"]["again"], false, "it has no such endpoints: {said}");
    assert_eq!(said["health"], "healthy");
    let text = metrics(&bridge).await;
    for result in ["agrees", "differs", "unanswered"] {
        let line = format!("kv_bridge_engine_checks{{pool=\"pool\",result=\"{result}\"}} 1");
        assert!(text.contains(&line), "{line}: {text}");
    }

    // The engine is started again, with the right template; and at first it is not quite there.
    engines[1].replace(&qwen);
    engines[1].broken.store(true, Ordering::Relaxed);
    other.restart();
    let (_, said) = told(&bridge, &other, "unanswered").await;
    assert_eq!(said["engine_check"]["again"], true, "{said}");
    engines[1].broken.store(false, Ordering::Relaxed);
    other.restart();
    let (_, said) = told(&bridge, &other, "agrees").await;
    assert!(said["engine_check"]["equal"].as_u64() > Some(counts("equal")), "with /render all can be asked: {said}");
    assert_ne!(said["targets"][0]["state"], "mismatch", "{said}");
    bridge.stop().await;
}

/// Asks a fake engine that serves `engine`, where `core` is what the filter was given and `configured` what it should be.
async fn asked(engine: &ModelFiles, core: &ModelFiles, configured: ModelFiles) -> (Outcome, bool) {
    let worker = FakeWorker::start_with(Engine::new(engine, true).router()).await;
    let client = WorkerClient::new(&WorkerAddress::parse(&worker.address()).unwrap(), PATIENCE);
    let options = RenderOptions::default();
    let ours = Ours { core: Some(compile_files(core, &options).unwrap().bytes), bridge: None };
    let (outcome, right) = cross_check::run(&client, ours, Model { files: configured, options }).await;
    (outcome, right.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_says_whose_fault_it_is() {
    let (qwen, llama) = (files(&folder("qwen2_5")), files(&folder("llama3_1")));
    let mut json: Value = serde_json::from_slice(&qwen.tokenizer).unwrap();
    json["normalizer"] = Value::Null;
    let wrong = ModelFiles { tokenizer: serde_json::to_vec(&json).unwrap(), ..qwen.clone() };

    let (outcome, right) = asked(&qwen, &wrong, qwen.clone()).await;
    let Outcome::Differs(difference) = outcome else { panic!("{outcome:?}") };
    assert_eq!((difference.culprit, right), (Culprit::Core, true), "{difference}");
    assert!(difference.prompt.starts_with("text "), "{difference}");

    let (outcome, right) = asked(&llama, &qwen, qwen.clone()).await;
    let Outcome::Differs(difference) = outcome else { panic!("{outcome:?}") };
    assert!(!right && difference.to_string().contains("another tokenizer's"), "{difference}");
    assert_eq!((difference.prompt.as_str(), difference.at), ("text 0", 0), "Llama's BOS token");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_no_difference() {
    let gone = { FakeWorker::start().await.address() };
    let client = WorkerClient::new(&WorkerAddress::parse(&gone).unwrap(), PATIENCE);
    let qwen = files(&folder("qwen2_5"));
    let options = RenderOptions::default();
    let ours = Ours { core: Some(compile_files(&qwen, &options).unwrap().bytes), bridge: None };
    let (outcome, _) = cross_check::run(&client, ours, Model { files: qwen, options }).await;
    assert!(matches!(&outcome, Outcome::Unanswered { why, again: true } if why.contains("/v1/models")), "{outcome:?}");
}
