"""Programs that a check starts, watches and ends, and requests to them."""

import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request


def free_ports(count):
    """First of `count` free ports in a row."""
    while True:
        base = random.randrange(20000, 30000)
        with contextlib.ExitStack() as held:
            try:
                for port in range(base, base + count):
                    held.enter_context(socket.socket()).bind(("0.0.0.0", port))
                return base
            except OSError:
                continue


def get(url, body=None, timeout=30):
    """The bytes of an answer. `body` is sent as it is when it is text, as JSON otherwise."""
    headers = {"content-type": "application/json"}
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=timeout) as answer:
        return answer.read()


def wait_for(what, seconds, check):
    """Waits until `check` gives something true, and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := check():
                return found
        except (OSError, urllib.error.URLError, ValueError):
            pass
        if time.monotonic() > deadline:
            sys.exit(f"error: {what} within {seconds} s; logs are in {Program.folder}")
        time.sleep(0.1)


class Program:
    """A process with a log file of its own."""

    folder = pathlib.Path()
    running = []

    def __init__(self, name, *command, **environment):
        self.name = name
        with (self.folder / f"{name}.log").open("ab") as log:
            environment = {**os.environ, **environment}
            self.process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, env=environment)
        self.running.append(self)

    def end(self, how=signal.SIGTERM, seconds=10):
        self.process.send_signal(how)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.running.remove(self)
