//! Load rows: what this VM tells the others of its bookings, and what they tell it.
//!
//! A row belongs to one VM, which writes it without looking. Only claiming needs a comparison: of the row's own version
//! for a row whose owner is gone, of the row count for a new one.

use kv_routing::policy::{Bookings, Ledger, Peaks, RecentPrompts};
use kv_routing::wire::{Booking, Generation, LoadRow, LoadRowEntry, RecentPrompt, UnixMillis, keys};

use crate::counters::{Counter, Counters};
use crate::host::{ABSENT, Host};

/// A row not written for this long counts for nothing and may be claimed anew.
pub const ROW_EXPIRY_MS: u64 = 10_000;

/// Other rows are read, and the own one is written, at most this often.
pub const PERIOD_MS: u64 = 2;
/// The number of rows is read at most this often.
const COUNT_PERIOD_MS: u64 = 100;
/// The own row is written at least this often, and checked to be still the own one.
const REFRESH_MS: u64 = 1_000;
/// With more rows than this, they are read proportionally less often.
const ROWS_PER_PERIOD: u32 = 8;
/// Never more rows than this are looked at.
const MAX_ROWS: u32 = 4096;
/// Prompts routed last that are told to others: as many as may come before they look again.
const SHARED_PROMPTS: usize = 8;
/// Attempts at a claim before the next request tries again.
const CLAIM_ATTEMPTS: u32 = 8;

/// The own row and the sum of all others.
#[derive(Debug, Default)]
pub struct Rows {
    owner: u64,
    row: Option<u32>,
    dirty: bool,
    written: u64,
    verified: u64,
    others: Bookings,
    recent: Vec<RecentPrompt>,
    read: u64,
    count: u32,
    counted: u64,
}

/// Manifest and policy a VM routes by, published in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutesBy {
    /// Manifest generation.
    pub generation: Generation,
    /// Policy version.
    pub policy_version: u64,
}

impl Rows {
    /// No row yet. `owner` is a random number that names this VM.
    pub fn new(owner: u64) -> Self {
        Self { owner, ..Self::default() }
    }

    /// Number of the own row.
    pub fn own(&self) -> Option<u32> {
        self.row
    }

    /// Bookings of all other VMs.
    pub fn others(&self) -> &Bookings {
        &self.others
    }

    /// Prompts that other VMs routed last.
    pub fn recent(&self) -> impl Iterator<Item = &RecentPrompt> {
        self.recent.iter()
    }

    /// Notes that the ledger changed.
    pub fn touch(&mut self) {
        self.dirty = true;
    }

    /// Claims a row if there is none, and reads the others if that was long enough ago.
    pub fn sync(&mut self, host: &impl Host, counters: &Counters, now: UnixMillis) {
        if self.row.is_none() {
            self.claim(host, counters, now);
        }
        if now.0.saturating_sub(self.counted) >= COUNT_PERIOD_MS {
            self.counted = now.0;
            self.count = count(host).0;
        }
        let period = PERIOD_MS * u64::from(self.count.div_ceil(ROWS_PER_PERIOD).max(1));
        if now.0.saturating_sub(self.read) >= period {
            self.read = now.0;
            self.others.clear();
            self.recent.clear();
            for (number, row) in live_rows(host, self.count, now) {
                if Some(number) != self.row {
                    self.others.add(&row);
                    self.recent.extend(row.recent);
                }
            }
        }
    }

    /// Whether the others do not know yet what changed last.
    pub fn is_late(&self) -> bool {
        self.dirty && self.row.is_some()
    }

    /// Writes the own row if it changed, or if the others would soon think this VM gone. A change within 2 ms of the last write
    /// waits for a later call, unless nothing is in flight any more.
    pub fn flush(
        &mut self,
        host: &impl Host,
        ledger: &Ledger,
        peaks: &Peaks,
        recent: &RecentPrompts,
        by: RoutesBy,
        now: UnixMillis,
    ) {
        let Some(row) = self.row else { return };
        let age = now.0.saturating_sub(self.written);
        let due = if self.dirty { age >= PERIOD_MS || ledger.requests() == 0 } else { age >= REFRESH_MS };
        if !due {
            return;
        }
        let RoutesBy { generation, policy_version } = by;
        let value = LoadRow {
            owner: self.owner,
            written: now,
            generation,
            policy_version,
            entries: entries(ledger, peaks, now),
            recent: recent.iter().take(SHARED_PROMPTS).filter(|prompt| prompt.until > now).cloned().collect(),
        };
        if let Ok(bytes) = value.encode()
            && host.set_shared(&keys::load_row(row), &bytes, None).is_ok()
        {
            self.written = now.0;
            self.dirty = false;
        }
    }

