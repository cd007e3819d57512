//! The two hashes themselves, for whole slices and for tokens that arrive one by one.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{BASE_SEED, BlockSize, HashSeed, LocalHash, SequenceHash, TokenId};

/// Hash of one block's tokens. The caller passes exactly one block.
pub fn local_hash(tokens: &[TokenId], seed: HashSeed) -> LocalHash {
    let mut bytes = Vec::with_capacity(tokens.len() * 4);
    for token in tokens {
        bytes.extend_from_slice(&token.0.to_le_bytes());
    }
    LocalHash(xxh3_64_with_seed(&bytes, seed.value()))
}

/// Hash of one block in which images or other items lie: their hashes (see [`image_hash`]), sorted, follow the tokens
/// as little-endian `u64`.
pub fn local_hash_with_images(tokens: &[TokenId], images: &[u64], seed: HashSeed) -> LocalHash {
    let mut bytes = Vec::with_capacity(tokens.len() * 4 + images.len() * 8);
    for token in tokens {
        bytes.extend_from_slice(&token.0.to_le_bytes());
    }
    for image in images {
        bytes.extend_from_slice(&image.to_le_bytes());
    }
    LocalHash(xxh3_64_with_seed(&bytes, seed.value()))
}

/// Hash of an item's identifier: its first 16 digits when it is 64 hexadecimal digits, else its XXH3-64.
pub fn image_hash(identifier: &str) -> u64 {
    let is_digest = identifier.len() == 64 && identifier.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = identifier.get(..16).filter(|_| is_digest);
    match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
        Some(hash) => hash,
        None => xxh3_64_with_seed(identifier.as_bytes(), 0),
    }
}

/// Sequence hash of a block whose predecessor in the chain is `parent` (`None` for a first block).
pub fn extend(parent: Option<SequenceHash>, local: LocalHash) -> SequenceHash {
    let Some(parent) = parent else {
        return SequenceHash(local.0);
    };
    let mut pair = [0_u8; 16];
    let (head, tail) = pair.split_at_mut(8);
    head.copy_from_slice(&parent.0.to_le_bytes());
    tail.copy_from_slice(&local.0.to_le_bytes());
    SequenceHash(xxh3_64_with_seed(&pair, BASE_SEED))
}

/// Sequence hashes of all full blocks of `tokens`.
pub fn chain(tokens: &[TokenId], block_size: BlockSize, seed: HashSeed) -> Vec<SequenceHash> {
    let mut hasher = ChainHasher::new(block_size, seed);
    hasher.push_all(tokens);
    hasher.into_chain()
}

/// Tokens at the beginning of a prompt that a hasher keeps, for whoever must see why an engine has others.
pub const HEAD_TOKENS: usize = 256;

/// Hashes a prompt while it is being tokenized. `Clone` forks it, which lets a cached conversation prefix be continued.
#[derive(Clone, Debug)]
pub struct ChainHasher {
    block_bytes: usize,
    seed: HashSeed,
    pending: Vec<u8>,
    chain: Vec<SequenceHash>,
    head: Vec<TokenId>,
    tokens: u32,
}

impl ChainHasher {
    /// A hasher of an empty prompt.
    pub fn new(block_size: BlockSize, seed: HashSeed) -> Self {
        let block_bytes = block_size.tokens() as usize * 4;
        let pending = Vec::with_capacity(block_bytes);
        Self { block_bytes, seed, pending, chain: Vec::new(), head: Vec::new(), tokens: 0 }
    }

    /// Appends tokens; every block that fills is hashed at once.
    pub fn push_all(&mut self, tokens: &[TokenId]) {
        if self.head.len() == self.tokens as usize {
            self.head.extend(tokens.iter().take(HEAD_TOKENS.saturating_sub(self.head.len())));
        }
        self.tokens = self.tokens.saturating_add(u32::try_from(tokens.len()).unwrap_or(u32::MAX));
        for token in tokens {
            self.pending.extend_from_slice(&token.0.to_le_bytes());
            if self.pending.len() == self.block_bytes {
                let local = LocalHash(xxh3_64_with_seed(&self.pending, self.seed.value()));
                self.chain.push(extend(self.chain.last().copied(), local));
                self.pending.clear();
            }
        }
    }

    /// Bytes of the unfinished block's tokens, little-endian `u32` each: with the chain, all that [`ChainHasher::skip`] needs.
    pub fn pending(&self) -> &[u8] {
        &self.pending
    }

    /// Goes on as if tokens had been pushed that were hashed before: `hashes` of the blocks they filled, the `pending` bytes they left
    /// over, and `tokens` in all from the prompt's beginning on. `head`, if any, is what [`ChainHasher::head`] was then.
    pub fn skip(&mut self, hashes: &[SequenceHash], pending: &[u8], tokens: u32, head: &[TokenId]) {
        if !head.is_empty() {
            self.head = head.to_vec();
        }
        self.chain.extend_from_slice(hashes);
        self.pending.clear();
        self.pending.extend_from_slice(pending);
        self.tokens = tokens;
    }

