//! Text between added tokens, normalized as the tokenizer wants it.

use super::image::Normalizer;
use super::tokenizer::Tokenizer;

/// Where a chunk lies in its prompt, as far as normalization cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// It begins a stretch between added tokens.
    pub(crate) begins_stretch: bool,
    /// It begins the whole text.
    pub(crate) begins_text: bool,
}

/// The normalized chunk, or `None` when normalizing changes nothing.
pub(crate) fn normalize(tokenizer: &Tokenizer, chunk: &str, position: Position) -> Option<String> {
    let prepended = match tokenizer.meta().normalizer {
        Normalizer::Keep => return None,
        Normalizer::Nfc => return tokenizer.nfc().compose(chunk),
        Normalizer::Spaces => false,
        Normalizer::PrependedSpaces => position.begins_stretch,
        Normalizer::FirstPrependedSpaces => position.begins_text && !chunk.starts_with([' ', '▁']),
    };
    if !prepended && !chunk.contains(' ') {
        return None;
    }
    let mut out = String::with_capacity(chunk.len() + chunk.len() / 2 + 3);
    if prepended {
        out.push('▁');
    }
    for (number, word) in chunk.split(' ').enumerate() {
        if number > 0 {
            out.push('▁');
        }
        out.push_str(word);
    }
    Some(out)
}
