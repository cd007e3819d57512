//! One target under libFuzzer: `FUZZ_TARGET=name FUZZ_SEEDS=DIR fuzz DIR [libFuzzer options]`. Its seeds are written into `DIR` before
//! libFuzzer reads it.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    fuzz::target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name:?} names no target"))
});

fn write_seeds() {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS") else { return };
    for (at, seed) in (TARGET.seeds)().iter().enumerate() {
        let path = Path::new(&folder).join(format!("seed-{at}"));
        std::fs::write(&path, seed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

fuzz_target!(
    init: write_seeds(),
    |input: &[u8]| {
        (TARGET.run)(input);
    }
);
