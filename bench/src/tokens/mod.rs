//! Tokenizing inside Envoy: the core's way, and the published `tokenizers` crate compiled to wasm, in the same VM.

mod table;
mod text;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::client::{self, Client};
use e2e::envoy::{self, Envoy};
use e2e::scratch::Scratch;
use serde_json::{Value, json};

pub use table::render;
use text::Text;

const CONFIG: &str = "bench/tokens/envoy.yaml";
const TURNS: usize = 20;
const LONG_WORD_BYTES: usize = 200_000;
/// Chats after which V8 has long replaced the code it began with: figures stay the same from about the 150th on.
const SETTLING: usize = 400;

/// Times of one kind of work, medians.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was done.
    pub work: String,
    /// Tokens of one prompt.
    pub tokens: u64,
    /// The core.
    pub core: Duration,
    /// Parsing and template of it, for chats.
    pub before: Option<[Duration; 2]>,
    /// Its longest slice in any prompt.
    pub slice: Duration,
    /// The library, where it can do that work.
    pub reference: Option<Duration>,
    /// Highest median that is allowed.
    pub budget: Option<Duration>,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time to load a tokenizer: the core's compiled form, the library's `tokenizer.json`.
    pub load: [Duration; 2],
    /// Linear memory of the VM in bytes after all work, before the library was loaded, and growth by the library.
    pub memory: [u64; 2],
    /// Kinds of work.
    pub rows: Vec<Row>,
}

/// Measures with the tokenizer in `model` and the module at `wasm`.
///
/// # Errors
/// When the tokenizer cannot be compiled, a call fails, or core and library differ in their tokens.
pub async fn measure(model: &Path, wasm: &Path) -> Result<Outcome> {
    let scratch = Scratch::new();
    // One thread, hence one VM, so that each measurement finds what an earlier one loaded.
    let options = envoy::Options { config: CONFIG, wasm: wasm.to_owned(), concurrency: 1, ..envoy::Options::default() };
    let bench = Bench { envoy: Envoy::start(&scratch, &options).await, client: Client::new() };
    let compiled = event_bridge::tokenizer::compile(model).context("compiling the tokenizer")?.bytes;

    let mut text = Text::of_repository()?;
    let mut load = Vec::new();
    for _ in 0..9 {
        load.push(bench.call("/core/load", &compiled).await?.nanos()?);
    }
    let mut rows = Vec::new();
    let mut prompts = Vec::new();
    for (tokens, rounds) in [(1_000, 61), (8_000, 31), (32_000, 15), (128_000, 7)] {
        let (row, fresh) = unseen(&bench, &mut text, tokens, rounds).await?;
        rows.push(row);
        prompts.push(fresh);
    }
    let mut first = next_turn(&bench, &mut text, 8_000, None).await?;
    first.work.push_str(", a VM's first chats");
    rows.push(first);
    settle(&bench, &mut text).await?;
    for (tokens, budget) in [(8_000, 150), (32_000, 500), (128_000, 1_500)] {
        rows.push(next_turn(&bench, &mut text, tokens, Some(Duration::from_micros(budget))).await?);
    }
    rows.push(long_word(&bench).await?);
    let memory = bench.call("/core/text", b"x").await?.number("memory")?;

    let file = fs::read(model.join("tokenizer.json")).context("tokenizer.json")?;
    let loaded = bench.call("/reference/load", &file).await?;
    for (row, prompts) in rows.iter_mut().zip(&prompts) {
        row.reference = Some(reference(&bench, prompts).await?);
    }
    let after = bench.call("/core/text", b"x").await?.number("memory")?;
    Ok(Outcome { load: [median(load), loaded.nanos()?], memory: [memory, after - memory], rows })
}

/// Prompts of text that no earlier one had, so that only words can be known.
async fn unseen(bench: &Bench, text: &mut Text, tokens: usize, rounds: usize) -> Result<(Row, Vec<String>)> {
    let prompts: Vec<String> = (0..rounds).map(|_| text.take(tokens)).collect();
    let mut times = Times::default();
    for prompt in &prompts {
        times.add(&bench.call("/core/text", prompt.as_bytes()).await?)?;
    }
    // 180 ns for each token at 8K.
    let budget = (tokens == 8_000).then(|| Duration::from_nanos(180 * times.tokens));
    Ok((times.row(format!("unseen text, {}K", tokens / 1000), budget), prompts))
}

