use std::collections::{BTreeMap, BTreeSet, HashMap};

use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId, chain};
use kv_routing::index::{IndexLimits, PrefixIndex};
use kv_routing::target::{Slot, Tier};
use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::engine::{EngineHash, Event, ExtraKey, Moved, Removed, Stored, Tokens};

const SLOT: Slot = Slot(3);

struct Rig {
    residency: Residency,
    index: PrefixIndex,
    blocks: Blocks,
}

impl Rig {
    /// A target in a pool of blocks of `block` tokens.
    fn new(block: u32) -> Self {
        let mut blocks = Blocks::new(None, 1);
        blocks.learn(block);
        Self {
            residency: Residency::new(SLOT, 7, Bounds { orphans: 1000, pages: 100_000 }),
            index: PrefixIndex::new(IndexLimits { max_blocks: 1 << 20 }),
            blocks,
        }
    }

    fn apply(&mut self, event: &Event<'_>) {
        self.residency.apply(event, &mut Context { index: &mut self.index, blocks: &mut self.blocks });
    }

    fn holders(&self) -> BTreeSet<(u8, u64)> {
        let mut all = BTreeSet::new();
        self.index.for_each_holder(|slot, tier, block, _| {
            assert_eq!(slot, SLOT);
            all.insert((tier.index(), block.0));
        });
        all
    }

    fn on(&self, tier: Tier) -> BTreeSet<u64> {
        self.holders().into_iter().filter(|(on, _)| *on == tier.index()).map(|(_, block)| block).collect()
    }
}

fn ids(tokens: &[u32]) -> Vec<TokenId> {
    tokens.iter().copied().map(TokenId).collect()
}

fn own(tokens: &[u32], block: u32, seed: HashSeed) -> Vec<u64> {
    chain(&ids(tokens), BlockSize::new(block).unwrap(), seed).into_iter().map(|SequenceHash(hash)| hash).collect()
}

fn set(hashes: &[u64]) -> BTreeSet<u64> {
    hashes.iter().copied().collect()
}

/// A store of whole pages of `page` tokens; page `i` is called `names[i]`.
fn stored<'a>(names: &[u64], parent: Option<u64>, tokens: &[u32], page: u32) -> Stored<'a> {
    Stored {
        hashes: names.iter().copied().map(EngineHash).collect(),
        parent: parent.map(EngineHash),
        tokens: Tokens::Plain(ids(tokens)),
        block_size: Some(page),
        ..Stored::default()
    }
}

fn removed<'a>(names: &[u64], medium: Option<&'a str>) -> Event<'a> {
    Event::Removed(Removed {
        hashes: names.iter().copied().map(EngineHash).collect(),
        medium: medium.map(Into::into),
        ..Removed::default()
    })
}

