//! `event-bridge tokenizer`: compile, check, show, encode.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use kv_routing::block::TokenId;
use kv_routing::tokens::{Prompter, Tokenizer};
use kv_routing::wire::BridgeShare;
use serde::Deserialize;
use serde_json::json;

use super::model::Model;
use super::{CliError, input, out};
use crate::config::WorkerAddress;
use crate::cross_check::{self, Counts, Ours, Outcome};
use crate::probe::WorkerClient;
use crate::tokenizer::{BridgeTokenizer, ChatTest, Reference, compare};

/// Longest wait for one answer of an engine.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge tokenizer check --model-dir /models/qwen3
  event-bridge tokenizer check --model-dir /models/qwen3 --engine 10.0.0.11:8000
  event-bridge tokenizer compile --model-dir /models/qwen3 --output qwen3.kvtok
  event-bridge tokenizer show qwen3.kvtok
  echo 'Hello world' | event-bridge tokenizer encode --model-dir /models/qwen3
  event-bridge tokenizer encode --model-dir /models/qwen3 --json-lines --reference < texts.jsonl

`check` and `encode --reference` exit with 4 and print the first difference when the core differs from Hugging Face library or engine.";

#[derive(Debug, Args)]
pub(super) struct TokenizerArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile a model's tokenizer and chat template to the file that Envoy uses.
    Compile(CompileArgs),
    /// Compile, and compare texts with the Hugging Face library and chats with the template as written, over a built-in corpus.
    Check(CheckArgs),
    /// Say what a compiled tokenizer is.
    Show(ShowArgs),
    /// Print token ids as one JSON array per text.
    Encode(EncodeArgs),
}

#[derive(Debug, Args)]
struct ModelArgs {
    /// Folder with tokenizer.json and its companions.
    #[arg(long, value_name = "DIR")]
    model_dir: PathBuf,
}

#[derive(Debug, Args)]
struct CheckArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Ask this engine, too, what it makes of some 60 of the prompts, and fail at the first that differs.
    #[arg(long, value_name = "HOST:PORT")]
    engine: Option<String>,
}

#[derive(Debug, Args)]
struct CompileArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Where the compiled form goes.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// Compiled tokenizer.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
struct EncodeArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Texts; `-` is standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    input: PathBuf,
    /// The input is JSON lines of {"text": ...} instead of one text.
    #[arg(long)]
    json_lines: bool,
    /// Put around each text what the tokenizer's post-processor does.
    #[arg(long)]
    special_tokens: bool,
    /// Tokenize with the Hugging Face library, and fail at the first text on which the filter's core differs.
    #[arg(long)]
    reference: bool,
}

pub(super) fn tokenizer(args: &TokenizerArgs) -> Result<(), CliError> {
    match &args.command {
        Command::Compile(args) => compile(args),
        Command::Check(args) => check(args),
        Command::Show(args) => show(args),
        Command::Encode(args) => encode(args),
    }
}

fn compile(args: &CompileArgs) -> Result<(), CliError> {
    let Model { compiled, .. } = Model::load(&args.model.model_dir)?;
    let written = std::fs::write(&args.output, &compiled.bytes);
    written.map_err(|source| CliError::Write { path: args.output.clone(), source })?;
    let report = &compiled.report;
    out::print(&format!(
        "{}: {} bytes, id {:016x}, {} tokens, {} merges\n",
        args.output.display(),
        compiled.bytes.len(),
        compiled.id,
        report.vocabulary,
        report.merges
    ))
}

fn check(args: &CheckArgs) -> Result<(), CliError> {
    let mut model = Model::load(&args.model.model_dir)?;
    let (tested, chats) = model.prove()?;
    let report = &model.compiled.report;
    let mut text = format!(
        "{}: equal to the Hugging Face library on {} texts, {} tokens\n{}",
        args.model.model_dir.display(),
        tested.texts,
        tested.tokens,
        described(&model.compiled.bytes)?
    );
    match &report.template_problem {
        Some(problem) => text.push_str(&format!("chats cannot be rendered: {problem}\n")),
        None => text.push_str(&told(&chats)),
    }
    for note in &report.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    out::print(&text)?;
    match &args.engine {
        Some(address) => ask(address, model),
        None => Ok(()),
    }
}

