use kv_routing::block::{HEAD_TOKENS, chain, marks};
use kv_routing::index::IndexLimits;
use kv_routing::target::TargetId;
use kv_routing::wire::{PoolId, UnixMillis};

use super::announced::Beginning;
use super::*;
use crate::engine::{EngineHash, Event, Removed, Tokens};
use crate::ingest::residency::{Blocks, Bounds, Context};

const BLOCK: u32 = 16;
const SLOT: Slot = Slot(3);
const NEIGHBOUR: Slot = Slot(4);

/// Two targets of a pool, the first of which is judged.
struct Stage {
    index: PrefixIndex,
    blocks: Blocks,
    residencies: [Residency; 2],
    verifier: Verifier,
    vocabulary: Option<Vocabulary>,
    absence: Absence,
    now: Instant,
    hashes: u64,
}

fn ids(range: std::ops::Range<u32>) -> Vec<u32> {
    range.collect()
}

fn tokens(ids: &[u32]) -> Vec<TokenId> {
    ids.iter().copied().map(TokenId).collect()
}

/// Preamble, and a question unlike any other.
fn prompt(preamble: &[u32], number: u32) -> Vec<u32> {
    let content = 1000 * (number + 1);
    [preamble, &ids(content..content + 100)].concat()
}

impl Stage {
    fn new() -> Self {
        let bounds = Bounds { orphans: 100, pages: 10_000 };
        let mut blocks = Blocks::new(None, 8);
        blocks.learn(BLOCK);
        Self {
            index: PrefixIndex::new(IndexLimits { max_blocks: 1 << 20 }),
            blocks,
            residencies: [SLOT, NEIGHBOUR].map(|slot| Residency::new(slot, 0, bounds)),
            verifier: Verifier::default(),
            vocabulary: None,
            absence: Absence::Proof,
            now: Instant::now(),
            hashes: 0,
        }
    }

    /// Whole pages of a prompt, as an engine announces them.
    fn pages(&mut self, ids: &[u32], page: u32) -> Stored<'static> {
        let count = ids.len() / page as usize;
        let first = self.hashes;
        self.hashes += count as u64;
        Stored {
            hashes: (first..self.hashes).map(EngineHash).collect(),
            tokens: Tokens::Plain(tokens(&ids[..count * page as usize])),
            block_size: Some(page),
            ..Stored::default()
        }
    }

    fn announce(&mut self, target: usize, stored: Stored<'_>) {
        if target == 0 && self.verifier.listens() {
            self.verifier.note(&stored, self.residencies[0].behind(&stored));
        }
        self.apply(target, &Event::Stored(stored));
    }

    fn apply(&mut self, target: usize, event: &Event<'_>) {
        let mut context = Context { index: &mut self.index, blocks: &mut self.blocks };
        self.residencies[target].apply(event, &mut context);
    }

    fn stores(&mut self, ids: &[u32]) {
        let stored = self.pages(ids, BLOCK);
        self.announce(0, stored);
    }

    fn answers_with(&mut self, ids: &[u32], seed: HashSeed, adapter: bool) {
        let tokens = tokens(ids);
        let chain = chain(&tokens, BlockSize::new(BLOCK).unwrap(), seed);
        let decision = Decision {
            at: UnixMillis(0),
            pool: PoolId(0),
            target: TargetId(0),
            answered: true,
            prompt_tokens: ids.len() as u32,
            predicted_blocks: 0,
            block_size: BLOCK,
            blocks: chain.len() as u32,
            certain_blocks: chain.len() as u32,
            marks: marks(&chain),
            head: tokens[..HEAD_TOKENS.min(tokens.len())].to_vec(),
            seed: seed.value(),
            adapter,
            shadow: None,
        };
        self.verifier.answered(&decision, self.now, self.residencies[0].lives());
    }

    fn answers(&mut self, ids: &[u32]) {
        self.answers_with(ids, HashSeed::default(), false);
    }

    fn judge(&mut self, after: Duration) {
        self.now += after;
        let evidence = Evidence {
            index: &self.index,
            slot: SLOT,
            residency: &self.residencies[0],
            block_size: self.blocks.size(),
            absence: self.absence,
            vocabulary: self.vocabulary.as_ref(),
        };
        self.verifier.judge(self.now, &evidence);
    }

    /// Answers prompts with this preamble; for each the engine announces what `announce` makes of its number.
    fn serve(&mut self, preamble: &[u32], count: u32, mut announce: impl FnMut(&mut Self, u32)) {
        for number in 0..count {
            announce(self, number);
            self.answers(&prompt(preamble, number));
        }
        self.judge(PATIENCE);
    }

    fn failed(&self) -> &Finding {
        let finding = self.verifier.finding().expect("a finding");
        assert_eq!(self.verifier.verdict(), Parity::Failed(finding.cause));
        finding
    }
}

