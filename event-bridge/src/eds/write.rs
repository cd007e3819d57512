//! The file itself.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::render::{Endpoint, render};

/// The file cannot be written.
#[derive(Debug, Error)]
#[error("cannot write {}: {source}: endpoints of the cluster stay as they were", path.display())]
pub struct EdsError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// The endpoint file of one cluster.
#[derive(Clone, Debug)]
pub struct EdsFile {
    path: PathBuf,
    cluster: String,
}

impl EdsFile {
    /// The file at `path` for `cluster`; nothing is written yet.
    pub fn new(path: PathBuf, cluster: String) -> Self {
        Self { path, cluster }
    }

    /// Makes the file hold exactly `endpoints`. Returns whether it had to be written.
    ///
    /// # Errors
    /// [`EdsError`]; the file then holds what it held.
    pub fn write(&self, endpoints: &[Endpoint]) -> Result<bool, EdsError> {
        let text = render(&self.cluster, endpoints);
        self.replace(&text).map_err(|source| EdsError { path: self.path.clone(), source })
    }

    fn replace(&self, text: &str) -> io::Result<bool> {
        match fs::read(&self.path) {
            Ok(old) if old == text.as_bytes() => return Ok(false),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let name = self.path.file_name().ok_or(ErrorKind::InvalidInput)?;
        let dir = self.path.parent().unwrap_or(Path::new(""));
        let beside = dir.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
        let written = write_and_rename(&beside, &self.path, text);
        if written.is_err() {
            // Best effort: the error that matters is the first one.
            drop(fs::remove_file(&beside));
        }
        written.map(|()| true)
    }
}

fn write_and_rename(beside: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::create(beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::config::WorkerAddress;
    use crate::scratch::Scratch;

    #[test]
    fn a_change_is_a_rename_and_no_change_is_nothing() {
        let scratch = Scratch::new();
        let file = EdsFile::new(scratch.path("eds.json"), "w".to_owned());
        let one = [Endpoint { address: WorkerAddress::parse("10.0.0.1:80").unwrap(), draining: false }];
        assert!(file.write(&one).unwrap());
        let inode = || fs::metadata(scratch.path("eds.json")).unwrap().ino();
        let first = inode();
        // Another instance, as after a restart, finds nothing to do either.
        assert!(!EdsFile::new(scratch.path("eds.json"), "w".to_owned()).write(&one).unwrap());
        assert_eq!(inode(), first);
        assert!(file.write(&[]).unwrap());
        assert_ne!(inode(), first);
        assert_eq!(fs::read_dir(scratch.dir()).unwrap().count(), 1, "no file is left beside it");
    }

    #[test]
    fn a_folder_that_is_missing_is_named() {
        let scratch = Scratch::new();
        let file = EdsFile::new(scratch.path("no/eds.json"), "w".to_owned());
        let error = file.write(&[]).unwrap_err().to_string();
        assert!(error.contains("no/eds.json"), "{error}");
    }
}
