//! A folder of one test: sockets, configurations and logs. The logs of a failed test are kept.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::paths;

/// The folder. A test's is removed when dropped; it lies in the system's temporary folder, because the path of a Unix
/// socket may not be longer than about a hundred bytes.
#[derive(Debug)]
pub struct Scratch {
    name: String,
    dir: PathBuf,
    /// Removes the folder.
    temporary: Option<TempDir>,
}

impl Scratch {
    /// A new folder. Logs of a failed test are kept under its name, which is the name of the test's thread.
    pub fn new() -> Self {
        let name = std::thread::current().name().unwrap_or("unnamed").replace("::", "-");
        let temporary = tempfile::Builder::new().prefix("kvr-").tempdir().expect("temporary folder");
        Self { name, dir: temporary.path().to_owned(), temporary: Some(temporary) }
    }

    /// A folder that stays, emptied first.
    pub fn at(dir: PathBuf) -> Self {
        if dir.exists() {
            fs::remove_dir_all(&dir).unwrap_or_else(|error| panic!("cannot empty {}: {error}", dir.display()));
        }
        fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("cannot make {}: {error}", dir.display()));
        Self { name: "run".into(), dir, temporary: None }
    }

    /// Path of a file in the folder.
    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// The folder itself.
    pub fn dir(&self) -> &Path {
        &self.dir
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
        for entry in fs::read_dir(&self.dir)? {
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
        if std::thread::panicking() && self.temporary.is_some() {
            match self.keep_logs() {
                Ok(kept) => println!("logs and configurations: {}", kept.display()),
                Err(error) => println!("logs of {} are lost: {error}", self.name),
            }
        }
    }
}
