"""Compares the tokens that the filter makes of request bodies with those that a real vLLM computes.

vLLM serves a tiny model with random weights and the tokenizer and chat template of a real one. It gets generated requests of
all kinds of body that the filter reads, first as a generating engine, then as an embedding one. The same bytes go to
`event-bridge render`, which is the code that runs in Envoy. Compared are all prompt tokens, and the hashes that the filter looks
up with hashes made here of the engine's tokens. Then vLLM renders, without an engine, the same requests with another tokenizer,
one that adds special tokens, and with a template that shows whatever a template can see of a request.

The engine's tokens are those of its answer (`return_token_ids`); of its `/render` for bodies whose answers have only their
number, which must agree; of its `/tokenize` for embeddings. Where `/tokenize` knows what the body says, it must agree too.
The bridge's own check with an engine must agree with the right model, and name what differs with another one.
A body that the filter labels as approximate is counted apart, whatever its tokens, and so is one that the engine refuses.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import urllib.error

from xxhash import xxh3_64_intdigest

import vllm_engine
import vllm_requests
from programs import Program

ROOT = pathlib.Path(__file__).resolve().parent.parent
# How the filter calls prompts that are the engine's; its other words are reasons why one need not be.
EXACT = {"exact", "up_to_media"}
VERDICTS = ("equal", "approximate", "refused by both", "refused by vLLM")


@dataclasses.dataclass
class Request:
    """One request and what both sides say of it."""

    kind: str
    path: str
    body: str
    ours: dict = None
    theirs: list = None
    by_tokenize: bool = False
    refusal: str = None
    # One of the above, none when something is wrong: then that is in `failure`.
    verdict: str = None
    failure: str = None

    def send(self, engine):
        try:
            self.theirs, self.by_tokenize = engine.tokens(self.path, self.body)
        except urllib.error.HTTPError as error:
            self.refusal = f"{error.code}: {error.read().decode(errors='replace')}"
        except vllm_engine.Disagreement as error:
            self.failure = f"vLLM disagrees with itself: {error}"
            return
        self.judge()

    def judge(self):
        if self.refusal:
            self.verdict = "refused by both" if "error" in self.ours else "refused by vLLM"
        elif "error" in self.ours:
            self.failure = f"the filter has no prompt: {self.ours['error']}"
        elif self.ours["exactness"] not in EXACT:
            self.verdict = "approximate"
        elif self.ours["tokens"] != self.theirs:
            self.failure = "the tokens differ"
        elif self.ours["blocks"] != chain(self.theirs, json.loads(self.body).get("cache_salt")):
            self.failure = "the tokens are equal, but not the hashes"
        else:
            self.verdict = "equal"

    def explain(self, engine):
        """Prints what is wrong."""
        print(f"FAILED: {self.kind}: {self.failure}\n  POST {self.path}\n  {self.body}")
        if self.theirs is None or "tokens" not in self.ours:
            return
        sides = {"filter": self.ours["tokens"], "vLLM": self.theirs}
        shorter = min(map(len, sides.values()))
        at = next((at for at, pair in enumerate(zip(*sides.values())) if pair[0] != pair[1]), shorter)
        for name, tokens in sides.items():
            around = tokens[max(at - 8, 0):at + 8]
            print(f"  {name}: {len(tokens)} tokens, around {at}: {around} {engine.text(around)!r}")


def chain(tokens, salt):
    """Sequence hashes of blocks of one token, as hexadecimal words."""
    seed = 1337 + (xxh3_64_intdigest(salt.encode(), seed=1) if salt else 0)
    hashes = []
    for token in tokens:
        last = xxh3_64_intdigest(token.to_bytes(4, "little"), seed=seed % 2**64)
        if hashes:
            both = b"".join(part.to_bytes(8, "little") for part in (hashes[-1], last))
            last = xxh3_64_intdigest(both, seed=1337)
        hashes.append(last)
    return [f"{sequence:016x}" for sequence in hashes]


def make_requests(count, seed):
    """As many of every kind, but for the remainder."""
    dice, kinds = random.Random(seed), list(vllm_requests.KINDS)
    kinds = [kinds[number % len(kinds)] for number in range(count)]
    return [Request(kind, *vllm_requests.make(dice, kind)) for kind in kinds]


def render(program, model, requests):
    """Asks the filter's code."""
    lines = [json.dumps({"path": request.path, "body": request.body}) for request in requests]
    command = [program, "render", "--model-dir", model, "--json-lines", "--request", "-", "--block-size", "1"]
    done = subprocess.run(command, input="\n".join(lines), text=True, stdout=subprocess.PIPE, check=True)
    for request, answer in zip(requests, done.stdout.rstrip("\n").split("\n"), strict=True):
        request.ours = json.loads(answer)


