//! Random worlds through index and oracle.

use proptest::prelude::*;

use super::PageTuning;
use super::random::{World, step, tree};

const ROOMY: u64 = 1 << 20;

fn small_pages() -> PageTuning {
    PageTuning { initial_bits: 0, max_bits: 8, split_bytes: 200, max_bytes: 100_000 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_oracle(tree in tree(), steps in prop::collection::vec(step(), 1..60), run_blocks in 1_u16..20) {
        let mut world = World::new(run_blocks, ROOMY, small_pages());
        for step in &steps {
            world.apply(&tree, step);
        }
        world.check(&tree);
        world.drain();
    }

    #[test]
    fn equals_the_oracle_after_every_step(tree in tree(), steps in prop::collection::vec(step(), 1..25)) {
        let mut world = World::new(6, ROOMY, small_pages());
        for step in &steps {
            world.apply(&tree, step);
            world.check(&tree);
        }
        world.drain();
    }

    /// What was dropped is forgotten and everything else is still exact.
    #[test]
    fn stays_within_its_bound(tree in tree(), steps in prop::collection::vec(step(), 1..80), max_blocks in 8_u64..80) {
        let mut world = World::new(4, max_blocks, small_pages());
        for step in &steps {
            world.apply(&tree, step);
        }
        world.check(&tree);
        world.drain();
    }

    /// Pages that may not become more shed runs instead.
    #[test]
    fn overfull_pages_shed_runs(tree in tree(), steps in prop::collection::vec(step(), 1..80)) {
        let pages = PageTuning { initial_bits: 1, max_bits: 2, split_bytes: 90, max_bytes: 120 };
        let mut world = World::new(4, ROOMY, pages);
        for step in &steps {
            world.apply(&tree, step);
        }
        world.check(&tree);
        let stats = world.index.stats();
        prop_assert!(stats.page_bytes <= 4 * 120);
        world.drain();
    }
}
