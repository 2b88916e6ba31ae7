"""The bucket explorer: which offsets share one of T5's biases."""

import math

import torch

from llm_anatomy.layers.positions.buckets import T5Buckets, T5CausalBuckets
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

MOST_BUCKETS, FARTHEST = 64, 256
SAID = [
    "which no other offset shares", "shared by the offsets {first} to {last}", "shared by all offsets up to {last}",
    "shared by all offsets from {first} on",
]  # fmt: skip


class BucketExplorer(Widget):
    r"""Show the bucket of an offset, and all offsets that share it.

    .. math:: \mathrm{row}(r) = n\,[r > 0] + \begin{cases} |r| & |r| < e \\ \min\left(n - 1, \;
        e + \left\lfloor (n - e) \ln\frac{|r|}{e} \big/ \ln\frac{\mathrm{max}}{e} \right\rfloor\right) & |r| \geq e
        \end{cases}, \quad n = \frac{\mathrm{buckets}}{2}, \; e = \lfloor n / 2 \rfloor

    For the past only, n is the number of all buckets, and the future falls into bucket 0.

    Args:
        n_buckets: initial number of buckets, even, 4 to 64.
        max_distance: the distance up to which the buckets divide the logarithm; the last one begins before it. At most
            256, and above n_buckets / 4, up to which each distance has a bucket of its own.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for sizes that are not integers or outside these bounds.

    Source: Raffel et al. (2020), section 2.1, and T5's code; IITD-21.

    >>> BucketExplorer()
    Both directions, largest distance 128. Offset −20: bucket 10 of 32, shared by the offsets −22 to −16.
    """

    sentence = (
        "{direction}, largest distance {farthest}. Offset {offset}: bucket {bucket} of {n_buckets}, {said[case]}."
    )
    direction = Choice(["Both directions", "Past only"], label="offsets")

    def __init__(self, n_buckets=32, max_distance=128, *, caption: str = ""):
        whole("n_buckets", n_buckets, 4, MOST_BUCKETS, even=True)
        whole("max_distance", max_distance, n_buckets // 4 + 1, FARTHEST)
        sizes, farthest = sorted({8, 16, 32, 64, n_buckets}), sorted({32, 64, 128, 256, max_distance})
        both = [[[_ends(causal, n, far) for causal in (False, True)] for far in farthest] for n in sizes]
        self.sizes, self.farthest, self.ends = torch.tensor(sizes), torch.tensor(farthest), torch.tensor(both)
        reach, start = FARTHEST + FARTHEST // 4, -min(20, max_distance)
        controls = {"n_buckets": Choice(sizes, n_buckets, label="buckets")}
        controls["max_distance"] = Choice(farthest, max_distance, label="largest distance")
        offset = Slider(start, -reach, reach, hue="position", ends=("past", "future"))
        super().__init__(caption=caption, data={"said": SAID}, offset=offset, **controls)

    def compute(self, direction, offset, n_buckets, max_distance):
        first, last = self.ends[n_buckets, max_distance, direction].unbind()  # (buckets)
        n, rows = self.sizes[n_buckets], torch.arange(MOST_BUCKETS)
        farthest = torch.maximum(self.farthest[max_distance], n // (4 - 2 * direction) + 1)  # as in _ends
        bucket = ((first <= offset) & (offset <= last)).int().argmax()
        edge = torch.maximum(farthest + farthest // 4, offset.abs())
        left, right = (first - 0.5).clamp(min=-edge), (last + 0.5).clamp(max=edge)
        idle = first.isnan() & (rows < n)
        case = (first[bucket] < last[bucket]) * (1 + first[bucket].isinf() + 2 * last[bucket].isinf())
        shown = {"bucket": bucket, "first": first[bucket], "last": last[bucket], "case": case, "farthest": farthest}
        shown |= {"rows": rows, "left": left, "right": right, "from": left[bucket], "to": right[bucket], "top": n - 0.5}
        shown["ticks"] = farthest * torch.tensor([-1, 0, 1])
        return shown | {"low": -edge, "high": edge, "idle": idle.any(), "unused": rows.where(idle, torch.nan)}

    def marks(self):
        steps = m.arrows("right", "rows", x0="left", y0="rows", hue="normalization", width=3, head=False)
        chosen = m.arrows("to", "bucket", x0="from", y0="bucket", hue="position", width=5, head=False)
        layers = m.band("from", "to", hue="position"), steps, chosen, m.dots("offset", "bucket", hue="position")
        axes = {"x": m.axis("low", "high", "offset: key − query", ticks="ticks"), "y": m.axis(0, "top", "bucket")}
        title = "Offset {offset}: bucket {bucket} of {n_buckets}"
        chart = m.plot(*layers, **axes, title=title, hint="{said[case]}", height=300, pick={"x": "offset"})
        idle = m.note("{idle|Every bucket is used.|Buckets that are never used: }[[{unused}]]{idle||.}")
        return [chart, "offset", idle, "direction"]


def _ends(causal: bool, n: int, farthest: int) -> list:
    """Return the first and the last offset of each bucket: infinite if there is none, NaN for an unused bucket."""
    farthest = max(farthest, n // (2 if causal else 4) + 1)  # below it, each distance has a bucket of its own
    offsets = torch.arange(-farthest - 1, farthest + 2)
    rows = (T5CausalBuckets if causal else T5Buckets)(n, farthest)(offsets)
    shared = [offsets[rows == row].tolist() or [math.nan] for row in range(MOST_BUCKETS)]
    infinite = {-farthest - 1: -math.inf, farthest + 1: math.inf}
    return [[infinite.get(same[end], same[end]) for same in shared] for end in (0, -1)]
