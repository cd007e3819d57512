//! Tokenizer classes that rebuild what `tokenizer.json` says.
//!
//! `transformers` 5 takes a `tokenizer.json` as it is only for its generic class. Other classes keep its vocabulary, merges, added tokens and
//! post-processor, and build normalizer, pre-tokenizer and the model's switches themselves. What they build is written down here, by what
//! release 5.19 does (`scripts/record-class-goldens.py`), and put in the place of what the file says.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::CompileError;

/// What of `tokenizer_config.json` and `config.json` chooses the class.
#[derive(Debug, Default, Deserialize)]
struct Chosen {
    #[serde(default)]
    tokenizer_class: Option<String>,
    #[serde(default)]
    model_type: Option<String>,
    #[serde(default)]
    auto_map: Value,
    #[serde(default)]
    legacy: Option<bool>,
    #[serde(default)]
    add_prefix_space: Option<bool>,
}

/// Model types whose tokenizer is of the generic class, whatever their configuration says.
const GENERIC: &[&str] = &[
    "arctic",
    "aria",
    "canary",
    "chameleon",
    "chatlm",
    "cohere_asr",
    "deepseek_ocr",
    "deepseek_ocr2",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "deepseek_v4",
    "deepseek_vl",
    "deepseek_vl_hybrid",
    "deepseek_vl_v2",
    "ernie4_5",
    "ernie4_5_moe",
    "flex_olmo",
    "fuyu",
    "glm",
    "glm4",
    "glm4_moe",
    "glm4_moe_lite",
    "glm4v",
    "glm4v_moe",
    "glm_image",
    "glmasr",
    "got_ocr2",
    "gpt_bigcode",
    "granite",
    "granitemoe",
    "granitemoehybrid",
    "granitemoeshared",
    "h2ovl_chat",
    "hyperclovax",
    "hyperclovax_vlm",
    "internlm2",
    "jamba",
    "janus",
    "kimi_k25",
    "kimi_linear",
    "kosmos-2",
    "llava",
    "llava_next",
    "mimo_v2_flash",
    "minicpm3",
    "minicpmv",
    "minicpmv4_6",
    "minicpmv4_7",
    "minimax_m2",
    "ministral",
    "ministral3",
    "mistral",
    "mistral3",
    "mixtral",
    "modernbert",
    "modernbert-decoder",
    "molmo",
    "molmo2",
    "nemotron",
    "nvfp4",
    "olmo2",
    "olmo3",
    "olmo_hybrid",
    "opencua",
    "openvla",
    "paddleocr_vl",
    "persimmon",
    "phi3",
    "phi3_v",
    "phimoe",
    "pixtral",
    "smolvlm",
    "stablelm",
    "step3_vl",
    "step3p5",
    "step3p7",
    "unlimited-ocr",
    "unlimited_ocr",
    "vipllava",
    "voxtral",
    "voxtral_realtime",
];

/// Model types whose class is this one, whatever their configuration says.
const FIXED: &[(&str, &str)] = &[
    ("hyperclovax_vision_v2", "GPT2Tokenizer"),
    ("qwen2", "Qwen2Tokenizer"),
    ("qwen3_5", "Qwen3_5Tokenizer"),
    ("qwen3_5_moe", "Qwen3_5Tokenizer"),
    ("qwen3_5_moe_text", "Qwen3_5Tokenizer"),
    ("qwen4_exp", "Qwen3_5Tokenizer"),
];

const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN3_5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// What a class builds.
struct Built {
    normalizer: Value,
    pre_tokenizer: Value,
    fuse_unk: bool,
    byte_fallback: bool,
    keeps_unk_token: bool,
}

/// `tokenizer.json` as the class of the model has it, and the name of that class; `None` where it is as in the file, or where nothing
/// says which class it is.
pub(super) fn rebuilt(
    tokenizer: &[u8],
    config: Option<&[u8]>,
    model_config: Option<&[u8]>,
) -> Result<Option<(Vec<u8>, String)>, serde_json::Error> {
    let config: Chosen = config.map(serde_json::from_slice).transpose()?.unwrap_or_default();
    let model: Chosen = model_config.map(serde_json::from_slice).transpose()?.unwrap_or_default();
    let Some(class) = class(&config, &model) else { return Ok(None) };
    let mut file: BTreeMap<String, &RawValue> = serde_json::from_slice(tokenizer)?;
    let part = |name: &str| file.get(name).map_or(Ok(Value::Null), |raw| serde_json::from_str::<Value>(raw.get()));
    let (normalizer, pre_tokenizer) = (part("normalizer")?, part("pre_tokenizer")?);
    let byte_level = pre_tokenizer.to_string().contains("\"ByteLevel\"");
    let Some(built) = build(&class, &config, byte_level) else { return Ok(None) };
    let Some(model) = file.get("model") else { return Ok(None) };
    let mut model: BTreeMap<String, &RawValue> = serde_json::from_str(model.get())?;
    let raw = |value: &Value| serde_json::value::to_raw_value(value);
    let mut switches = vec![
        ("fuse_unk", raw(&built.fuse_unk.into())?),
        ("byte_fallback", raw(&built.byte_fallback.into())?),
        ("ignore_merges", raw(&false.into())?),
        ("dropout", raw(&Value::Null)?),
    ];
    if !built.keeps_unk_token {
        switches.push(("unk_token", raw(&Value::Null)?));
    }
    let is_same = |name: &str, value: &RawValue| {
        model.get(name).is_some_and(|there| there.get() == value.get())
            || !model.contains_key(name) && is_default(value)
    };
    if normalizer == built.normalizer
        && same_pre_tokenizer(&pre_tokenizer, &built.pre_tokenizer)
        && switches.iter().all(|(name, value)| is_same(name, value))
    {
        return Ok(None);
    }
    for (name, value) in &switches {
        model.insert((*name).to_owned(), value);
    }
    let (model, normalizer) = (serde_json::value::to_raw_value(&model)?, raw(&built.normalizer)?);
    let pre_tokenizer = raw(&built.pre_tokenizer)?;
    for (name, value) in [("model", &model), ("normalizer", &normalizer), ("pre_tokenizer", &pre_tokenizer)] {
        file.insert(name.to_owned(), value);
    }
    Ok(Some((serde_json::to_vec(&file)?, class)))
}

