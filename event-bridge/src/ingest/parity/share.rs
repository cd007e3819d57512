//! How many of the prompts judged lately are missing. An engine that renders some prompts differently (those with tools, say)
//! lacks a share of them for ever: one match among them proves as little as five missing in a row.

use std::collections::VecDeque;

use kv_routing::block::SequenceHash;

use super::FAIL_AFTER;

/// Different prompts remembered.
const LATELY: usize = 32;
/// So many missing in a row make a failure, whatever matched before.
const FAIL_DESPITE_MATCHES: usize = 16;
/// Missing among all that are remembered, at most, when nothing is thought to be missing any more.
const FEW: usize = 1;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// Last block of each, and whether it is missing; the newest at the end.
    lately: VecDeque<(SequenceHash, bool)>,
    /// Different ones missing since the last match.
    in_a_row: usize,
    partial: bool,
}

impl Share {
    pub(super) fn matched(&mut self, last: SequenceHash) {
        self.in_a_row = 0;
        self.note(last, false);
    }

    pub(super) fn missed(&mut self, last: SequenceHash) {
        // One prompt asked again and again is one piece of evidence.
        if !self.lately.contains(&(last, true)) {
            self.in_a_row += 1;
        }
        self.note(last, true);
    }

    fn note(&mut self, last: SequenceHash, is_missing: bool) {
        self.lately.retain(|(known, _)| *known != last);
        if self.lately.len() == LATELY {
            self.lately.pop_front();
        }
        self.lately.push_back((last, is_missing));
        if self.missing() >= FAIL_AFTER && !self.is_low() {
            self.partial = true;
        } else if self.missing() <= FEW && self.lately.len() == LATELY {
            self.partial = false;
        }
    }

    fn missing(&self) -> usize {
        self.lately.iter().filter(|(_, is_missing)| *is_missing).count()
    }

    /// Whether so many are missing, and nothing else is there, that the engine must compute something else.
    pub(super) fn is_failure(&self) -> bool {
        let all = self.missing() == self.lately.len();
        self.in_a_row >= if all { FAIL_AFTER } else { FAIL_DESPITE_MATCHES }
    }

    /// Whether fewer than a quarter are missing.
    pub(super) fn is_low(&self) -> bool {
        self.missing() * 4 < self.lately.len()
    }

    /// Whether a quarter was missing, and has not nearly all been found since.
    pub(super) fn is_partial(&self) -> bool {
        self.partial
    }

    /// What was missing in a row was so in another life.
    pub(super) fn break_row(&mut self) {
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 100,000 prompts `missing` in a hundred are: times that what is said changes, and the shares for which it is that
    /// nothing, something and everything is missing.
    fn judge(missing: u64) -> (u32, [f64; 3]) {
        let (mut share, mut dice) = (Share::default(), missing.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (mut said, mut changes, mut counts) = (0, 0, [0_u32; 3]);
        for prompt in 0..100_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (dice >> 33) % 100 < missing {
                share.missed(SequenceHash(prompt));
            } else {
                share.matched(SequenceHash(prompt));
            }
            let failed = share.is_failure() || (said == 2 && !share.is_low());
            let says = if failed { 2 } else { usize::from(share.is_partial()) };
            changes += u32::from(std::mem::replace(&mut said, says) != says);
            counts[says] += 1;
        }
        (changes, counts.map(|count| f64::from(count) / 1e5))
    }

    #[test]
    fn a_share_that_is_missing_is_told_all_the_time() {
        for missing in [20, 30, 40, 50] {
            let (changes, [nothing, ..]) = judge(missing);
            assert!(nothing < 0.1 && changes < 400, "{missing}: {nothing} {changes}");
        }
        let (changes, [nothing, _, everything]) = judge(5);
        assert!(nothing > 0.99 && everything < 1e-6 && changes < 50, "{nothing} {changes}");
        let (changes, [.., everything]) = judge(95);
        assert!(everything > 0.999 && changes < 5, "{everything} {changes}");
    }

    #[test]
    fn what_is_all_wrong_fails_after_five_or_after_any_past_within_twenty() {
        for matches in [0, 1, 200] {
            let mut share = Share::default();
            (0..matches).for_each(|prompt| share.matched(SequenceHash(prompt)));
            let failed = (1..=20).find(|prompt| {
                share.missed(SequenceHash(1000 + prompt));
                share.missed(SequenceHash(1000 + prompt));
                share.is_failure()
            });
            assert_eq!(failed, Some(if matches == 0 { 5 } else { 16 }));
        }
    }
}
