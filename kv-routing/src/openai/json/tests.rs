use minijinja::Value;

use super::{Cursor, JsonError, JsonProblem, MAX_DEPTH, to_value};

fn problem(text: &str) -> JsonProblem {
    to_value(text.as_bytes()).expect_err(text).problem
}

fn printed(text: &str) -> String {
    let mut out = String::new();
    crate::openai::value::write_repr(&to_value(text.as_bytes()).expect(text), &mut out).expect("write");
    out
}

#[test]
fn values_print_as_python_prints_them() {
    for (json, python) in [
        ("null", "None"),
        ("[true, false]", "[True, False]"),
        ("[1, -0, 1.0, 1e20, 1e-7, 12345678901234567890123]", "[1, 0, 1.0, 1e+20, 1e-07, 12345678901234567890123]"),
        (r#"{"a": "it's", "b": "\"", "c": "'\""}"#, r#"{'a': "it's", 'b': '"', 'c': '\'"'}"#),
        (r#""tab\t nl\n \u0007 \u00e9 \ud83d\ude00 \u2028""#, r"'tab\t nl\n \x07 é 😀 \u2028'"),
        ("[NaN, Infinity, -Infinity, 1e400]", "[nan, inf, -inf, inf]"),
    ] {
        assert_eq!(printed(json), python);
    }
}

#[test]
fn last_of_duplicate_keys_wins_in_the_first_place() {
    assert_eq!(printed(r#"{"a":1,"b":2,"a":3}"#), "{'a': 3, 'b': 2}");
    let many: Vec<String> = (0..40).map(|i| format!("\"k{}\":{i}", i % 30)).collect();
    let dict = to_value(format!("{{{}}}", many.join(",")).as_bytes()).expect("dict");
    assert_eq!(dict.len(), Some(30));
    assert_eq!(dict.get_attr("k5").expect("k5"), Value::from(35));
    assert_eq!(dict.get_attr("k15").expect("k15"), Value::from(15));
    assert!(dict.get_attr("k99").expect("k99").is_undefined());
    let keys: Vec<String> = dict.try_iter().expect("keys").map(|key| key.to_string()).collect();
    assert_eq!(keys, (0..30).map(|i| format!("k{i}")).collect::<Vec<_>>());
}

#[test]
fn strings_without_escapes_are_borrowed() {
    let body = r#""plain text that is longer than a few words, mit Ümläuten""#;
    let mut cursor = Cursor::new(body.as_bytes()).expect("utf-8");
    assert!(matches!(cursor.string().expect("string"), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn specials_are_found_at_every_offset() {
    for special in ['"', '\\', '\u{1f}', '\0'] {
        for before in 0..40 {
            for filler in ['a', ' ', '!', '#', ']', '[', '\u{7f}', 'é'] {
                let text: String = std::iter::repeat_n(filler, before).chain([special, filler]).collect();
                let expected = filler.len_utf8() * before;
                assert_eq!(super::stretch::plain_len(text.as_bytes()), expected, "{text:?}");
            }
        }
    }
}

#[test]
fn what_is_not_json_is_refused() {
    use JsonProblem::*;
    for (text, expected) in [
        ("", End),
        ("[1,]", Byte(b']')),
        ("{\"a\":1,}", Byte(b'}')),
        ("{a:1}", Byte(b'a')),
        ("01", Trailing),
        ("1 2", Trailing),
        ("-", End),
        ("1.", End),
        ("1e", End),
        ("tru", Byte(b't')),
        ("\"a\nb\"", Control),
        (r#""\x""#, Escape),
        (r#""\u12""#, Escape),
        (r#""\ud800""#, Surrogate),
        (r#""\ud800\u0041""#, Surrogate),
        (r#""\udc00""#, Surrogate),
        ("\"abc", End),
    ] {
        assert_eq!(problem(text), expected, "{text}");
    }
    assert_eq!(to_value(b"\"\xff\""), Err(JsonError { at: 1, problem: Utf8 }));
    let deep = usize::from(MAX_DEPTH) + 1;
    assert_eq!(problem(&"[".repeat(deep)), Depth);
    assert_eq!(problem(&"{\"a\":".repeat(deep)), Depth);
    assert_eq!(problem(&format!("[{}]", "1,".repeat(300_000))), Values);
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    assert_eq!(to_value("\u{feff} [1]".as_bytes()).expect("list").len(), Some(1));
}
