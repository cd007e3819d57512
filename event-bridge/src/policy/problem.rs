//! What is wrong with a policy document.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The document is refused.
    Error,
    /// The document works, but probably not as meant.
    Warning,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// How bad.
    pub severity: Severity,
    /// JSON pointer (RFC 6901) of the field; empty: the whole document.
    pub pointer: String,
    /// What is wrong and what to do about it.
    pub message: String,
}

/// A document that is not put in force, with everything that is wrong with it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct Refused(pub Vec<Problem>);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity} at `{}`: {}", self.pointer, self.message)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

/// Collects problems while a document is compiled.
#[derive(Debug, Default)]
pub(super) struct Problems(pub(super) Vec<Problem>);

impl Problems {
    pub(super) fn error(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Error, pointer.into(), message.into());
    }

    pub(super) fn warning(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Warning, pointer.into(), message.into());
    }

    fn add(&mut self, severity: Severity, pointer: String, message: String) {
        self.0.push(Problem { severity, pointer, message });
    }
}

/// One more step of a JSON pointer.
pub(super) fn child(pointer: &str, step: impl fmt::Display) -> String {
    let step = step.to_string().replace('~', "~0").replace('/', "~1");
    format!("{pointer}/{step}")
}
