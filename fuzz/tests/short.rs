//! Every target over its seeds, over inputs that once failed, and over a fixed series of mutations of both.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fuzz::mutate::{Dice, mutate};
use fuzz::{TARGETS, Target, target};

fn regressions(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions").join(target.name);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Runs one input; when it fails, says which it was.
fn feed(target: &Target, input: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).unwrap_or_else(|_| {
        let path = std::env::temp_dir().join(format!("fuzz-{}-input", target.name));
        std::fs::write(&path, input).unwrap();
        panic!("target {} failed; its input is in {}", target.name, path.display())
    })
}

fn check(name: &str, mutations: usize) {
    let target = target(name).unwrap();
    let mut inputs = (target.seeds)();
    assert!(!inputs.is_empty(), "no seeds");
    for (at, seed) in inputs.iter().enumerate() {
        assert!(feed(&target, seed), "seed {at} is refused, so nothing behind the first check is reached");
    }
    for input in regressions(&target) {
        feed(&target, &input);
        inputs.push(input);
    }
    let mut dice = Dice::new(7);
    let mut accepted = 0;
    for _ in 0..mutations {
        let (seed, other) = (&inputs[dice.below(inputs.len())], &inputs[dice.below(inputs.len())]);
        accepted += usize::from(feed(&target, &mutate(&mut dice, seed, other)));
    }
    println!("{name}: {} inputs, {accepted} of {mutations} mutations accepted", inputs.len());
    assert!(accepted > mutations / 1000 && accepted < mutations, "mutations are all the same to it");
}

macro_rules! short {
    ($($name:ident: $mutations:expr,)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name), $mutations);
        })*

        #[test]
        fn every_target_has_a_short_run() {
            let names = [$(stringify!($name)),*];
            assert_eq!(TARGETS.map(|target| target.name), names);
        }
    };
}

short! {
    batch: 400_000,
    polled: 100_000,
    relay: 400_000,
    sources: 100_000,
    frames: 400_000,
    zmtp: 100_000,
    ingest: 30_000,
    saved: 30_000,
    prometheus: 5_000,
    wire: 400_000,
    page: 400_000,
    body: 200_000,
    policy: 30_000,
    tokenizer: 1_500,
}
