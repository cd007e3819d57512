#!/usr/bin/env bash
# Dynamo's mocker publishes, Dynamo's indexer and the bridge follow, and both must hold the same blocks. Dynamo comes from PyPI
# into .deps/dynamo (about 600 MB), once.
source "$(dirname "$0")/lib.sh"

LIST="$ROOT/scripts/dynamo.txt"
VENV="$DEPS/dynamo"

install_dynamo() {
  local own rest
  own=$(sed -n '/^#/d; /^---$/q; p' "$LIST")
  rest=$(sed '1,/^---$/d' "$LIST")
  rm -rf "$VENV"
  python3 -m venv "$VENV"
  xargs -d '\n' "$VENV/bin/pip" --quiet --disable-pip-version-check install --no-deps <<<"$own"
  xargs -d '\n' "$VENV/bin/pip" --quiet --disable-pip-version-check install <<<"$rest"
}

need python3 "it runs Dynamo"
once dynamo "$(sha256sum "$LIST" | cut -c -16)" install_dynamo
exec "$VENV/bin/python" "$ROOT/scripts/dynamo-parity.py" "$@"
