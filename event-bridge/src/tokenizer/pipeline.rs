//! Normalizer, pre-tokenizer and post-processor: recognised in full or refused by name.

use kv_routing::block::TokenId;
use kv_routing::tokens::image::{Family, Normalizer, Pattern};
use serde_json::Value;

use super::{Unsupported, pattern};

/// The steps before and after the model.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) family: Family,
    pub(super) normalizer: Normalizer,
    pub(super) pattern: Pattern,
    pub(super) prefix: Vec<TokenId>,
    pub(super) suffix: Vec<TokenId>,
}

/// Recognises all three; `ids` gives the id of a token's text.
pub(super) fn recognise(
    normalizer: &Value,
    pre_tokenizer: &Value,
    post_processor: &Value,
) -> Result<Pipeline, Unsupported> {
    let normalizer = recognise_normalizer(normalizer)?;
    let (family, pattern, normalizer) = recognise_pre_tokenizer(pre_tokenizer, normalizer)?;
    let mut pipeline = Pipeline { family, normalizer, pattern, prefix: Vec::new(), suffix: Vec::new() };
    recognise_post_processor(post_processor, &mut pipeline)?;
    Ok(pipeline)
}

/// A component, or the members of a sequence of them.
fn members<'a>(value: &'a Value, list: &str) -> Vec<&'a Value> {
    match kind(value) {
        "" => Vec::new(),
        "Sequence" => {
            value.get(list).and_then(Value::as_array).map(|members| members.iter().collect()).unwrap_or_default()
        }
        _ => vec![value],
    }
}

fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or("")
}

fn flag(value: &Value, name: &str, default: bool) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or(default)
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or("")
}

fn refuse<T>(part: &str, value: &Value) -> Result<T, Unsupported> {
    let mut what = value.to_string();
    if what.len() > 400 {
        what = what.chars().take(400).collect::<String>() + " ...";
    }
    Err(Unsupported::new(part, what))
}

fn recognise_normalizer(value: &Value) -> Result<Normalizer, Unsupported> {
    let is_spaces = |value: &Value| {
        kind(value) == "Replace" && text(value, "/pattern/String") == " " && text(value, "/content") == "▁"
    };
    let is_prepend = |value: &Value| kind(value) == "Prepend" && text(value, "/prepend") == "▁";
    match members(value, "normalizers").as_slice() {
        [] => Ok(Normalizer::Keep),
        [only] if kind(only) == "NFC" => Ok(Normalizer::Nfc),
        [only] if is_spaces(only) => Ok(Normalizer::Spaces),
        [first, second] if is_prepend(first) && is_spaces(second) => Ok(Normalizer::PrependedSpaces),
        _ => refuse("normalizer", value),
    }
}

fn recognise_pre_tokenizer(
    value: &Value,
    normalizer: Normalizer,
) -> Result<(Family, Pattern, Normalizer), Unsupported> {
    let steps = members(value, "pretokenizers");
    if let Some((last, splits)) = steps.split_last()
        && kind(last) == "ByteLevel"
    {
        if flag(last, "add_prefix_space", true) {
            return refuse("pre_tokenizer.add_prefix_space", last);
        }
        if matches!(normalizer, Normalizer::Spaces | Normalizer::PrependedSpaces) {
            return Err(Unsupported::new("normalizer", "spaces replaced before a byte-level pre-tokenizer"));
        }
        let pattern = recognise_splits(splits, flag(last, "use_regex", true))?;
        return Ok((Family::ByteLevel, pattern, normalizer));
    }
    match steps.as_slice() {
        [] => Ok((Family::Characters, Pattern::Whole, normalizer)),
        // Spaces are gone by the time this looks for them.
        [only] if never_splits(only) && normalizer != Normalizer::Keep && normalizer != Normalizer::Nfc => {
            Ok((Family::Characters, Pattern::Whole, normalizer))
        }
        [only] if kind(only) == "Metaspace" && normalizer == Normalizer::Keep => {
            Ok((Family::Characters, Pattern::Whole, recognise_metaspace(only)?))
        }
        _ => refuse("pre_tokenizer", value),
    }
}

