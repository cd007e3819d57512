//! One target's state on disk: what it holds, and the last batch that led to it, so that a bridge that is started anew can go on
//! from there once the engine's replay buffer has shown that very batch again.
//!
//! ```text
//! "KVWARM" version u8, 0 u8 | XXH3-64 of the rest | name (length u32, UTF-8) | block size u32 | last number u64 | its digest u64
//! | flags u8 | page size u32 | group u32 | other groups u32, for each: u32 | pages u32, for each: engine hash u64, flags u8, block u64?, references 3 u16?, seed u64?
//! | pieces u32, for each: flag u8, parent u64?, blocks u32, block u64 ...                            all little-endian
//! ```

use kv_routing::block::{HashSeed, SequenceHash};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use crate::engine::EngineHash;

const MAGIC: [u8; 8] = *b"KVWARM\x01\0";
const HEADER_BYTES: usize = 16;
const COMPLETE: u8 = 1;
const HEALED: u8 = 2;
const OTHER_TIERS: u8 = 4;
const HAS_BLOCK: u8 = 1;
const HAS_SEED: u8 = 2;
/// One reference on the device and no other, as nearly every page has it; left out.
const USUAL_REFS: u8 = 4;

/// Why a file is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SavedError {
    /// Another kind of file, or one of another release.
    #[error("not a warm-start file of this release")]
    Format,
    /// Its checksum is wrong: it was cut short or changed.
    #[error("damaged: the checksum does not match")]
    Damaged,
    /// The checksum is right and the content is not.
    #[error("malformed at byte {0}")]
    Malformed(usize),
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// Whose state this is: it must not be given to anyone else.
    pub name: String,
    /// Tokens per block of the pool.
    pub(crate) block_size: u32,
    /// Number and digest of the last batch applied.
    pub(crate) last: (u64, u64),
    /// Everything since the engine's start was applied.
    pub(crate) complete: bool,
    /// It is complete only since the engine emptied its cache.
    pub(crate) healed: bool,
    /// What it holds.
    pub(crate) held: SavedHoldings,
}

/// Pages of the only group, and the chains their blocks are in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SavedHoldings {
    /// Engine's name of the group.
    pub(crate) group: u32,
    /// Groups that are known not to be of full attention.
    pub(crate) other_groups: Vec<u32>,
    /// Tokens per page.
    pub(crate) page_tokens: u32,
    /// Something was stored elsewhere than on the device.
    pub(crate) other_tiers: bool,
    /// All pages.
    pub(crate) pages: Vec<SavedPage>,
    /// Pieces of chains, each with the block before it.
    pub(crate) pieces: Vec<(Option<SequenceHash>, Vec<SequenceHash>)>,
}

/// One engine page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SavedPage {
    pub(crate) hash: EngineHash,
    /// `None`: its tokens are unknown.
    pub(crate) block: Option<SequenceHash>,
    /// References per tier.
    pub(crate) refs: [u16; 3],
    /// Seed of its chain, when it is not the plain one.
    pub(crate) seed: Option<HashSeed>,
}

impl Saved {
    /// Bytes of a file.
    pub fn encode(&self) -> Vec<u8> {
        let Self { name, block_size, last, complete, healed, held } = self;
        let blocks: usize = held.pieces.iter().map(|(_, blocks)| blocks.len()).sum();
        let mut out = Vec::with_capacity(HEADER_BYTES + name.len() + 64 + held.pages.len() * 17 + blocks * 9);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&(name.len() as u32).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&block_size.to_le_bytes());
        out.extend_from_slice(&last.0.to_le_bytes());
        out.extend_from_slice(&last.1.to_le_bytes());
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.push(flag(*complete, COMPLETE) | flag(*healed, HEALED) | flag(held.other_tiers, OTHER_TIERS));
        held.encode(&mut out);
        let checksum = xxh3_64(out.get(HEADER_BYTES..).unwrap_or_default());
        if let Some(place) = out.get_mut(8..HEADER_BYTES) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        out
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`SavedError`]. Nothing is reserved for what the bytes only announce.
    pub fn decode(bytes: &[u8]) -> Result<Self, SavedError> {
        let body = bytes.strip_prefix(&MAGIC).ok_or(SavedError::Format)?;
        let (checksum, body) = body.split_first_chunk::<8>().ok_or(SavedError::Damaged)?;
        if u64::from_le_bytes(*checksum) != xxh3_64(body) {
            return Err(SavedError::Damaged);
        }
        let mut reader = Reader { all: body.len(), rest: body };
        let length = reader.u32()? as usize;
        let name = std::str::from_utf8(reader.bytes(length)?).map_err(|_| reader.fault())?.to_owned();
        let block_size = reader.u32()?;
        let last = (reader.u64()?, reader.u64()?);
        let flags = reader.u8()?;
        let held = SavedHoldings::decode(&mut reader, flags & OTHER_TIERS != 0)?;
        if !reader.rest.is_empty() {
            return Err(reader.fault());
        }
        Ok(Self { name, block_size, last, complete: flags & COMPLETE != 0, healed: flags & HEALED != 0, held })
    }
}

