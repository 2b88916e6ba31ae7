"""The normalized vector: LayerNorm projects it and scales it to a fixed length, RMSNorm only scales it."""

import math

import torch

from llm_anatomy.layers.normalization import LayerNorm, RMSNorm
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Point, Slider

REACH = 2.0
EQUAL = (
    "{equal2|| The two features are equal: the mean is all there is, and LayerNorm returns zeros.}"
    "{equal3|| The three features are equal: LayerNorm returns zeros.}"
)


class NormalizedVector(Widget):
    r"""Show LayerNorm and RMSNorm of a vector of two features, and of three, as arrows.

    LayerNorm subtracts the mean: :math:`x - \mu \mathbf 1` is the projection of x onto the plane orthogonal to the
    vector of ones. Then it scales the result to length :math:`\sqrt d`. RMSNorm scales x itself to this length. So its
    results lie on a sphere, and those of LayerNorm on the circle in which the plane cuts this sphere. With two
    features, the plane is a line, and LayerNorm leaves two points.

    Args:
        vector: the three initial features; the plane on the left shows a vector of the first two alone.
        caption: one sentence that says what to look for.

    Source: Ba et al. (2016), section 3; Zhang and Sennrich (2019), section 3; IITD-40, CMU-17, CMU-20.

    >>> NormalizedVector((2, 1, 0))  # doctest: +NORMALIZE_WHITESPACE
    The vector (2.0, 1.0) has mean 1.50: LayerNorm gives (1.00, −1.00), RMSNorm (1.26, 0.63). The vector
    (2.0, 1.0, 0.0) has mean 1.00: LayerNorm gives (1.22, 0.00, −1.22), RMSNorm (1.55, 0.77, 0.00).
    """

    sentence = (
        "The vector ({vector[0]:.1f}, {vector[1]:.1f}) has mean {mean2:.2f}: LayerNorm gives ([[{ln2:.2f}]]), RMSNorm "
        "([[{rms2:.2f}]]). The vector ({vector[0]:.1f}, {vector[1]:.1f}, {third:.1f}) has mean {mean3:.2f}: LayerNorm "
        f"gives ([[{{ln3:.2f}}]]), RMSNorm ([[{{rms3:.2f}}]]).{EQUAL}"
    )

    def __init__(self, vector=(1.8, 1.0, -0.8), *, caption: str = ""):
        (x, y, z), (plane, view) = vector, _plane_and_view()
        self.views = [torch.eye(2), view]
        self.norms = [(LayerNorm(d), RMSNorm(d)) for d in (2, 3)]
        angle = torch.linspace(0, 2 * math.pi, 73)
        ring = torch.stack((angle.cos(), angle.sin()))
        fixed = {"ring2": 2**0.5 * ring, "ring3": 3**0.5 * ring, "circle": 3**0.5 * view @ plane.T @ ring}
        fixed |= {"axes": 1.2 * REACH * view, "ones": view @ torch.ones(3, 1)}
        data = {name: found.double().round(decimals=3).tolist() for name, found in fixed.items()}
        super().__init__(
            caption=caption,
            data=data | {"names": ["x", "y", "z"]},
            vector=Point([x, y], REACH, step=0.1),
            third=Slider(float(z), -REACH, REACH, step=0.1, digits=1, label="vector z"),
        )

    def compute(self, vector, third):
        found = {}
        vectors = (vector, torch.cat((vector, third[None])))
        for x, view, (layer_norm, rms_norm) in zip(vectors, self.views, self.norms, strict=True):
            d, mean, ln, rms = len(x), x.mean(), layer_norm(x), rms_norm(x)
            arrows = {"x": x, "centred": x - mean, "ln": ln, "rms": rms}
            found |= {f"{name}{d}_at": view @ arrow for name, arrow in arrows.items()}
            found |= {f"mean{d}": mean, f"ln{d}": ln, f"rms{d}": rms, f"equal{d}": (x == x[0]).all()}
        return found

    def marks(self):
        def arrows(d):
            x, centred, ln, rms = ([f"{name}{d}_at[{i}]" for i in (0, 1)] for name in ("x", "centred", "ln", "rms"))
            return [
                m.arrows(*centred, x0=x[0], y0=x[1], dashed=True, width=1.5),
                m.arrows(*rms, hue="value", width=5),
                m.arrows(*ln, hue="query", width=5),
                m.arrows(*x, width=1.5),
            ]

        def names(reach):
            heights = [-0.75 * reach, -0.85 * reach, -0.95 * reach]
            words, hues = ["vector", "LayerNorm", "RMSNorm"], ["none", "query", "value"]
            return m.words([-0.97 * reach] * 3, heights, words, hue=hues, anchor="start")

        r, ticks = 1.6 * REACH, [-2, -1, 0, 1, 2]
        two = m.plot(
            m.line("ring2[1]", "ring2[0]", hue="value", width=1.5),
            m.line([-REACH, REACH], [REACH, -REACH], hue="query", width=1.5, faint=True),
            m.dots([-1, 1], [1, -1], hue="query", size=6),
            m.arrows(1, 1, hue="normalization", width=1.5, label="ones"),
            *arrows(2), names(REACH),
            m.handle("vector"),
            x=m.axis(-REACH, REACH, ticks=ticks), y=m.axis(-REACH, REACH, ticks=ticks), aspect=1,
            title="Two features", hint="drag the vector; LayerNorm leaves two points",
        )  # fmt: skip
        three = m.plot(
            m.arrows("axes[0]", "axes[1]", width=1, head=False, hue="normalization", label="@names"),
            m.line("ring3[1]", "ring3[0]", hue="value", width=1.5),
            m.line("circle[1]", "circle[0]", hue="query", width=1.5),
            m.arrows("ones[0]", "ones[1]", hue="normalization", width=1.5, label="ones"),
            *arrows(3), names(r),
            x=m.axis(-r, r, ticks=[]), y=m.axis(-r, r, ticks=[]), aspect=1,
            title="Three features", hint="LayerNorm leaves a circle",
        )  # fmt: skip
        said = {
            f"{norm} of {words}": f"({', '.join(f'{{{name}{d}[{i}]:.2f}}' for i in range(d))})"
            for d, words in ((2, "two"), (3, "three"))
            for norm, name in (("LayerNorm", "ln"), ("RMSNorm", "rms"))
        }
        return [m.row(two, three), "vector", "third", m.facts(**said), m.note(EQUAL)]


def _plane_and_view() -> tuple[torch.Tensor, torch.Tensor]:
    """Return two unit vectors orthogonal to the ones, and the axes of the drawing, which shows the ones upright."""
    turn, tilt = math.radians(20), math.radians(25)
    plane = torch.tensor([[1, -1, 0], [1, 1, -2]]) / torch.tensor([[2.0], [6.0]]).sqrt()
    turned = torch.tensor([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]]) @ plane
    return plane, torch.stack((turned[0], math.cos(tilt) * torch.ones(3) / 3**0.5 + math.sin(tilt) * turned[1]))
