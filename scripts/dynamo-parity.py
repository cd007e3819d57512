"""Compares the bridge with Dynamo's own indexer on the events of Dynamo's mocker, block by block.

Two mockers publish: one engine with one rank, and one with two ranks, which is killed and started anew in the middle of its
work. Random prompts with common beginnings overflow the small caches, so that blocks are evicted all the time. Compared are all
(worker, rank, block, depth), by the chained hash that both programs compute from token ids:

1. in the middle, before the kill;
2. at the end: the engine that lived on with the indexer that followed it from the start, the restarted engine with an indexer
   that began after the kill;
3. after some more prompts: a bridge that started only then and has the past from the engines' replay buffers alone, with the
   same two indexers.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.error

from programs import Program, free_ports, get, wait_for

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK_SIZE = 16
CACHE_BLOCKS = 192
MAX_MODEL_LEN = 1024
# States in which the bridge vouches for the order of events; the second still lacks requests that prove the tokens.
IN_ORDER = {("exact", "in_order"), ("unverified", "parity_unknown")}


def dynamo(name, module, *arguments, **environment):
    return Program(name, sys.executable, "-m", f"dynamo.{module}", *arguments, **environment)


def write_model(folder):
    """A model folder that the mocker takes: a byte-level tokenizer and no weights."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder.mkdir()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<s>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": len(vocabulary), "bos_token_id": 0,
              "eos_token_id": 1, "max_position_embeddings": MAX_MODEL_LEN, "hidden_size": 64, "num_hidden_layers": 2,
              "num_attention_heads": 2}
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
             "chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return len(vocabulary)


class Engine:
    """A mocker and the frontend that passes prompts on to it."""

    def __init__(self, number, ranks, model):
        self.number, self.ranks, self.model = number, ranks, model
        self.events, self.replay = free_ports(ranks), free_ports(ranks)
        self.lives = 0

    def start(self):
        self.lives += 1
        name = f"{self.number}-life{self.lives}"
        self.http = free_ports(1)
        # Discovery in a folder of its own: an engine that was killed stays in it for a while.
        environment = {"DYN_FILE_KV": str(Program.folder / f"discovery-{name}"), "HF_HUB_OFFLINE": "1",
                       "DYN_EVENT_PLANE_HOST": "127.0.0.1", "DYN_TCP_RPC_HOST": "127.0.0.1",
                       "DYN_TCP_RESPONSE_STREAM_HOST": "127.0.0.1"}
        planes = ["--discovery-backend", "file", "--event-plane", "zmq", "--request-plane", "tcp"]
        self.mocker = dynamo(f"mocker-{name}", "mocker", "--model-path", self.model, "--model-name", "mock", "--engine-type", "vllm",
                             "--block-size", BLOCK_SIZE, "--num-gpu-blocks-override", CACHE_BLOCKS, "--speedup-ratio", 1000,
                             "--max-model-len", MAX_MODEL_LEN, "--data-parallel-size", self.ranks,
                             "--zmq-kv-events-ports", self.events, "--zmq-replay-ports", self.replay, *planes, **environment)
        self.frontend = dynamo(f"frontend-{name}", "frontend", "--http-port", self.http, "--router-mode", "kv", *planes, **environment)
        ready = lambda: json.loads(get(f"http://127.0.0.1:{self.http}/v1/models"))["data"]
        wait_for(f"engine {self.number} is not ready", 120, ready)
        # A model is listed a little before its worker can be reached.
        wait_for(f"engine {self.number} does not answer", 60, lambda: self.complete([2] * 8, 1))

    def complete(self, prompt, max_tokens):
        body = {"model": "mock", "prompt": prompt, "max_tokens": max_tokens}
        return get(f"http://127.0.0.1:{self.http}/v1/completions", body)

    def kill(self):
        self.mocker.end(signal.SIGKILL)

    def address(self):
        """What the bridge calls it; nothing listens there, which does not concern events."""
        return f"127.0.0.1:{self.events + 5000}"

    def streams(self):
        return [f"{self.number}:{rank}=tcp://127.0.0.1:{self.events + rank}" for rank in range(self.ranks)]


