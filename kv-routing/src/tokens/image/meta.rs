//! The `meta` section: which of the known ways of tokenizing this tokenizer uses.

use super::ImageError;
use super::bytes::{push_u32, u32_at};
use crate::block::TokenId;

/// How a piece becomes the first symbols of its merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Every byte is a symbol (GPT-2 and everything after it).
    ByteLevel,
    /// Every character is a symbol, bytes only where the vocabulary lacks it (SentencePiece BPE).
    Characters,
}

/// How many digits one piece may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// `\p{N}`
    One,
    /// `\p{N}{1,3}`
    UpToThree,
}

/// The pre-tokenizer, recognised from its regular expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The whole text is one piece.
    Whole,
    /// Contractions first, then an optional other character with letters (cl100k, Qwen, Llama 3, GLM).
    Words {
        /// Digits per piece.
        digits: Digits,
        /// Marks count as letters (Qwen 3.5).
        marks: bool,
    },
    /// Words cut where lower case turns to upper case (o200k, gpt-oss, tekken, Kimi).
    Cased {
        /// Digits per piece.
        digits: Digits,
        /// English contractions stay with their word.
        contractions: bool,
        /// Runs of Han characters are pieces of their own.
        han: bool,
        /// A slash may follow punctuation as a line break may.
        slash: bool,
    },
    /// Digits, then CJK runs, then words (DeepSeek V3 and later).
    DeepSeek,
    /// An optional space with letters, digits or others (GPT-2).
    Gpt2,
}

/// What happens to the text between added tokens before it is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalizer {
    /// Nothing.
    Keep,
    /// Canonical composition.
    Nfc,
    /// Every space becomes `▁`.
    Spaces,
    /// As [`Normalizer::Spaces`], with a `▁` put before every stretch.
    PrependedSpaces,
    /// As [`Normalizer::Spaces`], with a `▁` put before a text that does not begin with an added token or a space.
    FirstPrependedSpaces,
}

/// Switches of the merge model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelFlags {
    /// A piece that is in the vocabulary is taken whole, merges or not.
    pub ignore_merges: bool,
    /// A run of unknown characters gives one unknown token.
    pub fuse_unknown: bool,
    /// The engine cuts very long texts before it tokenizes ([`crate::tokens::first_cut`]), which is not done here.
    pub cuts_long_texts: bool,
}

/// A version of the Unicode character database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnicodeVersion(pub u8, pub u8, pub u8);

impl std::fmt::Display for UnicodeVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The `meta` section, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Symbols of the merges.
    pub family: Family,
    /// Pre-tokenizer.
    pub pattern: Pattern,
    /// Normalizer.
    pub normalizer: Normalizer,
    /// Switches.
    pub flags: ModelFlags,
    /// Token for characters that cannot be expressed otherwise.
    pub unknown: Option<TokenId>,
    /// Highest token id plus one, added tokens included.
    pub vocabulary: u32,
    /// Version of the class tables.
    pub classes: UnicodeVersion,
    /// Version of the normalization tables.
    pub normalization: UnicodeVersion,
    /// Tokens put before a text when special tokens are asked for.
    pub prefix: Vec<TokenId>,
    /// Tokens put behind it.
    pub suffix: Vec<TokenId>,
}

/// Most tokens a post-processor may put on either side.
const FRAME_BOUND: u32 = 16;

