"""Bodies of /v1/completions, and the one of token ids alone."""

from .kinds import Kinds

KINDS = kind = Kinds("/v1/completions", max_tokens=1, return_token_ids=True)
IDS = Kinds("/inference/v1/generate", sampling_params={"max_tokens": 1}, return_token_ids=True)


def special_tokens(writer):
    return writer.maybe({"add_special_tokens": writer.pick(True, False)}, 0.3)


@kind("completion: text")
def text(writer):
    return {"prompt": writer.text(), **special_tokens(writer)}


@kind("completion: odd unicode")
def odd_unicode(writer):
    return {"prompt": writer.pick(writer.odd_text(), writer.any_scalars()), **special_tokens(writer)}


@kind("completion: special tokens in text")
def special_tokens_in_text(writer):
    return {"prompt": writer.special_text(), **special_tokens(writer)}


@kind("completion: list of texts")
def list_of_texts(writer):
    return {"prompt": writer.some(writer.text, 1, 4), **special_tokens(writer)}


@kind("completion: token ids")
def token_ids(writer):
    return {"prompt": writer.tokens(), **special_tokens(writer)}


@kind("completion: lists of token ids")
def lists_of_token_ids(writer):
    return {"prompt": writer.some(writer.tokens, 1, 4)}


@kind("completion: truncated")
def truncated(writer):
    return {"prompt": writer.text(), "truncate_prompt_tokens": 5}


@kind("refused completion")
def refused(writer):
    return {"prompt": writer.pick([], None, 7, ["a", 1], [[]], [-1], {"a": 1})}


@IDS("generate: token ids")
def generate(writer):
    return {"token_ids": writer.tokens()}
