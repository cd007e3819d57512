//! Canonical composition (NFC) with tables of the image, so that the Unicode version is the reference's and not a crate's.
//!
//! Only windows around characters that composing may change are touched: from the last safe character before such a one
//! to the next safe character behind. A safe character has combining class 0, composes to itself and is never the second of a
//! pair that composes, so nothing reaches across its front.
//!
//! Sections, all `u32`: `decompositions` is a count, then (code point, offset, length) sorted by code point, then the code points
//! the offsets count in; `compositions` is (first, second, composed), sorted. Hangul syllables are computed.

use std::cmp::Ordering;

use super::image::bytes::{push_u32, u32_at};
use super::image::{Image, Section};
use super::table::{ClassTable, NFC_UNSAFE, TwoStage};
use crate::openai::value::order;

const S_BASE: u32 = 0xac00;
const L_BASE: u32 = 0x1100;
const V_BASE: u32 = 0x1161;
const T_BASE: u32 = 0x11a7;
const L_COUNT: u32 = 19;
const V_COUNT: u32 = 21;
const T_COUNT: u32 = 28;
const S_COUNT: u32 = L_COUNT * V_COUNT * T_COUNT;

/// The tables, in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nfc<'a> {
    classes: ClassTable<'a>,
    combining: TwoStage<'a>,
    decompositions: &'a [u8],
    compositions: &'a [u8],
}

impl<'a> Nfc<'a> {
    pub(crate) fn of(image: &'a Image) -> Self {
        Self {
            classes: ClassTable::new(image.section(Section::ClassIndex), image.section(Section::ClassBlocks)),
            combining: TwoStage::new(image.section(Section::CombiningIndex), image.section(Section::CombiningBlocks)),
            decompositions: image.section(Section::Decompositions),
            compositions: image.section(Section::Compositions),
        }
    }

    /// The composed text, or `None` when `text` holds no character that composing could change.
    pub(crate) fn compose(&self, text: &str) -> Option<String> {
        let bytes = text.as_bytes();
        let mut window = self.next_window(bytes, 0)?;
        let mut out = String::with_capacity(text.len() + 16);
        let mut copied = 0;
        let mut buffer = Vec::new();
        loop {
            out.push_str(text.get(copied..window.0).unwrap_or(""));
            self.compose_window(text.get(window.0..window.1).unwrap_or(""), &mut buffer, &mut out);
            copied = window.1;
            match self.next_window(bytes, copied) {
                Some(next) => window = next,
                None => break,
            }
        }
        out.push_str(text.get(copied..).unwrap_or(""));
        Some(out)
    }

    /// Start and end of the next stretch that has to be composed.
    fn next_window(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        let mut start = from;
        let mut at = from;
        loop {
            at = skip_ascii(text, at, &mut start);
            let (class, length) = self.classes.at(text, at)?;
            if class & NFC_UNSAFE != 0 {
                break;
            }
            start = at;
            at += length;
        }
        while let Some((class, length)) = self.classes.at(text, at) {
            if class & NFC_UNSAFE == 0 {
                break;
            }
            at += length;
        }
        Some((start, at))
    }

    fn compose_window(&self, window: &str, buffer: &mut Vec<(u8, u32)>, out: &mut String) {
        buffer.clear();
        for character in window.chars() {
            self.decompose(character as u32, buffer);
        }
        sort_marks(buffer);
        let mut starter: Option<usize> = None;
        let mut last: Option<u8> = None;
        let mut kept = 0;
        for index in 0..buffer.len() {
            let Some(&(class, code_point)) = buffer.get(index) else { break };
            let reachable = last.is_none_or(|last| last < class);
            if let Some(first) = starter.filter(|_| reachable).and_then(|starter| buffer.get_mut(starter))
                && let Some(composed) = self.pair(first.1, code_point)
            {
                first.1 = composed;
                continue;
            }
            if class == 0 {
                starter = Some(kept);
                last = None;
            } else {
                last = Some(class);
            }
            if let Some(slot) = buffer.get_mut(kept) {
                *slot = (class, code_point);
            }
            kept += 1;
        }
        out.extend(buffer.iter().take(kept).filter_map(|(_, code_point)| char::from_u32(*code_point)));
    }

    fn decompose(&self, code_point: u32, out: &mut Vec<(u8, u32)>) {
        if let Some(syllable) = code_point.checked_sub(S_BASE).filter(|syllable| *syllable < S_COUNT) {
            out.push((0, L_BASE + syllable / (V_COUNT * T_COUNT)));
            out.push((0, V_BASE + syllable % (V_COUNT * T_COUNT) / T_COUNT));
            if syllable % T_COUNT != 0 {
                out.push((0, T_BASE + syllable % T_COUNT));
            }
            return;
        }
        match self.decomposition(code_point) {
            Some((offset, length)) => {
                for index in 0..length {
                    let part = u32_at(self.decompositions, offset + index * 4);
                    out.push((self.combining.get(part), part));
                }
            }
            None => out.push((self.combining.get(code_point), code_point)),
        }
    }

