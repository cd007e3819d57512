//! Added tokens, with the ids the library gives them.
//!
//! The library does not use the ids of the file: a token that the model's vocabulary holds has its id, any other gets the next
//! free one, counted from the vocabulary's size. `added_tokens_decoder` of `tokenizer_config.json` is laid over the result as
//! `transformers` does: tokens that differ from what is there are added again.

use std::collections::{BTreeMap, HashMap};

use kv_routing::block::TokenId;
use kv_routing::tokens::image::Normalizer;
use kv_routing::tokens::table::AddedToken;
use unicode_normalization_alignments::UnicodeNormalization;

use super::Unsupported;
use super::json::AddedJson;

/// The two searches of the core.
#[derive(Debug, Default)]
pub(super) struct Added {
    pub(super) raw: Vec<AddedToken>,
    pub(super) normalized: Vec<AddedToken>,
    /// Highest id plus one.
    pub(super) end: u32,
}

/// Added tokens by id, as the library ends up with them.
pub(super) fn resolve(
    file: &[AddedJson],
    overlay: &BTreeMap<String, AddedJson>,
    vocabulary: &dyn Fn(&str) -> Option<u32>,
    vocabulary_size: u32,
) -> Result<BTreeMap<u32, AddedJson>, Unsupported> {
    let mut state = State { by_id: BTreeMap::new(), ids: HashMap::new() };
    state.add(file.iter(), vocabulary, vocabulary_size);
    let mut overlaid: Vec<(u32, &AddedJson)> = Vec::new();
    for (key, token) in overlay {
        let part = || format!("tokenizer_config.json added_tokens_decoder[{key}]");
        let id: u32 = key.parse().map_err(|_| Unsupported::new(part(), "the key is no id"))?;
        if state.by_id.get(&id).is_none_or(|there| !same(there, token)) {
            overlaid.push((id, token));
        }
    }
    overlaid.sort_unstable_by_key(|(id, _)| *id);
    state.add(overlaid.iter().map(|(_, token)| *token), vocabulary, vocabulary_size);
    for (id, token) in overlaid {
        let given = state.ids.get(&token.content).copied();
        if given != Some(id) {
            let part = format!("tokenizer_config.json added_tokens_decoder[{id}]");
            return Err(Unsupported::new(part, format!("`{}` would get id {given:?}", token.content)));
        }
    }
    Ok(state.by_id)
}

struct State {
    by_id: BTreeMap<u32, AddedJson>,
    ids: HashMap<String, u32>,
}

impl State {
    fn add<'a>(
        &mut self,
        tokens: impl Iterator<Item = &'a AddedJson>,
        vocabulary: &dyn Fn(&str) -> Option<u32>,
        size: u32,
    ) {
        let highest = self.by_id.keys().next_back().copied();
        let mut next = highest.map_or(size, |highest| if highest >= size { highest.saturating_add(1) } else { size });
        for token in tokens.filter(|token| !token.content.is_empty()) {
            let known = self.ids.get(&token.content).copied();
            if known.and_then(|id| self.by_id.get(&id)).is_some_and(|there| same(there, token)) {
                continue;
            }
            let id = known.or_else(|| vocabulary(&token.content)).unwrap_or_else(|| {
                next = next.saturating_add(1);
                next - 1
            });
            self.ids.insert(token.content.clone(), id);
            self.by_id.insert(id, token.clone());
        }
    }
}

/// Equal in everything but the id the file gives.
fn same(left: &AddedJson, right: &AddedJson) -> bool {
    let AddedJson { id: _, content, single_word, lstrip, rstrip, normalized, special } = left;
    *content == right.content
        && *single_word == right.single_word
        && *lstrip == right.lstrip
        && *rstrip == right.rstrip
        && *normalized == right.normalized
        && *special == right.special
}

/// Refuses special tokens that only `tokenizer_config.json` knows: `transformers` gives them ids of its own when it loads the model.
pub(super) fn refuse_unlisted<'t>(
    mut special: impl Iterator<Item = &'t str>,
    is_known: impl Fn(&str) -> bool,
) -> Result<(), Unsupported> {
    match special.find(|text| !is_known(text)) {
        Some(text) => Err(Unsupported::new("tokenizer_config.json", format!("`{text}` is no token of tokenizer.json"))),
        None => Ok(()),
    }
}

/// Sorts the tokens into the two searches, or refuses what they cannot express.
pub(super) fn sort(tokens: &BTreeMap<u32, AddedJson>, normalizer: Normalizer) -> Result<Added, Unsupported> {
    let mut added = Added::default();
    for (id, token) in tokens {
        let refuse = |what: &str| Err(Unsupported::new("added_tokens", format!("`{}` {what}", token.content)));
        if token.single_word {
            return refuse("is single_word");
        }
        added.end = added.end.max(id.saturating_add(1));
        let entry =
            |text: String| AddedToken { text, id: TokenId(*id), strip_left: token.lstrip, strip_right: token.rstrip };
        if !token.normalized {
            added.raw.push(entry(token.content.clone()));
            continue;
        }
        let text = match normalizer {
            Normalizer::Keep => token.content.clone(),
            Normalizer::Nfc => token.content.nfc().map(|(character, _)| character).collect(),
            Normalizer::Spaces => token.content.replace(' ', "▁"),
            Normalizer::PrependedSpaces | Normalizer::FirstPrependedSpaces => {
                return refuse("is normalized, together with a normalizer that prepends");
            }
        };
        // A chunk may end before any white space, and then would end within the token or its own.
        let is_space =
            |character: char| character.is_whitespace() || (character == '▁' && normalizer != Normalizer::Keep);
        if token.lstrip || token.rstrip || text.contains(is_space) {
            return refuse("is normalized and holds or takes white space");
        }
        added.normalized.push(entry(text));
    }
    refuse_overlapping_strips(&added)?;
    Ok(added)
}

/// A token that takes the white space behind it, and another that begins with white space, claim the same text; the library's
/// answer to that depends on its order of search.
fn refuse_overlapping_strips(added: &Added) -> Result<(), Unsupported> {
    let all = || added.raw.iter().chain(&added.normalized);
    let begins = all().find(|token| token.text.starts_with(char::is_whitespace));
    match (all().find(|token| token.strip_left || token.strip_right), begins) {
        (Some(strip), Some(begins)) => Err(Unsupported::new(
            "added_tokens",
            format!("`{}` takes white space that {:?} begins with", strip.text, begins.text),
        )),
        _ => Ok(()),
    }
}
