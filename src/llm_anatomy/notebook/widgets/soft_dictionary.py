"""The soft dictionary: a query is compared with keys in the plane, and the values are averaged."""

import math

import torch

from llm_anatomy.layers.functional import scaled_dot_product_attention
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import finite
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Point, Slider


class SoftDictionary(Widget):
    """Show weights and output of a soft lookup for a query and a temperature.

    The weights are softmax(q·k / T), the output is the average of the values with these weights; at T = 0 it is the
    value of the best key, the first one on a tie.

    Args:
        keys: one point (x, y) per entry.
        values: one point (x, y) per entry.
        query: the initial query, a point (x, y).
        temperature: the initial temperature: 0 for the hard lookup, or at least 0.001.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for points that are not two finite numbers, lists that differ in length, or any other temperature.

    Source: UCL-17, UCL-18; the softmax over the scores from Bahdanau et al. (2015), section 3.1.

    >>> SoftDictionary([[1, 0], [0, 1]], [[1, 1], [-1, 1]])  # doctest: +NORMALIZE_WHITESPACE
    Query (0.80, 0.20) at temperature 1: key 1 has score 0.80 and weight 0.6457; key 2 has score 0.20 and weight 0.3543;
    the output is (0.2913, 1.0000).
    """

    sentence = (
        "Query ({query[0]:.2f}, {query[1]:.2f}) at temperature {temperature}: [[key {#} has score {scores:.2f} and "
        "weight {weights:.4f}||; ]]; the output is ({output[0]:.4f}, {output[1]:.4f})."
    )

    def __init__(self, keys, values, query=(0.8, 0.2), temperature=1.0, *, caption: str = ""):
        self.points, self.entries = _points("keys", keys), _points("values", values)
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys cannot have {len(values)} values; each key needs one value")
        (query,), temperature = _points("query", [query]), finite("temperature", temperature)
        if temperature and temperature < 0.001:
            raise ValueError(f"{temperature=}; it must be 0 for the hard lookup, or at least 0.001")
        reach = _reach([*self.points.tolist(), query.tolist()])
        step = 10 ** math.floor(math.log10(reach)) / 100
        self.reach, self.value_reach = reach, _reach(self.entries.tolist())
        heat = Slider(temperature, 0.0, max(4.0, temperature), step=0.01, curve=2, ends=("hard", "soft"))
        names = [f"key {n}" for n in range(1, len(keys) + 1)]
        super().__init__(
            caption=caption,
            data={"names": names},
            query=Point(query.tolist(), reach, step=step, hue="query"),
            temperature=heat,
        )

    def compute(self, query, temperature):
        scores = self.points @ query
        warm = query / temperature.clamp(min=1e-6)  # the hard lookup does not divide
        inputs = (x[None, None] for x in (warm[None], self.points, self.entries))
        _, soft = scaled_dot_product_attention(*inputs, scale=1.0, return_weights=True)
        hard = torch.nn.functional.one_hot(scores.argmax(), len(self.points)).float()
        weights = torch.where(temperature > 0, soft[0, 0, 0], hard)
        output = weights @ self.entries
        ends = {
            "key_x": self.points[:, 0],
            "key_y": self.points[:, 1],
            "x": self.entries[:, 0],
            "y": self.entries[:, 1],
        }
        return {"scores": scores, "weights": weights, "output": output, "pull": 7 * weights} | ends

    def marks(self):
        left, right = ({"x": m.axis(-r, r), "y": m.axis(-r, r), "aspect": 1} for r in (self.reach, self.value_reach))
        keys = m.plot(
            m.arrows("key_x", "key_y", hue="key", label="key"),
            m.arrows("query[0]", "query[1]", hue="query", head=False, label="query"),
            m.handle("query"),
            title="Keys and query", hint="drag the query", **left,
        )  # fmt: skip
        weights = m.plot(
            m.bars("weights", hue="weights", across=True, text="{value:.4f}"),
            x=m.axis(0, 1.3, ticks=[0, 1]), y=m.axis(labels="names", hue="key"),
            title="Weights", hint="softmax(q·k / T)", height=60 + 36 * len(self.points),
        )  # fmt: skip
        values = m.plot(
            m.arrows("x", "y", x0="output[0]", y0="output[1]", hue="weights", width="pull", head=False),
            m.dots("x", "y", hue="value", size=5, label="value"),
            m.dots("output[0]", "output[1]", hue="value", size=9, diamond=True, label="output"),
            title="Values and output", hint="output ({output[0]:.4f}, {output[1]:.4f})", **right,
        )  # fmt: skip
        return [m.row(keys, weights, values)]


def _points(name: str, points) -> torch.Tensor:
    if not isinstance(points, list | tuple | torch.Tensor) or not len(points):
        raise ValueError(f"{name}={points!r}; it must be a non-empty list of points")
    for i, point in enumerate(points):
        where = f"{name}[{i}]" if len(points) > 1 else name
        if not isinstance(point, list | tuple | torch.Tensor) or len(point) != 2:
            raise ValueError(f"{where}={point!r}; it must be two numbers, x and y")
        for number in point:
            finite(where, number)
    return torch.tensor([[float(number) for number in point] for point in points])


def _reach(points) -> float:
    """Return half the side of the plane that is shown: a round number a little beyond the farthest coordinate."""
    farthest = max(abs(coordinate) for point in points for coordinate in point) or 1.0
    unit = 10 ** math.floor(math.log10(farthest)) / 2
    return math.ceil(1.25 * farthest / unit) * unit
