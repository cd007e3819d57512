//! Prometheus text exposition: one sample per line. Lenient where exporters differ, silent about lines it cannot
//! read: load is a hint, and one odd line must not hide the rest.

use std::borrow::Cow;

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample<'a> {
    /// Metric name.
    pub name: &'a str,
    /// Labels in order of appearance, unescaped.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// Value; never NaN.
    pub value: f64,
}

impl Sample<'_> {
    /// Value of a label.
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|label| label.0 == name).map(|label| label.1.as_ref())
    }
}

/// Samples of `text` whose name `wanted` accepts. Others are skipped before their labels are read.
pub(super) fn samples<'a>(text: &'a str, wanted: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = Sample<'a>> {
    text.lines().filter_map(move |line| {
        let line = line.trim();
        let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
        let (name, rest) = line.split_at_checked(end)?;
        if name.starts_with('#') || !wanted(name) {
            return None;
        }
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (Vec::new(), rest),
        };
        // A timestamp may follow the value.
        let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
        (!value.is_nan()).then_some(Sample { name, labels, value })
    })
}

type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// Reads `a="b",c="d"}`; returns the labels and what follows the brace.
fn labels(mut rest: &str) -> Option<(Labels<'_>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.split_once('=')?;
        let text = quoted.trim_start().strip_prefix('"')?;
        let end = closing_quote(text)?;
        let (value, after) = text.split_at_checked(end)?;
        labels.push((name.trim(), unescape(value)));
        rest = after.strip_prefix('"')?;
    }
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at),
            _ => {}
        }
    }
    None
}

fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            (c, false) => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Sample<'_>> {
        samples(text, |_| true).collect()
    }

    #[test]
    fn reads_labels_escapes_and_timestamps() {
        let text = "# HELP a b\na 1\nb{x=\"1\",y=\"q\\\"}\\\\\\n\"} 2.5e3 1700000000\nc{} +Inf\n";
        let read = all(text);
        assert_eq!(read.len(), 3);
        assert_eq!((read[0].name, read[0].value), ("a", 1.0));
        assert_eq!((read[1].label("x"), read[1].label("y"), read[1].value), (Some("1"), Some("q\"}\\\n"), 2500.0));
        assert_eq!(read[2].value, f64::INFINITY);
    }

    #[test]
    fn odd_lines_are_skipped_alone() {
        assert_eq!(all("a{x=\"1} 3\na{x} 3\na\na x\na{x=\"1\" 4\n\u{e9}\u{e9} 1\nok 1\nnan NaN\n").len(), 2);
    }
}