#[test]
fn one_announced_prompt_shows_parity_before_or_after_its_answer() {
    for before in [true, false] {
        let (mut stage, ours) = (Stage::new(), prompt(&[], 1));
        if before {
            stage.stores(&ours);
        }
        stage.answers(&ours);
        stage.judge(Duration::ZERO);
        assert_eq!(stage.verifier.verdict() == Parity::Shown, before);
        if !before {
            stage.stores(&ours);
            stage.judge(PATIENCE / 2);
        }
        assert_eq!(stage.verifier.verdict(), Parity::Shown);
        assert_eq!(stage.verifier.counts(), ParityCounts { matched: 1, missing: 0, open: 0 });
    }
}

#[test]
fn only_different_prompts_in_a_row_fail() {
    let mut stage = Stage::new();
    for _ in 0..20 {
        stage.answers(&prompt(&[], 0));
    }
    stage.judge(PATIENCE);
    assert_eq!((stage.verifier.verdict(), stage.verifier.counts().missing), (Parity::Unknown, 20));
    for number in 1..4 {
        stage.answers(&prompt(&[], number));
    }
    stage.judge(PATIENCE);
    stage.stores(&prompt(&[], 9));
    stage.answers(&prompt(&[], 9));
    stage.judge(Duration::ZERO);
    assert_eq!(stage.verifier.verdict(), Parity::Shown, "four were missing, then one was not");
    for number in 10..14 {
        stage.answers(&prompt(&[], number));
    }
    stage.judge(PATIENCE);
    assert_eq!((stage.verifier.verdict(), stage.verifier.is_partial()), (Parity::Shown, true));
    for number in 14..25 {
        stage.answers(&prompt(&[], number));
    }
    stage.judge(PATIENCE);
    assert_eq!(stage.verifier.verdict(), Parity::Shown, "fifteen are missing, and one was not");
    stage.answers(&prompt(&[], 25));
    stage.judge(PATIENCE);
    assert_eq!(stage.failed().cause, Cause::Unknown, "the engine announced nothing like it");
}

#[test]
fn prompts_of_which_a_share_is_missing_do_not_fail_and_are_told_until_hardly_any_is() {
    let mut stage = Stage::new();
    for number in 0..231 {
        if number % 3 != 0 || number > 200 {
            stage.stores(&prompt(&[], number));
        }
        stage.answers(&prompt(&[], number));
        stage.judge(PATIENCE);
        let verdict = if number == 0 { Parity::Unknown } else { Parity::Shown };
        assert_eq!((stage.verifier.verdict(), stage.verifier.is_partial()), (verdict, (12..227).contains(&number)));
    }
}

#[test]
fn late_events_and_quick_evictions_are_no_failures() {
    let mut stage = Stage::new();
    for number in 0..4 {
        stage.answers(&prompt(&[], number));
    }
    stage.judge(PATIENCE);
    stage.stores(&prompt(&[], 2));
    stage.judge(Duration::ZERO);
    assert_eq!(stage.verifier.verdict(), Parity::Shown);

    for number in 10..30 {
        let stored = stage.pages(&prompt(&[], number), BLOCK);
        let hashes = stored.hashes.clone();
        stage.announce(0, stored);
        stage.apply(0, &Event::Removed(Removed { hashes, ..Removed::default() }));
        stage.answers(&prompt(&[], number));
        stage.judge(PATIENCE);
    }
    assert_eq!((stage.verifier.verdict(), stage.verifier.counts().missing), (Parity::Shown, 4));
}

