//! What the state of a target's KV source makes of its overlap.

use crate::wire::{SourceState, TargetEntry, UnixMillis};

/// The bridge has been silent for so long that every source counts as stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeSilence {
    /// When it was last known to be alive.
    pub since: UnixMillis,
}

/// Factor on a target's overlap, 0 to 1, and the state it comes from.
///
/// | state | factor |
/// |---|---|
/// | exact, warm, unverified | 1 |
/// | stale | falls from 1 to 0 over `decay_ms`, counted from when the source or the bridge went silent; stays 1 when `decay_ms` is 0 |
/// | mismatch, none | 0 |
pub fn trust(
    target: &TargetEntry,
    silence: Option<BridgeSilence>,
    decay_ms: u32,
    now: UnixMillis,
) -> (SourceState, f64) {
    let silent_since = silence.map(|silence| silence.since);
    match target.source {
        SourceState::Mismatch | SourceState::None => (target.source, 0.0),
        SourceState::Stale => {
            let since = silent_since.map_or(target.source_since, |silent| silent.min(target.source_since));
            (SourceState::Stale, faded(since.age(now), decay_ms))
        }
        SourceState::Exact | SourceState::Warm | SourceState::Unverified => match silent_since {
            Some(since) => (SourceState::Stale, faded(since.age(now), decay_ms)),
            None => (target.source, 1.0),
        },
    }
}

fn faded(age_ms: u64, decay_ms: u32) -> f64 {
    if decay_ms == 0 {
        return 1.0;
    }
    (1.0 - age_ms as f64 / f64::from(decay_ms)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::eligible::tests::target;

    fn with(source: SourceState, since: u64) -> TargetEntry {
        TargetEntry { source, source_since: UnixMillis(since), ..target(0) }
    }

    #[test]
    fn every_state_is_priced() {
        let now = UnixMillis(10_000);
        for (state, factor) in [
            (SourceState::Exact, 1.0),
            (SourceState::Warm, 1.0),
            (SourceState::Unverified, 1.0),
            (SourceState::Mismatch, 0.0),
            (SourceState::None, 0.0),
        ] {
            assert_eq!(trust(&with(state, 0), None, 1000, now), (state, factor));
        }
    }

    #[test]
    fn stale_credit_fades_with_age_and_not_without_a_decay() {
        let stale = with(SourceState::Stale, 1000);
        let at = |now| trust(&stale, None, 4000, UnixMillis(now)).1;
        assert_eq!([at(1000), at(2000), at(5000), at(9000)], [1.0, 0.75, 0.0, 0.0]);
        assert_eq!(trust(&stale, None, 0, UnixMillis(90_000)).1, 1.0);
    }

    #[test]
    fn a_silent_bridge_makes_good_sources_stale_and_bad_ones_no_better() {
        let silence = Some(BridgeSilence { since: UnixMillis(8000) });
        let now = UnixMillis(9000);
        assert_eq!(trust(&with(SourceState::Exact, 0), silence, 2000, now), (SourceState::Stale, 0.5));
        assert_eq!(trust(&with(SourceState::Stale, 7500), silence, 2000, now), (SourceState::Stale, 0.25));
        assert_eq!(trust(&with(SourceState::Mismatch, 0), silence, 2000, now), (SourceState::Mismatch, 0.0));
    }
}
