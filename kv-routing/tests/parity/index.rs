//! Pages: the bytes a writer makes of a history, and what a reader finds in them.

use kv_routing::block::{LocalHash, SequenceHash, extend};
use kv_routing::index::{IndexLimits, Overlaps, PageSource, PrefixIndex, lookup};
use kv_routing::policy::{Rng, SplitMix64};
use kv_routing::target::{Slot, Tier};
use kv_routing::wire::Epoch;
use xxhash_rust::xxh3::xxh3_64;

const EPOCH: Epoch = Epoch(0xfedc_ba98_7654_3210);

struct Pages(Vec<Vec<u8>>);

impl PageSource for Pages {
    fn page(&mut self, page: u32) -> Option<Vec<u8>> {
        self.0.get(page as usize).cloned()
    }
}

pub(crate) fn lines() -> Vec<String> {
    let chains = chains();
    let mut index = PrefixIndex::with_secret(IndexLimits { max_blocks: 16_000 }, 5);
    happen(&mut index, &chains);
    let stats = index.stats();
    let mut lines = vec![format!(
        "{} blocks, {} runs, {} held, {} evicted, {} pages",
        stats.blocks, stats.runs, stats.holder_blocks, stats.evicted_blocks, stats.pages
    )];
    let bits = index.page_bits();
    let mut pages = Pages((0..1 << bits).map(|page| index.encode_page(page, EPOCH)).collect());
    let digest = |page: &Vec<u8>| format!("{}:{:016x}", page.len(), xxh3_64(page));
    lines.extend((0..).zip(pages.0.chunks(8)).map(|(row, row_of_pages)| {
        format!("pages {}..: {}", row * 8, row_of_pages.iter().map(digest).collect::<Vec<_>>().join(" "))
    }));
    for (number, chain) in (0..).zip(&chains) {
        let (overlaps, stats) = lookup(chain, bits, EPOCH, &mut pages);
        assert_eq!(overlaps, index.overlaps(chain));
        lines.push(format!("chain {number}: {} blocks, {} runs, {}", chain.len(), stats.runs, shown(&overlaps)));
    }
    // Broken pages, broken the same way on both sides.
    for at in [3, 20, 24, 40, 200, 1000] {
        let mut broken = Pages(pages.0.clone());
        for page in &mut broken.0 {
            if let Some(byte) = page.get_mut(at) {
                *byte ^= 0x55;
            }
        }
        let found = chains.iter().map(|chain| lookup(chain, bits, EPOCH, &mut broken));
        let (held, rejected) = found.fold((0, 0), |(held, rejected), (overlaps, stats)| {
            let more: u32 = overlaps.0.iter().map(|(_, overlap)| overlap.total()).sum();
            (held + more, rejected + stats.rejected_pages)
        });
        lines.push(format!("byte {at} of every page changed: {held} held, {rejected} rejected"));
    }
    lines
}

/// A tree of long chains.
fn chains() -> Vec<Vec<SequenceHash>> {
    let mut rng = SplitMix64::new(11);
    let mut chains: Vec<Vec<SequenceHash>> = Vec::new();
    for _ in 0..60 {
        let mut chain = match chains.len() as u64 {
            0 => Vec::new(),
            count => chains[(rng.next_u64() % count) as usize].clone(),
        };
        chain.truncate((rng.next_u64() % 1500) as usize);
        for _ in 0..rng.next_u64() % 900 + 1 {
            let local = LocalHash(rng.next_u64());
            chain.push(extend(chain.last().copied(), local));
        }
        chains.push(chain);
    }
    chains
}

fn happen(index: &mut PrefixIndex, chains: &[Vec<SequenceHash>]) {
    let mut rng = SplitMix64::new(12);
    let mut below = |bound: usize| (rng.next_u64() % bound as u64) as usize;
    for _ in 0..4000 {
        let chain = &chains[below(chains.len())];
        let slot = Slot([0, 1, 2, 3, 5, 8, 300, u16::MAX][below(8)]);
        let tier = Tier::ALL[below(5).saturating_sub(2)];
        match below(10) {
            0..=4 => {
                let from = below(chain.len());
                let parent = from.checked_sub(1).map(|at| chain[at]);
                let to = (from + 1 + below(400)).min(chain.len());
                index.store(slot, tier, parent, &chain[from..to]);
            }
            5 => drop(index.store(slot, tier, None, chain)),
            6..=8 => {
                let from = chain.len() - below(chain.len().min(100));
                for block in chain[from..].iter().rev() {
                    index.remove(slot, tier, *block);
                }
                index.remove(slot, tier, chain[below(chain.len())]);
            }
            _ if below(40) == 0 => index.clear(slot, Some(tier)),
            _ => {}
        }
    }
}

fn shown(overlaps: &Overlaps) -> String {
    let one = |(slot, overlap): &(Slot, kv_routing::index::Overlap)| {
        format!("{}={}+{}+{}", slot.0, overlap.device, overlap.host, overlap.disk)
    };
    overlaps.0.iter().map(one).collect::<Vec<_>>().join(" ")
}
