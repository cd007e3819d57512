//! Requests go to the worker that holds their prompt.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::decision::Decision;
use e2e::engine::{self, Engine};
use e2e::prompt::{self, message};
use e2e::stack::{Options, Stack};
use serde_json::Value;

/// What a reader of an answer needs before asking on, at the very least. An event is routable well within it.
const THINK_TIME: Duration = Duration::from_millis(50);

async fn engines(count: usize) -> (Stack, Vec<Engine>) {
    let engines = Engine::start_many(count, &engine::config()).await;
    let workers: Vec<_> = engines.iter().map(Engine::worker).collect();
    (Stack::start(&workers, Options::default()).await, engines)
}

async fn ask(stack: &mut Stack, document: &Value) -> (Value, Decision) {
    let reply = stack.chat(document).await.expect_ok();
    let decision = stack.next_decision().await;
    tokio::time::sleep(THINK_TIME).await;
    (reply.json(), decision)
}

fn cached_tokens(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0)
}

#[tokio::test]
async fn a_repeated_prompt_and_a_longer_one_go_to_the_holder_while_fresh_ones_spread() {
    let (mut stack, _engines) = engines(3).await;
    let text = prompt::text(1, 1_500);
    let first = prompt::chat("mock", &[message("user", &text)], 1);
    let (answer, placed) = ask(&mut stack, &first).await;
    assert_eq!(placed.overlap.total(), 0, "nobody has it yet");
    assert_eq!(answer["usage"]["prompt_tokens"], placed.tokens, "the filter counts tokens as the engine does");

    for _ in 0..5 {
        let (answer, again) = ask(&mut stack, &first).await;
        assert_eq!(again.target, placed.target);
        assert_eq!((again.rung.as_str(), again.overlap.total()), ("exact", placed.blocks));
        assert_eq!(cached_tokens(&answer), again.predicted_cached_tokens(16));
    }

    let longer = prompt::chat(
        "mock",
        &[message("user", &text), message("assistant", "Indeed."), message("user", &prompt::text(2, 300))],
        1,
    );
    let (answer, longer) = ask(&mut stack, &longer).await;
    assert_eq!(longer.target, placed.target);
    assert!(longer.blocks > placed.blocks && longer.overlap.total() + 1 >= placed.blocks, "{longer:?}");
    assert_eq!(cached_tokens(&answer), longer.predicted_cached_tokens(16));

    let mut per_worker = BTreeMap::new();
    for seed in 100..148 {
        let (_, fresh) = ask(&mut stack, &prompt::question("mock", seed, 300)).await;
        assert_eq!(fresh.overlap.total(), 0);
        *per_worker.entry(fresh.target).or_insert(0) += 1;
    }
    assert_eq!(per_worker.len(), 3, "{per_worker:?}");
    assert!(per_worker.values().all(|count| *count >= 5), "48 fresh prompts over 3 idle workers: {per_worker:?}");
}

/// Ten conversations of ten turns, turn by turn, each turn with everything said before.
#[tokio::test]
async fn the_predicted_overlap_is_what_the_engine_finds_cached() {
    const CONVERSATIONS: u64 = 10;
    const TURNS: u64 = 10;
    let (mut stack, _engines) = engines(2).await;
    let mut conversations: Vec<Vec<Value>> =
        (0..CONVERSATIONS).map(|seed| vec![message("system", &prompt::text(seed / 2, 120))]).collect();
    let (mut equal, mut cached, mut differences) = (0, 0, Vec::new());
    for turn in 0..TURNS {
        for (number, conversation) in conversations.iter_mut().enumerate() {
            let seed = 1_000 + turn * CONVERSATIONS + number as u64;
            conversation.push(message("user", &prompt::text(seed, 40 + 13 * turn as usize)));
            let (answer, decision) = ask(&mut stack, &prompt::chat("mock", conversation, 24)).await;
            let (predicted, found) = (decision.predicted_cached_tokens(16), cached_tokens(&answer));
            equal += usize::from(predicted == found);
            cached += usize::from(found > 0);
            if predicted != found {
                differences.push(format!("turn {turn} of {number}: predicted {predicted}, found {found}"));
            }
            let said = answer["choices"][0]["message"]["content"].as_str().expect("content");
            conversation.push(message("assistant", said));
        }
    }
    println!("{equal} of 100 predictions equal what the engine found; {cached} found something");
    assert!(cached >= 90, "only {cached} of 100 requests found anything cached: nothing is shown by their equality");
    assert!(equal >= 99, "{differences:#?}");
}

/// Token-id prompts need no tokenizer at all.
#[tokio::test]
async fn a_token_id_prompt_goes_to_the_holder() {
    let engines = Engine::start_many(2, &engine::config()).await;
    let workers: Vec<_> = engines.iter().map(Engine::worker).collect();
    let mut stack = Stack::start(&workers, Options { family: None, ..Options::default() }).await;
    let ids: Vec<u32> = (1_000..1_800).collect();
    let first = prompt::token_ids("mock", &ids, 1);
    stack.complete(&first).await.expect_ok();
    let placed = stack.next_decision().await;
    assert_eq!((placed.tokens, placed.blocks), (800, 50));
    tokio::time::sleep(THINK_TIME).await;
    stack.complete(&first).await.expect_ok();
    let again = stack.next_decision().await;
    assert_eq!((again.target, again.overlap.total()), (placed.target, 50));
}

/// The access log tells why.
#[tokio::test]
async fn the_access_log_explains_each_request() {
    let (mut stack, engines) = engines(2).await;
    stack.chat(&prompt::question("mock", 1, 300)).await.expect_ok();
    let line = stack.next_line().await;
    let decision = line.decision.expect("routed");
    assert_eq!((line.status, line.attempts), (200, 1));
    assert_eq!(line.upstream, decision.target, "the host that answered is the one chosen");
    assert_eq!(decision.pool, "pool");
    assert_eq!(decision.blocks, decision.tokens / 16);
    assert!(decision.cost.total > 0.0);
    let others: Vec<String> =
        engines.iter().map(|engine| engine.address()).filter(|address| *address != decision.target).collect();
    assert_eq!(decision.fallbacks, others);
    let runner_up = decision.runner_up.expect("two workers");
    assert_eq!(runner_up.target, others[0]);
    assert!(runner_up.cost >= decision.cost.total);
}
