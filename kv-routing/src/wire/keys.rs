//! Names of the shared-data values. The set is bounded: Envoy can never delete a key.

use super::PoolId;

/// The manifest.
pub const MANIFEST: &str = "kv/manifest";
/// The compiled policy document.
pub const POLICY: &str = "kv/policy";
/// Number of claimed load rows, little-endian `u32`; the one key changed by compare-and-swap.
pub const ROWS: &str = "kv/rows";

/// Page `page` of the page set with `2^page_bits` pages.
pub fn page(pool: PoolId, page_bits: u8, page: u32) -> String {
    format!("kv/p/{}/{page_bits}/{page}", pool.0)
}

/// Target table of a pool.
pub fn targets(pool: PoolId) -> String {
    format!("kv/targets/{}", pool.0)
}

/// Part `part` of a compiled tokenizer.
pub fn tokenizer(id: u64, part: u32) -> String {
    format!("kv/tokenizer/{id:016x}/{part}")
}

/// Bookings of one VM.
pub fn load_row(row: u32) -> String {
    format!("kv/load/{row}")
}
