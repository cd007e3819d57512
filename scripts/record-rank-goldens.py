#!/usr/bin/env python3
"""Records what `tiktoken` and `mistral-common` make of some texts, for the test of tokenizers compiled from rank files.

Opt-in; the tests need only its output, event-bridge/tests/data/rank-goldens.jsonl.

    python3 -m venv .deps/goldens && .deps/goldens/bin/pip install tiktoken==0.14.0 mistral-common==1.13.1
    .deps/goldens/bin/python scripts/record-rank-goldens.py

Lines of {"text", "kimi", "tekken"}: ids by tiktoken with the ranks of .deps/tokenizers/qwen_tiktoken and Kimi K2's pattern, special
tokens allowed; and by mistral-common with .deps/tokenizers/tekken, without control tokens around.
"""

import base64
import json
import pathlib
import random

import tiktoken
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

ROOT = pathlib.Path(__file__).parent.parent
RANKS = ROOT / ".deps/tokenizers/qwen_tiktoken/qwen.tiktoken"
TEKKEN = ROOT / ".deps/tokenizers/tekken/tekken.json"
OUT = ROOT / "event-bridge/tests/data/rank-goldens.jsonl"
CASED = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI = "|".join([
    r"[\p{Han}]+",
    rf"[^\r\n\p{{L}}\p{{N}}]?{CASED[0]}*{CASED[1]}+{CONTRACTION}",
    rf"[^\r\n\p{{L}}\p{{N}}]?{CASED[0]}+{CASED[1]}*{CONTRACTION}",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
])
NAMED = {10: "<|im_end|>", 11: "<|im_user|>", 12: "<|im_middle|>"}
PIECES = [
    "The router counts blocks", " don't", "IT'S", " they'LL", "'ſ", " camelCaseHTTPServer", "12345", " ½²Ⅷ", "१२३", "路由器记住前缀",
    "日本語カタカナ漢字かな", "々〆〇ー", " 한국어", "Ёлка", " ữ ự", "😀👩‍👩‍👧", "🇫🇷", "e\u0301", "\u0300x", "ǅungla", "ʰʷªº", " ", "  ", "\t", "\n", "\r\n",
    "\n\n\n", "\u3000", "\u00a0", "...---", "{\"a\":[1,2]}", "//\r\n/", " #!/bin/sh\n", "fn main() {\n    x += 1;\n}", "aaaaaaaaaaaaa", "====", "<|im_end|>",
    "<|im_user|>", "<|reserved_token_151650|>", "<|im_", "<s>", "[INST]", "\u0000\u0007", "\uffff", "\U0001f3f4\U000e0067", "abcabcabc", "ﬁ", "ß", "İi", "ا لا", "שָׁ",
]


def texts() -> list[str]:
    rng = random.Random(20261130)
    made = ["", *PIECES]
    for _ in range(350):
        count = rng.choice([2, 3, 5, 9, 20])
        made.append("".join(rng.choice(PIECES) for _ in range(count)))
    for _ in range(50):
        ranges = [(0x20, 0x7F), (0xA0, 0x2FF), (0x370, 0x5FF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1F6FF)]
        made.append("".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randint(1, 40))))
    return made


def main() -> None:
    lines = [line.split() for line in RANKS.read_text().splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    base = len(ranks)
    special = {NAMED.get(at, f"<|reserved_token_{base + at}|>"): base + at for at in range(256)}
    kimi = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks=ranks, special_tokens=special)
    tekken = Tekkenizer.from_file(str(TEKKEN))
    OUT.parent.mkdir(exist_ok=True)
    with OUT.open("w") as out:
        for text in texts():
            ids = {"kimi": kimi.encode(text, allowed_special="all"), "tekken": tekken.encode(text, bos=False, eos=False)}
            out.write(json.dumps({"text": text, **ids}, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{OUT}: {len(texts())} texts")


if __name__ == "__main__":
    main()
