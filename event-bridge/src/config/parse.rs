//! YAML (hence JSON) text to a raw struct; a refused field is named by its path.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::ConfigError;

/// Most bytes of a configuration or workers file.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

/// Reads a whole file of bounded size.
///
/// # Errors
/// [`ConfigError::Read`] and [`ConfigError::TooLarge`].
pub fn read(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(ConfigError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
    }
    Ok(text)
}

pub(super) fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, ConfigError> {
    let mut field = String::new();
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    // The root of a document is shown as "." by the path tracker.
    parsed.map_err(|error| ConfigError::Parse {
        path: path.to_owned(),
        field: if field == "." { String::new() } else { field },
        message: error.to_string(),
    })
}
