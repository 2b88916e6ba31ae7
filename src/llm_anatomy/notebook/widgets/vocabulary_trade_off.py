"""The vocabulary trade-off: what a larger vocabulary saves in tokens and costs in the output layer."""

import math
from collections.abc import Mapping

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import finite
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Slider
from llm_anatomy.tokenizers.metrics import attention_flops, embedding_parameters

KILOBYTES, WIDTHS, LAYERS = [1, 2, 4, 8, 16, 32], [32, 64, 128, 256, 512], [1, 2, 4, 8, 16]


class VocabularyTradeOff(Widget):
    r"""Show how the size of the vocabulary decides the length of a text in tokens, and the cost of reading it.

    With b bytes per token, a text of B bytes has n = B / b tokens. A model of width d with l layers then needs

    .. math:: \underbrace{4\, l\, n^2 d}_\text{attention} + \underbrace{24\, l\, n\, d^2}_\text{matrices of the layers}
        + \underbrace{2\, n\, n_\mathrm{vocab}\, d}_\text{output layer}

    floating-point operations to read it, with a feed-forward layer four times as wide as the model and no saving by a
    causal mask.

    Args:
        bytes_per_token: measured averages by size of the vocabulary, for at least two sizes.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for fewer than two sizes, or numbers that are not positive and finite.

    Source: Kaplan et al. (2020), section 2.1; UCL-09, GT-41, UCL-05.

    >>> VocabularyTradeOff({256: 1.0, 1024: 3.4})  # doctest: +NORMALIZE_WHITESPACE
    A vocabulary of 1024 tokens, 3.40 bytes each on average: 4 kB of text are 1176 tokens. The table of embeddings has
    0.131 million parameters. Reading takes 2.65 GFLOPs: 53.5% in attention, 34.9% in the matrices of 2 layers, 11.6%
    in the output layer. The cheapest of these vocabularies has 1024 tokens.
    """

    sentence = (
        "A vocabulary of {n_vocab} tokens, {rate:.2f} bytes each on average: {kilobytes} kB of text are {tokens:.0f} "
        "tokens. The table of embeddings has {table:.3f} million parameters. Reading takes {total:.2f} GFLOPs: "
        "{shares[0]:.1f}% in attention, {shares[1]:.1f}% in the matrices of {n_layers} {several|layer|layers}, "
        "{shares[2]:.1f}% in the output layer. The cheapest of these vocabularies has {cheapest} tokens."
    )

    def __init__(self, bytes_per_token, *, caption: str = ""):
        if not isinstance(bytes_per_token, Mapping) or len(bytes_per_token) < 2:
            raise ValueError("bytes_per_token must give a measured average for at least two sizes of the vocabulary")
        sizes = sorted(bytes_per_token)
        for name, number in [(f"bytes_per_token[{size}]", bytes_per_token[size]) for size in sizes]:
            if finite(name, number) <= 0 or not all(isinstance(size, int) and size > 0 for size in sizes):
                raise ValueError(f"{name}={number!r}; sizes must be positive integers, averages positive numbers")
        self.sizes = torch.tensor(sizes)
        self.rates = torch.tensor([float(bytes_per_token[size]) for size in sizes]).round(decimals=3)
        super().__init__(
            caption=caption,
            data={"sizes": sizes, "names": ["attention", "layers", "output layer"]},
            n_vocab=Slider(sizes[len(sizes) // 2], values=sizes, label="tokens in the vocabulary"),
            kilobytes=Slider(4, values=KILOBYTES, label="length of the text / kB"),
            d_model=Slider(128, values=WIDTHS, label="width d_model"),
            n_layers=Slider(2, values=LAYERS, label="layers"),
        )

    def compute(self, n_vocab, kilobytes, d_model, n_layers):
        at, lengths = (self.sizes == n_vocab).int().argmax(), 1000 * kilobytes / self.rates
        attention = attention_flops(lengths, d_model, n_layers)
        layers = 24.0 * n_layers * lengths * d_model**2
        output = 2.0 * lengths * embedding_parameters(self.sizes, d_model)
        parts = torch.stack((attention, layers, output)) / 1e9
        totals = parts.sum(0)
        numbers = {"rate": self.rates[at], "tokens": lengths[at], "total": totals[at], "several": n_layers > 1}
        numbers |= {"table": embedding_parameters(n_vocab, d_model) / 1e6, "cheapest": self.sizes[(-totals).argmax()]}
        numbers |= {"lengths": lengths, "totals": totals, "shares": 100 * parts[:, at] / totals[at]}
        return numbers | {"highest": totals.max() * 1.05, "longest": lengths.max() * 1.05, "least": totals.min()}

    def marks(self):
        sizes = self.data["sizes"]
        ticks = sizes[:: math.ceil(len(sizes) / 5)]
        across = {"x": m.axis(sizes[0], sizes[-1], "tokens in the vocabulary", ticks=ticks, log=True)}
        across["pick"] = {"x": "n_vocab"}
        length = m.plot(
            m.line("lengths", "sizes", hue="position"),
            m.dots("n_vocab", "tokens", hue="position", label="{tokens:.0f}"),
            y=m.axis(0, "longest"), title="Tokens in the text", **across,
        )  # fmt: skip
        cost = m.plot(
            m.line("totals", "sizes", hue="weights"),
            m.dots("cheapest", "least", hue="weights", hollow=True, size=11),
            m.dots("n_vocab", "total", hue="weights", label="{total:.2f}"),
            y=m.axis(0, "highest"), title="GFLOPs to read it", hint="the ring marks the cheapest vocabulary", **across,
        )  # fmt: skip
        shares = m.plot(
            m.bars("shares", hue="weights", across=True, text="{value:.1f}%"),
            x=m.axis(0, 118, ticks=[0, 50, 100]), y=m.axis(labels="names"),
            title="Where the GFLOPs go, in percent", height=130,
        )  # fmt: skip
        facts = {"bytes per token": "{rate:.2f}", "embeddings": "{table:.3f} million parameters"}
        return [m.row(length, cost), "n_vocab", "kilobytes", "d_model", "n_layers", shares, m.facts(**facts)]
