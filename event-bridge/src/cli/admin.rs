//! Asking a running bridge.

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::CliError;
use crate::config::WorkerAddress;
use crate::probe::WorkerClient;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Which bridge.
#[derive(Debug, Args)]
pub(super) struct AdminArgs {
    /// Admin address of the bridge.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9902")]
    admin: String,
}

/// A request to the admin API.
pub(super) struct Call<'a> {
    pub(super) method: Method,
    /// With its query.
    pub(super) path: &'a str,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Added to the time an answer may take.
    pub(super) wait: Duration,
}

impl<'a> Call<'a> {
    /// A GET.
    pub(super) fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, headers: Vec::new(), body: Vec::new(), wait: Duration::ZERO }
    }
}

impl AdminArgs {
    /// The answer to a GET that has to succeed.
    pub(super) fn get(&self, path: &str) -> Result<Value, CliError> {
        self.expect(Call::get(path))
    }

    /// The answer to a call that has to succeed.
    pub(super) fn expect(&self, call: Call<'_>) -> Result<Value, CliError> {
        let (status, answer) = self.call(call)?;
        if status.is_success() {
            return Ok(answer);
        }
        let told = answer.get("error").and_then(Value::as_str).map_or_else(|| answer.to_string(), str::to_owned);
        Err(CliError::Input(format!("the bridge answered {status}: {told}")))
    }

    /// The answer to a call, whatever its status.
    pub(super) fn call(&self, call: Call<'_>) -> Result<(StatusCode, Value), CliError> {
        let admin = WorkerAddress::parse(&self.admin).map_err(|error| CliError::Usage(format!("--admin: {error}")))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| CliError::System { what: "cannot start the runtime", source })?;
        let Call { method, path, headers, body, wait } = call;
        let client = WorkerClient::new(&admin, TIMEOUT + wait);
        let (status, body) = runtime.block_on(client.send(method, path, &headers, Bytes::from(body)))?;
        Ok((status, serde_json::from_slice(&body)?))
    }
}
