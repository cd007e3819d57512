//! Load that reaches a target without passing this Envoy, taken from the engine's own figures.
//!
//! An engine's report contains our requests too, as they were when the bridge last asked, so the two may neither be
//! added nor compared as they stand. What counts as outside is only what exceeds the **most** requests this Envoy had on
//! the target within the last reports. It may miss as much outside load as our own load swung in that time; it never
//! counts a request of ours twice.

use std::collections::HashMap;

use crate::target::TargetId;
use crate::wire::{TargetEntry, UnixMillis};

/// Our peak is taken over this window and the one before; longer than the bridge's interval between two reports.
pub const PEAK_WINDOW_MS: u64 = 2000;

/// Load from outside this Envoy on one target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OutsideLoad {
    /// Requests running or waiting.
    pub requests: u32,
    /// Blocks they use, waiting ones priced like running ones.
    pub blocks: f64,
}

impl OutsideLoad {
    /// What `target`'s report says beyond `booked_peak` requests of ours.
    pub fn of(target: &TargetEntry, booked_peak: u32) -> Self {
        let requests = target.running.saturating_add(target.waiting).saturating_sub(booked_peak);
        let used = f64::from(target.kv_usage.clamp(0.0, 1.0)) * target.capacity_blocks as f64;
        let blocks = if used.is_finite() { f64::from(requests) * used / f64::from(target.running.max(1)) } else { 0.0 };
        Self { requests, blocks }
    }
}

/// Most requests one VM had on each target lately. It is told of every booking, or peaks between two decisions would be missed.
#[derive(Clone, Debug, Default)]
pub struct Peaks(HashMap<TargetId, Peak>);

#[derive(Clone, Copy, Debug)]
struct Peak {
    window: u64,
    current: u32,
    previous: u32,
}

impl Peak {
    fn recent(&self, now: UnixMillis) -> u32 {
        match (now.0 / PEAK_WINDOW_MS).checked_sub(self.window) {
            Some(0) => self.current.max(self.previous),
            Some(1) => self.current,
            _ => 0,
        }
    }
}

impl Peaks {
    /// Notes that `booked` requests are on `target` now, and returns the most that were in this and the last window.
    pub fn observe(&mut self, target: TargetId, booked: u32, now: UnixMillis) -> u32 {
        let window = now.0 / PEAK_WINDOW_MS;
        let peak = self.0.entry(target).or_insert(Peak { window, current: booked, previous: booked });
        if peak.window != window {
            peak.previous = if peak.window.checked_add(1) == Some(window) { peak.current } else { booked };
            (peak.window, peak.current) = (window, booked);
        }
        peak.current = peak.current.max(booked);
        peak.current.max(peak.previous)
    }

    /// The most that were on `target` in this and the last window.
    pub fn recent(&self, target: TargetId, now: UnixMillis) -> u32 {
        self.0.get(&target).map_or(0, |peak| peak.recent(now))
    }

    /// Every target with its recent peak, where it is not zero.
    pub fn all_recent(&self, now: UnixMillis) -> impl Iterator<Item = (TargetId, u32)> + '_ {
        let recent = move |(target, peak): (&TargetId, &Peak)| (*target, peak.recent(now));
        self.0.iter().map(recent).filter(|(_, peak)| *peak > 0)
    }

    /// Forgets targets for which `known` is false.
    pub fn retain(&mut self, known: impl Fn(TargetId) -> bool) {
        self.0.retain(|target, _| known(*target));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::eligible::tests::target;

    #[test]
    fn a_peak_lasts_one_to_two_windows() {
        let mut peaks = Peaks::default();
        let id = TargetId(1);
        let mut at = |ms, booked| peaks.observe(id, booked, UnixMillis(ms));
        assert_eq!(at(100, 5), 5);
        assert_eq!(at(200, 1), 5);
        assert_eq!(at(2100, 0), 5);
        assert_eq!(at(4100, 2), 2);
        assert_eq!(at(90_000, 1), 1);
    }

    #[test]
    fn nonsense_in_a_report_counts_nothing() {
        let mut nonsense = target(1);
        (nonsense.running, nonsense.kv_usage, nonsense.capacity_blocks) = (0, f32::NAN, u64::MAX);
        assert_eq!(OutsideLoad::of(&nonsense, 0), OutsideLoad::default());
        (nonsense.waiting, nonsense.kv_usage, nonsense.capacity_blocks) = (3, 7.0, 100);
        assert_eq!(OutsideLoad::of(&nonsense, 1), OutsideLoad { requests: 2, blocks: 200.0 });
    }
}
