//! Prompts with images, audio and video.
//!
//! How many tokens an item takes is known to the engine alone, so a prompt is exact up to its first one. What
//! follows gets stand-ins at the right places, so that the same conversation always gives the same chain. The places
//! are found by rendering once more with a mark for every item.

use super::error::RenderError;
use super::messages::{self, Prepared};
use super::render::Rendered;
use crate::openai::{Content, MediaId};

const OPEN: char = '\u{f8f0}';
const CLOSE: char = '\u{f8f1}';

/// Renders a prepared request.
pub(super) fn render(prepared: &Prepared<'_>) -> Result<Rendered, RenderError> {
    let items = items(prepared);
    let text = rendered(prepared, &mut |_| None)?;
    if items.is_empty() {
        return Ok(Rendered { exact_bytes: text.len(), text, media: Vec::new() });
    }
    let marked = rendered(prepared, &mut |index| Some(format!("{OPEN}{index}{CLOSE}")))?;
    let common = common_prefix(&text, &marked);
    let (text, media) = take_marks(&marked, &items);
    let first = media.first().map_or(text.len(), |(at, _)| *at);
    Ok(Rendered { exact_bytes: common.min(first), text, media })
}

fn rendered(prepared: &Prepared<'_>, stand_in: &mut dyn FnMut(usize) -> Option<String>) -> Result<String, RenderError> {
    let mut input = prepared.input.clone();
    input.messages = messages::conversation(prepared, stand_in)?;
    if input.messages.is_empty() {
        return Err(RenderError::Refused("a conversation without messages"));
    }
    prepared.renderer.apply(&input, prepared.now)
}

fn items(prepared: &Prepared<'_>) -> Vec<MediaId> {
    let mut items = Vec::new();
    for message in &prepared.chat.messages {
        if let Content::Parts(parts) = &message.content {
            items.extend(parts.iter().filter_map(|part| part.media));
        }
    }
    items
}

/// Bytes that both texts begin with, whole characters only.
fn common_prefix(a: &str, b: &str) -> usize {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b);
    same.map(|(char, _)| char.len_utf8()).sum()
}

/// Takes the marks out of the text and says where they were.
fn take_marks(marked: &str, items: &[MediaId]) -> (String, Vec<(usize, MediaId)>) {
    let mut text = String::with_capacity(marked.len());
    let mut media = Vec::with_capacity(items.len());
    let mut rest = marked;
    while let Some((before, after)) = rest.split_once(OPEN) {
        text.push_str(before);
        let mark = after.split_once(CLOSE);
        let item = mark.and_then(|(index, _)| items.get(index.parse::<usize>().ok()?));
        match (mark, item) {
            (Some((_, behind)), Some(item)) => {
                media.push((text.len(), *item));
                rest = behind;
            }
            _ => {
                text.push(OPEN);
                rest = after;
            }
        }
    }
    text.push_str(rest);
    (text, media)
}
