//! Reading what commands are given.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::CliError;

/// Largest body read; Envoy configurations of this project accept less.
const MAX_BYTES: u64 = 256 << 20;

fn open(path: &Path) -> Result<Box<dyn Read>, CliError> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path).map_err(|source| CliError::Read { path: path.to_owned(), source })?;
    Ok(Box::new(file))
}

/// A whole file, or standard input for `-`.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CliError::Input(format!("{}: larger than {MAX_BYTES} bytes", path.display())));
    }
    Ok(bytes)
}

/// Calls `each` with every line that is not blank and its number, from 1.
pub(super) fn lines(path: &Path, mut each: impl FnMut(u64, &str) -> Result<(), CliError>) -> Result<(), CliError> {
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    for (number, line) in (1..).zip(BufReader::new(open(path)?).lines()) {
        let line = line.map_err(failed)?;
        if !line.trim().is_empty() {
            each(number, &line)?;
        }
    }
    Ok(())
}
