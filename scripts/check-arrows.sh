#!/usr/bin/env bash
# Proves the arrows of ARCHITECTURE.md ("Rooms") from the dependency graph and the sources.
source "$(dirname "$0")/lib.sh"
cd "$ROOT"
failures=0
fail() { printf 'check-arrows: %s\n' "$*" >&2; failures=$((failures + 1)); }

# tree PACKAGE: names of all packages that PACKAGE is built from, on any platform, tests left out.
tree() { cargo tree --package "$1" --edges normal,build --target all --prefix none --format '{p}' | awk '{print $1}' | sort -u; }

# never PACKAGE NAME...: PACKAGE must not be built from any of the packages NAME.
never() {
  local package=$1 names name
  shift
  names=$(tree "$package")
  grep -qx "$package" <<<"$names" || fail "cargo tree does not list $package itself: the check is broken"
  for name in "$@"; do
    ! grep -qx -- "$name" <<<"$names" || fail "$package must not see $name"
  done
}

never kv-routing tokio mio hyper axum zeromq proxy-wasm tracing log rand getrandom filter event-bridge mock-engine e2e bench
never filter tokio mio hyper axum zeromq event-bridge mock-engine e2e bench
never event-bridge proxy-wasm filter mock-engine e2e bench
never mock-engine kv-routing proxy-wasm filter event-bridge e2e bench

# search PATTERN FOLDER...: file:line of every match in Rust sources; finding none is no error.
search() { grep -rnE --include='*.rs' -- "$@" || [ $? -eq 1 ]; }

# The only files that may name the proxy-wasm SDK: entry, contexts, and the one implementation of the host trait.
allowed='^filter/src/(lib|root|http|host/envoy)\.rs$'
named=$(search 'proxy_wasm' filter/src kv-routing/src event-bridge/src | cut -d: -f1 | sort -u)
[ -n "$named" ] || fail "no file names proxy_wasm: the check is broken"
for file in $named; do
  [[ $file =~ $allowed ]] || fail "$file may not name proxy_wasm"
done

# The pure core takes time and randomness as arguments and touches nothing outside. Its tests may.
impure=$(search 'std::(time::(Instant|SystemTime)|env|net|fs|thread|process)\b' kv-routing/src | { grep -vE '^[^:]*(/|_)tests\.rs:' || [ $? -eq 1 ]; })
[ -z "$impure" ] || fail "kv-routing must stay pure:"$'\n'"$impure"

[ "$failures" -eq 0 ] || exit 1
say "check-arrows: all arrows hold"
