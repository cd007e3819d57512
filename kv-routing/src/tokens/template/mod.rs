//! Chat templates: messages to the text that is tokenized.
//!
//! A template is a model's own Jinja program, written for Python. It runs here in minijinja with what differs
//! between the two replaced by Python's behaviour: printing, `tojson`, filters, tests and the methods of strings,
//! lists and dicts. Around it stands what vLLM does to a request before the template sees it (`messages`).
//!
//! | module | what |
//! |---|---|
//! | `config` | what the bridge stores of a model's template files |
//! | [`analysis`] | content format, and what a template uses that is not supported |
//! | `messages`, `media`, `open_end` | vLLM's rewriting of messages, tools and template variables |
//! | `render` | the renderer |
//! | `load` | template files of a model directory |
//! | `source` | what is changed in a template before it compiles |
//! | `environment`, `filters`, `checks`, `methods`, `slice`, `tojson`, `strftime` | Python's behaviour |

pub mod analysis;
mod checks;
mod config;
mod environment;
mod error;
mod filters;
mod load;
mod media;
mod messages;
mod methods;
mod open_end;
mod probes;
mod render;
mod slice;
mod source;
mod strftime;
mod tojson;

#[cfg(test)]
mod tests;

pub use config::{ContentFormat, RequestedFormat, TemplateConfig};
pub use error::{RenderError, TemplateError};
pub use load::{HARMONY, ModelFiles};
pub(super) use methods::python_space;
pub use render::{Rendered, Renderer, TemplateInput};
pub use strftime::strftime;
