//! Changing members of a JSON object without touching any other byte.

use super::HandoffError;
use crate::openai::json::{ObjectMember, members};

/// A change of one member. Of duplicate keys all are changed: which one counts is the reader's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// This value, also when the member is not there.
    Set(&'static str, Vec<u8>),
    /// This value, where the member is there.
    Replace(&'static str, Vec<u8>),
    /// Gone.
    Remove(&'static str),
}

impl Edit {
    fn key(&self) -> &'static str {
        match self {
            Self::Set(key, _) | Self::Replace(key, _) | Self::Remove(key) => key,
        }
    }
}

/// `body` with `edits` made.
pub(super) fn edit(body: &[u8], edits: &[Edit]) -> Result<Vec<u8>, HandoffError> {
    Ok(edit_members(body, &members(body).map_err(HandoffError::Body)?, edits))
}

/// The same of a body whose `members` are known.
fn edit_members(body: &[u8], members: &[ObjectMember<'_>], edits: &[Edit]) -> Vec<u8> {
    let piece = |range: std::ops::Range<usize>| body.get(range).unwrap_or_default();
    let opening = match members.first() {
        Some(first) => first.start,
        // `{}`, white space aside: everything up to the brace that closes it.
        None => body.iter().rposition(|byte| *byte == b'}').unwrap_or(0),
    };
    let mut out = Vec::with_capacity(body.len() + 512);
    out.extend_from_slice(piece(0..opening));
    let mut written = false;
    let mut after_previous = opening;
    for member in members {
        let change = edits.iter().find(|edit| edit.key() == member.key);
        let separator = piece(after_previous..member.start);
        after_previous = member.value.end;
        if matches!(change, Some(Edit::Remove(_))) {
            continue;
        }
        if written {
            out.extend_from_slice(separator);
        }
        written = true;
        out.extend_from_slice(piece(member.start..member.value.start));
        match change {
            Some(Edit::Set(_, value) | Edit::Replace(_, value)) => out.extend_from_slice(value),
            _ => out.extend_from_slice(piece(member.value.clone())),
        }
    }
    for edit in edits {
        if let Edit::Set(key, value) = edit
            && !members.iter().any(|member| member.key == *key)
        {
            if written {
                out.push(b',');
            }
            written = true;
            out.push(b'"');
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\":");
            out.extend_from_slice(value);
        }
    }
    out.extend_from_slice(piece(after_previous..body.len()));
    out
}

/// How an engine takes a body that asks for one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OneToken {
    /// It refuses `max_tokens` beside `max_completion_tokens`, two names of one field to it: the client's name is kept. Others read the
    /// newer name where they know it, which only chats have.
    pub(super) one_limit: bool,
    /// It tries to read a tool call from the one token where the client demands a call, and fails.
    pub(super) free_tools: bool,
}

/// `body` changed so that it asks for one token in one piece, and `more` besides.
pub(super) fn one_token(body: &[u8], how: OneToken, mut more: Vec<Edit>) -> Result<Vec<u8>, HandoffError> {
    let one = || b"1".to_vec();
    let (mut newer, mut demands) = (false, false);
    let members = members(body).map_err(HandoffError::Body)?;
    for member in &members {
        let value = body.get(member.value.clone()).unwrap_or_default();
        newer |= member.key == "max_completion_tokens";
        demands |= member.key == "tool_choice" && (value == b"\"required\"" || value.first() == Some(&b'{'));
    }
    let limit = if newer && how.one_limit { Edit::Replace } else { Edit::Set };
    more.extend([
        Edit::Set("stream", b"false".to_vec()),
        Edit::Remove("stream_options"),
        limit("max_tokens", one()),
        Edit::Replace("max_completion_tokens", one()),
        Edit::Remove("min_tokens"),
    ]);
    if demands && how.free_tools {
        // Not `auto`, which needs settings of the engine, nor `none`, which may take the tools out of the prompt.
        more.push(Edit::Replace("tool_choice", b"null".to_vec()));
    }
    Ok(edit_members(body, &members, &more))
}

/// `text` as a JSON string.
pub fn string(text: &str) -> Vec<u8> {
    let mut out = vec![b'"'];
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend([b'\\', character as u8]),
            control if u32::from(control) < 0x20 => out.extend(format!("\\u{:04x}", u32::from(control)).bytes()),
            other => out.extend(other.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    out.push(b'"');
    out
}
