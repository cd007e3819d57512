//! `model`: vocabulary and merges.

use std::collections::HashMap;

use kv_routing::block::TokenId;
use kv_routing::tokens::image::{Family, ModelFlags};
use kv_routing::tokens::table::Merge;

use super::Unsupported;
use super::json::{MergesJson, ModelJson, VocabJson};

/// What the model section comes to.
pub(super) struct Model {
    pub(super) vocabulary: Vec<(Vec<u8>, TokenId)>,
    pub(super) byte_tokens: Option<Box<[TokenId; 256]>>,
    pub(super) merges: Vec<(TokenId, TokenId, Merge)>,
    pub(super) flags: ModelFlags,
    pub(super) unknown: Option<TokenId>,
}

/// Reads the model section for a tokenizer of this family. `by_rank`: merges have the rank of what they make, as rank files say,
/// instead of one each.
pub(super) fn read(json: &ModelJson, family: Family, by_rank: bool) -> Result<Model, Unsupported> {
    refuse_variants(json)?;
    let VocabJson::Map(ids) = &json.vocab else {
        return Err(Unsupported::new("model.vocab", "a list, as Unigram models have"));
    };
    let merges = read_merges(&json.merges, by_rank, &|text: &str| ids.get(text).copied())?;
    let vocabulary = read_vocabulary(ids.iter(), family)?;
    let unknown = match &json.unk_token {
        Some(text) => Some(TokenId(*ids.get(text).ok_or_else(|| {
            Unsupported::new("model.unk_token", format!("`{text}`, which the vocabulary does not hold"))
        })?)),
        None => None,
    };
    let byte_tokens = match family {
        Family::ByteLevel => Some(single_bytes(&vocabulary)?),
        Family::Characters => fallback_bytes(json.byte_fallback, &|text: &str| ids.get(text).copied())?,
    };
    if family == Family::Characters && byte_tokens.is_none() && unknown.is_none() {
        return Err(Unsupported::new("model.unk_token", "none, and no byte fallback: unknown characters would vanish"));
    }
    refuse_merged_bytes(&byte_tokens, family, unknown, &merges)?;
    let flags = ModelFlags { ignore_merges: json.ignore_merges, fuse_unknown: json.fuse_unk, ..ModelFlags::default() };
    Ok(Model { vocabulary, byte_tokens, merges, flags, unknown })
}

fn refuse_variants(json: &ModelJson) -> Result<(), Unsupported> {
    let given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    match json.kind.as_deref() {
        None | Some("BPE") => {}
        Some(other) => return Err(Unsupported::new("model.type", other)),
    }
    if json.dropout.is_some_and(|dropout| dropout != 0.0) {
        return Err(Unsupported::new("model.dropout", "merges are left out at random"));
    }
    if given(&json.continuing_subword_prefix) {
        return Err(Unsupported::new(
            "model.continuing_subword_prefix",
            format!("{:?}", json.continuing_subword_prefix),
        ));
    }
    if given(&json.end_of_word_suffix) {
        return Err(Unsupported::new("model.end_of_word_suffix", format!("{:?}", json.end_of_word_suffix)));
    }
    Ok(())
}

fn read_merges(
    json: &MergesJson,
    by_rank: bool,
    id: &dyn Fn(&str) -> Option<u32>,
) -> Result<Vec<(TokenId, TokenId, Merge)>, Unsupported> {
    let pairs: Vec<(&str, &str)> = match json {
        MergesJson::Pairs(pairs) => pairs.iter().map(|(left, right)| (left.as_str(), right.as_str())).collect(),
        MergesJson::Lines(lines) => lines
            .iter()
            .filter(|line| !line.starts_with("#version"))
            .map(|line| line.split_once(' ').ok_or_else(|| Unsupported::new("model.merges", format!("`{line}`"))))
            .collect::<Result<_, _>>()?,
    };
    let mut merges = Vec::with_capacity(pairs.len());
    for (rank, (left, right)) in (0_u32..).zip(pairs) {
        let find = |text: &str| {
            id(text).map(TokenId).ok_or_else(|| {
                Unsupported::new("model.merges", format!("merge {rank} needs `{text}`, which the vocabulary lacks"))
            })
        };
        let merged = find(&format!("{left}{right}"))?;
        let rank = if by_rank { merged.0 } else { rank };
        merges.push((find(left)?, find(right)?, Merge { rank, id: merged }));
    }
    Ok(merges)
}

