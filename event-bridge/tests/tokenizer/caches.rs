//! Prompts prepared with caches, in slices, after other prompts, against the same prompts prepared alone.

use event_bridge::tokenizer::corpus::generate::{self, Random};
use event_bridge::tokenizer::{RenderOptions, compile_files, corpus};
use kv_routing::block::{BlockSize, HashSeed, chain};
use kv_routing::tokens::{HashPlan, PreparedPrompt, Progress, Prompter};

use crate::models::{files, prompter};

fn plan(block_size: u32, adapter: Option<&str>) -> HashPlan {
    HashPlan { block_size: BlockSize::new(block_size).unwrap(), seed: HashSeed::new(adapter, None) }
}

fn prepare(
    core: &mut Prompter,
    text: &str,
    framed: bool,
    plan: HashPlan,
    mut budget: impl FnMut() -> u32,
) -> PreparedPrompt {
    let mut preparation = core.begin_text(text.to_owned(), framed, plan);
    loop {
        if let Progress::Done(prompt) = core.advance(&mut preparation, budget()) {
            return prompt;
        }
    }
}

/// A conversation that grows, is edited in the middle, loses its beginning, and shares documents with others.
struct Conversations {
    random: Random,
    samples: Vec<String>,
    marks: [&'static str; 2],
    texts: Vec<String>,
}

impl Conversations {
    fn message(&mut self) -> String {
        let mut message = String::new();
        let parts = 1 + self.random.below(60);
        for _ in 0..parts {
            message.push_str(&generate::text(self.random.bits() % 5000, &self.samples));
        }
        message
    }

