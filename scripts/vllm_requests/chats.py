"""Bodies of /v1/chat/completions."""

from .kinds import Kinds

KINDS = kind = Kinds("/v1/chat/completions", max_tokens=1, return_token_ids=True)


@kind("chat: one message")
def one_message(writer):
    return {"messages": [writer.user()]}


@kind("chat: system")
def system(writer):
    return {"messages": [writer.system(), writer.user()]}


@kind("chat: many turns")
def many_turns(writer):
    return {"messages": writer.turns(8)}


@kind("chat: long")
def long(writer):
    return {"messages": [*writer.turns(), writer.assistant(), {"role": "user", "content": writer.text(2000)}]}


@kind("chat: content parts")
def content_parts(writer):
    return {"messages": [{**turn, "content": writer.parts()} for turn in writer.turns()]}


@kind("chat: tools")
def tools(writer):
    return {"messages": writer.turns(), "tools": writer.some(writer.tool), **writer.maybe({"tool_choice": "auto"}, 0.3)}


@kind("chat: tool_choice none")
def tool_choice_none(writer):
    return {"messages": writer.turns(), "tools": writer.some(writer.tool), "tool_choice": "none"}


@kind("chat: tool calls")
def tool_calls(writer):
    """Calls, what came of them, and perhaps more of it."""
    messages = [writer.user()]
    for _ in range(writer.dice.randint(1, 2)):
        calls = [writer.call(number) for number in range(writer.dice.randint(1, 3))]
        content = writer.maybe({"content": writer.pick("", None, writer.text(6))}, 0.8)
        thought = writer.maybe({"reasoning_content": writer.text(6)}, 0.2)
        messages.append({"role": "assistant", **content, "tool_calls": calls, **thought})
        for call in calls:
            result = writer.pick(writer.text(8), writer.parts(), writer.arguments())
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        messages += writer.pick([], [writer.assistant(), writer.user()], [writer.user()])
    return {"messages": messages, "tools": writer.some(writer.tool)}


@kind("chat: template kwargs")
def template_kwargs(writer):
    thinking = {"enable_thinking": writer.pick(True, False, False, None, "auto", 0, "false")}
    custom = {**writer.maybe({"custom": writer.value()}, 0.3), **writer.maybe({"thinking": False}, 0.2)}
    return {"messages": writer.turns(), "chat_template_kwargs": writer.pick({**thinking, **custom}, thinking, custom, None)}


@kind("chat: reasoning effort")
def reasoning_effort(writer):
    kwargs = writer.maybe({"chat_template_kwargs": {"enable_thinking": writer.pick(True, False)}}, 0.3)
    return {"messages": writer.turns(), "reasoning_effort": writer.pick("none", "low", "high"), **kwargs}


@kind("chat: no generation prompt")
def no_generation_prompt(writer):
    return {"messages": writer.turns(), "add_generation_prompt": False}


@kind("chat: open end")
def open_end(writer):
    content = writer.pick(writer.text(8), writer.text(8) + "  \n", writer.parts())
    messages = [*writer.turns(), {"role": "assistant", "content": content}]
    return {"messages": messages, "add_generation_prompt": False, "continue_final_message": True}


@kind("chat: documents")
def documents(writer):
    return {"messages": writer.turns(), "documents": writer.some(lambda: {"title": writer.text(3), "text": writer.text(10)})}


@kind("chat: odd unicode")
def odd_unicode(writer):
    return {"messages": [{**turn, "content": writer.pick(writer.odd_text(), writer.any_scalars())} for turn in writer.turns()]}


@kind("chat: special tokens in text")
def special_tokens_in_text(writer):
    return {"messages": [{**turn, "content": writer.special_text()} for turn in writer.turns()]}


@kind("chat: empty contents")
def empty_contents(writer):
    roles = [*writer.pick([], ["system"]), "user", "assistant", "user"]
    return {"messages": [{"role": role, "content": writer.pick("", " ", [], [{"type": "text", "text": ""}])} for role in roles]}


def reasoned(writer):
    """An answer with what was thought before it."""
    thought = {writer.pick("reasoning_content", "reasoning"): writer.pick(writer.text(8), f"\n{writer.text(8)}\n", "")}
    written = {"content": f"<think>\n{writer.text(6)}\n</think>\n\n{writer.text(6)}"}
    return {"role": "assistant", **writer.pick({**thought, "content": writer.text(6)}, written)}


@kind("chat: reasoning")
def reasoning(writer):
    return {"messages": [writer.user(), reasoned(writer), writer.user(), *writer.pick([], [reasoned(writer)])]}


@kind("chat: developer")
def developer(writer):
    content = writer.pick(writer.text(8), writer.parts())
    return {"messages": [*writer.pick([], [writer.system()]), {"role": "developer", "content": content}, *writer.turns()]}


@kind("chat: names")
def names(writer):
    return {"messages": [{**turn, "name": "n"} for turn in writer.turns()]}


@kind("chat: added special tokens")
def added_special_tokens(writer):
    return {"messages": writer.turns(), "add_special_tokens": writer.pick(True, False)}


@kind("chat: truncated")
def truncated(writer):
    return {"messages": writer.turns(), "truncate_prompt_tokens": 7}


@kind("refused chat")
def refused(writer):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    messages = writer.pick(
        [{"role": "user", "content": [{"type": "text", "text": "look"}, image]}],
        [{"role": "user", "content": [{"type": "unheard_of", "text": "x"}]}],
        [{"role": "user", "content": 7}],
        [{"content": "no role"}],
        "text",
    )
    fields = writer.pick(
        {"tools": []},
        {"tools": [{"type": "function"}]},
        {"chat_template": "{{ messages }}"},
        {"chat_template_kwargs": {"chat_template": "{{ messages }}"}},
        {"add_generation_prompt": True, "continue_final_message": True},
    )
    return writer.pick({"messages": messages}, {"messages": [writer.user()], **fields})
