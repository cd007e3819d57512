//! Changes of what is in force.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::show::{envoys, warnings};
use crate::cli::CliError;
use crate::cli::admin::{AdminArgs, Call};
use crate::cli::out::{self, list, word};
use crate::policy::{Problem, Refused};

#[derive(Debug, Args)]
pub(super) struct ChangeArgs {
    #[command(flatten)]
    pub(super) admin: AdminArgs,
    /// Name in the history.
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// Seconds to wait while an Envoy thread is known to run another one; that, and an Envoy that cannot be reached, is exit code 1.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=30))]
    wait: Option<u64>,
}

impl ChangeArgs {
    pub(super) fn headers(&self) -> Vec<(String, String)> {
        self.author.iter().map(|author| ("x-policy-author".to_owned(), author.clone())).collect()
    }

    /// Changes what is in force and prints what came of it.
    pub(super) fn make(
        &self,
        method: Method,
        path: &str,
        query: &[String],
        body: Vec<u8>,
        file: Option<&Path>,
    ) -> Result<(), CliError> {
        let wait = Duration::from_secs(self.wait.unwrap_or(0));
        let mut query = query.to_vec();
        query.push(format!("wait_ms={}", wait.as_millis()));
        let path = format!("{path}?{}", query.join("&"));
        let call = Call { method, path: &path, headers: self.headers(), body, wait };
        let answer = accepted(self.admin.call(call)?, file)?;
        let in_force = answer.get("in_force").unwrap_or(&Value::Null);
        let text = format!("version {} is in force, hash {}\n", word(in_force, "version"), word(in_force, "hash"));
        let envoys = out::table(&envoys(&answer), out::colour());
        out::print(&format!("{text}{}{envoys}", warnings(in_force)))?;
        match self.wait {
            Some(_) => effective(&answer),
            None => Ok(()),
        }
    }
}

/// Whether nothing else is known to be run. Threads that have not routed yet are no failure: they begin with this document.
fn effective(answer: &Value) -> Result<(), CliError> {
    let (pending, unreachable) = (named(answer, "pending"), named(answer, "unreachable"));
    if pending.is_empty() && unreachable.is_empty() {
        return Ok(());
    }
    Err(CliError::NotEverywhere { pending, unreachable })
}

/// Names of the Envoys in such a state.
fn named(answer: &Value, state: &str) -> Vec<String> {
    let envoys = list(answer, "envoys").filter(|envoy| word(envoy, "policy") == state);
    envoys.map(|envoy| word(envoy, "name")).collect()
}

/// The answer, unless the document was refused.
pub(super) fn accepted((status, answer): (StatusCode, Value), file: Option<&Path>) -> Result<Value, CliError> {
    if status.is_success() {
        return Ok(answer);
    }
    let problems: Vec<Problem> = match answer.get("problems") {
        Some(problems) => serde_json::from_value(problems.clone())?,
        None => Vec::new(),
    };
    match file {
        Some(file) if !problems.is_empty() => Err(refused(file, Refused(problems))),
        _ => Err(CliError::Input(format!("the bridge answered {status}: {}", word(&answer, "error")))),
    }
}

pub(super) fn refused(file: &Path, refused: Refused) -> CliError {
    CliError::Policy { path: file.to_owned(), refused }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_names_every_field() {
        let problem = json!({"severity": "error", "pointer": "/policies/p/mode", "message": "unknown variant"});
        let answer = (StatusCode::UNPROCESSABLE_ENTITY, json!({"error": "refused", "problems": [problem]}));
        let error = accepted(answer, Some(Path::new("new.json"))).unwrap_err();
        assert_eq!(error.to_string(), "new.json is refused: error at `/policies/p/mode`: unknown variant");
        assert_eq!(error.exit_code(), 3);
        let gone = accepted((StatusCode::NOT_FOUND, json!({"error": "nothing to go back to"})), None).unwrap_err();
        assert!(gone.to_string().contains("nothing to go back to") && gone.exit_code() == 1);
    }

    #[test]
    fn envoys_that_run_something_else_or_cannot_be_asked_are_named() {
        let answer = |states: &[&str]| {
            let envoys =
                (0..).zip(states).map(|(number, state)| json!({"name": format!("e{number}"), "policy": state}));
            json!({"envoys": envoys.collect::<Vec<_>>()})
        };
        assert!(effective(&answer(&["running", "unknown"])).is_ok());
        let error = effective(&answer(&["running", "pending", "unreachable", "pending"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("e1, e3 still run another") && text.contains("e2 cannot be reached"), "{text}");
        assert_eq!(error.exit_code(), 1);
        assert!(!effective(&answer(&["unreachable"])).unwrap_err().to_string().contains("another"));
    }
}
