"""Bodies of /v1/embeddings."""

from . import chats
from .completions import special_tokens
from .kinds import Kinds

KINDS = kind = Kinds("/v1/embeddings")


@kind("embedding: text")
def text(writer):
    return {"input": writer.pick(writer.text(), writer.odd_text(), writer.special_text()), **special_tokens(writer)}


@kind("embedding: list of texts")
def list_of_texts(writer):
    return {"input": writer.some(writer.text), **special_tokens(writer)}


@kind("embedding: token ids")
def token_ids(writer):
    return {"input": writer.pick(writer.tokens(), writer.some(writer.tokens))}


@kind("embedding: chat")
def chat(writer):
    fields = {**writer.maybe({"add_generation_prompt": writer.pick(True, False)}), **special_tokens(writer)}
    return {"messages": writer.turns(), **fields, **writer.maybe({"chat_template_kwargs": {"enable_thinking": False}}, 0.3)}


@kind("embedding: open end")
def open_end(writer):
    return chats.open_end(writer)


@kind("embedding: reasoning")
def reasoning(writer):
    return {"messages": [writer.user(), chats.reasoned(writer)]}
