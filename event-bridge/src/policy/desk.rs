//! Which documents are in force, and which were.
//!
//! ```text
//!            put (file or API)          refused: nothing changes
//!   text ───────────────────▶ compile ───────────────────────────▶ problems
//!                                │ accepted: next version
//!                                ▼
//!          history (16) ◀── in force ──▶ published to every Envoy
//!               │                ▲
//!               └── rollback ────┘  an earlier text, as a new version
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use kv_routing::policy::document::{Document, Shadow};
use kv_routing::wire::UnixMillis;
use serde::Serialize;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_128;

use super::{Compiled, Problem, Refused, Surroundings, compile, doubts};

/// Documents remembered, the one in force included.
pub const HISTORY: usize = 16;

/// A document that is or was in force.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Counts the documents put in force by this bridge, from 1.
    pub version: u64,
    /// XXH3-128 of its text, in hexadecimal.
    pub hash: String,
    /// Who put it in force.
    pub who: String,
    /// When.
    pub at_unix_ms: u64,
    /// What is probably not as meant.
    pub warnings: Vec<Problem>,
    #[serde(skip)]
    text: Arc<[u8]>,
    #[serde(skip)]
    compiled: Compiled,
}

impl Entry {
    /// The document as it was written.
    pub fn text(&self) -> &[u8] {
        &self.text
    }
}

/// A rule set that is evaluated without effect.
#[derive(Clone, Debug, Serialize)]
pub struct ShadowEntry {
    /// XXH3-128 of its text, in hexadecimal.
    pub hash: String,
    /// Who loaded it.
    pub who: String,
    /// When.
    pub at_unix_ms: u64,
    /// Share of requests, in millionths.
    pub sample_per_million: u32,
    /// What is probably not as meant.
    pub warnings: Vec<Problem>,
    #[serde(skip)]
    text: Arc<[u8]>,
    #[serde(skip)]
    compiled: Compiled,
}

impl ShadowEntry {
    /// The document as it was written.
    pub fn text(&self) -> &[u8] {
        &self.text
    }
}

/// Why there is nothing to go back to.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RollbackError {
    /// No earlier document.
    #[error("there is no earlier policy document to go back to")]
    Nothing,
    /// Not among the last [`HISTORY`].
    #[error("version {0} is not among the last {HISTORY} policy documents: GET /policy/history lists them")]
    Unknown(u64),
}

/// The documents of one bridge.
#[derive(Debug, Default)]
pub struct Desk {
    /// Newest last; the last one is in force.
    history: VecDeque<Entry>,
    shadow: Option<ShadowEntry>,
    surroundings: Surroundings,
    /// Grows with every change of what is published, shadows included.
    published: u64,
}

impl Desk {
    /// A desk without a document.
    pub fn new(surroundings: Surroundings) -> Self {
        Self { surroundings, ..Self::default() }
    }

    /// The document in force.
    pub fn in_force(&self) -> Option<&Entry> {
        self.history.back()
    }

    /// The shadow.
    pub fn shadow(&self) -> Option<&ShadowEntry> {
        self.shadow.as_ref()
    }

    /// Documents that are or were in force, newest first.
    pub fn history(&self) -> impl Iterator<Item = &Entry> {
        self.history.iter().rev()
    }

    /// Checks a document as [`Desk::put`] would, without effect.
    ///
    /// # Errors
    /// [`Refused`] with everything that is wrong with it.
    pub fn check(&self, text: &[u8]) -> Result<Vec<Problem>, Refused> {
        compile(text, &self.surroundings).map(|compiled| compiled.warnings)
    }

    /// Puts a document in force. One equal to that in force changes nothing.
    ///
    /// # Errors
    /// [`Refused`] with everything that is wrong with it; the old one stays in force.
    pub fn put(&mut self, text: &[u8], who: &str, now: UnixMillis) -> Result<&Entry, Refused> {
        let compiled = compile(text, &self.surroundings)?;
        let same = self.history.back().is_some_and(|entry| *entry.text == *text);
        if !same {
            self.append(text.into(), compiled, who.to_owned(), now);
        }
        // There is an entry now; were there none, saying so beats a panic.
        self.history.back().ok_or_else(|| Refused(Vec::new()))
    }

    /// Puts an earlier document in force again: `version`, or the one before that in force.
    ///
    /// # Errors
    /// [`RollbackError`] when there is none.
    pub fn rollback(&mut self, version: Option<u64>, who: &str, now: UnixMillis) -> Result<&Entry, RollbackError> {
        let found = match version {
            Some(version) => self.history.iter().find(|entry| entry.version == version),
            None => self.history.iter().rev().nth(1),
        };
        let Some(Entry { version, text, compiled, .. }) = found.cloned() else {
            return Err(version.map_or(RollbackError::Nothing, RollbackError::Unknown));
        };
        self.append(text, compiled, format!("{who}, back to version {version}"), now);
        self.history.back().ok_or(RollbackError::Nothing)
    }

    /// Loads a document as the shadow, evaluated for `sample_per_million` of a million requests.
    ///
    /// # Errors
    /// [`Refused`] with everything that is wrong with it; the old shadow stays.
    pub fn set_shadow(
        &mut self,
        text: &[u8],
        sample_per_million: u32,
        who: &str,
        now: UnixMillis,
    ) -> Result<&ShadowEntry, Refused> {
        let compiled = compile(text, &self.surroundings)?;
        let live = self.in_force().map(|entry| entry.compiled.rules.clone()).unwrap_or_default();
        let mut warnings = compiled.warnings.clone();
        warnings.extend(doubts::forgetful(&compiled.rules, &live));
        self.published += 1;
        Ok(self.shadow.insert(ShadowEntry {
            hash: hash(text),
            who: who.to_owned(),
            at_unix_ms: now.0,
            sample_per_million,
            warnings,
            text: text.into(),
            compiled,
        }))
    }

