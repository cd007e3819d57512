//! Answers: words that depend only on the prompt, and that tokenize back to the ids they were generated as, so that a
//! conversation continued with the answer hits the blocks that generation filled.

use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;

/// How many words of each kind are kept: enough for varied text, few enough to choose quickly.
const KEPT: usize = 2_048;

/// Tokens that decode to plain lower-case words.
#[derive(Debug)]
pub struct Words {
    /// Words without a leading space, for the first token of an answer.
    first: Vec<Word>,
    /// Words with a leading space, for the rest.
    following: Vec<Word>,
}

#[derive(Debug)]
struct Word {
    id: u32,
    text: String,
}

impl Words {
    /// Picks words from the vocabulary: the lowest ids whose text is `[ ]?[a-z]{2,}` and encodes back to that one id
    /// even between other text. `None` when there are none.
    pub fn choose(tokenizer: &Tokenizer) -> Option<Self> {
        let special = tokenizer.get_added_tokens_decoder();
        let mut ids: Vec<(u32, String)> = tokenizer
            .get_vocab(false)
            .into_iter()
            .filter(|(_, id)| !special.contains_key(id))
            .filter_map(|(token, id)| Some((id, surface(&token)?)))
            .collect();
        ids.sort_unstable();
        let (mut first, mut following) = (Vec::new(), Vec::new());
        for (id, text) in ids {
            let kind = if text.starts_with(' ') { &mut following } else { &mut first };
            if kind.len() < KEPT && survives(tokenizer, id, &text) {
                kind.push(Word { id, text });
            }
        }
        (!first.is_empty() && !following.is_empty()).then_some(Self { first, following })
    }

    fn word(&self, index: usize, draw: u64) -> &Word {
        let kind = if index == 0 { &self.first } else { &self.following };
        &kind[(draw % kind.len() as u64) as usize]
    }
}

/// The text of a vocabulary entry that is a plain word, in byte-level (`Ġ`) or SentencePiece (`▁`) spelling.
fn surface(token: &str) -> Option<String> {
    let text = match token.strip_prefix(['Ġ', '▁']) {
        Some(rest) => format!(" {rest}"),
        None => token.to_owned(),
    };
    let word = text.trim_start();
    (word.len() >= 2 && word.bytes().all(|byte| byte.is_ascii_lowercase())).then_some(text)
}

/// Whether the word stays one token when other words surround it.
fn survives(tokenizer: &Tokenizer, id: u32, text: &str) -> bool {
    let probe = if text.starts_with(' ') { format!("\nxx{text} yy") } else { format!("\n{text} yy") };
    let Ok(encoding) = tokenizer.encode_fast(probe, false) else { return false };
    encoding.get_ids().contains(&id)
}

/// The answer to one prompt: token `k` depends on the prompt, the seed and `k` alone, never on the engine that
/// computes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerPlan {
    key: u64,
}

impl AnswerPlan {
    /// The answer to `prompt`; `seed` and `sample` (index among `n` answers) make it another one.
    pub fn new(prompt: &[u32], seed: u64, sample: u32) -> Self {
        let mut hash = Sha256::new();
        hash.update(seed.to_le_bytes());
        hash.update(sample.to_le_bytes());
        prompt.iter().for_each(|token| hash.update(token.to_le_bytes()));
        let digest: [u8; 32] = hash.finalize().into();
        let mut head = [0u8; 8];
        head.copy_from_slice(&digest[..8]);
        Self { key: u64::from_le_bytes(head) }
    }

    /// Token number `index` and its text.
    pub fn token<'w>(&self, words: &'w Words, index: usize) -> (u32, &'w str) {
        let word = words.word(index, mix(self.key.wrapping_add(index as u64)));
        (word.id, &word.text)
    }
}

/// SplitMix64's finalizer: spreads consecutive inputs over all bits.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
