//! Request bodies to prompt text to tokens to hashes, with tokenizers small enough to be made on the spot. That real
//! ones give a real engine's tokens is shown elsewhere, natively and in Envoy.

use kv_routing::block::{BlockSize, HashSeed, TokenId};
use kv_routing::openai::{Endpoint, parse};
use kv_routing::tokens::image::{Digits, Family, Meta, ModelFlags, Normalizer, Pattern, UnicodeVersion};
use kv_routing::tokens::table::{AddedToken, Class, HAN, Merge};
use kv_routing::tokens::template::TemplateConfig;
use kv_routing::tokens::{CacheLimits, HashPlan, Parts, Progress, Prompter, assemble};
use kv_routing::wire::UnixMillis;
use xxhash_rust::xxh3::xxh3_64;

const SAMPLE: &str = "The quick brown fox jumps over the lazy dog; the other fox doesn't.\n\
    Größe, façade, naïve: l'été à la plage — Привет, как дела? 你好世界,今天天气很好。 こんにちは世界\n\
    fn main() { let x = 3.14159; println!(\"{x:?} {}\", 1_000_000); }\n\tif (a==b) {\r\n\t\treturn 12345;\r\n}  \
    🙂🙂👩‍👩‍👧 e\u{301} the the theThe HTTPServer camelCase snake_case 2026-11-30T12:00:00Z\n\n\n   ";

