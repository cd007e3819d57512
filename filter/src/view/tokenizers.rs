//! Compiled tokenizers out of shared data: assembled and loaded once per content id, dropped when no pool uses them.

use std::collections::HashMap;

use kv_routing::tokens::{CacheLimits, Prompter};
use kv_routing::wire::{Generation, TokenizerRef, keys};

use crate::counters::{Counter, Counters};
use crate::host::{Host, Severity};

/// Tokenizers of one VM.
#[derive(Debug, Default)]
pub struct Tokenizers(HashMap<u64, Tokenizer>);

/// One tokenizer.
#[derive(Debug)]
pub enum Tokenizer {
    /// In use.
    Loaded(Box<Prompter>),
    /// It could not be loaded; tried again only when the manifest changes.
    Failed {
        /// Manifest under which it failed.
        generation: Generation,
    },
}

impl Tokenizers {
    /// The prompter for `wanted`, loaded now if it was not. `None` when it cannot be.
    pub fn get(
        &mut self,
        host: &impl Host,
        counters: &Counters,
        wanted: TokenizerRef,
        limits: CacheLimits,
        generation: Generation,
    ) -> Option<&mut Prompter> {
        let known = match self.0.get(&wanted.id) {
            Some(Tokenizer::Loaded(_)) => true,
            Some(Tokenizer::Failed { generation: failed }) => *failed == generation,
            None => false,
        };
        if !known {
            let tokenizer = match load(host, wanted, limits) {
                Ok(prompter) => {
                    counters.count(host, Counter::TokenizerLoads);
                    Tokenizer::Loaded(Box::new(prompter))
                }
                Err(problem) => {
                    counters.count(host, Counter::TokenizerLoadFailures);
                    host.log(Severity::Warn, &format!("kv-router: tokenizer {:016x}: {problem}", wanted.id));
                    Tokenizer::Failed { generation }
                }
            };
            self.0.insert(wanted.id, tokenizer);
        }
        self.loaded(wanted.id)
    }

    /// The prompter with content id `id`, if it is loaded.
    pub fn loaded(&mut self, id: u64) -> Option<&mut Prompter> {
        match self.0.get_mut(&id) {
            Some(Tokenizer::Loaded(prompter)) => Some(prompter),
            Some(Tokenizer::Failed { .. }) | None => None,
        }
    }

    /// Drops tokenizers for which `used` is false.
    pub fn retain(&mut self, used: impl Fn(u64) -> bool) {
        self.0.retain(|id, _| used(*id));
    }
}

/// Puts the parts together and loads them.
fn load(host: &impl Host, wanted: TokenizerRef, limits: CacheLimits) -> Result<Prompter, String> {
    let mut compiled = Vec::with_capacity(wanted.bytes as usize);
    for part in 0..wanted.parts {
        let Some(bytes) = host.shared(&keys::tokenizer(wanted.id, part)).value else {
            return Err(format!("part {part} of {} is missing", wanted.parts));
        };
        compiled.extend_from_slice(&bytes);
    }
    if compiled.len() != wanted.bytes as usize {
        return Err(format!("its {} parts have {} bytes instead of {}", wanted.parts, compiled.len(), wanted.bytes));
    }
    Prompter::load(compiled, limits).map_err(|error| error.to_string())
}
