//! Writing for people: tables and a little colour.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use serde_json::Value;

use super::CliError;

/// Whether standard output may have colour.
pub(super) fn colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Meaning of a word, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Doubtful,
    Bad,
}

/// One word of a table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }

    fn paint(&self, padded: &str, colour: bool) -> String {
        let code = match self.tone {
            Tone::Plain => return padded.to_owned(),
            Tone::Good => 32,
            Tone::Doubtful => 33,
            Tone::Bad => 31,
        };
        if colour { format!("\u{1b}[{code}m{padded}\u{1b}[0m") } else { padded.to_owned() }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// Rows in columns as wide as their widest word; the first row is the head.
pub(super) fn table(rows: &[Vec<Cell>], colour: bool) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let padded = format!("{:width$}", cell.text);
            // Writing to a string cannot fail.
            let _ = write!(line, "{}  ", cell.paint(&padded, colour));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Entries of a list in an answer; none where there is no list.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// A field of an answer as text; `-` where it has none.
pub(super) fn word(value: &Value, field: &str) -> String {
    match value.get(field) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Writes to standard output. A reader that has gone, as with `| head`, is no error.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| CliError::System { what: "cannot write to standard output", source }),
    }
}

/// Writes to standard error what is not part of the answer.
pub(super) fn note(text: &str) -> Result<(), CliError> {
    let written = io::stderr().lock().write_all(text.as_bytes());
    written.map_err(|source| CliError::System { what: "cannot write to standard error", source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_with_and_without_colour() {
        let rows = [vec!["a".into(), "b".into()], vec![Cell::new("long", Tone::Bad), "c".into()]];
        assert_eq!(table(&rows, false), "a     b\nlong  c\n");
        assert_eq!(table(&rows, true), "a     b\n\u{1b}[31mlong\u{1b}[0m  c\n");
    }
}
