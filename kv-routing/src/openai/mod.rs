//! Request bodies of the OpenAI-compatible API to what routing needs of them.
//!
//! [`parse`] goes over the body once. It reads the JSON that Python's `json.loads` reads, borrows strings where it
//! can, turns what templates see straight into template values and checks the rest for grammar only. Bodies the
//! engine would refuse need not be refused here: they route by load and the engine answers.
//!
//! | module | what |
//! |---|---|
//! | [`json`] | the bounded one-pass reader |
//! | [`value`] | Python's lists and dicts for templates |
//! | `body` | one file per kind of body |

mod body;
mod chat;
mod endpoint;
pub mod json;
mod request;
pub mod value;

pub use body::parse;
pub use chat::{Anthropic, ChatInput, Content, MediaId, Message, Part, ToolChoice};
pub use endpoint::Endpoint;
pub use request::{BodyError, Exactness, Inexact, InferenceRequest, PromptInput};
