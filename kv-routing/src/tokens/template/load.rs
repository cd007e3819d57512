//! Template files of a model directory to a [`TemplateConfig`].

use minijinja::Value;

use super::analysis;
use super::config::{RequestedFormat, TemplateConfig};
use super::error::TemplateError;
use crate::openai::json::to_value;
use crate::openai::value::Dict;

/// The files of a model directory that say how prompts are built, as bytes; those that are not there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelFiles<'a> {
    /// `config.json`: the model type.
    pub config: Option<&'a [u8]>,
    /// `tokenizer_config.json`: special tokens, and the template in older models.
    pub tokenizer_config: Option<&'a [u8]>,
    /// `chat_template.jinja`.
    pub chat_template: Option<&'a [u8]>,
    /// `chat_template.json`, as older multimodal models have it.
    pub chat_template_json: Option<&'a [u8]>,
    /// `additional_chat_templates/tool_use.jinja`.
    pub tool_template: Option<&'a [u8]>,
}

/// What builds the prompts of gpt-oss.
pub const HARMONY: &str = "openai-harmony";

/// Model types and architectures whose prompts vLLM builds otherwise.
const OTHER_RENDERERS: &[(&str, &str)] = &[
    ("gpt_oss", HARMONY),
    ("deepseek_v32", "vLLM's DeepSeek V3.2 encoder"),
    ("DeepseekV32ForCausalLM", "vLLM's DeepSeek V3.2 encoder"),
    ("deepseek_v4", "vLLM's DeepSeek V4 encoder"),
    ("DeepseekV4ForCausalLM", "vLLM's DeepSeek V4 encoder"),
    ("DeepseekV4ForConditionalGeneration", "vLLM's DeepSeek V4 encoder"),
    ("DeepseekV41ForCausalLM", "vLLM's DeepSeek V4.1 encoder"),
    ("kimi_k3", "vLLM's Kimi K3 encoder"),
    ("KimiK3ForConditionalGeneration", "vLLM's Kimi K3 encoder"),
    ("kimi_audio", "vLLM's Kimi audio tokenizer"),
    ("MoonshotKimiaForCausalLM", "vLLM's Kimi audio tokenizer"),
    ("InklingForCausalLM", "vLLM's Inkling encoder"),
    ("InklingForConditionalGeneration", "vLLM's Inkling encoder"),
];

/// Stands for the template of requests with tools where engines find none for them.
const NO_TOOLS: &str = "{{ raise_exception('the model has no chat template for requests with tools') }}";

