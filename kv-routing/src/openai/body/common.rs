//! Fields that most endpoints share.

use crate::openai::json::Cursor;
use crate::openai::request::{BodyError, Exactness, Inexact, InferenceRequest};

impl<'a> InferenceRequest<'a> {
    /// Reads the value of `key` when it is one of the shared fields; false leaves the value unread.
    pub(super) fn read_common(&mut self, cursor: &mut Cursor<'a>, key: &str) -> Result<bool, BodyError> {
        match key {
            "model" => self.model = cursor.optional_text("model")?,
            "stream" => self.stream = cursor.lax_bool()?.unwrap_or(false),
            "n" => self.n = cursor.lax_u32()?.unwrap_or(1),
            "cache_salt" => self.cache_salt = cursor.optional_text("cache_salt")?,
            "user" => self.user = cursor.optional_text("user")?,
            "priority" => self.priority = cursor.lax_integer()?,
            "add_special_tokens" => self.add_special_tokens = cursor.flag("add_special_tokens")?,
            "truncate_prompt_tokens" => {
                if cursor.lax_integer()?.is_some() {
                    self.approximate(Inexact::Truncated);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Marks the prompt as approximate.
    pub(super) fn approximate(&mut self, why: Inexact) {
        self.exactness = Exactness::Approximate(why);
    }

    /// Marks what follows the first image, audio or video as stand-ins.
    pub(super) fn has_media(&mut self) {
        if self.exactness == Exactness::Exact {
            self.exactness = Exactness::UpToMedia;
        }
    }
}

/// The two names OpenAI gave the bound of output tokens; the newer one wins.
#[derive(Debug, Default)]
pub(super) struct OutputBound {
    newer: Option<u32>,
    older: Option<u32>,
}

impl OutputBound {
    /// Reads the value of `key` when it is one of the two.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Result<bool, BodyError> {
        match key {
            "max_completion_tokens" => self.newer = cursor.lax_u32()?,
            "max_tokens" => self.older = cursor.lax_u32()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn get(&self) -> Option<u32> {
        self.newer.or(self.older)
    }
}
