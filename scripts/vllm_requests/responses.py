"""Bodies of /v1/responses."""

from .kinds import Kinds

KINDS = kind = Kinds("/v1/responses", max_output_tokens=1, temperature=0, store=False)


def item(writer, role):
    """A message, in one of the ways that there are to write it."""
    if role == "assistant":
        content = [{"type": "output_text", "text": writer.text(8), "annotations": []}]
        full = {"id": "msg_1", "type": "message", "status": "completed", "role": role, "content": content}
        return writer.pick({"role": role, "content": writer.text(8)}, full)
    parts = writer.some(lambda: {"type": "input_text", "text": writer.text(6)})
    return {**writer.maybe({"type": "message"}), "role": role, "content": writer.pick(writer.text(8), parts)}


def tool(writer):
    return {"type": "function", "parameters": writer.schema(), **writer.function()}


@kind("response: text")
def text(writer):
    return {"input": writer.text()}


@kind("response: instructions")
def instructions(writer):
    return {"input": writer.text(), "instructions": writer.pick(writer.text(), "")}


@kind("response: items")
def items(writer):
    roles = writer.some(lambda: writer.pick("user", "user", "assistant", "assistant", "system", "developer"), 1, 5)
    return {"input": [item(writer, role) for role in [*roles, "user"]], **writer.maybe({"instructions": writer.text(6)}, 0.3)}


@kind("response: tools")
def tools(writer):
    choice = writer.maybe({"tool_choice": writer.pick("auto", "none")})
    return {"input": writer.text(), "tools": writer.some(lambda: tool(writer)), **choice}


@kind("response: tool calls")
def tool_calls(writer):
    """Reasoning, calls and their outputs, in the order in which the model gives them."""
    given = [item(writer, "user")]
    for turn in range(writer.dice.randint(1, 2)):
        summary = writer.pick([], [{"type": "summary_text", "text": writer.text(3)}])
        thought = writer.pick({"content": [{"type": "reasoning_text", "text": writer.text(6)}]}, {"content": None}, {})
        given += writer.pick([], [{"type": "reasoning", "id": f"rs_{turn}", "summary": summary, **thought}])
        given += writer.pick([], [item(writer, "assistant")])
        calls = [f"call_{turn}_{number}" for number in range(writer.dice.randint(1, 2))]
        for call in calls:
            status = writer.maybe({"id": f"fc_{call}", "status": "completed"})
            function = {"name": writer.name(), "arguments": writer.arguments()}
            given.append({"type": "function_call", "call_id": call, **function, **status})
        given += [{"type": "function_call_output", "call_id": call, "output": writer.text(8)} for call in calls]
    return {"input": [*given, *writer.pick([], [item(writer, "user")])], "tools": writer.some(lambda: tool(writer))}


@kind("response: open end")
def open_end(writer):
    content = [{"type": "output_text", "text": writer.text(8), "annotations": []}]
    last = {
        "id": "msg_9",
        "type": "message",
        "status": writer.pick("incomplete", "in_progress"),
        "role": "assistant",
        "content": content,
    }
    return {"input": [item(writer, "user"), last]}


@kind("response: reasoning effort")
def reasoning_effort(writer):
    return {"input": writer.text(), "reasoning": {"effort": writer.pick("none", "low", "high")}}


@kind("refused response")
def refused(writer):
    stored = {"input": "x", "previous_response_id": "resp_unknown"}
    return writer.pick(stored, {"input": 7}, {"input": [{"role": "user", "content": 7}]}, {})
