//! What a prefill engine answered.

use super::HandoffError;
use crate::openai::json::{JsonError, elements, members};

/// The parts of an answer that matter, as raw JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefillAnswer<'a> {
    /// `kv_transfer_params`, unless null.
    pub kv_transfer_params: Option<&'a [u8]>,
    /// `disaggregated_params` of the first choice, unless null.
    pub disaggregated_params: Option<&'a [u8]>,
    /// `prompt_token_ids`, unless null.
    pub prompt_token_ids: Option<&'a [u8]>,
    /// How the first choice ended.
    pub finish: Option<FinishReason>,
}

/// How generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// At the token limit, as a prefill call should. TensorRT-LLM also calls that not finished.
    Length,
    /// By itself: the answer is complete already, and engines hand nothing over, whatever parameters they tell.
    Other,
}

impl<'a> PrefillAnswer<'a> {
    /// Reads an answer body.
    ///
    /// # Errors
    /// [`HandoffError::Answer`] when it is not a JSON object.
    pub fn read(body: &'a [u8]) -> Result<Self, HandoffError> {
        Self::parse(body).map_err(HandoffError::Answer)
    }

    fn parse(body: &'a [u8]) -> Result<Self, JsonError> {
        let mut answer = Self::default();
        for member in members(body)? {
            let value = present(body, member.value.clone());
            match member.key.as_ref() {
                "kv_transfer_params" => answer.kv_transfer_params = value,
                "prompt_token_ids" => answer.prompt_token_ids = value,
                "choices" => {
                    if let Some(choices) = value {
                        answer.first_choice(choices)?;
                    }
                }
                _ => {}
            }
        }
        Ok(answer)
    }

    fn first_choice(&mut self, choices: &'a [u8]) -> Result<(), JsonError> {
        let Some(choice) = elements(choices)?.into_iter().next().and_then(|first| choices.get(first)) else {
            return Ok(());
        };
        for member in members(choice)? {
            let value = present(choice, member.value.clone());
            match member.key.as_ref() {
                "disaggregated_params" => self.disaggregated_params = value,
                "prompt_token_ids" if self.prompt_token_ids.is_none() => self.prompt_token_ids = value,
                "finish_reason" => {
                    self.finish = value.map(|value| match value {
                        b"\"length\"" | b"\"not_finished\"" => FinishReason::Length,
                        _ => FinishReason::Other,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the prefill engine finished the answer by itself.
    pub fn is_complete(&self) -> bool {
        self.finish == Some(FinishReason::Other)
    }
}

fn present(body: &[u8], range: std::ops::Range<usize>) -> Option<&[u8]> {
    body.get(range).filter(|value| *value != b"null")
}
