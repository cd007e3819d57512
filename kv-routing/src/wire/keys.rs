//! Names of the shared-data values. The set is bounded: Envoy can never delete a key.

use super::PoolId;

/// The manifest.
pub const MANIFEST: &str = "kv/manifest";
/// The compiled policy document.
pub const POLICY: &str = "kv/policy";
/// Number of claimed load rows, little-endian `u32`; the one key changed by compare-and-swap.
pub const ROWS: &str = "kv/rows";

/// Shared queue of [`super::DecisionBatch`]es from all VMs to the ingest role.
pub const DECISIONS: &str = "kv/decisions";

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

/// One bucket of remembered sessions (see [`crate::policy::session`]); written by VMs.
pub fn sessions(bucket: u32) -> String {
    format!("kv/sessions/{bucket}")
}

/// Whether the bridge may write `key`. Load rows and their count belong to the VMs.
pub fn is_bridge_key(key: &str) -> bool {
    key == MANIFEST
        || key == POLICY
        || ["kv/p/", "kv/targets/", "kv/tokenizer/"].iter().any(|prefix| key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bridge_writes_its_own_keys_only() {
        for key in [MANIFEST.to_owned(), POLICY.to_owned(), page(PoolId(3), 4, 9), targets(PoolId(3)), tokenizer(7, 0)]
        {
            assert!(is_bridge_key(&key), "{key}");
        }
        for key in [ROWS.to_owned(), load_row(0), sessions(1), "kv/".to_owned(), "other".to_owned()] {
            assert!(!is_bridge_key(&key), "{key}");
        }
    }
}
