//! TensorRT-LLM: the context engine answers with opaque parameters that the generation engine takes.

use super::edit::{Edit, OneToken, edit, one_token, string};
use super::{HandoffError, PrefillAnswer, Transfer};
use crate::openai::json::members;

pub(super) fn prefill(body: &[u8], transfer: &Transfer<'_>, how: OneToken) -> Result<Vec<u8>, HandoffError> {
    let params = format!("{{\"request_type\":\"context_only\",\"disagg_request_id\":{}}}", transfer.id);
    one_token(body, how, vec![Edit::Set("disaggregated_params", params.into_bytes())])
}

/// The context engine tells the prompt's token ids whenever it was asked for this phase alone, and its own are the right ones: where it
/// does not, the generation engine makes them from the same text.
pub(super) fn decode(body: &[u8], answer: Option<&PrefillAnswer<'_>>) -> Result<Vec<u8>, HandoffError> {
    let missing =
        HandoffError::Missing { field: "disaggregated_params", hint: "TensorRT-LLM: cache_transceiver_config" };
    let params = answer.and_then(|answer| answer.disaggregated_params).ok_or(missing)?;
    let params = generation_only(params)?;
    let mut edits = vec![Edit::Set("disaggregated_params", params)];
    if let Some(ids) = answer.and_then(|answer| answer.prompt_token_ids) {
        // Completions take ids in place of text; chat bodies carry them beside the messages.
        let chat = members(body).map_err(HandoffError::Body)?.iter().any(|member| member.key == "messages");
        edits.push(Edit::Set(if chat { "prompt_token_ids" } else { "prompt" }, ids.to_vec()));
    }
    edit(body, &edits)
}

/// The answer's parameters with the request type changed; 64-bit ids stay as they are written.
fn generation_only(params: &[u8]) -> Result<Vec<u8>, HandoffError> {
    edit(params, &[Edit::Set("request_type", string("generation_only"))]).map_err(|error| match error {
        HandoffError::Body(error) => HandoffError::Answer(error),
        other => other,
    })
}
