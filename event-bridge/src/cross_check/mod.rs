//! Our prompts against those of an engine, asked for before any traffic tells.
//!
//! The built-in texts and conversations of the self-test go to an engine's `/tokenize` and, where it has that, to its `.../render`; its tokens
//! must be those that are hashed here. When they are not, the Hugging Face library on the same files says whose fault it is: the
//! core's, or that of files and settings which are not the engine's.
//!
//! | module | what |
//! |---|---|
//! | `questions` | what is asked, and how |
//! | `ours` | the tokens that are hashed here |
//! | `ask` | the calls |
//! | `judge` | comparison, and the library's word |

mod ask;
mod judge;
mod ours;
mod questions;

use std::sync::Arc;
use std::time::Duration;

use crate::ingest::Cause;
use crate::probe::WorkerClient;
use crate::tokenizer::{BridgeTokenizer, ModelFiles, RenderOptions};

pub use judge::Difference;
pub use ours::Ours;

/// Longest time for all calls together.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What came of asking one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It computes what is hashed here.
    Agrees(Counts),
    /// It computes something else.
    Differs(Box<Difference>),
    /// It did not say.
    Unanswered {
        /// Why.
        why: String,
        /// Whether asking again may help.
        again: bool,
    },
}

impl Outcome {
    /// Words of [`Outcome::as_str`].
    pub const AGREES: &str = "agrees";
    /// See [`Outcome::AGREES`].
    pub const DIFFERS: &str = "differs";
    /// See [`Outcome::AGREES`].
    pub const UNANSWERED: &str = "unanswered";

    /// Word used in metrics and the admin API.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Agrees(_) => Self::AGREES,
            Self::Differs(_) => Self::DIFFERS,
            Self::Unanswered { .. } => Self::UNANSWERED,
        }
    }
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Prompts with equal tokens.
    pub equal: u32,
    /// Tokens of these.
    pub tokens: u64,
    /// Prompts that both refuse.
    pub refused: u32,
    /// Prompts that the engine alone did not answer: refused for lack of an option, or not to be asked for.
    pub unanswered: u32,
}

/// Whose fault a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// The core's: the library says what the engine says.
    Core,
    /// The files or settings are not the engine's; a guess what of them.
    Files(Cause),
}

/// The model as it is configured here.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its files.
    pub files: ModelFiles,
    /// How chats are rendered.
    pub options: RenderOptions,
}

/// Asks the engine behind `client`. The second result is there when the core is at fault: what tokenizes right.
pub async fn run(client: &WorkerClient, ours: Ours, model: Model) -> (Outcome, Option<Arc<BridgeTokenizer>>) {
    match tokio::time::timeout(LIMIT, compare(client, ours, model)).await {
        Ok(done) => done,
        Err(_) => {
            let why = format!("not all answers within {} s", LIMIT.as_secs());
            (Outcome::Unanswered { why, again: true }, None)
        }
    }
}

async fn compare(client: &WorkerClient, ours: Ours, model: Model) -> (Outcome, Option<Arc<BridgeTokenizer>>) {
    let failed = |why: String, again| (Outcome::Unanswered { why, again }, None);
    let questions = match tokio::task::spawn_blocking(move || ours.answered(questions::all())).await {
        Ok(Ok(questions)) => questions,
        Ok(Err(why)) => return failed(why, false),
        Err(error) => return failed(error.to_string(), true),
    };
    let answers = match ask::all(client, &questions).await {
        Ok(answers) => answers,
        Err(error) => return failed(error.to_string(), true),
    };
    let judged = tokio::task::spawn_blocking(move || judge::judge(&questions, &answers, &model)).await;
    judged.unwrap_or_else(|error| failed(error.to_string(), true))
}
