//! Engines that do not compute the prompts that the filter believes they do.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use e2e::decision::Decision;
use e2e::engine::{self, Engine};
use e2e::prompt::{self, message};
use e2e::scratch::Scratch;
use e2e::stack::{Options, Stack};
use e2e::{paths, wait};
use mock_engine::{EngineConfig, Model, ModelSource};
use serde_json::{Value, json};

/// Requests within which a difference has to be found.
const REQUESTS: u64 = 20;
/// Time for events, decisions and the patience with late events.
const LIMIT: Duration = Duration::from_secs(10);
/// As Qwen3's own, but for two words before each question.
const OTHER_TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n\
    {% if message.role == 'user' %}Question: {% endif %}{{ message.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A stack over one engine.
struct Suspect {
    stack: Stack,
    engine: Engine,
}

impl Suspect {
    async fn start(config: EngineConfig) -> Self {
        let engine = Engine::start(config).await;
        // Only what events tell is to be followed.
        let options = Options { pool: json!({"predict": {"ms": 0}}), ..Options::default() };
        let stack = Stack::start(&[engine.worker()], options).await;
        Self { stack, engine }
    }

    async fn ask(&mut self, document: &Value) -> Decision {
        self.stack.chat(document).await.expect_ok();
        self.stack.next_decision().await
    }

    /// The engine's target, by the admin API.
    async fn target(&self) -> Value {
        let pools = self.stack.bridge.get("/workers").await;
        let workers = pools["pools"][0]["workers"].as_array().expect("workers").clone();
        let own = workers.into_iter().find(|worker| worker["address"] == self.engine.address().as_str());
        own.expect("the worker")["targets"][0].clone()
    }

    /// Different questions, and then the target once it is in `state`.
    async fn questioned(&mut self, state: &str) -> Value {
        for seed in 0..REQUESTS {
            self.ask(&prompt::question("mock", seed, 100)).await;
        }
        let (target, took) = wait::until(&format!("the target is {state}"), LIMIT, || async {
            Some(self.target().await).filter(|target| target["state"] == state)
        })
        .await;
        println!("{state} {took:?} after {REQUESTS} requests: {}", target["parity"]);
        target
    }

    /// Waits until Envoy has the state that the bridge shows.
    async fn envoy_knows(&self) {
        wait::until("Envoy knows", LIMIT, || async {
            let pools = self.stack.bridge.get("/workers").await;
            let envoys = self.stack.bridge.get("/envoys").await;
            (pools["pools"][0]["table_version"] == envoys["envoys"][0]["tables"][0]).then_some(())
        })
        .await;
    }

    /// Expects a failure with this cause, and that nothing is routed by the engine's cache any more.
    async fn expect_mismatch(&mut self, cause: &str) -> Value {
        let target = self.questioned("mismatch").await;
        let difference = &target["parity"]["difference"];
        assert_eq!(difference["cause"], cause);
        assert_eq!(target["reason"], format!("parity_{cause}"));
        let labels = format!("reason=\"parity_{cause}\"");
        assert_eq!(self.stack.bridge.metric("kv_bridge_source_state", &labels).await, 1.0);
        self.envoy_knows().await;
        for _ in 0..2 {
            let decision = self.ask(&prompt::question("mock", 0, 100)).await;
            assert_eq!((decision.state.as_str(), decision.overlap.total()), ("mismatch", 0));
            assert_ne!(decision.rung, "exact");
        }
        target["parity"]["difference"].clone()
    }
}

fn tokens(list: &Value) -> Vec<u64> {
    list.as_array().expect("tokens").iter().map(|token| token.as_u64().expect("id")).collect()
}

#[tokio::test]
async fn an_engine_that_computes_what_the_filter_says_is_exact() {
    let mut right = Suspect::start(engine::config()).await;
    assert_ne!(right.target().await["state"], "exact", "nothing was shown yet");
    let target = right.questioned("exact").await;
    assert_eq!((&target["reason"], &target["parity"]["difference"]), (&"in_order".into(), &Value::Null));
    assert_eq!(target["parity"]["missing"], 0);
    right.envoy_knows().await;
    let again = right.ask(&prompt::question("mock", 0, 100)).await;
    assert_eq!((again.state.as_str(), again.overlap.total()), ("exact", again.blocks));
}

#[tokio::test]
async fn a_wrong_chat_template_is_found_out() {
    let scratch = Scratch::new();
    let qwen3 = paths::model_dir("qwen3");
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(qwen3.join(file), scratch.path(file)).expect("copy");
    }
    scratch.replace("chat_template.jinja", OTHER_TEMPLATE);
    let model = Arc::new(Model::load(scratch.dir()).expect("model folder"));
    let mut suspect = Suspect::start(EngineConfig { model: ModelSource::Loaded(model), ..engine::config() }).await;

    // System prompts are put together alike, so their blocks are found, and were followed.
    let system = message("system", &prompt::text(1, 300));
    let question = |seed| prompt::chat("mock", &[system.clone(), message("user", &prompt::text(seed, 20))], 1);
    suspect.ask(&question(100)).await;
    let (followed, _) = wait::until("the system prompt is found", LIMIT, async || {
        let decision = suspect.ask(&question(101)).await;
        (decision.overlap.total() > 20).then_some(decision)
    })
    .await;
    assert_eq!(followed.rung, "exact");

    let difference = suspect.expect_mismatch("template").await;
    let (ours, theirs) = (tokens(&difference["filter_tokens"]), tokens(&difference["engine_tokens"]));
    // <|im_start|>user\n, and then the engine goes on with its own words.
    assert_eq!(
        (difference["agreed_blocks"].as_u64(), &ours[..3], &theirs[..2]),
        (Some(0), &theirs[..3], &[151_644, 872][..])
    );
    assert!(theirs.windows(10).any(|window| *window == ours[20..30]), "the question itself, behind them");
    let after = suspect.ask(&question(102)).await;
    assert_eq!((after.state.as_str(), after.overlap.total()), ("mismatch", 0), "the system prompt is followed no more");
}

#[tokio::test]
async fn a_wrong_tokenizer_is_found_out() {
    for family in ["llama3_1", "gemma3"] {
        let model = Arc::new(Model::load(&paths::model_dir(family)).expect("model folder"));
        let config = EngineConfig { model: ModelSource::Loaded(model), ..engine::config() };
        Suspect::start(config).await.expect_mismatch("tokenizer").await;
    }
}

#[tokio::test]
async fn a_block_size_that_does_not_fit_is_found_out() {
    let mut suspect = Suspect::start(engine::config()).await;
    suspect.questioned("exact").await;
    // A second engine joins, whose pages are neither parts nor multiples of the pool's blocks.
    let right = std::mem::replace(
        &mut suspect.engine,
        Engine::start(EngineConfig { block_size: 24, ..engine::config() }).await,
    );
    e2e::bridge::write_workers(&suspect.stack.scratch, &[right.worker(), suspect.engine.worker()]);
    suspect.stack.settle(2).await;
    right.die();
    wait::until("only the second engine is left", LIMIT, || async {
        let pools = suspect.stack.bridge.get("/workers").await;
        let workers = pools["pools"][0]["workers"].as_array().expect("workers").clone();
        workers.iter().any(|worker| worker["health"] == "unhealthy").then_some(())
    })
    .await;
    suspect.expect_mismatch("block_size").await;
}

/// A block size that is only configured wrongly is not obeyed.
#[tokio::test]
async fn the_block_size_of_events_counts_and_a_configured_one_that_differs_is_reported() {
    let mut suspect = Suspect::start(EngineConfig { block_size: 32, ..engine::config() }).await;
    suspect.questioned("exact").await;
    let pools = suspect.stack.bridge.get("/workers").await;
    let pool = &pools["pools"][0];
    assert_eq!((&pool["block_size"], &pool["expected_block_size"]), (&32.into(), &16.into()));
    assert_eq!(suspect.stack.bridge.metric("kv_bridge_block_size_mismatch", "").await, 1.0);
}

#[tokio::test]
async fn a_salt_that_the_request_does_not_carry_is_found_out() {
    let config = EngineConfig { default_cache_salt: Some("tenant".into()), ..engine::config() };
    let difference = Suspect::start(config).await.expect_mismatch("salt").await;
    assert_eq!(tokens(&difference["filter_tokens"]), tokens(&difference["engine_tokens"]));
}