    fn next(&mut self) -> String {
        let message = self.message();
        let turn = format!("{}user\n{message}{}\n", self.marks[0], self.marks[1]);
        let known = self.random.below(self.texts.len());
        let text = match (self.texts.get(known).cloned(), self.random.below(6)) {
            (None, _) | (_, 0) => turn,
            (Some(text), 1) => text,
            (Some(text), 2) => edit(&mut self.random, &text),
            (Some(text), 3) => format!("{turn}{text}"),
            (Some(text), _) => format!("{text}{turn}"),
        };
        let text: String = text.chars().take(60_000).collect();
        self.texts.push(text.clone());
        text
    }
}

fn edit(random: &mut Random, text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let at = random.below(characters.len());
    match random.below(3) {
        0 => characters.insert(at, 'é'),
        1 if !characters.is_empty() => drop(characters.remove(at)),
        _ => characters.truncate(at),
    }
    characters.into_iter().collect()
}

fn check(name: &str, marks: [&'static str; 2]) {
    let compiled = compile_files(&files(name), &RenderOptions::default()).unwrap().bytes;
    let mut alone = prompter(compiled.clone(), 0);
    // The second is so small that it evicts all the time.
    for (cache, seed) in [(8 << 20, 1), (40_000, 2)] {
        let mut cached = prompter(compiled.clone(), cache);
        let mut conversations =
            Conversations { random: Random::new(seed), samples: corpus::texts(), marks, texts: Vec::new() };
        for round in 0..120 {
            let text = conversations.next();
            let framed = conversations.random.below(4) == 0;
            let plan = match conversations.random.below(5) {
                0 => plan(64, None),
                1 => plan(16, Some("adapter")),
                2 => plan(1, None),
                _ => plan(16, None),
            };
            let tokens = alone.encode(&text, framed);
            let budget = [7, 300, 5000, u32::MAX][conversations.random.below(4)];
            let prompt = prepare(&mut cached, &text, framed, plan, || budget);
            assert_eq!(prompt.tokens as usize, tokens.len(), "{name}, round {round}");
            assert!(prompt.chain == chain(&tokens, plan.block_size, plan.seed), "{name}, round {round}");
            assert!(cached.encode(&text, framed) == tokens, "{name}, round {round}");
        }
        let stats = cached.cache_stats();
        assert!(stats.prefix_hits > 0 && stats.chunk_hits > 0, "{name}: {stats:?}");
        assert_eq!(stats.evictions > 100, cache < 1 << 20, "{name}: {stats:?}");
        assert!(stats.bytes <= u64::from(cache), "{name}: {stats:?}");
    }
}

#[test]
fn caches_and_slices_change_nothing() {
    check("qwen2_5", ["<|im_start|>", "<|im_end|>"]);
    check("deepseek_v4", ["<｜User｜>", "<｜end▁of▁sentence｜>"]);
    check("gptoss", ["<|start|>", "<|end|>"]);
    check("gemma3", ["<start_of_turn>", "<end_of_turn>"]);
    check("llama2", ["<s>", "</s>"]);
}

/// Beginnings of 8 KiB are leapt over. Whatever follows one must not have changed how it is tokenized: an added token that began before
/// its end, or one that takes white space reaching back over its end.
#[test]
fn what_follows_a_known_beginning_changes_nothing() {
    const LEAP: usize = 8 << 10;
    let stripping = |text: &str| text.replace("\"lstrip\": false", "\"lstrip\": true");
    for change in [str::to_owned as fn(&str) -> String, stripping] {
        let mut files = files("qwen2_5");
        files.tokenizer = change(&String::from_utf8(files.tokenizer).unwrap()).into_bytes();
        let compiled = compile_files(&files, &RenderOptions::default()).unwrap().bytes;
        let mut alone = prompter(compiled.clone(), 0);
        let mut cached = prompter(compiled, 8 << 20);
        let words = "Some words, 12 of them, in lines of\ntheir own, over and over again. ".repeat(LEAP);
        for end in ["", "<|im_e", "<|im_end|", " ", "\n \t\n"] {
            for blank in [0, 100, 511, 512, 600, 2000, 5000, 8000] {
                let kept = LEAP - blank - end.len();
                let known = format!("{}{}{end}", &words[..kept], " ".repeat(blank));
                for tail in ["", "x", "nd|>x", "|>x", ">x", "<|im_end|>x", "   <|im_end|>", "\n<|im_end|>", "    "] {
                    let text = format!("{known}{tail}");
                    let tokens = alone.encode(&text, false);
                    let prompt = prepare(&mut cached, &text, false, plan(16, None), || u32::MAX);
                    assert_eq!(prompt.tokens as usize, tokens.len(), "{end:?} {blank} {tail:?}");
                    assert!(prompt.chain == chain(&tokens, plan(16, None).block_size, plan(16, None).seed));
                }
            }
        }
        assert!(cached.cache_stats().leaps > 100, "{:?}", cached.cache_stats());
    }
}

/// What no tokenizer was made for ends what is exact, and takes no more memory than its text.
#[test]
fn a_text_without_an_end_of_a_word_is_exact_up_to_there() {
    let mut core = prompter(compile_files(&files("qwen2_5"), &RenderOptions::default()).unwrap().bytes, 8 << 20);
    let words = "Some words before the end of all words. ".repeat(100);
    let endless = "a".repeat((1 << 20) + 4096);
    let text = format!("{words}{endless} {words}");
    let exact = core.encode(&words, false);
    for round in 0..3 {
        let prompt = prepare(&mut core, &text, false, plan(16, None), || u32::MAX);
        let certain = prompt.exact_tokens as usize;
        assert!((exact.len() - 600..exact.len()).contains(&certain), "round {round}: {certain} of {}", exact.len());
        assert!(prompt.tokens as usize > certain + endless.len() / 5, "round {round}: {}", prompt.tokens);
        let known = chain(&exact, plan(16, None).block_size, plan(16, None).seed);
        assert_eq!(prompt.chain[..certain / 16], known[..certain / 16], "round {round}");
    }
    let whole = prepare(&mut core, &words, false, plan(16, None), || u32::MAX);
    assert_eq!((whole.exact_tokens, whole.tokens), (exact.len() as u32, exact.len() as u32));
}

#[test]
fn the_next_turn_of_a_chat_costs_only_itself() {
    let mut core = prompter(compile_files(&files("qwen2_5"), &RenderOptions::default()).unwrap().bytes, 8 << 20);
    let samples = corpus::texts();
    let mut text = String::new();
    for turn in 0..40 {
        let message: String = (turn * 50..turn * 50 + 20).map(|number| generate::text(number, &samples)).collect();
        let added = format!("<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n");
        text.push_str(&added);
        let prompt = prepare(&mut core, &text, false, plan(16, None), || u32::MAX);
        assert!(prompt.fresh_bytes as usize <= added.len() + 200, "turn {turn}: {} fresh", prompt.fresh_bytes);
    }
    assert!(text.len() > 50_000, "{}", text.len());
    let again = prepare(&mut core, &text, false, plan(16, None), || u32::MAX);
    assert!(again.fresh_bytes < 200, "{}", again.fresh_bytes);
    assert!(core.cache_stats().leaps > 20, "{:?}", core.cache_stats());
}

#[test]
fn a_shared_document_costs_nothing_behind_another_question() {
    let mut core = prompter(compile_files(&files("qwen2_5"), &RenderOptions::default()).unwrap().bytes, 8 << 20);
    let document: String = (0..2000).map(|line| format!("Line {line} of the manual says what it says. ")).collect();
    let ask = |core: &mut Prompter, question: &str| {
        let text = format!("<|im_start|>user\n{question}\n\n{document}\n{question}<|im_end|>\n");
        prepare(core, &text, false, plan(16, None), || u32::MAX).fresh_bytes as usize
    };
    assert!(ask(&mut core, "What is it?") > document.len());
    let fresh = ask(&mut core, "Who wrote all this, and why would anybody read it?");
    assert!(fresh < 20_000, "{fresh} of {} bytes fresh", document.len());
}