impl ModelFiles<'_> {
    /// Reads the files, detects the content format and checks that the templates render here as in Python.
    ///
    /// # Errors
    /// [`TemplateError`] when there is no template, a file is damaged, the template is not supported, or the engine
    /// does not use one for this model.
    pub fn load(&self, format: RequestedFormat) -> Result<TemplateConfig, TemplateError> {
        self.check_model_type()?;
        let tokenizer_config = self.tokenizer_config.map(|bytes| object("tokenizer_config.json", bytes)).transpose()?;
        let dict = tokenizer_config.as_ref().and_then(|value| value.downcast_object_ref::<Dict>());
        let (template, tool_template) = self.templates(dict)?;
        for template in std::iter::once(&template).chain(&tool_template) {
            analysis::check(template)?;
        }
        let format_of = |template: &str| match format {
            RequestedFormat::Auto => analysis::content_format(template),
            RequestedFormat::Fixed(format) => format,
        };
        Ok(TemplateConfig {
            content_format: format_of(&template),
            tool_content_format: tool_template.as_deref().map_or_else(|| format_of(&template), format_of),
            special_tokens: dict.map(special_tokens).unwrap_or_default(),
            template,
            tool_template,
            ..TemplateConfig::default()
        })
    }

    fn check_model_type(&self) -> Result<(), TemplateError> {
        let Some(bytes) = self.config else { return Ok(()) };
        let config = object("config.json", bytes)?;
        let model_type = config.get_attr("model_type").unwrap_or_default();
        let architectures = config.get_attr("architectures").unwrap_or_default();
        let mut names = std::iter::once(model_type).chain(architectures.try_iter().into_iter().flatten());
        let other = names.find_map(|name| OTHER_RENDERERS.iter().find(|(other, _)| name.as_str() == Some(other)));
        match other {
            Some((model, by)) => Err(TemplateError::OtherRenderer { model: (*model).to_owned(), by }),
            None => Ok(()),
        }
    }

    /// The default template, and the one for tools. Without tools vLLM asks the processor of models that have one, which prefers
    /// `chat_template.json`; the tokenizer does not know that file.
    fn templates(&self, tokenizer_config: Option<&Dict>) -> Result<(String, Option<String>), TemplateError> {
        let (default, tools) = self.of_tokenizer(tokenizer_config)?;
        match (self.of_processor()?, default) {
            (Some(processor), Some(default)) if processor == default => Ok((processor, tools)),
            (Some(processor), default) => {
                Ok((processor, Some(tools.or(default).unwrap_or_else(|| NO_TOOLS.to_owned()))))
            }
            (None, Some(default)) => Ok((default, tools)),
            (None, None) => Err(TemplateError::Missing),
        }
    }

    /// `chat_template.json`, as it was written for processors.
    fn of_processor(&self) -> Result<Option<String>, TemplateError> {
        let Some(bytes) = self.chat_template_json else { return Ok(None) };
        let file = object("chat_template.json", bytes)?;
        let template = file.get_attr("chat_template").ok();
        Ok(template.and_then(|template| template.as_str().map(str::to_owned)))
    }

    /// Files of their own come before `tokenizer_config.json`, all of them.
    fn of_tokenizer(&self, tokenizer_config: Option<&Dict>) -> Result<(Option<String>, Option<String>), TemplateError> {
        let default = self.chat_template.map(|bytes| text("chat_template.jinja", bytes)).transpose()?;
        let tools = self.tool_template.map(|bytes| text("tool_use.jinja", bytes)).transpose()?;
        if default.is_some() || tools.is_some() {
            return Ok((default, tools));
        }
        let Some(given) = tokenizer_config.and_then(|dict| dict.get("chat_template")) else { return Ok((None, None)) };
        if let Some(template) = given.as_str() {
            return Ok((Some(template.to_owned()), None));
        }
        let named = |wanted: &str| {
            given.try_iter().into_iter().flatten().find_map(|entry| {
                let name = entry.get_attr("name").ok()?;
                let template = entry.get_attr("template").ok()?;
                (name.as_str() == Some(wanted)).then(|| template.as_str().map(str::to_owned))?
            })
        };
        Ok((named("default"), named("tool_use")))
    }
}

fn text(file: &'static str, bytes: &[u8]) -> Result<String, TemplateError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| TemplateError::File { file, problem: format!("not UTF-8: {error}") })?;
    // Python opens it with universal newlines.
    Ok(text.replace("\r\n", "\n").replace('\r', "\n"))
}

fn object(file: &'static str, bytes: &[u8]) -> Result<Value, TemplateError> {
    let problem = |problem: String| TemplateError::File { file, problem };
    let value = to_value(bytes).map_err(|error| problem(error.to_string()))?;
    match value.downcast_object_ref::<Dict>() {
        Some(_) => Ok(value),
        None => Err(problem("not a JSON object".to_owned())),
    }
}

/// `bos_token` and the like: a string, or an added token with its `content`.
fn special_tokens(config: &Dict) -> Vec<(String, String)> {
    let text_of = |value: &Value| {
        value.as_str().map(str::to_owned).or_else(|| value.get_attr("content").ok()?.as_str().map(str::to_owned))
    };
    let named = config.iter().filter(|(name, _)| name.ends_with("_token"));
    let extra = config.get("extra_special_tokens").and_then(|extra| extra.downcast_object_ref::<Dict>());
    named
        .chain(extra.into_iter().flat_map(Dict::iter))
        .filter_map(|(name, value)| Some((name.to_owned(), text_of(value)?)))
        .collect()
}
