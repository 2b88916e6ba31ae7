"""The timeline of language models in three branches: encoders, encoder-decoders and decoders."""

from collections.abc import Iterable, Mapping

import torch

from llm_anatomy.data import table
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

KINDS = ("encoder", "encoder-decoder", "decoder", "not public")
WEIGHTS = ("yes", "on request", "no")
HUES = ("value", "key", "query", "none")
"""The branches, who gets the weights, and the colours of the branches."""


class ModelTimeline(Widget):
    """Show when language models appeared, in which branch, and whether their weights can be had.

    The four columns are those of the models that are encoders, encoder-decoders and decoders, and of those whose
    architecture is not public. A filled dot is a model whose weights are free to download.

    Args:
        year: the last year that is shown at first.
        model: the model whose family is marked.
        rows: models with the columns ``model``, ``family``, ``month`` (such as 2017-06), ``kind`` and ``weights``, in
            the order in which they appeared; by default those of the table ``model_timeline``.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for an unknown model, kind or weights, and for rows out of order.

    Source: GT-01, which shows the tree of Yang et al. (2023), "Harnessing the Power of LLMs in Practice".

    >>> ModelTimeline(2018)  # doctest: +NORMALIZE_WHITESPACE
    Until 2018: 1 encoder, 1 encoder-decoder, 1 decoder, 0 not public. 3 models of all kinds are shown: Transformer,
    GPT, BERT. Marked is the family LLaMA.
    """

    sentence = (
        "Until {year}: [[{counts:.0f} {kinds}]]. {n_shown:.0f} models "
        "{weights#||of all kinds|with open weights|with weights on request|without weights} are shown: "
        "[[{models[shown]}]]. Marked is the family {families[model]}."
    )

    def __init__(
        self, year: int = 2024, model: str = "LLaMA", rows: Iterable[Mapping] | None = None, *, caption: str = ""
    ):
        rows = [dict(row) for row in (table("model_timeline") if rows is None else rows)]
        kinds = [row["kind"] or KINDS[-1] for row in rows]
        for name, found, allowed in (("kind", kinds, KINDS), ("weights", [row["weights"] for row in rows], WEIGHTS)):
            if unknown := [word for word in found if word not in allowed]:
                raise ValueError(f"{name}={unknown[0]!r}; it must be one of {', '.join(allowed)}")
        months = [str(row["month"]) for row in rows]
        if not rows or months != sorted(months):
            raise ValueError("rows must be in the order of their months, and there must be one at least")
        names = [row["model"] for row in rows]
        if model not in names:
            raise ValueError(f"{model=}; it must be one of {', '.join(names)}")
        families = list(dict.fromkeys(row["family"] for row in rows))
        self.kinds = torch.tensor([KINDS.index(kind) for kind in kinds])
        self.access = torch.tensor([WEIGHTS.index(row["weights"]) for row in rows])
        self.years = torch.tensor([int(month[:4]) for month in months])
        self.families = torch.tensor([families.index(row["family"]) for row in rows])
        first, last = int(self.years[0]), int(self.years[-1])
        self.all_years = list(range(first, last + 1))
        super().__init__(
            caption=caption,
            data={
                "models": ["", *names],
                "names": ["", *(f"{n} {name}" for n, name in enumerate(names, 1))],
                "families": ["", *(row["family"] for row in rows)],
                "months": ["", *months],
                "kind": ["", *kinds],
                "free": ["", *(row["weights"] for row in rows)],
                "kinds": list(KINDS),
                "hues": list(HUES),
            },
            year=Slider(year, first, last, label="until"),
            weights=Choice(["all", *WEIGHTS], label="weights"),
            model=Slider(names.index(model) + 1, 1, len(rows), label="model"),
        )

    def compute(self, year, weights, model):
        kept = (self.years <= year) & ((weights == 0) | (self.access == weights - 1))
        order = torch.where(kept, 0, 1).sort(stable=True).indices
        count = torch.arange(len(kept))
        shown = torch.where(count < kept.sum(), order + 1.0, torch.nan)
        kinds = self.kinds.index_select(0, order)
        family = self.families.index_select(0, model[None] - 1)
        own = self.families.index_select(0, order) == family
        branches = torch.arange(len(KINDS))
        counts = ((self.kinds == branches[:, None]) & kept).sum(1)
        every = torch.tensor(self.all_years)
        grown = (
            (self.kinds == branches[:, None])[:, None]
            & (self.years <= every[:, None])
            & ((weights == 0) | (self.access == weights - 1))
        )
        return {
            "shown": shown, "n_shown": kept.sum(), "counts": counts,
            "columns": torch.where(shown > 0, kinds.float(), torch.nan), "kind_hue": kinds,
            "hollow": self.access.index_select(0, order) > 0, "sizes": 5.0 + 3 * own,
            "grown": grown.sum(2),
        }  # fmt: skip

    def marks(self):
        most = int(self.kinds.bincount().max())
        ys = list(range(len(self.kinds)))
        timeline = m.plot(
            m.dots("columns", ys, hue="@hues[kind_hue]", size="sizes", hollow="hollow"),
            x=m.axis(labels="kinds"), y=m.axis(labels="names[shown]"), title="Models until {year}",
            hint="filled: weights to download; large: the family {families[model]}", height=20 * len(ys) + 30,
        )  # fmt: skip
        counts = m.plot(
            m.bars("counts", across=True, hue=list(HUES), text="{value:.0f}"),
            x=m.axis(0, 1.25 * most, ticks=[]), y=m.axis(labels="kinds"), title="Models in each branch",
            hint="until {year}", height=150,
        )  # fmt: skip
        grown = m.plot(
            *(m.line(f"grown[{i}]", self.all_years, hue=hue) for i, hue in enumerate(HUES)),
            m.rule(x="year"),
            x=m.axis(self.all_years[0], self.all_years[-1], ticks=self.all_years[::2]),
            y=m.axis(0, 1.1 * most), title="How the branches grew", height=190, pick={"x": "year"},
        )  # fmt: skip
        facts = {
            "model": "{models[model]}", "month": "{months[model]}", "branch": "{kind[model]}",
            "weights": "{free[model]}", "family": "{families[model]}",
        }  # fmt: skip
        return ["year", "weights", m.row(counts, grown), timeline, "model", m.facts(**facts)]
