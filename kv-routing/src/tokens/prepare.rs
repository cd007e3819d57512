//! One prompt on its way to tokens and hashes, in as many slices as the caller likes.
//!
//! Items are taken in groups of about a kilobyte. A group whose checkpoint is known is skipped; of any other, the chunks are
//! taken from the chunk cache or tokenized, and the checkpoint is remembered. Groups, like chunks, end where the text so far says
//! so, whatever comes behind, so that two prompts with the same beginning form the same groups. A long beginning that is known is
//! leapt over before any of that.

use super::budget::Budget;
use super::cache::{CacheStats, Checkpoint, ChunkCache, ChunkKey, LeapCache, MARGIN, PrefixCache, PrefixKey, stats};
use super::cut::SHORTEST;
use super::items::{Item, ItemKind, Items};
use super::leaps::Leaps;
use super::open::Open;
use super::pieces::Workshop;
use super::prompter::{HashPlan, PreparedPrompt, stand_in};
use super::table::Tables;
use super::tokenizer::Tokenizer;
use crate::block::{ChainHasher, TokenId};
use crate::openai::MediaId;

/// A group ends with the item that brings it to this many bytes.
const GROUP_BYTES: usize = SHORTEST;

/// A chunk with more bytes has no place to cut for so long that it is no text. Merging takes 34 bytes of memory for each of its own, which
/// would end the VM, so the prompt is exact only up to there.
const LONGEST_CHUNK: usize = 1 << 20;
/// Bytes of such a chunk that stand for one token of it.
const BYTES_PER_TOKEN: usize = 4;

/// Everything a VM keeps for tokenizing, besides the tokenizer itself.
#[derive(Debug)]
pub(crate) struct Caches {
    pub(crate) workshop: Workshop,
    chunks: ChunkCache,
    prefixes: PrefixCache,
    leaps: LeapCache,
}

impl Caches {
    /// `bytes` for chunks, prefixes and leaps together; the word cache comes on top.
    pub(crate) fn new(word_bits: u32, bytes: u32, seed: u64) -> Self {
        let eighth = u64::from(bytes / 8);
        Self {
            workshop: Workshop::new(word_bits),
            chunks: ChunkCache::new(5 * eighth, seed),
            prefixes: PrefixCache::new(2 * eighth, seed),
            leaps: LeapCache::new(eighth),
        }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        stats(&self.chunks, &self.prefixes, &self.leaps)
    }
}

/// What is to be prepared.
#[derive(Debug)]
pub(crate) struct Source {
    /// The text.
    pub(crate) text: String,
    /// Bytes at its beginning that are the engine's.
    pub(crate) exact_bytes: usize,
    /// Stand-ins for images and the like, by byte offset.
    pub(crate) stand_ins: Vec<(usize, TokenId)>,
    /// With the tokens the post-processor puts around it.
    pub(crate) framed: bool,
    /// The tokens themselves are wanted.
    pub(crate) keep: bool,
}

impl Source {
    /// A text that is the engine's from beginning to end.
    pub(crate) fn text(text: String, framed: bool) -> Self {
        Self { exact_bytes: text.len(), text, stand_ins: Vec::new(), framed, keep: false }
    }
}

/// A prompt being prepared.
#[derive(Debug)]
pub struct Preparation {
    text: String,
    items: Items,
    group: Group,
    leaps: Leaps,
    begun: bool,
    open: Option<Open>,
    /// Tokens of the open chunk.
    tokens: Vec<TokenId>,
    framed: bool,
    plan: HashPlan,
    hasher: ChainHasher,
    /// The tokens themselves, when they are wanted; prefixes are not looked up then.
    kept: Option<Vec<TokenId>>,
    fresh_bytes: usize,
    cached_bytes: usize,
    exact_bytes: usize,
    /// A chunk was too long: see [`LONGEST_CHUNK`].
    given_up: bool,
    /// Tokens of the items that end within `exact_bytes`.
    exact_tokens: u32,
}

/// The items between two checkpoints.
#[derive(Debug)]
struct Group {
    items: Vec<Item>,
    next: usize,
    /// Key before the group, and after it.
    before: PrefixKey,
    after: PrefixKey,
    /// Full blocks before the group.
    blocks: usize,
    /// It has the bytes to be remembered.
    whole: bool,
}