class Indexer:
    """Dynamo's indexer over some engines."""

    def __init__(self, name, engines):
        self.engines = engines
        self.port = free_ports(1)
        streams = [stream for engine in engines for stream in engine.streams()]
        self.program = dynamo(f"indexer-{name}", "indexer", "--block-size", BLOCK_SIZE, "--port", self.port, "--workers", ",".join(streams))
        wait_for(f"indexer {name} does not listen", 60, self.follows)
        # It says that it follows a stream a moment before it is subscribed; what it missed it never asks for.
        time.sleep(1)

    def follows(self):
        workers = json.loads(get(f"http://127.0.0.1:{self.port}/workers"))
        listeners = [listener["status"] for worker in workers for listener in worker["listeners"].values()]
        return len(listeners) == sum(engine.ranks for engine in self.engines) and set(listeners) == {"active"}

    def blocks(self, engines=None):
        """What `engines` (all, when not told) hold."""
        numbers = {engine.number for engine in engines or self.engines}
        [pool] = json.loads(get(f"http://127.0.0.1:{self.port}/dump")).values()
        held, depths = set(), {}
        # Parents may come after their children.
        open_events = [event for event in pool["events"] if event["worker_id"] in numbers]
        while open_events:
            later = []
            for event in open_events:
                assert event["storage_tier"] == "device", event
                worker, rank = event["worker_id"], event["event"]["dp_rank"]
                stored = event["event"]["data"]["stored"]
                parent = stored["parent_hash"]
                if parent is not None and (worker, rank, parent) not in depths:
                    later.append(event)
                    continue
                depth = -1 if parent is None else depths[worker, rank, parent]
                for block in stored["blocks"]:
                    depth += 1
                    depths[worker, rank, block["block_hash"]] = depth
                    held.add((worker, rank, block["block_hash"], depth))
            if len(later) == len(open_events):
                sys.exit(f"error: {len(later)} events of Dynamo's dump have no parent in it, the first is {later[0]}")
            open_events = later
        return held


class Bridge:
    """The bridge over all engines."""

    def __init__(self, program, name, engines):
        self.engines = {engine.address(): engine for engine in engines}
        self.port = free_ports(1)
        worker = lambda engine: {"address": engine.address(), "ranks": engine.ranks, "first_rank": 0, "events": {
            "endpoint": f"tcp://127.0.0.1:{engine.events}", "replay": f"tcp://127.0.0.1:{engine.replay}"}}
        config = {"admin": {"listen": f"127.0.0.1:{self.port}"},
                  "pools": [{"name": "mock", "models": ["mock"], "block_size": BLOCK_SIZE, "workers": [worker(engine) for engine in engines]}]}
        path = Program.folder / f"bridge-{name}.yaml"
        path.write_text(json.dumps(config))
        self.program = Program(f"bridge-{name}", program, "run", "--config", path)
        wait_for("the bridge does not listen", 60, lambda: get(f"http://127.0.0.1:{self.port}/healthz"))

    def targets(self):
        [pool] = json.loads(get(f"http://127.0.0.1:{self.port}/workers"))["pools"]
        for worker in pool["workers"]:
            for target in worker["targets"]:
                yield self.engines[worker["address"]].number, target["rank"] or 0, target

    def wait_until_connected(self):
        apart = {"not_connected", "disconnected"}
        wait_for("the bridge is not connected to every stream", 30,
                 lambda: all(target["reason"] not in apart for _, _, target in self.targets()))

    def blocks(self):
        held = set()
        for line in get(f"http://127.0.0.1:{self.port}/index").splitlines():
            line = json.loads(line)
            assert line["tier"] == "device", line
            block = int(line["sequence_hash"], 16)
            held.add((self.engines[line["worker"]].number, line["rank"] or 0, block, line["depth"]))
        return held


class Sending:
    """Sends every (engine, prompt, max_tokens) from a thread of its own."""

    def __init__(self, engines, prompts, connections):
        self.engines, self.done, self.lost = engines, 0, []
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.run, args=(prompts, connections))
        self.thread.start()

    def run(self, prompts, connections):
        with concurrent.futures.ThreadPoolExecutor(connections) as pool:
            list(pool.map(self.send, prompts))

    def send(self, request):
        at, prompt, max_tokens = request
        try:
            self.engines[at].complete(prompt, max_tokens)
        except (OSError, urllib.error.URLError) as error:
            with self.lock:
                self.lost.append(f"{type(error).__name__}: {error}")
        with self.lock:
            self.done += 1

    def until(self, count):
        while self.done < count:
            time.sleep(0.001)

    def finish(self):
        """Waits for the end; every request must have gone well."""
        self.thread.join()
        if self.lost:
            sys.exit(f"error: {len(self.lost)} requests failed, the first: {self.lost[0]}")


