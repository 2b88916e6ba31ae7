"""The soft dictionary: a query is compared with keys in the plane, and averages their values."""

import json
import math

import torch

from llm_anatomy.layers.functional import scaled_dot_product_attention
from llm_anatomy.notebook.figures import colours, figure
from llm_anatomy.notebook.widgets.base import PageWidget, finite, fixed, parsed


class SoftDictionary(PageWidget):
    """Drag the query, and see the weights and the output move; the temperature leads from hard to soft.

    The weights are softmax(q·k / T), the output is the average of the values with these weights; at T = 0 it is the
    value of the best key, the first one on a tie.

    Args:
        keys: one point (x, y) per entry.
        values: one point (x, y) per entry.
        query: the point asked for at first.
        temperature: at first; 0 for the hard lookup, or at least 0.001.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for points that are not two finite numbers, lists that differ in length, or a temperature below.

    Source: UCL-17, UCL-18; the softmax over the scores from Bahdanau et al. (2015), section 3.1.

    >>> SoftDictionary([[1, 0], [0, 1]], [[1, 1], [-1, 1]]).look_up((0.8, 0.2), 0)[1:]
    ([1.0, 0.0], [1.0, 1.0])
    """

    tools = ("plane",)

    def __init__(self, keys, values, query=(0.8, 0.2), temperature=1.0, *, caption: str = ""):
        super().__init__(caption)
        self.keys, self.values = _points("keys", keys), _points("values", values)
        if len(self.keys) != len(self.values):
            raise ValueError(f"{len(self.keys)} keys cannot have {len(self.values)} values; each key needs one value")
        self.query = _point("query", query)
        self.temperature = _temperature(temperature)

    def look_up(self, query, temperature) -> tuple[list[float], list[float], list[float]]:
        """Scores, weights and output for a query, with the package's attention in double precision."""
        query, keys, values = (torch.tensor(x, dtype=torch.float64) for x in ([query], self.keys, self.values))
        scores = query @ keys.T
        if temperature == 0:
            weights = torch.nn.functional.one_hot(scores.argmax(-1), len(keys)).double()
            output = weights @ values
        else:
            batch = (x[None, None] for x in (query, keys, values))
            output, weights = scaled_dot_product_attention(*batch, scale=1 / temperature, return_weights=True)
        return tuple(x.flatten().tolist() for x in (scores, weights, output))

    def text(self) -> str:
        return self._sentence(self.query, self.temperature)

    def data(self) -> dict:
        reach = _reach([*self.keys, self.query])
        return {
            "keys": self.keys,
            "values": self.values,
            "query": self.query,
            "temperature": self.temperature,
            "reach": reach,
            "step": 10 ** math.floor(math.log10(reach)) / 100,
            "value_reach": _reach(self.values),
            "hottest": max(4.0, self.temperature),
        }

    def live(self):
        import ipywidgets as w

        style = {"description_width": "90px"}
        controls = {
            "x": w.FloatText(self.query[0], description="query x", step=0.1, style=style),
            "y": w.FloatText(self.query[1], description="query y", step=0.1, style=style),
            "temperature": w.FloatSlider(
                self.temperature, description="temperature", min=0, max=self.data()["hottest"], step=0.05, style=style
            ),
            "keys": w.Text(json.dumps(self.keys), description="keys", continuous_update=False, style=style),
            "values": w.Text(json.dumps(self.values), description="values", continuous_update=False, style=style),
        }
        return self.panel(controls, self._picture)

    def _picture(self, show, x, y, temperature, keys, values):
        points = {"keys": keys, "values": values}
        points = {name: parsed(name, text, "[[1, 0], [0, 1]]") for name, text in points.items()}
        SoftDictionary(**points, query=(x, y), temperature=temperature)._draw(show)

    def _draw(self, show):
        _, weights, output = self.look_up(self.query, self.temperature)
        title = "Which key does the query match, and what comes out?"
        with figure(title, alt=self.text(), width=7.5, height=4, ncols=2, show=show) as axes:
            for ax, name, points in ((axes[0], "key", [*self.keys, self.query]), (axes[1], "value", self.values)):
                reach = _reach(points)
                ax.axhline(0, color="#b9bdc3", linewidth=0.8, zorder=0)
                ax.axvline(0, color="#b9bdc3", linewidth=0.8, zorder=0)
                ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="x", ylabel="y")
                for n, point in enumerate(points[: len(self.keys)], 1):
                    _label(ax, point, f"{name} {n}", colours[name])
            arrow = {"arrowstyle": "->", "color": colours["key"], "lw": 2, "shrinkA": 0, "shrinkB": 0}
            for key in self.keys:
                axes[0].annotate("", key, (0, 0), arrowprops=arrow)
            axes[0].plot(*zip((0, 0), self.query, strict=True), color=colours["query"])
            axes[0].plot(*self.query, "o", color=colours["query"], markersize=9)
            _label(axes[0], self.query, "query", colours["query"])
            for value, weight in zip(self.values, weights, strict=True):
                line = zip(output, value, strict=True)
                axes[1].plot(*line, color=colours["weights"], alpha=0.5, linewidth=6 * weight, zorder=1)
                axes[1].plot(*value, "o", color=colours["value"])
            axes[1].plot(*output, "D", color=colours["value"], markersize=10, markeredgecolor="black")
            axes[1].annotate("output", output, (0, -20), textcoords="offset points", ha="center")

    def _sentence(self, query, temperature) -> str:
        scores, weights, output = self.look_up(query, temperature)
        each = "; ".join(
            f"key {n} has score {fixed(score, 2)} and weight {fixed(weight, 4)}"
            for n, (score, weight) in enumerate(zip(scores, weights, strict=True), 1)
        )
        return (
            f"Query ({fixed(query[0], 2)}, {fixed(query[1], 2)}) at temperature {round(temperature, 4):g}: {each}; "
            f"the output is ({fixed(output[0], 4)}, {fixed(output[1], 4)})."
        )


def _label(ax, point, words, color) -> None:
    """A word beside a point, on the side away from the origin."""
    norm = math.hypot(*point) or 1
    side, up = (coordinate / norm for coordinate in point)
    position = {"ha": "left" if side > 0.4 else "right" if side < -0.4 else "center", "va": "center"}
    ax.annotate(words, point, (9 * side, 12 * up), textcoords="offset points", color=color, **position)


def _point(name: str, point) -> list[float]:
    point = list(point) if isinstance(point, list | tuple | torch.Tensor) else point
    if not isinstance(point, list) or len(point) != 2:
        raise ValueError(f"{name}={point!r}; it must be two numbers, x and y")
    return [finite(name, number) for number in point]


def _points(name: str, points) -> list[list[float]]:
    if not isinstance(points, list | tuple | torch.Tensor) or not len(points):
        raise ValueError(f"{name}={points!r}; it must be a list of points, at least one")
    return [_point(f"{name}[{i}]", point) for i, point in enumerate(points)]


def _temperature(temperature) -> float:
    temperature = finite("temperature", temperature)
    if temperature and temperature < 0.001:
        raise ValueError(f"{temperature=}; it must be 0 for the hard lookup, or at least 0.001")
    return temperature


def _reach(points) -> float:
    """Half the side of the plane that is shown: a little beyond the farthest coordinate, a round number."""
    farthest = max(abs(coordinate) for point in points for coordinate in point) or 1.0
    unit = 10 ** math.floor(math.log10(farthest)) / 2
    return math.ceil(1.25 * farthest / unit) * unit
