//! Tables to image: the last step of compiling a tokenizer. Runs natively only; it stands here because the layout does.

use std::collections::HashSet;

use thiserror::Error;

use super::bpe::{LongMerge, first_symbols};
use super::image::{Family, ImageWriter, Meta, Section, encode_template};
use super::nfc::{build_compositions, build_decompositions};
use super::table::{
    AddedToken, Merge, Tables, build_added, build_byte_pairs, build_classes, build_joins, build_merges,
    build_two_stage, build_vocab,
};
use super::template::TemplateConfig;
use super::tokenizer::Tokenizer;
use crate::block::TokenId;

/// Everything a compiled tokenizer is made of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// How it tokenizes.
    pub meta: Meta,
    /// Token of every byte: all 256 for a byte-level tokenizer, none or all 256 for the other family.
    pub byte_tokens: Option<Box<[TokenId; 256]>>,
    /// Texts (bytes, for a byte-level tokenizer) and ids of the model's vocabulary.
    pub vocabulary: Vec<(Vec<u8>, TokenId)>,
    /// Left, right and merged token, in order of rank.
    pub merges: Vec<(TokenId, TokenId, Merge)>,
    /// Class byte of every code point.
    pub classes: Vec<u8>,
    /// Tables for NFC, when the normalizer needs them.
    pub normalization: Option<Normalization>,
    /// Added tokens looked for in the raw text.
    pub added_raw: Vec<AddedToken>,
    /// Added tokens looked for in the normalized text.
    pub added_normalized: Vec<AddedToken>,
    /// Chat templates, for models that have one.
    pub template: Option<TemplateConfig>,
}

/// Tables for canonical composition; Hangul syllables are left out.
#[derive(Clone, Debug, Default)]
pub struct Normalization {
    /// Canonical combining class of every code point.
    pub combining: Vec<u8>,
    /// Full canonical decompositions, sorted by code point.
    pub decompositions: Vec<(u32, Vec<u32>)>,
    /// First, second, composed.
    pub compositions: Vec<(u32, u32, u32)>,
}

/// Why tables do not fit the layout.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AssembleError {
    /// A byte-level tokenizer without the tokens of the bytes.
    #[error("a byte-level tokenizer needs a token for every byte")]
    Bytes,
    /// The table of this name cannot be built.
    #[error("the {0} table cannot be built: an entry is doubled, empty or too large")]
    Table(&'static str),
    /// The result cannot be opened.
    #[error("the assembled tokenizer cannot be opened: {0}")]
    Image(#[from] super::image::ImageError),
}

/// Lays out a compiled tokenizer; `source` is the hash of the files it comes from.
///
/// # Errors
/// [`AssembleError`] when a table cannot be built.
pub fn assemble(parts: &Parts, source: u128) -> Result<Vec<u8>, AssembleError> {
    if parts.meta.family == Family::ByteLevel && parts.byte_tokens.is_none() {
        return Err(AssembleError::Bytes);
    }
    let marked = mark_whole(parts, source)?;
    let mut writer = ImageWriter::default();
    add_common(&mut writer, parts)?;
    add_vocabulary(&mut writer, &marked)?;
    writer.finish(source).ok_or(AssembleError::Table("section"))
}

fn add_vocabulary(writer: &mut ImageWriter, pieces: &[(Vec<u8>, TokenId, bool)]) -> Result<(), AssembleError> {
    let (slots, text) = build_vocab(pieces).ok_or(AssembleError::Table("vocabulary"))?;
    writer.add(Section::Vocab, slots);
    writer.add(Section::VocabText, text);
    Ok(())
}

fn add_common(writer: &mut ImageWriter, parts: &Parts) -> Result<(), AssembleError> {
    writer.add(Section::Meta, parts.meta.encode());
    let merges = build_merges(&parts.merges).ok_or(AssembleError::Table("merge"))?;
    if let Some(tokens) = &parts.byte_tokens {
        writer.add(Section::Bytes, tokens.iter().flat_map(|token| token.0.to_le_bytes()).collect());
        if parts.meta.family == Family::ByteLevel {
            writer.add(Section::BytePairs, build_byte_pairs(&merges, tokens));
        }
    }
    writer.add(Section::Merges, merges);
    if parts.meta.family == Family::Characters {
        let merged: HashSet<TokenId> = parts.merges.iter().map(|(_, _, merge)| merge.id).collect();
        let texts = parts.vocabulary.iter().filter(|(_, id)| merged.contains(id)).map(|(text, _)| text.as_slice());
        let fused = parts.meta.flags.fuse_unknown && parts.byte_tokens.is_none();
        let single = fused.then(|| parts.vocabulary.iter().map(|(text, _)| text.as_slice()));
        writer.add(Section::Joins, build_joins(texts, single));
    }
    let (index, blocks) = build_classes(&parts.classes);
    writer.add(Section::ClassIndex, index);
    writer.add(Section::ClassBlocks, blocks);
    if let Some(normalization) = &parts.normalization {
        let (index, blocks) = build_two_stage(&normalization.combining);
        writer.add(Section::CombiningIndex, index);
        writer.add(Section::CombiningBlocks, blocks);
        let decompositions = build_decompositions(&normalization.decompositions);
        writer.add(Section::Decompositions, decompositions.ok_or(AssembleError::Table("decomposition"))?);
        writer.add(Section::Compositions, build_compositions(&normalization.compositions));
    }
    let added = |tokens| build_added(tokens).ok_or(AssembleError::Table("added-token"));
    writer.add(Section::AddedRaw, added(&parts.added_raw)?);
    writer.add(Section::AddedNormalized, added(&parts.added_normalized)?);
    if let Some(template) = &parts.template {
        writer.add(Section::Template, encode_template(template).ok_or(AssembleError::Table("template"))?);
    }
    Ok(())
}

/// Which pieces of the vocabulary are what merging their own text gives, so that finding one saves the merging. With
/// `ignore_merges` all are, by definition. Pieces that are not serve as first symbols only, and only characters need that.
fn mark_whole(parts: &Parts, source: u128) -> Result<Vec<(Vec<u8>, TokenId, bool)>, AssembleError> {
    if parts.meta.flags.ignore_merges {
        return Ok(parts.vocabulary.iter().map(|(piece, id)| (piece.clone(), *id, true)).collect());
    }
    let all: Vec<_> = parts.vocabulary.iter().map(|(piece, id)| (piece.clone(), *id, false)).collect();
    let mut writer = ImageWriter::default();
    add_common(&mut writer, parts)?;
    if parts.meta.family == Family::Characters {
        add_vocabulary(&mut writer, &all)?;
    }
    let image = writer.finish(source).ok_or(AssembleError::Table("section"))?;
    let tokenizer = Tokenizer::load(image)?;
    let tables = tokenizer.tables();
    let mut symbols = Vec::new();
    Ok(all
        .into_iter()
        .map(|(piece, id, _)| {
            let whole = merges_to(&tables, &parts.meta, &piece, id, &mut symbols);
            (piece, id, whole)
        })
        .filter(|(_, _, whole)| *whole || parts.meta.family == Family::Characters)
        .collect())
}

fn merges_to(tables: &Tables<'_>, meta: &Meta, piece: &[u8], id: TokenId, symbols: &mut Vec<TokenId>) -> bool {
    symbols.clear();
    first_symbols(tables, meta, piece, 0, piece.len(), symbols);
    let mut merge = LongMerge::new(symbols);
    merge.finish(tables);
    merge.tokens().eq([id])
}
