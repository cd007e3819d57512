//! What newer `transformers` do to messages.

use minijinja::Value;

use crate::openai::value::{Dict, DictBuilder};

/// Fields without a value go, reasoning goes by all its names, when `normalize` says so.
pub(in crate::tokens::template) fn for_transformers(messages: &[Value], normalize: bool) -> Vec<Value> {
    if !normalize {
        return messages.to_vec();
    }
    messages
        .iter()
        .map(|message| {
            message.downcast_object_ref::<Dict>().map_or_else(|| message.clone(), |dict| normalized(message, dict))
        })
        .collect()
}

fn normalized(message: &Value, dict: &Dict) -> Value {
    let reasoning = ["reasoning_content", "thinking", "reasoning"]
        .iter()
        .find_map(|name| dict.get(name).filter(|reasoning| !reasoning.is_none()));
    if reasoning.is_none() && dict.iter().all(|(_, value)| !value.is_none()) {
        return message.clone();
    }
    let mut out = DictBuilder::default();
    if let Some(reasoning) = reasoning {
        out.set("thinking", reasoning.clone());
    }
    for (name, value) in dict.iter().filter(|(_, value)| !value.is_none()) {
        out.set(name, value.clone());
    }
    if let Some(reasoning) = reasoning {
        out.set("reasoning_content", reasoning.clone());
    }
    out.finish()
}
