//! Text between added tokens, normalized as the tokenizer wants it.

use super::image::Normalizer;
use super::tokenizer::Tokenizer;

/// The normalized chunk, or `None` when normalizing changes nothing. `begins_stretch`: it begins a stretch between added tokens;
/// `begins_text`: it begins the whole text.
pub(crate) fn normalize(tokenizer: &Tokenizer, chunk: &str, begins_stretch: bool, begins_text: bool) -> Option<String> {
    let prepended = match tokenizer.meta().normalizer {
        Normalizer::Keep => return None,
        Normalizer::Nfc => return tokenizer.nfc().compose(chunk),
        Normalizer::Spaces => false,
        Normalizer::PrependedSpaces => begins_stretch,
        Normalizer::FirstPrependedSpaces => begins_text && !chunk.starts_with([' ', '▁']),
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