#[test]
fn a_failure_ends_when_few_are_missing_and_at_once_in_another_process() {
    for (restarts, matches) in [(false, 16), (true, 2)] {
        let mut stage = Stage::new();
        stage.serve(&[], 5, |_, _| {});
        stage.failed();
        if restarts {
            stage.verifier.begin_anew();
        }
        for number in 10..10 + matches {
            assert_eq!(stage.verifier.verdict(), Parity::Failed(Cause::Unknown));
            stage.stores(&prompt(&[], number));
            stage.answers(&prompt(&[], number));
            stage.judge(Duration::ZERO);
        }
        assert_eq!((stage.verifier.verdict(), stage.verifier.is_partial()), (Parity::Shown, !restarts));
        assert_eq!(stage.verifier.finding(), None);
    }
}

#[test]
fn chains_of_another_block_size_say_nothing() {
    let mut stage = Stage::new();
    stage.blocks = Blocks::new(None, 8);
    stage.blocks.learn(32);
    stage.serve(&[], 8, |_, _| {});
    assert_eq!(stage.verifier.counts(), ParityCounts { open: 8, missing: 0, matched: 0 });
}

#[test]
fn absence_that_proves_nothing_fails_nobody() {
    for (absence, stores, missing) in [
        (Absence::Nothing, true, 0),
        (Absence::ProofAmongStores, false, 0),
        (Absence::ProofAmongStores, true, 8),
        (Absence::Proof, false, 8),
    ] {
        let mut stage = Stage { absence, ..Stage::new() };
        if stores {
            stage.stores(&ids(0..64));
        }
        stage.serve(&[], 8, |_, _| {});
        assert_eq!((stage.verifier.counts().missing, stage.verifier.counts().open), (missing, 8 - missing));
    }
    let mut stage = Stage::new();
    stage.serve(&[], 8, |stage, number| {
        if number == 7 {
            stage.apply(0, &Event::Cleared);
        }
    });
    assert_eq!(stage.verifier.counts(), ParityCounts { open: 7, missing: 1, matched: 0 });
}

#[test]
fn a_wrong_template_is_named_with_both_token_lists() {
    let (ours, theirs) = (ids(1..4), ids(500..520));
    let mut stage = Stage::new();
    stage.serve(&ours, 5, |stage, number| stage.stores(&prompt(&theirs, number)));
    let finding = stage.failed();
    assert_eq!((finding.cause, finding.agreed_blocks, finding.differs_before), (Cause::Template, 0, 1));
    assert_eq!(finding.filter_tokens, prompt(&ours, 4)[..64]);
    assert_eq!(finding.engine_tokens, prompt(&theirs, 4)[..64], "its own counterpart, among five");
    assert_eq!(finding.engine_page, Some(BLOCK));
}

#[test]
fn a_difference_behind_a_common_beginning_is_found_there() {
    let common = ids(1..37);
    let mut stage = Stage::new();
    // As if the engine put one token before the question.
    stage.serve(&common, 5, |stage, number| stage.stores(&prompt(&[&common[..], &[7]].concat(), number)));
    let finding = stage.failed();
    assert_eq!((finding.cause, finding.agreed_blocks, finding.differs_before), (Cause::Template, 2, 3));
    assert_eq!(finding.filter_tokens, prompt(&common, 4)[32..96]);
    assert_eq!(finding.engine_tokens[..6], [33, 34, 35, 36, 7, 5000]);
}

#[test]
fn a_difference_behind_a_long_beginning_is_shown_as_far_as_tokens_are_kept() {
    let within = ids(1..200);
    let mut stage = Stage::new();
    stage.serve(&within, 5, |stage, number| stage.stores(&prompt(&[&within[..], &[7]].concat(), number)));
    let finding = stage.failed();
    assert_eq!((finding.cause, finding.agreed_blocks, finding.differs_before), (Cause::Template, 12, 13));
    assert_eq!(finding.filter_tokens, prompt(&within, 4)[192..HEAD_TOKENS]);
    let theirs = prompt(&[&within[..], &[7]].concat(), 4);
    assert_eq!(finding.engine_tokens, theirs[192..HEAD_TOKENS], "out of one store from the first token on");
    let beyond = ids(1..400);
    let mut stage = Stage::new();
    stage.serve(&beyond, 5, |stage, number| stage.stores(&prompt(&[&beyond[..], &[7]].concat(), number)));
    let finding = stage.failed();
    assert_eq!(finding.cause, Cause::Template);
    assert!(finding.agreed_blocks <= 24 && finding.differs_before > 24, "block 24 differs: {finding:?}");
    assert!(finding.filter_tokens.is_empty());
}

