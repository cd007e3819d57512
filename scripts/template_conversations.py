"""Forty conversations that templates are compared on: everything a chat request may put into a template.

Each is a dict with `name`, `messages` and optionally `tools`, `documents`, `add_generation_prompt` (default true)
and `variables`.
"""

import random

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather at a place",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City, e.g. <Brno> & \"Žďár\" 'n' 東京"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "integer", "minimum": 0, "maximum": 14},
            },
            "required": ["city"],
        },
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search_books",
        "description": "Search the catalogue.\nReturns at most `limit` titles.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": ["string", "null"], "description": "Free text"},
                "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags"},
                "filters": {
                    "type": "object",
                    "properties": {
                        "year": {"type": "object", "properties": {"from": {"type": "integer"}, "to": {"type": "integer"}}},
                        "shelf": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    },
                    "additionalProperties": False,
                },
                "score": {"type": "number", "exclusiveMinimum": 0.5},
            },
            "required": ["query", "tags"],
        },
        "strict": True,
    },
}
NO_PARAMETERS = {"type": "function", "function": {"name": "ping", "description": "Says pong", "parameters": {"type": "object", "properties": {}}}}
NULL_FIELDS = {"type": "function", "function": {"name": "noop", "description": None, "parameters": None}}


def user(content, **extra):
    return {"role": "user", "content": content, **extra}


def system(content):
    return {"role": "system", "content": content}


def assistant(content, **extra):
    return {"role": "assistant", "content": content, **extra}


def call(name, arguments, identifier="call_0"):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, identifier="call_0", **extra):
    return {"role": "tool", "content": content, "tool_call_id": identifier, **extra}


def text(value):
    return {"type": "text", "text": value}


ODD_VALUES = {
    "int": 1, "negative": -7, "big": 12345678901234567890, "float": 1.0, "small": 1e-7, "large": 1e20, "half": 0.5,
    "true": True, "false": False, "null": None, "empty": "", "list": [1, "two", None, 3.5, []], "nested": {"a": {"b": []}},
    "quotes": "it's \"quoted\"", "lines": "a\nb\tc\\d", "unicode": "Ümläut 漢字 🙂 \u2028 \x7f", "html": "<a href='x'>&amp;</a>",
}

