"""The page's tokenizers against the package's, in a browser, on random texts of many kinds."""

import json
import random

import pytest
import torch

from llm_anatomy.notebook import BleuMatches, front_end
from llm_anatomy.notebook.widgets import Text, Widget
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.text import Encoder, Encoders, Merges, to_javascript, well_formed
from llm_anatomy.tokenizers import pretokenization
from llm_anatomy.tokenizers.bpe import BPE, GPT2_BYTES, CharacterBPE
from llm_anatomy.tokenizers.pretokenization import NoSplit, PreTokenizer
from llm_anatomy.tokenizers.simple import ByteTokenizer, CharacterTokenizer, WordTokenizer
from llm_anatomy.tokenizers.unigram import METASPACE, Unigram

pytestmark = pytest.mark.browser

TRAINING = [
    "the cat sat on the mat, and the dog saw that the cat sat there: 3.14159 of 2024 cats don't, we'll see.\n" * 3,
    "def f(x):\n    return x + 1  # naïve café 東京 привет γειά\n" * 2,
    "नमस्ते दुनिया! مرحبا بالعالم 🙂 👩‍👩‍👧 ʼs THE'LL",
]
CUTS = {name: cut for name, cut in vars(pretokenization).items() if type(cut) is PreTokenizer}
TOKENIZERS = {
    "characters": CharacterTokenizer.train(TRAINING[:1]),
    "words": WordTokenizer.train(TRAINING, 40),
    "bytes": ByteTokenizer(["<|end|>"]),
    "BPE": BPE.train(TRAINING, 340, special_tokens=["<|end|>"]),
    "character BPE": CharacterBPE.train(TRAINING, 400),
    "Unigram": Unigram.train(TRAINING, 360, character_coverage=0.95),
    "BPE with the bytes of GPT-2": BPE.train(TRAINING, 330, byte_alphabet=GPT2_BYTES, pre_tokenizer=CUTS["GPT2"]),
    "BPE without cuts": BPE.train(TRAINING, 330, pre_tokenizer=NoSplit()),
    "BPE that knows a whole piece": BPE(
        [*(bytes([byte]) for byte in range(256)), b"ab", b"bc", b"abc"],
        {(97, 98): 0, (98, 99): 1, (97, 257): 2},  # abc becomes ab, c
        CUTS["WHITESPACE"],
        ignore_merges=True,
    ),
    "Unigram with an unknown token": Unigram.from_pieces(
        [("<unk>", 0), ("▁", -3), ("a", -2), ("b", -2.5), ("▁ab", -4), ("ba", -4.5), ("▁the", -3)],
        "<unk>", prefix=" ", pre_tokenizer=METASPACE, user_defined=[6],
    ),
}  # fmt: skip
KINDS = [
    "abcdefghij ", "ab", "a b  \n\t\r", "the cat sat 'll 's 'S 'LL don't", "0123456789.,", "ABCéèüßſıK",
    "привет мир", "東京都の猫", "नमस्ते दुनिया", "مرحبا بك", "e\u0301\u0308a\u030a", "🙂👩\u200d👧🏽❤\ufe0f🇫🇷", 
    "".join(map(chr, range(32))), "\x7f\x80\x85\xa0\u2003\u2028\u200b\ufeff\u3000 ", "\ud83d\ude42\udc00a", 
    "{}[]<>&|\\\"'`$^*+?_#@!~", "<|end|><unk>▁",
]  # fmt: skip


def texts(many, seed, longest=60):
    """Texts of one kind of characters or of several, and the special cases."""
    rng = random.Random(seed)
    yield from [
        "",
        " ",
        "\n",
        "  ",
        "a" * 300,
        "ab" * 150 + "\n",
        " a",
        "a ",
        "a \n",
        "'ſ 'S",
        "{text}",
        "\ud800",
        "<unk>",
    ]
    yield "abc xabc"
    for n in range(many):
        letters = rng.choice(KINDS) if n % 2 else "".join(rng.sample(KINDS, 4))
        yield "".join(rng.choices(letters, k=rng.randint(1, longest)))
        if n % 5 == 0:
            yield rng.choice(TRAINING)[rng.randint(0, 60) :][:longest]


@pytest.fixture(scope="module")
def page(browser):
    """A page with the front end, whose functions a test can call; texts are passed as lists of code units."""
    page = browser().new_page()
    page.goto("about:blank")
    script = front_end.module() + (
        """globalThis.call = (make, texts) => {
            const { read } = ENCODERS[make.kind](make), list = x => x.data ? plain(tensor(x.data, x.shape)) : x;
            const lists = found => Object.fromEntries(Object.entries(found).map(([name, x]) => [name, list(x)]));
            return JSON.stringify(texts.map(text => lists(read(String.fromCharCode(...text)))));
        };
        globalThis.tidy = text => clipped(String.fromCharCode(...text), 1e9);
        globalThis.cut = (pattern, texts) => texts.map(text => cutter(pattern)(String.fromCharCode(...text)));"""
    )
    page.add_script_tag(content=script, type="module")
    page.wait_for_function("'cut' in globalThis")
    yield page
    page.close()


def units(text):
    data = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(data[i : i + 2], "little") for i in range(0, len(data), 2)]