    /// The first tokens, at most [`HEAD_TOKENS`].
    pub fn head(&self) -> &[TokenId] {
        &self.head
    }

    /// Tokens pushed so far, those of the unfinished block included.
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Sequence hashes of the full blocks so far.
    pub fn chain(&self) -> &[SequenceHash] {
        &self.chain
    }

    /// Gives up the hasher for its chain.
    pub fn into_chain(self) -> Vec<SequenceHash> {
        self.chain
    }

    /// Gives up the hasher for its chain and the first tokens.
    pub fn into_parts(self) -> (Vec<SequenceHash>, Vec<TokenId>) {
        (self.chain, self.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: impl IntoIterator<Item = u32>) -> Vec<TokenId> {
        ids.into_iter().map(TokenId).collect()
    }

    /// Vectors of Dynamo's public router hash, read off its mocker's event stream.
    #[test]
    fn published_vectors() {
        let four = BlockSize::new(4).unwrap();
        let seed = HashSeed::default();
        assert_eq!(local_hash(&tokens(10..14), seed).0, 8_906_183_847_324_352_865);
        assert_eq!(local_hash(&tokens(14..18), seed).0, 18_278_009_876_224_962_821);
        let hashes: Vec<u64> = chain(&tokens(10..18), four, seed).into_iter().map(|hash| hash.0).collect();
        assert_eq!(hashes, [8_906_183_847_324_352_865, 16_400_543_510_261_015_516]);
    }

    #[test]
    fn a_partial_tail_is_not_hashed_and_a_prefix_keeps_its_chain() {
        let four = BlockSize::new(4).unwrap();
        let long = chain(&tokens(0..23), four, HashSeed::default());
        assert_eq!(long.len(), 5);
        assert_eq!(chain(&tokens(0..11), four, HashSeed::default()), long[..2]);
        assert!(chain(&tokens(0..3), four, HashSeed::default()).is_empty());
    }

    #[test]
    fn adapter_and_salt_separate_prompts_and_empty_ones_do_not() {
        let hash = |adapter, salt| local_hash(&tokens(0..4), HashSeed::new(adapter, salt));
        let plain = hash(None, None);
        assert_eq!(plain, hash(Some(""), Some("")));
        assert_ne!(plain, hash(Some("a"), None));
        assert_ne!(hash(Some("a"), None), hash(None, Some("a")));
    }

    #[test]
    fn images_separate_blocks_and_none_change_nothing() {
        let block = tokens(0..4);
        let plain = local_hash(&block, HashSeed::default());
        assert_eq!(local_hash_with_images(&block, &[], HashSeed::default()), plain);
        assert_ne!(local_hash_with_images(&block, &[1], HashSeed::default()), plain);
        let digest = "0123456789abcdef".repeat(4);
        assert_eq!(image_hash(&digest), 0x0123_4567_89ab_cdef);
        assert_ne!(image_hash(&digest[..63]), 0x0123_4567_89ab_cdef);
        assert_ne!(image_hash("a"), image_hash("b"));
    }

    #[test]
    fn skipping_hashed_tokens_is_pushing_them() {
        let size = BlockSize::new(16).unwrap();
        let all = tokens(0..1000);
        let mut first = ChainHasher::new(size, HashSeed::default());
        first.push_all(&all[..307]);
        let mut second = ChainHasher::new(size, HashSeed::default());
        second.skip(first.chain(), first.pending(), first.tokens(), first.head());
        second.push_all(&all[307..]);
        assert_eq!(second.tokens(), 1000);
        assert_eq!(second.head(), &all[..HEAD_TOKENS]);
        assert_eq!(second.into_chain(), chain(&all, size, HashSeed::default()));
    }

    #[test]
    fn the_head_never_has_a_hole() {
        let all = tokens(0..100);
        let mut hasher = ChainHasher::new(BlockSize::new(4).unwrap(), HashSeed::default());
        hasher.push_all(&all[..3]);
        hasher.skip(&[], &[], 10, &[]);
        hasher.push_all(&all[10..]);
        assert_eq!(hasher.head(), &all[..3]);
    }

    #[test]
    fn pushing_in_pieces_changes_nothing() {
        let size = BlockSize::new(16).unwrap();
        let all = tokens(0..1000);
        let mut hasher = ChainHasher::new(size, HashSeed::default());
        for piece in all.chunks(7) {
            hasher.push_all(piece);
        }
        assert_eq!(hasher.tokens(), 1000);
        assert_eq!(hasher.chain(), chain(&all, size, HashSeed::default()));
    }
}
