//! Where the members of an object lie in the text, for edits that leave every other byte alone.

use std::borrow::Cow;
use std::ops::Range;

use super::{Cursor, JsonError};

/// One member of an object, by its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member<'a> {
    /// The key, unescaped.
    pub(crate) key: Cow<'a, str>,
    /// From the key's opening quote.
    pub(crate) start: usize,
    /// The value.
    pub(crate) value: Range<usize>,
}

/// The members of the object that `text` is, in order, duplicates included.
///
/// # Errors
/// [`JsonError`] when the text is not one JSON object.
pub(crate) fn members(text: &[u8]) -> Result<Vec<Member<'_>>, JsonError> {
    let mut cursor = Cursor::new(text)?;
    let mut members = Vec::new();
    cursor.expect(b'{')?;
    cursor.deeper()?;
    if !cursor.take(b'}') {
        loop {
            cursor.skip_space();
            cursor.keep()?;
            let start = cursor.at;
            let key = cursor.string()?;
            cursor.expect(b':')?;
            cursor.skip_space();
            let from = cursor.at;
            cursor.skip()?;
            members.push(Member { key, start, value: from..cursor.at });
            if !cursor.take(b',') {
                cursor.expect(b'}')?;
                break;
            }
        }
    }
    cursor.end()?;
    Ok(members)
}

/// The elements of the array that `text` is, by their bytes.
///
/// # Errors
/// [`JsonError`] when the text is not one JSON array.
pub(crate) fn elements(text: &[u8]) -> Result<Vec<Range<usize>>, JsonError> {
    let mut cursor = Cursor::new(text)?;
    let mut elements = Vec::new();
    cursor.array(&mut |cursor| {
        cursor.skip_space();
        cursor.keep()?;
        let from = cursor.at;
        cursor.skip()?;
        elements.push(from..cursor.at);
        Ok::<(), JsonError>(())
    })?;
    cursor.end()?;
    Ok(elements)
}
