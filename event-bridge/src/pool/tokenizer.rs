//! Compiles a pool's tokenizer beside everything else, and proves it before anyone uses it. What cannot be compiled, or does not prove
//! right, is tokenized by the bridge.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use kv_routing::block::TokenId;
use kv_routing::tokens::{CacheLimits, Prompter};
use kv_routing::wire::{BridgeShare, PUSH_PART_BYTES, TokenizerRef};
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::proved::Proved;
use crate::publish::TokenizerParts;
use crate::tokenizer::{
    BridgeTokenizer, ModelFiles, Reference, RenderOptions, compile_files, self_test, self_test_chats,
};

/// Caches of the prompter that the self-test runs in.
const TEST_CACHE_BYTES: u32 = 1 << 20;

/// What came of a pool's tokenizer.
#[derive(Debug)]
pub(super) struct Ready {
    /// For the filter's core.
    pub(super) core: Option<TokenizerParts>,
    /// For what the core cannot do.
    pub(super) bridge: Option<Bridged>,
    /// Why chats cannot be rendered at all, when they cannot.
    pub(super) chats_problem: Option<String>,
}

/// Prompts tokenized by the bridge.
#[derive(Clone, Debug)]
pub(super) struct Bridged {
    pub(super) tokenizer: Arc<BridgeTokenizer>,
    pub(super) share: BridgeShare,
    /// What the core does not know, or does otherwise.
    pub(super) why: String,
}

/// Starts compiling the tokenizer in `dir`; the result comes through the receiver.
pub(super) fn compile_in_background(
    dir: PathBuf,
    options: RenderOptions,
    cache_dir: Option<PathBuf>,
) -> oneshot::Receiver<Result<Ready, String>> {
    let (tx, rx) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        // Fails when the pool has ended meanwhile.
        drop(tx.send(prepare(&dir, &options, cache_dir.as_deref())));
    });
    rx
}

/// The core's tokenizer when it can be used, else the bridge's.
fn prepare(dir: &Path, options: &RenderOptions, cache_dir: Option<&Path>) -> Result<Ready, String> {
    let files = ModelFiles::read(dir).map_err(|error| error.to_string())?;
    let ready = match compile(dir, &files, options, cache_dir) {
        Ok(ready) if BridgeTokenizer::renders_what_the_core_cannot(&files) => {
            let why = "prompts of chats are harmony, which is not built by a template".to_owned();
            let tokenizer = BridgeTokenizer::load(&files, options).map_err(|error| format!("{why}; {error}"))?;
            let bridge = Bridged { tokenizer: Arc::new(tokenizer), share: BridgeShare::Chats, why };
            Ready { bridge: Some(bridge), chats_problem: None, ..ready }
        }
        Ok(ready) => ready,
        Err(why) => {
            let tokenizer = BridgeTokenizer::load(&files, options).map_err(|error| format!("{why}; {error}"))?;
            let chats_problem = tokenizer.template_problem().map(ToString::to_string);
            let bridge = Bridged { tokenizer: Arc::new(tokenizer), share: BridgeShare::All, why };
            Ready { core: None, bridge: Some(bridge), chats_problem }
        }
    };
    if let Some(problem) = &ready.chats_problem {
        warn!(dir = %dir.display(), problem, "chats cannot be rendered, only text and token-id prompts are exact");
    }
    Ok(ready)
}

/// Compiles the tokenizer and compares it with the reference library over the built-in corpus, unless that was done before.
fn compile(dir: &Path, files: &ModelFiles, options: &RenderOptions, cache_dir: Option<&Path>) -> Result<Ready, String> {
    let started = Instant::now();
    let proved = cache_dir.map(|cache_dir| Proved::new(cache_dir, files, options));
    if let Some((id, bytes)) = proved.as_ref().and_then(Proved::find) {
        let took_ms = started.elapsed().as_millis() as u64;
        info!(dir = %dir.display(), took_ms, "compiled tokenizer taken from the cache, proved before");
        let chats_problem = files.templates(options.content_format).err().map(|problem| problem.to_string());
        return Ok(Ready { core: Some(parts(id, bytes, files.added_ids())?), bridge: None, chats_problem });
    }
    let compiled = compile_files(files, options).map_err(|error| error.to_string())?;
    let limits = CacheLimits { bytes: TEST_CACHE_BYTES };
    let mut core = Prompter::load(compiled.bytes.clone(), limits).map_err(|error| error.to_string())?;
    let reference = Reference::load(files).map_err(|error| error.to_string())?;
    let tested = self_test(&mut core, &reference).map_err(|error| format!("self-test failed: {error}"))?;
    let judge = BridgeTokenizer::as_written(reference, files, options);
    let template_problem = compiled.report.template_problem.as_ref().map(ToString::to_string);
    let parts = parts(compiled.id, compiled.bytes, files.added_ids())?;
    let chats = match self_test_chats(&mut core, &judge) {
        Ok(chats) => chats,
        Err(difference) if difference.concerns_rendering() => {
            let why = format!("self-test failed: {difference}");
            let bridge = Bridged { tokenizer: Arc::new(judge), share: BridgeShare::Chats, why };
            return Ok(Ready { core: Some(parts), bridge: Some(bridge), chats_problem: None });
        }
        Err(difference) => return Err(format!("self-test failed: {difference}")),
    };
    let (texts, tokens, took_ms) = (tested.texts, tested.tokens, started.elapsed().as_millis() as u64);
    let (conversations, refused) = (chats.equal, chats.refused);
    info!(dir = %dir.display(), texts, tokens, conversations, refused, took_ms, "tokenizer compiled and proved equal to the reference");
    if let (Some(proved), None) = (proved, chats.problem())
        && let Err(error) = proved.keep(parts.reference.id, &parts.parts.concat())
    {
        warn!(%error, "the proved tokenizer cannot be kept in cache_dir");
    }
    Ok(Ready { core: Some(parts), bridge: None, chats_problem: template_problem.or_else(|| chats.problem()) })
}

/// Cuts a compiled tokenizer to pieces that fit a push.
fn parts(id: u64, compiled: Vec<u8>, added: BTreeSet<TokenId>) -> Result<TokenizerParts, String> {
    let too_large = |_| format!("compiled tokenizer of {} bytes is too large", compiled.len());
    let bytes = u32::try_from(compiled.len()).map_err(too_large)?;
    let whole = Bytes::from(compiled);
    let starts = (0..whole.len()).step_by(PUSH_PART_BYTES);
    let parts: Vec<Bytes> = starts.map(|start| whole.slice(start..whole.len().min(start + PUSH_PART_BYTES))).collect();
    let count = bytes.div_ceil(PUSH_PART_BYTES as u32);
    Ok(TokenizerParts { reference: TokenizerRef { id, parts: count, bytes }, parts, added })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_put_together_are_the_whole() {
        for length in [1, PUSH_PART_BYTES - 1, PUSH_PART_BYTES, PUSH_PART_BYTES + 1, 3 * PUSH_PART_BYTES] {
            let whole: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let parts = parts(7, whole.clone(), BTreeSet::new()).unwrap();
            assert_eq!((parts.reference.parts as usize, parts.reference.bytes as usize), (parts.parts.len(), length));
            assert!(parts.parts.iter().all(|part| part.len() <= PUSH_PART_BYTES));
            assert_eq!(parts.parts.concat(), whole);
        }
    }
}
