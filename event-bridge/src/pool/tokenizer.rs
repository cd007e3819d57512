//! Compiles a pool's tokenizer beside everything else.

use std::path::PathBuf;

use tokio::sync::oneshot;

use crate::publish::TokenizerParts;

/// Starts compiling the tokenizer in `dir`; the result comes through the receiver.
pub(super) fn compile_in_background(dir: PathBuf) -> oneshot::Receiver<Result<TokenizerParts, String>> {
    let (tx, rx) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        // Fails when the pool has ended meanwhile.
        drop(tx.send(compile(&dir)));
    });
    rx
}

fn compile(dir: &std::path::Path) -> Result<TokenizerParts, String> {
    Err(format!("{}: this build has no tokenizer compiler", dir.display()))
}
