#!/usr/bin/env python3
"""Records what `transformers` makes of some texts with tokenizer classes that rebuild what tokenizer.json says.

Opt-in; the tests need only its output, event-bridge/tests/data/class-goldens.jsonl. Needs the transformers of `make test-vllm`:

    .deps/vllm/bin/python scripts/record-class-goldens.py

A line {"tokenizer", "config", "model_type", "class"} for each case (a folder of .deps/tokenizers, what its tokenizer_config.json is changed
by, and the class that `transformers` chose), then a line {"text", "ids"} for each of the texts, special tokens added.
"""

import json
import os
import pathlib
import shutil
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

from transformers import AutoTokenizer  # noqa: E402

ROOT = pathlib.Path(__file__).parent.parent
OUT = ROOT / "event-bridge/tests/data/class-goldens.jsonl"
CASES = [
    ("gpt4o", "gpt2", {}),
    ("gpt4o", "gpt2", {"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": True}),
    ("gpt4o", "gpt_neox", {"tokenizer_class": "GPTNeoXTokenizerFast"}),
    ("gpt4o", "cohere", {"tokenizer_class": "CohereTokenizer"}),
    ("gpt4o", "no such model", {"tokenizer_class": "NoSuchTokenizer"}),
    ("gpt4o", "phi3", {"tokenizer_class": "GPT2Tokenizer"}),
    ("llama2", "llama", {}),
    ("llama2", "llama", {"legacy": False, "tokenizer_class": "LlamaTokenizerFast"}),
    ("llama2", "llama", {"legacy": None}),
    ("llama2", "llama", {"add_prefix_space": False}),
    ("llama2", "mistral", {}),
    ("llama3_1", "llama", {}),
    ("llama3_1", "qwen2", {}),
    ("gemma3", "gemma3", {}),
    ("qwen3", "qwen3", {}),
    ("qwen3", "qwen3_5", {}),
    ("qwen3", "qwen2", {"tokenizer_class": "LlamaTokenizerFast"}),
    ("deepseek_v3", "deepseek_v3", {}),
]
TEXTS = [
    "The router counts blocks.",
    " it's what THEY'LL 'ſ say",
    "  two  spaces\n\n  and a line ",
    "12345 1,234.5 ½ ٣",
    "路由器记住前缀。日本語カタカナ",
    "e\u0301 é a\u0323\u0307 क़ \u0f73",
    "camelCaseHTTPServer ǅungla",
    "x</s> y <s>z<|im_end|> w<|eot_id|>\n",
    "▁ ▁▁ a▁b",
    "\U0010ffff\u0000 \u3000",
    " ",
    "a",
]


def main():
    lines = []
    for name, model_type, changes in CASES:
        source = ROOT / ".deps/tokenizers" / name
        config = json.loads((source / "tokenizer_config.json").read_text()) | changes
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            shutil.copy(source / "tokenizer.json", folder)
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
            (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
            tokenizer = AutoTokenizer.from_pretrained(folder)
        lines.append({"tokenizer": name, "config": changes, "model_type": model_type, "class": type(tokenizer).__name__})
        lines += [{"text": text, "ids": tokenizer.encode(text)} for text in TEXTS]
    OUT.write_text("".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines))


if __name__ == "__main__":
    main()
