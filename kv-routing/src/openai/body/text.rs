//! `/v1/completions` and `/v1/embeddings`: text or token ids, one or a list of them.

use crate::block::TokenId;
use crate::openai::endpoint::Endpoint;
use crate::openai::json::{Cursor, JsonError, Kind};
use crate::openai::request::{BodyError, Exactness, Inexact, InferenceRequest, PromptInput};

use super::chat::ChatFields;
use super::common::OutputBound;
use super::message;

/// `/v1/completions`.
pub(super) fn read_completion<'a>(cursor: &mut Cursor<'a>) -> Result<InferenceRequest<'a>, BodyError> {
    let mut request = InferenceRequest::empty(Endpoint::Completions);
    let mut bound = OutputBound::default();
    let mut embeddings = false;
    cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
        if request.read_common(cursor, &key)? || bound.read(cursor, &key)? {
            return Ok(());
        }
        match &*key {
            "prompt" => (request.prompt, request.prompts) = prompt(cursor, "prompt")?,
            // Put around by the engine in the model's own way, where the model has one.
            "suffix" if cursor.peek()? != Kind::Null => {
                cursor.skip()?;
                request.approximate(Inexact::Untranslated);
            }
            "prompt_embeds" => embeddings = !skip_empty(cursor)?,
            _ => cursor.skip()?,
        }
        Ok(())
    })?;
    request.max_tokens = bound.get();
    if embeddings {
        // They come before every text prompt, and their number is known to the engine alone.
        request.prompt = PromptInput::Absent;
        request.approximate(Inexact::Embeddings);
    }
    Ok(request)
}

/// `/v1/embeddings`: `input`, or `messages` to be rendered.
pub(super) fn read_embedding<'a>(cursor: &mut Cursor<'a>) -> Result<InferenceRequest<'a>, BodyError> {
    let mut request = InferenceRequest::empty(Endpoint::Embeddings);
    let mut chat = ChatFields::default();
    // Unlike for generation, a prompt ready to be answered is not what an embedding is of.
    chat.input.add_generation_prompt = false;
    let mut special_tokens = None;
    cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
        match &*key {
            "input" => {
                (request.prompt, request.prompts) = prompt(cursor, "input")?;
                // A conversation, which vLLM takes for `messages`.
                if request.prompts > 0 && matches!(request.prompt, PromptInput::Absent) {
                    request.approximate(Inexact::Untranslated);
                }
            }
            "add_special_tokens" => special_tokens = Some(cursor.flag("add_special_tokens")?),
            _ if request.read_common(cursor, &key)? || chat.read(cursor, &key)? => {}
            _ => cursor.skip()?,
        }
        Ok(())
    })?;
    if chat.given {
        request.add_special_tokens = false;
        for message in &mut chat.input.messages {
            // Only chat completions take it for `reasoning`; here engines pass over it.
            message::remove(message, "reasoning_content");
        }
        chat.into_request(&mut request);
    }
    if let Some(special_tokens) = special_tokens {
        request.add_special_tokens = special_tokens;
    }
    Ok(request)
}

/// Passes over a value: whether it was null or an empty list.
fn skip_empty(cursor: &mut Cursor<'_>) -> Result<bool, JsonError> {
    match cursor.peek()? {
        Kind::Null => cursor.null().map(|()| true),
        Kind::Array => {
            let mut empty = true;
            cursor.array(&mut |cursor| {
                empty = false;
                cursor.skip()
            })?;
            Ok(empty)
        }
        _ => cursor.skip().map(|()| false),
    }
}

/// A prompt and how many there are: a text, a list of texts, token ids or a list of lists of them. The first decides.
pub(super) fn prompt<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<(PromptInput<'a>, u32), BodyError> {
    match cursor.peek()? {
        Kind::String => Ok((PromptInput::Text(cursor.string()?), 1)),
        Kind::Null => {
            cursor.null()?;
            Ok((PromptInput::Absent, 0))
        }
        Kind::Array => prompt_list(cursor, field),
        _ => Err(BodyError::field(field, "must be text, token ids or a list of either")),
    }
}

fn prompt_list<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<(PromptInput<'a>, u32), BodyError> {
    let mut first = PromptInput::Absent;
    let mut tokens: Vec<TokenId> = Vec::new();
    let mut prompts: u32 = 0;
    cursor.array(&mut |cursor| -> Result<(), BodyError> {
        let kind = cursor.peek()?;
        if kind == Kind::Number {
            tokens.push(token(cursor, field)?);
            return Ok(());
        }
        prompts = prompts.saturating_add(1);
        match kind {
            _ if prompts > 1 => cursor.skip()?,
            Kind::String => first = PromptInput::Text(cursor.string()?),
            Kind::Array => first = PromptInput::Tokens(token_list(cursor, field)?),
            Kind::Object => cursor.skip()?,
            _ => return Err(BodyError::field(field, "a list of prompts has texts or lists of token ids")),
        }
        Ok(())
    })?;
    if tokens.is_empty() {
        return Ok((first, prompts));
    }
    if prompts > 0 {
        return Err(BodyError::field(field, "token ids and texts are mixed in one list"));
    }
    Ok((PromptInput::Tokens(tokens), 1))
}

/// A list of token ids.
pub(super) fn token_list(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Vec<TokenId>, BodyError> {
    let mut tokens = Vec::new();
    cursor.array(&mut |cursor| -> Result<(), BodyError> {
        if cursor.peek()? != Kind::Number {
            return Err(BodyError::field(field, "a list of token ids has something else in it"));
        }
        tokens.push(token(cursor, field)?);
        Ok(())
    })?;
    Ok(tokens)
}

fn token(cursor: &mut Cursor<'_>, field: &'static str) -> Result<TokenId, BodyError> {
    cursor
        .small_integer()?
        .map(TokenId)
        .ok_or_else(|| BodyError::field(field, "a token id must be an integer from 0 to 4294967295"))
}

/// Marks a request whose prompt is in a field of its own kind as approximate when the body has media beside it.
pub(super) fn note_media(request: &mut InferenceRequest<'_>, media: bool) {
    if media && request.exactness == Exactness::Exact {
        request.approximate(Inexact::Untranslated);
    }
}
