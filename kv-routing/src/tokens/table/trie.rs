//! A byte trie: the texts of the added tokens.
//!
//! Nodes of 12 bytes in breadth-first order, the root first: number of the first child (`u32`), value plus one (`u32`, 0 for
//! none), number of children (`u16`), byte that leads here (`u8`), zero. Children lie side by side, sorted by byte.

use crate::tokens::image::bytes::{push_u16, push_u32, u16_at, u32_at};

const NODE_BYTES: usize = 12;

/// The trie, in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trie<'a> {
    nodes: &'a [u8],
}

impl<'a> Trie<'a> {
    pub(crate) fn new(nodes: &'a [u8]) -> Self {
        Self { nodes }
    }

    /// Value and end of the longest entry that begins at `start`.
    pub(crate) fn longest(&self, text: &[u8], start: usize) -> Option<(u32, usize)> {
        let mut best = None;
        let mut node = 0;
        let mut at = start;
        while let Some(child) = text.get(at).and_then(|byte| self.child(node, *byte)) {
            node = child;
            at += 1;
            if let Some(value) = self.value(node) {
                best = Some((value, at));
            }
        }
        best
    }

    /// Whether any entry begins with this byte.
    pub(crate) fn begins_with(&self, byte: u8) -> bool {
        self.child(0, byte).is_some()
    }

    /// Bytes of its longest entry.
    pub(crate) fn depth(&self) -> usize {
        let (mut depth, mut level) = (0, 0..1_usize);
        while level.end * NODE_BYTES <= self.nodes.len() {
            let children: usize =
                level.clone().map(|node| usize::from(u16_at(self.nodes, node * NODE_BYTES + 8))).sum();
            if children == 0 {
                break;
            }
            depth += 1;
            level = level.end..level.end + children;
        }
        depth
    }

    fn value(&self, node: u32) -> Option<u32> {
        u32_at(self.nodes, node as usize * NODE_BYTES + 4).checked_sub(1)
    }

    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let at = node as usize * NODE_BYTES;
        let (mut low, mut high) = (0, u32::from(u16_at(self.nodes, at + 8)));
        let first = u32_at(self.nodes, at);
        while low < high {
            let middle = low.midpoint(high);
            // A child's number is above its parent's in every trie we build; insisting on it ends the walk in any other.
            let child = first.checked_add(middle).filter(|child| *child > node)?;
            let led = self.nodes.get(child as usize * NODE_BYTES + 10)?;
            match led.cmp(&byte) {
                std::cmp::Ordering::Equal => return Some(child),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// Builds the section. Entries are distinct and not empty; `None` when one is not, or there are too many.
pub fn build_trie(entries: &[(Vec<u8>, u32)]) -> Option<Vec<u8>> {
    if entries.is_empty() {
        return Some(Vec::new());
    }
    let mut sorted: Vec<(&[u8], u32)> = entries.iter().map(|(text, value)| (text.as_slice(), *value)).collect();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| matches!(pair, [left, right] if left.0 == right.0)) {
        return None;
    }
    // A node still to be written: its entries, how deep it lies, the byte that leads to it.
    let mut level = vec![(sorted.as_slice(), 0_usize, 0_u8)];
    let mut bytes = Vec::new();
    let mut written = 0_u32;
    while !level.is_empty() {
        let mut first_child = written.checked_add(u32::try_from(level.len()).ok()?)?;
        let mut next = Vec::new();
        for (group, depth, byte) in &level {
            let (value, rest) = match group.split_first() {
                Some(((text, value), rest)) if text.len() == *depth => (value.checked_add(1)?, rest),
                _ => (0, *group),
            };
            if *depth == 0 && value != 0 {
                return None;
            }
            let children = rest.chunk_by(|left, right| left.0.get(*depth) == right.0.get(*depth));
            let before = next.len();
            for child in children {
                let led = child.first().and_then(|(text, _)| text.get(*depth).copied())?;
                next.push((child, depth + 1, led));
            }
            let count = u32::try_from(next.len() - before).ok()?;
            push_u32(&mut bytes, first_child);
            push_u32(&mut bytes, value);
            push_u16(&mut bytes, u16::try_from(count).ok()?);
            bytes.push(*byte);
            bytes.push(0);
            first_child = first_child.checked_add(count)?;
        }
        written = written.checked_add(u32::try_from(level.len()).ok()?)?;
        level = next;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trie(texts: &[&str]) -> Vec<u8> {
        let entries: Vec<_> = texts.iter().enumerate().map(|(n, text)| (text.as_bytes().to_vec(), n as u32)).collect();
        build_trie(&entries).unwrap()
    }

    #[test]
    fn the_longest_entry_wins() {
        let bytes = trie(&["<a", "<a>", "<ab>", "\n", "\n\n\n"]);
        let trie = Trie::new(&bytes);
        let at = |text: &str, start| trie.longest(text.as_bytes(), start);
        assert_eq!(at("x<ab>", 1), Some((2, 5)));
        assert_eq!(at("<ab<", 0), Some((0, 2)));
        assert_eq!(at("\n\n", 0), Some((3, 1)));
        assert_eq!(at("\n\n\n\n", 0), Some((4, 3)));
        assert_eq!(at("abc", 0), None);
        assert_eq!(trie.depth(), 4);
        assert!(trie.begins_with(b'<') && trie.begins_with(b'\n') && !trie.begins_with(b'a'));
    }

    #[test]
    fn refuses_doubles_and_empty_entries() {
        assert!(build_trie(&[(b"a".to_vec(), 0), (b"a".to_vec(), 1)]).is_none());
        assert!(build_trie(&[(Vec::new(), 0)]).is_none());
    }

    #[test]
    fn noise_ends_the_walk() {
        for fill in [0_u8, 1, 0x41, 0xff] {
            let noise = vec![fill; 12 * 500];
            assert!(Trie::new(&noise).longest(&[fill; 4096], 0).is_none_or(|(_, end)| end <= 4096));
        }
        assert_eq!(Trie::new(&[]).longest(b"abc", 0), None);
        assert_eq!(Trie::new(&[]).depth(), 0);
    }
}