const TOKENS: [u32; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

#[test]
fn duplicates_count_and_the_last_removal_ends_presence() {
    let mut rig = Rig::new(4);
    let store = Event::Stored(stored(&[1, 2, 3], None, &TOKENS, 4));
    rig.apply(&store);
    rig.apply(&store);
    let all = own(&TOKENS, 4, HashSeed::default());
    assert_eq!(rig.on(Tier::Device), set(&all));
    rig.apply(&removed(&[3, 2, 1], None));
    assert_eq!(rig.on(Tier::Device), set(&all));
    rig.apply(&removed(&[3, 2], None));
    assert_eq!(rig.on(Tier::Device), set(&all[..1]));
    rig.apply(&removed(&[1, 1, 9], None));
    assert!(rig.holders().is_empty());
    assert_eq!(rig.residency.counters().unknown_removals, 2);
    assert_eq!(rig.residency.counters().duplicates, 3);
    assert_eq!(rig.residency.pages(), 0);
}

#[test]
fn tiers_are_separate_and_every_spelling_finds_its_tier() {
    let mut rig = Rig::new(4);
    let all = own(&TOKENS, 4, HashSeed::default());
    rig.apply(&Event::Stored(Stored { medium: Some("GPU".into()), ..stored(&[1, 2, 3], None, &TOKENS, 4) }));
    rig.apply(&Event::Stored(Stored { medium: Some("CPU_PINNED".into()), ..stored(&[1, 2], None, &TOKENS[..8], 4) }));
    rig.apply(&Event::Stored(Stored { medium: Some("EXTERNAL".into()), ..stored(&[1], None, &TOKENS[..4], 4) }));
    assert_eq!(rig.on(Tier::Host), set(&all[..2]));
    assert_eq!(rig.on(Tier::Disk), set(&all[..1]));
    rig.apply(&removed(&[1, 2, 3], Some("gpu")));
    assert!(rig.on(Tier::Device).is_empty());
    assert_eq!(rig.on(Tier::Host), set(&all[..2]));
    // A child may still hang below a parent that only the host has.
    rig.apply(&Event::Stored(stored(&[3], Some(2), &TOKENS[8..], 4)));
    assert_eq!(rig.on(Tier::Device), set(&all[2..]));
    assert!(rig.residency.has_other_tiers());
    rig.apply(&Event::Stored(Stored { medium: Some("tape".into()), ..stored(&[8], None, &TOKENS[..4], 4) }));
    assert_eq!(rig.residency.counters().unindexable, 1);
}

#[test]
fn a_placeholder_places_what_is_known_and_nothing_else() {
    let mut rig = Rig::new(4);
    let all = own(&TOKENS, 4, HashSeed::default());
    rig.apply(&Event::Stored(stored(&[1, 2, 3], None, &TOKENS, 4)));
    let placeholder = Stored { medium: Some("CPU".into()), ..stored(&[1, 2, 77], None, &[], 0) };
    rig.apply(&Event::Stored(placeholder));
    assert_eq!(rig.on(Tier::Host), set(&all[..2]));
    rig.apply(&removed(&[77, 1], Some("CPU")));
    assert_eq!(rig.on(Tier::Host), set(&all[1..2]));
    assert_eq!(rig.residency.counters().unknown_removals, 1);
}

#[test]
fn remote_tiers_and_windows_are_not_indexed_and_their_removals_are_expected() {
    let mut rig = Rig::new(4);
    rig.apply(&Event::Stored(Stored { locality: Some("REMOTE".into()), ..stored(&[1], None, &TOKENS[..4], 4) }));
    let window = Stored { group: Some(1), kind: Some("sliding_window".into()), ..stored(&[2], None, &TOKENS[..4], 4) };
    rig.apply(&Event::Stored(window));
    rig.apply(&Event::Removed(Removed { hashes: vec![EngineHash(2)], group: Some(1), ..Removed::default() }));
    rig.apply(&Event::Removed(Removed {
        hashes: vec![EngineHash(1)],
        locality: Some("REMOTE".into()),
        ..Removed::default()
    }));
    assert!(rig.holders().is_empty());
    assert_eq!(rig.residency.counters().unknown_removals, 0);
    assert_eq!(rig.residency.counters().other_groups, 2);
}

#[test]
fn a_group_whose_kind_is_said_late() {
    let mut rig = Rig::new(4);
    // A removal is the first thing heard of group 2; its store then says that it is full attention.
    rig.apply(&Event::Removed(Removed { hashes: vec![EngineHash(9)], group: Some(2), ..Removed::default() }));
    let full = Stored { group: Some(2), kind: Some("mla_attention".into()), ..stored(&[1], None, &TOKENS[..4], 4) };
    rig.apply(&Event::Stored(full));
    assert_eq!(rig.on(Tier::Device), set(&own(&TOKENS[..4], 4, HashSeed::default())));
    // Group 0 is believed to be full attention until an event says otherwise.
    let mut rig = Rig::new(4);
    rig.apply(&Event::Stored(stored(&[1], None, &TOKENS[..4], 4)));
    let window = Stored { kind: Some("mamba".into()), ..stored(&[2], None, &TOKENS[4..8], 4) };
    rig.apply(&Event::Stored(window));
    assert!(rig.holders().is_empty());
}

#[test]
fn with_two_full_groups_a_block_needs_both() {
    let mut rig = Rig::new(4);
    let all = own(&TOKENS, 4, HashSeed::default());
    let group = |group, names: &[u64], tokens: &[u32]| {
        let kind = Some("full_attention".into());
        Event::Stored(Stored { group: Some(group), kind, ..stored(names, None, tokens, 4) })
    };
    let gone = |group, names: &[u64]| {
        let hashes = names.iter().copied().map(EngineHash).collect();
        Event::Removed(Removed { hashes, group: Some(group), ..Removed::default() })
    };
    rig.apply(&group(0, &[1, 2, 3], &TOKENS));
    assert_eq!(rig.on(Tier::Device), set(&all));
    rig.apply(&group(1, &[1, 2], &TOKENS[..8]));
    assert_eq!(rig.on(Tier::Device), set(&all[..2]));
    rig.apply(&gone(0, &[2]));
    assert_eq!(rig.on(Tier::Device), set(&all[..1]));
    rig.apply(&group(0, &[1, 2], &TOKENS[..8]));
    assert_eq!(rig.on(Tier::Device), set(&all[..2]));
    rig.apply(&gone(1, &[1, 2]));
    assert!(rig.holders().is_empty());
    rig.apply(&Event::Cleared);
    rig.apply(&group(1, &[1], &TOKENS[..4]));
    assert_eq!(rig.on(Tier::Device), set(&all[..1]));
}

#[test]
fn orphans_wait_for_their_parents_in_any_order() {
    let mut rig = Rig::new(4);
    let all = own(&TOKENS, 4, HashSeed::default());
    rig.apply(&Event::Stored(stored(&[3], Some(2), &TOKENS[8..], 4)));
    rig.apply(&Event::Stored(stored(&[3], Some(2), &TOKENS[8..], 4)));
    rig.apply(&Event::Stored(stored(&[2], Some(1), &TOKENS[4..8], 4)));
    assert_eq!((rig.residency.orphans(), rig.holders().len()), (2, 0));
    rig.apply(&removed(&[3], None));
    rig.apply(&Event::Stored(stored(&[1], None, &TOKENS[..4], 4)));
    assert_eq!(rig.residency.orphans(), 0);
    assert_eq!(rig.on(Tier::Device), set(&all));
    rig.apply(&removed(&[3], None));
    assert_eq!(rig.on(Tier::Device), set(&all[..2]));
    // An orphan that is removed leaves nothing behind.
    rig.apply(&Event::Stored(stored(&[9], Some(8), &TOKENS[..4], 4)));
    rig.apply(&removed(&[9], None));
    assert_eq!(rig.residency.orphans(), 0);
    assert_eq!(rig.residency.counters().unknown_removals, 0);
}

#[test]
fn orphans_are_bounded_and_the_oldest_go_first() {
    let mut rig = Rig::new(4);
    for name in 0..1500_u64 {
        rig.apply(&Event::Stored(stored(&[10_000 + name], Some(1_000_000 + name), &TOKENS[..4], 4)));
    }
    assert_eq!(rig.residency.orphans(), 1000);
    assert_eq!(rig.residency.counters().orphans_dropped, 500);
    rig.apply(&Event::Stored(stored(&[1_001_499], None, &TOKENS[..4], 4)));
    assert_eq!(rig.residency.orphans(), 999);
}

#[test]
fn adapter_salt_and_images_enter_the_name() {
    let plain = own(&TOKENS[..8], 4, HashSeed::default());
    let salted = own(&TOKENS[..8], 4, HashSeed::new(Some("adapter"), Some("tenant")));
    // vLLM: the salt is a bare string among the first block's keys, and later events do not repeat it.
    let mut rig = Rig::new(4);
    let text = |text: &'static str| ExtraKey::Text(text.into());
    rig.apply(&Event::Stored(Stored {
        lora_id: Some(1),
        lora_name: Some("adapter".into()),
        extra_keys: vec![vec![text("adapter"), text("tenant")]],
        ..stored(&[1], None, &TOKENS[..4], 4)
    }));
    let child = |parent| Stored {
        lora_name: Some("adapter".into()),
        extra_keys: vec![vec![text("adapter")]],
        ..stored(&[2], Some(parent), &TOKENS[4..8], 4)
    };
    rig.apply(&Event::Stored(child(1)));
    assert_eq!(rig.on(Tier::Device), set(&salted));
    // SGLang: a field of its own in every event.
    let mut rig = Rig::new(4);
    let both = Stored { lora_name: Some("adapter".into()), cache_salt: Some("tenant".into()), ..Stored::default() };
    rig.apply(&Event::Stored(Stored { ..with(&both, stored(&[1, 2], None, &TOKENS[..8], 4)) }));
    assert_eq!(rig.on(Tier::Device), set(&salted));
    // An image changes its block and everything behind it; the text before it keeps its name.
    let mut rig = Rig::new(4);
    let image = |offset| ExtraKey::Item { id: "image".into(), offset };
    rig.apply(&Event::Stored(Stored {
        extra_keys: vec![vec![], vec![image(1)]],
        ..stored(&[1, 2], None, &TOKENS[..8], 4)
    }));
    let held = rig.on(Tier::Device);
    assert!(held.contains(&plain[0]) && !held.contains(&plain[1]) && held.len() == 2);
    // A number instead of the adapter's name says too little, and so does all that follows.
    let mut rig = Rig::new(4);
    rig.apply(&Event::Stored(Stored { lora_id: Some(2), ..stored(&[1], None, &TOKENS[..4], 4) }));
    rig.apply(&Event::Stored(stored(&[2], Some(1), &TOKENS[4..8], 4)));
    assert!(rig.holders().is_empty());
    assert_eq!(rig.residency.orphans(), 0);
    rig.apply(&removed(&[2, 1], None));
    assert_eq!(rig.residency.counters().unknown_removals, 0);
}

fn with<'a>(names: &Stored<'a>, event: Stored<'a>) -> Stored<'a> {
    Stored { lora_name: names.lora_name.clone(), cache_salt: names.cache_salt.clone(), ..event }
}

#[test]
fn masked_blocks_and_digests_among_tokens_are_dead_ends() {
    let mut rig = Rig::new(4);
    rig.apply(&Event::Stored(stored(&[1, 2], None, &TOKENS, 4)));
    rig.apply(&Event::Stored(Stored {
        tokens: Tokens::Unindexable { positions: 4 },
        ..stored(&[3], Some(2), &TOKENS[..4], 4)
    }));
    rig.apply(&Event::Stored(stored(&[4], Some(3), &TOKENS[..4], 4)));
    rig.apply(&Event::Stored(stored(&[], None, &TOKENS, 4)));
    assert!(rig.holders().is_empty());
    assert_eq!((rig.residency.orphans(), rig.residency.fault()), (0, Some(Reason::Unindexable)));
    rig.apply(&removed(&[4, 3, 2, 1], None));
    assert_eq!((rig.residency.pages(), rig.residency.counters().unknown_removals), (0, 0));
}

#[test]
fn blocks_that_move_between_levels() {
    let mut rig = Rig::new(4);
    let all = own(&TOKENS[..4], 4, HashSeed::default());
    rig.apply(&Event::Stored(stored(&[1], None, &TOKENS[..4], 4)));
    rig.apply(&Event::Moved(Moved { hash: EngineHash(1), from_level: 0, to_level: 1 }));
    assert!(rig.on(Tier::Device).is_empty());
    assert_eq!(rig.on(Tier::Host), set(&all));
    rig.apply(&Event::Removed(Removed { hashes: vec![EngineHash(1)], every_tier: true, ..Removed::default() }));
    assert!(rig.holders().is_empty());
    assert_eq!(rig.residency.counters().unknown_removals, 0);
}

#[test]
fn hashes_that_do_not_name_prefixes_are_noticed() {
    let mut rig = Rig::new(4);
    rig.apply(&Event::Stored(stored(&[1, 2], None, &TOKENS[..8], 4)));
    rig.apply(&Event::Stored(stored(&[2, 1], None, &TOKENS[..8], 4)));
    assert_eq!(rig.residency.counters().hash_conflicts, 2);
    let mut rig = Rig::new(4);
    rig.apply(&Event::Stored(stored(&[1, 2], None, &TOKENS[..4], 2)));
    rig.apply(&Event::Stored(stored(&[1], Some(2), &TOKENS[..2], 2)));
    assert_eq!(rig.residency.counters().hash_conflicts, 1);
}

#[test]
fn pages_that_do_not_fit_blocks_are_dead_ends() {
    let mut rig = Rig::new(8);
    rig.apply(&Event::Stored(stored(&[1], None, &TOKENS, 12)));
    rig.apply(&Event::Stored(stored(&[2], None, &TOKENS[..6], 6)));
    rig.apply(&Event::Stored(stored(&[3], Some(2), &TOKENS[..6], 6)));
    assert!(rig.holders().is_empty());
    assert_eq!(rig.residency.counters().misaligned, 2);
}

#[test]
fn a_target_beyond_its_bound_starts_afresh() {
    let mut rig = Rig::new(4);
    rig.residency = Residency::new(SLOT, 7, Bounds { orphans: 10, pages: 100 });
    for name in 0..101_u32 {
        rig.apply(&Event::Stored(stored(&[u64::from(name)], None, &[name, 0, 0, 0], 4)));
    }
    assert_eq!((rig.residency.counters().overflows, rig.residency.pages()), (1, 0));
    assert!(rig.holders().is_empty());
}

/// What a target holds, by the book: every page ever stored with its whole prefix, and references.
#[derive(Default)]
struct Truth {
    prefixes: HashMap<u64, Vec<u32>>,
    refs: BTreeMap<(u8, u64), u32>,
}

impl Truth {
    fn name(prefix: &[u32]) -> u64 {
        xxh3_64(&prefix.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<_>>())
    }

    fn has(&self, tier: u8, prefix: &[u32]) -> bool {
        self.refs.get(&(tier, Self::name(prefix))).is_some_and(|refs| *refs > 0)
    }

    /// Blocks all of whose pages are present.
    fn holders(&self, page: usize, block: usize) -> BTreeSet<(u8, u64)> {
        let mut all = BTreeSet::new();
        for tier in 0..3 {
            for prefix in self.prefixes.values() {
                let hashes = own(prefix, block as u32, HashSeed::default());
                for (at, hash) in hashes.iter().enumerate() {
                    let (first, last) = (at * block, (at + 1) * block);
                    let mut ends = (1..=prefix.len() / page).map(|pages| pages * page);
                    if ends.all(|end| end <= first || end >= last + page || self.has(tier, &prefix[..end])) {
                        all.insert((tier, *hash));
                    }
                }
            }
        }
        all
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Random stores below resident pages, duplicates, second tiers, removals in any order, clears: the index always equals
/// the book, for pages smaller than, equal to and larger than a block.
#[test]
fn random_lives_equal_the_book() {
    for (page, block) in [(4, 4), (1, 4), (2, 4), (8, 4), (1, 6), (3, 6), (12, 4), (2, 8)] {
        for seed in 1..=12 {
            random_life(page, block, seed);
        }
    }
}

fn random_life(page: usize, block: usize, seed: u64) {
    let mut dice = Dice(seed * 0x9e37_79b9 + page as u64);
    let mut rig = Rig::new(block as u32);
    let mut truth = Truth::default();
    let media = ["GPU", "CPU", "DISK"];
    for step in 0..100 {
        match dice.roll(20) {
            0 if step % 3 == 0 => {
                rig.apply(&Event::Cleared);
                truth = Truth::default();
            }
            0..12 => {
                let tier = [0, 0, 0, 1, 2][dice.roll(5)];
                // Behind a resident page, or from the root; few different tokens, so that chains meet again.
                let residents: Vec<u64> =
                    truth.refs.iter().filter(|(_, refs)| **refs > 0).map(|(key, _)| key.1).collect();
                let parent = (dice.roll(4) > 0 && !residents.is_empty()).then(|| residents[dice.roll(residents.len())]);
                let mut prefix = parent.map(|parent| truth.prefixes[&parent].clone()).unwrap_or_default();
                let start = prefix.len();
                let mut names = Vec::new();
                for _ in 0..1 + dice.roll(2 * block / page + 2) {
                    for _ in 0..page {
                        prefix.push(dice.roll(if page > 4 { 2 } else { 3 }) as u32 / 2);
                    }
                    let name = Truth::name(&prefix);
                    names.push(name);
                    truth.prefixes.insert(name, prefix.clone());
                    *truth.refs.entry((tier as u8, name)).or_default() += 1;
                }
                let event = stored(&names, parent, &prefix[start..], page as u32);
                rig.apply(&Event::Stored(Stored { medium: Some(media[tier].into()), ..event }));
            }
            _ => {
                let held: Vec<(u8, u64)> =
                    truth.refs.iter().filter(|(_, refs)| **refs > 0).map(|(key, _)| *key).collect();
                if let Some((tier, name)) = (!held.is_empty()).then(|| held[dice.roll(held.len())]) {
                    rig.apply(&removed(&[name], Some(media[usize::from(tier)])));
                    *truth.refs.get_mut(&(tier, name)).unwrap() -= 1;
                }
            }
        }
        let context = format!("page {page} block {block} seed {seed} step {step}");
        assert_eq!(rig.holders(), truth.holders(page, block), "{context}");
    }
    assert_eq!(rig.residency.counters().unknown_removals, 0);
    assert_eq!(rig.residency.counters().hash_conflicts, 0);
    assert_eq!(rig.residency.orphans(), 0);
    for ((tier, name), refs) in truth.refs {
        for _ in 0..refs {
            rig.apply(&removed(&[name], Some(media[usize::from(tier)])));
        }
    }
    assert_eq!(rig.residency.pages(), 0, "page {page} block {block} seed {seed}: something is never forgotten");
    assert!(rig.holders().is_empty());
}

fn on<'a>(medium: &'static str, event: Stored<'a>) -> Event<'a> {
    Event::Stored(Stored { medium: Some(medium.into()), ..event })
}

/// Four blocks of four tokens, of which an offload chunk holds all, called like the last.
const LONG: [u32; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

#[test]
fn a_chunk_of_several_blocks_is_not_the_block_it_is_called_like() {
    let all = own(&LONG, 4, HashSeed::default());
    let blocks = || on("GPU", stored(&[1, 2, 3, 4], None, &LONG, 4));
    let chunk = || on("CPU", stored(&[4], None, &LONG, 16));
    for order in [[blocks(), chunk()], [chunk(), blocks()]] {
        let mut rig = Rig::new(4);
        order.iter().for_each(|event| rig.apply(event));
        assert_eq!((rig.on(Tier::Device), rig.on(Tier::Host)), (set(&all), set(&all)), "{order:?}");
        assert_eq!((rig.residency.fault(), rig.residency.pages()), (None, 5));
        // What follows stands behind either.
        rig.apply(&on("CPU", stored(&[8], Some(4), &LONG, 16)));
        assert_eq!(rig.on(Tier::Host).len(), 8);
        rig.apply(&removed(&[8], Some("CPU")));
        rig.apply(&removed(&[4], Some("GPU")));
        assert_eq!((rig.on(Tier::Device), rig.on(Tier::Host)), (set(&all[..3]), set(&all)));
        rig.apply(&removed(&[4], Some("CPU")));
        assert_eq!((rig.on(Tier::Device), rig.on(Tier::Host)), (set(&all[..3]), set(&[])));
        assert_eq!(rig.residency.counters().unknown_removals, 0);
    }
    // The pool's blocks were learned from the chunks: the device's pages are parts of them.
    let whole = own(&LONG, 16, HashSeed::default());
    for order in [[blocks(), chunk()], [chunk(), blocks()]] {
        let mut rig = Rig::new(16);
        order.iter().for_each(|event| rig.apply(event));
        assert_eq!((rig.on(Tier::Device), rig.on(Tier::Host)), (set(&whole), set(&whole)), "{order:?}");
        assert_eq!(rig.residency.fault(), None);
        rig.apply(&removed(&[4], Some("GPU")));
        assert_eq!((rig.on(Tier::Device), rig.on(Tier::Host)), (set(&[]), set(&whole)));
    }
    // On one tier a removal could mean either.
    let mut rig = Rig::new(4);
    rig.apply(&blocks());
    rig.apply(&on("GPU", stored(&[4], None, &LONG, 16)));
    assert_eq!(rig.residency.fault(), Some(Reason::HashConflict));
}

#[test]
fn the_seed_of_a_chain_outlives_one_of_two_pages_of_a_name() {
    let salted = HashSeed::new(None, Some("tenant"));
    let all = own(&LONG, 4, salted);
    let with_salt = |event| Stored { cache_salt: Some("tenant".into()), ..event };
    let mut rig = Rig::new(4);
    rig.apply(&on("GPU", with_salt(stored(&[1, 2], None, &LONG[..8], 4))));
    rig.apply(&on("CPU", with_salt(stored(&[2], None, &LONG[..8], 8))));
    rig.apply(&removed(&[2], Some("CPU")));
    rig.apply(&on("GPU", stored(&[3], Some(2), &LONG[8..12], 4)));
    assert_eq!(rig.on(Tier::Device), set(&all[..3]));
}

#[test]
fn large_chunks_elsewhere_do_not_make_the_devices_orphans_immaterial() {
    let mut rig = Rig::new(4);
    rig.apply(&on("CPU", stored(&[4], None, &LONG, 16)));
    rig.apply(&on("GPU", stored(&[21], Some(20), &LONG[..4], 4)));
    assert_eq!(rig.residency.fault(), Some(Reason::Orphans));
    // Its parent appears, and with it the block.
    rig.apply(&on("GPU", stored(&[20], None, &LONG[4..8], 4)));
    assert_eq!((rig.residency.fault(), rig.on(Tier::Device).len()), (None, 2));
    // A unit of an unfinished page is immaterial, and one whose page is still to be seen is not.
    rig.apply(&on("GPU", stored(&[31], Some(30), &LONG[..2], 2)));
    assert_eq!((rig.residency.orphans(), rig.residency.fault()), (1, None));
    rig.apply(&on("DISK", stored(&[31], Some(30), &LONG[..2], 2)));
    assert_eq!(rig.residency.fault(), Some(Reason::Orphans));
    rig.apply(&removed(&[31], Some("DISK")));
    assert_eq!((rig.residency.orphans(), rig.residency.fault()), (1, None));
}

#[test]
fn orphans_that_are_dropped_are_missing_until_a_clear() {
    let mut rig = Rig::new(4);
    for name in 0..1001_u64 {
        rig.apply(&Event::Stored(stored(&[10_000 + name], Some(1_000_000 + name), &TOKENS[..4], 4)));
    }
    for name in 0..1001_u64 {
        rig.apply(&removed(&[10_000 + name], None));
    }
    assert_eq!((rig.residency.orphans(), rig.residency.fault()), (0, Some(Reason::Orphans)));
    rig.apply(&Event::Cleared);
    assert_eq!(rig.residency.fault(), None);
}

#[test]
fn two_pages_of_a_name_cannot_both_wait() {
    let mut rig = Rig::new(4);
    rig.apply(&on("GPU", stored(&[8], Some(7), &LONG[..4], 4)));
    rig.apply(&on("CPU", stored(&[8], Some(6), &LONG, 16)));
    rig.apply(&on("GPU", stored(&[7], None, &LONG[4..8], 4)));
    assert_eq!((rig.on(Tier::Device).len(), rig.on(Tier::Host).len()), (2, 0));
    assert_eq!(rig.residency.fault(), Some(Reason::Orphans));
}

#[test]
fn a_page_that_waits_keeps_its_references_when_it_is_announced_with_its_chain() {
    let mut rig = Rig::new(4);
    // By its name it waits for 9; by the chain announced later it stands behind 1.
    rig.apply(&on("CPU", stored(&[2], Some(9), &TOKENS[4..8], 4)));
    rig.apply(&on("GPU", stored(&[1, 2], None, &TOKENS[..8], 4)));
    rig.apply(&on("GPU", stored(&[9], None, &TOKENS[..4], 4)));
    rig.apply(&removed(&[2], Some("GPU")));
    assert_eq!(rig.residency.counters().unknown_removals, 0);
    assert_eq!(rig.on(Tier::Host).len(), 1);
}

#[test]
fn pages_that_wait_move_between_levels_as_well() {
    let mut rig = Rig::new(4);
    let all = own(&TOKENS[..8], 4, HashSeed::default());
    rig.apply(&Event::Stored(stored(&[2], Some(1), &TOKENS[4..8], 4)));
    rig.apply(&Event::Moved(Moved { hash: EngineHash(2), from_level: 0, to_level: 1 }));
    rig.apply(&Event::Stored(stored(&[1], None, &TOKENS[..4], 4)));
    assert_eq!((rig.on(Tier::Device), rig.on(Tier::Host)), (set(&all[..1]), set(&all[1..])));
    assert_eq!(rig.residency.counters().unknown_removals, 0);
}

#[test]
fn placeholders_leave_something_unknown() {
    let mut rig = Rig::new(4);
    rig.apply(&on("GPU", stored(&[1], None, &TOKENS[..4], 4)));
    assert_eq!(rig.residency.fault(), None);
    rig.apply(&on("CPU", stored(&[7], None, &[], 0)));
    assert_eq!(rig.residency.fault(), Some(Reason::Placeholders));
}

#[test]
fn an_announcement_that_need_not_mean_a_copy_leaves_a_doubt_once_one_copy_is_gone() {
    let again = |event| Event::Stored(Stored { may_repeat: true, ..event });
    let mut rig = Rig::new(4);
    rig.apply(&Event::Stored(stored(&[1, 2], None, &TOKENS[..8], 4)));
    rig.apply(&again(stored(&[1, 2], None, &TOKENS[..8], 4)));
    // Nothing was removed, so both are there.
    assert_eq!(rig.residency.fault(), None);
    rig.apply(&removed(&[2], None));
    assert_eq!((rig.residency.fault(), rig.holders().len()), (Some(Reason::Duplicates), 2));
    // It was a copy after all.
    rig.apply(&removed(&[2], None));
    assert_eq!((rig.residency.fault(), rig.holders().len()), (None, 1));
    rig.apply(&removed(&[1], None));
    assert_eq!(rig.residency.fault(), Some(Reason::Duplicates));
    // Announced anew it is there for sure.
    rig.apply(&again(stored(&[1], None, &TOKENS[..4], 4)));
    assert_eq!((rig.residency.fault(), rig.holders().len()), (None, 1));
    // Copies of engines that announce nothing twice are counted.
    let mut rig = Rig::new(4);
    for _ in 0..2 {
        rig.apply(&Event::Stored(stored(&[1], None, &TOKENS[..4], 4)));
    }
    rig.apply(&removed(&[1], None));
    assert_eq!((rig.residency.fault(), rig.holders().len()), (None, 1));
}

#[test]
fn more_than_the_engine_has_room_for_is_not_believed() {
    let capacity = |rig: &mut Rig, tokens| {
        rig.residency.compare_capacity(tokens, &mut Context { index: &mut rig.index, blocks: &mut rig.blocks });
    };
    let mut rig = Rig::new(4);
    let tokens: Vec<u32> = (0..4000).collect();
    let names: Vec<u64> = (1..=1000).collect();
    let twice = Stored { may_repeat: true, ..stored(&names, None, &tokens, 4) };
    rig.apply(&Event::Stored(twice.clone()));
    rig.apply(&Event::Stored(twice));
    rig.apply(&removed(&names[500..], None));
    // 4,000 tokens fit; the engine need not say how many do.
    for known in [0, 4000] {
        capacity(&mut rig, known);
        assert_eq!((rig.residency.fault(), rig.holders().len()), (Some(Reason::Duplicates), 1000));
    }
    // There is room for 500 blocks and a little more: those in doubt are the phantoms.
    capacity(&mut rig, 2000);
    assert_eq!((rig.residency.fault(), rig.holders().len()), (Some(Reason::Duplicates), 500));
    // What is left can still not be.
    capacity(&mut rig, 1000);
    assert_eq!((rig.residency.fault(), rig.holders().len()), (Some(Reason::Overcounted), 500));
    rig.apply(&Event::Cleared);
    assert_eq!(rig.residency.fault(), None);
}

#[test]
fn blocks_that_depend_on_the_token_behind_them_are_labelled() {
    let mut rig = Rig::new(4);
    let pairs = Tokens::Pairs { first: ids(&TOKENS[..4]), next: TokenId(99) };
    rig.apply(&Event::Stored(Stored { tokens: pairs, ..stored(&[1], None, &[], 4) }));
    assert_eq!((rig.holders().len(), rig.residency.fault()), (1, Some(Reason::Lookahead)));
    let mut rig = Rig::new(4);
    rig.apply(&Event::Stored(Stored { lookahead: vec![vec![99]], ..stored(&[1], None, &TOKENS[..4], 4) }));
    assert_eq!((rig.holders().len(), rig.residency.fault()), (1, Some(Reason::Lookahead)));
}

#[test]
fn a_lone_page_that_turns_out_to_have_been_whole_is_missing() {
    let lone = |name, tokens: &[u32]| {
        Event::Stored(Stored { may_be_partial: true, ..stored(&[name], None, tokens, tokens.len() as u32) })
    };
    for (first, fault) in [(8, None), (16, Some(Reason::PageSize))] {
        let mut rig = Rig::new(4);
        rig.blocks = Blocks::new(None, 1);
        rig.apply(&lone(1, &LONG[..first]));
        assert_eq!((rig.residency.fault(), rig.holders().len()), (None, 0));
        let tokens: Vec<u32> = (0..16).collect();
        rig.apply(&on("GPU", stored(&[2], None, &tokens, 16)));
        assert_eq!((rig.residency.fault(), rig.holders().len()), (fault, 1), "{first}");
    }
}

#[test]
fn groups_of_unknown_kinds_leave_it_open_which_one_is_full() {
    let mut rig = Rig::new(4);
    rig.apply(&Event::Stored(Stored { group: Some(0), ..stored(&[1], None, &TOKENS[..4], 4) }));
    assert_eq!(rig.residency.fault(), None);
    rig.apply(&Event::Stored(Stored { group: Some(1), ..stored(&[1], None, &TOKENS[..4], 4) }));
    assert_eq!(rig.residency.fault(), Some(Reason::GroupKinds));
}

#[test]
fn whatever_an_engine_can_use_and_the_index_does_not_have_is_a_fault() {
    let plain = stored(&[1], None, &TOKENS[..4], 4);
    let cases = [
        (Stored { lora_id: Some(3), ..plain.clone() }, Some(Reason::Unindexable)),
        (Stored { medium: Some("MyLMCacheBackend".into()), ..plain.clone() }, Some(Reason::Unindexable)),
        (Stored { extra_keys: vec![vec![ExtraKey::Other]], ..plain.clone() }, Some(Reason::Unindexable)),
        (stored(&[1, 2], None, &TOKENS, 4), Some(Reason::Unindexable)),
        // No prompt of ours has a digest among its tokens.
        (Stored { tokens: Tokens::Unindexable { positions: 4 }, ..plain.clone() }, None),
        (plain, None),
    ];
    for (event, fault) in cases {
        let mut rig = Rig::new(4);
        rig.apply(&Event::Stored(event.clone()));
        assert_eq!(rig.residency.fault(), fault, "{event:?}");
        rig.apply(&Event::Cleared);
        assert_eq!(rig.residency.fault(), None);
    }
    let mut rig = Rig::new(4);
    rig.apply(&Event::Stored(stored(&[1], None, &TOKENS[..4], 4)));
    rig.apply(&Event::Moved(Moved { hash: EngineHash(1), from_level: 0, to_level: 7 }));
    assert_eq!(rig.residency.fault(), Some(Reason::Unindexable));
}

#[test]
fn offloaded_chunks_do_not_tell_the_block_size() {
    let mut rig = Rig { blocks: Blocks::new(None, 1), ..Rig::new(4) };
    let chunk = Stored { medium: Some("CPU".into()), ..stored(&[9], None, &TOKENS, 12) };
    rig.apply(&Event::Stored(chunk.clone()));
    assert_eq!((rig.blocks.size(), rig.residency.fault()), (None, Some(Reason::Unindexable)));
    rig.apply(&Event::Stored(stored(&[1], None, &TOKENS[..4], 4)));
    assert_eq!((rig.blocks.size(), rig.residency.page_tokens()), (BlockSize::new(4), Some(4)));
    rig.apply(&Event::Stored(chunk));
    assert_eq!(rig.on(Tier::Device), set(&own(&TOKENS[..4], 4, HashSeed::default())));
    assert_eq!(rig.on(Tier::Host), set(&own(&TOKENS, 4, HashSeed::default())));
    assert_eq!(rig.residency.page_tokens(), Some(4));
}

#[test]
fn bytes_are_known_without_asking_every_strip() {
    let mut rig = Rig::new(4);
    let tokens: Vec<u32> = (0..64).collect();
    let check = |rig: &Rig| {
        for group in rig.residency.full_groups() {
            assert_eq!(group.bytes(), group.counted_bytes());
        }
    };
    rig.apply(&Event::Stored(stored(&(100..164).collect::<Vec<_>>(), None, &tokens, 1)));
    // Branches inside a block, chunks of several blocks, and then everything goes.
    rig.apply(&Event::Stored(stored(&[200, 201, 202], Some(110), &tokens[40..43], 1)));
    rig.apply(&Event::Stored(stored(&[300, 301], None, &tokens, 32)));
    check(&rig);
    assert!(rig.residency.full_groups().all(|group| group.bytes() > 64 * size_of::<u64>()));
    let wide = rig.residency.bytes();
    rig.apply(&removed(&[301, 300], None));
    assert_eq!(rig.residency.bytes(), wide - 16 * size_of::<SequenceHash>());
    for name in (100..164).chain(200..203).rev() {
        rig.apply(&removed(&[name], None));
        check(&rig);
    }
    assert_eq!(rig.residency.pages(), 0);
}