impl Preparation {
    pub(crate) fn new(tokenizer: &Tokenizer, caches: &Caches, source: Source, plan: HashPlan) -> Self {
        let Source { text, exact_bytes, stand_ins, framed, keep } = source;
        let root = caches.prefixes.root(plan, framed);
        // Stand-ins and a doubtful end are not in the keys of landings.
        let told_by_text = stand_ins.is_empty() && exact_bytes >= text.len() && tokenizer.longest_raw() < MARGIN;
        let mut preparation = Self {
            items: Items::new(stand_ins),
            text,
            group: Group { items: Vec::new(), next: 0, before: root, after: root, blocks: 0, whole: false },
            leaps: Leaps::new(root, told_by_text && !keep),
            begun: false,
            open: None,
            tokens: Vec::new(),
            framed,
            plan,
            hasher: ChainHasher::new(plan.block_size, plan.seed),
            kept: keep.then(Vec::new),
            fresh_bytes: 0,
            cached_bytes: 0,
            exact_bytes,
            given_up: false,
            exact_tokens: 0,
        };
        if framed {
            preparation.emit(&tokenizer.meta().prefix);
        }
        preparation
    }

    /// Bytes of the text it holds.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Works off about `budget` bytes; true when the prompt is done.
    pub(crate) fn advance(&mut self, tokenizer: &Tokenizer, caches: &mut Caches, budget: u32) -> bool {
        let tables = tokenizer.tables();
        let mut budget = Budget::new(budget);
        if !std::mem::replace(&mut self.begun, true) {
            self.begin(tokenizer, &tables, caches);
        }
        while !budget.spent() {
            if self.open.is_some() {
                self.work_on_open(tokenizer, &tables, caches, &mut budget);
            } else if let Some(item) = self.group.items.get(self.group.next).copied() {
                self.take_item(tokenizer, &tables, caches, item, &mut budget);
            } else {
                self.close_group(caches);
                if !self.next_group(tokenizer, &tables, caches, &mut budget) {
                    if std::mem::take(&mut self.framed) {
                        self.emit(&tokenizer.meta().suffix);
                    }
                    self.passed(self.text.len());
                    return true;
                }
            }
        }
        false
    }

    /// What a preparation that is done has come to; it is empty afterwards.
    pub(crate) fn take_result(&mut self) -> PreparedPrompt {
        let tokens = self.hasher.tokens();
        let empty = ChainHasher::new(self.plan.block_size, self.plan.seed);
        let (chain, head) = std::mem::replace(&mut self.hasher, empty).into_parts();
        let count = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        PreparedPrompt {
            tokens,
            exact_tokens: self.exact_tokens,
            chain,
            head,
            fresh_bytes: count(self.fresh_bytes),
            cached_bytes: count(self.cached_bytes),
        }
    }

    /// The tokens, when they were kept.
    pub(crate) fn take_tokens(&mut self) -> Vec<TokenId> {
        self.kept.take().unwrap_or_default()
    }

    /// Goes over the beginning, as far as it is known, and looks at the text from there on.
    fn begin(&mut self, tokenizer: &Tokenizer, tables: &Tables<'_>, caches: &mut Caches) {
        let text = self.text.as_bytes();
        let landed = self.leaps.leap(text, &caches.prefixes, &mut caches.leaps, &mut self.hasher);
        let (at, group, in_stretch) = landed.unwrap_or((0, self.group.after, false));
        self.items.begin(tokenizer, tables, text, at, in_stretch);
        if at > 0 {
            self.group.after = group;
            self.cached_bytes += at;
            self.passed(at);
        }
    }

    /// The group is hashed: a landing may lie behind it.
    fn set_landing(&mut self, caches: &mut Caches) {
        let Some(last) = self.group.items.last() else { return };
        let in_stretch = self.items.within_stretch(last.end);
        // A chunk that ends with its stretch ends there for what follows.
        if in_stretch || !matches!(last.kind, ItemKind::Chunk { .. }) {
            let landed = (last.end, self.group.after, in_stretch);
            self.leaps.set(self.text.as_bytes(), &caches.prefixes, &mut caches.leaps, &self.hasher, landed);
        }
    }

    /// Collects the next group and skips it if its checkpoint is known; false when there is none.
    fn next_group(
        &mut self,
        tokenizer: &Tokenizer,
        tables: &Tables<'_>,
        caches: &mut Caches,
        budget: &mut Budget,
    ) -> bool {
        let text = self.text.as_bytes();
        let group = &mut self.group;
        group.items.clear();
        group.next = 0;
        group.before = group.after;
        group.blocks = self.hasher.chain().len();
        group.whole = false;
        let mut bounds: Option<(usize, usize)> = None;
        while let Some(item) = self.items.next(tokenizer, tables, text) {
            group.items.push(item);
            let start = bounds.map_or(item.start, |(start, _)| start);
            bounds = Some((start, item.end));
            group.whole = item.end - start >= GROUP_BYTES;
            if group.whole {
                break;
            }
        }
        let Some((start, end)) = bounds else { return false };
        // What is remembered counts as exact.
        group.whole &= !self.given_up && end - start <= LONGEST_CHUNK;
        if !group.whole || self.kept.is_some() {
            group.whole = false;
            return true;
        }
        group.after = caches.prefixes.extend(group.before, text.get(start..end).unwrap_or(&[]));
        for item in &group.items {
            if let ItemKind::StandIn(id) = item.kind {
                let place = (item.start - start) as u64;
                group.after = caches.prefixes.extend(group.after, &(place << 32 | u64::from(id.0)).to_le_bytes());
            }
        }
        budget.cached(end - start);
        if let Some(checkpoint) = caches.prefixes.get(group.after, end - start) {
            checkpoint.apply(&mut self.hasher);
            self.cached_bytes += end - start;
            group.next = group.items.len();
            group.whole = false;
            self.passed(end);
            self.set_landing(caches);
        }
        true
    }

