"""The scaling explorer: how the width of a head affects the softmax, and what dividing by its root repairs."""

import json
import math

import torch

from llm_anatomy.notebook.figures import colours, figure
from llm_anatomy.notebook.widgets.base import PageWidget, finite, fixed, parsed

WIDTHS = tuple(2**n for n in range(10))


class ScalingExplorer(PageWidget):
    r"""Show how weights and gradient change with the width of a head, with and without the scale.

    The scores of a head of width d have standard deviation :math:`\sqrt d`, so the weights are
    :math:`\alpha = \mathrm{softmax}(z \sqrt d)`, or :math:`\mathrm{softmax}(z \sqrt d / \sqrt d)`. The size of the
    gradient is the largest entry of the Jacobian :math:`\mathrm{diag}(\alpha) - \alpha \alpha^\top`, which is
    :math:`\alpha_i (1 - \alpha_i)` of the largest weight.

    Args:
        scores: standard-normal numbers z, at least two; rounded to four decimals.
        widths: values of the slider, at least two, positive and increasing.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for fewer than two scores or widths, one that is not finite, or widths that do not increase.

    Source: Vaswani et al. (2017), section 3.2.1; UCL-19.

    >>> weights, deviation, slope = ScalingExplorer([1.0, -1.0]).soften(4, scaled=False)
    >>> round(weights[0], 4), round(deviation, 4), round(slope, 4)
    (0.982, 2.8284, 0.0177)
    """

    tools = ("choice", "parts", "chart")

    def __init__(self, scores, widths=WIDTHS, *, caption: str = ""):
        super().__init__(caption)
        self.scores = [round(score, 4) for score in _numbers("scores", scores)]  # the same on every machine
        self.widths = [_width(d) for d in _numbers("widths", widths)]
        if self.widths != sorted(set(self.widths)):
            raise ValueError(f"widths={self.widths}; each must be larger than the one before")

    def soften(self, width: float | int, scaled: bool) -> tuple[list[float], float, float]:
        """Return weights, standard deviation of the scores, and the largest entry of the softmax's Jacobian."""
        scores = torch.tensor(self.scores, dtype=torch.float64) * math.sqrt(width)
        if scaled:
            scores = scores / math.sqrt(width)
        weights = scores.softmax(0)
        jacobian = weights.diag() - torch.outer(weights, weights)
        return weights.tolist(), scores.std().item(), jacobian.abs().max().item()

    def data(self) -> dict:
        return {"scores": self.scores, "widths": self.widths, "start": self._start}

    def text(self) -> str:
        return self._sentence(self.widths[self._start], False)

    @property
    def _start(self) -> int:
        return len(self.widths) // 2

    def live(self):
        import ipywidgets as w

        controls = {
            "width": w.FloatText(self.widths[self._start], description="d_head"),
            "scaled": w.Checkbox(False, description="divide by √d_head"),
            "scores": w.Text(json.dumps(self.scores), description="scores", continuous_update=False),
        }
        return self.panel(controls, self._picture)

    def _picture(self, show, width, scaled, scores):
        scores = parsed("scores", scores, "[0.3, -1.2]")
        ScalingExplorer(scores, self.widths)._draw(show, _width(width), scaled)

    def _draw(self, show, width, scaled):
        weights, _, slope = self.soften(width, scaled)
        widths = sorted({*self.widths, width})
        with figure(
            "How hard is the softmax, and does it still learn?",
            alt=self._sentence(width, scaled),
            width=7.5,
            ncols=2,
            show=show,
        ) as (bars, curves):
            bars.bar(range(1, len(weights) + 1), sorted(weights, reverse=True), color=colours["weights"])
            bars.set(ylim=(0, 1), xlabel="key, the best first", ylabel="weight")
            for how, words in enumerate(("as they are", "divided by √d_head")):
                style = {"color": colours["weights"]} if how == scaled else {"color": "#50555c", "linestyle": "--"}
                curves.plot(widths, [self.soften(d, bool(how))[2] for d in widths], label=words, **style)
            curves.plot(width, slope, "o", color=colours["weights"], markersize=9)
            curves.set(xscale="log", ylim=(0, 0.29), xlabel="width of the head, d_head", ylabel="gradient α(1 − α)")
            curves.legend()

    def _sentence(self, width, scaled) -> str:
        weights, deviation, slope = self.soften(width, scaled)
        how = "divided by the root of the width" if scaled else "as they are"
        return (
            f"A head {width:g} wide, scores {how}: their standard deviation is {fixed(deviation, 2)}, the largest of "
            f"{len(weights)} weights is {fixed(max(weights), 4)}, and the gradient α(1 − α) there is {fixed(slope, 4)}."
        )


def _numbers(name: str, numbers) -> list[float]:
    if not isinstance(numbers, list | tuple | torch.Tensor) or len(numbers) < 2:
        raise ValueError(f"{name}={numbers!r}; it must be a list of at least two numbers")
    return [finite(f"{name}[{i}]", number) for i, number in enumerate(numbers)]


def _width(width) -> float | int:
    width = finite("width", width)
    if width <= 0:
        raise ValueError(f"{width=}; it must be a positive number")
    return int(width) if width == int(width) else width
