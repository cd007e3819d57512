//! The tokens that are hashed here: the filter's, and the bridge's for what the filter leaves to it.

use std::sync::Arc;

use kv_routing::block::TokenId;
use kv_routing::openai::{Endpoint, InferenceRequest, PromptInput, parse};
use kv_routing::tokens::template::Renderer;
use kv_routing::tokens::{CacheLimits, Prompter};
use kv_routing::wire::{BridgeShare, UnixMillis};

use super::questions::{Call, Question};
use crate::clock;
use crate::tokenizer::BridgeTokenizer;

/// Caches of the prompter; every prompt is asked for once.
const CACHE_BYTES: u32 = 1 << 20;

/// Who tokenizes what.
#[derive(Clone, Debug)]
pub struct Ours {
    /// The filter's compiled tokenizer, if it can be used.
    pub core: Option<Vec<u8>>,
    /// What the bridge does instead.
    pub bridge: Option<(Arc<BridgeTokenizer>, BridgeShare)>,
}

/// A question with our tokens, or why there are none.
pub(super) type Asked = (Question, Result<Vec<TokenId>, String>);

impl Ours {
    /// Tokenizes all prompts; fails when the compiled tokenizer cannot be loaded.
    pub(super) fn answered(self, questions: Vec<Question>) -> Result<Vec<Asked>, String> {
        let mut core = match self.core {
            Some(bytes) => Some(Core::load(bytes)?),
            None => None,
        };
        let now = clock::unix_millis();
        let answer = |question: Question| {
            let tokens = tokens(core.as_mut(), self.bridge.as_ref(), &question, now);
            (question, tokens)
        };
        Ok(questions.into_iter().map(answer).collect())
    }
}

/// The filter's path.
struct Core {
    prompter: Prompter,
    renderer: Option<Renderer>,
}

impl Core {
    fn load(bytes: Vec<u8>) -> Result<Self, String> {
        let prompter = Prompter::load(bytes, CacheLimits { bytes: CACHE_BYTES }).map_err(|error| error.to_string())?;
        let template = prompter.tokenizer().template().map_err(|error| error.to_string())?;
        let renderer = template.map(Renderer::compile).transpose().map_err(|error| error.to_string())?;
        Ok(Self { prompter, renderer })
    }

    fn tokens(&mut self, request: &InferenceRequest<'_>, now: UnixMillis) -> Result<Vec<TokenId>, String> {
        let text = match &request.prompt {
            PromptInput::Text(text) => text.to_string(),
            PromptInput::Chat(chat) => {
                let renderer = self.renderer.as_ref().ok_or("the model has no chat template")?;
                renderer.render(chat, now).map_err(|error| error.to_string())?.text
            }
            PromptInput::Tokens(_) | PromptInput::Absent => return Err("the request has no prompt".to_owned()),
        };
        Ok(self.prompter.encode(&text, request.add_special_tokens))
    }
}

fn tokens(
    core: Option<&mut Core>,
    bridge: Option<&(Arc<BridgeTokenizer>, BridgeShare)>,
    question: &Question,
    now: UnixMillis,
) -> Result<Vec<TokenId>, String> {
    let of_bridge = |share: BridgeShare| share == BridgeShare::All || (share == BridgeShare::Chats && question.chat);
    match (bridge, core) {
        (Some((tokenizer, share)), _) if of_bridge(*share) => by_bridge(tokenizer, &question.request, now),
        (_, Some(core)) => with_request(&question.request, |request| core.tokens(request, now)),
        (_, None) => Err("nothing tokenizes such prompts".to_owned()),
    }
}

/// What a bridge tokenizer makes of a request.
pub(super) fn by_bridge(tokenizer: &BridgeTokenizer, call: &Call, now: UnixMillis) -> Result<Vec<TokenId>, String> {
    with_request(call, |request| {
        let prompt = tokenizer.tokenize(request, now).map_err(|error| error.to_string())?;
        Ok(prompt.tokens)
    })
}

fn with_request<T>(call: &Call, then: impl FnOnce(&InferenceRequest<'_>) -> Result<T, String>) -> Result<T, String> {
    let endpoint = Endpoint::of_path(&call.path).ok_or("no inference path")?;
    let body = serde_json::to_vec(&call.body).map_err(|error| error.to_string())?;
    then(&parse(endpoint, &body).map_err(|error| error.to_string())?)
}