CONVERSATIONS = [
    {"name": "user", "messages": [user("Hello, who are you?")]},
    {"name": "system and user", "messages": [system("You are brief."), user("Hello!")]},
    {"name": "several turns", "messages": [
        system("You are a librarian."), user("Do you have atlases?"), assistant("Yes, 12 of them."), user("Large ones?"),
        assistant("Three are large."), user("Thanks, reserve one.")]},
    {"name": "no generation prompt", "add_generation_prompt": False, "messages": [user("Hi"), assistant("Hello!")]},
    {"name": "generation prompt after an answer", "messages": [user("Hi"), assistant("Hello!")]},
    {"name": "tools", "tools": [WEATHER], "messages": [user("Weather in Brno?")]},
    {"name": "tools and system", "tools": [WEATHER, SEARCH], "messages": [system("Use tools."), user("Weather and books?")]},
    {"name": "tool without parameters", "tools": [NO_PARAMETERS], "messages": [user("ping")]},
    {"name": "tool with null fields", "tools": [NULL_FIELDS, WEATHER], "messages": [user("noop")]},
    {"name": "tool call", "tools": [WEATHER], "messages": [
        user("Weather in Brno?"), assistant("", tool_calls=[call("get_weather", {"city": "Brno", "days": 2})]),
        tool("{\"temperature\": 21.5}")]},
    {"name": "tool call and answer", "tools": [WEATHER], "messages": [
        system("Use tools."), user("Weather in Brno?"),
        assistant("Let me look.", tool_calls=[call("get_weather", {"city": "Brno", "unit": "celsius"})]),
        tool("sunny"), assistant("It is sunny."), user("And tomorrow?")]},
    {"name": "tool call with text arguments", "tools": [WEATHER], "messages": [
        user("Weather?"), assistant("", tool_calls=[call("get_weather", "{\"city\": \"Brno\"}")]), tool("cold")]},
    {"name": "tool call without content", "tools": [WEATHER], "messages": [
        user("Weather?"), assistant(None, tool_calls=[call("get_weather", {"city": "Brno"})]), tool("warm")]},
    {"name": "parallel tool calls", "tools": [WEATHER, SEARCH], "messages": [
        user("Both, please"),
        assistant("", tool_calls=[call("get_weather", {"city": "Brno"}, "call_a"),
                                  call("search_books", {"query": None, "tags": ["a", "b"]}, "call_b")]),
        tool("21", "call_a", name="get_weather"), tool("[\"Atlas\"]", "call_b", name="search_books"), user("Sum up")]},
    {"name": "odd argument values", "tools": [SEARCH], "messages": [
        user("odd"), assistant("", tool_calls=[call("search_books", ODD_VALUES)]), tool("ok")]},
    {"name": "nine letter call ids", "tools": [WEATHER], "messages": [
        user("Weather?"), assistant("", tool_calls=[call("get_weather", {"city": "Brno"}, "abcdef123")]),
        tool("mild", "abcdef123", name="get_weather")]},
    {"name": "tool call without tools", "messages": [
        user("Weather?"), assistant("", tool_calls=[call("get_weather", {"city": "Brno"})]), tool("mild"), user("ok")]},
    {"name": "content parts", "messages": [user([text("First part."), text("Second part.")])]},
    {"name": "content parts everywhere", "messages": [
        system([text("You are brief.")]), user([text("Hi")]), assistant([text("Hello"), text("!")]), user([text("Bye")])]},
    {"name": "image", "messages": [user([{"type": "image"}, text("What is this?")])]},
    {"name": "two images and text", "messages": [
        user([text("Compare"), {"type": "image"}, text("with"), {"type": "image"}]), assistant("They differ."), user("How?")]},
    {"name": "reasoning", "messages": [
        user("1+1?"), assistant("2", reasoning_content="One and one is two."), user("2+2?")]},
    {"name": "reasoning under two names", "messages": [
        user("1+1?"), assistant("2", reasoning="Easy.", reasoning_content="Easy."), user("2+2?"),
        assistant("4", reasoning="Still easy.", reasoning_content="Still easy.")], "add_generation_prompt": False},
    {"name": "reasoning with tool call", "tools": [WEATHER], "messages": [
        user("Weather?"),
        assistant("", reasoning_content="I need the tool.\n", tool_calls=[call("get_weather", {"city": "Brno"})]), tool("mild")]},
    {"name": "think tags in content", "messages": [
        user("1+1?"), assistant("<think>\nAdd them.\n</think>\n\n2"), user("2+2?"), assistant("<think></think>4"), user("3+3?")]},
    {"name": "thinking off", "variables": {"enable_thinking": False, "thinking": False}, "messages": [system("Be brief."), user("Hi")]},
    {"name": "thinking on", "variables": {"enable_thinking": True, "thinking": True}, "messages": [user("Hi"), assistant("Yes?"), user("Go on")]},
    {"name": "reasoning effort", "variables": {"reasoning_effort": "high", "enable_thinking": True}, "messages": [system("Be exact."), user("Prove it.")]},
    {"name": "developer role", "messages": [{"role": "developer", "content": "Be formal."}, user("Hi")]},
    {"name": "system later", "messages": [user("Hi"), assistant("Hello"), system("From now on rhyme."), user("Go")]},
    {"name": "two users in a row", "messages": [user("One"), user("Two"), assistant("Both"), user("Three")]},
    {"name": "starts with the assistant", "messages": [assistant("How can I help?"), user("Hi")]},
    {"name": "empty strings", "messages": [system(""), user(""), assistant(""), user("")]},
    {"name": "white space", "messages": [
        system("  padded\n\n"), user("\n\tleading and trailing \u00a0\u2003\x1c\n"), assistant("  kept?  "), user("   ")]},
    {"name": "special text", "messages": [
        user("<|im_start|>system\nignore{{ 7*7 }}{% raw %}</s>[INST] <think>&lt;\u200b\ufeff"), assistant("\"quoted\" 'single' \\n"),
        user("Ďábelské ódy 漢字かな交じり文 🙂👨‍👩‍👧 ﷽ e\u0301")]},
    {"name": "json in tool content", "tools": [SEARCH], "messages": [
        user("Find"), assistant("", tool_calls=[call("search_books", {"query": "x", "tags": []})]),
        tool("{\"hits\": [{\"title\": \"Größe\", \"year\": 1999.0}], \"next\": null}"), assistant("Found one."), user("More")]},
    {"name": "tool content in parts", "tools": [WEATHER], "messages": [
        user("Weather?"), assistant("", tool_calls=[call("get_weather", {"city": "Brno"})]), tool([text("21 degrees"), text("sunny")])]},
    {"name": "documents", "documents": [{"title": "Rules", "text": "No shouting."}, {"title": "Hours", "text": "9 to 17", "id": "2"}],
     "messages": [user("When are you open?")]},
    {"name": "date given", "variables": {"date_string": "26 Jul 2026", "current_date": "2026-07-26"}, "messages": [system("Dates matter."), user("What day is it?")]},
    {"name": "long conversation", "messages": [system("Count.")] + [
        message for i in range(12) for message in (user(f"Number {i}?"), assistant(f"{i} comes after {i - 1}."))] + [user("And then?")]},
]
assert len(CONVERSATIONS) == 40, len(CONVERSATIONS)
assert len({case["name"] for case in CONVERSATIONS}) == 40


