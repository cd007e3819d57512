//! `tokenizer.json` and `tokenizer_config.json` as they are written.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// `tokenizer.json`. Fields that do not change ids (`decoder`, `padding`, ...) are not read.
#[derive(Debug, Deserialize)]
pub(super) struct TokenizerJson {
    #[serde(default)]
    pub(super) truncation: Value,
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedJson>,
    #[serde(default)]
    pub(super) normalizer: Value,
    #[serde(default)]
    pub(super) pre_tokenizer: Value,
    #[serde(default)]
    pub(super) post_processor: Value,
    pub(super) model: ModelJson,
}

/// One added token. `id` is what the file says; the library computes its own (see [`super::added`]).
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct AddedJson {
    #[serde(default)]
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default = "yes")]
    pub(super) normalized: bool,
    #[serde(default)]
    pub(super) special: bool,
}

fn yes() -> bool {
    true
}

/// `model`. Older files have no `type`.
#[derive(Debug, Deserialize)]
pub(super) struct ModelJson {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) dropout: Option<f64>,
    pub(super) unk_token: Option<String>,
    pub(super) continuing_subword_prefix: Option<String>,
    pub(super) end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub(super) fuse_unk: bool,
    #[serde(default)]
    pub(super) byte_fallback: bool,
    #[serde(default)]
    pub(super) ignore_merges: bool,
    /// Text to id; a list in Unigram models, which are refused.
    #[serde(default)]
    pub(super) vocab: VocabJson,
    #[serde(default)]
    pub(super) merges: MergesJson,
}

/// The vocabulary in the two shapes models write it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum VocabJson {
    /// BPE, WordPiece.
    Map(BTreeMap<String, u32>),
    /// Unigram.
    List(serde::de::IgnoredAny),
}

impl Default for VocabJson {
    fn default() -> Self {
        Self::Map(BTreeMap::new())
    }
}

/// The merges in the two shapes the library has written over time.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum MergesJson {
    /// `["a", "b"]`
    Pairs(Vec<(String, String)>),
    /// `"a b"`
    Lines(Vec<String>),
}

impl Default for MergesJson {
    fn default() -> Self {
        Self::Lines(Vec::new())
    }
}

/// What of `tokenizer_config.json` can change ids.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ConfigJson {
    /// Added tokens by id; they override those of `tokenizer.json`.
    #[serde(default)]
    pub(super) added_tokens_decoder: BTreeMap<String, AddedJson>,
    #[serde(default)]
    pub(super) tokenizer_class: Option<String>,
    #[serde(default)]
    pub(super) add_bos_token: Option<bool>,
    #[serde(default)]
    pub(super) add_eos_token: Option<bool>,
    /// Lists of texts or added tokens, or a map of them.
    #[serde(default)]
    additional_special_tokens: Value,
    #[serde(default)]
    extra_special_tokens: Value,
    /// `pad_token` and the like are among them.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

impl ConfigJson {
    /// Texts of the special tokens it names. `transformers` makes new tokens of those that the tokenizer does not have.
    pub(super) fn special_tokens(&self) -> impl Iterator<Item = &str> {
        const NAMES: [&str; 7] =
            ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
        let listed = [&self.additional_special_tokens, &self.extra_special_tokens].into_iter().flat_map(|value| {
            let list = value.as_array().into_iter().flatten();
            list.chain(value.as_object().into_iter().flat_map(serde_json::Map::values))
        });
        let named = NAMES.iter().filter_map(|name| self.others.get(*name));
        named.chain(listed).filter_map(|value| value.as_str().or_else(|| value.get("content")?.as_str()))
    }
}
