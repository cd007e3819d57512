"""Requests for `vllm-parity.py`: every kind of body that the filter reads, filled by dice.

A kind is a path and a function that makes one body. What a kind is named after is in every body of it, anything else may be or
not. The engine has no prompt for the kinds whose names begin with "refused".
"""

import json

from . import chats, completions, embeddings, messages, responses
from .writer import Writer

MODEL = "tiny"
KINDS = {**completions.KINDS, **completions.IDS, **chats.KINDS, **responses.KINDS, **messages.KINDS, **embeddings.KINDS}
COMPLETIONS, CHAT, RESPONSES = completions.KINDS.path, chats.KINDS.path, responses.KINDS.path
MESSAGES, EMBEDDINGS = messages.KINDS.path, embeddings.KINDS.path
RENDERED = (COMPLETIONS, CHAT, RESPONSES, MESSAGES)


def make(dice, kind):
    """One body of a kind: its path, and the body as text, since there are many ways to write the same JSON."""
    path, body = KINDS[kind]
    writer = Writer(dice)
    style = writer.pick({}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"ensure_ascii": False, "indent": 1})
    return path, json.dumps(writer.shuffled({"model": MODEL, **body(writer)}), **style)
