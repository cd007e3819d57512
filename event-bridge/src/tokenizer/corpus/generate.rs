//! Texts made up at random, from a seed, so that every run compares the same ones.

use kv_routing::policy::{Rng, SplitMix64};

/// A small generator: the texts, not the randomness, are what matters.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// A generator that always gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.bits().checked_rem(bound as u64).unwrap_or(0) as usize
    }

    /// One of the items.
    pub fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> Option<&'a T> {
        let index = self.below(items.len());
        items.get(index).copied()
    }
}

/// Ranges that matter to a tokenizer: scripts, marks, digits, signs, controls, unassigned and private characters.
#[rustfmt::skip]
const RANGES: &[(u32, u32)] = &[
    (0x20, 0x7e), (0x20, 0x7e), (0x61, 0x7a), (0x00, 0x1f), (0x80, 0xff), (0x100, 0x24f), (0x250, 0x2af),
    (0x2b0, 0x36f), (0x370, 0x3ff), (0x400, 0x52f), (0x530, 0x5ff), (0x600, 0x6ff), (0x700, 0x8ff), (0x900, 0xdff),
    (0xe00, 0xeff), (0xf00, 0x109f), (0x10a0, 0x13ff), (0x1100, 0x11ff), (0x1680, 0x18af), (0x1ab0, 0x1aff),
    (0x1c80, 0x1cff), (0x1d00, 0x1dff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x20d0, 0x20ff), (0x2100, 0x218f),
    (0x2190, 0x2bff), (0x2e80, 0x2fff), (0x3000, 0x30ff), (0x3100, 0x33ff), (0x3400, 0x4dbf), (0x4e00, 0x9fff),
    (0x9fa0, 0x9fff), (0xa000, 0xabff), (0xac00, 0xd7ff), (0xe000, 0xf8ff), (0xf900, 0xfaff), (0xfb00, 0xfdff),
    (0xfe00, 0xfe6f), (0xfe70, 0xffff), (0x1_0000, 0x1_0fff), (0x1_1000, 0x1_1fff), (0x1_6000, 0x1_6fff),
    (0x1_d000, 0x1_d7ff), (0x1_e000, 0x1_efff), (0x1_f000, 0x1_faff), (0x2_0000, 0x2_a6df), (0x2_f800, 0x2_fa1f),
    (0x3_0000, 0x3_3fff), (0xe_0000, 0xe_01ef),
];

/// Bits of text that decide something in one of the known pre-tokenizers or normalizers.
#[rustfmt::skip]
const BITS: &[&str] = &[
    " ", " ", " ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", "\u{a0}", "\u{3000}", "\u{2028}", "\u{85}", "'s", "'S",
    "'ſ", "'t", "'re", "'VE", "'ll", "'m", "'d", "'", "’s", "1", "12", "123", "1234", "½", "٣", "Ⅷ", ".", ",", "...",
    "!?", "/", "//", "_", "-", "—", "(", ")", "\"", "=", "e\u{301}", "\u{301}", "\u{327}\u{301}", "\u{1100}\u{1161}",
    "\u{11a8}", "각", "é", "ß", "ſ", "İ", "ı", "Ǆ", "ǅ", "ǆ", "ª", "ʰ", "中", "中文", "かな", "カナ", "ー", "々", "〇", "。", "，",
    "、", "！", "한국어", "ру", "РУ", "Ру", "αβ", "ΑΒ", "ไทย", "हिन्दी", "العربية", "😀", "👍🏽", "👨‍👩‍👧", "\u{200d}",
    "\u{fe0f}", "\u{200b}", "\u{feff}", "\u{ad}", "\u{0}", "\u{1}", "\u{7f}", "▁", "▁▁", "Ġ", "the", " the", "The",
    "THE", "ing", "HTTPServer", "camelCase", "snake_case", "0x1F", "3.14", "$5", "#a", "@b", "<", ">", "</", "<|",
    "|>", "<｜", "｜>", "[", "]", "{\"a\":1}",
];

