use super::*;
use crate::events::{BlockStored, KvEvent};

const BLOCK: usize = 4;

struct Cache {
    pool: BlockPool,
    hasher: BlockHasher,
}

impl Cache {
    /// `blocks` usable blocks.
    fn new(blocks: u32) -> Self {
        Self { pool: BlockPool::new(blocks + 1), hasher: BlockHasher::new("0") }
    }

    fn table(&self, tokens: &[u32]) -> BlockTable {
        self.scoped(tokens, CacheScope::default())
    }

    fn scoped(&self, tokens: &[u32], scope: CacheScope) -> BlockTable {
        let mut table = BlockTable::new(BLOCK, scope);
        table.extend_hashes(&self.hasher, tokens);
        table
    }

    /// Computes `tokens` to the end; returns the table and how many blocks were found cached.
    fn compute(&mut self, tokens: &[u32]) -> (BlockTable, usize) {
        let mut table = self.table(tokens);
        let found = table.find_cached(&self.pool, tokens.len());
        assert!(table.reserve(&mut self.pool, &found, tokens.len()));
        table.cache_full(&mut self.pool, tokens, tokens.len());
        (table, found.len())
    }

    /// Computes and frees; returns how many blocks were found cached.
    fn pass(&mut self, tokens: &[u32]) -> usize {
        let (mut table, found) = self.compute(tokens);
        table.release(&mut self.pool);
        found
    }

    fn removed(&mut self) -> Vec<u64> {
        let hash = |event| if let KvEvent::Removed { hash } = event { Some(hash) } else { None };
        self.pool.take_events().into_iter().filter_map(hash).collect()
    }
}

fn tokens(from: u32, count: u32) -> Vec<u32> {
    (from..from + count).collect()
}

fn event_ids(cache: &Cache, tokens: &[u32]) -> Vec<u64> {
    cache.table(tokens).hashes().iter().map(BlockHash::event_id).collect()
}

/// Published vectors of the default algorithm with the default seed (vLLM 0.29 and later).
#[test]
fn hashes_equal_vllms_own() {
    let hasher = BlockHasher::new(DEFAULT_HASH_SEED);
    let first = hasher.block(None, &[10, 11, 12, 13], &[]);
    let second = hasher.block(Some(&first), &[14, 15, 16, 17], &[]);
    assert_eq!(first.event_id(), 4910175699492360673);
    assert_eq!(second.event_id(), 1028229616873232029);
}

/// Made with CPython 3.11: `sha256(pickle.dumps((sha256(pickle.dumps("0", 5)).digest(), tokens, keys), 5))`.
#[test]
fn hashes_equal_cpython_for_every_integer_width_and_key() {
    let hasher = BlockHasher::new("0");
    let lora = ExtraKey::Lora { name: "sql".to_owned(), path: "/weights/sql".to_owned() };
    let salt = ExtraKey::CacheSalt("tenant-1".to_owned());
    let long = ExtraKey::CacheSalt("s".repeat(300));
    let tokens = [0, 255, 256, 65535, 65536, 2147483647, 2147483648, 4294967295];
    let id = |tokens: &[u32], keys: &[ExtraKey]| hasher.block(None, tokens, keys).event_id();
    assert_eq!(id(&tokens, &[]), 4369798409791846956);
    assert_eq!(id(&[1], std::slice::from_ref(&lora)), 2058425695677995866);
    assert_eq!(id(&[1, 2], &[lora, salt]), 16199413594152948719);
    assert_eq!(id(&[1, 2, 3], &[long]), 17945197308628554904);
}

#[test]
fn a_shared_prefix_is_found_and_the_last_token_is_computed_anew() {
    let mut cache = Cache::new(16);
    assert_eq!(cache.pass(&tokens(0, 12)), 0);
    // Three full blocks are cached, but the last token must be computed: one block less.
    assert_eq!(cache.pass(&tokens(0, 12)), 2);
    assert_eq!(cache.pass(&tokens(0, 13)), 3);
    let mut diverging = tokens(0, 12);
    diverging[5] = 99;
    assert_eq!(cache.pass(&diverging), 1);
}

#[test]
fn only_full_blocks_are_announced_and_a_run_is_one_event() {
    let mut cache = Cache::new(16);
    let prompt = tokens(0, 10);
    let ids = event_ids(&cache, &prompt);
    let (mut table, _) = cache.compute(&prompt);
    let expected = BlockStored {
        block_hashes: ids.clone(),
        parent_block_hash: None,
        token_ids: tokens(0, 8),
        block_size: 4,
        lora_id: None,
        lora_name: None,
        extra_keys: vec![None, None],
    };
    assert_eq!(cache.pool.take_events(), vec![KvEvent::Stored(expected)]);
    // Two more tokens complete the third block, which hangs under the second.
    let longer = tokens(0, 12);
    table.extend_hashes(&cache.hasher, &longer);
    assert!(table.reserve(&mut cache.pool, &[], 12));
    table.cache_full(&mut cache.pool, &longer, 12);
    let events = cache.pool.take_events();
    let [KvEvent::Stored(stored)] = events.as_slice() else { panic!("one store, got {events:?}") };
    assert_eq!((stored.parent_block_hash, stored.token_ids.as_slice()), (Some(ids[1]), &longer[8..12]));
}

#[test]
fn the_least_recently_used_prompt_goes_first_and_its_tail_before_its_head() {
    let mut cache = Cache::new(6);
    let (old, young) = (tokens(0, 12), tokens(100, 12));
    cache.pass(&old);
    cache.pass(&young);
    // Using the old prompt again makes the other one the oldest.
    assert_eq!(cache.pass(&tokens(0, 12)), 2);
    cache.removed();
    let ids = event_ids(&cache, &young);
    cache.pass(&tokens(200, 8));
    assert_eq!(cache.removed(), vec![ids[2], ids[1]]);
}

