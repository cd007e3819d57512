//! `event-bridge render`.

use std::path::{Path, PathBuf};

use clap::Args;
use kv_routing::block::{BlockSize, HashSeed, SequenceHash, TokenId};
use kv_routing::openai::{Endpoint, InferenceRequest, PromptInput, parse};
use kv_routing::tokens::template::Renderer;
use kv_routing::tokens::{HashPlan, PreparedPrompt, Progress, PromptError, prepare_tokens};
use serde::Deserialize;
use serde_json::{Value, json};

use super::model::Model;
use super::{CliError, input, out};
use crate::clock;
use crate::tokenizer::{
    BridgePrompt, BridgeTokenizer, CompileError, ModelFiles, RenderOptions, compare, compile_files,
};

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge render --model-dir /models/qwen3 --request body.json
  curl -s ... | event-bridge render --model-dir /models/qwen3 --request - --block-size 16 --reference
  event-bridge render --model-dir /models/qwen3 --json-lines --request requests.jsonl

Prints one JSON object: `prompt` (text after the chat template), `tokens`, `blocks` (chained hashes of the full blocks,
hexadecimal) and `exactness`. Everything is computed by the code that runs in Envoy.

With --reference the Hugging Face library tokenizes too; exits with 4 and prints the first difference when the two differ. A prompt that the
filter does not support is then printed as the bridge tokenizes it, with `tokenized_by`.

With --json-lines the input has a line {\"path\": ..., \"body\": ...} per request, the body as text, byte for byte, and the answers are lines too; that
of a request without a prompt has only `error`.";

/// Bytes of text tokenized in one slice; the slices change nothing, and here nobody else waits.
const SLICE_BYTES: u32 = u32::MAX;

#[derive(Debug, Args)]
pub(super) struct RenderArgs {
    /// Folder with tokenizer.json and its companions.
    #[arg(long, value_name = "DIR")]
    model_dir: PathBuf,
    /// Request body; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// The input is JSON lines of {"path": ..., "body": ...} instead of one body.
    #[arg(long, conflicts_with_all = ["path", "adapter", "reference"])]
    json_lines: bool,
    /// Path the body is sent to. Default: chat completions for a body with `messages`, else completions.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Tokens per block.
    #[arg(long, value_name = "TOKENS", default_value_t = 16)]
    block_size: u32,
    /// LoRA adapter the request is for, which changes the hashes.
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
    /// Tokenize with the Hugging Face library too and fail at the first difference.
    #[arg(long)]
    reference: bool,
}

/// One line of a file of requests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine {
    path: Option<String>,
    body: String,
}

pub(super) fn render(args: &RenderArgs) -> Result<(), CliError> {
    let block_size = BlockSize::new(args.block_size)
        .ok_or_else(|| CliError::Usage(format!("--block-size: 1 to {}", BlockSize::MAX)))?;
    if args.json_lines {
        return render_lines(args, block_size);
    }
    let body = input::read(&args.request)?;
    let request = read_request(args.path.as_deref(), &body)?;
    let plan = plan(&request, args.adapter.as_deref(), block_size);
    if args.reference
        && let Some(prompt) = by_bridge(&args.model_dir, &request)?
    {
        return out::print(&format!("{:#}\n", bridged_json(&prompt, &request, plan)));
    }
    let mut model = Model::load(&args.model_dir)?;
    let prompt = Prompt::make(&mut model, &request, plan)?;
    if let (true, Some(text)) = (args.reference, &prompt.text) {
        let reference = model.reference()?;
        compare(&mut model.prompter, &reference, text, request.add_special_tokens)?;
    }
    out::print(&format!("{:#}\n", prompt.json(&request, block_size)))
}

/// Every request of a file, with one prompter and its caches. A request without a prompt does not end it.
fn render_lines(args: &RenderArgs, block_size: BlockSize) -> Result<(), CliError> {
    let mut model = Model::load(&args.model_dir)?;
    input::lines(&args.request, |number, line| {
        let line: RequestLine =
            serde_json::from_str(line).map_err(|error| CliError::Input(format!("line {number}: {error}")))?;
        let answer = render_line(&mut model, &line, block_size);
        let answer = answer.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        out::print(&format!("{answer}\n"))
    })
}

fn render_line(model: &mut Model, line: &RequestLine, block_size: BlockSize) -> Result<Value, CliError> {
    let body = line.body.as_bytes();
    let request = read_request(line.path.as_deref(), body)?;
    let prompt = Prompt::make(model, &request, plan(&request, None, block_size))?;
    Ok(prompt.json(&request, block_size))
}

fn read_request<'a>(path: Option<&str>, body: &'a [u8]) -> Result<InferenceRequest<'a>, CliError> {
    parse(endpoint(path, body)?, body).map_err(|error| CliError::Input(error.to_string()))
}

