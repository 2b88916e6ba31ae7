"""The decay explorer: the curve of RoPE's upper bound against the products that queries and keys really have."""

import torch

from llm_anatomy.layers.positions.rotary import decay_bound, rotate_complex
from llm_anatomy.notebook.figures import colours, figure
from llm_anatomy.notebook.widgets.base import PageWidget, above_one, first_rise, fixed, whole

FARTHEST, WIDEST, AIM = 256, 256, 40
WIDTHS, BASES = (16, 64, 128, 256), (100.0, 10000.0, 500000.0)
KINDS = ("q = k = 1", "q = k random", "random A", "random B", "random C", f"aimed {AIM} back")


class DecayExplorer(PageWidget):
    r"""Choose a query and a key, and compare their products with the curve that is said to show their decay.

    The paper's curve is :math:`\frac{1}{d/2} \sum_{i=1}^{d/2} |S_i|` with
    :math:`S_i = \sum_{j=1}^{i} e^{\mathrm{i} r \theta_j}` at distance r. It belongs to the bound
    :math:`|q^\top k| \le \max_i |h_{i+1} - h_i| \sum_i |S_i|`, where :math:`h_i` is the complex product of pair i and
    :math:`h_{d/2+1} = 0`. The product itself is :math:`\mathrm{Re} \sum_i h_i e^{\mathrm{i} r \theta_i}`.

    Args:
        d_head: width at first, even, 4 to 256; the reader may choose among it and 16, 64, 128, 256.
        base: at first, above 1; the reader may choose among it and 100, 10000, 500000.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a width that is odd, no whole number or outside these bounds, or a base of 1 or below.

    Source: Su et al. (2021), section 3.4.3; IITD-29, GT-36, CMU-28 (erratum E-72).

    >>> curve, bound, products = DecayExplorer().measure(128, 10000.0, 0)
    >>> round(curve[200], 2), round(bound[200]), round(products[200], 2), round(products[250], 2)
    (7.24, 927, 39.13, 39.3)
    """

    tools = ("choice", "parts", "chart")

    def __init__(self, d_head=128, base=10000.0, *, caption: str = ""):
        super().__init__(caption)
        self.d_head = whole("d_head", d_head, 4, WIDEST, even=True)
        self.base = above_one("base", base)

    def vectors(self, width: int, base: float | int, kind: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Query and key of one of KINDS, before they are turned, each (1, width)."""
        ones = torch.ones(1, width, dtype=torch.float64)
        if kind == 0:
            return ones, ones
        if kind == 5:  # turned back, so that the query meets the key where it stands AIM positions after it
            return rotate_complex(ones, -AIM * _speeds(width, base)[None]), ones
        drawn = torch.randn(7, WIDEST, generator=torch.Generator().manual_seed(0)).double().mul(100).round() / 100
        query = drawn[None, kind - 1, :width]
        return query, query if kind == 1 else drawn[None, kind + 2, :width]

    def measure(self, width: int, base: float | int, kind: int) -> tuple[list[float], list[float], list[float]]:
        """The paper's curve, the bound on the product's size, and the product, at each distance from 0 to 256."""
        distances, speeds = torch.arange(FARTHEST + 1), _speeds(width, base)
        query, key = self.vectors(width, base, kind)
        products = rotate_complex(query.expand(FARTHEST + 1, -1), distances[:, None] * speeds) @ key[0]
        curve = decay_bound(speeds, distances)
        largest_step = self.pair_products(width, base, kind).diff(append=torch.zeros(1)).abs().max()
        return curve.tolist(), (curve * (width // 2) * largest_step).tolist(), products.tolist()

    def pair_products(self, width: int, base: float | int, kind: int) -> torch.Tensor:
        """h: of each pair the query as a complex number times the key's conjugate."""
        query, key = (torch.view_as_complex(x.reshape(-1, 2)) for x in self.vectors(width, base, kind))
        return query * key.conj()

    def data(self) -> dict:
        widths, bases = sorted({*WIDTHS, self.d_head}), sorted({*BASES, self.base})
        drawn = [torch.view_as_real(self.pair_products(WIDEST, self.base, kind)).T.tolist() for kind in (1, 2, 3, 4)]
        return {
            "widths": widths,
            "bases": [_plain(base) for base in bases],
            "start": [widths.index(self.d_head), bases.index(self.base)],
            "kinds": KINDS,
            "aim": AIM,
            "farthest": FARTHEST,
            "drawn": [[[round(number, 4) + 0.0 for number in part] for part in pair] for pair in drawn],
        }

    def text(self) -> str:
        return self._sentence(self.d_head, self.base, 0, 100)

    def live(self):
        import ipywidgets as w

        controls = {
            "distance": w.IntSlider(100, min=0, max=FARTHEST, description="distance"),
            "kind": w.Dropdown(options=[(name, i) for i, name in enumerate(KINDS)], description="q and k"),
            "width": w.BoundedIntText(self.d_head, min=4, max=WIDEST, description="d_head"),
            "base": w.FloatText(self.base, description="base"),
        }
        return self.panel(controls, self._picture)

    def _picture(self, show, distance, kind, width, base):
        width, base = whole("d_head", width, 4, WIDEST, even=True), above_one("base", base)
        curve, _, products = self.measure(width, base, kind)
        with figure(
            "Do products fall with distance as the curve does?",
            alt=self._sentence(width, base, kind, distance),
            width=7.5,
            height=5.5,
            nrows=2,
            sharex=True,
            show=show,
        ) as (above, below):
            for ax, values, colour in ((above, curve, colours["position"]), (below, products, "black")):
                ax.axhline(0, color="#b9bdc3", linewidth=0.8)
                ax.plot(values, color=colour)
                ax.plot(distance, values[distance], "o", color=colour, markersize=9)
                if rise := first_rise(values):
                    ax.axvline(rise, color="#50555c", linestyle=":", linewidth=1.5, label=f"first rises at {rise}")
                    ax.legend(loc="upper right")
            above.set(ylabel="the paper's curve")
            below.set(ylabel=f"product, {KINDS[kind]}", xlabel="distance / positions")

    def _sentence(self, width, base, kind, distance) -> str:
        curve, bound, products = self.measure(width, base, kind)
        rises = [
            f"rises at distance {rise}" if (rise := first_rise(values)) else f"never rises up to {FARTHEST}"
            for values in (curve, products)
        ]
        return (
            f"A head {width} wide, base {_plain(base)}, {KINDS[kind]}, distance {distance}: the paper's curve is "
            f"{fixed(curve[distance], 2)}, its bound {fixed(bound[distance], 2)}, the product "
            f"{fixed(products[distance], 2)}. The curve first {rises[0]}, the product first {rises[1]}."
        ).replace("first never", "never")


def _speeds(width: int, base: float | int) -> torch.Tensor:
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def _plain(number: float) -> float | int:
    return int(number) if number == int(number) else number