def make_prompts(dice, count, vocabulary):
    """Prompts that share beginnings of many lengths, for either engine in turn."""
    stems = [[dice.randrange(2, vocabulary) for _ in range(dice.randrange(16, 400))] for _ in range(24)]
    prompts = []
    for at in range(count):
        stem = dice.choice(stems)
        head = stem[: dice.randrange(1, len(stem) + 1)]
        tail = [dice.randrange(2, vocabulary) for _ in range(dice.randrange(0, 120))]
        prompts.append((at % 2, head + tail or [2], dice.randrange(1, 40)))
        if dice.random() < 0.1:
            dice.choice(stems)[:] = head + tail or [2]
    return prompts


def compare(what, bridge, expected):
    """Both must hold the same when everything under way has arrived, and no stream may be in doubt or have seen nothing."""

    def doubts():
        return [(number, rank, target["state"], target["reason"]) for number, rank, target in bridge.targets()
                if (target["state"], target["reason"]) not in IN_ORDER or not target["source"]["removed_blocks"]]

    deadline = time.monotonic() + 30
    while True:
        theirs, ours, doubtful = expected(), bridge.blocks(), doubts()
        if (theirs == ours and not doubtful) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    for number, rank, target in bridge.targets():
        count = lambda blocks: sum(1 for block in blocks if block[:2] == (number, rank))
        source = target["source"]
        print(f"  engine {number} rank {rank}: {count(ours)} blocks, Dynamo {count(theirs)}; {target['state']} ({target['reason']}), "
              f"{source['stored_blocks']} stored, {source['removed_blocks']} removed, {source['restarts']} restarts, {source['gaps']} gaps")
    if theirs == ours and not doubtful:
        print(f"ok: {what}: {len(ours)} blocks are the same")
        return True
    print(f"FAILED: {what}: {len(ours - theirs)} only in the bridge, {len(theirs - ours)} only at Dynamo, in doubt: {doubtful}")
    for name, rest in (("bridge", ours - theirs), ("Dynamo", theirs - ours)):
        for worker, rank, block, depth in sorted(rest)[:5]:
            print(f"  only {name}: engine {worker} rank {rank} block {block:016x} depth {depth}")
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bridge", default=ROOT / "target/debug/event-bridge", help="program under test")
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--connections", type=int, default=8)
    arguments = parser.parse_args()
    Program.folder = pathlib.Path(tempfile.mkdtemp(prefix="dynamo-parity-"))
    print(f"seed {arguments.seed}, {arguments.prompts} prompts")
    try:
        passed = run(arguments)
    finally:
        for program in list(Program.running):
            program.end(signal.SIGKILL)
    if not passed:
        sys.exit(f"error: the bridge and Dynamo disagree; logs are in {Program.folder}")
    shutil.rmtree(Program.folder)


def run(arguments):
    dice = random.Random(arguments.seed)
    vocabulary = write_model(Program.folder / "model")
    survivor, victim = engines = [Engine(number, ranks, Program.folder / "model") for number, ranks in ((1, 1), (2, 2))]
    bridge = Bridge(arguments.bridge, "first", engines)
    for engine in engines:
        engine.start()
    first = Indexer("first", engines)
    bridge.wait_until_connected()
    prompts = make_prompts(dice, arguments.prompts, vocabulary)
    quarter, half = len(prompts) // 4, len(prompts) // 2

    Sending(engines, prompts[:quarter], arguments.connections).finish()
    passed = compare("before the kill", bridge, first.blocks)

    sending = Sending(engines, prompts[quarter:half], arguments.connections)
    sending.until((half - quarter) // 2)
    victim.kill()
    sending.thread.join()
    print(f"engine 2: kill -9 under load, {len(sending.lost)} requests lost with it")
    if not sending.lost:
        sys.exit("error: nothing was under way when the engine was killed")
    victim.frontend.end()
    victim.start()
    fresh = Indexer("fresh", [victim])
    bridge.wait_until_connected()
    Sending(engines, prompts[half:], arguments.connections).finish()

    def expected():
        # The first indexer still believes in the past of the killed engine: nothing announces a restart.
        return first.blocks([survivor]) | fresh.blocks()

    passed &= compare("at the end", bridge, expected)
    restarts = {(number, rank): target["source"]["restarts"] for number, rank, target in bridge.targets()}
    if not all(restarts[victim.number, rank] for rank in range(victim.ranks)):
        print(f"FAILED: the restart was not noticed on every rank: {restarts}")
        passed = False
    bridge.program.end()
    late = Bridge(arguments.bridge, "late", engines)
    late.wait_until_connected()
    Sending(engines, make_prompts(dice, 50, vocabulary), arguments.connections).finish()
    return compare("a bridge that came late", late, expected) and passed


if __name__ == "__main__":
    main()
