//! Core against the Hugging Face library on many texts: `tokenizer_parity STRINGS PER_TEXT MODEL_DIR...`
//!
//! STRINGS generated texts, and all 1,112,064 scalar values, PER_TEXT to a text (0 leaves the sweep out). Exits with 1 at the first difference.
#![allow(clippy::print_stdout, reason = "a command-line tool")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use event_bridge::tokenizer::corpus::{self, generate};
use event_bridge::tokenizer::{ModelFiles, Reference, RenderOptions, compare, compile_files};
use kv_routing::tokens::{CacheLimits, Prompter};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let strings: u64 = arguments.next().unwrap_or_default().parse()?;
    let per_text: usize = arguments.next().unwrap_or_default().parse()?;
    let samples = corpus::texts();
    for directory in arguments {
        let began = Instant::now();
        let files = ModelFiles::read(Path::new(&directory))?;
        let compiled = compile_files(&files, &RenderOptions::default())?;
        let reference = Reference::load(&files)?;
        let mut core = Prompter::load(compiled.bytes, CacheLimits { bytes: 8 << 20 })?;
        let loaded = began.elapsed();
        let (mut texts, mut tokens) = (0_u64, 0_u64);
        let sweep = (per_text > 0).then(|| generate::sweep(per_text, 1)).into_iter().flatten();
        for text in (0..strings).map(|number| generate::text(number, &samples)).chain(sweep) {
            tokens += compare(&mut core, &reference, &text, texts % 2 == 1)?;
            texts += 1;
        }
        let taken = began.elapsed();
        println!(
            "{directory}: {texts} texts, {tokens} tokens, no difference; loaded in {loaded:.1?}, {taken:.1?} in all"
        );
    }
    Ok(ExitCode::SUCCESS)
}
