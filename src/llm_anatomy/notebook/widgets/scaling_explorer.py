"""The scaling explorer: how the width of a head affects the softmax, and what dividing by its root repairs."""

import math
from collections.abc import Mapping

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import finite
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Slider, Tick


class ScalingExplorer(Widget):
    r"""Show how weights and gradient depend on the width of a head, with and without the scale.

    Scores s become weights :math:`\alpha = \mathrm{softmax}(s)`, or :math:`\mathrm{softmax}(s / \sqrt d)` in a head of
    width d. The size of the gradient is the largest entry of the Jacobian :math:`\mathrm{diag}(\alpha) - \alpha
    \alpha^\top`, which is :math:`\alpha_i (1 - \alpha_i)` of the largest weight. Both are means over the queries; the
    page carries these means, to four decimals.

    Args:
        scores: random scores of shape (queries, keys) by the width of the head, for at least two widths.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for fewer than two widths or keys, or a width or scores that are not finite.

    Source: Vaswani et al. (2017), section 3.2.1; UCL-19.

    >>> ScalingExplorer({4: [[2, -2]], 16: [[4, -4]]})  # doctest: +NORMALIZE_WHITESPACE
    A head 16 wide, scores as they are: their standard deviation is 5.66, the largest of 2 weights is 0.9997, and the
    gradient α(1 − α) there is 0.0003, on average.
    """

    sentence = (
        "A head {width} wide, scores {scaled|as they are|divided by the root of the width}: their standard deviation "
        "is {deviation:.2f}, the largest of {count} weights is {largest:.4f}, and the gradient α(1 − α) there is "
        "{gradient:.4f}, on average."
    )

    def __init__(self, scores, *, caption: str = ""):
        if not isinstance(scores, Mapping) or len(scores) < 2:
            raise ValueError("scores must give scores of shape (queries, keys) for at least two widths")
        drawn = {d: torch.as_tensor(scores[d]).double() for d in sorted(scores)}
        for d, rows in drawn.items():
            if finite("width", d) <= 0:
                raise ValueError(f"width={d}; it must be a positive number")
            if rows.ndim != 2 or rows.shape[-1] < 2 or not rows.isfinite().all():
                raise ValueError(f"scores[{d}] must be finite numbers of shape (queries, keys), for two keys or more")
        if len({rows.shape[-1] for rows in drawn.values()}) > 1:
            raise ValueError("the numbers of keys differ; they must be the same for all widths")
        means = [[_means(rows / (math.sqrt(d) if scaled else 1)) for d, rows in drawn.items()] for scaled in (0, 1)]
        widths, count = list(drawn), len(means[0][0]) - 2
        self.table, self.widths = torch.tensor(means).round(decimals=4), torch.tensor(widths, dtype=torch.float32)
        data = {"count": count, "widths": widths, "names": ["as they are", "divided by √d_head"]}
        width = Slider(widths[len(widths) // 2], values=widths, digits=0, label="d_head")
        super().__init__(caption=caption, data=data, width=width, scaled=Tick(label="divide by √d_head"))

    def compute(self, width, scaled):
        at, curves = (self.widths == width).int().argmax(), self.table[:, :, 1]
        deviation, gradient, *weights = self.table[scaled.long(), at].unbind()
        here = torch.where(torch.stack([~scaled, scaled]), gradient, torch.nan)
        beside = torch.stack([curves[0, -1] - 0.03, curves[1, -1] + 0.03])
        numbers = {"deviation": deviation, "gradient": gradient, "largest": weights[0], "weights": torch.stack(weights)}
        return numbers | {"plain": curves[0], "repaired": curves[1], "here": here, "beside": beside}

    def marks(self):
        widths, count = self.data["widths"], self.data["count"]
        best = m.plot(
            m.bars("weights", hue="weights"),
            x=m.axis(-0.6, count - 0.4, ticks=[]), y=m.axis(0, 1, ticks=[0, 0.5, 1]),
            title="Weights of {count} keys", hint="the best first, on average",
        )  # fmt: skip
        curves = m.plot(
            m.line("plain", "widths", hue="key"),
            m.line("repaired", "widths", hue="query"),
            m.dots("width", "here", hue=["key", "query"], size=8),
            m.words([widths[-1]] * 2, "beside", "names", hue=["key", "query"], anchor="end"),
            x=m.axis(widths[0], widths[-1], "d_head", ticks=widths[:: math.ceil(len(widths) / 5)], log=True),
            y=m.axis(0, 0.25, ticks=[0, 0.1, 0.2]), title="Size of the gradient", hint="mean of α(1 − α)",
        )  # fmt: skip
        facts = {
            "standard deviation": "{deviation:.2f}",
            "largest weight": "{largest:.4f}",
            "gradient": "{gradient:.4f}",
        }
        return [m.row(best, curves), "width", "scaled", m.facts(**facts)]


def _means(scores) -> list[float]:
    """Return the scores' standard deviation, the mean gradient, and the mean weights, the best first."""
    weights = scores.softmax(-1).sort(descending=True).values
    return [scores.std().item(), (weights[:, 0] * (1 - weights[:, 0])).mean().item(), *weights.mean(0).tolist()]
