//! Bytes per holder-block (block held by a target on a tier) in the index and in pages, and whether they stay flat.
//! Prints a table; needs Linux to say what the process really uses.
#![allow(clippy::print_stdout, reason = "the table is what it is for")]
#![allow(clippy::indexing_slicing, reason = "a benchmark that is wrong about its own tables should stop")]

#[cfg(not(target_family = "wasm"))]
mod fleet;

#[cfg(not(target_family = "wasm"))]
mod native {
    use kv_routing::index::{IndexLimits, PrefixIndex};
    use kv_routing::target::{Slot, Tier};
    use kv_routing::wire::Epoch;

    use super::fleet::{Fleet, conversation};

    const LIMITS: IndexLimits = IndexLimits { max_blocks: 1 << 24 };

    /// Resident bytes of this process.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() * 1024
    }

    fn report(what: &str, index: &PrefixIndex) {
        let stats = index.stats();
        let sizes: Vec<usize> = (0..stats.pages as u32).map(|page| index.encode_page(page, Epoch(1)).len()).collect();
        let (total, largest) = (sizes.iter().sum::<usize>(), sizes.iter().max().copied().unwrap_or_default());
        let held = stats.holder_blocks as f64;
        println!(
            "{what:<40} {:>8} {:>8} {:>7} {:>6} {:>8.2} {:>8.2} {:>6} {:>7} {:>9}",
            stats.holder_blocks,
            stats.blocks,
            stats.runs,
            stats.pages,
            stats.bytes as f64 / held,
            total as f64 / held,
            total / sizes.len(),
            largest,
            resident() >> 20,
        );
    }

    /// Eight targets hold every block: 200 targets, 20,000 blocks each.
    fn eight_holders(run: usize) -> PrefixIndex {
        let mut index = PrefixIndex::new(LIMITS);
        for name in 0..(500_000 / run) as u64 {
            let chain = conversation(name, run);
            for holder in 0..8 {
                index.store(Slot(((name * 8 + holder) % 200) as u16), Tier::Device, None, &chain);
            }
        }
        index
    }

    pub(super) fn main() {
        println!(
            "{:<40} {:>8} {:>8} {:>7} {:>6} {:>8} {:>8} {:>6} {:>7} {:>9}",
            "200 targets, 20,000 blocks each",
            "held",
            "blocks",
            "runs",
            "pages",
            "B/held",
            "B/held",
            "page",
            "largest",
            "process"
        );
        println!("{:>73} {:>8} {:>8} {:>6} {:>7} {:>9}", "", "index", "pages", "B", "B", "MiB");
        let before = resident();
        let index = eight_holders(32);
        let really = (resident() - before) as f64 / index.stats().holder_blocks as f64;
        report("8 holders per block, runs of 32", &index);
        println!("  of which the process grew by {really:.2} bytes per holder-block");
        drop(index);
        report("8 holders per block, runs of 500", &eight_holders(500));

        let mut index = PrefixIndex::new(LIMITS);
        let mut fleet = Fleet::new(200, 20_000);
        fleet.fill(&mut index);
        report("prompts half shared, caches full", &index);
        for turnover in 1..=4 {
            // Every block stored anew, every old one removed.
            let until = fleet.events + 2 * 4_000_000;
            while fleet.events < until {
                fleet.step(&mut index);
            }
            report(&format!("  after turnover {turnover}"), &index);
        }
    }
}

fn main() {
    #[cfg(not(target_family = "wasm"))]
    native::main();
}
