//! Changing members of a JSON object without touching any other byte.

use super::HandoffError;
use crate::openai::json::members;

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
    let members = members(body).map_err(HandoffError::Body)?;
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
    for member in &members {
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
    Ok(out)
}

/// `body` changed so that it asks for one token in one piece, and `more` besides.
pub(super) fn one_token(body: &[u8], more: Vec<Edit>) -> Result<Vec<u8>, HandoffError> {
    let mut edits = vec![
        Edit::Set("stream", b"false".to_vec()),
        Edit::Remove("stream_options"),
        Edit::Set("max_tokens", b"1".to_vec()),
        Edit::Replace("max_completion_tokens", b"1".to_vec()),
        Edit::Remove("min_tokens"),
    ];
    edits.extend(more);
    edit(body, &edits)
}

/// `text` as a JSON string.
pub(super) fn string(text: &str) -> Vec<u8> {
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
