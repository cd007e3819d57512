//! Core against reference over the built-in corpus: texts here, conversations in `chats`.

mod chats;

use kv_routing::block::TokenId;
use kv_routing::tokens::Prompter;
use thiserror::Error;

use super::{Reference, ReferenceError, corpus};

pub use chats::{ChatTest, self_test_chats};

/// Outcome of a self-test without differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfTest {
    /// Texts compared.
    pub texts: u32,
    /// Tokens they came to.
    pub tokens: u64,
}

/// The first text or conversation on which core and reference differ.
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
    /// A conversation is rendered otherwise.
    #[error(
        "conversation \"{conversation}\": from byte {at} on the filter renders ...{ours:?}, and the template as it is written ...{theirs:?}"
    )]
    Rendering {
        /// Its name.
        conversation: &'static str,
        /// First byte that differs.
        at: usize,
        /// What the filter renders around it.
        ours: String,
        /// What the template as written renders there.
        theirs: String,
    },
    /// Only one of them refuses a conversation.
    #[error("conversation \"{conversation}\": only {by} refuses it: {why}")]
    Refusal {
        /// Its name.
        conversation: &'static str,
        /// Who refuses it.
        by: &'static str,
        /// Its words.
        why: String,
    },
    /// A conversation has the right tokens, but not the right hashes.
    #[error(
        "conversation \"{conversation}\": the hashes of equal prompts differ from token {at} on ({count} and {reference_count} in all)"
    )]
    Hashes {
        /// Its name.
        conversation: &'static str,
        /// First token whose hash differs.
        at: usize,
        /// Hashes of the core.
        count: usize,
        /// Hashes of the reference.
        reference_count: usize,
    },
    /// The reference failed.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
}

impl FirstDifference {
    /// Whether it is a matter of the template alone, so that prompts without one are right.
    pub fn concerns_rendering(&self) -> bool {
        matches!(self, Self::Rendering { .. } | Self::Refusal { .. })
    }
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
    compare_tokens(text, &ours, &theirs)?;
    Ok(ours.len() as u64)
}

/// Compares the tokens of one text.
fn compare_tokens(text: &str, ours: &[TokenId], theirs: &[TokenId]) -> Result<(), FirstDifference> {
    if ours == theirs {
        return Ok(());
    }
    let at = ours.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
    let some = |tokens: &[TokenId]| tokens.iter().skip(at).take(8).copied().collect();
    Err(FirstDifference::Tokens {
        text: text.chars().take(200).collect(),
        at,
        ours: some(ours),
        theirs: some(theirs),
        count: ours.len(),
        reference_count: theirs.len(),
    })
}
