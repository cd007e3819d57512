//! Mutations without coverage, for the short run that is part of the tests: a fixed series for a fixed seed.

use kv_routing::policy::{Rng, SplitMix64};

/// Dice that fall alike for the same seed.
#[derive(Clone, Debug)]
pub struct Dice(SplitMix64);

impl Dice {
    /// The series of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`; 0 when `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() % (end.max(1) as u64)) as usize
    }
}

/// Bytes that mean something to one of the formats: lengths at their bounds, msgpack heads, JSON signs.
const TELLING: &[&[u8]] = &[
    &[0x00],
    &[0x7f],
    &[0x80],
    &[0xff],
    &[0xff, 0xff],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xc0],
    &[0xc1],
    &[0xdd, 0xff, 0xff, 0xff, 0xff],
    &[0xdf, 0xff, 0xff, 0xff, 0xff],
    &[0xdb, 0x7f, 0xff, 0xff, 0xff],
    &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0],
    b"[",
    b"{",
    b"}",
    b"\"",
    b"\\u",
    b"\\ud800",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"\n",
];

/// `seed` with one to eight changes; `other` is another seed to take pieces from.
pub fn mutate(dice: &mut Dice, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut input = seed.to_vec();
    for _ in 0..=dice.below(8) {
        change(dice, &mut input, other);
    }
    input
}

fn change(dice: &mut Dice, input: &mut Vec<u8>, other: &[u8]) {
    let at = dice.below(input.len() + 1);
    let until = at + dice.below((input.len() - at).min(32) + 1);
    match dice.below(8) {
        0 | 1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = dice.roll() as u8;
            }
        }
        3 => drop(input.drain(at..until)),
        4 => input.truncate(at),
        5 => {
            let copy = input.get(at..until).unwrap_or_default().to_vec();
            input.splice(at..at, copy);
        }
        6 => {
            let telling = TELLING.get(dice.below(TELLING.len())).copied().unwrap_or_default();
            let end = (at + telling.len() * dice.below(2)).min(input.len());
            input.splice(at..end, telling.iter().copied());
        }
        _ => {
            let from = dice.below(other.len() + 1);
            let to = (from + dice.below(64)).min(other.len());
            input.splice(at..until, other.get(from..to).unwrap_or_default().iter().copied());
        }
    }
}
