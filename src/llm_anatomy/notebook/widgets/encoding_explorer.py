"""The encoding explorer: the sinusoidal encoding as a picture, and what two of its rows have in common."""

import torch

from llm_anatomy.layers.positions.absolute import Sinusoidal
from llm_anatomy.notebook.figures import colours, figure, signed_map
from llm_anatomy.notebook.widgets.base import PageWidget, first_rise, fixed, whole

MOST_PLACES, WIDEST = 200, 512
WIDTHS = (4, 32, 128, 512)


class EncodingExplorer(PageWidget):
    r"""Move two positions over the encoding, and see that their dot product knows their distance and nothing else.

    With the speeds :math:`\omega_t = 10000^{-2t/d}` of the pairs, two positions k apart have the dot product
    :math:`\sum_t \cos \omega_t k`, and pair t of theirs differs by :math:`2 \left|\sin(\omega_t k / 2)\right|`.

    Args:
        n_positions: rows of the picture, 2 to 200.
        d_model: width at first, even, 2 to 512; the reader may choose among it and 4, 32, 128, 512.
        first, second: the two positions at first, from 0.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a size or a position that is no whole number within these bounds, or an odd width.

    Source: Vaswani et al. (2017), section 3.5; IITD-10, IITD-12, IITD-14, GT-28 (erratum E-71).

    >>> widget = EncodingExplorer(first=4, second=9)
    >>> round(widget.dot_products(128)[5], 2), round(widget.differences(4, 9, 128)[0], 2)  # 2 sin(5 / 2)
    (47.19, 1.2)
    """

    tools = ("choice", "parts", "chart")

    def __init__(self, n_positions=50, d_model=128, first=4, second=9, *, caption: str = ""):
        super().__init__(caption)
        self.n_positions = whole("n_positions", n_positions, 2, MOST_PLACES)
        self.d_model = whole("d_model", d_model, 2, WIDEST, even=True)
        self.first = whole("first", first, 0, n_positions - 1)
        self.second = whole("second", second, 0, n_positions - 1)

    def encoding(self, width: int) -> torch.Tensor:
        """(positions, width): the package's sinusoids, in double precision."""
        return Sinusoidal(width).encoding(torch.arange(self.n_positions), torch.float64)

    def dot_products(self, width: int) -> list[float]:
        """Of two positions, by their distance, from 0 on."""
        encoding = self.encoding(width)
        return (encoding @ encoding[0]).tolist()

    def differences(self, first: int, second: int, width: int) -> list[float]:
        """How far apart two positions are in each pair of coordinates, the fastest pair first."""
        encoding = self.encoding(width)
        return (encoding[first] - encoding[second]).view(-1, 2).norm(dim=-1).tolist()

    def data(self) -> dict:
        widths = sorted({*WIDTHS, self.d_model})
        start = widths.index(self.d_model)
        return {"positions": self.n_positions, "widths": widths, "start": start, "pair": [self.first, self.second]}

    def text(self) -> str:
        return self._sentence(self.first, self.second, self.d_model)

    def live(self):
        import ipywidgets as w

        controls = {
            "first": w.IntSlider(self.first, min=0, max=self.n_positions - 1, description="first place"),
            "second": w.IntSlider(self.second, min=0, max=self.n_positions - 1, description="second position"),
            "width": w.BoundedIntText(self.d_model, min=2, max=WIDEST, description="d_model"),
        }
        return self.panel(controls, self._picture)

    def _picture(self, show, first, second, width):
        width = whole("d_model", width, 2, WIDEST, even=True)
        products, apart = self.dot_products(width), self.differences(first, second, width)
        with figure(
            "What do two positions have in common?",
            alt=self._sentence(first, second, width),
            width=7.5,
            height=8,
            nrows=3,
            show=show,
        ) as (whole_map, pairs, curve):
            extent = (0, width, self.n_positions - 0.5, -0.5)
            style = {"cmap": signed_map, "vmin": -1, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
            whole_map.imshow(self.encoding(width).numpy(), extent=extent, **style)
            for position, line in ((first, "-"), (second, "--")):
                whole_map.axhspan(position - 0.5, position + 0.5, facecolor="none", edgecolor="black", ls=line, lw=1.6)
            whole_map.set(xlabel="coordinate, sine and cosine in turn", ylabel="position", yticks=[first, second])
            pairs.bar(range(1, width, 2), apart, width=2, color=colours["position"])
            pairs.set(xlim=(0, width), ylim=(0, 2), xlabel="the same coordinates, in pairs", ylabel="difference")
            curve.plot(products, color=colours["position"])
            curve.plot([0, abs(first - second)], [products[0], products[abs(first - second)]], "o", color="black")
            if rise := first_rise(products):
                curve.axvline(rise, color="#50555c", linestyle=":", linewidth=1.5, label=f"first rises at {rise}")
                curve.legend(loc="upper right")
            curve.set(xlabel="distance / positions", ylabel="dot product")

    def _sentence(self, first, second, width) -> str:
        products, apart = self.dot_products(width), self.differences(first, second, width)
        distance, rise, last = abs(first - second), first_rise(products), self.n_positions - 1
        ripple = f"falls at each step up to {last}" if rise is None else f"first rises again at distance {rise}"
        return (
            f"Positions {first} and {second}, {width} wide: distance {distance}, dot product "
            f"{fixed(products[distance], 2)} of at most {width // 2}. The fastest pair differs by "
            f"{fixed(apart[0], 4)}, the slowest by {fixed(apart[-1], 6)}. The dot product {ripple}."
        )
