"""The rotor explorer: a query and a key, each turned by its position, in every plane of a head."""

import math

import torch
from matplotlib.patches import Circle

from llm_anatomy.layers.positions.rotary import rotate_complex
from llm_anatomy.notebook.figures import colours, figure
from llm_anatomy.notebook.widgets.base import PageWidget, above_one, fixed, whole

LAST_POSITION, WIDEST = 100, 16


class RotorExplorer(PageWidget):
    r"""Show a query and a key, rotated by their positions in each plane, and the share of each plane in their product.

    Plane i turns a query at position m by :math:`m\theta_i` and a key at n by :math:`n\theta_i`, with
    :math:`\theta_i = \mathrm{base}^{-2i/d}`. Where they then lie an angle :math:`\alpha_i` apart, the plane gives the
    product its share :math:`|q_i| \, |k_i| \cos \alpha_i`.

    Args:
        d_head: width of the head, even, 2 to 16: two entries for each plane.
        base: base of the frequencies, above 1; the larger, the slower the slow planes.
        query_position, key_position: initial positions, 0 to 100.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a width or a position that is not an integer within these bounds, an odd width, or a base of at
            most 1.

    Source: Su et al. (2021), section 3.2; IITD-25 to IITD-28, CMU-28, CMU-29, CMU-32, GT-34.

    >>> planes, product = RotorExplorer(8).rotate(2, 5, alike=True)
    >>> [round(share, 4) for _, _, _, share in planes], round(product, 4)
    ([-0.99, 0.9553, 0.9996, 1.0], 1.9649)
    """

    tools = ("choice", "parts")

    def __init__(self, d_head=8, base=10000.0, query_position=2, key_position=5, *, caption: str = ""):
        super().__init__(caption)
        self.d_head = whole("d_head", d_head, 2, WIDEST, even=True)
        self.base = above_one("base", base)
        self.query_position = whole("query_position", query_position, 0, LAST_POSITION)
        self.key_position = whole("key_position", key_position, 0, LAST_POSITION)

    def vectors(self, alike: bool) -> tuple[list[float], list[float]]:
        """Return query and key before their rotation, along the first axis of each plane or in various directions."""
        if alike:
            return [1.0, 0.0] * (self.d_head // 2), [1.0, 0.0] * (self.d_head // 2)
        planes = range(self.d_head // 2)
        query = [(1.3 - 0.2 * (i % 3), 0.6 + 2.4 * i) for i in planes]  # length and direction
        key = [(0.8 + 0.2 * (i % 2), 1.7 + 3.9 * i) for i in planes]
        return tuple(
            [round(length * turn(angle), 2) for length, angle in vector for turn in (math.cos, math.sin)]
            for vector in (query, key)
        )

    def rotate(self, m: int, n: int, alike: bool) -> tuple[list[tuple], float]:
        """Return rotated query, rotated key, angle between them and share of each plane, and the sum of the shares."""
        frequencies = self.base ** (-torch.arange(0, self.d_head, 2, dtype=torch.float64) / self.d_head)
        vectors = torch.tensor(self.vectors(alike), dtype=torch.float64)
        turned = rotate_complex(vectors, torch.tensor([[m], [n]]) * frequencies)
        query, key = turned.view(2, -1, 2)  # (planes, two) each
        shares = (query * key).sum(-1)
        across = query[:, 0] * key[:, 1] - query[:, 1] * key[:, 0]
        planes = zip(*(x.tolist() for x in (query, key, torch.atan2(across, shares), shares)), strict=True)
        return list(planes), shares.sum().item()

    def data(self) -> dict:
        vectors, at = [self.vectors(alike) for alike in (False, True)], [self.query_position, self.key_position]
        return {"base": self.base, "last": LAST_POSITION, "vectors": vectors, "at": at}

    def text(self) -> str:
        return self._sentence(self.query_position, self.key_position, True)

    def live(self):
        import ipywidgets as w

        style = {"description_width": "100px"}
        controls = {
            "m": w.IntSlider(self.query_position, min=0, max=LAST_POSITION, description="query position", style=style),
            "n": w.IntSlider(self.key_position, min=0, max=LAST_POSITION, description="key position", style=style),
            "alike": w.Checkbox(True, description="q and k alike"),
            "d_head": w.BoundedIntText(self.d_head, min=2, max=WIDEST, description="d_head", style=style),
            "base": w.FloatText(self.base, description="base", style=style),
        }
        return self.panel(controls, self._picture)

    def _picture(self, show, m, n, alike, d_head, base):
        RotorExplorer(d_head, base)._draw(show, m, n, alike)

    def _draw(self, show, m, n, alike):
        planes, product = self.rotate(m, n, alike)
        reach = 1.15 * max(math.hypot(*arrow) for plane in planes for arrow in plane[:2])
        columns = min(4, len(planes))
        with figure(
            f"Query at {m}, key at {n}: what does each plane add to the product {fixed(product, 2)}?",
            alt=self._sentence(m, n, alike),
            width=7.5,
            height=0.6 + 2.6 * math.ceil(len(planes) / columns),
            nrows=math.ceil(len(planes) / columns),
            ncols=columns,
            show=show,
        ) as axes:
            dials = list(getattr(axes, "flat", [axes]))
            for spare in dials[len(planes) :]:
                spare.set_axis_off()
            for i, (dial, (query, key, angle, share)) in enumerate(zip(dials, planes, strict=False)):
                for arrow, name, width in ((query, "query", 4.5), (key, "key", 2)):
                    style = {"arrowstyle": "->", "color": colours[name], "lw": width, "shrinkA": 0, "shrinkB": 0}
                    dial.annotate("", arrow, (0, 0), arrowprops=style)
                dial.add_patch(Circle((0, 0), reach / 1.15, fill=False, edgecolor="#b9bdc3"))
                dial.spines[:].set_visible(False)
                dial.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
                dial.set(title=f"plane {i}", ylabel=" ", xlabel=f"{_degrees(angle)} apart\nshare {fixed(share, 2)}")

    def _sentence(self, m, n, alike) -> str:
        planes, product = self.rotate(m, n, alike)
        apart = ", ".join(_degrees(angle) for _, _, angle, _ in planes)
        shares = ", ".join(fixed(share, 2) for *_, share in planes)
        return (
            f"Query at position {m}, key at {n}, offset {fixed(n - m, 0)}, q and k {'alike' if alike else 'unlike'}. "
            f"The planes are {apart} apart and give {shares}: the product is {fixed(product, 2)}, the score "
            f"{fixed(product / math.sqrt(self.d_head), 2)}."
        )


def _degrees(angle: float) -> str:
    return f"{fixed(abs(angle) * 180 / math.pi, 1)}°"
