//! What vLLM finds out about a template by rendering with it, for `/v1/messages`.

use std::borrow::Cow;
use std::sync::OnceLock;

use minijinja::Value;

use super::environment::bare_environment;
use super::render::Renderer;
use crate::openai::value::{DictBuilder, List};
use crate::openai::{ChatInput, Content, Message};
use crate::wire::UnixMillis;

/// Answers so far; each is found at its first use.
#[derive(Debug, Default)]
pub(super) struct Probes {
    system_first: OnceLock<bool>,
    disabled_effort: OnceLock<&'static str>,
}

impl Probes {
    /// The request as vLLM hands it on; none when it stays as it is.
    pub(super) fn adapt<'a>(
        &self,
        renderer: &Renderer,
        chat: &ChatInput<'a>,
        now: UnixMillis,
    ) -> Option<ChatInput<'a>> {
        let anthropic = chat.anthropic?;
        let late_system = chat.messages.iter().skip(1).any(is_system);
        let moves = late_system && *self.system_first.get_or_init(|| system_only_first(renderer));
        if !moves && !anthropic.thinking_disabled {
            return None;
        }
        let mut adapted = chat.clone();
        adapted.anthropic = None;
        if moves {
            adapted.messages = system_in_front(&chat.messages);
        }
        if anthropic.thinking_disabled {
            let effort = self.disabled_effort.get_or_init(|| disabled_effort(renderer, now));
            adapted.reasoning_effort = Some(Cow::Borrowed(effort));
        }
        Some(adapted)
    }
}

fn is_system(message: &Message) -> bool {
    message.role.as_str() == Some("system")
}

/// All system texts as one message in front.
fn system_in_front(messages: &[Message]) -> Vec<Message> {
    let (system, others): (Vec<&Message>, Vec<&Message>) = messages.iter().partition(|message| is_system(message));
    let text: String = system
        .iter()
        .filter_map(|message| match &message.content {
            Content::Text(text) => text.as_str(),
            _ => None,
        })
        .collect();
    let first =
        Message { role: Value::from("system"), content: Content::Text(Value::from(text)), fields: Default::default() };
    std::iter::once(first).chain(others.into_iter().cloned()).collect()
}

/// Whether a template fails on a second system message. vLLM asks it in plain Jinja, so that a template which needs
/// more than that counts as failing.
fn system_only_first(renderer: &Renderer) -> bool {
    let fails = |tools: bool| {
        let source = renderer.template_source(tools);
        if super::source::marks_generation(source) {
            return true;
        }
        let Ok(source) = super::source::prepare(source) else { return true };
        let message = |role: &str| {
            let mut message = DictBuilder::default();
            message.set("role", role);
            message.set("content", "t");
            message.finish()
        };
        let mut context = DictBuilder::default();
        context.set("messages", List::value(["system", "user", "system", "user"].map(message).to_vec()));
        context.set("add_generation_prompt", false);
        bare_environment().render_str(&source, context.finish()).is_err()
    };
    fails(false) || fails(true)
}

/// The effort that says "do not think": `none`, or `low` where the template takes `none` for another effort.
fn disabled_effort(renderer: &Renderer, now: UnixMillis) -> &'static str {
    let prompt = |effort: &'static str| {
        let hello = Message {
            role: Value::from("user"),
            content: Content::Text(Value::from("Hi")),
            fields: Default::default(),
        };
        let chat =
            ChatInput { messages: vec![hello], reasoning_effort: Some(Cow::Borrowed(effort)), ..ChatInput::default() };
        renderer.render(&chat, now).ok().map(|rendered| rendered.text)
    };
    let none = prompt("none");
    let taken_for_another = || ["low", "medium", "high", "xhigh", "max"].iter().any(|effort| prompt(effort) == none);
    if none.is_none() || taken_for_another() { "low" } else { "none" }
}