def joined(text):
    """The text with its pairs of surrogates joined, as JavaScript reads them; lone ones stay."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def compare(page, encoder, given):
    given = [joined(text) for text in given]
    spec = json.loads(json.dumps(encoder.spec()))
    found = page.evaluate("([spec, texts]) => call(spec, texts)", [spec, [units(text) for text in given]])
    for text, names in zip(given, json.loads(found), strict=True):
        expected = {name: x if isinstance(x, list) else x.tolist() for name, x in encoder(text).items()}
        assert names.keys() == expected.keys()
        for name, value in expected.items():
            assert names[name] == value, (text, name)


@pytest.mark.parametrize("n_random", [50, pytest.param(220, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_page_gives_the_packages_ids(page, name, n_random):
    compare(page, Encoder(TOKENIZERS[name], 64), list(texts(n_random, name)))


def test_ids_are_those_of_encode():
    """What widgets show of a tokenizer is what it gives everybody."""
    for name, tokenizer in TOKENIZERS.items():
        text = "the cat sat, we don't" if name == "characters" else "the cat sat, we don't 🙂\n\n naïve 2024 ab ba"
        found = Encoder(tokenizer, 100)(text)
        assert found["ids"][: found["n"]].tolist() == tokenizer.encode(text)
        if name not in ("words", "Unigram with an unknown token"):
            assert tokenizer.decode(tokenizer.encode(text)) == text


def test_several_tokenizers_and_their_counts(page):
    compare(page, Encoders([tokenizer for tokenizer in TOKENIZERS.values()]), texts(30, 1))


@pytest.mark.parametrize("cut", [NoSplit(), CUTS["GPT4"], CUTS["WHITESPACE"]], ids=["none", "GPT4", "WHITESPACE"])
def test_the_page_learns_the_packages_merges(page, cut):
    compare(
        page, Merges(20, longest=300, n_pairs=6, pre_tokenizer=cut), ["aaabdaaabac", "aaaa", *texts(15, cut.pattern)]
    )


@pytest.mark.parametrize("name", CUTS)
def test_the_page_cuts_as_the_package_does(page, name):
    given = [joined(text) for text in texts(60, name)]
    found = page.evaluate("([p, t]) => cut(p, t)", [to_javascript(CUTS[name].pattern), [units(text) for text in given]])
    for text, pieces in zip(given, found, strict=True):
        assert pieces == CUTS[name](text), text


def test_a_text_is_made_well_formed_as_in_the_page(page):
    for text in texts(60, 3):
        assert page.evaluate("text => tidy(text)", units(text)) == well_formed(text)


class Candidates(Widget):
    """A text, and tokens that the reader may append."""

    sentence = "{text_n:.0f} tokens: [[{text_tokens}]]"

    def compute(self, text_ids, text_n):
        best = torch.tensor([TOKENIZERS["BPE"].encode(" cat")[0], ord("!"), 0xE2]) + 0 * text_n
        return {"best": best, "share": best / 400}

    def marks(self):
        return ["text", m.continuations("text", "best", "share", words="{best:.0f}")]


def test_a_click_appends_a_token(show):
    encoder = Encoder(TOKENIZERS["BPE"], 8)
    widget = Candidates(text=Text("the {", longest=20, encoder=encoder, label="text"))
    page = show(widget, width=390)
    cat, sign, fragment = page.locator(".la-next button").all()
    assert fragment.is_disabled() and fragment.inner_text().split() == ["<E2>", "226"]
    cat.click()
    assert cat.evaluate("node => node === document.activeElement")  # to press it again
    page.keyboard.press("Enter")
    sign.click()
    widget.text = "the { cat cat!"
    assert page.evaluate("document.querySelector('.la-widget').la.words") == repr(widget)
    assert page.get_by_role("textbox").input_value() == widget.text
    assert cat.bounding_box()["height"] >= 44
    for _ in range(9):
        cat.click()
    assert len(page.get_by_role("textbox").input_value()) == 20


def test_what_a_reader_types_is_neither_template_nor_markup(show):
    widget = Candidates(text=Text("", longest=80, encoder=Encoder(ByteTokenizer(), 80), label="text"))
    for text in ("{text} {text_tokens} {x} [[{text_n}]] {text_n|a|b}", "<!--<script></script>--><b>&amp;"):
        widget.text = text
        page = show(widget)
        page.wait_for_selector(".la-ready")
        assert page.get_by_role("textbox").input_value() == text
        assert page.evaluate("document.querySelector('.la-widget').la.words") == repr(widget)
        page.get_by_role("textbox").fill(text[::-1])
        widget.text = text[::-1]
        assert page.evaluate("document.querySelector('.la-widget').la.words") == repr(widget)


def test_a_chip_has_the_colour_that_its_template_names(show):
    page = show(BleuMatches("the the cat x", "the cat"))
    page.wait_for_selector(".la-ready")
    chips = "nodes => nodes.map(node => [node.innerText.split('\\n')[0], node.style.getPropertyValue('--la-hue')])"
    found = page.locator(".la-chips").nth(1).locator(".la-chip").evaluate_all(chips)
    hues = ["value", "key", "value", "none"]
    assert found == [[word, f"var(--la-{hue})"] for word, hue in zip(["the", "the", "cat", "x"], hues, strict=True)]
