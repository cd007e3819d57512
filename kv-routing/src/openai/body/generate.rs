//! The engines' own generate endpoints.

use crate::openai::endpoint::Endpoint;
use crate::openai::json::{Cursor, JsonError, Kind};
use crate::openai::request::{BodyError, Inexact, InferenceRequest, PromptInput};

use super::text::{note_media, prompt, token_list};

/// SGLang's `/generate`: `text` or `input_ids`, one or a list.
pub(super) fn read_sglang<'a>(cursor: &mut Cursor<'a>) -> Result<InferenceRequest<'a>, BodyError> {
    let mut request = InferenceRequest::empty(Endpoint::Generate);
    let mut ids = (PromptInput::Absent, 0);
    let mut media = false;
    let mut embeddings = false;
    cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
        match &*key {
            "text" => (request.prompt, request.prompts) = prompt(cursor, "text")?,
            "input_ids" => ids = prompt(cursor, "input_ids")?,
            "input_embeds" => embeddings |= !skip_null(cursor)?,
            "image_data" | "video_data" | "audio_data" => media |= !skip_null(cursor)?,
            "sampling_params" => sampling(cursor, &mut request, "max_new_tokens")?,
            _ if request.read_common(cursor, &key)? => {}
            _ => cursor.skip()?,
        }
        Ok(())
    })?;
    if matches!(request.prompt, PromptInput::Absent) {
        (request.prompt, request.prompts) = ids;
    }
    note_media(&mut request, media);
    if embeddings {
        request.approximate(Inexact::Embeddings);
    }
    Ok(request)
}

/// vLLM's `/inference/v1/generate`: `token_ids`.
pub(super) fn read_vllm<'a>(cursor: &mut Cursor<'a>) -> Result<InferenceRequest<'a>, BodyError> {
    let mut request = InferenceRequest::empty(Endpoint::InferenceGenerate);
    let mut media = false;
    cursor.object(&mut |cursor, key| -> Result<(), BodyError> {
        match &*key {
            "token_ids" => request.prompt = PromptInput::Tokens(token_list(cursor, "token_ids")?),
            "features" | "content_parts" => media |= !skip_null(cursor)?,
            "sampling_params" => sampling(cursor, &mut request, "max_tokens")?,
            _ if request.read_common(cursor, &key)? => {}
            _ => cursor.skip()?,
        }
        Ok(())
    })?;
    note_media(&mut request, media);
    Ok(request)
}

/// Passes over a value: whether it was null.
fn skip_null(cursor: &mut Cursor<'_>) -> Result<bool, JsonError> {
    let null = cursor.peek()? == Kind::Null;
    cursor.skip()?;
    Ok(null)
}

/// Takes the bound of output tokens and `n` from a `sampling_params` object (SGLang allows a list; its first decides).
fn sampling<'a>(
    cursor: &mut Cursor<'a>,
    request: &mut InferenceRequest<'a>,
    bound: &'static str,
) -> Result<(), BodyError> {
    if cursor.peek()? != Kind::Object {
        return Ok(cursor.skip()?);
    }
    cursor.object(&mut |cursor, key| {
        match &*key {
            "n" => request.n = cursor.lax_u32()?.unwrap_or(1),
            key if key == bound => request.max_tokens = cursor.lax_u32()?,
            _ => cursor.skip()?,
        }
        Ok(())
    })
}