fn read_vocabulary<'a>(
    ids: impl Iterator<Item = (&'a String, &'a u32)>,
    family: Family,
) -> Result<Vec<(Vec<u8>, TokenId)>, Unsupported> {
    let alphabet = byte_alphabet();
    let mut vocabulary = Vec::new();
    for (text, id) in ids {
        let bytes = match family {
            Family::Characters => Some(text.clone().into_bytes()),
            // Tokens with a character outside the byte alphabet cannot come out of byte-level text.
            Family::ByteLevel => text.chars().map(|character| alphabet.get(&character).copied()).collect(),
        };
        if let Some(bytes) = bytes.filter(|bytes: &Vec<u8>| !bytes.is_empty()) {
            vocabulary.push((bytes, TokenId(*id)));
        }
    }
    vocabulary.sort_unstable_by_key(|(_, id)| *id);
    Ok(vocabulary)
}

/// The printable stand-in of every byte in byte-level vocabularies: itself for printable Latin-1, else U+0100 onwards in order.
pub(super) fn byte_alphabet() -> HashMap<char, u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 0x100;
    let mut alphabet = HashMap::new();
    for byte in 0..=u8::MAX {
        let stand_in = if printable(byte) {
            char::from(byte)
        } else {
            let stand_in = char::from_u32(next).unwrap_or(char::REPLACEMENT_CHARACTER);
            next += 1;
            stand_in
        };
        alphabet.insert(stand_in, byte);
    }
    alphabet
}

/// Ids of the one-byte tokens. Bytes that no UTF-8 text holds may be missing.
fn single_bytes(vocabulary: &[(Vec<u8>, TokenId)]) -> Result<Box<[TokenId; 256]>, Unsupported> {
    let mut tokens = Box::new([TokenId(u32::MAX); 256]);
    for (piece, id) in vocabulary {
        if let [byte] = piece.as_slice()
            && let Some(slot) = tokens.get_mut(usize::from(*byte))
        {
            *slot = *id;
        }
    }
    let in_text = |byte: u8| !matches!(byte, 0xc0 | 0xc1 | 0xf5..);
    match (0..=u8::MAX).zip(tokens.iter()).find(|(byte, id)| in_text(*byte) && id.0 == u32::MAX) {
        Some((byte, _)) => Err(Unsupported::new("model.vocab", format!("no token for byte 0x{byte:02X}"))),
        None => Ok(tokens),
    }
}

fn fallback_bytes(
    byte_fallback: bool,
    id: &dyn Fn(&str) -> Option<u32>,
) -> Result<Option<Box<[TokenId; 256]>>, Unsupported> {
    if !byte_fallback {
        return Ok(None);
    }
    let found: Vec<Option<u32>> = (0..=u8::MAX).map(|byte| id(&format!("<0x{byte:02X}>"))).collect();
    if found.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut tokens = Box::new([TokenId(0); 256]);
    for ((byte, slot), id) in (0_u32..).zip(tokens.iter_mut()).zip(found) {
        *slot =
            TokenId(id.ok_or_else(|| {
                Unsupported::new("model.byte_fallback", format!("no token <0x{byte:02X}>, but others"))
            })?);
    }
    Ok(Some(tokens))
}

/// In a tokenizer of characters, byte tokens and the unknown token stand for text that is not theirs; merging them by their own text
/// would break the rule that tokens only grow.
fn refuse_merged_bytes(
    byte_tokens: &Option<Box<[TokenId; 256]>>,
    family: Family,
    unknown: Option<TokenId>,
    merges: &[(TokenId, TokenId, Merge)],
) -> Result<(), Unsupported> {
    if family == Family::ByteLevel {
        return Ok(());
    }
    let stands_in =
        |token: &TokenId| Some(*token) == unknown || byte_tokens.as_ref().is_some_and(|tokens| tokens.contains(token));
    match merges.iter().find(|(left, right, _)| stands_in(left) || stands_in(right)) {
        Some((_, _, merge)) => Err(Unsupported::new(
            "model.merges",
            format!("merge {} joins a byte token or the unknown token", merge.rank),
        )),
        None => Ok(()),
    }
}
