#!/usr/bin/env bash
# envoy-validate.sh WASM: Envoy itself loads every configuration in envoy/ together with the filter. Nothing is started.
source "$(dirname "$0")/lib.sh"
cd "$ROOT"
[ -f "$1" ] || die "$1 is missing: run make wasm"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
shopt -s nullglob
configs=(envoy/*.yaml)
[ ${#configs[@]} -gt 0 ] || die "no configuration found in envoy/"
printf '{"resources":[]}\n' | tee "$work/prefill-eds.json" >"$work/eds.json"
for config in "${configs[@]}"; do
  scripts/envoy-config.sh "$config" "$ROOT/$1" "$work" >"$work/envoy.yaml"
  if ! "$DEPS/envoy/envoy" --mode validate --log-level warn --config-path "$work/envoy.yaml" >"$work/log" 2>&1; then
    cat "$work/log" >&2
    die "$config is not valid"
  fi
  say "envoy-validate: $config is valid"
done
