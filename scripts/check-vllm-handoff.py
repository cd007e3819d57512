#!/usr/bin/env python3
"""Holds the bodies of disaggregated serving against vLLM's own request models.

Opt-in; needs the vLLM of scripts/record-vllm-renderings.py:

    make test-vllm-handoff

Every client body is accepted by vLLM; so must be what the filter makes of it for the prefill and for the decode engine,
with no field that vLLM does not know, and changed in nothing but the fields of the protocol.
"""

import json
import pathlib
import subprocess
import sys

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.exceptions import VLLMValidationError

ROOT = pathlib.Path(__file__).parent.parent
CHANGED = {"stream", "stream_options", "max_tokens", "max_completion_tokens", "min_tokens", "kv_transfer_params"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
ASK = {"model": "m", "messages": [{"role": "user", "content": "Time?"}], "tools": TOOLS}
MORE = [
    {**ASK, "tool_choice": "required", "max_tokens": 7},
    {**ASK, "tool_choice": {"type": "function", "function": {"name": "f"}}, "max_completion_tokens": 7},
    {**ASK, "tool_choice": "auto", "max_tokens": 7, "max_completion_tokens": 8},
    {**ASK, "tool_choice": "none"},
    {"model": "m", "prompt": "Hello", "stream": True, "stream_options": {"include_usage": True}, "min_tokens": 2},
    {"model": "m", "prompt": [1, 2, 3], "max_tokens": 5, "seed": 2**62, "logit_bias": {"5": 1.5}},
    {"model": "m", "messages": [{"role": "user", "content": "é\u0000"}], "max_completion_tokens": 9, "n": 2},
]


def model(body):
    kind = ChatCompletionRequest if "messages" in body else CompletionRequest
    made = kind.model_validate(body)
    extra = set(made.__pydantic_extra__ or {})
    assert not extra, f"vLLM does not know {extra}"
    return made


def demands_a_call(body):
    choice = body.get("tool_choice")
    return choice == "required" or isinstance(choice, dict)


def accepted(body):
    try:
        model(body)
        return True
    except (AssertionError, ValueError, VLLMValidationError):
        return False


def main():
    recorded = (ROOT / "tests/data/templates/vllm-bodies.jsonl").read_text().splitlines()
    chats = [line.split(" ", 1)[1] for line in recorded if line.startswith("/v1/chat/completions ")]
    bodies = [body for body in [json.loads(chat) for chat in chats] + MORE if accepted(body)]
    lines = "\n".join(json.dumps(body) for body in bodies)
    command = ["cargo", "run", "--quiet", "--package", "kv-routing", "--example", "handoff_bodies"]
    made = subprocess.run(command, cwd=ROOT, input=lines, capture_output=True, text=True, check=True).stdout
    checked = 0
    for line in made.splitlines():
        made = json.loads(line)
        client, prefill, decode = (json.loads(made[side]) for side in ("client", "prefill", "decode"))
        one = model(prefill)
        limit = getattr(one, "max_completion_tokens", None)
        assert one.max_tokens == 1 and limit in (None, 1) and not one.stream and one.kv_transfer_params["do_remote_decode"], prefill
        assert model(decode).kv_transfer_params["do_remote_prefill"], decode
        # Some versions cannot read a tool call from one token; what the prompt is made of stays.
        more = {"tool_choice"} if demands_a_call(client) else set()
        assert not more or (prefill["tool_choice"] is None and one.tools == model(client).tools), prefill
        for body, allowed in ((prefill, CHANGED | more), (decode, {"kv_transfer_params"})):
            differing = {key for key in client.keys() | body.keys() if client.get(key) != body.get(key)}
            assert differing <= allowed, differing
        checked += 1
    assert checked == 2 * len(bodies) and checked > 100, checked
    print(f"vLLM takes {checked} prefill and {checked} decode bodies made of {len(bodies)} client bodies")


sys.exit(main())
