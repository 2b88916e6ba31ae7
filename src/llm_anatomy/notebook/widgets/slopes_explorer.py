"""The slopes explorer: the slope of each of ALiBi's heads, for any number of heads."""

import math

import torch

from llm_anatomy.layers.positions.relative import alibi_slopes
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Slider

MOST_HEADS = 128
SAID = [
    "{n_heads} is a power of two: each slope is {factor:.4f} times the previous one.",
    "{n_heads} is not a power of two: first come the slopes of {lower} heads, then every second slope of {upper}.",
    "One head has the flattest slope, 1/256.",
]


class SlopesExplorer(Widget):
    r"""Show the bias of each head for a number of heads, and the distance at which it reaches −1.

    The bias r tokens back is :math:`-m_h r`, with :math:`m_h = 2^{-8h/n}` for n heads, a power of two; else the first
    heads have the slopes of the power below, the others every second one of the power above. A bias of −1 divides a
    weight by e, which is 2.72; it is halved after :math:`\ln 2 / m_h` tokens.

    Args:
        n_heads: initial number of heads, 1 to 128.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a number of heads that is not an integer within these bounds.

    Source: Press et al. (2022), section 3, and its code for other numbers of heads; GT-31.

    >>> SlopesExplorer(3)  # doctest: +NORMALIZE_WHITESPACE
    3 heads, head 2: slope 0.0039, bias −1 after 256.0 tokens, weight halved after 177.4. 3 is not a power of
    two: first come the slopes of 2 heads, then every second slope of 4.
    """

    sentence = (
        "{n_heads} {several|head|heads}, head {at}: slope {slope:.4f}, bias −1 after {reach:.1f} tokens, weight halved "
        "after {half:.1f}. {said[case]}"
    )

    def __init__(self, n_heads=8, *, caption: str = ""):
        n = whole("n_heads", n_heads, 1, MOST_HEADS)
        powers = [2**power for power in range(8)]  # between two of them, fewer heads have the first of the same slopes
        kinds = [alibi_slopes(power) for power in powers] + [alibi_slopes(power - 1) for power in powers[2:]]
        self.table = torch.nn.utils.rnn.pad_sequence(kinds, batch_first=True, padding_value=math.nan)
        controls = {"n_heads": Slider(n, 1, MOST_HEADS, label="heads")}
        controls["head"] = Slider((n + 1) // 2, 1, "n_heads", hue="position")
        super().__init__(caption=caption, data={"said": SAID}, **controls)

    def compute(self, n_heads, head):
        heads, powers = torch.arange(1, MOST_HEADS + 1), 2 ** torch.arange(8)
        below, above = (powers <= n_heads).sum() - 1, (powers < n_heads).sum()
        lower, upper, at = powers[below], powers[above], torch.minimum(head, n_heads)
        slopes = self.table[torch.where(lower == n_heads, below, above + 6)].where(heads <= n_heads, torch.nan)
        slope, ends = slopes[at - 1], (4 / slopes).clamp(max=256)  # a line ends where it leaves the picture
        facts = {"slope": slope, "reach": 1 / slope, "half": math.log(2) / slope, "at": at, "several": n_heads > 1}
        facts |= {
            "case": (lower < n_heads) + 2 * (n_heads == 1),
            "lower": lower,
            "upper": upper,
        }
        facts |= {"factor": 2 ** (-8 / n_heads), "back": 1 / slopes, "heads": heads, "beyond": heads > lower}
        facts |= {"x": ends, "y": -ends * slopes, "x_now": ends[at - 1], "y_now": -ends[at - 1] * slope}
        sizes, ticks = torch.where(n_heads > 40, 2.5, 4.0), torch.stack((n_heads * 0 + 1, (n_heads + 1) // 2, n_heads))
        ticks = torch.where(torch.stack((ticks[1] > 1, n_heads > 2, n_heads > 0)), ticks, torch.nan)
        return facts | {"size": sizes, "ticks": ticks, "left": 0.5 + 0 * slope, "right": n_heads + 0.5}

    def marks(self):
        lines = m.plot(
            m.rule(y=-1),
            m.arrows("x", "y", hue="normalization", width=1, head=False),
            m.arrows("x_now", "y_now", hue="position", width=3.5, head=False),
            m.dots("reach", -1, hue="position"),
            x=m.axis(0, 256, "tokens back", ticks=[0, 64, 128, 192, 256]), y=m.axis(-4, 0),
            title="Bias of each head", height=260,
        )  # fmt: skip
        reach = m.plot(
            m.dots("heads", "back", hue="normalization", size="size", hollow="beyond"),
            m.dots("at", "reach", hue="position"),
            x=m.axis("left", "right", "head", ticks="ticks"), y=m.axis(1, 256, ticks=[1, 4, 16, 64, 256], log=True),
            title="Tokens back until the bias is −1", height=260, pick={"x": "head"},
        )  # fmt: skip
        facts = {"slope": "{slope:.4f}", "tokens back until the bias is −1": "{reach:.1f}"}
        facts["tokens back until the weight is halved"] = "{half:.1f}"
        return [m.row(lines, reach), "n_heads", "head", m.facts(**facts), m.note("{said[case]}")]
