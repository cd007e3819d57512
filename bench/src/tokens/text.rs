//! Text to tokenize: the lines of this repository's sources and documents, in an order that never repeats.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use e2e::paths;

/// Bytes per token of such text, about.
const BYTES_PER_TOKEN: usize = 4;

pub(super) struct Text {
    lines: Vec<String>,
    state: u64,
}

impl Text {
    pub(super) fn of_repository() -> Result<Self> {
        let mut lines = Vec::new();
        for folder in ["kv-routing", "filter", "event-bridge", "tests/src", "bench"] {
            collect(&paths::repository().join(folder), &mut lines)?;
        }
        ensure!(lines.len() > 10_000, "only {} lines of text", lines.len());
        Ok(Self { lines, state: 1 })
    }

    /// A text of about `tokens` tokens.
    pub(super) fn take(&mut self, tokens: usize) -> String {
        let mut text = String::new();
        while text.len() < tokens * BYTES_PER_TOKEN {
            self.state = next(self.state);
            // Some lines in their order, as a quoted file has them, then others.
            let at = (self.state >> 33) as usize % self.lines.len();
            for line in self.lines.iter().skip(at).take(7) {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

/// `bytes` random letters.
pub(super) fn letters(seed: u64, bytes: usize) -> String {
    let mut state = next(seed);
    let mut letter = || {
        state = next(state);
        char::from(b'a' + (state >> 33) as u8 % 26)
    };
    (0..bytes).map(|_| letter()).collect()
}

/// Knuth's MMIX generator: reproducible, nothing more.
fn next(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

fn collect(folder: &Path, lines: &mut Vec<String>) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, lines)?;
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
            lines.extend(fs::read_to_string(&path)?.lines().map(str::to_owned));
        }
    }
    Ok(())
}
