//! A folder of one test: sockets, configurations and logs. The logs of a failed test are kept.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::paths;

/// The folder; removed when dropped. It lies in the system's temporary folder, because the path of a Unix socket may
/// not be longer than about a hundred bytes.
#[derive(Debug)]
pub struct Scratch {
    name: String,
    dir: TempDir,
}

impl Scratch {
    /// A new folder. Logs of a failed test are kept under its name, which is the name of the test's thread.
    pub fn new() -> Self {
        let name = std::thread::current().name().unwrap_or("unnamed").replace("::", "-");
        let dir = tempfile::Builder::new().prefix("kvr-").tempdir().expect("temporary folder");
        Self { name, dir }
    }

    /// Path of a file in the folder.
    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// The folder itself.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file as a deployment tool would: all at once, by rename.
    pub fn replace(&self, file: &str, contents: &str) {
        let fresh = self.path(&format!("{file}.new"));
        fs::write(&fresh, contents).expect("write");
        fs::rename(&fresh, self.path(file)).expect("rename");
    }

    fn keep_logs(&self) -> std::io::Result<PathBuf> {
        let kept = paths::failure_logs().join(&self.name);
        fs::create_dir_all(&kept)?;
        for entry in fs::read_dir(self.dir.path())? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), kept.join(entry.file_name()))?;
            }
        }
        Ok(kept)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            match self.keep_logs() {
                Ok(kept) => println!("logs and configurations: {}", kept.display()),
                Err(error) => println!("logs of {} are lost: {error}", self.name),
            }
        }
    }
}
