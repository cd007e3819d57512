//! `mock-engine`: starts one simulated engine and says on stdout where it serves.

mod cli;

use anyhow::Context;
use clap::Parser;
use mock_engine::MockEngine;
use serde_json::json;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let mut engine = MockEngine::start(cli::Arguments::parse().into_config()?).await.context("starting the engine")?;
    announce(&engine)?;
    tokio::select! {
        signal = wait_for_signal() => signal.context("waiting for a signal")?,
        () = engine.crashed() => std::process::exit(134),
    }
    engine.stop();
    Ok(())
}

/// One line of JSON, so that scripts need not guess ports or poll.
fn announce(engine: &MockEngine) -> anyhow::Result<()> {
    use std::io::Write as _;
    let all = |endpoint: fn(&MockEngine, usize) -> Option<&str>| -> Vec<Option<&str>> {
        (0..engine.ranks()).map(|rank| endpoint(engine, rank)).collect()
    };
    let line = json!({
        "ready": true,
        "http": format!("http://{}", engine.http_addr()),
        "side": engine.side_addr().map(|address| format!("http://{address}")),
        "events": engine.events_endpoint(),
        "replay": engine.replay_endpoint(),
        "events_by_rank": all(MockEngine::events_endpoint_of),
        "replay_by_rank": all(MockEngine::replay_endpoint_of),
    });
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("writing the ready line to stdout")
}

async fn wait_for_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted,
    }
}
