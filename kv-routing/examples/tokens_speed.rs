//! Time per token and per prompt: `tokens_speed COMPILED TEXT [TEXT ...]`
//!
//! COMPILED is written by `event-bridge tokenizer compile`; the TEXT files are what prompts are made of, some megabytes of them, so that
//! fresh prompts never repeat. Runs natively and, built for `wasm32-wasip1`, under Node's WASI. Prints medians, and the
//! best for what is a single piece of work.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a tool for developers")]

use std::time::{Duration, Instant};

use kv_routing::block::{BlockSize, HashSeed};
use kv_routing::tokens::{CacheLimits, HashPlan, PreparedPrompt, Progress, Prompter};

const SIZES: [usize; 4] = [1 << 10, 8 << 10, 32 << 10, 128 << 10];
/// Longest slice seen, over all prompts.
const SLICE_BYTES: u32 = 64 << 10;

struct Bench {
    prompter: Prompter,
    plan: HashPlan,
    text: String,
    at: usize,
}

impl Bench {
    /// The next `bytes` bytes of the texts, more or less.
    fn take(&mut self, bytes: usize) -> String {
        if self.at + bytes > self.text.len() {
            self.at = 0;
        }
        let floor = |at: usize| (0..=at).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        let taken = self.text.get(floor(self.at)..floor(self.at + bytes)).unwrap_or("").to_owned();
        self.at += bytes;
        taken
    }

    fn prepare(&mut self, text: String, slice: u32) -> (PreparedPrompt, Duration, Duration) {
        let began = Instant::now();
        let mut longest = Duration::ZERO;
        let mut preparation = self.prompter.begin_text(text, false, self.plan);
        loop {
            let slice_began = Instant::now();
            let progress = self.prompter.advance(&mut preparation, slice);
            longest = longest.max(slice_began.elapsed());
            if let Progress::Done(prompt) = progress {
                return (prompt, began.elapsed(), longest);
            }
        }
    }

    /// Bytes per token of the texts.
    fn ratio(&mut self) -> f64 {
        let text = self.take(200_000);
        let bytes = text.len() as f64;
        let (prompt, _, _) = self.prepare(text, u32::MAX);
        bytes / f64::from(prompt.tokens)
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let compiled = std::fs::read(arguments.next().expect("a compiled tokenizer")).expect("readable");
    let texts: Vec<String> = arguments.map(|path| std::fs::read_to_string(path).expect("a text file")).collect();
    let bytes = compiled.len();
    let began = Instant::now();
    let prompter = Prompter::load(compiled, CacheLimits { bytes: 12 << 20 }).expect("a compiled tokenizer");
    println!("loaded {bytes} bytes in {:.2?}", began.elapsed());
    let plan = HashPlan { block_size: BlockSize::new(16).unwrap(), seed: HashSeed::default() };
    let mut bench = Bench { prompter, plan, text: texts.concat(), at: 0 };
    let ratio = bench.ratio();
    for size in SIZES {
        fresh(&mut bench, size, ratio);
    }
    for size in SIZES {
        chat(&mut bench, size, ratio);
    }
    for (name, unit) in [
        ("letters", "a"),
        ("random letters", ""),
        ("spaces", " "),
        ("=", "="),
        ("<", "<"),
        ("Chinese", "中"),
        ("marks", "\u{301}"),
    ] {
        long_word(&mut bench, name, unit);
    }
}

fn fresh(bench: &mut Bench, size: usize, ratio: f64) {
    let rounds = (4 << 20) / (size * 4) / 2;
    let mut per_token = Vec::new();
    let mut times = Vec::new();
    for _ in 0..rounds.clamp(5, 300) {
        let text = bench.take((size as f64 * ratio) as usize);
        let (prompt, taken, _) = bench.prepare(text, SLICE_BYTES);
        per_token.push(taken / prompt.tokens.max(1));
        times.push(taken);
    }
    let best = per_token.iter().min().copied().unwrap_or_default().as_nanos();
    println!(
        "fresh {size:>7} tokens: {:>9.1?}, {:>4} ns/token, best {best:>4}",
        median(times),
        median(per_token).as_nanos()
    );
}

/// Twenty turns; all but the last have been seen.
fn chat(bench: &mut Bench, size: usize, ratio: f64) {
    let turn = (size as f64 * ratio / 20.0) as usize;
    let (mut times, mut first) = (Vec::new(), Vec::new());
    for _ in 0..if size > 100_000 { 5 } else { 9 } {
        let mut text = String::new();
        for _ in 0..19 {
            let message = bench.take(turn);
            text.push_str(&format!("<|im_start|>user\n{message}<|im_end|>\n"));
        }
        let (_, taken, _) = bench.prepare(text.clone(), SLICE_BYTES);
        first.push(taken);
        for _ in 0..5 {
            let message = bench.take(turn);
            text.push_str(&format!("<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n"));
            let (_, taken, _) = bench.prepare(text.clone(), SLICE_BYTES);
            times.push(taken);
            text.truncate(text.len() - message.len() - 40);
        }
    }
    let best = times.iter().min().copied().unwrap_or_default();
    println!(
        "chat  {size:>7} tokens: first {:>9.1?}, next turn {:>9.1?}, best {best:>9.1?}",
        median(first),
        median(times)
    );
}

fn long_word(bench: &mut Bench, name: &str, unit: &str) {
    let text = if unit.is_empty() {
        let mut state = 1_u64;
        (0..200_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b'a' + (state >> 33) as u8 % 26)
            })
            .collect()
    } else {
        unit.repeat(200_000 / unit.len())
    };
    let runs: Vec<_> = (0..7).map(|run| bench.prepare(format!("{run}{text}"), SLICE_BYTES)).collect();
    let best = runs.iter().map(|(_, taken, _)| *taken).min().unwrap_or_default();
    let slice = runs.iter().map(|(_, _, longest)| *longest).min().unwrap_or_default();
    let tokens = runs.first().map_or(0, |(prompt, _, _)| prompt.tokens);
    println!("200 KB of {name:<15} {best:>9.1?} in all, longest slice {slice:>9.1?}, {tokens} tokens");
}
