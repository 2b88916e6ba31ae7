"""The gate surface: the output of a gated unit over the plane of its gate input and its value input."""

import math

import torch

from llm_anatomy.layers.feedforward import ACTIVATIONS, GATES, swish_derivative
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider, Tick

REACH, CELLS = 3.0, 30
LAYERS = ["bilinear", "GLU", "ReGLU", "GEGLU", "SwiGLU"]
GATE = ["a", "σ(a)", "ReLU(a)", "GELU(a)", "Swish(a)"]
SLOPES = {
    "identity": torch.ones_like,
    "sigmoid": lambda a: a.sigmoid() * (1 - a.sigmoid()),
    "relu": lambda a: (a > 0).float(),
    "gelu": lambda a: (1 + torch.erf(a / math.sqrt(2))) / 2 + a * torch.exp(-a * a / 2) / math.sqrt(2 * math.pi),
    "swish": swish_derivative,
}
"""The derivatives of the activations of the gates; that of ReLU at zero is PyTorch's."""
SMOOTH = (
    "Where a is very negative, the gate is almost shut. Below zero it is slightly negative, and turns the sign of b."
)
SAID = [
    "Both inputs play the same part: the output is positive where their signs agree.",
    "The gate lies between 0 and 1. It decides how much of b passes, and never changes its sign.",
    "Where a is negative, the gate is shut: the output is zero, and neither input gets a gradient.",
    SMOOTH,
    SMOOTH,
]


class GateSurface(Widget):
    r"""Show the output of one unit of a gated feed-forward layer over the plane of its two inputs, and two cuts.

    The gate input is :math:`a = xW`, the value input :math:`b = xV`, and the unit's output is :math:`h = f(a)\, b`. Its
    derivatives are

    .. math:: \frac{\partial h}{\partial a} = f'(a)\, b, \qquad \frac{\partial h}{\partial b} = f(a)

    So a cut along b is a straight line, whose slope is the gate. Without the gate, the output is :math:`f(a)`, and b
    has no influence. Outputs beyond 4 have the full colour.

    Args:
        layer: the initial kind of layer: bilinear, GLU, ReGLU, GEGLU or SwiGLU.
        a, b: the initial gate input and value input of the unit, from −3 to 3.
        gated: whether f(a) is multiplied by b at first.
        caption: one sentence that says what to look for.

    Source: Dauphin et al. (2017), section 2 (GLU); Shazeer (2020), section 2; CMU-05, GT-24, GT-25 (errata E-28, E-58).

    >>> GateSurface("SwiGLU", a=-1.0, b=2.0)  # doctest: +NORMALIZE_WHITESPACE
    SwiGLU at a = −1.00 and b = 2.00: the output Swish(a) · b is −0.54. Its derivative with respect to a is 0.14, and
    with respect to b −0.27.
    """

    sentence = (
        "{gated|{layer} without its gate|{layer}} at a = {a:.2f} and b = {b:.2f}: the output "
        "{gate[layer]}{gated|| · b} is {output:.2f}. Its derivative with respect to a is {slope_a:.2f}, and with "
        "respect to b {slope_b:.2f}."
    )

    def __init__(
        self, layer: str = "SwiGLU", a: float = 1.5, b: float = -2.0, *, gated: bool = True, caption: str = ""
    ):
        super().__init__(
            caption=caption,
            data={"gate": GATE, "said": SAID},
            layer=Choice(LAYERS, layer),
            gated=Tick(gated, label="multiply f(a) by the value input b"),
            a=Slider(float(a), -REACH, REACH, step=0.05, label="gate input a"),
            b=Slider(float(b), -REACH, REACH, step=0.05, label="value input b"),
        )

    def compute(self, layer, gated, a, b):
        names = [GATES[kind.lower()] for kind in LAYERS]

        def gate(a):
            return torch.stack([ACTIVATIONS[name]()(a) for name in names]).index_select(0, layer[None])[0]

        factor = torch.where(gated, b, 1)
        slope = torch.stack([SLOPES[name](a) for name in names])[layer]
        centres = REACH / CELLS * torch.arange(1 - CELLS, CELLS, 2)
        across, height = torch.linspace(-REACH, REACH, 61), gate(a)
        along_a, along_b = gate(across) * factor, height * torch.where(gated, across, 1)
        end = gate(across).abs().max() * torch.where(gated, REACH, 1)
        span = (end - 1e-3).ceil()  # 9, 3 or 1
        near = torch.linspace(-0.7, 0.7, 29)
        output, slope_a, slope_b = height * factor, slope * factor, torch.where(gated, height, 0)
        tangents = {"tangent_a": output + slope_a * near, "tangent_b": output + slope_b * near}
        tangents = {name: torch.where(line.abs() <= span, line, torch.nan) for name, line in tangents.items()}
        return tangents | {
            "surface": torch.where(gated, centres.flip(0), 1)[:, None] * gate(centres), "output": output,
            "slope_a": slope_a, "slope_b": slope_b, "across": across, "along_a": along_a, "along_b": along_b,
            "span": span, "minus_span": -span, "reach": span.clamp(max=4), "near_a": a + near, "near_b": b + near,
        }  # fmt: skip

    def marks(self):
        across, height = (m.axis(-REACH, REACH, name, ticks=[-2, 0, 2]) for name in ("gate input a", "value input b"))
        surface = m.plot(
            m.cells("surface", reach="reach", scale=True),
            m.rule(x="a"), m.rule(y="b"), m.dots("a", "b", hue="feedforward", size=9),
            x=across, y=height, aspect=1, pick={"x": "a", "y": "b"},
            title="{layer}: {gate[layer]}{gated|| · b}", hint="press or drag to move the unit",
        )  # fmt: skip

        def cut(name, axis, other):
            return m.plot(
                m.line(f"along_{name}", "across", hue="feedforward"),
                m.line(f"tangent_{name}", f"near_{name}", hue="key", width=4),
                m.dots(name, "output", hue="feedforward"),
                x=axis, y=m.axis("minus_span", "span"), height=190, pick={"x": name},
                title=f"Along {name}", hint=f"at {other} = {{{other}:.2f}}, with slope {{slope_{name}:.2f}}",
            )  # fmt: skip

        cuts = m.row(cut("a", across, "b"), cut("b", height, "a"), shares=[1])
        facts = {"output h": "{output:.2f}", "∂h/∂a": "{slope_a:.2f}", "∂h/∂b": "{slope_b:.2f}"}
        words = "{gated|Without the gate, b has no influence, and the picture has stripes.|{said[layer]}}"
        return ["layer", "gated", m.row(surface, cuts), "a", "b", m.facts(**facts), m.note(words)]