def send(engine, requests, connections):
    """Prints what became of each kind; true when nothing is wrong and nothing is missing."""
    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        list(pool.map(lambda request: request.send(engine), requests))
    print(f"  {'':36}{'sent':>6}" + "".join(f"{verdict:>17}" for verdict in VERDICTS))
    passed = True
    for kind in dict.fromkeys(request.kind for request in requests):
        own = [request for request in requests if request.kind == kind]
        verdicts = [request.verdict for request in own]
        print(f"  {kind:36}{len(own):6}" + "".join(f"{verdicts.count(verdict) or '-':>17}" for verdict in VERDICTS))
        if all(request.refusal for request in own) and not kind.startswith("refused"):
            print(f"FAILED: {kind}: vLLM takes none of them: {own[0].refusal}")
            passed = False
    wrong = [request for request in requests if request.failure]
    for request in wrong[:1]:
        request.explain(engine)
    return passed and not wrong


def summarize(requests):
    verdicts = [request.verdict for request in requests]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS)
    print(f"{len(requests)} requests: {counts}, {verdicts.count(None)} wrong")
    equal = [request for request in requests if request.verdict == "equal"]
    asked = sum(request.by_tokenize for request in equal)
    by_tokenize = f"; /tokenize says so too for {asked} prompts" if asked else ""
    print(f"equal: {sum(len(request.theirs) for request in equal)} tokens{by_tokenize}")
    reasons = [request.ours["exactness"] for request in requests if request.verdict == "approximate"]
    print("approximate: " + ", ".join(f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons))))


def compute(arguments, model):
    """Requests that engines compute."""
    requests = make_requests(arguments.requests, arguments.seed)
    render(arguments.bridge, model, requests)
    passed = True
    for name, options in (("generating", vllm_engine.GENERATING), ("embedding", vllm_engine.EMBEDDING)):
        own = [request for request in requests if (request.path == vllm_requests.EMBEDDINGS) == (name == "embedding")]
        engine = vllm_engine.Engine(name, model, options)
        print(f"vLLM {engine.ask('/version')['version']}, {name}, with Qwen3's tokenizer and template:", flush=True)
        passed &= send(engine, own, arguments.connections)
        if name == "generating":
            passed &= check_with_engine(arguments.bridge, engine, model)
        engine.end()
    summarize(requests)
    return passed


def check_with_engine(program, engine, model):
    """The bridge asks the engine itself: with its own model it must find them equal, with any other it must say what differs."""
    llama, bare = (model.with_name(name) for name in ("llama3_1", "bare"))
    cases = [(model, 0, "equal for "), (llama, 4, "another tokenizer's"), (bare, 4, "compare its chat template")]
    passed = True
    for folder, status, words in cases:
        command = [program, "tokenizer", "check", "--model-dir", folder, "--engine", engine.url.removeprefix("http://")]
        done = subprocess.run(command, text=True, capture_output=True)
        told = (done.stdout if status == 0 else done.stderr).strip().split("\n")[-1]
        print(f"  the bridge asks the engine, configured with {folder.name}: {told[:300]}")
        if done.returncode != status or words not in told:
            print(f"FAILED: exit code {done.returncode} instead of {status}, or it does not say {words!r}: {done.stderr}")
            passed = False
    return passed


def only_render(arguments, name, model):
    """The same requests with other tokenizers and templates, which vLLM only renders."""
    requests = make_requests(arguments.requests, arguments.seed)
    requests = [request for request in requests if request.path in vllm_requests.RENDERED]
    render(arguments.bridge, model, requests)
    renderer = vllm_engine.Renderer(model.name, model)
    print(f"vLLM's renderer, with {name}:", flush=True)
    passed = send(renderer, requests, arguments.connections)
    renderer.end()
    summarize(requests)
    return passed


def run(arguments):
    tokenizers = ROOT / ".deps/tokenizers"
    qwen3, llama, bare = (Program.folder / name for name in ("qwen3", "llama3_1", "bare"))
    vllm_engine.write_model(qwen3, tokenizers / "qwen3")
    vllm_engine.write_model(llama, tokenizers / "llama3_1")
    vllm_engine.write_model(bare, tokenizers / "qwen3", ROOT / "scripts/vllm_template.jinja")
    passed = compute(arguments, qwen3)
    passed &= only_render(arguments, "Llama 3.1's tokenizer and template", llama)
    return only_render(arguments, "a template that prints all it is given", bare) and passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bridge", default=ROOT / "target/debug/event-bridge", help="program under test")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--connections", type=int, default=8)
    arguments = parser.parse_args()
    Program.folder = pathlib.Path(tempfile.mkdtemp(prefix="vllm-parity-"))
    kinds = len(vllm_requests.KINDS)
    print(f"seed {arguments.seed}, {arguments.requests} requests of {kinds} kinds", flush=True)
    try:
        passed = run(arguments)
    finally:
        for program in list(Program.running):
            program.end(seconds=60)
    if not passed:
        sys.exit(f"error: the filter and vLLM disagree; logs are in {Program.folder}")
    print("ok: the filter's prompts are vLLM's")
    shutil.rmtree(Program.folder)


if __name__ == "__main__":
    main()