    /// Remembers the checkpoint of a group that was worked through.
    fn close_group(&mut self, caches: &mut Caches) {
        if !std::mem::take(&mut self.group.whole) {
            return;
        }
        if let (Some(first), Some(last)) = (self.group.items.first(), self.group.items.last()) {
            let checkpoint = Checkpoint::of(&self.hasher, self.group.blocks, last.end - first.start);
            caches.prefixes.put(self.group.after, checkpoint);
            self.set_landing(caches);
        }
    }

    fn take_item(
        &mut self,
        tokenizer: &Tokenizer,
        tables: &Tables<'_>,
        caches: &mut Caches,
        item: Item,
        budget: &mut Budget,
    ) {
        let begins_stretch = match item.kind {
            ItemKind::Added(id) | ItemKind::StandIn(id) => {
                budget.cached(0);
                self.emit(&[id]);
                return self.finish_item(item);
            }
            ItemKind::Chunk { begins_stretch } => begins_stretch,
        };
        if item.end - item.start > LONGEST_CHUNK && self.kept.is_none() {
            return self.stand_in_for(item);
        }
        if let Some(key) = self.chunk_key(caches, item, begins_stretch)
            && let Some(tokens) = caches.chunks.get(key, item.end - item.start)
        {
            emit(&mut self.hasher, &mut self.kept, tokens);
            self.cached_bytes += item.end - item.start;
            budget.cached(item.end - item.start);
            return self.finish_item(item);
        }
        self.tokens.clear();
        self.open = Some(Open::new(tokenizer, tables, &self.text, item, begins_stretch));
    }

    /// Puts the same token about as often as a chunk has tokens in its place. What follows is not the engine's any more.
    fn stand_in_for(&mut self, item: Item) {
        self.exact_bytes = self.exact_bytes.min(item.start);
        self.given_up = true;
        self.leaps.stop();
        let text = self.text.get(item.start..item.end).unwrap_or_default();
        let id = stand_in(MediaId::of(text));
        for _ in 0..text.len() / BYTES_PER_TOKEN {
            self.hasher.push_all(&[id]);
        }
        self.finish_item(item);
    }

    fn work_on_open(&mut self, tokenizer: &Tokenizer, tables: &Tables<'_>, caches: &mut Caches, budget: &mut Budget) {
        let Some(open) = &mut self.open else { return };
        if !open.advance(tokenizer, tables, &mut caches.workshop, &self.text, &mut self.tokens, budget) {
            return;
        }
        self.open = None;
        emit(&mut self.hasher, &mut self.kept, &self.tokens);
        if let Some(item) = self.group.items.get(self.group.next).copied() {
            self.fresh_bytes += item.end - item.start;
            if let ItemKind::Chunk { begins_stretch } = item.kind
                && let Some(key) = self.chunk_key(caches, item, begins_stretch)
            {
                caches.chunks.put(key, item.end - item.start, &self.tokens);
            }
            self.finish_item(item);
        }
    }

    fn finish_item(&mut self, item: Item) {
        self.group.next += 1;
        if !matches!(item.kind, ItemKind::StandIn(_)) {
            self.passed(item.end);
        }
    }

    /// Everything up to the byte `end` is hashed.
    fn passed(&mut self, end: usize) {
        if end <= self.exact_bytes {
            self.exact_tokens = self.hasher.tokens();
        }
    }

    fn chunk_key(&self, caches: &Caches, item: Item, begins_stretch: bool) -> Option<ChunkKey> {
        let text = self.text.as_bytes().get(item.start..item.end)?;
        caches.chunks.key(text, u8::from(begins_stretch) | u8::from(item.start == 0) << 1)
    }

    fn emit(&mut self, tokens: &[TokenId]) {
        emit(&mut self.hasher, &mut self.kept, tokens);
    }
}

fn emit(hasher: &mut ChainHasher, kept: &mut Option<Vec<TokenId>>, tokens: &[TokenId]) {
    hasher.push_all(tokens);
    if let Some(kept) = kept {
        kept.extend_from_slice(tokens);
    }
}
