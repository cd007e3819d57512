use minijinja::Value;

use super::{DictBuilder, List, float_repr, write_python};

#[test]
fn floats_print_as_in_python() {
    for (value, printed) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (123456.789, "123456.789"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.5e-7, "1.5e-07"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.25e100, "1.25e+100"),
        (5e-324, "5e-324"),
        (9007199254740993.0, "9007199254740992.0"),
    ] {
        assert_eq!(float_repr(value), printed);
    }
}

#[test]
fn nested_values_print_as_in_python_however_they_are_printed() {
    let mut dict = DictBuilder::default();
    dict.set("a", List::value(vec![Value::from("x"), Value::from(1.0), Value::from(())]));
    dict.set("é\u{200b}\u{a0}\u{301}", true);
    let value = dict.finish();
    let expected = "{'a': ['x', 1.0, None], 'é\\u200b\\xa0\u{301}': True}";
    let mut out = String::new();
    write_python(&value, &mut out).expect("write");
    assert_eq!(out, expected);
    assert_eq!(value.to_string(), expected);
}
