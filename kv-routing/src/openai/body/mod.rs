//! One file per kind of body.

mod anthropic;
mod anthropic_blocks;
mod chat;
mod common;
mod content;
mod fields;
mod generate;
mod message;
mod responses;
mod responses_items;
mod text;

#[cfg(test)]
mod tests;

use super::endpoint::Endpoint;
use super::json::{Cursor, Kind};
use super::request::{BodyError, InferenceRequest};

/// Reads a body in one pass.
///
/// # Errors
/// [`BodyError`] when routing cannot use it.
pub fn parse(endpoint: Endpoint, body: &[u8]) -> Result<InferenceRequest<'_>, BodyError> {
    let mut cursor = Cursor::new(body)?;
    if cursor.peek()? != Kind::Object {
        return Err(BodyError::Json("it is another kind of JSON value".to_owned()));
    }
    let request = match endpoint {
        Endpoint::ChatCompletions => chat::read(&mut cursor)?,
        Endpoint::Completions => text::read_completion(&mut cursor)?,
        Endpoint::Embeddings => text::read_embedding(&mut cursor)?,
        Endpoint::Generate => generate::read_sglang(&mut cursor)?,
        Endpoint::InferenceGenerate => generate::read_vllm(&mut cursor)?,
        Endpoint::Responses => responses::read(&mut cursor)?,
        Endpoint::Messages => anthropic::read(&mut cursor)?,
    };
    cursor.end()?;
    Ok(request)
}
