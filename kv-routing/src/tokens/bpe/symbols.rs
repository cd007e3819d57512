//! A piece's first symbols: its bytes, or its characters.

use crate::block::TokenId;
use crate::tokens::image::Family;
use crate::tokens::image::Meta;
use crate::tokens::image::bytes::u32_at;
use crate::tokens::table::{Tables, decode};

/// Appends the first symbols of `text[start..end]`.
pub(crate) fn first_symbols(
    tables: &Tables<'_>,
    meta: &Meta,
    text: &[u8],
    start: usize,
    end: usize,
    out: &mut Vec<TokenId>,
) {
    match meta.family {
        Family::ByteLevel => {
            out.extend(text.get(start..end).unwrap_or(&[]).iter().map(|byte| byte_token(tables, *byte)));
        }
        Family::Characters => characters(tables, meta, text, start, end, out),
    }
}

#[inline]
pub(super) fn byte_token(tables: &Tables<'_>, byte: u8) -> TokenId {
    TokenId(u32_at(tables.byte_tokens, usize::from(byte) * 4))
}

/// A character outside the vocabulary becomes its bytes where the vocabulary has byte tokens, else the unknown token.
fn characters(tables: &Tables<'_>, meta: &Meta, text: &[u8], start: usize, end: usize, out: &mut Vec<TokenId>) {
    let mut at = start;
    let mut unknown_before = false;
    while at < end {
        let Some(first) = text.get(at).copied() else { return };
        let length = if first < 0x80 { 1 } else { decode(text, at, first).1 };
        let next = (at + length).min(end);
        match tables.vocab.symbol(text, at, next) {
            Some(token) => {
                out.push(token);
                unknown_before = false;
            }
            None if !tables.byte_tokens.is_empty() => {
                out.extend(text.get(at..next).unwrap_or(&[]).iter().map(|byte| byte_token(tables, *byte)));
            }
            None => {
                if let Some(unknown) = meta.unknown
                    && !(unknown_before && meta.flags.fuse_unknown)
                {
                    out.push(unknown);
                }
                unknown_before = true;
            }
        }
        at = next;
    }
}
