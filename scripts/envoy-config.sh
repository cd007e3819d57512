#!/usr/bin/env bash
# envoy-config.sh CONFIG WASM RUN_DIR: prints CONFIG with its deployment paths replaced by local ones.
source "$(dirname "$0")/lib.sh"
[ $# -eq 3 ] || die "usage: envoy-config.sh CONFIG WASM RUN_DIR"
sed -e "s|/etc/kv-router/filter.wasm|$2|g" -e "s|/run/kv-router/|$3/|g" "$1"
