//! Rank files, tiktoken's and tekken's, as the `tokenizer.json` they amount to.
//!
//! A rank file lists byte strings, the earlier the more urgent to be merged from any two neighbours that make it up. So every way to
//! cut a token into two tokens is a merge; all of a token's have its rank (`model::read` sees to that).

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Unsupported;
use super::model::byte_alphabet;
use super::pattern::KIMI;

/// Special tokens after a Kimi model's ranks, named or not.
const KIMI_RESERVED: u32 = 256;
/// Tekken's beginning of a text.
const TEKKEN_BOS: u32 = 1;

/// `tiktoken.model` as Kimi's repositories have it, with `tokenizer_config.json`.
///
/// # Errors
/// [`Unsupported`] when the file is damaged or its class is not known: pattern and special tokens are in the class.
pub(super) fn tiktoken(file: &[u8], config: Option<&[u8]>) -> Result<Vec<u8>, Unsupported> {
    let class = config.and_then(|config| serde_json::from_slice::<ClassJson>(config).ok()).unwrap_or_default();
    if class.tokenizer_class.as_deref() != Some("TikTokenTokenizer") {
        let what = format!("tiktoken.model with class {:?}, only TikTokenTokenizer is known", class.tokenizer_class);
        return Err(Unsupported::new("tokenizer_config.json tokenizer_class", what));
    }
    let tokens = tiktoken_ranks(file)?;
    let base = u32::try_from(tokens.len()).map_err(|_| Unsupported::new("tiktoken.model", "too many tokens"))?;
    let named = |id: u32| class.added_tokens_decoder.get(&id.to_string()).map(|token| token.content.clone());
    let reserved = (base..base + KIMI_RESERVED)
        .map(|id| (id, named(id).unwrap_or_else(|| format!("<|reserved_token_{id}|>"))))
        .collect::<Vec<_>>();
    Ok(tokenizer_json(&tokens, 0, KIMI, &reserved, &[]).into_bytes())
}

/// `tekken.json`. Its special tokens are never found in text.
///
/// # Errors
/// [`Unsupported`] when the file is damaged.
pub(super) fn tekken(file: &[u8]) -> Result<Vec<u8>, Unsupported> {
    let damaged = |what: String| Unsupported::new("tekken.json", what);
    let TekkenJson { config, vocab } = serde_json::from_slice(file).map_err(|error| damaged(error.to_string()))?;
    let TekkenConfig { pattern, default_vocab_size, default_num_special_tokens } = config;
    let size = default_vocab_size
        .checked_sub(default_num_special_tokens)
        .ok_or_else(|| damaged("more special tokens than tokens".to_owned()))? as usize;
    let entries = vocab.get(..size).ok_or_else(|| damaged(format!("fewer than {size} tokens")))?;
    let mut tokens = Vec::with_capacity(size);
    for (at, entry) in entries.iter().enumerate() {
        if entry.rank as usize != at {
            return Err(damaged(format!("entry {at} has rank {}", entry.rank)));
        }
        tokens.push(base64(&entry.token_bytes).ok_or_else(|| damaged(format!("entry {at} is not base64")))?);
    }
    Ok(tokenizer_json(&tokens, default_num_special_tokens, &pattern, &[], &[TEKKEN_BOS]).into_bytes())
}

#[derive(Default, Deserialize)]
struct ClassJson {
    tokenizer_class: Option<String>,
    #[serde(default)]
    added_tokens_decoder: HashMap<String, ContentJson>,
}

#[derive(Deserialize)]
struct ContentJson {
    content: String,
}

#[derive(Deserialize)]
struct TekkenJson {
    config: TekkenConfig,
    vocab: Vec<TekkenEntry>,
}

#[derive(Deserialize)]
struct TekkenConfig {
    pattern: String,
    default_vocab_size: u32,
    default_num_special_tokens: u32,
}

#[derive(Deserialize)]
struct TekkenEntry {
    rank: u32,
    token_bytes: String,
}

/// Lines of base64 and rank, in order.
fn tiktoken_ranks(file: &[u8]) -> Result<Vec<Vec<u8>>, Unsupported> {
    let damaged = |what: String| Unsupported::new("tiktoken.model", what);
    let text = std::str::from_utf8(file).map_err(|error| damaged(error.to_string()))?;
    let mut tokens = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let read =
            line.split_once(' ').and_then(|(token, rank)| Some((base64(token)?, rank.trim().parse::<usize>().ok()?)));
        match read {
            Some((token, rank)) if rank == tokens.len() && !token.is_empty() => tokens.push(token),
            _ => return Err(damaged(format!("line {}: not a token with rank {0}", tokens.len()))),
        }
    }
    Ok(tokens)
}

