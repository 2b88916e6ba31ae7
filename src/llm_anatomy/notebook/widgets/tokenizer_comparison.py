"""The comparison of tokenizers: one sentence of the reader as the tokens of each."""

from collections.abc import Mapping

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Text
from llm_anatomy.notebook.widgets.text import Encoders
from llm_anatomy.tokenizers.base import PieceTokenizer


class TokenizerComparison(Widget):
    r"""Show a sentence as the tokens of several tokenizers, with their ids and their numbers.

    If all tokens were equally probable, each would cost :math:`\log_2 n_\mathrm{vocab}` bits, so that ``n`` tokens have
    :math:`n \log_2 n_\mathrm{vocab}` bits: a tokenizer with few tokens of a large vocabulary may need more than one
    with many tokens of a small vocabulary.

    Args:
        tokenizers: tokenizers of the package by name; the page must be able to follow them
            (:func:`~llm_anatomy.notebook.widgets.text.for_page`).
        text: the initial sentence, at most 100 characters.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for no tokenizers, or one that the page cannot follow; it says why.

    Source: UCL-05, UCL-06, UCL-09, GT-40, GT-42.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer, CharacterTokenizer
    >>> TokenizerComparison({"letters": CharacterTokenizer("abé"), "bytes": ByteTokenizer()}, "é b")
    4 bytes and 2 words: 3 tokens of letters, 4 tokens of bytes.
    """

    sentence = "{text_bytes:.0f} bytes and {text_words:.0f} words: [[{counts:.0f} tokens of {names}]]."

    def __init__(self, tokenizers: Mapping[str, PieceTokenizer], text: str, *, caption: str = ""):
        if not tokenizers:
            raise ValueError(f"{tokenizers=} must hold at least one tokenizer by its name")
        self.n_vocab = torch.tensor([float(tokenizer.n_vocab) for tokenizer in tokenizers.values()])
        data = {"names": list(tokenizers), "sizes": self.n_vocab.tolist()}
        typed = Text(text, longest=100, encoder=Encoders(list(tokenizers.values())), label="your text")
        super().__init__(caption=caption, data=data, text=typed)

    def compute(self, text_n, text_bytes, text_words):
        counts = text_n.float()
        return {
            "counts": counts, "reach": 1.1 * counts.amax().clamp(min=1), "bits": counts * self.n_vocab.log2(),
            "per_word": counts / text_words.clamp(min=1), "per_byte": counts / text_bytes.clamp(min=1),
        }  # fmt: skip

    def marks(self):
        tokens = m.chips(
            "{text_tokens}", below="{text_ids}", repeat="names", title="{names}: {counts:.0f} tokens",
            hint="{per_word:.1f} a word, {per_byte:.2f} a byte; {bits:.0f} bits, with a vocabulary of {sizes}",
        )  # fmt: skip
        bars = m.plot(
            m.bars("counts", across=True, text="{value:.0f}", hue="query"),
            y=m.axis(labels="names"), x=m.axis(0, "reach"), title="Tokens",
        )  # fmt: skip
        return ["text", bars, tokens]
