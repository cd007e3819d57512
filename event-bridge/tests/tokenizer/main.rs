//! The compiled tokenizers of real models against the Hugging Face library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // a test may fail by panicking

mod models;
mod self_test;
mod vllm;
