use std::time::SystemTime;

use minijinja::Value as JinjaValue;
use serde_json::{Map, Value, json};

use super::content_format::ContentFormat;
use super::python::{self, Dump};
use super::template::{ChatTemplate, strftime};

fn render(source: &str, variables: Value) -> String {
    let Value::Object(variables) = variables else { panic!("variables are an object") };
    ChatTemplate::compile(source, Map::new()).unwrap().render(variables, SystemTime::UNIX_EPOCH).unwrap()
}

#[test]
fn floats_print_as_python_prints_them() {
    let cases = [
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1e20, "1e+20"),
        (1.5e-5, "1.5e-05"),
        (0.0001, "0.0001"),
        (1e-7, "1e-07"),
        (1e300, "1e+300"),
    ];
    for (value, text) in cases {
        assert_eq!(python::float(value), text);
    }
}

#[test]
fn values_print_as_python_prints_them() {
    let value = json!({"a": [1, 2.0, true, null, "it's"], "b": "say \"hi\"\n\u{7}ž", "c": {}});
    assert_eq!(
        render("{{ value }}", json!({"value": value})),
        r#"{'a': [1, 2.0, True, None, "it's"], 'b': 'say "hi"\n\x07ž', 'c': {}}"#
    );
    assert_eq!(
        render("{{ none }}|{{ flag }}|{{ missing }}|{{ n | string }}", json!({"none": null, "flag": false, "n": 3.0})),
        "None|False||3.0"
    );
}

#[test]
fn tojson_is_pythons_json_dumps() {
    let value = json!({"b": [1, "<é>"], "a": {"x": null}, "e": []});
    let with = |arguments: &str| render(&format!("{{{{ value | tojson{arguments} }}}}"), json!({"value": value}));
    assert_eq!(with(""), r#"{"b": [1, "<é>"], "a": {"x": null}, "e": []}"#);
    assert_eq!(with("(sort_keys=true, separators=[',', ':'])"), r#"{"a":{"x":null},"b":[1,"<é>"],"e":[]}"#);
    assert_eq!(with("(ensure_ascii=true)"), r#"{"b": [1, "<\u00e9>"], "a": {"x": null}, "e": []}"#);
    assert_eq!(
        with("(indent=2)"),
        "{\n  \"b\": [\n    1,\n    \"<é>\"\n  ],\n  \"a\": {\n    \"x\": null\n  },\n  \"e\": []\n}"
    );
    let dump = Dump {
        indent: None,
        ensure_ascii: true,
        item_separator: ", ".to_owned(),
        key_separator: ": ".to_owned(),
        sort_keys: false,
    };
    assert_eq!(python::json_dumps(&JinjaValue::from("😀"), &dump), r#""\ud83d\ude00""#);
}

#[test]
fn python_methods_loops_and_the_generation_tag_work() {
    let source = "{% for m in messages %}{% if m.role.startswith('s') %}{% continue %}{% endif %}\
                  {%- generation -%}{{ m.content.split('x')[-1].strip() }}{%- endgeneration -%}{% endfor %}";
    let messages = json!([{"role": "system", "content": "no"}, {"role": "user", "content": "axb "}]);
    assert_eq!(render(source, json!({"messages": messages})), "b");
    assert_eq!(render("{{ 'y' if tools is iterable else 'n' }}", json!({"tools": null})), "n");
}

#[test]
fn an_exception_of_the_template_reaches_the_client_in_its_own_words() {
    let template = ChatTemplate::compile("{{ raise_exception('roles must alternate') }}", Map::new()).unwrap();
    let error = template.render(Map::new(), SystemTime::UNIX_EPOCH).unwrap_err();
    assert_eq!(error.to_string(), "chat template: roles must alternate");
}

#[test]
fn dates_are_those_of_the_calendar() {
    // date -u -d @1709210096: 2024-02-29 12:34:56.
    assert_eq!(strftime("%d %b %Y, %B %m %H:%M:%S %%", 1_709_210_096), "29 Feb 2024, February 02 12:34:56 %");
    assert_eq!(strftime("%Y-%m-%d", 0), "1970-01-01");
    assert_eq!(strftime("%Y-%m-%d", 951_868_800), "2000-03-01");
}

#[test]
fn the_content_form_follows_loops_over_content() {
    let format = |source: &str| ChatTemplate::compile(source, Map::new()).unwrap().content_format();
    let plain = "{% for message in messages %}{{ message['content'] }}{% endfor %}";
    assert_eq!(format(plain), ContentFormat::Text);
    for source in [
        "{% for m in messages %}{% for part in m['content'] %}{{ part.text }}{% endfor %}{% endfor %}",
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}\
         {% for part in m.content | selectattr('type') %}{{ part.text }}{% endfor %}{% endif %}{% endfor %}",
        "{% set rest = messages[1:] %}{% for m in rest %}{% for p in m.content %}{% endfor %}{% endfor %}",
        "{% for m in messages %}{% set content = m.content %}{% for p in content %}{% endfor %}{% endfor %}",
        "{% macro show(x, y) %}{% for p in y %}{% endfor %}{% endmacro %}\
         {% for m in messages %}{{ show(1, m.content) }}{{ show(x=2, y='') }}{% endfor %}",
        "{% macro show(x) %}{% for p in x %}{% endfor %}{% endmacro %}\
         {% for m in messages %}{{ 'a' if m.x else show(x=m['content']) }}{% endfor %}",
    ] {
        assert_eq!(format(source), ContentFormat::Parts, "{source}");
    }
    let unfilled = "{% macro show(content) %}{% for p in content %}{% endfor %}{% endmacro %}{{ show([1]) }}";
    assert_eq!(format(unfilled), ContentFormat::Text);
    let other = "{% for m in messages %}{% for call in m.tool_calls %}{{ call }}{% endfor %}{% endfor %}";
    assert_eq!(format(other), ContentFormat::Text);
}
