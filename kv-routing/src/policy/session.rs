//! Where sessions were served last, shared by all VMs of an Envoy.
//!
//! Shared data can never delete a key, so sessions live in a fixed number of buckets, each a small flat value that is
//! rewritten whole. A bucket holds at most [`BUCKET_SESSIONS`]; the one unused longest makes room. Two VMs that write
//! a bucket at once may lose one entry, which costs that session a fresh choice: its writer uses compare-and-swap to make that rare.
//!
//! ```text
//! version u8 | entries: session u64 | target u64 | last use, Unix seconds u32 ...
//! ```

use xxhash_rust::xxh3::xxh3_64;

use crate::target::TargetId;

/// Number of buckets.
pub const BUCKETS: u32 = 1024;
/// Most sessions in a bucket.
pub const BUCKET_SESSIONS: usize = 64;

const VERSION: u8 = 1;
const ENTRY_BYTES: usize = 20;

/// Name of a session: hash of pool, policy and the client's key, so that equal keys of different pools stay apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(u64);

impl SessionId {
    /// The id of `key` (a header's value or the body's `user`) in one pool under one policy.
    pub fn of(pool: &str, policy: &str, key: &[u8]) -> Self {
        let mut text = Vec::with_capacity(pool.len() + policy.len() + key.len() + 2);
        for part in [pool.as_bytes(), policy.as_bytes()] {
            text.extend_from_slice(part);
            text.push(0xff);
        }
        text.extend_from_slice(key);
        Self(xxh3_64(&text))
    }

    /// Its bucket, below [`BUCKETS`].
    pub fn bucket(self) -> u32 {
        (self.0 % u64::from(BUCKETS)) as u32
    }
}

struct Entry {
    session: u64,
    target: u64,
    used: u32,
}

fn entries(bucket: &[u8]) -> impl Iterator<Item = Entry> {
    let body = match bucket.split_first() {
        Some((&VERSION, body)) => body,
        _ => &[],
    };
    let (chunks, _) = body.as_chunks::<ENTRY_BYTES>();
    chunks.iter().filter_map(|chunk| {
        let (session, rest) = chunk.split_first_chunk::<8>()?;
        let (target, used) = rest.split_first_chunk::<8>()?;
        Some(Entry {
            session: u64::from_le_bytes(*session),
            target: u64::from_le_bytes(*target),
            used: u32::from_le_bytes(*used.first_chunk::<4>()?),
        })
    })
}

/// The target that served `session` in the last `ttl_seconds`. Bytes that are no bucket hold nothing.
pub fn find(bucket: &[u8], session: SessionId, now_seconds: u32, ttl_seconds: u32) -> Option<TargetId> {
    entries(bucket)
        .find(|entry| entry.session == session.0 && now_seconds.saturating_sub(entry.used) <= ttl_seconds)
        .map(|entry| TargetId(entry.target))
}

/// The bucket with `session` at `target`, used now. `None` when the bucket says so already, to the accuracy of a tenth of
/// the time to live, so that a busy session does not rewrite it for every request.
pub fn remember(
    bucket: &[u8],
    session: SessionId,
    target: TargetId,
    now_seconds: u32,
    ttl_seconds: u32,
) -> Option<Vec<u8>> {
    let mut kept: Vec<Entry> = entries(bucket).collect();
    let fresh = |entry: &Entry| now_seconds.saturating_sub(entry.used) <= ttl_seconds / 10;
    if kept.iter().any(|entry| entry.session == session.0 && entry.target == target.0 && fresh(entry)) {
        return None;
    }
    kept.retain(|entry| entry.session != session.0);
    while kept.len() >= BUCKET_SESSIONS
        && let Some((oldest, _)) = kept.iter().enumerate().min_by_key(|(_, entry)| entry.used)
    {
        kept.swap_remove(oldest);
    }
    kept.push(Entry { session: session.0, target: target.0, used: now_seconds });
    let mut bytes = Vec::with_capacity(1 + kept.len() * ENTRY_BYTES);
    bytes.push(VERSION);
    for Entry { session, target, used } in kept {
        bytes.extend_from_slice(&session.to_le_bytes());
        bytes.extend_from_slice(&target.to_le_bytes());
        bytes.extend_from_slice(&used.to_le_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(key: u32) -> SessionId {
        SessionId::of("pool", "policy", &key.to_le_bytes())
    }

    #[test]
    fn remembered_until_the_time_to_live_is_over() {
        let bucket = remember(&[], id(1), TargetId(7), 1000, 60).unwrap();
        assert_eq!(find(&bucket, id(1), 1060, 60), Some(TargetId(7)));
        assert_eq!(find(&bucket, id(1), 1061, 60), None);
        assert_eq!(find(&bucket, id(2), 1000, 60), None);
        assert_eq!(remember(&bucket, id(1), TargetId(7), 1006, 60), None);
        let renewed = remember(&bucket, id(1), TargetId(7), 1007, 60).unwrap();
        assert_eq!(find(&renewed, id(1), 1065, 60), Some(TargetId(7)));
        let moved = remember(&renewed, id(1), TargetId(8), 1008, 60).unwrap();
        assert_eq!((find(&moved, id(1), 1008, 60), moved.len()), (Some(TargetId(8)), 21));
    }

    #[test]
    fn a_full_bucket_forgets_the_session_unused_longest() {
        let mut bucket = Vec::new();
        for key in 0..=64 {
            bucket = remember(&bucket, id(key), TargetId(u64::from(key)), 1000 + key, 600).unwrap();
        }
        assert_eq!(find(&bucket, id(0), 1064, 600), None);
        assert!((1..=64).all(|key| find(&bucket, id(key), 1064, 600) == Some(TargetId(u64::from(key)))));
    }

    #[test]
    fn foreign_bytes_hold_nothing_and_parts_do_not_run_together() {
        for bytes in [&b""[..], b"\x02", b"\x01abc", &[9; 100]] {
            assert_eq!(find(bytes, id(1), 0, 60), None);
            assert!(remember(bytes, id(1), TargetId(1), 0, 60).is_some());
        }
        assert_ne!(SessionId::of("a", "bc", b""), SessionId::of("ab", "c", b""));
        assert!(id(5).bucket() < BUCKETS);
    }
}