fn never_splits(value: &Value) -> bool {
    kind(value) == "Split" && text(value, "/pattern/String") == " "
}

fn recognise_metaspace(value: &Value) -> Result<Normalizer, Unsupported> {
    let scheme = value.get("prepend_scheme").and_then(Value::as_str);
    if text(value, "/replacement") != "▁" {
        return refuse("pre_tokenizer.replacement", value);
    }
    // Words would end before every space, which the core does not do in text of characters.
    if flag(value, "split", true) {
        return refuse("pre_tokenizer.split", value);
    }
    match scheme {
        Some("never") => Ok(Normalizer::Spaces),
        Some("first") => Ok(Normalizer::FirstPrependedSpaces),
        _ => refuse("pre_tokenizer.prepend_scheme", value),
    }
}

/// The splits before `ByteLevel`; `gpt2` says whether `ByteLevel` splits by its own expression too.
fn recognise_splits(splits: &[&Value], gpt2: bool) -> Result<Pattern, Unsupported> {
    for split in splits {
        let behavior = text(split, "/behavior");
        let inverted = flag(split, "invert", false);
        // "Removed" of what does not match keeps the matches; the known expressions leave nothing else.
        let keeps_matches = (behavior == "Isolated" && !inverted) || (behavior == "Removed" && inverted);
        if kind(split) != "Split" || !keeps_matches {
            return refuse("pre_tokenizer", split);
        }
    }
    let expressions: Vec<&str> = splits.iter().map(|split| text(split, "/pattern/Regex")).collect();
    let unknown = || Unsupported::new("pre_tokenizer", format!("pattern {expressions:?}"));
    match expressions.as_slice() {
        [] if gpt2 => Ok(Pattern::Gpt2),
        _ if gpt2 => Err(Unsupported::new("pre_tokenizer.use_regex", "true behind other splits")),
        [] => Ok(Pattern::Whole),
        [regex] => pattern::of_regex(regex).ok_or_else(unknown),
        // DeepSeek's third expression leaves gaps, which only "Isolated" keeps.
        all if all == pattern::DEEPSEEK && splits.iter().all(|split| text(split, "/behavior") == "Isolated") => {
            Ok(Pattern::DeepSeek)
        }
        _ => Err(unknown()),
    }
}

fn recognise_post_processor(value: &Value, pipeline: &mut Pipeline) -> Result<(), Unsupported> {
    for step in members(value, "processors") {
        match kind(step) {
            // Changes offsets only.
            "ByteLevel" => {}
            "TemplateProcessing" => recognise_template(step, pipeline)?,
            _ => return refuse("post_processor", step),
        }
    }
    Ok(())
}

fn recognise_template(value: &Value, pipeline: &mut Pipeline) -> Result<(), Unsupported> {
    let Some(steps) = value.get("single").and_then(Value::as_array) else {
        return refuse("post_processor.single", value);
    };
    if !pipeline.prefix.is_empty() || !pipeline.suffix.is_empty() {
        return refuse("post_processor", value);
    }
    let mut sequences = 0;
    for step in steps {
        if step.pointer("/Sequence/id").is_some() {
            sequences += 1;
            continue;
        }
        let name = text(step, "/SpecialToken/id");
        let ids = value.get("special_tokens").and_then(|tokens| tokens.get(name)).and_then(|token| token.get("ids"));
        let Some(ids) = ids.and_then(Value::as_array) else {
            return refuse("post_processor.special_tokens", step);
        };
        let frame = if sequences == 0 { &mut pipeline.prefix } else { &mut pipeline.suffix };
        for id in ids {
            match id.as_u64().and_then(|id| u32::try_from(id).ok()) {
                Some(id) => frame.push(TokenId(id)),
                None => return refuse("post_processor.special_tokens", step),
            }
        }
    }
    if sequences != 1 || pipeline.prefix.len() > 8 || pipeline.suffix.len() > 8 {
        return refuse("post_processor.single", value);
    }
    Ok(())
}
