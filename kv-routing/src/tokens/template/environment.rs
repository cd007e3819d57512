//! The minijinja environment with Python's behaviour in it.

use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, functions, tests};

use super::filters::{numbers, sequences, text as filters};
use super::{checks, methods, slice, source, strftime, tojson};
use crate::openai::value::write_python;

/// Variable that carries the local time in milliseconds to `strftime_now`.
pub(super) const NOW: &str = "\u{1}now";

/// Depth of scopes and macro calls that ends a rendering.
const RECURSION_LIMIT: usize = 200;

/// An environment without templates.
pub(super) fn environment() -> Environment<'static> {
    let mut env = bare_environment();
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    env
}

/// The same without the functions that `transformers` adds to Jinja's. It has what chat templates use, by name: all
/// that minijinja registers by itself would be a fifth of the filter's code, and a template that uses something else is
/// refused when it is loaded ([`super::analysis`]).
pub(super) fn bare_environment() -> Environment<'static> {
    let mut env = Environment::empty();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_formatter(print);
    env.set_unknown_method_callback(methods::call);
    add_builtin_filters(&mut env);
    add_builtin_checks(&mut env);
    add_filters(&mut env);
    add_checks(&mut env);
    env.add_function("range", functions::range);
    env.add_function("dict", functions::dict);
    env.add_function("namespace", functions::namespace);
    env.add_function(source::SLICE, slice::slice);
    env.add_filter(source::HOLDS, source::holds);
    env.add_filter(source::TEXT, source::text);
    // A macro call counts four. Templates that walk nested schemas stay far below, and a VM's stack is small.
    env.set_recursion_limit(RECURSION_LIMIT);
    env
}

/// Filters that do the same as Python's.
fn add_builtin_filters(env: &mut Environment<'static>) {
    use minijinja::filters;

    env.add_filter("attr", filters::attr);
    env.add_filter("map", filters::map);
    env.add_filter("max", filters::max);
    env.add_filter("min", filters::min);
    env.add_filter("reject", filters::reject);
    env.add_filter("rejectattr", filters::rejectattr);
    env.add_filter("safe", filters::safe);
    env.add_filter("select", filters::select);
    env.add_filter("selectattr", filters::selectattr);
    env.add_filter("sum", filters::sum);
    env.add_filter("unique", filters::unique);
}

/// Tests that do the same as Python's.
fn add_builtin_checks(env: &mut Environment<'static>) {
    env.add_test("undefined", tests::is_undefined);
    env.add_test("defined", tests::is_defined);
    env.add_test("none", tests::is_none);
    env.add_test("boolean", tests::is_boolean);
    env.add_test("odd", tests::is_odd);
    env.add_test("even", tests::is_even);
    env.add_test("integer", tests::is_integer);
    env.add_test("string", tests::is_string);
    env.add_test("mapping", tests::is_mapping);
    env.add_test("true", tests::is_true);
    env.add_test("false", tests::is_false);
    env.add_test("sameas", tests::is_sameas);
    for name in ["eq", "equalto", "=="] {
        env.add_test(name, tests::is_eq);
    }
    for name in ["ne", "!="] {
        env.add_test(name, tests::is_ne);
    }
    for name in ["lt", "lessthan", "<"] {
        env.add_test(name, tests::is_lt);
    }
    for name in ["le", "<="] {
        env.add_test(name, tests::is_le);
    }
    for name in ["gt", "greaterthan", ">"] {
        env.add_test(name, tests::is_gt);
    }
    for name in ["ge", ">="] {
        env.add_test(name, tests::is_ge);
    }
    env.add_test("in", tests::is_in);
    env.add_test("filter", tests::is_filter);
    env.add_test("test", tests::is_test);
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
    env.add_filter("join", sequences::join);
    env.add_filter("items", sequences::items);
    env.add_filter("default", filters::default);
    env.add_filter("d", filters::default);
    env.add_filter("int", numbers::int);
    env.add_filter("float", numbers::float);
    env.add_filter("list", sequences::list);
    env.add_filter("indent", filters::indent);
    env.add_filter("first", sequences::first);
    env.add_filter("last", sequences::last);
    env.add_filter("reverse", sequences::reverse);
    env.add_filter("sort", sequences::sort);
    env.add_filter("dictsort", sequences::dictsort);
    env.add_filter("abs", numbers::abs);
    env.add_filter("round", numbers::round);
}

fn add_checks(env: &mut Environment<'static>) {
    env.add_test("iterable", checks::is_iterable);
    env.add_test("sequence", checks::is_sequence);
    env.add_test("number", checks::is_number);
    env.add_test("float", checks::is_float);
    env.add_test("callable", checks::is_callable);
    env.add_test("divisibleby", checks::is_divisible_by);
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
