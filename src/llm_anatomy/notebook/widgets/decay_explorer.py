"""The decay explorer: the curve of RoPE's upper bound, compared with the actual products of queries and keys."""

import torch
import torch.nn.functional as F

from llm_anatomy.layers.positions.rotary import Frequencies, decay_bound, multiply_pairs, rotate_complex
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import above_one, whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider
from llm_anatomy.notebook.widgets.encoding_explorer import first_rise

FARTHEST, AIM = 256, 40
KINDS = ("ones", "random, equal", "random pair A", "random pair B", "random pair C", f"aimed {AIM} back")


class DecayExplorer(Widget):
    r"""Compare the products of a query and a key with the curve of the paper's bound.

    The paper's curve is :math:`\frac{1}{d/2} \sum_{i=1}^{d/2} |S_i|` with
    :math:`S_i = \sum_{j=1}^{i} e^{\mathrm{i} r \theta_j}` at distance r. It belongs to the bound
    :math:`|q^\top k| \le \max_i |h_{i+1} - h_i| \sum_i |S_i|`, where :math:`h_i` is the complex product of pair i and
    :math:`h_{d/2+1} = 0`. The product itself is :math:`\mathrm{Re} \sum_i h_i e^{\mathrm{i} r \theta_i}`.

    Args:
        d_head: initial width, even, 4 to 256; the reader chooses between it and 16, 64, 128, 256.
        base: initial base, above 1; the reader chooses between it and 100, 10000, 500000.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a width that is odd, not an integer or outside these bounds, or a base of 1 or below.

    Source: Su et al. (2021), section 3.4.3; IITD-29, GT-36, CMU-28 (erratum E-72).

    >>> DecayExplorer(128, 10000.0)  # doctest: +NORMALIZE_WHITESPACE
    A head of width 128, base 10000, query and key: ones. At distance 100 the paper's curve is 10.23, its bound 1309.10,
    and the product 61.09. The curve first rises at distance 19, the product first rises at distance 12. The product is
    largest at distance 0.
    """

    sentence = (
        "A head of width {d_head}, base {base}, query and key: {vectors}. At distance {distance} the paper's curve is "
        "{curve:.2f}, its bound {bound:.2f}, and the product {product:.2f}. "
        "The curve {curve_rises|never rises|first rises at distance {curve_rise}}, "
        "the product {product_rises|never rises|first rises at distance {product_rise}}. "
        "The product is largest at distance {peak}."
    )

    def __init__(self, d_head=128, base=10000.0, *, caption: str = ""):
        widths = sorted({16, 64, 128, 256, whole("d_head", d_head, 4, 256, even=True)})
        bases = [int(b) if b == int(b) else b for b in sorted({100.0, 10000.0, 500000.0, above_one("base", base)})]
        self.frequencies = {width: torch.stack([Frequencies()(width, float(b)) for b in bases]) for width in widths}
        self.drawn = (100 * torch.randn(7, 256, generator=torch.Generator().manual_seed(0))).round() / 100
        distance, vectors = Slider(100, 0, FARTHEST), Choice(KINDS, label="query and key")
        width, base = Choice(widths, d_head, fixed=True), Choice(bases, base)
        super().__init__(caption=caption, distance=distance, vectors=vectors, d_head=width, base=base)

    def compute(self, distance, vectors, d_head, base):
        distances, frequencies = torch.arange(FARTHEST + 1), self.frequencies[d_head][base]
        ones, drawn = torch.ones(1, d_head), self.drawn[:, :d_head]
        aimed = rotate_complex(ones, -AIM * frequencies[None])  # the query matches a key AIM positions before it
        query = torch.cat((ones, drawn[:4], aimed))[vectors]
        key = torch.cat((ones, drawn[:1], drawn[4:], ones))[vectors]
        products = rotate_complex(query.expand(FARTHEST + 1, -1), distances[:, None] * frequencies) @ key
        curve = decay_bound(frequencies, distances)
        h = multiply_pairs(query, torch.stack((key[0::2], -key[1::2]), -1)).view(-1, 2)  # (pairs, real and imaginary)
        largest_step = (F.pad(h, (0, 0, 0, 1))[1:] - h).square().sum(-1).sqrt().max()
        return first_rise(curve, "curve_rise") | first_rise(products, "product_rise") | {
            "curves": curve, "curve": curve[distance], "bound": curve[distance] * (d_head // 2) * largest_step,
            "products": products, "product": products[distance], "peak": products.argmax(),
            "highest": 1.15 * curve.max(), "low": products.min().clamp(max=0), "high": 1.15 * products.max(),
        }  # fmt: skip

    def marks(self):
        across = {"x": m.axis(0, FARTHEST, "distance / positions"), "pick": {"x": "distance"}}
        curve = m.plot(
            m.rule(x="curve_rise", label="first rises at {curve_rise}"), m.line("curves", hue="position"),
            m.dots("distance", "curve", hue="position", label="{curve:.2f}"), y=m.axis(0, "highest"), height=180,
            title="The paper's curve", hint="the mean of |Sᵢ|; it enters an upper bound", **across,
        )  # fmt: skip
        product = m.plot(
            m.rule(x="product_rise", label="first rises at {product_rise}"), m.line("products"),
            m.dots("distance", "product", label="{product:.2f}"), y=m.axis("low", "high"),
            title="The product of query and key", **across,
            hint=f"equal vectors peak at distance 0, the aimed query at {AIM}, random pairs anywhere",
        )  # fmt: skip
        facts = {
            "the paper's curve": "{curve:.2f}",
            "the paper's bound": "{bound:.2f}",
            "the product": "{product:.2f}",
        }
        return [curve, product, m.facts(**facts, **{"the product is largest at distance": "{peak}"})]
