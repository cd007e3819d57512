//! Expressions against their values, and refusals against their places.

use kv_routing::policy::program::Variables;

use super::*;

fn value(text: &str) -> Option<f64> {
    let mut variables = Variables::default();
    variables.set(Variable::PrefillScale, 2.0);
    variables.set(Variable::PrefillBlocks, 10.0);
    variables.set(Variable::DecodeBlocks, 5.0);
    variables.set(Variable::Waiting, 3.0);
    compile(text).unwrap().eval(&variables)
}

fn refused(text: &str) -> (u32, u32, String) {
    let error = compile(text).unwrap_err();
    (error.line, error.column, error.message)
}

#[test]
fn values() {
    assert_eq!(value("prefill_scale * prefill_blocks + decode_blocks + 4 * waiting"), Some(37.0));
    assert_eq!(value("waiting > 2 && decode_blocks >= 5 ? 1.5 : 0"), Some(1.5));
    assert_eq!(value("-3 + -waiting"), Some(-6.0));
    assert_eq!(value("max(waiting, decode_blocks) - min(1, 2) + pow(2, 3)"), Some(12.0));
    assert_eq!(value("1 - 2 - 3"), Some(-4.0));
    assert_eq!(value("!(waiting == 3) ? 1 : sqrt(16) + abs(-1) + floor(1.9) + ceil(0.1)"), Some(7.0));
    assert_eq!(value("exp(log(7)) % 4 - 3 < 0.001 ? 1 : 0"), Some(1.0));
    assert_eq!(value("1 / (waiting - 3)"), None);
}

#[test]
fn refusals_point_at_the_place() {
    let (line, column, message) = refused("decode_blocks + wating");
    assert_eq!((line, column), (1, 17));
    assert!(message.contains("`wating`") && message.contains("waiting"), "{message}");
    assert_eq!(refused("1 +\n  foo(2)").0, 2);
    assert_eq!(refused("waiting > 2").2, "this is a truth value, a number is needed here");
    assert_eq!(refused("1 + (2 > 1)").2, "this is a truth value, a number is needed here");
    assert!(refused("min(1)").2.contains("takes 2 values, 1 are given"));
    assert!(refused("'text'").2.contains("numbers"));
    assert!(refused("[1, 2][0]").2.contains("no function"));
    assert!(refused("[1].map(x, x)").2.contains("may stand here"));
    assert!(refused("waiting.size()").2.contains("not a method"));
    assert_eq!(refused("1 + ").0, 1);
    assert!(refused(&format!("{}1", "1 + ".repeat(300))).2.contains("instructions"));
    assert!(refused(&" ".repeat(5000)).2.contains("bytes long"));
}

#[test]
fn deep_nesting_is_refused_and_does_not_overflow() {
    let deep = format!("{}1{}", "(".repeat(1500), ")".repeat(1500));
    assert!(compile(&deep).is_err());
    let right = format!("{}1", "1 - (".repeat(60)) + &")".repeat(60);
    assert!(compile(&right).is_err());
}
