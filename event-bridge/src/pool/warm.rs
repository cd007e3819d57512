//! Files that carry a pool's state over a restart of the bridge: one per target, written one after another so that no save
//! takes long, and given to the targets of the next bridge before they connect.

use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kv_routing::target::Slot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{info, warn};
use xxhash_rust::xxh3::xxh3_64;

use crate::config::{EventStream, WarmStart, WorkerAddress};
use crate::ingest::{Ingest, Saved};

/// Extension of the files.
const EXTENSION: &str = "kvwarm";
/// Largest file written or read.
const MAX_BYTES: u64 = 1 << 30;
/// Files of targets that have not been seen for this long are removed.
const KEEP: Duration = Duration::from_secs(24 * 3600);

/// See the module.
#[derive(Debug)]
pub(super) struct WarmFiles {
    config: Option<WarmStart>,
    pool: String,
    /// Targets still to be saved in this round.
    due: VecDeque<(Slot, String)>,
    next_round: Option<Instant>,
    writing: Option<JoinHandle<()>>,
}

/// Name of a target's state: whatever makes it another target makes it another name.
pub(super) fn name(pool: &str, worker: WorkerAddress, rank: Option<u32>, stream: &EventStream) -> String {
    let rank = rank.map(|rank| rank.to_string()).unwrap_or_default();
    format!("{pool} {worker} {rank} {}", stream.endpoint)
}

impl WarmFiles {
    pub(super) fn new(config: Option<WarmStart>, pool: String) -> Self {
        if let Some(config) = &config {
            tidy(&config.dir);
        }
        Self { config, pool, due: VecDeque::new(), next_round: None, writing: None }
    }

    /// Gives a target what a former bridge saved of it.
    pub(super) fn restore(&self, ingest: &mut Ingest, slot: Slot, name: &str) {
        let Some(config) = &self.config else { return };
        let path = path(&config.dir, name);
        let saved = match read(&path) {
            Ok(None) => return,
            Ok(Some(bytes)) => Saved::decode(&bytes).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let (pool, file) = (&self.pool, path.display());
        match saved {
            Ok(saved) if saved.name == name && ingest.restore(slot, &saved) => {
                info!(pool, target = name, "state of a former bridge taken over, to be verified");
            }
            Ok(_) => warn!(pool, %file, "the state in this file does not fit its target, which is followed anew"),
            Err(error) => warn!(pool, %file, error, "no warm start from this file, its target is followed anew"),
        }
    }

    /// Saves the next target that is due. Rounds begin at the configured interval.
    pub(super) fn tick(&mut self, ingest: &mut Ingest, targets: impl Iterator<Item = (Slot, String)>, now: Instant) {
        let Some(config) = &self.config else { return };
        if self.writing.as_ref().is_some_and(|writing| !writing.is_finished()) {
            return;
        }
        if self.due.is_empty() && self.next_round.is_none_or(|at| at <= now) {
            // A new bridge has nothing to save that is not in the files already.
            if self.next_round.replace(now + config.interval).is_some() {
                self.due.extend(targets);
            }
        }
        if let Some((slot, name)) = self.due.pop_front()
            && let Some(saved) = ingest.save(slot, name)
        {
            let dir = config.dir.clone();
            self.writing = Some(tokio::task::spawn_blocking(move || write(&dir, &saved)));
        }
    }

    /// Saves every target; the handle is that of the last write.
    pub(super) fn save_all(
        &mut self,
        ingest: &mut Ingest,
        targets: impl Iterator<Item = (Slot, String)>,
    ) -> Option<JoinHandle<()>> {
        let dir = self.config.as_ref()?.dir.clone();
        let saved: Vec<Saved> = targets.filter_map(|(slot, name)| ingest.save(slot, name)).collect();
        let before = self.writing.take();
        Some(tokio::task::spawn(async move {
            if let Some(before) = before {
                drop(before.await);
            }
            drop(tokio::task::spawn_blocking(move || saved.iter().for_each(|saved| write(&dir, saved))).await);
        }))
    }
}

fn path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{:016x}.{EXTENSION}", xxh3_64(name.as_bytes())))
}

/// Contents of a file; `None` when there is none.
fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(std::io::Error::other(format!("larger than {MAX_BYTES} bytes")));
    }
    Ok(Some(bytes))
}

/// Writes a file whole, or leaves the former one.
fn write(dir: &Path, saved: &Saved) {
    let bytes = saved.encode();
    let path = path(dir, &saved.name);
    let beside = path.with_extension(format!("{EXTENSION}.new"));
    let write = || {
        fs::create_dir_all(dir)?;
        fs::write(&beside, &bytes)?;
        fs::rename(&beside, &path)
    };
    if bytes.len() as u64 > MAX_BYTES {
        warn!(target = saved.name, bytes = bytes.len(), "too much to be kept for a warm start");
    } else if let Err(error) = write() {
        warn!(file = %path.display(), %error, "state for a warm start not written: check warm_start.dir");
    }
}

/// Removes files of targets that have been gone for long, and what was never finished.
fn tidy(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let ours = path.extension().is_some_and(|extension| extension == EXTENSION);
        let unfinished = path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(".kvwarm.new"));
        let age = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let is_old = age.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > KEEP));
        if (ours || unfinished)
            && is_old
            && let Err(error) = fs::remove_file(&path)
        {
            warn!(file = %path.display(), %error, "file of a former target not removed");
        }
    }
}
