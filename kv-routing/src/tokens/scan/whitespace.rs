//! White space: `\s*[\r\n]+|\s+(?!\S)|\s+`, with or without the first part.

use super::{ClassTable, NEWLINES, WHITE};

/// End of the piece of white space that begins at `at`; `newlines` says whether a piece ends behind the last line break of a run.
#[inline]
pub(super) fn next(classes: &ClassTable<'_>, text: &[u8], at: usize, newlines: bool) -> usize {
    let mut end = at;
    let mut last = at;
    let mut behind_newline = None;
    while let Some((class, length)) = classes.at(text, end) {
        if !WHITE.has(class) {
            break;
        }
        last = end;
        end += length;
        if newlines && NEWLINES.has(class) {
            behind_newline = Some(end);
        }
    }
    if let Some(end) = behind_newline {
        return end;
    }
    // The last character of a run that something follows stays with what follows, unless it is alone.
    if end == text.len() || last == at { end } else { last }
}
