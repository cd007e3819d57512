//! From a model's files to the compiled tokenizer the filter uses, and the proof that it is right.
//!
//! `compile` reads `tokenizer.json` and its companions, recognises the way of tokenizing or refuses by name, and lays out
//! the tables. `Reference` is the Hugging Face library itself; `self_test` compares the two over a built-in corpus of texts and conversations
//! before a compiled tokenizer is used. What it does not support is tokenized here, by `BridgeTokenizer`, at the filter's request.

mod added;
mod classes;
mod compile;
pub mod corpus;
mod error;
mod files;
mod harmony;
mod json;
mod model;
mod pattern;
mod pipeline;
mod ranks;
mod reference;
mod self_test;
mod service;
mod unicode;

pub use compile::{CompiledTokenizer, RenderOptions, Report, compile, compile_files};
pub use error::{CompileError, Unsupported};
pub use files::{ModelFiles, Origin};
pub use harmony::HarmonyError;
pub use reference::{Reference, ReferenceError};
pub use self_test::{ChatTest, FirstDifference, SelfTest, compare, self_test, self_test_chats};
pub use service::{BridgeError, BridgePrompt, BridgeTokenizer};
