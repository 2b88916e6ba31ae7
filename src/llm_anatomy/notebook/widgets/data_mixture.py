"""The data mixture of LLaMA: how often each source is read when training gets longer, or the shares change."""

from collections.abc import Iterable, Mapping

import torch

from llm_anatomy.data import table
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

TOKENS = [0.25, 0.5, 0.75, 1.0, 1.4, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 15.0]
"""The lengths of training, in trillions of tokens."""
MIXTURES = ("LLaMA's", "by size", "equal")
CURVE = [TOKENS[0] * (TOKENS[-1] / TOKENS[0]) ** (n / 60) for n in range(61)]
HIGH, TICKS = 1.6, [0.25, 0.5, 1, 2, 4, 8, 15]


class DataMixture(Widget):
    r"""Show how often each source of a training text is read, and how much of the text is new.

    A source with the share s of n training tokens that holds u different tokens is read

    .. math:: \mathrm{epochs} = s\, n / u

    times. The different tokens of a source follow from the table, which has the share and the epochs of one length of
    training. Instead of LLaMA's shares, sources may have shares in proportion to their size, so that all are read
    equally often, or equal shares.

    Args:
        tokens: the initial number of training tokens, in trillions, one of ``TOKENS``.
        mixture: the initial shares: ``"LLaMA's"``, ``"by size"`` or ``"equal"``.
        rows: sources with the columns ``dataset``, ``sampling_pct``, ``epochs`` and ``n_tokens_T``; by default those of
            the table ``llama_data_mixture``.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: if shares do not sum to 100 %, or a share or a number of epochs is not above 0.

    Source: GT-08; Touvron et al. (2023), table 1.

    >>> DataMixture()  # doctest: +NORMALIZE_WHITESPACE
    1.4 trillion tokens with LLaMA's shares: CommonCrawl is 67.0 % and read 1.10 times, C4 is 15.0 % and read 1.06
    times, GitHub is 4.5 % and read 0.64 times, Wikipedia is 4.5 % and read 2.45 times, Books is 4.5 % and read 2.23
    times, ArXiv is 2.5 % and read 1.06 times, StackExchange is 2.0 % and read 1.03 times. 1228 billion tokens are read
    for the first time, 172 billion again.
    """

    sentence = (
        "{tokens:.1f} trillion tokens with {mixture#||LLaMA's shares|shares by size|equal shares}: "
        "[[{sources} is {shares:.1f} % and read {epochs:.2f} times]]. {fresh:.0f} billion tokens are read for the "
        "first time, {repeated:.0f} billion again."
    )

    def __init__(
        self,
        tokens: float | int = 1.4,
        mixture: str = MIXTURES[0],
        rows: Iterable[Mapping] | None = None,
        *,
        caption: str = "",
    ):
        rows = table("llama_data_mixture") if rows is None else list(rows)
        numbers = [[float(row[name]) for name in ("sampling_pct", "epochs", "n_tokens_T")] for row in rows]
        if not rows or abs(sum(share for share, *_ in numbers) - 100) > 0.05 or min(map(min, numbers)) <= 0:
            raise ValueError("the shares in sampling_pct must sum to 100, and shares and epochs must be above 0")
        shares, epochs, trained = torch.tensor(numbers).unbind(1)
        unique = 10 * shares * trained / epochs  # billions: a share is in percent, tokens in trillions
        self.unique = unique
        self.shares = torch.stack((shares, 100 * unique / unique.sum(), torch.full_like(shares, 100 / len(rows))))
        super().__init__(
            caption=caption,
            data={"sources": [row["dataset"] for row in rows]},
            tokens=Slider(tokens, values=TOKENS, digits=2, label="trillion tokens"),
            mixture=Choice(MIXTURES, mixture, label="shares"),
        )

    def compute(self, tokens, mixture):
        shares = self.shares.index_select(0, mixture[None])[0]
        read = 10 * shares * tokens  # billions
        fresh, epochs = torch.minimum(read, self.unique), read / self.unique
        lengths = torch.tensor(CURVE)
        curve = torch.minimum(10 * shares * lengths[:, None], self.unique).sum(1)
        return {
            "shares": shares, "epochs": epochs, "once": epochs.clamp(max=1), "more": epochs.clamp(min=1),
            "fresh": fresh.sum(), "repeated": (read - fresh).sum(), "again": 100 * (read - fresh).sum() / read.sum(),
            "most": epochs.amax(), "high": 1.25 * epochs.amax().clamp(min=1), "share_high": 1.25 * shares.amax(),
            "curve": curve / 1000, "here": fresh.sum() / 1000, "all": self.unique.sum() / 1000,
            "diagonal": torch.where(lengths <= HIGH, lengths, torch.nan),
        }  # fmt: skip

    def marks(self):
        sources = m.axis(labels="sources")
        height = 26 * len(self.unique) + 12
        shares = m.plot(
            m.bars("shares", across=True, hue="none", text="{value:.1f}"),
            x=m.axis(0, "share_high", ticks=[]), y=sources, title="Share of the tokens, in %", height=height,
        )  # fmt: skip
        epochs = m.plot(
            m.rule(x=1.0),
            m.bars("once", across=True, hue="positive"),
            m.bars("more", base=1.0, across=True, hue="negative", text="epochs"),
            x=m.axis(0, "high", ticks=[]), y=sources, title="How often each source is read",
            hint="dashed: once", height=height,
        )  # fmt: skip
        fresh = m.plot(
            m.line("diagonal", CURVE, dashed=True, width=1.5),
            m.rule(y="all"),
            m.line("curve", CURVE, hue="positive"),
            m.dots("tokens", "here", hue="positive"),
            x=m.axis(TOKENS[0], TOKENS[-1], "training tokens, in trillions", ticks=TICKS, log=True),
            y=m.axis(0, HIGH), title="Tokens read for the first time, in trillions",
            hint="dashed: all training tokens, and all that there are",
            height=230, pick={"x": "tokens"},
        )  # fmt: skip
        facts = {
            "tokens read for the first time": "{fresh:.0f} billion", "read again": "{repeated:.0f} billion",
            "share read again": "{again:.1f} %", "most often": "{most:.2f} times",
        }  # fmt: skip
        return ["tokens", "mixture", m.row(shares, epochs), m.facts(**facts), fresh]
