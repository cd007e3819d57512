//! What can go wrong with a template, at load and per request.

use thiserror::Error;

/// Why a template cannot be used exactly. Found when a model is loaded, never first at a request.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TemplateError {
    /// The model directory has none.
    #[error("no chat template in chat_template.jinja, chat_template.json or tokenizer_config.json")]
    Missing,
    /// A file of the model directory is not what it should be.
    #[error("{file}: {problem}")]
    File {
        /// Name of the file.
        file: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The template does not compile.
    #[error("chat template does not compile: {0}")]
    Syntax(String),
    /// It compiles, but uses something that Jinja has and this renderer has not.
    #[error("chat template uses {what} (line {line}), which is not supported: tokenize through the bridge's reference")]
    Unsupported {
        /// The filter, test, function, method or construct.
        what: String,
        /// Line of the template.
        line: u32,
    },
    /// The engine does not use the template at all for this model.
    #[error("{model}: prompts are built by {by}, not by a chat template")]
    OtherRenderer {
        /// Model type or tokenizer class.
        model: String,
        /// What builds them.
        by: &'static str,
    },
}

/// Why one request cannot be rendered. The engine refuses most of these as well; they pass on unrouted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RenderError {
    /// The template failed or refused the messages (`raise_exception`).
    #[error("chat template: {0}")]
    Template(String),
    /// The request has a template of its own and the pool does not allow that.
    #[error("the request brings its own chat template")]
    RequestTemplate,
    /// The engine refuses such a request.
    #[error("the engine refuses {0}")]
    Refused(&'static str),
    /// The request asks for something that changes the tokens in a way only the engine knows.
    #[error("`{0}` in chat_template_kwargs is not supported")]
    Argument(String),
}
