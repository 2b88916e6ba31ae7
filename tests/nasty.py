"""Texts that tokenizers get wrong: odd spaces, all scripts, signs of many parts, controls, and what spells a token."""

import random

BY_HAND = [
    "",
    " ",
    "   \t \n ",
    "a",
    " a",
    "a ",
    "  a  ",
    " Mia",
    "We'll see: it's 12345 o'clock, isn't it?  They'd said 3.14159 was enough.\n\n  Yes. ",
    "Ça coûte 20 €. Größe, naïve. Привет, мир! 你好，世界。 こんにちは 안녕하세요 नमस्ते दुनिया ١٢٣ שלום",
    "🙂👍🏽 family 👨‍👩‍👧‍👦 flag 🇧🇪 keycap 3️⃣",
    "def f(x):\n    if x:\n        return [x**2 for x in range(10)]\n\n\treturn None  # TODO\r\n",
    " " * 8 + "x" + "\t\t \n \n" + "\u00a0\u3000" + " " * 31,
    "".join(map(chr, range(1, 32))) + "\x7f\x85\u2028\ufeff",
    "a\0b \0",
    "e\u0301 a\u0308\u0323 \u202eabc\u202c \ufffd \U0010ffff",
    "'LL 'S ''s don'T I'VE 'ſ they'll",
    "aaaaaaaaaaa bbbbbb abababababa ============ --------- !!!!!!!",
    "ﬁnal oﬃce ﬄ ĳ Ǆ ﷺ ﷽",
    "Ｈｅｌｌｏ，　ｗｏｒｌｄ！ ﾊﾟﾋﾟ ｶﾞ ①②Ⅻ ½ ㎏ ™",
    "C\u0327a cou\u0302te a\u0300 l'e\u0301te\u0301, nai\u0308ve A\u030a",
    "a\u0308\u0323 e\u0302\u0301 o\u031b\u0301 q\u0323\u0307 \u0301x",
    "a\tb\t\tc\r\nd\n\ne\x0bf\x0cg",
    "a  b   c    d",
    "a\u00a0b\u2003c\u3000d\u202fe\u1680f\u2028g\u2029h\u205fi",
    "a\x85b \x85 c\x85",
    "a\u200bb\u200cc\u200dd\ufeffe \u00ad \u2060",
    "\u200b\x01",
    "カ\u3099 \u1112\u1161\u11ab क\u093c اَلسَّلَام",
    "a ¨b ¨ ¨",
    "▁a ▁b▁▁c ▁ d▁",
    "Ġa ĠĠb Ċc",
    "STRASSE straße İI ΣΑΣ ıi",
    "ｗ\u3000ｘ e\u0301  " * 40,
    "ab" * 300,
    "x" * 500,
    "<0x41> <0x0A><0xFF> <0x4> <0xZZ>",
    "<unk> [UNK] <s> </s> <pad> [MASK] <|endoftext|> <|im_start|>",
    "##ing play##ing # ##",
    "12 345 6789 1234567890 1,234.5 ²³ ١٢٣٤ ①",
    "don't won't I'm you're we've they'd she'll",
    "http://example.org/a?b=c&d=%20#e user@example.org C++ C# .NET",
    "\\n \\t {\"a\": [1, 2]} <a href='x'>y</a> /* */ // $x = `y`;",
    "…“quotes” ‘single’ — – - ‐ ‑ «» 「」",
    "\n\n\n", "\r\n\r\n a", " \n", "\n ", "a\n", "a \n\n  b", "a ? b ! c", "it 's", "n't , .",
]  # fmt: skip
"""Each was seen to give other ids somewhere, or is the shortest of its kind."""

PARTS = [
    " ", "  ", "\n", "\t", "\r\n", "\u3000", "\u00a0", "\x85", "▁", "\u200b", "\ufeff", "\x01",
    "a", "e", "the", " the", "THE", "ing", "'s", "'LL", "1", "234", "é", "e\u0301", "ß", "ﬁ", "Ａ", "İ", "ſ",
    "你", "好", "。", "م", "ש", "한", "\u1112\u1161", "🙂", "👍🏽", "\u200d", "\u0301",
    ".", ",", "!", "-", "_", "#", "##", "<", ">", "[", "]", "|", "x = ", "()", "<0x41>", "Ġ",
]  # fmt: skip


def texts(n: int = 500, special: tuple[str, ...] = (), seed: int = 0) -> list[str]:
    """Texts by hand, and random ones up to ``n``, with special tokens in every second of the random ones."""
    rng, found = random.Random(seed), BY_HAND[:n]
    if special:
        around = ["", " ", "  ", "a", "a ", "\n", "▁", "é", "A1"]
        found += [f"{rng.choice(around)}{token}{rng.choice(around)}" for token in special]
    while len(found) < n:
        parts = PARTS + list(special) * (len(found) % 2)
        found.append("".join(rng.choices(parts, k=rng.randint(1, 12))))
    return found