impl SavedHoldings {
    fn encode(&self, out: &mut Vec<u8>) {
        let Self { group, other_groups, page_tokens, other_tiers: _, pages, pieces } = self;
        out.extend_from_slice(&page_tokens.to_le_bytes());
        out.extend_from_slice(&group.to_le_bytes());
        out.extend_from_slice(&(other_groups.len() as u32).to_le_bytes());
        other_groups.iter().for_each(|group| out.extend_from_slice(&group.to_le_bytes()));
        out.extend_from_slice(&(pages.len() as u32).to_le_bytes());
        pages.iter().for_each(|page| page.encode(out));
        out.extend_from_slice(&(pieces.len() as u32).to_le_bytes());
        for (parent, blocks) in pieces {
            out.push(u8::from(parent.is_some()));
            parent.iter().for_each(|parent| out.extend_from_slice(&parent.0.to_le_bytes()));
            out.extend_from_slice(&(blocks.len() as u32).to_le_bytes());
            blocks.iter().for_each(|block| out.extend_from_slice(&block.0.to_le_bytes()));
        }
    }

    fn decode(reader: &mut Reader<'_>, other_tiers: bool) -> Result<Self, SavedError> {
        let (page_tokens, group) = (reader.u32()?, reader.u32()?);
        let other_groups = (0..reader.u32()?).map(|_| reader.u32()).collect::<Result<_, _>>()?;
        let pages = (0..reader.u32()?).map(|_| SavedPage::decode(reader)).collect::<Result<_, _>>()?;
        let piece = |reader: &mut Reader<'_>| {
            let parent = if reader.u8()? == 0 { None } else { Some(SequenceHash(reader.u64()?)) };
            let blocks = (0..reader.u32()?).map(|_| reader.u64().map(SequenceHash)).collect::<Result<_, _>>()?;
            Ok((parent, blocks))
        };
        let pieces = (0..reader.u32()?).map(|_| piece(reader)).collect::<Result<_, _>>()?;
        Ok(Self { group, other_groups, page_tokens, other_tiers, pages, pieces })
    }
}

impl SavedPage {
    fn encode(&self, out: &mut Vec<u8>) {
        let Self { hash, block, refs, seed } = self;
        let usual = *refs == [1, 0, 0];
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.extend_from_slice(&hash.0.to_le_bytes());
        out.push(flag(block.is_some(), HAS_BLOCK) | flag(seed.is_some(), HAS_SEED) | flag(usual, USUAL_REFS));
        block.iter().for_each(|block| out.extend_from_slice(&block.0.to_le_bytes()));
        refs.iter().filter(|_| !usual).for_each(|refs| out.extend_from_slice(&refs.to_le_bytes()));
        seed.iter().for_each(|seed| out.extend_from_slice(&seed.value().to_le_bytes()));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, SavedError> {
        let (hash, flags) = (EngineHash(reader.u64()?), reader.u8()?);
        let block = if flags & HAS_BLOCK == 0 { None } else { Some(SequenceHash(reader.u64()?)) };
        let refs = if flags & USUAL_REFS == 0 { [reader.u16()?, reader.u16()?, reader.u16()?] } else { [1, 0, 0] };
        let seed = if flags & HAS_SEED == 0 { None } else { Some(HashSeed::from_value(reader.u64()?)) };
        Ok(Self { hash, block, refs, seed })
    }
}

struct Reader<'a> {
    all: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn fault(&self) -> SavedError {
        SavedError::Malformed(HEADER_BYTES + self.all - self.rest.len())
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], SavedError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.fault())?;
        self.rest = rest;
        Ok(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], SavedError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.fault())?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, SavedError> {
        self.chunk::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, SavedError> {
        self.chunk().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, SavedError> {
        self.chunk().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, SavedError> {
        self.chunk().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        let block = |block: u64| SavedPage {
            hash: EngineHash(block + 100),
            block: Some(SequenceHash(block)),
            refs: [1, 0, 0],
            seed: None,
        };
        let odd = SavedPage { refs: [2, 0, 3], seed: Some(HashSeed::new(Some("a"), None)), ..block(3) };
        let dead = SavedPage { block: None, refs: [0, 1, 0], ..block(4) };
        let pieces =
            vec![(None, vec![SequenceHash(1), SequenceHash(2)]), (Some(SequenceHash(1)), vec![SequenceHash(3)])];
        let pages = vec![block(1), block(2), odd, dead];
        let held =
            SavedHoldings { group: 7, other_groups: vec![0, 2], page_tokens: 16, other_tiers: true, pages, pieces };
        Saved { name: "pool 1.2.3.4:5".into(), block_size: 16, last: (9, 10), complete: true, healed: false, held }
    }

    #[test]
    fn what_is_written_is_read() {
        let saved = saved();
        assert_eq!(Saved::decode(&saved.encode()), Ok(saved.clone()));
        let other = Saved { complete: false, healed: true, held: SavedHoldings::default(), ..saved };
        assert_eq!(Saved::decode(&other.encode()), Ok(other));
    }

    #[test]
    fn damage_of_any_kind_is_refused() {
        let whole = saved().encode();
        for length in 0..whole.len() {
            assert!(Saved::decode(&whole[..length]).is_err(), "cut at {length}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let expected = if at < MAGIC.len() { SavedError::Format } else { SavedError::Damaged };
            assert_eq!(Saved::decode(&changed), Err(expected), "byte {at}");
        }
    }

    #[test]
    fn hostile_lengths_behind_a_right_checksum_reserve_nothing() {
        let mut bytes = saved().encode();
        for at in HEADER_BYTES..bytes.len() - 4 {
            let kept = bytes.clone();
            bytes[at..at + 4].fill(0xff);
            let checksum = xxh3_64(&bytes[HEADER_BYTES..]);
            bytes[8..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
            let _: Result<Saved, SavedError> = Saved::decode(&bytes);
            bytes = kept;
        }
    }
}
