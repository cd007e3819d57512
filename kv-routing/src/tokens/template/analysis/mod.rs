//! What can be told of a template before it renders anything.

mod content_format;
mod nodes;
mod support;

use minijinja::machinery::{WhitespaceConfig, ast, parse};

use super::config::ContentFormat;
use super::error::TemplateError;
use super::source;

pub(super) use nodes::{Node, walk};

/// Shape in which a template expects the content of messages, by vLLM's rule: a list of parts when there is a loop
/// over it, else a string.
pub fn content_format(template: &str) -> ContentFormat {
    let source = source::plain_scopes(template);
    match tree(&source) {
        Ok(root) if content_format::loops_over_content(&root) => ContentFormat::Parts,
        _ => ContentFormat::String,
    }
}

/// Checks that a template compiles and uses only what this renderer does as Python does.
///
/// # Errors
/// [`TemplateError::Syntax`] or [`TemplateError::Unsupported`] with the first such thing.
pub fn check(template: &str) -> Result<(), TemplateError> {
    let source = source::plain_scopes(template);
    let root = tree(&source)?;
    support::check(&root, template)
}

/// The syntax tree of a source without `generation` blocks.
pub(super) fn tree(source: &str) -> Result<ast::Stmt<'_>, TemplateError> {
    let whitespace = WhitespaceConfig { keep_trailing_newline: false, lstrip_blocks: true, trim_blocks: true };
    parse(source, "chat template", Default::default(), whitespace)
        .map_err(|error| TemplateError::Syntax(error.to_string()))
}
