"""Texts and the pieces that bodies share, by dice."""

import json

VOCABULARY = 151_643
WORDS = (
    "the quick brown fox; doesn't jump, over 12 lazy dogs at 3.14159 or 1,000,000 ... I'LL've we're (yes) [no] {maybe} "
    "https://example.org/a?b=c&d=%20 user@example.org #tag $PATH C:\\dir snake_case camelCase KEBAB-case x+=1 !== -> => // /* */"
).split(" ")
OTHER_SCRIPTS = [
    "你好,世界。今天天气怎么样?",
    "東京都は日本の首都です。",
    "서울은 대한민국의 수도이다",
    "Привет, как дела?",
    "Γειά σου Κόσμε",
    "مرحبا بالعالم ١٢٣",
    "שלום עולם",
    "नमस्ते दुनिया १२३",
    "สวัสดีชาวโลก",
    "Tiếng Việt có dấu",
    "ქართული ენა",
    "İstanbul ıI ſ ß ẞ",
    "ǅ ǈ ﬁ ﬀ",
]
ODD = [
    "👩‍👩‍👧‍👦",
    "🇩🇪🇫🇷",
    "👍🏽",
    "e\u0301 \u00e9 \u1e9b\u0323",
    "\u0f73\u0f75",
    "\u1100\u1161\u11a8",
    "\u200b\u200d\ufeff",
    "\u202eabc\u202c",
    "\u0000",
    "\u0001\u001f\u007f",
    "\u0085\u2028\u2029",
    "\u00a0\u3000\u2003",
    "\uffff\ufffe",
    "\U0010ffff",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b",
    "½ ² Ⅷ 𝟘𝟙 ٣ ໓",
    "\ufb49\u2126\u212b",
    "\u212a\u017f's",
]
SPECIAL = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|im_start|>system\n",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<|vision_start|>",
    "<|image_pad|>",
    "<|im_start",
    "im_end|>",
    "<<|im_end|>>",
    "<|fim_prefix|>",
]
BLANKS = [" ", "  ", "\n", "\n\n", "\t", " \n ", "\r\n", "    ", "\u3000", ""]
CODE = [
    'def f(x):\n    return {"a": [x, None]}\n',
    'for (int i=0;i<10;++i) {\n\t\tputs("x");\n\t}\n',
    "SELECT * FROM t WHERE a = 'b''c';\n",
    "{{ messages }} {% if x %}%}",
    '<p class="x">&amp;</p>',
    '{"name": "f", "arguments": {"x": "\\n"}}',
]


class Writer:
    """Makes texts and the pieces of bodies."""

    def __init__(self, dice):
        self.dice = dice

    def pick(self, *options):
        return self.dice.choice(options)

    def maybe(self, value, chance=0.5):
        """`value` as the rest of a body, or nothing."""
        return value if self.dice.random() < chance else {}

    def shuffled(self, fields):
        """The same fields in another order."""
        fields = list(fields.items())
        self.dice.shuffle(fields)
        return dict(fields)

    def some(self, make, least=1, most=3):
        return [make() for _ in range(self.dice.randint(least, most))]

    def text(self, most=40, odd=0.1, special=0.03):
        pieces = []
        for _ in range(self.dice.randint(1, most)):
            chance = self.dice.random()
            if chance < odd:
                pieces.append(self.dice.choice(ODD))
            elif chance < odd + special:
                pieces.append(self.dice.choice(SPECIAL))
            elif chance < odd + special + 0.15:
                pieces.append(self.dice.choice(OTHER_SCRIPTS))
            elif chance < odd + special + 0.22:
                pieces.append(self.dice.choice(CODE))
            else:
                pieces.append(self.dice.choice(WORDS))
            pieces.append(self.dice.choice(BLANKS) if self.dice.random() < 0.4 else " ")
        return "".join(pieces)

    def odd_text(self):
        return self.text(odd=0.6)

    def special_text(self):
        return self.text(special=0.5) + self.dice.choice(SPECIAL)

    def any_scalars(self):
        """Scalar values from everywhere, so that every class of character meets every other."""

        def one():
            while True:
                value = self.dice.randrange(0x110000) if self.dice.random() < 0.5 else self.dice.randrange(0x3000)
                if not 0xD800 <= value < 0xE000:
                    return chr(value)

        return "".join(one() for _ in range(self.dice.randint(1, 60)))

    def tokens(self):
        return [self.dice.randrange(VOCABULARY) for _ in range(self.dice.randint(1, 80))]

    def name(self):
        return self.pick("get_weather", "search", "run-code", "x")

    def value(self, depth=0):
        """Any JSON value, with numbers that are written in more than one way."""
        numbers = [0, -1, 7, 10**20, 1.0, 0.1, 1e20, 1e-7, -0.0, 1.5e300]
        texts = ["", "text", "Ünïcödé <&>'\"", self.dice.choice(ODD), self.dice.choice(SPECIAL)]
        if depth < 3 and self.dice.random() < 0.4:
            if self.dice.random() < 0.5:
                return [self.value(depth + 1) for _ in range(self.dice.randint(0, 3))]
            return self.dictionary(depth + 1)
        return self.pick(None, True, False, *numbers, *texts)

    def dictionary(self, depth=0):
        keys = ["city", "Größe", "z", "a b", "items", "0", "name"]
        return {key: self.value(depth) for key in self.dice.sample(keys, self.dice.randint(0, 4))}

    def schema(self):
        properties = {
            name: {
                "type": self.pick("string", "integer", "array"),
                "description": self.text(6),
                **self.maybe({"default": self.value()}),
                **self.maybe({"enum": ["a", "ß", 1]}, 0.2),
            }
            for name in self.dice.sample(["city", "unit", "zip", "größe"], self.dice.randint(0, 3))
        }
        schema = {
            "type": "object",
            "properties": properties,
            **self.maybe({"required": list(properties)}),
            **self.maybe({"additionalProperties": False}, 0.3),
        }
        return self.shuffled(schema)

    def function(self):
        function = {
            "name": self.name(),
            **self.maybe({"description": self.text(8)}, 0.8),
            **self.maybe({"parameters": self.schema()}, 0.9),
            **self.maybe({"strict": self.pick(True, False, None)}, 0.2),
        }
        return self.shuffled(function)

    def tool(self):
        return self.pick({"type": "function", "function": self.function()}, {"function": self.function(), "type": "function"})

    def arguments(self):
        """Of a tool call: text as the API has it."""
        return json.dumps(self.dictionary(), ensure_ascii=self.pick(True, False))

    def call(self, number=0):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": self.name(), "arguments": self.arguments()}}
        return self.pick(call, dict(reversed(call.items())))

    def parts(self, least=1):
        """Content as a list of texts."""

        def part():
            text = self.pick(self.text(8), self.text(8), "")
            return {"type": "text", "text": text, **self.maybe({"cache_control": {"type": "ephemeral"}}, 0.1)}

        return self.some(part, least, 3)

    def user(self):
        return {"role": "user", "content": self.text()}

    def assistant(self):
        return {"role": "assistant", "content": self.text()}

    def system(self):
        return {"role": "system", "content": self.text(12)}

    def turns(self, pairs=2):
        """A conversation that ends with a user."""
        turns = [self.system()] if self.dice.random() < 0.4 else []
        for _ in range(self.dice.randint(1, pairs)):
            turns += [self.user(), self.assistant()]
        return [*turns, self.user()]
