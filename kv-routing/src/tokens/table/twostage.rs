//! A byte per code point in two stages: block numbers (`u16`) of every 128 code points, and the distinct blocks.

use std::collections::HashMap;

use crate::tokens::image::bytes::{push_u16, u16_at};

const BLOCK: usize = 128;
/// Code points there are.
const CODE_POINTS: usize = 0x11_0000;

/// The table, in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TwoStage<'a> {
    index: &'a [u8],
    blocks: &'a [u8],
}

impl<'a> TwoStage<'a> {
    pub(crate) fn new(index: &'a [u8], blocks: &'a [u8]) -> Self {
        Self { index, blocks }
    }

    /// The byte of a code point; that of some ASCII character for what is no code point.
    #[inline]
    pub(crate) fn get(&self, code_point: u32) -> u8 {
        let code_point = code_point as usize;
        let block = usize::from(u16_at(self.index, code_point / BLOCK * 2));
        self.blocks.get(block * BLOCK + code_point % BLOCK).copied().unwrap_or(0)
    }
}

/// Builds both sections from one byte per code point (missing ones are 0). Block 0 is always the first 128 code points.
pub fn build_two_stage(values: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut seen: HashMap<Vec<u8>, u16> = HashMap::new();
    let mut index = Vec::with_capacity(CODE_POINTS / BLOCK * 2);
    let mut blocks = Vec::new();
    for start in (0..CODE_POINTS).step_by(BLOCK) {
        let mut block = values.get(start..values.len().min(start + BLOCK)).unwrap_or(&[]).to_vec();
        block.resize(BLOCK, 0);
        // There are at most 8,704 blocks, so the number always fits.
        let fresh = u16::try_from(seen.len()).unwrap_or(u16::MAX);
        let number = *seen.entry(block.clone()).or_insert_with(|| {
            blocks.extend_from_slice(&block);
            fresh
        });
        push_u16(&mut index, number);
    }
    (index, blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_every_value() {
        let values: Vec<u8> = (0..CODE_POINTS).map(|cp| if cp < 70_000 { (cp % 251) as u8 } else { 7 }).collect();
        let (index, blocks) = build_two_stage(&values);
        let table = TwoStage::new(&index, &blocks);
        assert!((0..CODE_POINTS).all(|cp| table.get(cp as u32) == values[cp]));
    }
}
