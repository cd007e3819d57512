//! The chat template, compiled once and rendered as transformers renders it.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::{Kwargs, Rest, Value as JinjaValue, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use serde_json::{Map, Value};

use super::content_format::{ContentFormat, detect};
use super::python::{self, Dump};

const NAME: &str = "chat";
/// Variable that carries the time of a rendering to `strftime_now`; no template reads it.
const NOW: &str = "mock_engine_now";

/// A template that does not compile or does not render.
#[derive(Debug, thiserror::Error)]
#[error("chat template: {0}")]
pub struct TemplateError(String);

impl From<Error> for TemplateError {
    fn from(error: Error) -> Self {
        // `raise_exception` in a template is the author's message to the client: keep it first.
        Self(error.detail().map_or_else(|| error.to_string(), str::to_owned))
    }
}

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    special_tokens: Map<String, Value>,
    content_format: ContentFormat,
    knows_developers: bool,
}

impl ChatTemplate {
    /// Compiles `source`; `special_tokens` are the variables `bos_token` and so on.
    ///
    /// # Errors
    /// When the template does not parse.
    pub fn compile(source: &str, special_tokens: Map<String, Value>) -> Result<Self, TemplateError> {
        let source = without_generation_tags(source);
        let content_format = detect(&source).map_err(TemplateError::from)?;
        let knows_developers = source.contains("\"developer\"") || source.contains("'developer'");
        let mut environment = environment();
        environment.add_template_owned(NAME, source)?;
        Ok(Self { environment, special_tokens, content_format, knows_developers })
    }

    /// Whether the template has a word for developer messages.
    pub fn knows_developers(&self) -> bool {
        self.knows_developers
    }

    /// Whether the template loops over content parts or expects one string.
    pub fn content_format(&self) -> ContentFormat {
        self.content_format
    }

    /// Renders with `variables` over the special tokens, at `now`.
    ///
    /// # Errors
    /// When the template fails or raises.
    pub fn render(&self, variables: Map<String, Value>, now: SystemTime) -> Result<String, TemplateError> {
        let mut context = self.special_tokens.clone();
        context.extend(variables);
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        context.insert(NOW.to_owned(), Value::from(seconds));
        Ok(self.environment.get_template(NAME)?.render(JinjaValue::from_serialize(context))?)
    }
}

/// The tag that marks assistant text for training prints its body like any other text.
fn without_generation_tags(source: &str) -> String {
    let mut source = source.to_owned();
    for dash in ["", "-"] {
        for end in ["", "-"] {
            source = source.replace(&format!("{{%{dash} generation {end}%}}"), &format!("{{%{dash} if true {end}%}}"));
            source = source.replace(&format!("{{%{dash} endgeneration {end}%}}"), &format!("{{%{dash} endif {end}%}}"));
        }
    }
    source
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(call_method);
    environment.add_filter("trim", |value: JinjaValue, set: Option<String>| {
        let text = python::to_text(&value);
        python::strip(&text, set.as_deref(), python::Side::Both).to_owned()
    });
    environment.set_formatter(|out, _, value| {
        out.write_str(&python::to_text(value)).map_err(|_| Error::new(ErrorKind::WriteFailure, "output refused"))
    });
    // An undefined value is empty in Python, not an error.
    environment.add_filter("items", |value: JinjaValue| match value.kind() {
        ValueKind::Undefined => Ok(JinjaValue::from(Vec::<JinjaValue>::new())),
        _ => minijinja::filters::items(&value),
    });
    for name in ["length", "count"] {
        environment.add_filter(name, |value: JinjaValue| match value.kind() {
            ValueKind::Undefined => Ok(0),
            _ => minijinja::filters::length(&value),
        });
    }
    environment.add_filter("upper", |value: JinjaValue| python::to_text(&value).to_uppercase());
    environment.add_filter("lower", |value: JinjaValue| python::to_text(&value).to_lowercase());
    environment.add_filter("tojson", to_json);
    environment.add_filter("string", |value: JinjaValue| python::to_text(&value));
    environment.add_test("iterable", |value: JinjaValue| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable | ValueKind::String)
    });
    environment.add_function("raise_exception", |message: String| -> Result<JinjaValue, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |state: &State, format: String| {
        let now = state.lookup(NOW).and_then(|now| now.as_i64()).unwrap_or_default();
        strftime(&format, now.cast_unsigned())
    });
    environment
}

/// Python's methods; stripping is ours, since Python counts more characters as white space.
fn call_method(state: &State, value: &JinjaValue, name: &str, args: &[JinjaValue]) -> Result<JinjaValue, Error> {
    let side = match name {
        "strip" => Some(python::Side::Both),
        "lstrip" => Some(python::Side::Left),
        "rstrip" => Some(python::Side::Right),
        _ => None,
    };
    match (side, value.as_str(), args) {
        (Some(side), Some(text), []) => Ok(python::strip(text, None, side).into()),
        (Some(side), Some(text), [set]) => Ok(python::strip(text, set.as_str(), side).into()),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn to_json(_: &State, value: JinjaValue, positional: Rest<JinjaValue>, options: Kwargs) -> Result<String, Error> {
    let indent: Option<JinjaValue> = options.get("indent")?;
    let indent = indent.or_else(|| positional.first().cloned()).and_then(|value| value.as_usize());
    let separators: Option<Vec<String>> = options.get("separators")?;
    let default_item = if indent.is_some() { "," } else { ", " };
    let mut separators = separators.unwrap_or_default().into_iter();
    let dump = Dump {
        indent,
        ensure_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        item_separator: separators.next().unwrap_or_else(|| default_item.to_owned()),
        key_separator: separators.next().unwrap_or_else(|| ": ".to_owned()),
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    Ok(python::json_dumps(&value, &dump))
}

/// The few `strftime` codes that chat templates use, in UTC.
pub(super) fn strftime(format: &str, unix_seconds: u64) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let (year, month, day) = civil_date(unix_seconds / 86_400);
    let name = MONTHS[(month - 1) as usize];
    let clock = unix_seconds % 86_400;
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('Y') => out.push_str(&format!("{year:04}")),
            Some('m') => out.push_str(&format!("{month:02}")),
            Some('d') => out.push_str(&format!("{day:02}")),
            Some('B') => out.push_str(name),
            Some('b') => out.push_str(&name[..3]),
            Some('H') => out.push_str(&format!("{:02}", clock / 3600)),
            Some('M') => out.push_str(&format!("{:02}", clock / 60 % 60)),
            Some('S') => out.push_str(&format!("{:02}", clock % 60)),
            Some('%') => out.push('%'),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
    }
    out
}

/// Year, month and day of a day number since 1970 (the proleptic Gregorian calendar, by 400-year eras).
fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}