#[test]
fn blocks_without_content_are_handed_out_before_cached_ones() {
    let mut cache = Cache::new(5);
    cache.pass(&tokens(0, 8));
    // Two full blocks and one partial: the pool is full, and the partial block was freed last.
    cache.pass(&tokens(100, 9));
    cache.removed();
    cache.pass(&tokens(200, 4));
    assert!(cache.removed().is_empty(), "the partial block is reused although cached ones are older");
    cache.pass(&tokens(300, 4));
    assert_eq!(cache.removed().len(), 1);
}

#[test]
fn blocks_in_use_are_never_evicted() {
    let mut cache = Cache::new(4);
    let (mut held, _) = cache.compute(&tokens(0, 8));
    let mut other = cache.table(&tokens(100, 12));
    assert!(!other.reserve(&mut cache.pool, &[], 12), "only two blocks are free");
    assert!(other.blocks().is_empty());
    assert_eq!(cache.pool.free_blocks(), 2);
    held.release(&mut cache.pool);
    assert!(other.reserve(&mut cache.pool, &[], 12));
}

#[test]
fn a_shared_block_stays_until_its_last_user_leaves() {
    let mut cache = Cache::new(8);
    let (mut first, _) = cache.compute(&tokens(0, 9));
    let (mut second, found) = cache.compute(&tokens(0, 9));
    assert_eq!(found, 2);
    let shared = first.blocks()[0];
    assert_eq!(shared, second.blocks()[0]);
    assert_eq!(cache.pool.references(shared), 2);
    first.release(&mut cache.pool);
    assert_eq!(cache.pool.references(shared), 1);
    assert_eq!(cache.pool.free_blocks(), 5);
    second.release(&mut cache.pool);
    assert_eq!(cache.pool.free_blocks(), 8);
}

#[test]
fn found_blocks_that_nobody_uses_count_against_the_free_ones() {
    let mut cache = Cache::new(3);
    cache.pass(&tokens(0, 8));
    // Two cached blocks are free and one block is empty: the prompt needs two more than it finds.
    let longer = tokens(0, 16);
    let mut table = cache.table(&longer);
    let found = table.find_cached(&cache.pool, longer.len());
    assert_eq!(found.len(), 2);
    assert!(!table.reserve(&mut cache.pool, &found, longer.len()));
    assert!(table.reserve(&mut cache.pool, &found, 12));
}

/// Two requests that compute the same prompt at once keep two copies; the hash can be hit until both are gone.
#[test]
fn equal_content_computed_twice_is_announced_and_removed_twice() {
    let mut cache = Cache::new(4);
    let prompt = tokens(0, 4);
    let id = event_ids(&cache, &prompt)[0];
    // One block: the hit limit leaves the whole prompt to be computed, by both.
    let (mut first, _) = cache.compute(&prompt);
    let (mut second, _) = cache.compute(&prompt);
    assert_eq!(cache.pool.take_events().len(), 2);
    assert_eq!(cache.pool.cached_contents().iter().map(|(_, copies)| *copies).collect::<Vec<_>>(), vec![2]);
    assert_eq!(cache.pool.lookup(&first.hashes()[0]), Some(first.blocks()[0]));
    first.release(&mut cache.pool);
    second.release(&mut cache.pool);
    let survivor = second.hashes()[0];
    cache.pass(&tokens(100, 12));
    assert_eq!(cache.removed(), vec![id]);
    assert!(cache.pool.lookup(&survivor).is_some());
    cache.pass(&tokens(200, 16));
    assert!(cache.removed().contains(&id));
    assert!(cache.pool.lookup(&survivor).is_none());
}

#[test]
fn salt_and_adapter_separate_caches_and_show_in_the_event() {
    let mut cache = Cache::new(32);
    let prompt = tokens(0, 8);
    let adapter = std::sync::Arc::new(crate::config::Adapter { id: 7, name: "sql".to_owned(), path: "/w".to_owned() });
    let scope = CacheScope { adapter: Some(adapter), salt: Some("t1".to_owned()) };
    let mut table = cache.scoped(&prompt, scope.clone());
    assert!(table.reserve(&mut cache.pool, &[], 8));
    table.cache_full(&mut cache.pool, &prompt, 8);
    let events = cache.pool.take_events();
    let [KvEvent::Stored(stored)] = events.as_slice() else { panic!("one store, got {events:?}") };
    assert_eq!((stored.lora_id, stored.lora_name.as_deref()), (Some(7), Some("sql")));
    let keys = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>());
    assert_eq!(stored.extra_keys, vec![keys(&["sql", "t1"]), keys(&["sql"])]);
    assert_eq!(cache.pass(&tokens(0, 9)), 0, "other scope");
    let again = cache.scoped(&tokens(0, 9), scope);
    assert_eq!(again.find_cached(&cache.pool, 9).len(), 2, "same scope");
}

#[test]
fn reset_waits_for_idle_and_is_announced_before_later_stores() {
    let mut cache = Cache::new(8);
    let (mut table, _) = cache.compute(&tokens(0, 8));
    assert!(!cache.pool.reset());
    table.release(&mut cache.pool);
    cache.pool.take_events();
    assert!(cache.pool.reset());
    assert_eq!(cache.pass(&tokens(0, 9)), 0);
    let events = cache.pool.take_events();
    assert_eq!(events[0], KvEvent::AllCleared);
    assert!(matches!(events[1], KvEvent::Stored(_)));
}