/// Compares with a running engine.
fn ask(address: &str, model: Model) -> Result<(), CliError> {
    let worker = WorkerAddress::parse(address).map_err(|error| CliError::Usage(format!("--engine: {error}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| CliError::System { what: "cannot start the runtime", source })?;
    let Model { files, options, compiled, .. } = model;
    let bridge = if BridgeTokenizer::renders_what_the_core_cannot(&files) {
        Some((Arc::new(BridgeTokenizer::load(&files, &options)?), BridgeShare::Chats))
    } else {
        None
    };
    let ours = Ours { core: Some(compiled.bytes), bridge };
    let client = WorkerClient::new(&worker, TIMEOUT);
    let (outcome, _) = runtime.block_on(cross_check::run(&client, ours, cross_check::Model { files, options }));
    match outcome {
        Outcome::Agrees(Counts { equal, tokens, refused, unanswered }) => out::print(&format!(
            "engine {worker}: equal for {equal} prompts, {tokens} tokens; {refused} refused by both, {unanswered} not answered\n"
        )),
        Outcome::Differs(difference) => Err(CliError::Engine(difference)),
        Outcome::Unanswered { why, .. } => Err(CliError::Input(format!("engine {worker}: {why}"))),
    }
}

fn told(chats: &ChatTest) -> String {
    match (chats.problem(), chats.refused) {
        (Some(problem), _) => format!("chats cannot be rendered: {problem}\n"),
        (None, refused) => format!(
            "chats: equal to the template as it is written on {} conversations, {} tokens; it refuses {refused} others\n",
            chats.equal, chats.tokens
        ),
    }
}

fn show(args: &ShowArgs) -> Result<(), CliError> {
    out::print(&described(&input::read(&args.file)?)?)
}

fn described(compiled: &[u8]) -> Result<String, CliError> {
    let tokenizer = Tokenizer::load(compiled.to_vec()).map_err(kv_routing::tokens::LoadError::from)?;
    let meta = tokenizer.meta();
    let template = tokenizer.template().map_err(kv_routing::tokens::LoadError::from)?;
    let template = template.map_or_else(
        || "none".to_owned(),
        |template| format!("{} bytes, contents as {:?}", template.template.len(), template.content_format),
    );
    Ok(format!(
        "id {:016x}, {} bytes, {} token ids\nfamily {:?}, pattern {:?}, normalizer {:?}\nchat template {template}\n",
        tokenizer.image().id() as u64,
        compiled.len(),
        meta.vocabulary,
        meta.family,
        meta.pattern,
        meta.normalizer,
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextLine {
    text: String,
}

fn encode(args: &EncodeArgs) -> Result<(), CliError> {
    let mut model = Model::load(&args.model.model_dir)?;
    let reference = if args.reference { Some(model.reference()?) } else { None };
    let mut print = |text: &str| {
        let ids = ids(&mut model.prompter, reference.as_ref(), text, args.special_tokens)?;
        out::print(&format!("{}\n", json!(ids.iter().map(|id| id.0).collect::<Vec<u32>>())))
    };
    if args.json_lines {
        return input::lines(&args.input, |number, line| {
            let TextLine { text } = serde_json::from_str(line)
                .map_err(|error| CliError::Input(format!("line {number}: {error}; write {{\"text\": ...}}")))?;
            print(&text)
        });
    }
    let text = String::from_utf8(input::read(&args.input)?)
        .map_err(|error| CliError::Input(format!("the text is not UTF-8: {error}")))?;
    // The line end that a shell's echo adds is not meant.
    print(text.strip_suffix('\n').unwrap_or(&text))
}

fn ids(
    core: &mut Prompter,
    reference: Option<&Reference>,
    text: &str,
    special_tokens: bool,
) -> Result<Vec<TokenId>, CliError> {
    if let Some(reference) = reference {
        compare(core, reference, text, special_tokens)?;
    }
    Ok(core.encode(text, special_tokens))
}
