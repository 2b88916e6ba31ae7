"""The rotor explorer: a query and a key, each turned by its position, in every plane of a head."""

import math

import torch

from llm_anatomy.layers.positions.rotary import Frequencies, rotate_complex
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import above_one, whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider


class RotorExplorer(Widget):
    r"""Show a query and a key, rotated by their positions in each plane, and the share of each plane in their product.

    Plane i turns a query at position m by :math:`m\theta_i` and a key at n by :math:`n\theta_i`, with
    :math:`\theta_i = \mathrm{base}^{-2i/d}`. Where they then lie an angle :math:`\alpha_i` apart, the plane gives the
    product its share :math:`|q_i| \, |k_i| \cos \alpha_i`. A third slider moves both positions on together.

    Args:
        d_head: width of the head, even, 2 to 16: two entries for each plane.
        base: base of the frequencies, above 1; the larger, the slower the slow planes.
        query_position, key_position: initial positions, 0 to 100.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a width or a position that is not an integer within these bounds, an odd width, or a base of at
            most 1.

    Source: Su et al. (2021), section 3.2; IITD-25 to IITD-28, CMU-28, CMU-29, CMU-32, GT-34.

    >>> RotorExplorer(8)  # doctest: +NORMALIZE_WHITESPACE
    The query is at position 2, the key at 5, offset 3, and their vectors are alike. In the planes they are 171.9°,
    17.2°, 1.7°, 0.2° apart. The planes add −0.99, 0.96, 1.00, 1.00: the product is 1.96, the score 0.69.
    """

    sentence = (
        "The query is at position {query_at}, the key at {key_at}, offset {offset}, and their vectors are {vectors}. "
        "In the planes they are [[{apart:.1f}°]] apart. The planes add [[{shares:.2f}]]: the product is {product:.2f}, "
        "the score {score:.2f}."
    )

    def __init__(self, d_head=8, base=10000.0, query_position=2, key_position=5, *, caption: str = ""):
        planes = range(whole("d_head", d_head, 2, 16, even=True) // 2)
        self.frequencies = Frequencies()(d_head, above_one("base", base))
        query = Slider(whole("query_position", query_position, 0, 100), 0, 100, label="query at", hue="query")
        key = Slider(whole("key_position", key_position, 0, 100), 0, 100, label="key at", hue="key")
        various = (
            [(1 - 0.15 * (i % 3), 0.6 + 2.4 * i) for i in planes],
            [(0.7 + 0.2 * (i % 2), 1.7 + 3.9 * i) for i in planes],
        )
        unlike = [[r * turn(a) for r, a in arrows for turn in (math.cos, math.sin)] for arrows in various]
        self.starts = torch.tensor([[[1.0, 0.0] * len(planes)] * 2, unlike])  # (alike or unlike, query and key, d_head)
        names = [f"plane {i}, θ = {theta:.3g}" for i, theta in enumerate(self.frequencies.tolist())]
        data = {"names": names, "planes": [str(i) for i in planes]}
        both, vectors = Slider(0, 0, 100, label="move both by"), Choice(["alike", "unlike"], label="vectors")
        super().__init__(caption=caption, data=data, query=query, key=key, both=both, vectors=vectors)

    def compute(self, query, key, both, vectors):
        at = torch.stack((query, key)) + both
        start = self.starts[vectors]
        q, k = rotate_complex(start, at[:, None] * self.frequencies).view(2, -1, 2).unbind()  # (planes, 2) each
        shares, cross = (q * k).sum(-1), q[:, 0] * k[:, 1] - q[:, 1] * k[:, 0]
        angle, first = torch.atan2(cross, shares), torch.atan2(q[:, 1], q[:, 0])
        turn = torch.linspace(0, 1, 49).expand(len(q), -1)
        arc, ring = first[:, None] + angle[:, None] * turn, 2 * math.pi * turn
        arrows = {"q": q, "k": k, "q0": start[0].view(-1, 2), "k0": start[1].view(-1, 2)}
        return {f"{name}_{way}": x[:, i] for name, x in arrows.items() for i, way in enumerate("xy")} | {
            "arc_x": arc.cos() / 3, "arc_y": arc.sin() / 3, "ring_x": ring.cos(), "ring_y": ring.sin(),
            "apart": angle.abs().rad2deg(), "shares": shares, "product": shares.sum(), "offset": key - query,
            "score": shares.sum() / start.shape[-1] ** 0.5, "query_at": at[0], "key_at": at[1],
        }  # fmt: skip

    def marks(self):
        dials = m.plot(
            m.line("ring_y", "ring_x", width=1, faint=True), m.line("arc_y", "arc_x", width=1.5),
            m.dots("q0_x", "q0_y", hue="query", hollow=True), m.dots("k0_x", "k0_y", hue="key", hollow=True, size=4),
            m.arrows("q_x", "q_y", hue="query", width=4), m.arrows("k_x", "k_y", hue="key"),
            m.words(0, -1.45, "{apart:.1f}° apart"), repeat="names", aspect=1, widest=150,
            x=m.axis(-1.4, 1.4, ticks=[]), y=m.axis(-1.6, 1.2, ticks=[]),
            title="Query at {query_at}, key at {key_at}", hint="small rings: before the rotation",
        )  # fmt: skip
        shares = m.plot(
            m.bars("shares", hue="signed", text="{value:.2f}"), x=m.axis(labels="planes", name="plane"),
            y=m.axis(-1.8, 1.8, ticks=[-1, 0, 1]), title="What each plane adds to the product", height=190,
        )  # fmt: skip
        values = {"offset, key − query": "{offset}", "product, the sum over the planes": "{product:.2f}"}
        return [dials, shares, m.facts(**values, **{"score, product / √d": "{score:.2f}"})]
