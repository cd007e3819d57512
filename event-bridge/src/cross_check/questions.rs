//! The prompts that are compared, and the calls that ask an engine for them.

use serde_json::{Map, Value, json};

use crate::tokenizer::corpus::{self, Conversation};

/// One prompt.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// What it is, for reports.
    pub(super) name: String,
    /// Whether it is a conversation, so that a template has a part in it.
    pub(super) chat: bool,
    /// The request that asks for it, as a client sends it: path and body.
    pub(super) request: Call,
    /// Calls that answer with its tokens; the first that the engine has is made.
    pub(super) calls: Vec<Call>,
}

/// A path and what is sent there.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) path: String,
    pub(super) body: Map<String, Value>,
}

/// Texts to a prompt.
const TEXTS: usize = 8;
/// Longest body of a conversation: longer ones are not for engines with a short context.
const MAX_BODY_BYTES: usize = 4096;
const TOKENIZE: &str = "/tokenize";
/// Fields of a chat that `/tokenize` knows; with any other its answer is for another prompt.
const OF_TOKENIZE: [&str; 5] =
    ["messages", "tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs"];

/// All of them, texts first.
pub(super) fn all() -> Vec<Question> {
    let texts = corpus::plain().chunks(TEXTS).map(|texts| texts.join("\n\n"));
    let texts: Vec<String> = texts.chain(corpus::special_texts()).collect();
    let bare = texts.first().cloned().unwrap_or_default();
    let with = texts.into_iter().enumerate().map(|(number, text)| {
        let name = format!("text {number}");
        of_text(name, json!({ "prompt": text }))
    });
    let without =
        of_text("text 0 without special tokens".into(), json!({ "prompt": bare, "add_special_tokens": false }));
    with.chain([without]).chain(corpus::conversations().iter().filter_map(of_conversation)).collect()
}

fn of_text(name: String, body: Value) -> Question {
    let body = fields(body);
    let request = Call { path: "/v1/completions".into(), body: body.clone() };
    Question { name, chat: false, request, calls: vec![Call { path: TOKENIZE.into(), body }] }
}

fn of_conversation(conversation: &Conversation) -> Option<Question> {
    let Conversation { name, path, body } = conversation;
    // How many tokens an image takes is not known here.
    if body.len() > MAX_BODY_BYTES || body.contains("image_url") {
        return None;
    }
    let body = fields(serde_json::from_str(body).ok()?);
    let mut calls = vec![Call { path: format!("{path}/render"), body: body.clone() }];
    // Of reasoning it knows only the newer name.
    let older = body.get("messages").is_some_and(|messages| messages.to_string().contains("\"reasoning_content\""));
    if *path == "/v1/chat/completions" && !older && body.keys().all(|name| OF_TOKENIZE.contains(&name.as_str())) {
        calls.push(Call { path: TOKENIZE.into(), body: body.clone() });
    }
    let request = Call { path: (*path).to_owned(), body };
    Some(Question { name: format!("conversation \"{name}\""), chat: true, request, calls })
}

fn fields(body: Value) -> Map<String, Value> {
    match body {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokenize_is_asked_only_what_it_knows() {
        let all = all();
        let calls = |name: &str| {
            let question = all.iter().find(|question| question.name.contains(name)).unwrap();
            question.calls.iter().map(|call| call.path.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(calls("text 0"), ["/tokenize"]);
        assert_eq!(calls("several turns"), ["/v1/chat/completions/render", "/tokenize"]);
        for other in ["an effort", "documents", "\"reasoning\""] {
            assert_eq!(calls(other), ["/v1/chat/completions/render"], "{other}");
        }
        assert_eq!(calls("a response to items"), ["/v1/responses/render"]);
        assert!(all.iter().all(|question| !question.name.contains("an image")));
        assert!(all.len() > 40 && all.iter().filter(|question| question.calls.len() == 2).count() > 15);
    }
}