fn is_default(value: &RawValue) -> bool {
    matches!(value.get(), "false" | "null")
}

/// What does not change the pieces (`trim_offsets`) does not count.
fn same_pre_tokenizer(a: &Value, b: &Value) -> bool {
    fn plain(value: &Value) -> Value {
        match value {
            Value::Object(fields) => fields
                .iter()
                .filter(|(name, _)| *name != "trim_offsets")
                .map(|(name, value)| (name.clone(), plain(value)))
                .collect(),
            Value::Array(items) => items.iter().map(plain).collect(),
            other => other.clone(),
        }
    }
    plain(a) == plain(b)
}

/// The class, if it can be told and is not the generic one.
fn class(config: &Chosen, model: &Chosen) -> Option<String> {
    let model_type = model.model_type.as_deref()?;
    // Code of the model's own.
    if !config.auto_map.is_null() || GENERIC.contains(&model_type) {
        return None;
    }
    if let Some((_, class)) = FIXED.iter().find(|(name, _)| *name == model_type) {
        return Some((*class).to_owned());
    }
    let named = config.tokenizer_class.as_deref().or(model.tokenizer_class.as_deref())?;
    Some(named.strip_suffix("Fast").unwrap_or(named).to_owned())
}

/// What a class builds; `None` for the generic one and for classes that are not known here. A class that does not fit the kind of vocabulary
/// would make nonsense of it, which nobody serves.
fn build(class: &str, config: &Chosen, byte_level: bool) -> Option<Built> {
    let nfc = json!({"type": "NFC"});
    let metaspace =
        |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false});
    let bytes = |use_regex: bool| {
        let add_prefix_space = config.add_prefix_space.unwrap_or(false);
        json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": use_regex})
    };
    let split = |regex: &str| {
        let split = json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
        json!({"type": "Sequence", "pretokenizers": [split, bytes(false)]})
    };
    let of_bytes = |normalizer: &Value, pre_tokenizer: Value| Built {
        normalizer: normalizer.clone(),
        pre_tokenizer,
        fuse_unk: false,
        byte_fallback: false,
        keeps_unk_token: false,
    };
    let of_characters = |normalizer: Value, pre_tokenizer: Value, keeps_unk_token: bool| Built {
        normalizer,
        pre_tokenizer,
        fuse_unk: true,
        byte_fallback: true,
        keeps_unk_token,
    };
    let prepends = config.add_prefix_space.unwrap_or(true);
    Some(match (class, byte_level) {
        ("GPT2Tokenizer", true) => of_bytes(&Value::Null, bytes(true)),
        ("GPTNeoXTokenizer", true) => of_bytes(&nfc, bytes(true)),
        ("Qwen2Tokenizer", true) => of_bytes(&nfc, split(QWEN2)),
        ("Qwen3_5Tokenizer", true) => of_bytes(&nfc, split(QWEN3_5)),
        ("CohereTokenizer", true) => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            of_bytes(&nfc, json!({"type": "Sequence", "pretokenizers": [digits, bytes(true)]}))
        }
        ("LlamaTokenizer", false) => {
            let scheme = match (prepends, config.legacy) {
                (false, _) => "never",
                (true, Some(true)) => "always",
                (true, _) => "first",
            };
            of_characters(Value::Null, metaspace(scheme), false)
        }
        ("CodeLlamaTokenizer", false) => {
            of_characters(Value::Null, metaspace(if prepends { "first" } else { "never" }), true)
        }
        ("GemmaTokenizer", false) => {
            let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
            let split =
                json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
            of_characters(spaces, split, true)
        }
        _ => return None,
    })
}

/// The same for a model directory's files.
pub(super) fn rebuild(
    tokenizer: Vec<u8>,
    config: Option<&[u8]>,
    model_config: Option<&[u8]>,
    wrong: impl Fn(serde_json::Error) -> CompileError,
) -> Result<(Vec<u8>, Option<String>), CompileError> {
    Ok(match rebuilt(&tokenizer, config, model_config).map_err(wrong)? {
        Some((rebuilt, class)) => (rebuilt, Some(class)),
        None => (tokenizer, None),
    })
}