#[test]
fn a_wrong_tokenizer_is_told_from_a_wrong_template() {
    let mut stage = Stage::new();
    stage.serve(&ids(1..4), 5, |stage, number| {
        let theirs: Vec<u32> = prompt(&ids(1..4), number).iter().map(|id| id * 3 + 7).collect();
        stage.stores(&theirs);
    });
    assert_eq!(stage.failed().cause, Cause::Tokenizer);
    // A relative: same words, other control tokens.
    for (theirs, cause) in [(ids(501..504), Cause::Tokenizer), (ids(2..9), Cause::Template)] {
        let vocabulary = Some(Vocabulary { added: tokens(&[1, 2, 3]).into_iter().collect() });
        let mut stage = Stage { vocabulary, ..Stage::new() };
        stage.serve(&ids(1..4), 5, |stage, number| stage.stores(&prompt(&theirs, number)));
        assert_eq!(stage.failed().cause, cause);
    }
}

#[test]
fn pages_that_do_not_fit_are_named() {
    let mut stage = Stage::new();
    stage.serve(&[], 5, |stage, number| {
        let stored = stage.pages(&prompt(&[], number), 24);
        stage.announce(0, stored);
    });
    let finding = stage.failed();
    assert_eq!((finding.cause, finding.engine_page), (Cause::BlockSize, Some(24)));
    // Those that do are no failure.
    for page in [8, 32] {
        let mut stage = Stage::new();
        stage.serve(&ids(0..28), 5, |stage, number| {
            let stored = stage.pages(&prompt(&ids(0..28), number), page);
            stage.announce(0, stored);
        });
        assert_eq!(stage.verifier.verdict(), Parity::Shown, "pages of {page}");
    }
}

#[test]
fn salts_and_adapters_are_named() {
    type Change = fn(&mut Stored<'static>);
    let cases: [(Change, HashSeed, bool, Cause); 5] = [
        (|stored| stored.cache_salt = Some("tenant".into()), HashSeed::default(), false, Cause::Salt),
        (|_| {}, HashSeed::new(None, Some("tenant")), false, Cause::Salt),
        (|stored| stored.lora_name = Some("lora".into()), HashSeed::default(), false, Cause::Adapter),
        (|_| {}, HashSeed::new(Some("lora"), None), true, Cause::Adapter),
        (|stored| stored.lora_id = Some(2), HashSeed::new(Some("lora"), None), true, Cause::Adapter),
    ];
    for (change, seed, adapter, cause) in cases {
        let mut stage = Stage::new();
        for number in 0..5 {
            let mut stored = stage.pages(&prompt(&[], number), BLOCK);
            change(&mut stored);
            stage.announce(0, stored);
            stage.answers_with(&prompt(&[], number), seed, adapter);
        }
        stage.judge(PATIENCE);
        assert_eq!(stage.failed().cause, cause);
    }
}

#[test]
fn prompts_announced_by_another_target_went_elsewhere() {
    let mut stage = Stage::new();
    stage.serve(&[], 5, |stage, number| {
        let stored = stage.pages(&prompt(&[], number), BLOCK);
        stage.announce(1, stored);
    });
    assert_eq!(stage.failed().cause, Cause::Elsewhere);
}

#[test]
fn what_is_kept_is_bounded() {
    let mut stage = Stage::new();
    for number in 0..500 {
        stage.stores(&prompt(&ids(1..4), number));
        stage.answers(&prompt(&ids(5..8), number));
    }
    assert_eq!((stage.verifier.pending.len(), stage.verifier.counts().open), (MOST_PENDING, 500 - MOST_PENDING as u64));
    let block_size = BlockSize::new(BLOCK).unwrap();
    let anything = Beginning { tokens: &[], chain: &[], block_size, seed: HashSeed::default() };
    assert_eq!(stage.verifier.announced.behind(anything, 0).count(), 32);
    stage.judge(PATIENCE);
    assert_eq!((stage.verifier.pending.len(), stage.verifier.missing.len()), (0, FAIL_AFTER));
}