/// Enough chats that V8 has optimised what they run through. Other calls do not: they need no template.
async fn settle(bench: &Bench, text: &mut Text) -> Result<()> {
    for _ in 0..SETTLING {
        let turns = turns(text, TURNS, 100);
        bench.call("/core/chat", &chat(&turns)).await?;
    }
    Ok(())
}

/// The last of twenty turns, after the first nineteen: parsing, template, tokens and hashes.
async fn next_turn(bench: &Bench, text: &mut Text, tokens: usize, budget: Option<Duration>) -> Result<Row> {
    let mut times = Times::default();
    let (mut parse, mut template) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        let turns = turns(text, TURNS, tokens / TURNS);
        bench.call("/core/chat", &chat(turns.get(..TURNS - 1).context("turns")?)).await?;
        let answer = bench.call("/core/chat", &chat(&turns)).await?;
        times.add(&answer)?;
        parse.push(Duration::from_nanos(answer.number("parse")?));
        template.push(Duration::from_nanos(answer.number("template")?));
    }
    let row = times.row(format!("next turn of a chat, {}K in {TURNS} turns", tokens / 1000), budget);
    Ok(Row { before: Some([median(parse), median(template)]), ..row })
}

/// Messages of about so many tokens each, the first and every other one the user's.
fn turns(text: &mut Text, count: usize, tokens: usize) -> Vec<Value> {
    let role = |turn: usize| if turn.is_multiple_of(2) { "user" } else { "assistant" };
    (0..count).map(|turn| json!({"role": role(turn), "content": text.take(tokens)})).collect()
}

fn chat(messages: &[Value]) -> Vec<u8> {
    json!({"model": "m", "messages": messages, "max_tokens": 64}).to_string().into_bytes()
}

/// A word without end: the worst case of merging.
async fn long_word(bench: &Bench) -> Result<Row> {
    let mut times = Times::default();
    for seed in 0..9 {
        times.add(&bench.call("/core/text", text::letters(seed, LONG_WORD_BYTES).as_bytes()).await?)?;
    }
    Ok(times.row("one word of 200 KB".into(), Some(Duration::from_millis(80))))
}

/// The library on the same prompts; the first must give the same tokens.
async fn reference(bench: &Bench, prompts: &[String]) -> Result<Duration> {
    let first = prompts.first().context("prompts")?.as_bytes();
    let ids = [bench.call("/core/ids", first).await?, bench.call("/reference/ids", first).await?];
    ensure!(ids[0].0 == ids[1].0, "core and library differ in their tokens");
    let mut times = Vec::new();
    // It is slow enough for few rounds to be steady.
    for prompt in prompts.iter().take(5) {
        times.push(bench.call("/reference/text", prompt.as_bytes()).await?.nanos()?);
    }
    Ok(median(times))
}

struct Bench {
    envoy: Envoy,
    client: Client,
}

impl Bench {
    async fn call(&self, path: &str, body: &[u8]) -> Result<Answer> {
        let request = client::post(&self.envoy.url(path), body.to_vec());
        let reply = self.client.send(request).await.with_context(|| format!("{path}\n{}", self.envoy.output()))?;
        Ok(Answer(reply.expect_ok().json()))
    }
}

struct Answer(Value);

impl Answer {
    fn number(&self, name: &str) -> Result<u64> {
        self.0[name].as_u64().with_context(|| format!("no {name} in {}", self.0))
    }

    fn nanos(&self) -> Result<Duration> {
        self.number("nanos").map(Duration::from_nanos)
    }
}

#[derive(Default)]
struct Times {
    all: Vec<Duration>,
    slice: Duration,
    tokens: u64,
}

impl Times {
    fn add(&mut self, answer: &Answer) -> Result<()> {
        self.all.push(answer.nanos()?);
        self.slice = self.slice.max(Duration::from_nanos(answer.number("longest")?));
        self.tokens = answer.number("tokens")?;
        Ok(())
    }

    fn row(self, work: String, budget: Option<Duration>) -> Row {
        Row {
            work,
            tokens: self.tokens,
            core: median(self.all),
            before: None,
            slice: self.slice,
            reference: None,
            budget,
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