    /// Looks whether another VM has claimed the row, as may happen to one that slept for long; then claims anew.
    pub fn verify(&mut self, host: &impl Host, counters: &Counters, now: UnixMillis) {
        let Some(row) = self.row else { return };
        if now.0.saturating_sub(self.verified) < REFRESH_MS {
            return;
        }
        self.verified = now.0;
        let owner = host.shared(&keys::load_row(row)).value.and_then(|bytes| LoadRow::decode(&bytes).ok());
        if owner.is_some_and(|row| row.owner != self.owner) {
            counters.count(host, Counter::RowsLost);
            self.row = None;
            self.dirty = true;
            self.claim(host, counters, now);
        }
    }

    fn claim(&mut self, host: &impl Host, counters: &Counters, now: UnixMillis) {
        let empty = LoadRow {
            owner: self.owner,
            written: now,
            generation: Generation(0),
            policy_version: 0,
            entries: Vec::new(),
            recent: Vec::new(),
        };
        let Ok(bytes) = empty.encode() else { return };
        for _ in 0..CLAIM_ATTEMPTS {
            let (rows, version) = count(host);
            self.row = reclaim(host, &bytes, rows, now).or_else(|| append(host, &bytes, rows, version));
            if self.row.is_some() {
                counters.count(host, Counter::RowsClaimed);
                // Whatever is booked by now should be seen at once.
                (self.written, self.verified, self.dirty) = (0, now.0, true);
                return;
            }
        }
    }
}

/// What is in flight on every target, and what lately was.
fn entries(ledger: &Ledger, peaks: &Peaks, now: UnixMillis) -> Vec<LoadRowEntry> {
    let mut entries = ledger.entries();
    for (target, peak_requests) in peaks.all_recent(now) {
        match entries.iter_mut().find(|entry| entry.target == target) {
            Some(entry) => entry.booking.peak_requests = peak_requests,
            None => entries.push(LoadRowEntry { target, booking: Booking { peak_requests, ..Booking::default() } }),
        }
    }
    entries
}

/// Takes over the first row whose owner is gone.
fn reclaim(host: &impl Host, row: &[u8], rows: u32, now: UnixMillis) -> Option<u32> {
    (0..rows).find(|number| {
        let key = keys::load_row(*number);
        let found = host.shared(&key);
        let gone = match found.value.map(|bytes| LoadRow::decode(&bytes)) {
            Some(Ok(row)) => row.written.age(now) > ROW_EXPIRY_MS,
            Some(Err(_)) => true,
            // Counted but not yet written: its owner is about to.
            None => false,
        };
        gone && host.set_shared(&key, row, found.version).is_ok()
    })
}

/// Adds a row.
fn append(host: &impl Host, row: &[u8], rows: u32, version: Option<u32>) -> Option<u32> {
    if rows >= MAX_ROWS {
        return None;
    }
    let more = (rows + 1).to_le_bytes();
    host.set_shared(keys::ROWS, &more, Some(version.unwrap_or(ABSENT))).ok()?;
    host.set_shared(&keys::load_row(rows), row, None).ok()?;
    Some(rows)
}

/// Number of rows, and the version of that number.
fn count(host: &impl Host) -> (u32, Option<u32>) {
    let found = host.shared(keys::ROWS);
    let bytes = found.value.as_deref().and_then(|bytes| bytes.first_chunk::<4>());
    (bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes)).min(MAX_ROWS), found.version)
}

/// Rows whose owner is alive, of the first `rows` ones.
pub fn live_rows(host: &impl Host, rows: u32, now: UnixMillis) -> impl Iterator<Item = (u32, LoadRow)> + '_ {
    (0..rows).filter_map(move |number| {
        let row = LoadRow::decode(&host.shared(&keys::load_row(number)).value?).ok()?;
        (row.written.age(now) <= ROW_EXPIRY_MS).then_some((number, row))
    })
}

/// Number of rows in shared data.
pub fn row_count(host: &impl Host) -> u32 {
    count(host).0
}