fn plan(request: &InferenceRequest<'_>, adapter: Option<&str>, block_size: BlockSize) -> HashPlan {
    HashPlan { block_size, seed: HashSeed::new(adapter, request.cache_salt.as_deref()) }
}

/// The prompt as the bridge makes it, when the filter cannot.
fn by_bridge(dir: &Path, request: &InferenceRequest<'_>) -> Result<Option<BridgePrompt>, CliError> {
    let (files, options) = (ModelFiles::read(dir)?, RenderOptions::default());
    let is_chat = matches!(request.prompt, PromptInput::Chat(_));
    let in_filter = match compile_files(&files, &options) {
        Ok(_) => !(is_chat && BridgeTokenizer::renders_what_the_core_cannot(&files)),
        Err(CompileError::Unsupported(_)) => false,
        Err(other) => return Err(other.into()),
    };
    if in_filter || matches!(request.prompt, PromptInput::Tokens(_) | PromptInput::Absent) {
        return Ok(None);
    }
    Ok(Some(BridgeTokenizer::load(&files, &options)?.tokenize(request, clock::unix_millis())?))
}

fn bridged_json(prompt: &BridgePrompt, request: &InferenceRequest<'_>, plan: HashPlan) -> Value {
    let tokenized = prompt.hashed(plan);
    json!({
        "model": request.model,
        "tokenized_by": "bridge",
        "exact_tokens": tokenized.exact_tokens,
        "prompts": request.prompts,
        "prompt": prompt.text,
        "prompt_tokens": tokenized.tokens,
        "tokens": prompt.tokens.iter().map(|token| token.0).collect::<Vec<u32>>(),
        "block_size": plan.block_size.tokens(),
        "blocks": tokenized.chain.iter().map(SequenceHash::to_string).collect::<Vec<_>>(),
    })
}

/// The endpoint of `path`, or the one the body is for.
pub(super) fn endpoint(path: Option<&str>, body: &[u8]) -> Result<Endpoint, CliError> {
    if let Some(path) = path {
        let unknown = || CliError::Usage(format!("--path: {path} is no inference path the filter acts on"));
        return Endpoint::of_path(path).ok_or_else(unknown);
    }
    let chat = parse(Endpoint::ChatCompletions, body).is_ok_and(|chat| matches!(chat.prompt, PromptInput::Chat(_)));
    Ok(if chat { Endpoint::ChatCompletions } else { Endpoint::Completions })
}

/// A prompt, and what becomes of it on the way to block hashes.
struct Prompt {
    text: Option<String>,
    tokens: Vec<TokenId>,
    prepared: PreparedPrompt,
}

impl Prompt {
    fn make(model: &mut Model, request: &InferenceRequest<'_>, plan: HashPlan) -> Result<Self, CliError> {
        let now = clock::unix_millis();
        let text = match &request.prompt {
            PromptInput::Tokens(tokens) => {
                let prepared = prepare_tokens(tokens, plan);
                return Ok(Self { text: None, tokens: tokens.clone(), prepared });
            }
            PromptInput::Absent => return Err(PromptError::Absent.into()),
            PromptInput::Text(text) => text.to_string(),
            PromptInput::Chat(chat) => {
                let template = model.prompter.tokenizer().template();
                let template = template.map_err(kv_routing::tokens::LoadError::from)?.ok_or(PromptError::NoTemplate)?;
                let renderer = Renderer::compile(template).map_err(kv_routing::tokens::LoadError::from)?;
                renderer.render(chat, now).map_err(PromptError::from)?.text
            }
        };
        let mut preparation = model.prompter.begin(request, plan, now)?;
        let prepared = loop {
            if let Progress::Done(prepared) = model.prompter.advance(&mut preparation, SLICE_BYTES) {
                break prepared;
            }
        };
        let tokens = model.prompter.encode(&text, request.add_special_tokens);
        Ok(Self { text: Some(text), tokens, prepared })
    }

    fn json(&self, request: &InferenceRequest<'_>, block_size: BlockSize) -> Value {
        let exactness = match request.exactness {
            kv_routing::openai::Exactness::Exact => "exact",
            kv_routing::openai::Exactness::UpToMedia => "up_to_media",
            kv_routing::openai::Exactness::Approximate(reason) => reason.as_str(),
        };
        json!({
            "model": request.model,
            "exactness": exactness,
            "prompts": request.prompts,
            "add_special_tokens": request.add_special_tokens,
            "prompt": self.text,
            "prompt_tokens": self.prepared.tokens,
            "tokens": self.tokens.iter().map(|token| token.0).collect::<Vec<u32>>(),
            "block_size": block_size.tokens(),
            "blocks": self.prepared.chain.iter().map(SequenceHash::to_string).collect::<Vec<_>>(),
        })
    }
}
