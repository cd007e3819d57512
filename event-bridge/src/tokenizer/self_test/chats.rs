//! The filter's rendering against the template as it is written, over the built-in conversations.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kv_routing::block::{BlockSize, HashSeed, SequenceHash};
use kv_routing::openai::{Endpoint, InferenceRequest, PromptInput, parse};
use kv_routing::tokens::template::{RenderError, Rendered};
use kv_routing::tokens::{HashPlan, PreparedPrompt, Progress, PromptError, Prompter};
use kv_routing::wire::UnixMillis;

use super::{FirstDifference, compare_tokens};
use crate::tokenizer::corpus::{Conversation, conversations};
use crate::tokenizer::{BridgeError, BridgePrompt, BridgeTokenizer};

/// Some time, for templates that print the date; the same in every run.
const NOW: UnixMillis = UnixMillis(1_796_051_160_000);

/// Outcome of rendering the built-in conversations without differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatTest {
    /// Conversations whose prompts are equal.
    pub equal: u32,
    /// Tokens of these.
    pub tokens: u64,
    /// Conversations that the template refuses.
    pub refused: u32,
    /// Why it refuses the first of them.
    pub refusal: Option<String>,
}

impl ChatTest {
    /// What is wrong with a template that renders nothing.
    pub fn problem(&self) -> Option<String> {
        let refusal = self.refusal.as_ref().filter(|_| self.equal == 0)?;
        Some(format!("the template refuses every conversation of the self-test: {refusal}"))
    }
}

/// Renders, tokenizes and hashes the built-in conversations with the core, which must have a template, and with the library. `reference` should
/// render the template as it is written ([`BridgeTokenizer::as_written`]).
///
/// # Errors
/// [`FirstDifference`] at the first conversation they disagree on.
pub fn self_test_chats(core: &mut Prompter, reference: &BridgeTokenizer) -> Result<ChatTest, FirstDifference> {
    let mut outcome = ChatTest::default();
    for Conversation { name, path, body } in conversations() {
        let read = Endpoint::of_path(path).map(|endpoint| parse(endpoint, body.as_bytes()));
        let Some(Ok(request)) = read else {
            let (by, why) = ("the filter's reader of bodies", "unreadable".to_owned());
            return Err(FirstDifference::Refusal { conversation: name, by, why });
        };
        let PromptInput::Chat(chat) = &request.prompt else { continue };
        let Some(renderer) = core.renderer() else { break };
        let ours = renderer.render(chat, NOW);
        // The renderer's own slices backwards, which only the template as written uses, panic on empty values.
        let theirs = catch_unwind(AssertUnwindSafe(|| reference.tokenize(&request, NOW)));
        let Ok(theirs) = theirs else { continue };
        match compare_chat(core, (name, &request), ours, theirs)? {
            Compared::Equal(tokens) => {
                outcome.equal += 1;
                outcome.tokens += u64::from(tokens);
            }
            Compared::Refused(why) => {
                outcome.refused += 1;
                outcome.refusal.get_or_insert(why);
            }
        }
    }
    Ok(outcome)
}

enum Compared {
    Equal(u32),
    Refused(String),
}

fn compare_chat(
    core: &mut Prompter,
    (conversation, request): (&'static str, &InferenceRequest<'_>),
    ours: Result<Rendered, RenderError>,
    theirs: Result<BridgePrompt, BridgeError>,
) -> Result<Compared, FirstDifference> {
    let refused = |by, why: String| FirstDifference::Refusal { conversation, by, why };
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(ours), Err(BridgeError::Render(_) | BridgeError::Template(_))) => {
            return Ok(Compared::Refused(ours.to_string()));
        }
        (_, Err(theirs)) => return Err(refused("the template as it is written", theirs.to_string())),
        (Err(ours), Ok(_)) => return Err(refused("the filter's form of the template", ours.to_string())),
    };
    if ours.text != theirs.text {
        return Err(rendering(conversation, &ours.text, &theirs.text));
    }
    // Twice: what the caches remember of the first time is part of the second.
    for _ in 0..2 {
        let made = prepared(core, request).map_err(|error| refused("the filter's core", error.to_string()))?;
        let expected = theirs.hashed(plan());
        // Where an image leaves no trace in the text, the bridge counts only up to the last place where it is sure to cut.
        let exact = made.exact_tokens >= expected.exact_tokens;
        if !exact || (made.tokens, &made.chain) != (expected.tokens, &expected.chain) {
            if ours.media.is_empty() {
                let tokens = core.encode(&ours.text, request.add_special_tokens);
                compare_tokens(&ours.text, &tokens, &theirs.tokens)?;
            }
            return Err(hashes(conversation, &made.chain, &expected.chain));
        }
    }
    Ok(Compared::Equal(u32::try_from(theirs.tokens.len()).unwrap_or(u32::MAX)))
}

/// Blocks of one token, so that every token counts.
fn plan() -> HashPlan {
    HashPlan { block_size: BlockSize::new(1).unwrap_or(BlockSize::PRICING), seed: HashSeed::default() }
}

fn prepared(core: &mut Prompter, request: &InferenceRequest<'_>) -> Result<PreparedPrompt, PromptError> {
    let mut preparation = core.begin(request, plan(), NOW)?;
    loop {
        if let Progress::Done(prepared) = core.advance(&mut preparation, u32::MAX) {
            return Ok(prepared);
        }
    }
}

fn rendering(conversation: &'static str, ours: &str, theirs: &str) -> FirstDifference {
    let at = ours.bytes().zip(theirs.bytes()).take_while(|(ours, theirs)| ours == theirs).count();
    FirstDifference::Rendering { conversation, at, ours: around(ours, at), theirs: around(theirs, at) }
}

/// A few characters before a place, and more behind it.
fn around(text: &str, at: usize) -> String {
    let (start, end) = (text.floor_char_boundary(at.saturating_sub(40)), text.floor_char_boundary(at + 80));
    text.get(start..end).unwrap_or_default().to_owned()
}

fn hashes(conversation: &'static str, ours: &[SequenceHash], theirs: &[SequenceHash]) -> FirstDifference {
    let at = ours.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
    FirstDifference::Hashes { conversation, at, count: ours.len(), reference_count: theirs.len() }
}
