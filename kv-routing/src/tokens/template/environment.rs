//! The minijinja environment with Python's behaviour in it.

use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State};

use super::{checks, filters, methods, strftime, tojson};
use crate::openai::value::write_python;

/// Variable that carries the local time in milliseconds to `strftime_now`.
pub(super) const NOW: &str = "\u{1}now";

/// An environment without templates.
pub(super) fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_formatter(print);
    env.set_unknown_method_callback(methods::call);
    add_filters(&mut env);
    add_checks(&mut env);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    env
}

fn add_filters(env: &mut Environment<'static>) {
    env.add_filter("tojson", tojson::tojson);
    env.add_filter("trim", filters::trim);
    env.add_filter("upper", filters::upper);
    env.add_filter("lower", filters::lower);
    env.add_filter("capitalize", filters::capitalize);
    env.add_filter("title", filters::title);
    env.add_filter("replace", filters::replace);
    env.add_filter("string", filters::string);
    env.add_filter("length", filters::length);
    env.add_filter("count", filters::length);
    env.add_filter("join", filters::join);
    env.add_filter("items", filters::items);
    env.add_filter("default", filters::default);
    env.add_filter("d", filters::default);
    env.add_filter("int", filters::int);
    env.add_filter("float", filters::float);
    env.add_filter("list", filters::list);
    env.add_filter("indent", filters::indent);
}

fn add_checks(env: &mut Environment<'static>) {
    env.add_test("iterable", checks::is_iterable);
    env.add_test("sequence", checks::is_sequence);
    env.add_test("number", checks::is_number);
    env.add_test("float", checks::is_float);
    env.add_test("callable", checks::is_callable);
    env.add_test("lower", checks::is_lower);
    env.add_test("upper", checks::is_upper);
}

fn print(out: &mut Output, _state: &State, value: &Value) -> Result<(), Error> {
    write_python(value, out).map_err(|_| Error::new(ErrorKind::WriteFailure, "cannot print"))
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, filters::text(message).into_owned()))
}

fn strftime_now(state: &State, format: &str) -> Result<String, Error> {
    let now = state.lookup(NOW).and_then(|now| now.as_i64());
    let now = now.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "strftime_now: no time given"))?;
    strftime::strftime(format, now)
}