const TEMPLATE: &str = "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content | trim }}\
    {%- if message.tool_calls %}{% for call in message.tool_calls %}\n{{ call.function | tojson }}{% endfor %}{% endif %}\
    <|im_end|>\n{% endfor %}{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}\
    {%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const BODIES: [(&str, &str); 5] = [
    (
        "/v1/chat/completions",
        r#"{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Größe? \ud83d\ude42 \u4f60\u597d"}],"cache_salt":"s"}"#,
    ),
    (
        "/v1/chat/completions",
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a "},{"type":"text","text":"b"}]},
          {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1e3,\"y\":0.1}"}}]}],
          "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","n":12345678901234567890,"d":0.30000000000000004}}}]}"#,
    ),
    ("/v1/completions", r#"{"prompt":"the quick <|im_end|> brown fox","n":2,"max_tokens":4294967295}"#),
    ("/v1/completions", r#"{"prompt":[1,2,3,4294967295]}"#),
    ("/v1/chat/completions", r#"{"messages":[{"role":"user","content":"unfinished"}"#),
];

pub(crate) fn lines() -> Vec<String> {
    let mut lines = Vec::new();
    let words = Pattern::Words { digits: Digits::One, marks: false };
    let cased = Pattern::Cased { digits: Digits::UpToThree, contractions: true, han: false, slash: true };
    for (name, pattern) in
        [("words", words), ("cased", cased), ("deepseek", Pattern::DeepSeek), ("gpt2", Pattern::Gpt2)]
    {
        let image = assemble(&parts(pattern), 42).unwrap();
        let mut prompter = Prompter::load(image, CacheLimits { bytes: 1 << 20 }).unwrap();
        for line in SAMPLE.lines().chain([SAMPLE, "", "   ", "<|im_start|><|im_end|>x"]) {
            lines.push(format!("{name} {line:?}: {}", shown(&prompter.encode(line, true))));
        }
        // Twice: with empty caches and with warm ones.
        for round in 0..2 {
            for (number, (path, body)) in BODIES.into_iter().enumerate() {
                lines.push(format!("{name} body {number}.{round}: {}", prepare(&mut prompter, path, body)));
            }
        }
        // Long enough to be cut into chunks.
        let long = serde_json::json!({"prompt": SAMPLE.repeat(60)}).to_string();
        lines.push(format!("{name} long: {}", prepare(&mut prompter, "/v1/completions", &long)));
    }
    lines
}

/// A body's way to its chain, in slices.
fn prepare(prompter: &mut Prompter, path: &str, body: &str) -> String {
    let request = match parse(Endpoint::of_path(path).unwrap(), body.as_bytes()) {
        Ok(request) => request,
        Err(error) => return format!("refused: {error}"),
    };
    let seed = HashSeed::new(request.model.as_deref(), request.cache_salt.as_deref());
    let plan = HashPlan { block_size: BlockSize::new(16).unwrap(), seed };
    let mut preparation = match prompter.begin(&request, plan, UnixMillis(1_800_000_000_000)) {
        Ok(preparation) => preparation,
        Err(error) => return format!("refused: {error}"),
    };
    loop {
        if let Progress::Done(done) = prompter.advance(&mut preparation, 512) {
            let last = done.chain.last().map(ToString::to_string).unwrap_or_default();
            return format!("{} tokens, {} blocks, {last}", done.tokens, done.chain.len());
        }
    }
}

fn shown(tokens: &[TokenId]) -> String {
    if tokens.len() > 60 {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.0.to_le_bytes()).collect();
        return format!("{} tokens, {:016x}", tokens.len(), xxh3_64(&bytes));
    }
    tokens.iter().map(|token| token.0.to_string()).collect::<Vec<_>>().join(" ")
}

fn parts(pattern: Pattern) -> Parts {
    let (vocabulary, merges) = train();
    let added =
        |text: &str, id| AddedToken { text: text.to_owned(), id: TokenId(id), strip_left: false, strip_right: false };
    let mut byte_tokens = Box::new([TokenId(0); 256]);
    for (byte, token) in (0..).zip(byte_tokens.iter_mut()) {
        *token = TokenId(byte);
    }
    Parts {
        meta: Meta {
            family: Family::ByteLevel,
            pattern,
            normalizer: Normalizer::Keep,
            flags: ModelFlags::default(),
            unknown: None,
            vocabulary: 1002,
            classes: UnicodeVersion(16, 0, 0),
            normalization: UnicodeVersion::default(),
            prefix: vec![TokenId(999)],
            suffix: vec![],
        },
        byte_tokens: Some(byte_tokens),
        vocabulary,
        merges,
        classes: (0..0x11_0000).map(|point| char::from_u32(point).map_or(0, class)).collect(),
        normalization: None,
        added_raw: vec![added("<|im_start|>", 1000), added("<|im_end|>", 1001)],
        added_normalized: vec![],
        template: Some(TemplateConfig { template: TEMPLATE.to_owned(), ..TemplateConfig::default() }),
    }
}

/// Classes near enough to Unicode's.
fn class(of: char) -> u8 {
    let han = if matches!(of, '\u{4e00}'..='\u{9fff}') { HAN } else { 0 };
    let class = match of {
        '\n' | '\r' => Class::Newline,
        '\u{300}'..='\u{36f}' => Class::Mark,
        of if of.is_whitespace() => Class::Space,
        of if of.is_numeric() => Class::Number,
        of if of.is_uppercase() => Class::Upper,
        of if of.is_lowercase() => Class::Lower,
        of if of.is_alphabetic() => Class::Letter,
        of if of.is_ascii_punctuation() => Class::Punctuation,
        of if of.is_control() => Class::Other,
        _ => Class::Symbol,
    };
    class as u8 | han
}

type Vocabulary = Vec<(Vec<u8>, TokenId)>;
type Merges = Vec<(TokenId, TokenId, Merge)>;

/// Byte-pair encoding, learned from the sample: the most frequent pair first, the lowest of equals.
fn train() -> (Vocabulary, Merges) {
    let mut vocabulary: Vocabulary = (0..=255_u8).map(|byte| (vec![byte], TokenId(byte.into()))).collect();
    let mut merges = Merges::new();
    let mut text: Vec<u32> = SAMPLE.bytes().map(u32::from).collect();
    while merges.len() < 200 {
        let mut counts = std::collections::BTreeMap::new();
        for pair in text.windows(2) {
            *counts.entry((pair[0], pair[1])).or_insert(0_u32) += 1;
        }
        let (left, right) = counts.iter().rev().max_by_key(|(_, count)| **count).map(|(pair, _)| *pair).unwrap();
        let id = 256 + merges.len() as u32;
        let piece = [vocabulary[left as usize].0.as_slice(), &vocabulary[right as usize].0].concat();
        merges.push((TokenId(left), TokenId(right), Merge { rank: merges.len() as u32, id: TokenId(id) }));
        vocabulary.push((piece, TokenId(id)));
        let mut merged = Vec::with_capacity(text.len());
        let mut rest = text.as_slice();
        while let Some((first, more)) = rest.split_first() {
            let pair = *first == left && more.first() == Some(&right);
            merged.push(if pair { id } else { *first });
            rest = if pair { &more[1..] } else { more };
        }
        text = merged;
    }
    (vocabulary, merges)
}