    /// Drops the shadow. `false` when there was none.
    pub fn drop_shadow(&mut self) -> bool {
        let dropped = self.shadow.take().is_some();
        self.published += u64::from(dropped);
        dropped
    }

    /// What Envoys should hold; `None` while there is neither a document nor a shadow.
    pub fn document(&self) -> Option<Document> {
        if self.published == 0 {
            return None;
        }
        let live = self.in_force().map(|entry| entry.compiled.rules.clone()).unwrap_or_default();
        let shadow = self
            .shadow
            .as_ref()
            .map(|entry| Shadow { sample_per_million: entry.sample_per_million, rules: entry.compiled.rules.clone() });
        Some(Document { version: self.published, live, shadow })
    }

    fn append(&mut self, text: Arc<[u8]>, compiled: Compiled, who: String, now: UnixMillis) {
        self.published += 1;
        let warnings = compiled.warnings.clone();
        let hash = hash(&text);
        self.history.push_back(Entry {
            version: self.published,
            hash,
            who,
            at_unix_ms: now.0,
            warnings,
            text,
            compiled,
        });
        while self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }
}

fn hash(text: &[u8]) -> String {
    format!("{:032x}", xxh3_128(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(mode: &str) -> Vec<u8> {
        format!(r#"{{"version": 1, "policies": {{"p": {{"mode": "{mode}"}}}}, "default": "p"}}"#).into_bytes()
    }

    fn mode(desk: &Desk) -> &'static str {
        desk.document().unwrap().live.policies[0].mode.as_str()
    }

    const NOW: UnixMillis = UnixMillis(1000);

    #[test]
    fn a_refused_document_leaves_the_old_one_in_force() {
        let mut desk = Desk::default();
        assert_eq!(desk.document(), None);
        assert_eq!(desk.put(&text("kv"), "file", NOW).unwrap().version, 1);
        assert!(desk.put(&text("fastest"), "api", NOW).is_err());
        assert_eq!((mode(&desk), desk.in_force().unwrap().version), ("kv", 1));
        assert_eq!(desk.put(&text("kv"), "api", NOW).unwrap().who, "file");
        assert_eq!(desk.put(&text("random"), "api", NOW).unwrap().version, 2);
        assert_eq!(mode(&desk), "random");
    }

    #[test]
    fn rollback_is_a_new_version_of_an_old_text() {
        let mut desk = Desk::default();
        assert_eq!(desk.rollback(None, "api", NOW).unwrap_err(), RollbackError::Nothing);
        desk.put(&text("kv"), "a", NOW).unwrap();
        assert_eq!(desk.rollback(None, "api", NOW).unwrap_err(), RollbackError::Nothing);
        desk.put(&text("random"), "b", NOW).unwrap();
        desk.put(&text("round_robin"), "c", NOW).unwrap();
        assert_eq!(desk.rollback(None, "d", NOW).unwrap().version, 4);
        assert_eq!(mode(&desk), "random");
        assert_eq!(desk.rollback(Some(1), "d", NOW).unwrap().version, 5);
        assert_eq!((mode(&desk), desk.in_force().unwrap().who.as_str()), ("kv", "d, back to version 1"));
        assert_eq!(desk.rollback(Some(99), "d", NOW).unwrap_err(), RollbackError::Unknown(99));
        for _ in 0..20 {
            desk.rollback(None, "d", NOW).unwrap();
        }
        assert_eq!(desk.history().count(), HISTORY);
    }

    #[test]
    fn a_shadow_comes_and_goes_beside_the_live_document() {
        let mut desk = Desk::default();
        desk.put(&text("kv"), "a", NOW).unwrap();
        desk.set_shadow(&text("round_robin"), 500_000, "b", NOW).unwrap();
        let document = desk.document().unwrap();
        assert_eq!((document.version, mode(&desk)), (2, "kv"));
        let shadow = document.shadow.unwrap();
        assert_eq!((shadow.sample_per_million, shadow.rules.policies[0].mode.as_str()), (500_000, "round_robin"));
        assert!(desk.set_shadow(b"{", 1, "b", NOW).is_err());
        let sticky = |name: &str, key: &str| {
            let policy = format!(r#"{{"mode": "session", "session": {{"header": "{key}"}}}}"#);
            format!(r#"{{"version": 1, "policies": {{"{name}": {policy}}}, "default": "{name}"}}"#).into_bytes()
        };
        desk.put(&sticky("s", "x-session"), "a", NOW).unwrap();
        let mut warned = |name: &str, key: &str| -> Vec<String> {
            let entry = desk.set_shadow(&sticky(name, key), 1, "b", NOW).unwrap();
            entry.warnings.iter().map(|problem| problem.pointer.clone()).collect()
        };
        assert_eq!(warned("s", "x-session"), Vec::<String>::new());
        assert_eq!(warned("s", "x-user"), ["/policies/s"]);
        assert_eq!(warned("t", "x-session"), ["/policies/t"]);
        assert!(desk.drop_shadow() && !desk.drop_shadow());
        assert_eq!(desk.document().unwrap().shadow, None);
    }
}
