//! The self-test that runs before a tokenizer is used.

use event_bridge::tokenizer::self_test;

use crate::models::{ALL, load};

#[test]
fn every_model_passes() {
    for name in ALL {
        let (mut core, reference) = load(name);
        let outcome = self_test(&mut core, &reference).unwrap_or_else(|difference| panic!("{name}: {difference}"));
        assert!(outcome.texts > 200, "{name}: {outcome:?}");
        println!("{name}: {outcome:?}");
    }
}
