//! Decides when the content of a watched file counts.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use crate::config::{ConfigError, read};

/// Which file a path leads to, and its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Signature {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Signature {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }

    fn same_file(self, other: Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Text(Signature, String),
    /// The error's text.
    Unreadable(String),
}

impl Seen {
    fn says_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(_, one), Self::Text(_, other)) | (Self::Unreadable(one), Self::Unreadable(other)) => {
                one == other
            }
            _ => false,
        }
    }
}

/// A file as it was seen so far.
#[derive(Debug, Default)]
pub(super) struct WatchedFile {
    /// What was last found, to be acted upon once it is stable.
    seen: Option<Seen>,
    /// What was acted upon.
    handled: Option<Seen>,
}

impl WatchedFile {
    /// Looks at the file. Returns its text, or why there is none, when that is news.
    ///
    /// A file that replaced another one by rename is complete and counts at once. A file changed in place may be half
    /// written, and one that is missing may be about to be renamed into place: both count when the next look finds
    /// the same.
    pub(super) fn look(&mut self, path: &Path) -> Option<Result<String, ConfigError>> {
        let signature = std::fs::metadata(path).map(|metadata| Signature::of(&metadata));
        if let (Ok(now), Some(Seen::Text(before, _))) = (&signature, &self.handled)
            && now == before
        {
            self.seen = None;
            return None;
        }
        let result = signature.map_err(|source| ConfigError::Read { path: path.to_owned(), source });
        let result = result.and_then(|signature| read(path).map(|text| (signature, text)));
        let found = match &result {
            Ok((signature, text)) => Seen::Text(*signature, text.clone()),
            Err(error) => Seen::Unreadable(error.to_string()),
        };
        if self.handled.as_ref().is_some_and(|handled| handled.says_the_same(&found)) {
            (self.seen, self.handled) = (None, Some(found));
            return None;
        }
        let replaced = match (&found, &self.handled) {
            (Seen::Text(now, _), Some(Seen::Text(before, _))) => !now.same_file(*before),
            (Seen::Text(..), _) | (Seen::Unreadable(_), None) => true,
            (Seen::Unreadable(_), Some(_)) => false,
        };
        if !replaced && self.seen.as_ref() != Some(&found) {
            self.seen = Some(found);
            return None;
        }
        self.seen = None;
        self.handled = Some(found);
        Some(result.map(|(_, text)| text))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::scratch::Scratch;

    fn text(look: Option<Result<String, ConfigError>>) -> Option<String> {
        look.map(|result| result.unwrap_or_else(|error| format!("error: {error}")))
    }

    #[test]
    fn a_rename_counts_at_once_and_an_edit_when_it_is_stable() {
        let scratch = Scratch::new();
        let path = scratch.path("workers");
        let mut file = WatchedFile::default();
        fs::write(&path, "a").unwrap();
        assert_eq!(text(file.look(&path)).as_deref(), Some("a"));
        assert_eq!(text(file.look(&path)), None);

        fs::write(scratch.path("new"), "bb").unwrap();
        fs::rename(scratch.path("new"), &path).unwrap();
        assert_eq!(text(file.look(&path)).as_deref(), Some("bb"));

        fs::write(&path, "").unwrap();
        assert_eq!(text(file.look(&path)), None);
        fs::write(&path, "ccc").unwrap();
        assert_eq!(text(file.look(&path)), None);
        assert_eq!(text(file.look(&path)).as_deref(), Some("ccc"));
        assert_eq!(text(file.look(&path)), None);
    }

    #[test]
    fn a_config_map_swap_is_seen() {
        let scratch = Scratch::new();
        for (folder, content) in [("v1", "one"), ("v2", "two")] {
            fs::create_dir(scratch.path(folder)).unwrap();
            fs::write(scratch.path(folder).join("workers"), content).unwrap();
        }
        symlink("v1", scratch.path("data")).unwrap();
        let path = scratch.path("workers");
        symlink("data/workers", &path).unwrap();
        let mut file = WatchedFile::default();
        assert_eq!(text(file.look(&path)).as_deref(), Some("one"));
        symlink("v2", scratch.path("data.new")).unwrap();
        fs::rename(scratch.path("data.new"), scratch.path("data")).unwrap();
        assert_eq!(text(file.look(&path)).as_deref(), Some("two"));
    }

    #[test]
    fn a_missing_file_is_reported_once_and_only_when_it_stays_missing() {
        let scratch = Scratch::new();
        let path = scratch.path("workers");
        let mut file = WatchedFile::default();
        assert!(text(file.look(&path)).unwrap().starts_with("error: "));
        assert_eq!(text(file.look(&path)), None);
        fs::write(&path, "a").unwrap();
        assert_eq!(text(file.look(&path)).as_deref(), Some("a"));
        fs::remove_file(&path).unwrap();
        assert_eq!(text(file.look(&path)), None);
        fs::write(&path, "a").unwrap();
        assert_eq!(text(file.look(&path)), None, "it is back, and says what it said");
        fs::remove_file(&path).unwrap();
        assert_eq!(text(file.look(&path)), None);
        assert!(text(file.look(&path)).unwrap().starts_with("error: "));
        assert_eq!(text(file.look(&path)), None);
    }
}