    /// Byte offset and length in code points of a decomposition.
    fn decomposition(&self, code_point: u32) -> Option<(usize, usize)> {
        let count = u32_at(self.decompositions, 0);
        let at = search(count, |index| u32_at(self.decompositions, 4 + index as usize * 12).cmp(&code_point))?;
        let entry = 4 + at as usize * 12;
        let base = 4 + count as usize * 12;
        let offset = u32_at(self.decompositions, entry + 4) as usize;
        let length = u32_at(self.decompositions, entry + 8).min(32) as usize;
        Some((base.checked_add(offset.checked_mul(4)?)?, length))
    }

    fn pair(&self, first: u32, second: u32) -> Option<u32> {
        if let (Some(lead), Some(vowel)) = (first.checked_sub(L_BASE), second.checked_sub(V_BASE))
            && lead < L_COUNT
            && vowel < V_COUNT
        {
            return Some(S_BASE + (lead * V_COUNT + vowel) * T_COUNT);
        }
        if let (Some(syllable), Some(tail)) = (first.checked_sub(S_BASE), second.checked_sub(T_BASE))
            && syllable < S_COUNT
            && syllable % T_COUNT == 0
            && (1..T_COUNT).contains(&tail)
        {
            return Some(first + tail);
        }
        let count = u32::try_from(self.compositions.len() / 12).ok()?;
        let key = |index: u32| {
            let at = index as usize * 12;
            (u32_at(self.compositions, at), u32_at(self.compositions, at + 4))
        };
        let at = search(count, |index| key(index).cmp(&(first, second)))?;
        Some(u32_at(self.compositions, at as usize * 12 + 8))
    }
}

/// Position of the first byte from `at` on that is not ASCII; `last` becomes the position of the ASCII byte before it, if any.
fn skip_ascii(text: &[u8], at: usize, last: &mut usize) -> usize {
    let rest = text.get(at..).unwrap_or(&[]);
    let (lines, _) = rest.as_chunks::<32>();
    let whole = lines.iter().take_while(|line| line.is_ascii()).count() * 32;
    let tail = rest.get(whole..).unwrap_or(&[]);
    let length = whole + tail.iter().take_while(|byte| byte.is_ascii()).count();
    if length > 0 {
        *last = at + length - 1;
    }
    at + length
}

/// Puts every run of characters of a combining class into class order, keeping equals in place.
fn sort_marks(buffer: &mut [(u8, u32)]) {
    for run in buffer.split_mut(|(class, _)| *class == 0) {
        if !run.is_sorted_by_key(|(class, _)| *class) {
            let marks = run.to_vec();
            let class = |place: usize| marks.get(place).map(|(class, _)| *class);
            let sorted = order(marks.len(), &|a, b| class(a).cmp(&class(b)));
            for (mark, place) in run.iter_mut().zip(sorted) {
                *mark = marks.get(place).copied().unwrap_or(*mark);
            }
        }
    }
}

fn search(count: u32, order: impl Fn(u32) -> Ordering) -> Option<u32> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        match order(middle) {
            Ordering::Equal => return Some(middle),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    None
}

/// Builds the `decompositions` section from full canonical decompositions sorted by code point, Hangul left out.
pub(super) fn build_decompositions(decompositions: &[(u32, Vec<u32>)]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    push_u32(&mut bytes, u32::try_from(decompositions.len()).ok()?);
    let mut offset = 0;
    for (code_point, parts) in decompositions {
        let length = u32::try_from(parts.len()).ok().filter(|length| *length <= 32)?;
        push_u32(&mut bytes, *code_point);
        push_u32(&mut bytes, offset);
        push_u32(&mut bytes, length);
        offset += length;
    }
    for part in decompositions.iter().flat_map(|(_, parts)| parts) {
        push_u32(&mut bytes, *part);
    }
    Some(bytes)
}

/// Builds the `compositions` section from (first, second, composed), Hangul left out.
pub(super) fn build_compositions(compositions: &[(u32, u32, u32)]) -> Vec<u8> {
    let mut sorted = compositions.to_vec();
    sorted.sort_unstable();
    let mut bytes = Vec::new();
    for (first, second, composed) in sorted {
        for value in [first, second, composed] {
            push_u32(&mut bytes, value);
        }
    }
    bytes
}
