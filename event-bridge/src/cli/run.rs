//! `event-bridge run`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use tracing_subscriber::EnvFilter;

use super::CliError;
use crate::bridge::Bridge;
use crate::config::{Config, LogConfig, LogFormat};

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge run --config /etc/kv-router/bridge.yaml
  event-bridge run --config bridge.yaml --log info,event_bridge::publish=debug

The configuration file is described in config.example.yaml.
SIGTERM and SIGINT stop the bridge in order: the last changes are pushed; Envoys keep what they hold and let it age.";

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Configuration file.
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// Log filter; overrides the configuration's.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
}

pub(super) fn run(args: RunArgs) -> Result<(), CliError> {
    let config = Config::load(&args.config)?;
    start_logging(&config.log, args.log.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|source| CliError::System { what: "cannot start the runtime", source })?;
    runtime.block_on(run_until_signal(config))
}

async fn run_until_signal(config: Config) -> Result<(), CliError> {
    let failed = |source| CliError::System { what: "cannot wait for signals", source };
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let bridge = Bridge::start(config).await?;
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    info!(signal = name, "received");
    bridge.stop().await;
    Ok(())
}

pub(super) fn start_logging(config: &LogConfig, filter: Option<&str>) -> Result<(), CliError> {
    let filter = filter.unwrap_or(&config.filter);
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| CliError::Usage(format!("--log: `{filter}` is no log filter: {error}")))?;
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && !no_colour);
    match config.format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}
