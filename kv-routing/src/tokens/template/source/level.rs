//! What lies within brackets and strings of an expression.

/// How deep in brackets, and whether in a string.
#[derive(Default)]
pub(super) struct Level {
    depth: i32,
    quote: Option<char>,
    escaped: bool,
}

impl Level {
    /// In no bracket and no string.
    pub(super) fn is_outer(&self) -> bool {
        self.depth == 0 && self.quote.is_none()
    }

    /// Goes over one character.
    pub(super) fn pass(&mut self, char: char) {
        match (self.quote, char) {
            (Some(_), _) if std::mem::take(&mut self.escaped) => {}
            (Some(_), '\\') => self.escaped = true,
            (Some(open), _) if char == open => self.quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => self.quote = Some(char),
            (None, '(' | '[' | '{') => self.depth += 1,
            (None, ')' | ']' | '}') => self.depth -= 1,
            (None, _) => {}
        }
    }
}

/// Splits at every `at` outside of brackets and strings.
pub(super) fn split_outer(text: &str, at: char) -> Vec<&str> {
    let mut level = Level::default();
    let mut from = 0;
    let mut parts = Vec::new();
    for (place, char) in text.char_indices() {
        if char == at && level.is_outer() {
            parts.push(text.get(from..place).unwrap_or_default());
            from = place + at.len_utf8();
        }
        level.pass(char);
    }
    parts.push(text.get(from..).unwrap_or_default());
    parts
}