WORDS = [
    "a", "Brno", "tools", "", " ", "\n", "  x  ", "it's", "\"q\"", "<b>&</b>", "漢字", "🙂", "</think>", "<think>\n", "<|im_end|>", "\t", "\u00a0",
    "1", "-3.5", "null", "None", "{\"a\": 1}", "[1, 2]", "\\n", "\r\n", "\u2028", "\x1c", "{{x}}", "{%", "#", "'", "string", "object", "array",
]
NAMES = ["name", "type", "items", "keys", "values", "get", "properties", "description", "enum", "required", "default", "title", "a", "city", "x-y", "é"]
TYPES = ["string", "integer", "number", "boolean", "array", "object", "null", ["string", "null"], ["integer", "string"], "date", None, 5]


def random_conversations(count, seed):
    """Made-up conversations: any order of roles, odd schemas, values of every type."""
    dice = random.Random(seed)

    def sentence():
        return "".join(dice.choice(WORDS) for _ in range(dice.choice([0, 1, 1, 2, 3, 5])))

    def value(depth=0):
        kinds = ["text", "text", "int", "float", "bool", "none"] + (["list", "dict"] if depth < 3 else [])
        match dice.choice(kinds):
            case "text":
                return sentence()
            case "int":
                return dice.choice([0, 1, -1, 42, 2**63, -(2**70), 10**30])
            case "float":
                return dice.choice([0.0, -0.0, 1.0, 0.1, 1e16, 1e15, 1e-5, 0.0001, 123456.789, 1e300, -2.5])
            case "bool":
                return dice.random() < 0.5
            case "none":
                return None
            case "list":
                return [value(depth + 1) for _ in range(dice.randrange(4))]
            case "dict":
                return {dice.choice(NAMES): value(depth + 1) for _ in range(dice.randrange(4))}

    def schema(depth=0):
        made = {}
        for key in dice.sample(["type", "description", "enum", "default", "items", "properties", "required", "anyOf", "nullable", "additionalProperties", "title"], dice.randrange(1, 6)):
            made[key] = {
                "type": lambda: dice.choice(TYPES), "description": sentence, "enum": lambda: [value(2) for _ in range(dice.randrange(3))],
                "default": lambda: value(1), "items": lambda: schema(depth + 1) if depth < 3 else {}, "nullable": lambda: dice.random() < 0.5,
                "properties": lambda: {dice.choice(NAMES): schema(depth + 1) for _ in range(dice.randrange(3))} if depth < 3 else {},
                "required": lambda: [dice.choice(NAMES) for _ in range(dice.randrange(3))], "title": sentence,
                "anyOf": lambda: [{"type": dice.choice(TYPES[:6])} for _ in range(2)], "additionalProperties": lambda: dice.choice([True, False, {"type": "string"}]),
            }[key]()
        return made

    def tool_definition():
        function = {"name": dice.choice(["f", "get_weather", "é"]), "description": sentence()}
        if dice.random() < 0.9:
            function["parameters"] = {"type": "object", **({"properties": {dice.choice(NAMES): schema(1) for _ in range(dice.randrange(4))}} if dice.random() < 0.9 else {}),
                                      **({"required": [dice.choice(NAMES)]} if dice.random() < 0.5 else {})}
        if dice.random() < 0.2:
            function[dice.choice(["strict", "return", "response", "x"])] = value(1)
        return {"type": "function", "function": function}

    def content():
        roll = dice.random()
        if roll < 0.1:
            return [text(sentence()) if dice.random() < 0.8 else {"type": "image"} for _ in range(dice.randrange(4))]
        if roll < 0.15:
            return None
        return sentence()

    def message():
        role = dice.choice(["system", "user", "user", "user", "assistant", "assistant", "tool", "developer"])
        made = {"role": role, "content": content()}
        if role == "assistant" and dice.random() < 0.5:
            made["tool_calls"] = [
                call(dice.choice(["f", "g"]), {dice.choice(NAMES): value() for _ in range(dice.randrange(4))} if dice.random() < 0.9 else sentence(),
                     dice.choice(["call_0", "abcdef123", "functions.f:0"])) for _ in range(dice.randrange(3))]
        if role == "assistant" and dice.random() < 0.3:
            made[dice.choice(["reasoning_content", "reasoning", "thinking"])] = sentence()
        if role == "tool":
            made["tool_call_id"] = dice.choice(["call_0", "abcdef123", "functions.f:0"])
            if dice.random() < 0.3:
                made["name"] = "f"
        return made

    def conversation():
        if dice.random() < 0.6:
            made, roles = [], ["user", "assistant"]
            if dice.random() < 0.5:
                made.append(system(sentence()))
            for turn in range(dice.randrange(1, 6)):
                one = message()
                one["role"] = roles[turn % 2]
                if one["role"] == "user":
                    one = {"role": "user", "content": one["content"]}
                made.append(one)
            return made
        return [message() for _ in range(dice.randrange(1, 7))]

    made = []
    for index in range(count):
        case = {"name": f"random {index}", "messages": conversation(), "add_generation_prompt": dice.random() < 0.7, "variables": {}}
        if dice.random() < 0.5:
            case["tools"] = [tool_definition() for _ in range(dice.randrange(3))]
        if dice.random() < 0.2:
            case["documents"] = [{"title": sentence(), "text": sentence()} for _ in range(dice.randrange(3))]
        for name in ["enable_thinking", "thinking", "reasoning_effort", "preserve_thinking", "clear_thinking", "tools_in_user_message"]:
            if dice.random() < 0.2:
                case["variables"][name] = dice.choice([True, False, "low", "high", None])
        made.append(case)
    return made


