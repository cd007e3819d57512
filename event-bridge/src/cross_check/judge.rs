//! Comparison of the two sides, and the library's word where they differ.

use std::fmt;
use std::sync::Arc;

use kv_routing::block::TokenId;

use super::ask::Answer;
use super::ours::{Asked, by_bridge};
use super::{Counts, Culprit, Model, Outcome};
use crate::clock;
use crate::ingest::Cause;
use crate::tokenizer::{BridgeTokenizer, Reference};

/// Tokens shown from the first difference on.
const SHOWN: usize = 8;

/// The first prompt of which the engine says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which.
    pub prompt: String,
    /// First token that differs.
    pub at: usize,
    /// Our tokens from there on, or why the prompt is refused here.
    pub ours: Result<Vec<u32>, String>,
    /// The engine's.
    pub theirs: Vec<u32>,
    /// How many there are in all, here and in the engine.
    pub counts: (usize, usize),
    /// Whose fault it is.
    pub culprit: Culprit,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prompt, at, ours, theirs, counts: (count, engine_count), culprit } = self;
        match ours {
            Ok(ours) => write!(
                f,
                "{prompt}: from token {at} on the engine has {theirs:?}, and here it is {ours:?} ({engine_count} and {count} tokens in all)"
            )?,
            Err(why) => write!(f, "{prompt}: {engine_count} tokens in the engine, refused here: {why}")?,
        }
        write!(f, "; {}", culprit.advice())
    }
}

impl Culprit {
    /// What to look at.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Core => "the Hugging Face library says what the engine says, so the bridge tokenizes for the filter",
            Self::Files(cause) => cause.advice(),
        }
    }
}

/// Compares; the second result is what tokenizes right when the core does not.
pub(super) fn judge(questions: &[Asked], answers: &[Answer], model: &Model) -> (Outcome, Option<Arc<BridgeTokenizer>>) {
    let mut counts = Counts::default();
    let mut refusal = None;
    let mut first: Option<(&Asked, &[TokenId])> = None;
    // Texts come first, so a tokenizer that is another one shows before a template.
    for (asked, answer) in questions.iter().zip(answers) {
        match (&asked.1, answer) {
            (_, Answer::NotOffered) => counts.unanswered += 1,
            (Ok(_), Answer::Refused(why)) => {
                refusal.get_or_insert(why);
                counts.unanswered += 1;
            }
            (Err(_), Answer::Refused(_)) => counts.refused += 1,
            (Ok(ours), Answer::Tokens(theirs)) if ours == theirs => {
                counts.equal += 1;
                counts.tokens += theirs.len() as u64;
            }
            (_, Answer::Tokens(theirs)) => {
                first.get_or_insert((asked, theirs));
            }
        }
    }
    match first {
        Some((asked, theirs)) => differs(asked, theirs, model),
        None if counts.equal > 0 => (Outcome::Agrees(counts), None),
        None => {
            let why = match refusal {
                Some(words) => format!("the engine takes none of the requests: {words}"),
                None => "the engine offers neither /tokenize nor /v1/chat/completions/render".to_owned(),
            };
            (Outcome::Unanswered { why, again: false }, None)
        }
    }
}

fn differs((question, ours): &Asked, theirs: &[TokenId], model: &Model) -> (Outcome, Option<Arc<BridgeTokenizer>>) {
    let library = Reference::load(&model.files).ok();
    let library = library.map(|reference| BridgeTokenizer::as_written(reference, &model.files, &model.options));
    let right = library.filter(|library| {
        by_bridge(library, &question.request, clock::unix_millis()).is_ok_and(|tokens| tokens == theirs)
    });
    let cause = if question.chat { Cause::Template } else { Cause::Tokenizer };
    let culprit = if right.is_some() { Culprit::Core } else { Culprit::Files(cause) };
    let here = ours.as_deref().unwrap_or_default();
    let at = here.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
    let some = |tokens: &[TokenId]| tokens.iter().skip(at).take(SHOWN).map(|token| token.0).collect();
    let difference = Difference {
        prompt: question.name.clone(),
        at,
        ours: ours.as_deref().map(some).map_err(Clone::clone),
        theirs: some(theirs),
        counts: (here.len(), theirs.len()),
        culprit,
    };
    (Outcome::Differs(Box::new(difference)), right.map(Arc::new))
}
