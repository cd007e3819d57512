//! A child process with its output in a file. It ends with its owner, by its own process id.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A running child.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; standard output and error are appended to `<dir>/<name>.log`.
    pub fn start(name: &str, dir: &Path, command: &mut Command) -> Self {
        let log = dir.join(format!("{name}.log"));
        let out = append_to(&log);
        let err = out.try_clone().expect("second handle");
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).kill_on_drop(true).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {name} ({command:?}): {error}"));
        Self { name: name.to_owned(), child, log }
    }

    /// Everything it has printed so far, in this life and in earlier ones with the same log.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).expect("log")).into_owned()
    }

    /// Where that is written.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("wait").is_none()
    }

    /// Fails the test when the process has ended by itself.
    pub fn expect_running(&mut self) {
        assert!(self.is_running(), "{} ended by itself:\n{}", self.name, tail(&self.output()));
    }

    /// Asks it to end (SIGTERM), unless it has ended already, and waits.
    pub async fn stop(&mut self) {
        if !self.is_running() {
            return;
        }
        self.signal("-TERM").await;
        let ended = tokio::time::timeout(STOP_LIMIT, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("{} did not end within {STOP_LIMIT:?} of SIGTERM", self.name)).expect("wait");
    }

    /// Ends it at once (SIGKILL) and waits.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("kill");
    }

    async fn signal(&self, signal: &str) {
        let id = self.child.id().unwrap_or_else(|| panic!("{} has already ended", self.name));
        let status = Command::new("kill").arg(signal).arg(id.to_string()).status().await.expect("kill");
        assert!(status.success(), "kill {signal} {id} ({}): {status}", self.name);
    }
}

fn append_to(path: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).expect("log file")
}

fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(4000);
    text.get(text.ceil_char_boundary(start)..).unwrap_or(text)
}
