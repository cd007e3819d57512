//! Prompt to tokens to block hashes: template, tokenizer, caches behind one facade.
//!
//! A [`Tokenizer`] is a compiled tokenizer whose tables are used where they lie; the bridge compiles it from the model's files and
//! checks it against the reference implementation, so that nothing here ever parses `tokenizer.json` or runs a regular expression.
//! A [`Prompter`] adds the chat template and the caches of one VM. The layout of the compiled form, and why the cuts and caches
//! are exact, stand in `README.md` beside this file.

mod assemble;
mod bpe;
mod budget;
mod cache;
mod cut;
pub mod image;
mod items;
mod leaps;
mod long;
mod nfc;
mod normalize;
mod open;
mod pieces;
mod prepare;
mod prompter;
mod scan;
pub mod table;
pub mod template;
mod tokenizer;

pub use assemble::{AssembleError, Normalization, Parts, assemble};
pub use cache::CacheStats;
pub use long::first_cut;
pub use prepare::Preparation;
pub use prompter::{
    CacheLimits, HashPlan, LoadError, PreparedPrompt, Progress, PromptError, Prompter, SLICE_BYTES, prepare_tokens,
    stand_in,
};
pub use tokenizer::Tokenizer;
