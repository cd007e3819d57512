//! The compiled tokenizers of real models against the Hugging Face library.
//!
//! | module | what |
//! |---|---|
//! | `parity` | built-in corpus, generated texts, sample of the sweep over all scalar values |
//! | `classes` | tokenizer classes that rebuild what the file says |
//! | `conversations` | the self-test of templates |
//! | `cuts` | texts cut where the core cuts them, tokenized by the library |
//! | `caches` | prompts prepared with caches and in slices against the same without |
//! | `variants` | real tokenizers changed to what no package holds |
//! | `harmony` | chats of gpt-oss against vLLM's code |
//! | `ranks` | tokenizers from rank files against tiktoken and mistral-common |
//! | `vllm` | requests that a real vLLM answered |
//! | `refusals` | what the compiler does not recognise |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // a test may fail by panicking

mod caches;
mod classes;
mod conversations;
mod cuts;
mod harmony;
mod models;
mod parity;
mod ranks;
mod refusals;
mod variants;
mod vllm;