# Jinja expressions over one value `x`, to compare the filters, tests and methods themselves.
EXPRESSIONS = [
    "x", "x ~ x", "x | string", "x | trim", "x | trim('ab ')", "x | upper", "x | lower", "x | title", "x | capitalize", "x | length", "x | count",
    "x | list", "x | first", "x | last", "x | join", "x | join(', ')", "x | join('-', attribute='a')", "x | default('d')", "x | default('d', true)",
    "x | default('d', boolean=true)", "y | default('d')", "y | default(default_value='e')", "x | d('z')", "x | int", "x | int(7)", "x | float", "x | abs", "x | round",
    "x | replace('a', 'b')", "x | replace('', '-')", "x | replace('a', 'b', 1)", "x | indent", "x | indent(2)", "x | indent(2, true)", "x | indent(width=3, first=true)",
    "x | indent(2, blank=true)", "x | indent('> ')", "x | reverse | list", "x | sort", "x | unique | list", "x | items | list", "x | dictsort", "x | map('string') | list",
    "x | map('upper') | join(',')", "x | map(attribute='a') | list", "x | select | list", "x | reject | list", "x | select('string') | list", "x | selectattr('a') | list",
    "x | selectattr('a', 'equalto', 1) | list", "x | rejectattr('a', 'defined') | list", "x | select('in', ['a', 1]) | list", "x | batch(2) | list", "x | min", "x | max", "x | sum",
    "x | tojson", "x | tojson(indent=2)", "x | tojson(ensure_ascii=true)", "x | tojson(separators=(',', ':'))", "x | tojson(sort_keys=true)", "x | tojson(indent=4, ensure_ascii=false)",
    "x is defined", "x is undefined", "x is none", "x is string", "x is number", "x is integer", "x is float", "x is boolean", "x is true", "x is false", "x is mapping",
    "x is sequence", "x is iterable", "x is callable", "x is lower", "x is upper", "x is in ['a', 1, none]", "x is sameas none", "x is eq 1", "x is odd", "y is defined",
    "y is none", "y is iterable", "y is sequence", "y | length", "y | list", "y ~ 'a'", "x == 1", "x == '1'", "x == none", "x == []", "x == {}", "x != x", "not x", "x and 'y'", "x or 'y'",
    "'yes' if x else 'no'", "x[0]", "x[-1]", "x['a']", "x.a", "x[:2]", "x[1:]", "x[-2:]", "x[::-1]", "x[1:3]", "x[::2]", "x * 2", "x + x", "x + 1", "x - 1", "x / 2", "x // 2", "x % 3", "x ** 2", "-x",
    "'a' in x", "1 in x", "x in 'abc'", "x in ['a', 1]", "x < 2", "x >= 1", "1 < x < 5", "[x, x]", "{'k': x}", "[1.0, none, true, 'it''s', x]", "x.strip()", "x.strip('ab\\n')",
    "x.lstrip()", "x.rstrip()", "x.lstrip('\\n')", "x.rstrip(' ')", "x.split()", "x.split('a')", "x.split(' ', 1)", "x.split('a')[-1]", "x.split(sep='a', maxsplit=1)", "x.split(none, 1)", "x.rsplit('a', 1)", "x.rsplit()",
    "x.rsplit(none, 1)", "x.splitlines()", "x.splitlines(true)", "x.partition('a')", "x.rpartition('a')", "x.startswith('a')", "x.startswith(('a', 'b'))", "x.endswith('a')", "x.endswith('')",
    "x.removeprefix('a')", "x.removesuffix('a')", "x.replace('a', 'xx')", "x.replace('a', '', 1)", "x.replace('', '-')", "x.find('b')", "x.rfind('a')", "x.index('a')", "x.count('a')", "x.count('')", "'-'.join(x)",
    "x.upper()", "x.lower()", "x.title()", "x.capitalize()", "x.swapcase()", "x.isspace()", "x.isalpha()", "x.isalnum()", "x.isdigit()", "x.isnumeric()", "x.isupper()", "x.islower()", "x.isascii()",
    "x.zfill(5)", "x.ljust(6, '.')", "x.rjust(6)", "x.center(7, '*')", "'<{}>'.format(x)", "'{0}-{0}'.format(x)", "'{a!r}{{}}'.format(a=x)", "x.items()", "x.keys()", "x.values()", "x.items() | list", "x.get('a')", "x.get('zz', 'd')",
    "x.keys() | list", "x.values() | list", "x.copy()", "x.append(1)", "x.pop()", "x.nothing", "x.nothing.more", "x.nothing()", "range(3) | list", "range(x) | list", "namespace(a=x).a", "dict(a=x)", "x | wordcount",
    "x | first | default('none')", "loop | default('no loop')", "x | string | length", "(x | tojson)[:3]", "x | join('|') | upper", "x is mapping and x.a is defined", "x | sort(reverse=true)", "x | sort(attribute='a')", "x | dictsort(by='value')", "x | round(2)", "x | round(1, 'ceil')", "x | round(0, 'floor')", "x | first", "x | map(attribute='a') | map('string') | join(',')", "x[::-2]", "x[2::-1]", "x[:1:-1]", "x[-1:0:-1]", "x[5::-1]", "(x ~ '')[::-1]", "x[::-1][::-1]", "x is divisibleby(0)", "raise_exception(x)", "strftime_now('%d %b %Y, %H:%M %j %A')",
]
VALUES = [
    None, True, False, 0, 1, -7, 2**70, 1.0, 0.5, -2.5, 1e-7, 1e20, "", " ", "a", "banana", "  padded\n", "\n\na b  c\n", "Ünï ß ǆ Straße", "line\r\nline\x0btab\tend\u2028x", "it's \"q\" \\ \x07 \u00e9\u200b🙂",
    "12", " 42 ", "1.5", "-3", "abc def-ghi (jkl)", "<b>&amp;</b>", [], [1, 2, 3], ["a", "b", "a"], [None, True, 1.0, "x"], [[1], [2]], [{"a": 1, "b": 2}, {"a": 2}, {"b": 3}], {}, {"a": 1}, {"a": None, "b": [1, {"c": "d"}], "é": 1.5},
    {"b": 1, "A": 2, "a": 3}, {"items": 1, "keys": 2, "get": 3},
]
