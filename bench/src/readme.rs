//! `bench/README.md`: each measurement writes its outcome between two marks of its own.

use std::fs;

use anyhow::{Context, Result};
use e2e::paths;

const END: &str = "<!-- to here -->\n";

/// Replaces what stands between the marks of make target `target`.
///
/// # Errors
/// When the file cannot be read or written, or the marks are gone.
pub fn write(target: &str, outcome: &str) -> Result<()> {
    let begin = format!("<!-- make {target} writes from here -->\n");
    let path = paths::repository().join("bench/README.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (before, rest) = text.split_once(&begin).with_context(|| format!("bench/README.md has no {begin:?}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("bench/README.md has no {END:?}"))?;
    fs::write(&path, format!("{before}{begin}\n{outcome}\n{END}{after}")).context("writing bench/README.md")
}
