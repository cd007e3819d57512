//! The renderer: one model's compiled templates.

use minijinja::{Environment, Value};

use super::config::{ContentFormat, TemplateConfig};
use super::environment::{NOW, environment};
use super::error::{RenderError, TemplateError};
use super::probes::Probes;
use super::{media, messages, source};
use crate::openai::json::to_value;
use crate::openai::value::{Dict, DictBuilder};
use crate::openai::{ChatInput, MediaId};
use crate::wire::UnixMillis;

const DEFAULT: &str = "default";
const TOOLS: &str = "tools";

/// One model's templates, ready to render.
#[derive(Debug)]
pub struct Renderer {
    env: Environment<'static>,
    config: TemplateConfig,
    default_kwargs: Option<Value>,
    /// Whether the template, and the one for tools, has a developer role of its own.
    developer_role: [bool; 2],
    probes: Probes,
}

/// A rendered prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The text to tokenize.
    pub text: String,
    /// Bytes at its start that are the engine's; all of them without images and the like.
    pub exact_bytes: usize,
    /// Images, audio and video, with the byte offsets in `text` where they are.
    pub media: Vec<(usize, MediaId)>,
}

/// What a template itself is given: `transformers`' `apply_chat_template`, without what an engine does before.
#[derive(Clone, Debug, Default)]
pub struct TemplateInput {
    /// A list of dicts.
    pub messages: Vec<Value>,
    /// A list of dicts, or none.
    pub tools: Option<Value>,
    /// A list of dicts, or none.
    pub documents: Option<Value>,
    /// Whether the prompt ends with the head of an answer.
    pub add_generation_prompt: bool,
    /// Whether the last message stays open.
    pub continue_final_message: bool,
    /// Other variables; they hide special tokens.
    pub variables: Vec<(Value, Value)>,
}

impl Renderer {
    /// Compiles the templates of `config`.
    ///
    /// # Errors
    /// [`TemplateError`] when one does not compile or the default variables are not a JSON object.
    pub fn compile(config: TemplateConfig) -> Result<Self, TemplateError> {
        Self::compile_with(config, source::prepare)
    }

    /// Compiles the templates as their authors wrote them, generation blocks aside, for comparing: [`Renderer::compile`] changes how they
    /// look for texts, cut and add them. Slower, and minijinja panics where such a template cuts an empty value backwards.
    ///
    /// # Errors
    /// As [`Renderer::compile`].
    pub fn compile_as_written(config: TemplateConfig) -> Result<Self, TemplateError> {
        Self::compile_with(config, |source| Ok(source::plain_scopes(source).into_owned()))
    }

