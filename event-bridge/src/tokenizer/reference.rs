//! The reference: the Hugging Face `tokenizers` library, natively.
//!
//! Version 0.23 with its `fancy-regex` backend, whose classes are Unicode 16 as Oniguruma's are and which was found to split alike on every
//! scalar value.

use kv_routing::block::TokenId;
use thiserror::Error;
use tokenizers::Tokenizer;

use super::added::refuse_unlisted;
use super::json::AddedJson;
use super::{CompileError, ModelFiles, Origin};

/// Why the library cannot tokenize.
#[derive(Debug, Error)]
pub enum ReferenceError {
    /// It does not accept the files.
    #[error("the tokenizers library refuses tokenizer.json: {0}")]
    Load(String),
    /// It failed on a text.
    #[error("the tokenizers library failed on a text: {0}")]
    Encode(String),
    /// The companion files cannot be read.
    #[error(transparent)]
    Files(#[from] CompileError),
}

/// A model's tokenizer in the library.
#[derive(Debug)]
pub struct Reference {
    tokenizer: Tokenizer,
}

impl Reference {
    /// Loads `tokenizer.json` and lays the added tokens of `tokenizer_config.json` over it.
    ///
    /// # Errors
    /// [`ReferenceError`] when the library or we cannot read the files.
    pub fn load(files: &ModelFiles) -> Result<Self, ReferenceError> {
        let load = |error: tokenizers::Error| ReferenceError::Load(error.to_string());
        let mut tokenizer = Tokenizer::from_bytes(&files.tokenizer).map_err(load)?;
        let config = files.config_json()?;
        let mut overlay: Vec<(u32, tokenizers::AddedToken)> = Vec::new();
        for (id, token) in &config.added_tokens_decoder {
            let id = id.parse().map_err(|_| ReferenceError::Load(format!("added_tokens_decoder[{id}] is no id")))?;
            overlay.push((id, convert(token)));
        }
        overlay.sort_unstable_by_key(|(id, _)| *id);
        let there = tokenizer.get_added_tokens_decoder();
        overlay.retain(|(id, token)| there.get(id) != Some(token));
        tokenizer.add_tokens(overlay.into_iter().map(|(_, token)| token)).map_err(load)?;
        if files.origin == Origin::Json {
            let is_known = |text: &str| tokenizer.token_to_id(text).is_some();
            refuse_unlisted(config.special_tokens(), is_known).map_err(CompileError::from)?;
        }
        Ok(Self { tokenizer })
    }

    /// The same, but special tokens in a text are text.
    pub(super) fn literal(mut self) -> Self {
        self.tokenizer.set_encode_special_tokens(true);
        self
    }

    /// Id of a token by its text.
    pub(super) fn id(&self, token: &str) -> Option<TokenId> {
        self.tokenizer.token_to_id(token).map(TokenId)
    }

    /// The library's tokens of a text.
    ///
    /// # Errors
    /// [`ReferenceError::Encode`] with the library's words.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<TokenId>, ReferenceError> {
        let encoding = self
            .tokenizer
            .encode_fast(text, add_special_tokens)
            .map_err(|error| ReferenceError::Encode(error.to_string()))?;
        Ok(encoding.get_ids().iter().map(|id| TokenId(*id)).collect())
    }
}

fn convert(token: &AddedJson) -> tokenizers::AddedToken {
    tokenizers::AddedToken {
        content: token.content.clone(),
        single_word: token.single_word,
        lstrip: token.lstrip,
        rstrip: token.rstrip,
        normalized: token.normalized,
        special: token.special,
    }
}