/// A text of the given seed number: a mixture of words, deciding bits, random characters and pieces of `samples`.
pub fn text(number: u64, samples: &[String]) -> String {
    let mut random = Random::new(number.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x7065_6c69_6361_6e73);
    let mut text = String::new();
    let parts = 1 + random.below(if number.is_multiple_of(16) { 200 } else { 24 });
    let style = random.below(8);
    for _ in 0..parts {
        match (style, random.below(10)) {
            (0, _) | (1..=4, 0..=3) => text.push_str(random.pick(BITS).unwrap_or("")),
            (5, _) | (1..=4, 4) => push_random(&mut random, &mut text),
            (6, _) | (1..=4, 5..=7) => push_word(&mut random, &mut text),
            _ => push_sample(&mut random, samples, &mut text),
        }
    }
    text
}

fn push_random(random: &mut Random, text: &mut String) {
    let index = random.below(RANGES.len());
    let (first, last) = RANGES.get(index).copied().unwrap_or((0x20, 0x7e));
    let repeat = if random.below(12) == 0 { 1 + random.below(90) } else { 1 };
    let code_point = first + random.below((last - first + 1) as usize) as u32;
    if let Some(character) = char::from_u32(code_point) {
        text.extend(std::iter::repeat_n(character, repeat));
    }
}

fn push_word(random: &mut Random, text: &mut String) {
    if random.below(4) != 0 {
        text.push(' ');
    }
    let longest = if random.below(30) == 0 { 120 } else { 11 };
    let length = 1 + random.below(longest);
    let capital = random.below(5);
    for at in 0..length {
        let letter = char::from(b'a' + random.below(26) as u8);
        text.push(if capital == 0 || (capital == 1 && at == 0) { letter.to_ascii_uppercase() } else { letter });
    }
}

/// A stretch of a sample, cut anywhere.
fn push_sample(random: &mut Random, samples: &[String], text: &mut String) {
    let index = random.below(samples.len());
    let Some(sample) = samples.get(index) else { return };
    let count = sample.chars().count();
    let start = random.below(count);
    let length = 1 + random.below(40);
    text.extend(sample.chars().skip(start).take(length));
}

/// Every `step`-th scalar value once, each among letters, digits, spaces, line breaks, signs, an apostrophe and other values; `per_text` to a text.
pub fn sweep(per_text: usize, step: usize) -> impl Iterator<Item = String> {
    let mut scalars = (0..=0x10_ffff).filter_map(char::from_u32).step_by(step.max(1));
    std::iter::from_fn(move || {
        let mut text = String::new();
        for character in scalars.by_ref().take(per_text.max(1)) {
            for around in
                [("a", "b"), (" ", "B"), ("1", "2"), ("\n", "\n"), (".", "'s"), ("  ", " "), ("中", "e\u{301}")]
            {
                text.push_str(around.0);
                text.push(character);
                text.push_str(around.1);
            }
            text.extend([character, character, '\'', character, ' ']);
        }
        (!text.is_empty()).then_some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_gives_the_same_text() {
        let samples = vec!["a sample of text".to_owned()];
        let texts: Vec<String> = (0..2000).map(|number| text(number, &samples)).collect();
        assert_eq!(texts, (0..2000).map(|number| text(number, &samples)).collect::<Vec<_>>());
        let distinct: std::collections::HashSet<&String> = texts.iter().collect();
        assert!(distinct.len() > 1900, "{}", distinct.len());
    }

    #[test]
    fn the_sweep_holds_every_scalar_value() {
        let mut seen = vec![false; 0x11_0000];
        for text in sweep(1000, 1) {
            for character in text.chars() {
                seen[character as usize] = true;
            }
        }
        assert_eq!(seen.iter().filter(|seen| **seen).count(), 1_112_064);
    }
}