    fn compile_with(
        config: TemplateConfig,
        prepare: fn(&str) -> Result<String, TemplateError>,
    ) -> Result<Self, TemplateError> {
        let mut env = environment();
        let mut add = |name: &'static str, template: &str| {
            env.add_template_owned(name, prepare(template)?).map_err(|error| TemplateError::Syntax(describe(&error)))
        };
        add(DEFAULT, &config.template)?;
        if let Some(template) = &config.tool_template {
            add(TOOLS, template)?;
        }
        let default_kwargs = default_kwargs(&config.default_kwargs)?;
        let tool_template = config.tool_template.as_ref().unwrap_or(&config.template);
        let developer_role = [&config.template, tool_template].map(|template| messages::knows_developer(template));
        Ok(Self { env, config, default_kwargs, developer_role, probes: Probes::default() })
    }

    /// What it was compiled from.
    pub fn config(&self) -> &TemplateConfig {
        &self.config
    }

    /// Renders a request as vLLM does.
    ///
    /// # Errors
    /// [`RenderError`] when the template refuses it, or the engine would.
    pub fn render(&self, chat: &ChatInput<'_>, now: UnixMillis) -> Result<Rendered, RenderError> {
        if chat.chat_template.is_some() && !self.config.allow_request_template {
            return Err(RenderError::RequestTemplate);
        }
        let adapted = self.probes.adapt(self, chat, now);
        let chat = adapted.as_ref().unwrap_or(chat);
        let tools = messages::tools(chat, self.config.exclude_tools_when_none)?;
        let variables = messages::variables(chat, self.default_kwargs.as_ref())?;
        let own = match &chat.chat_template {
            Some(template) => Some(self.request_template(template)?),
            None => None,
        };
        let renderer = own.as_ref().unwrap_or(self);
        let prepared = messages::Prepared {
            renderer,
            chat,
            format: renderer.format(tools.is_some()),
            developer_role: renderer.knows_developer(tools.is_some()),
            input: TemplateInput {
                messages: Vec::new(),
                tools: variables.tools.or(tools),
                documents: variables.documents,
                add_generation_prompt: chat.add_generation_prompt,
                continue_final_message: chat.continue_final_message,
                variables: variables.rest,
            },
            now,
        };
        media::render(&prepared)
    }

    /// A renderer for the template a request brings, checked as at load; everything else is this one's.
    fn request_template(&self, template: &str) -> Result<Self, RenderError> {
        let format = super::analysis::content_format(template);
        let config = TemplateConfig {
            template: template.to_owned(),
            tool_template: None,
            content_format: format,
            tool_content_format: format,
            ..self.config.clone()
        };
        let problem = |error: TemplateError| RenderError::Template(error.to_string());
        super::analysis::check(template).map_err(problem)?;
        Self::compile(config).map_err(problem)
    }

    fn uses_tool_template(&self, tools: bool) -> bool {
        tools && self.config.tool_template.is_some()
    }

    fn format(&self, tools: bool) -> ContentFormat {
        if self.uses_tool_template(tools) { self.config.tool_content_format } else { self.config.content_format }
    }

    fn knows_developer(&self, tools: bool) -> bool {
        let [default, with_tools] = self.developer_role;
        if tools { with_tools } else { default }
    }

    pub(super) fn template_source(&self, tools: bool) -> &str {
        match &self.config.tool_template {
            Some(template) if tools => template,
            _ => &self.config.template,
        }
    }

    /// Renders messages as they are, like `transformers`' `apply_chat_template(tokenize=False)`.
    ///
    /// # Errors
    /// [`RenderError`] when the template fails or refuses the messages.
    pub fn apply(&self, input: &TemplateInput, now: UnixMillis) -> Result<String, RenderError> {
        let source = self.template_source(input.tools.is_some());
        let normalized = messages::for_transformers(&input.messages, self.config.normalize_messages);
        let (messages, open) = super::open_end::mark(normalized, input, source)?;
        let name = if self.uses_tool_template(input.tools.is_some()) { TOOLS } else { DEFAULT };
        let template = self.env.get_template(name).map_err(|error| RenderError::Template(describe(&error)))?;
        let context = Value::from_object(self.context(input, messages, now));
        let text = template.render(context).map_err(|error| RenderError::Template(describe(&error)))?;
        match open {
            Some(open) => open.cut(text),
            None => Ok(text),
        }
    }

    fn context(&self, input: &TemplateInput, messages: Vec<Value>, now: UnixMillis) -> Dict {
        let mut context = DictBuilder::default();
        for (name, token) in &self.config.special_tokens {
            context.set(name, token.as_str());
        }
        for (name, value) in &input.variables {
            context.insert(name.clone(), value.clone());
        }
        context.set("messages", crate::openai::value::List::value(messages));
        context.set("tools", input.tools.clone().unwrap_or_else(|| Value::from(())));
        context.set("documents", input.documents.clone().unwrap_or_else(|| Value::from(())));
        context.set("add_generation_prompt", input.add_generation_prompt);
        let offset = i64::from(self.config.utc_offset_minutes) * 60_000;
        context.set(NOW, i64::try_from(now.0).unwrap_or(i64::MAX).saturating_add(offset));
        context.build()
    }
}

/// The innermost reason, which is the template's own words for `raise_exception`.
fn describe(error: &minijinja::Error) -> String {
    let mut innermost: &minijinja::Error = error;
    while let Some(source) = std::error::Error::source(innermost).and_then(|source| source.downcast_ref()) {
        innermost = source;
    }
    let line = innermost.line().or(error.line()).map(|line| format!(" (line {line})")).unwrap_or_default();
    match innermost.detail() {
        Some(detail) => format!("{detail}{line}"),
        None => format!("{}{line}", innermost.kind()),
    }
}

fn default_kwargs(text: &str) -> Result<Option<Value>, TemplateError> {
    if text.is_empty() {
        return Ok(None);
    }
    let problem = |problem: String| TemplateError::File { file: "default chat template kwargs", problem };
    let value = to_value(text.as_bytes()).map_err(|error| problem(error.to_string()))?;
    match value.downcast_object_ref::<Dict>() {
        Some(_) => Ok(Some(value)),
        None => Err(problem("must be a JSON object".to_owned())),
    }
}
