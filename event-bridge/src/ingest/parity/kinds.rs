//! Prompts by what may go wrong with some of them alone: an adapter under another name, a salt that one side leaves out. A match of
//! one kind says nothing about another, and a kind that fails does not make everything worthless: anybody can make one up.

use std::collections::VecDeque;

use kv_routing::block::{HashSeed, SequenceHash};

use super::FAIL_AFTER;

/// Kinds remembered; the one that failed longest ago goes first.
const MOST: usize = 64;

/// What adapter and salt make of a prompt's hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) seed: HashSeed,
    pub(super) adapter: bool,
}

/// Kinds of which prompts are missing since the last match of that kind.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    missing: VecDeque<Missing>,
    life: u64,
}

#[derive(Debug)]
struct Missing {
    kind: Kind,
    prompts: usize,
    /// One prompt asked again and again is one piece of evidence.
    last: SequenceHash,
}

impl Kinds {
    /// What was missing in another life says nothing about this one.
    pub(super) fn live(&mut self, life: u64) {
        if std::mem::replace(&mut self.life, life) != life {
            self.missing.clear();
        }
    }

    pub(super) fn matched(&mut self, kind: Kind) {
        self.missing.retain(|missing| missing.kind != kind);
    }

    pub(super) fn missed(&mut self, kind: Kind, last: SequenceHash) {
        match self.missing.iter_mut().find(|missing| missing.kind == kind) {
            Some(missing) if missing.last == last => {}
            Some(missing) => {
                missing.prompts += 1;
                missing.last = last;
            }
            None => {
                if self.missing.len() == MOST {
                    self.missing.pop_front();
                }
                self.missing.push_back(Missing { kind, prompts: 1, last });
            }
        }
    }

    /// Whether enough prompts of one kind are missing to be no accident.
    pub(super) fn any_missing(&self) -> bool {
        self.missing.iter().any(|missing| missing.prompts >= FAIL_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(salt: Option<&str>) -> Kind {
        Kind { seed: HashSeed::new(None, salt), adapter: false }
    }

    #[test]
    fn a_kind_is_cleared_by_its_own_matches_alone() {
        let mut kinds = Kinds::default();
        for prompt in 0..FAIL_AFTER as u64 {
            assert!(!kinds.any_missing());
            kinds.missed(kind(Some("tenant")), SequenceHash(prompt));
            kinds.missed(kind(Some("tenant")), SequenceHash(prompt));
            kinds.matched(kind(None));
        }
        assert!(kinds.any_missing());
        kinds.matched(kind(Some("tenant")));
        assert!(!kinds.any_missing());
    }

    #[test]
    fn kinds_are_bounded_and_another_life_begins_without_any() {
        let mut kinds = Kinds::default();
        for salt in 0..200 {
            for prompt in 0..FAIL_AFTER as u64 {
                kinds.missed(kind(Some(&salt.to_string())), SequenceHash(prompt));
            }
        }
        assert_eq!(kinds.missing.len(), MOST);
        kinds.live(1);
        assert!(!kinds.any_missing());
    }
}
