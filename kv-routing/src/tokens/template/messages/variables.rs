//! Template variables of a request.

use minijinja::Value;

use crate::openai::ChatInput;
use crate::openai::value::{Dict, DictBuilder};
use crate::tokens::template::error::RenderError;

/// Template variables of a request.
pub(in crate::tokens::template) struct Variables {
    pub(in crate::tokens::template) tools: Option<Value>,
    pub(in crate::tokens::template) documents: Option<Value>,
    pub(in crate::tokens::template) rest: Vec<(Value, Value)>,
}

/// Arguments of `apply_chat_template` that change what is made of the text.
const CALL_ARGUMENTS: &[&str] = &[
    "conversation",
    "messages",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "tokenizer_kwargs",
    "return_assistant_tokens_mask",
    "sanitize_control_tokens",
];

/// `chat_template_kwargs` over the server's defaults, then what the request's own fields say.
pub(in crate::tokens::template) fn variables(
    chat: &ChatInput<'_>,
    defaults: Option<&Value>,
) -> Result<Variables, RenderError> {
    let given = chat.template_kwargs.as_ref().and_then(|kwargs| kwargs.downcast_object_ref::<Dict>());
    let mut merged = DictBuilder::default();
    for (name, value) in
        defaults.and_then(|kwargs| kwargs.downcast_object_ref::<Dict>()).into_iter().flat_map(Dict::iter)
    {
        merged.set(name, value.clone());
    }
    for (name, value) in given.into_iter().flat_map(Dict::iter).filter(|(_, value)| is_set(value)) {
        if matches!(name, "chat_template" | "tokenize") {
            return Err(RenderError::Refused("chat_template or tokenize in chat_template_kwargs"));
        }
        if CALL_ARGUMENTS.contains(&name) {
            return Err(RenderError::Argument(name.to_owned()));
        }
        merged.set(name, value.clone());
    }
    if let Some(effort) = chat.reasoning_effort.as_deref().filter(|effort| *effort != "auto") {
        merged.set("reasoning_effort", effort);
        if given.is_none_or(|given| given.get("enable_thinking").is_none()) {
            merged.set("enable_thinking", effort != "none");
        }
    }
    let mut variables = Variables { tools: None, documents: chat.documents.clone(), rest: Vec::new() };
    for (name, value) in merged.build().iter() {
        match name {
            "tools" => variables.tools = Some(value.clone()),
            "documents" if variables.documents.is_none() => variables.documents = Some(value.clone()),
            "documents" | "add_generation_prompt" | "continue_final_message" | "return_dict" => {}
            _ => variables.rest.push((Value::from(name), value.clone())),
        }
    }
    Ok(variables)
}

/// vLLM's merging passes over null and `"auto"`.
fn is_set(value: &Value) -> bool {
    !value.is_none() && value.as_str() != Some("auto")
}
