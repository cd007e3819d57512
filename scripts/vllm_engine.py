"""Programs of vLLM on this machine, and the prompt tokens that they say they make of a body."""

import json
import pathlib
import shutil
import sys

import vllm_requests
from programs import Program, free_ports, get, wait_for

START_SECONDS = 400
# Small enough for a processor; the vocabulary is as large as that of the largest tokenizer that is served with it.
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16", "vocab_size": 151_936,
          "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "head_dim": 32, "max_position_embeddings": 32_768, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_act": "silu",
          "tie_word_embeddings": True}
# Random weights are made when they are loaded.
TINY = ["--load-format", "dummy", "--dtype", "bfloat16", "--enforce-eager", "--max-model-len", 16_384, "--max-num-seqs", 16]
# Without these vLLM refuses bodies with tools.
TOOLS = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"]
CACHE = ["--block-size", 32, "--num-gpu-blocks-override", 2048, "--enable-prefix-caching"]
GENERATING = [*CACHE, *TOOLS, "--enable-scale-out"]
EMBEDDING = ["--runner", "pooling"]
RENDERING = [*TOOLS, "--max-model-len", 32_768]
# Fields of a chat that `/tokenize` knows, and fields that change no prompt; with any other field its answer is for another prompt.
OF_TOKENIZE = {"messages", "tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs", "add_special_tokens"}
OF_NO_PROMPT = {"model", "max_tokens", "return_token_ids", "cache_salt"}


def write_model(folder, tokenizer, template=None):
    """A folder with the files of a tokenizer and a tiny model; `template` takes the place of the tokenizer's own."""
    shutil.copytree(tokenizer, folder)
    if template:
        shutil.copy(template, folder / "chat_template.jinja")
    (folder / "config.json").write_text(json.dumps(CONFIG))


class Disagreement(Exception):
    """The engine says different things of one prompt."""


def agree(what, tokens, others):
    if tokens != others:
        raise Disagreement(f"prompt {tokens}, {what} {others}")


class Server:
    """A program of vLLM's that is ready for requests."""

    def __init__(self, name, command, model, options):
        port = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        slow = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        alone = {"VLLM_HOST_IP": "127.0.0.1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        served = [model, "--served-model-name", vllm_requests.MODEL, "--host", "127.0.0.1", "--port", port]
        vllm = pathlib.Path(sys.executable).with_name("vllm")
        self.program = Program(name, vllm, *command, *served, *options, **slow, **alone)
        wait_for(f"{name} is not ready", START_SECONDS, self.is_ready)

    def is_ready(self):
        if self.program.process.poll() is not None:
            sys.exit(f"error: {self.program.name} ended by itself; logs are in {Program.folder}")
        get(f"{self.url}/health")
        return True

    def end(self):
        # It ends processes of its own first.
        self.program.end(seconds=60)

    def ask(self, path, body=None):
        return json.loads(get(f"{self.url}{path}", body, timeout=120))

    def text(self, tokens):
        return self.ask("/detokenize", {"model": vllm_requests.MODEL, "tokens": tokens})["prompt"]


class Renderer(Server):
    """Only renders prompts, with the code that the engine has for that."""

    def __init__(self, name, model):
        super().__init__(name, ["launch", "render"], model, RENDERING)

    def tokens(self, path, text):
        """The tokens of a body's first prompt."""
        answer = self.ask(f"{path}/render", text)
        return (answer[0] if isinstance(answer, list) else answer)["token_ids"], False


class Engine(Server):
    """Computes."""

    def __init__(self, name, model, options):
        super().__init__(name, ["serve"], model, [*TINY, *options])

    def tokens(self, path, text):
        """The tokens of a body's first prompt, and whether `/tokenize` has said so too."""
        answer, body = self.ask(path, text), json.loads(text)
        if path == vllm_requests.EMBEDDINGS:
            prompts = [self.tokenized(prompt) for prompt in each_prompt(path, body)]
            agree("usage", sum(map(len, prompts)), answer["usage"]["prompt_tokens"])
            return prompts[0], True
        if path in (vllm_requests.RESPONSES, vllm_requests.MESSAGES):
            tokens = self.ask(f"{path}/render", text)["token_ids"]
            agree("usage", len(tokens), answer["usage"]["input_tokens"])
            return tokens, False
        if path == vllm_requests.COMPLETIONS:
            answer = answer["choices"][0]
        asked = is_for_tokenize(path, body)
        if asked:
            agree("/tokenize", answer["prompt_token_ids"], self.tokenized(next(each_prompt(path, body))))
        return answer["prompt_token_ids"], asked

    def tokenized(self, prompt):
        """What `/tokenize` makes of one prompt; token ids are what they are."""
        return prompt if isinstance(prompt, list) else self.ask("/tokenize", {"model": vllm_requests.MODEL, **prompt})["tokens"]


def is_for_tokenize(path, body):
    if path == vllm_requests.CHAT:
        # Of reasoning it knows only the newer name.
        older = any("reasoning_content" in message for message in body["messages"])
        return not older and body.keys() <= OF_TOKENIZE | OF_NO_PROMPT
    return path == vllm_requests.COMPLETIONS and "truncate_prompt_tokens" not in body


def each_prompt(path, body):
    """What `/tokenize` is asked for each prompt of a body, or the token ids that are given."""
    if "messages" in body:
        # Its own default is that of chats.
        default = {"add_generation_prompt": False} if path == vllm_requests.EMBEDDINGS else {}
        yield {**default, **{name: value for name, value in body.items() if name in OF_TOKENIZE}}
        return
    prompts = body["input"] if path == vllm_requests.EMBEDDINGS else body["prompt"]
    if isinstance(prompts, str) or isinstance(prompts[0], int):
        prompts = [prompts]
    for prompt in prompts:
        special = {"add_special_tokens": body.get("add_special_tokens", True)}
        yield {"prompt": prompt, **special} if isinstance(prompt, str) else prompt
