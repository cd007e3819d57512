"""Bodies of /v1/messages."""

from .kinds import Kinds

KINDS = kind = Kinds("/v1/messages", max_tokens=1)


def block(writer):
    cached = writer.maybe({"cache_control": {"type": "ephemeral"}}, 0.2)
    return {"type": "text", "text": writer.pick(writer.text(8), writer.text(8), ""), **cached}


def message(writer, role):
    return {"role": role, "content": writer.pick(writer.text(12), writer.some(lambda: block(writer)))}


def conversation(writer):
    pairs = writer.dice.randint(1, 3)
    return [message(writer, role) for role in [*["user", "assistant"] * pairs, "user"]]


def tool(writer):
    schema = writer.schema()
    if writer.dice.random() < 0.2:
        del schema["type"]
    described = writer.maybe({"description": writer.text(8)}, 0.8)
    return {
        "name": writer.name(),
        **described,
        "input_schema": schema,
        **writer.maybe({"cache_control": {"type": "ephemeral"}}, 0.2),
    }


@kind("message: text")
def text(writer):
    return {"messages": [{"role": "user", "content": writer.text()}]}


@kind("message: turns")
def turns(writer):
    return {"messages": conversation(writer)}


@kind("message: system")
def system(writer):
    blocks = writer.some(lambda: block(writer))
    billed = [{"type": "text", "text": "x-anthropic-billing-header: cch=12345;"}, *blocks]
    return {"system": writer.pick(writer.text(12), blocks, billed, ""), "messages": conversation(writer)}


@kind("message: system within")
def system_within(writer):
    messages = conversation(writer)
    messages.insert(writer.dice.randrange(1, len(messages)), message(writer, "system"))
    return {"messages": messages}


@kind("message: tools")
def tools(writer):
    choice = writer.maybe({"tool_choice": {"type": writer.pick("auto", "none")}})
    return {"messages": conversation(writer), "tools": writer.some(lambda: tool(writer)), **choice}


@kind("message: tool calls")
def tool_calls(writer):
    """Thinking, uses of tools, and their results."""
    messages = [message(writer, "user")]
    for turn in range(writer.dice.randint(1, 2)):
        uses = [f"toolu_{turn}_{number}" for number in range(writer.dice.randint(1, 2))]
        thinking = {"type": "thinking", "thinking": writer.text(6), "signature": "c2ln"}
        thought = writer.pick([], [thinking], [{"type": "redacted_thinking", "data": "b3BhcXVl"}])
        calls = [{"type": "tool_use", "id": use, "name": writer.name(), "input": writer.dictionary()} for use in uses]
        results = [{"type": "tool_result", "tool_use_id": use, **result(writer)} for use in uses]
        messages.append({"role": "assistant", "content": [*thought, *writer.pick([], [block(writer)]), *calls]})
        messages.append({"role": "user", "content": [*results, *writer.pick([], [block(writer)])]})
    return {"messages": messages, "tools": writer.some(lambda: tool(writer))}


@kind("message: tools changed on the way")
def tools_changed(writer):
    change = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool(writer)}}
    messages = [
        *conversation(writer),
        message(writer, "assistant"),
        {"role": "system", "content": [change]},
        message(writer, "user"),
    ]
    return {"messages": messages, "tools": writer.some(lambda: tool(writer))}


def result(writer):
    blocks = writer.some(lambda: block(writer))
    return writer.pick({"content": writer.text(8)}, {"content": blocks}, {}, {"content": writer.text(4), "is_error": True})


@kind("message: thinking")
def thinking(writer):
    fields = writer.pick(
        {"thinking": {"type": "disabled"}},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000},
        {"thinking": {"type": "adaptive"}},
        {"output_config": {"effort": writer.pick("low", "high", "max")}},
        {"chat_template_kwargs": {"enable_thinking": False}},
    )
    return {"messages": conversation(writer), **fields}