fn tokenizer_json(tokens: &[Vec<u8>], first: u32, pattern: &str, special: &[(u32, String)], prefix: &[u32]) -> String {
    let ids: HashMap<&[u8], u32> = (first..).zip(tokens).map(|(id, token)| (token.as_slice(), id)).collect();
    let alphabet = byte_alphabet();
    let mut shown = ['\0'; 256];
    for (character, byte) in alphabet {
        if let Some(slot) = shown.get_mut(usize::from(byte)) {
            *slot = character;
        }
    }
    let show = |bytes: &[u8]| bytes.iter().filter_map(|byte| shown.get(usize::from(*byte))).collect::<String>();
    let vocab: Map<String, Value> = (first..).zip(tokens).map(|(id, token)| (show(token), json!(id))).collect();
    let added: Vec<Value> = special
        .iter()
        .map(|(id, text)| {
            json!({"id": id, "content": text, "normalized": false, "special": true,
            "single_word": false, "lstrip": false, "rstrip": false})
        })
        .collect();
    let frame: Vec<Value> =
        prefix.iter().map(|id| json!({"SpecialToken": {"id": format!("<{id}>"), "type_id": 0}})).collect();
    let framing: Map<String, Value> = prefix
        .iter()
        .map(|id| (format!("<{id}>"), json!({"id": format!("<{id}>"), "ids": [id], "tokens": [format!("<{id}>")]})))
        .collect();
    let sequence = |kind: &str| json!({"Sequence": {"id": kind, "type_id": 0}});
    let single: Vec<Value> = frame.iter().cloned().chain([sequence("A")]).collect();
    let pair: Vec<Value> = frame.into_iter().chain([sequence("A"), sequence("B")]).collect();
    let post = json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": framing});
    json!({
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        ]},
        "post_processor": if prefix.is_empty() { Value::Null } else { post },
        "model": {"type": "BPE", "ignore_merges": true, "vocab": vocab, "merges": merges(tokens, &ids, &show)},
    })
    .to_string()
}

/// Every way to make a token of two, in the order of the tokens.
fn merges(tokens: &[Vec<u8>], ids: &HashMap<&[u8], u32>, show: &dyn Fn(&[u8]) -> String) -> Vec<(String, String)> {
    let mut merges = Vec::new();
    for token in tokens {
        let mut ways: Vec<(u32, u32, usize)> = (1..token.len())
            .filter_map(|at| {
                let (left, right) = token.split_at_checked(at)?;
                Some((*ids.get(left)?, *ids.get(right)?, at))
            })
            .collect();
        ways.sort_unstable();
        merges.extend(ways.iter().filter_map(|(_, _, at)| {
            let (left, right) = token.split_at_checked(*at)?;
            Some((show(left), show(right)))
        }));
    }
    merges
}

/// RFC 4648 with padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let value = |byte: u8| {
        Some(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        })
    };
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in digits.bytes() {
        bits = bits << 6 | u32::from(value(byte)?);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_in_the_rfc() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(base64(text), Some(bytes.as_bytes().to_vec()));
        }
        for bad in ["Z", "Zg=", "Z===", "Zm9v!A==", "Zg==Zg=="] {
            assert_eq!(base64(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_class_or_file_that_is_not_known_is_named() {
        let refused =
            |file: &str, config: &str| tiktoken(file.as_bytes(), Some(config.as_bytes())).unwrap_err().to_string();
        assert!(refused("IQ== 0\n", r#"{"tokenizer_class": "QWenTokenizer"}"#).contains("QWenTokenizer"));
        let kimi = r#"{"tokenizer_class": "TikTokenTokenizer"}"#;
        for bad in ["IQ== 1", "IQ==", "!Q== 0", "IQ== 0\nIg== 2"] {
            assert!(refused(bad, kimi).contains("tiktoken.model"), "{bad}");
        }
        for bad in
            ["", "{}", r#"{"config":{"pattern":"x","default_vocab_size":2,"default_num_special_tokens":1},"vocab":[]}"#]
        {
            assert!(tekken(bad.as_bytes()).unwrap_err().to_string().contains("tekken.json"), "{bad}");
        }
    }
}
