//! The task that tells a pool who its workers are.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::file::WatchedFile;
use crate::config::{ConfigError, PoolLimits, WorkerDefaults, WorkerSource, WorkerSpec, parse_workers};

/// Time between two looks at a watched file.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// News about a pool's workers: the whole new set, or why there is none. After an error the old set stays in force.
pub type WorkersUpdate = Result<Vec<WorkerSpec>, ConfigError>;

/// Sends the workers of `source` and every later change of them. Ends when nobody listens any more.
pub async fn watch(
    source: WorkerSource,
    defaults: WorkerDefaults,
    limits: PoolLimits,
    tx: mpsc::Sender<WorkersUpdate>,
) {
    match source {
        // Nothing ever changes, and nobody is left to send when the receiver goes.
        WorkerSource::Static(workers) => drop(tx.send(Ok(workers)).await),
        WorkerSource::File(path) => watch_file(path, defaults, limits, tx).await,
    }
}

async fn watch_file(path: PathBuf, defaults: WorkerDefaults, limits: PoolLimits, tx: mpsc::Sender<WorkersUpdate>) {
    let (texts, mut news) = mpsc::channel(1);
    let watching = watch_text(path.clone(), texts);
    let parsing = async {
        while let Some(text) = news.recv().await {
            let update = text.and_then(|text| parse_workers(&text, &path, &defaults, limits));
            if tx.send(update).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = watching => {}
        () = parsing => {}
        () = tx.closed() => {}
    }
}

/// Sends the text of a file, or why it cannot be read, and every later change. Ends when nobody listens any more.
pub async fn watch_text(path: PathBuf, tx: mpsc::Sender<Result<String, ConfigError>>) {
    let mut file = WatchedFile::default();
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = tx.closed() => return,
        }
        // A few system calls on a local file; a mount that hangs stalls this task only.
        let look_at = path.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let news = file.look(&look_at);
            (file, news)
        });
        let Ok((back, news)) = looked.await else { return };
        file = back;
        if let Some(news) = news
            && tx.send(news).await.is_err()
        {
            return;
        }
    }
}
