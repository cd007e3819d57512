//! Whether the bridge is alive, without trusting that its clock and ours agree.

use kv_routing::policy::BridgeSilence;
use kv_routing::wire::{ManifestHeader, UnixMillis};

/// Follows the heartbeat in the manifest. Once it was seen to move, its age is the time since then by our own clock.
/// Until then the two clocks are compared, which is all one can do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heartbeat {
    last: Option<UnixMillis>,
    first_seen: Option<UnixMillis>,
    moved: Option<UnixMillis>,
}

impl Heartbeat {
    pub(super) fn observe(&mut self, header: ManifestHeader, now: UnixMillis) {
        match self.last {
            None => self.first_seen = Some(now),
            Some(last) if last != header.heartbeat => self.moved = Some(now),
            Some(_) => {}
        }
        self.last = Some(header.heartbeat);
    }

    pub(super) fn silence(&self, tolerated_ms: u64, now: UnixMillis) -> Option<BridgeSilence> {
        let since = match (self.moved, self.last, self.first_seen) {
            (Some(moved), ..) => moved,
            (None, Some(last), Some(first_seen)) => last.min(first_seen),
            _ => return None,
        };
        (since.age(now) > tolerated_ms).then_some(BridgeSilence { since })
    }
}

#[cfg(test)]
mod tests {
    use kv_routing::wire::{Epoch, Generation};

    use super::*;

    fn header(heartbeat: u64) -> ManifestHeader {
        ManifestHeader { epoch: Epoch(1), generation: Generation(1), heartbeat: UnixMillis(heartbeat) }
    }

    fn since(heartbeat: &Heartbeat, now: u64) -> Option<u64> {
        heartbeat.silence(3000, UnixMillis(now)).map(|silence| silence.since.0)
    }

    #[test]
    fn a_bridge_that_never_was_is_not_silent() {
        assert_eq!(since(&Heartbeat::default(), 9_999_999), None);
    }

    #[test]
    fn the_first_sight_compares_clocks() {
        let mut dead = Heartbeat::default();
        dead.observe(header(10_000), UnixMillis(20_000));
        assert_eq!(since(&dead, 20_000), Some(10_000));
        let mut ahead = Heartbeat::default();
        ahead.observe(header(90_000), UnixMillis(20_000));
        assert_eq!(since(&ahead, 22_000), None);
        assert_eq!(since(&ahead, 23_001), Some(20_000));
    }

    #[test]
    fn a_moving_heartbeat_is_alive_whatever_its_clock_says() {
        for offset in [-3_600_000_i64, 0, 3_600_000] {
            let mut beat = Heartbeat::default();
            for now in (5_000_000_u64..5_010_000).step_by(500) {
                beat.observe(header(now.saturating_add_signed(offset)), UnixMillis(now));
            }
            assert_eq!(since(&beat, 5_010_000), None);
            assert_eq!(since(&beat, 5_012_600), Some(5_009_500));
        }
    }
}
