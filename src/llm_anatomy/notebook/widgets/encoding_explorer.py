"""The encoding explorer: the sinusoidal encoding as a picture, and a comparison of two of its rows."""

import torch

from llm_anatomy.layers.positions.absolute import Sinusoidal
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider


class EncodingExplorer(Widget):
    r"""Compare two positions of the encoding: their dot product depends on their distance alone.

    With the frequencies :math:`\omega_t = 10000^{-2t/d}` of the pairs, two positions k apart have the dot product
    :math:`\sum_t \cos \omega_t k`, and their pairs t are :math:`2 \left|\sin(\omega_t k / 2)\right|` apart.

    Args:
        n_positions: number of rows of the picture, 2 to 200.
        d_model: initial width, even, 2 to 512; the reader chooses between it and 4, 32, 128, 512.
        first, second: the two initial positions, from 0, in any order.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a size or a position that is not an integer within these bounds, or an odd width.

    Source: Vaswani et al. (2017), section 3.5; IITD-10, IITD-12, IITD-14, GT-28 (erratum E-71).

    >>> EncodingExplorer(first=4, second=9)  # 1.1969 = 2 sin(5 / 2)  # doctest: +NORMALIZE_WHITESPACE
    Positions 4 and 9, 128 wide: distance 5, dot product 47.19 of at most 64. The fastest pair differs by 1.1969, the
    slowest by 0.000577. The dot product first rises again at distance 12.
    """

    sentence = (
        "Positions {first} and {position}, {d_model} wide: distance {apart}, dot product {product:.2f} of at most "
        "{most}. The fastest pair differs by {fastest:.4f}, the slowest by {slowest:.6f}. The dot product "
        "{rises|falls at each step up to {last}|first rises again at distance {rise}}."
    )

    def __init__(self, n_positions=50, d_model=128, first=4, second=9, *, caption: str = ""):
        last = whole("n_positions", n_positions, 2, 200) - 1
        widths = sorted({4, 32, 128, 512, whole("d_model", d_model, 2, 512, even=True)})
        low, high = sorted((whole("first", first, 0, last), whole("second", second, 0, last)))
        position = Slider(high, "distance", last)  # it moves both: the other one stays so far back
        distance, width = Slider(high - low, 0, last, label="distance back"), Choice(widths, d_model, fixed=True)
        super().__init__(caption=caption, data={"last": last}, distance=distance, position=position, d_model=width)

    def compute(self, position, distance, d_model):
        code = Sinusoidal(d_model).encoding(torch.arange(self.data["last"] + 1), torch.float64).float()
        products, first = code @ code[0], (position - distance).clamp(min=0)
        differences = (code[first] - code[position]).view(-1, 2).square().sum(-1).sqrt()
        step = max(d_model // 64, 1)  # one pair in so many is drawn
        drawn, apart = code.view(len(code), -1, 2)[:, ::step].flatten(1), position - first
        most, pairs, columns = torch.tensor([d_model // 2, step, (drawn.shape[1] - 1) / 2]).unbind()
        return first_rise(products, "rise") | {
            "first": first, "both": torch.stack((first, position)), "apart": apart, "drawn": drawn, "pairs": pairs,
            "differences": differences[::step], "fastest": differences[0], "slowest": differences[-1], "most": most,
            "products": products, "product": products[apart], "columns": columns, "lowest": products.min().clamp(max=0),
        }  # fmt: skip

    def marks(self):
        last = self.data["last"]
        code = m.plot(
            m.cells("drawn", frame="both", scale=True), y=m.axis(last + 0.5, -0.5, ticks=sorted({0, last // 2, last})),
            title="The encoding", pick={"y": "position"}, height=min(max(200, 6 * last), 420),
            hint="a row for each position, a column for each coordinate{pairs|||; one pair in {pairs} is drawn}",
        )  # fmt: skip
        pairs = m.plot(
            m.bars("differences", hue="position"), x=m.axis(-0.5, "columns", ticks=[]), y=m.axis(0, 2), height=100,
            title="Difference of the two rows", hint="how far apart they are, pair by pair",
        )  # fmt: skip
        products = m.plot(
            m.rule(x="rise", label="first rises at {rise}"), m.line("products", hue="position"),
            m.dots("apart", "product", label="{product:.2f}"), x=m.axis(0, last, "distance / positions"),
            y=m.axis("lowest", "most"), pick={"x": "distance"}, title="Dot product against distance",
            hint="the same for all pairs of positions at a distance",
        )  # fmt: skip
        names = ("distance", "dot product, at most {most}", "fastest pair differs by", "slowest pair differs by")
        values = ("{apart}", "{product:.2f}", "{fastest:.4f}", "{slowest:.6f}")
        return [code, pairs, "position", "distance", m.facts(**dict(zip(names, values, strict=True))), products]


def first_rise(values: torch.Tensor, name: str) -> dict[str, torch.Tensor]:
    """Return the first index at which the values rise, NaN if they never do, and whether they do, as name + "s"."""
    rises = values.diff() > 1e-3  # float32 errs by less
    return {name: torch.where(rises.any(), rises.float().argmax() + 1.0, torch.nan), f"{name}s": rises.any()}
