"""The slopes explorer: the slope of each of ALiBi's heads, for any number of heads."""

import math

import torch

from llm_anatomy.layers.positions.relative import alibi_slopes
from llm_anatomy.notebook.figures import colours, figure
from llm_anatomy.notebook.widgets.base import PageWidget, fixed, whole

MOST_HEADS = 128
TICKS = [1, 4, 16, 64, 256]  # tokens back


class SlopesExplorer(PageWidget):
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
    3 heads, head 2: slope 0.0039, bias −1 after 256.0 tokens, weight halved after 177.4. 3 is no power of two: the
    first 2 heads have the slopes of 2 heads, the other 1 every second one of 4.
    """

    tools = ("parts", "chart")

    def __init__(self, n_heads=8, *, caption: str = ""):
        super().__init__(caption)
        self.n_heads = whole("n_heads", n_heads, 1, MOST_HEADS)

    def slopes(self) -> list[float]:
        """Return the slope of each head, in double precision."""
        return alibi_slopes(self.n_heads, dtype=torch.float64).tolist()

    def data(self) -> dict:
        return {"heads": self.n_heads, "most": MOST_HEADS}

    def text(self) -> str:
        return self._sentence(self._start)

    @property
    def _start(self) -> int:
        return (self.n_heads + 1) // 2

    def live(self):
        import ipywidgets as w

        controls = {
            "n_heads": w.IntSlider(self.n_heads, min=1, max=MOST_HEADS, description="heads"),
            "head": w.IntSlider(self._start, min=1, max=MOST_HEADS, description="head"),
        }
        return self.panel(controls, self._picture)

    def _picture(self, show, n_heads, head):
        if head > n_heads:
            raise ValueError(f"{head=}; it must be at most {n_heads}")
        SlopesExplorer(n_heads)._draw(show, head)

    def _draw(self, show, head):
        slopes = self.slopes()
        with figure(
            "How steeply does each head forget?",
            alt=self._sentence(head),
            width=7.5,
            ncols=2,
            show=show,
        ) as (lines, dots):
            for slope in [*slopes, slopes[head - 1]]:
                lines.plot([0, 256], [0, -256 * slope], color="#b9bdc3", linewidth=1)
            lines.plot([0, 256], [0, -256 * slopes[head - 1]], color=colours["position"])
            lines.axhline(-1, color="#50555c", linestyle="--", linewidth=1)
            lines.plot(1 / slopes[head - 1], -1, "o", color=colours["position"], markersize=9)
            lines.set(xlim=(0, 256), ylim=(-4, 0), xlabel="distance / tokens back", ylabel="bias")
            low = self._lower
            for start, some, face in ((1, slopes[:low], "#50555c"), (low + 1, slopes[low:], "none")):
                at = range(start, start + len(some))
                dots.plot(at, [1 / m for m in some], "o", color="#50555c", markerfacecolor=face, markersize=4)
            dots.plot(head, 1 / slopes[head - 1], "o", color=colours["position"], markersize=9)
            dots.set(xlabel="head", ylabel="tokens back until the bias is −1", ylim=(0.9, 300))
            dots.set_yscale("log", base=2)
            dots.set_yticks(TICKS, TICKS)
            dots.xaxis.get_major_locator().set_params(integer=True)

    @property
    def _lower(self) -> int:
        """The number of heads, or the power of two below it."""
        return 1 << (self.n_heads.bit_length() - 1)

    def _sentence(self, head) -> str:
        n, low, slope = self.n_heads, self._lower, self.slopes()[head - 1]
        if n == low:
            note = f"{n} is a power of two: each slope is the one before times {fixed(2 ** (-8 / n), 4)}."
        else:
            note = (
                f"{n} is no power of two: the first {low} heads have the slopes of {low} heads, the other {n - low} "
                f"every second one of {2 * low}."
            )
        return (
            f"{n} head{'s' * (n > 1)}, head {head}: slope {fixed(slope, 4)}, bias −1 after {fixed(1 / slope, 1)} "
            f"tokens, weight halved after {fixed(math.log(2) / slope, 1)}. {note}"
        )
