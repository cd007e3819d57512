#!/usr/bin/env bash
# optimize-wasm.sh IN OUT [names]: runs Binaryen's optimiser over a filter built by cargo. It takes a quarter off its size, which Envoy
# would spend compiling at start. Does nothing when OUT was made of the same IN. "names" keeps function names, for wasm-size.mjs.
source "$(dirname "$0")/lib.sh"
[ $# -eq 2 ] || [ "${3:-}" = names ] || die "usage: optimize-wasm.sh IN OUT [names]"
need node "it runs wasm-opt"
optimizer="$DEPS/tools/binaryen/wasm-opt"
[ -f "$optimizer" ] || die "$optimizer is missing: run make setup"
# Callbacks that the SDK exports and the filter has nothing to do in. Envoy does not call what is not there.
callbacks=(grpc_receive grpc_receive_initial_metadata grpc_receive_trailing_metadata grpc_close foreign_function log
  new_connection downstream_data downstream_connection_close upstream_data upstream_connection_close)
exports=$(printf ',proxy_on_%s' "${callbacks[@]}")
strip=(--strip-debug)
[ "${3:-}" != names ] || strip=(--debuginfo --strip-dwarf)
made_of=$(cat "$1" "${BASH_SOURCE[0]}" "$DEPS/stamps/wasm-opt" | sha256sum | cut -d' ' -f1)
if [ -f "$2" ] && [ -f "$2.made-of" ] && [ "$(cat "$2.made-of")" = "$made_of" ]; then
  exit 0
fi
# Functions that differ in constants only become one, and those called most get the shortest numbers; each is a hundredth of the size. None of
# it, and no more inlining than -Os does, takes time that can be measured.
passes=(-Os --flatten --rereloop -Os --code-folding --merge-similar-functions --reorder-functions --reorder-locals)
# Only what rustc's target emits, so that nothing gets in that Envoy's V8 might not take.
features=(--enable-bulk-memory --enable-sign-ext --enable-nontrapping-float-to-int --enable-mutable-globals
  --enable-multivalue --enable-reference-types --enable-simd)
node "$optimizer" "${features[@]}" --remove-exports="${exports#,}" "${passes[@]}" "${strip[@]}" --strip-producers "$1" -o "$2.part"
mv "$2.part" "$2"
printf '%s\n' "$made_of" >"$2.made-of"
