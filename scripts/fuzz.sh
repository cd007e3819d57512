#!/usr/bin/env bash
# libFuzzer with AddressSanitizer over the targets of `fuzz/`, one after another, FUZZ_SECONDS each.
# The pinned stable toolchain has everything for it but the permission, which RUSTC_BOOTSTRAP gives.
source "$(dirname "$0")/lib.sh"
cd "$ROOT"

SECONDS_EACH=${FUZZ_SECONDS:-300}
HOST=$(rustc -vV | sed -n 's/^host: //p')
OUT="$ROOT/target/fuzz"
FLAGS=(
  -Cpasses=sancov-module
  -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares
  -Cllvm-args=-simplifycfg-branch-fold-threshold=0
  -Zsanitizer=address
)

need c++ "it builds libFuzzer"
# `--target` keeps the flags away from build scripts and macros.
RUSTC_BOOTSTRAP=1 RUSTFLAGS="${FLAGS[*]}" cargo build --quiet --package fuzz --features libfuzzer --bin fuzz \
  --profile fuzz --target "$HOST" --target-dir "$OUT"
PROGRAM="$OUT/$HOST/fuzz/fuzz"

# shellcheck disable=SC2207
TARGETS=(${FUZZ_TARGETS:-$(sed -n 's/.*Target { name: "\([a-z]*\)".*/\1/p' fuzz/src/lib.rs)})
for target in "${TARGETS[@]}"; do
  corpus="$OUT/corpus/$target"
  found="$ROOT/fuzz/regressions/$target/"
  mkdir -p "$corpus" "$found"
  say "fuzz: $target for $SECONDS_EACH s"
  FUZZ_TARGET=$target FUZZ_SEEDS=$corpus "$PROGRAM" "$corpus" "$found" -max_total_time="$SECONDS_EACH" -artifact_prefix="$found" \
    -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 2>"$OUT/$target.log" ||
    { tail -40 "$OUT/$target.log"; die "target $target failed; its input is in $found"; }
  rmdir --ignore-fail-on-non-empty "$found"
  sed -nE '/Done|DONE|number_of_executed|peak_rss/p' "$OUT/$target.log"
done