impl Meta {
    /// The section's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let pattern = encode_pattern(self.pattern);
        let ModelFlags { ignore_merges, fuse_unknown, cuts_long_texts } = self.flags;
        let flags = u32::from(ignore_merges) | u32::from(fuse_unknown) << 1 | u32::from(cuts_long_texts) << 2;
        for value in [
            u32::from(self.family == Family::Characters),
            pattern,
            encode_normalizer(self.normalizer),
            flags,
            self.unknown.map_or(u32::MAX, |token| token.0),
            self.vocabulary,
            encode_version(self.classes),
            encode_version(self.normalization),
        ] {
            push_u32(&mut out, value);
        }
        for frame in [&self.prefix, &self.suffix] {
            push_u32(&mut out, u32::try_from(frame.len()).unwrap_or(u32::MAX));
            for token in frame {
                push_u32(&mut out, token.0);
            }
        }
        out
    }

    /// Reads the section.
    ///
    /// # Errors
    /// [`ImageError::Meta`] naming the field that has an unknown value.
    pub fn decode(bytes: &[u8]) -> Result<Self, ImageError> {
        let family = match u32_at(bytes, 0) {
            0 => Family::ByteLevel,
            1 => Family::Characters,
            _ => return Err(ImageError::Meta("family")),
        };
        let flags = u32_at(bytes, 12);
        if flags > 7 {
            return Err(ImageError::Meta("flags"));
        }
        let (prefix, next) = decode_frame(bytes, 32, "prefix")?;
        let (suffix, _) = decode_frame(bytes, next, "suffix")?;
        Ok(Self {
            family,
            pattern: decode_pattern(u32_at(bytes, 4))?,
            normalizer: decode_normalizer(u32_at(bytes, 8))?,
            flags: ModelFlags {
                ignore_merges: flags & 1 != 0,
                fuse_unknown: flags & 2 != 0,
                cuts_long_texts: flags & 4 != 0,
            },
            unknown: Some(u32_at(bytes, 16)).filter(|id| *id != u32::MAX).map(TokenId),
            vocabulary: u32_at(bytes, 20),
            classes: decode_version(u32_at(bytes, 24)),
            normalization: decode_version(u32_at(bytes, 28)),
            prefix,
            suffix,
        })
    }
}

fn decode_frame(bytes: &[u8], at: usize, field: &'static str) -> Result<(Vec<TokenId>, usize), ImageError> {
    let count = u32_at(bytes, at);
    if count > FRAME_BOUND {
        return Err(ImageError::Meta(field));
    }
    let start = at + 4;
    let tokens = (0..count as usize).map(|index| TokenId(u32_at(bytes, start + index * 4))).collect();
    Ok((tokens, start + count as usize * 4))
}

/// Kind in the low byte, digits in the next, switches above.
fn encode_pattern(pattern: Pattern) -> u32 {
    let digits = |digits| if digits == Digits::One { 1_u32 } else { 3 };
    match pattern {
        Pattern::Whole => 0,
        Pattern::Words { digits: count, marks } => 1 | digits(count) << 8 | u32::from(marks) << 16,
        Pattern::Cased { digits: count, contractions, han, slash } => {
            2 | digits(count) << 8 | u32::from(contractions) << 16 | u32::from(han) << 17 | u32::from(slash) << 18
        }
        Pattern::DeepSeek => 3,
        Pattern::Gpt2 => 4,
    }
}

fn decode_pattern(value: u32) -> Result<Pattern, ImageError> {
    let digits = || match (value >> 8) & 0xff {
        1 => Ok(Digits::One),
        3 => Ok(Digits::UpToThree),
        _ => Err(ImageError::Meta("pattern")),
    };
    let switch = |bit: u32| value & (1 << bit) != 0;
    Ok(match value & 0xff {
        0 => Pattern::Whole,
        1 => Pattern::Words { digits: digits()?, marks: switch(16) },
        2 => Pattern::Cased { digits: digits()?, contractions: switch(16), han: switch(17), slash: switch(18) },
        3 => Pattern::DeepSeek,
        4 => Pattern::Gpt2,
        _ => return Err(ImageError::Meta("pattern")),
    })
}

fn encode_normalizer(normalizer: Normalizer) -> u32 {
    match normalizer {
        Normalizer::Keep => 0,
        Normalizer::Nfc => 1,
        Normalizer::Spaces => 2,
        Normalizer::PrependedSpaces => 3,
        Normalizer::FirstPrependedSpaces => 4,
    }
}

fn decode_normalizer(value: u32) -> Result<Normalizer, ImageError> {
    Ok(match value {
        0 => Normalizer::Keep,
        1 => Normalizer::Nfc,
        2 => Normalizer::Spaces,
        3 => Normalizer::PrependedSpaces,
        4 => Normalizer::FirstPrependedSpaces,
        _ => return Err(ImageError::Meta("normalizer")),
    })
}

fn encode_version(version: UnicodeVersion) -> u32 {
    u32::from(version.0) << 16 | u32::from(version.1) << 8 | u32::from(version.2)
}

fn decode_version(value: u32) -> UnicodeVersion {
    let [_, major, minor, patch] = value.to_be_bytes();
    UnicodeVersion(major, minor, patch)
}
