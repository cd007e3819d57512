//! Core against reference over the built-in corpus.

use kv_routing::block::TokenId;
use kv_routing::tokens::Prompter;
use thiserror::Error;

use super::{Reference, ReferenceError, corpus};

/// Outcome of a self-test without differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfTest {
    /// Texts compared.
    pub texts: u32,
    /// Tokens they came to.
    pub tokens: u64,
}

/// The first text on which core and reference differ.
#[derive(Debug, Error)]
pub enum FirstDifference {
    /// They give other tokens.
    #[error(
        "text {text:?}: token {at} is {ours:?} here and {theirs:?} in the reference ({count} and {reference_count} tokens in all)"
    )]
    Tokens {
        /// The text, shortened around the place.
        text: String,
        /// Index of the first token that differs.
        at: usize,
        /// The core's tokens from there on, a few of them.
        ours: Vec<TokenId>,
        /// The reference's.
        theirs: Vec<TokenId>,
        /// Tokens of the core.
        count: usize,
        /// Tokens of the reference.
        reference_count: usize,
    },
    /// The reference failed.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
}

/// Tokenizes the built-in corpus with both.
///
/// # Errors
/// [`FirstDifference`] at the first text they disagree on.
pub fn self_test(core: &mut Prompter, reference: &Reference) -> Result<SelfTest, FirstDifference> {
    let mut outcome = SelfTest::default();
    for text in corpus::texts() {
        for add_special_tokens in [false, true] {
            outcome.tokens += compare(core, reference, &text, add_special_tokens)?;
        }
        outcome.texts += 1;
    }
    Ok(outcome)
}

/// Tokenizes one text with both; the number of tokens when they agree.
///
/// # Errors
/// [`FirstDifference`] when they do not.
pub fn compare(
    core: &mut Prompter,
    reference: &Reference,
    text: &str,
    add_special_tokens: bool,
) -> Result<u64, FirstDifference> {
    let ours = core.encode(text, add_special_tokens);
    let theirs = reference.encode(text, add_special_tokens)?;
    if ours == theirs {
        return Ok(ours.len() as u64);
    }
    let at = ours.iter().zip(&theirs).take_while(|(ours, theirs)| ours == theirs).count();
    let some = |tokens: &[TokenId]| tokens.iter().skip(at).take(8).copied().collect();
    Err(FirstDifference::Tokens {
        text: text.chars().take(200).collect(),
        at,
        ours: some(&ours),
        theirs: some(&theirs),
        count: ours.len(),
        reference_count: theirs.len(),
    })
}
