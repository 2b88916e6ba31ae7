"""The bucket explorer: which offsets share one of T5's biases."""

import math

import torch

from llm_anatomy.layers.positions.buckets import T5Buckets, T5CausalBuckets
from llm_anatomy.notebook.figures import colours, figure
from llm_anatomy.notebook.widgets.base import PageWidget, fixed, whole

MOST_BUCKETS, FARTHEST = 64, 256


class BucketExplorer(PageWidget):
    r"""Show the bucket of an offset, and all offsets that share it.

    .. math:: \mathrm{row}(r) = n\,[r > 0] + \begin{cases} |r| & |r| < e \\ \min\left(n - 1, \;
        e + \left\lfloor (n - e) \ln\frac{|r|}{e} \big/ \ln\frac{\mathrm{max}}{e} \right\rfloor\right) & |r| \geq e
        \end{cases}, \quad n = \frac{\mathrm{buckets}}{2}, \; e = \lfloor n / 2 \rfloor

    For the past only, n is the number of all buckets, and the future falls into bucket 0.

    Args:
        n_buckets: number of buckets, even, 4 to 64.
        max_distance: the distance from which on all offsets share a bucket; at most 256, and above n_buckets / 4, below
            which each distance has a bucket of its own.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for sizes that are not integers or outside these bounds.

    Source: Raffel et al. (2020), section 2.1, and T5's code; IITD-21.

    >>> BucketExplorer()
    Both directions, farthest 128. Offset −20: bucket 10 of 32, shared by the offsets −22 to −16.
    """

    tools = ("choice", "parts", "chart")

    def __init__(self, n_buckets=32, max_distance=128, *, caption: str = ""):
        super().__init__(caption)
        self.n_buckets = whole("n_buckets", n_buckets, 4, MOST_BUCKETS, even=True)
        self.max_distance = whole("max_distance", max_distance, n_buckets // 4 + 1, FARTHEST)

    def bucket(self, offset: int, causal: bool = False) -> int:
        """Return the bucket of an offset, key minus query."""
        return self._buckets(causal)(torch.tensor([offset])).item()

    def shared(self, offset: int, causal: bool = False) -> tuple[int | float, int | float]:
        """Return the first and the last offset in the same bucket, infinite where there is none."""
        end = self.max_distance + 1
        offsets = torch.arange(-end, end + 1)
        buckets = self._buckets(causal)(offsets)
        clipped = min(max(offset, -end), end)
        same = offsets[buckets == buckets[clipped + end]]
        first, last = same[0].item(), same[-1].item()
        return -math.inf if first == -end else first, math.inf if last == end else last

    def _buckets(self, causal: bool) -> T5Buckets:
        return (T5CausalBuckets if causal else T5Buckets)(self.n_buckets, self.max_distance)

    @property
    def _start(self) -> int:
        return -min(20, self.max_distance)

    def data(self) -> dict:
        return {"n": self.n_buckets, "max": self.max_distance, "offset": self._start}

    def text(self) -> str:
        return self._sentence(self._start, False)

    def live(self):
        import ipywidgets as w

        reach = FARTHEST + FARTHEST // 4
        controls = {
            "offset": w.IntSlider(self._start, min=-reach, max=reach, description="offset"),
            "causal": w.Checkbox(False, description="past only (causal)"),
            "n_buckets": w.IntSlider(self.n_buckets, min=4, max=MOST_BUCKETS, step=2, description="buckets"),
            "max_distance": w.IntSlider(self.max_distance, min=2, max=FARTHEST, description="farthest"),
        }
        return self.panel(controls, self._picture)

    def _picture(self, show, offset, causal, n_buckets, max_distance):
        if causal and max_distance <= n_buckets // 2:
            raise ValueError(f"{max_distance=}; for the past only it must be above {n_buckets // 2}")
        BucketExplorer(n_buckets, max_distance)._draw(show, offset, causal)

    def _draw(self, show, offset, causal):
        reach = max(self.max_distance + math.ceil(self.max_distance / 4), abs(offset))
        offsets = torch.arange(-reach, reach + 1)
        buckets, now = self._buckets(causal)(offsets), self.bucket(offset, causal)
        with figure("Which offsets share a bucket?", alt=self._sentence(offset, causal), show=show) as ax:
            for bucket in buckets.unique():
                of_it = offsets[buckets == bucket]
                kind = {"color": colours["position"], "linewidth": 5} if bucket == now else {"color": "#50555c"}
                ax.hlines(bucket, of_it[0] - 0.5, of_it[-1] + 0.5, **kind)
            same = offsets[buckets == now]
            ax.axvspan(same[0] - 0.5, same[-1] + 0.5, color=colours["position"], alpha=0.15, linewidth=0)
            ax.plot(offset, now, "o", color=colours["position"], markersize=9)
            ax.set(xlabel="offset: key − query / tokens", ylabel="bucket", ylim=(-1, self.n_buckets))

    def _sentence(self, offset, causal) -> str:
        first, last = self.shared(offset, causal)
        if first == last:
            shared = "which it has to itself"
        elif first == -math.inf:
            shared = f"shared by all offsets up to {fixed(last, 0)}"
        elif last == math.inf:
            shared = f"shared by all offsets from {fixed(first, 0)} on"
        else:
            shared = f"shared by the offsets {fixed(first, 0)} to {fixed(last, 0)}"
        return (
            f"{'Past only' if causal else 'Both directions'}, farthest {self.max_distance}. "
            f"Offset {fixed(offset, 0)}: bucket {self.bucket(offset, causal)} of {self.n_buckets}, {shared}."
        )
