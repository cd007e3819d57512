//! Cost, pick, load ledger.
