"""Texts to train on and texts to encode: many scripts, code, and what somebody would send to do harm."""

import random

import pytest

FREQUENT = """the of and to a in is it that was for on are with as his they be at one have this from or had by hot but
some what there we can out other were all your when up use word how said an each she which do their time if will way
about many then them would write like so these her long make thing see him two has look more day could go come did
number sound no most people my over know water than call first who may down side been now find"""
WORDS = FREQUENT.split()

SAMPLES = {
    "empty": "",
    "english": "We'll see: it's 12345 o'clock, isn't it?  They'd said 3.14159 was enough.\n\n  Yes. ",
    "scripts": "Ça coûte 20 €. Größe, naïve. Привет, мир! 你好，世界。 こんにちは 안녕하세요 नमस्ते दुनिया ١٢٣ שלום",
    "emoji": "🙂👍🏽 family 👨‍👩‍👧‍👦 flag 🇧🇪 keycap 3️⃣",
    "code": "def f(x):\n    if x:\n        return [x**2 for x in range(10)]\n\n\treturn None  # TODO\r\n",
    "spaces": " " * 8 + "x" + "\t\t \n \n" + "\u00a0\u3000" + " " * 31,
    "control": "".join(map(chr, range(32))) + "\x7f\x85\u2028\ufeff",
    "combining": "e\u0301 a\u0308\u0323 \u202eabc\u202c \ufffd \U0010ffff",
    "quotes": "'LL 'S ''s don'T I'VE 'ſ they'll",
    "runs": "aaaaaaaaaaa bbbbbb abababababa ============ --------- !!!!!!!",
}


def generated(n_words: int, seed: int) -> str:
    """Words of Zipf-like frequency, with signs and numbers in between."""
    rng = random.Random(seed)
    weights = [1 / (i + 1) for i in range(len(WORDS))]
    words = rng.choices(WORDS, weights, k=n_words)
    for i in range(0, n_words, 7):
        words[i] = rng.choice([words[i] + ",", words[i].capitalize(), str(rng.randrange(10**4)), words[i] + "ing"])
    return " ".join(words)


@pytest.fixture(scope="session")
def corpus():
    """Texts to train on: 200 paragraphs and the samples."""
    return [generated(100, seed) for seed in range(200)] + list(SAMPLES.values())


@pytest.fixture(scope="session")
def samples():
    return SAMPLES | {"generated": generated(500, seed=1000), "long word": "ab" * 3000, "no space": "x" * 5000}
