"""The activation explorer: value and slope of an activation, and for which inputs it lets no gradient through."""

import math

import torch

from llm_anatomy.layers.feedforward import ACTIVATIONS, Swish, swish_derivative
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

REACH, STEPS, SMALL, TOP = 4, 20, 0.1, 4.0
"""Inputs run from −4 to 4 in steps of 1/20; a slope below 0.1 is small; the plot ends at 4."""
PRECISION = 2**15
"""Values and slopes are stored as multiples of 1/32768."""
NAMES = {  # by the name that is shown: that of the package, and the formula
    "ReLU": ("relu", "max(0, z)"),
    "GELU": ("gelu", "z Φ(z)"),
    "GELU (tanh)": ("gelu_tanh", "z/2 · (1 + tanh(√(2/π) · (z + 0.044715 z³)))"),
    "Swish": ("swish", "z σ({beta:.1f} z)"),
    "ELU": ("elu", "z if z > 0, else eᶻ − 1"),
    "SELU": ("selu", "1.0507 z if z > 0, else 1.7581 (eᶻ − 1)"),
    "squared ReLU": ("squared_relu", "max(0, z)²"),
    "sigmoid": ("sigmoid", "1 / (1 + e⁻ᶻ)"),
    "tanh": ("tanh", "tanh(z)"),
    "softplus": ("softplus", "log(1 + eᶻ)"),
}
SWISH = list(NAMES).index("Swish")


class ActivationExplorer(Widget):
    r"""Show an activation with its derivative, the tangent at a point, and the inputs that pass almost no gradient.

    The gradient of the input z is :math:`f'(z)` times the gradient of :math:`f(z)`. If z is standard normal, the share
    of inputs without gradient is :math:`P(f'(z) = 0)`, one half for ReLU. At its kink, PyTorch takes 0 as the slope of
    ReLU, and so does the widget. The dashed curve is :math:`\mathrm{Swish}_\beta(z) = z\,\sigma(\beta z)`, to compare
    any activation with it: :math:`\beta = 0` gives :math:`z/2`, and a large :math:`\beta` almost ReLU.

    Args:
        activation: the initial activation: ReLU, GELU, GELU (tanh), Swish, ELU, SELU, squared ReLU, sigmoid, tanh or
            softplus.
        z: the initial input, from −4 to 4 in steps of 0.05.
        beta: the initial parameter of Swish, from 0 to 10.
        caption: one sentence that says what to look for.

    Source: Hendrycks and Gimpel (2016), section 2 (GELU); Ramachandran et al. (2017), section 5.1 (Swish); Clevert et
    al. (2016), section 3 (ELU); Klambauer et al. (2017), section 2 (SELU); CMU-03, CMU-04, GT-22, GT-23 (erratum E-26).

    >>> ActivationExplorer("GELU", -1.0)  # doctest: +NORMALIZE_WHITESPACE
    GELU at z = −1.00: the value is −0.159 and the slope −0.083. For 0% of standard normal inputs the slope is exactly
    zero, for 18% it is smaller than 0.1 in size. The dashed curve is Swish with β = 1.0.
    """

    sentence = (
        "{activation} at z = {z:.2f}: the value is {value:.3f} and the slope {slope:.3f}. For {zero:.0f}% of standard "
        f"normal inputs the slope is exactly zero, for {{small:.0f}}% it is smaller than {SMALL} in size. "
        "{swish|The dashed curve is Swish with β = {beta:.1f}.|The parameter β is {beta:.1f}.}"
    )

    def __init__(self, activation: str = "ReLU", z: float = -1.0, beta: float = 1.0, *, caption: str = ""):
        inputs = [step / STEPS for step in range(-REACH * STEPS, REACH * STEPS + 1)]
        self.inputs = torch.tensor(inputs)
        functions = [ACTIVATIONS[name]() for name, _ in NAMES.values()]
        curves = torch.stack([_value_and_slope(f, self.inputs) for f in functions])  # (names, 2, inputs)
        curves[SWISH] = 0.0  # that of the chosen β is computed
        self.curves = (curves * PRECISION).round() / PRECISION  # such numbers make the page lighter
        self.shares = torch.stack([_without_gradient(lambda z, f=f: _value_and_slope(f, z)[1]) for f in functions])
        super().__init__(
            caption=caption,
            data={"inputs": inputs, "formulas": [formula for _, formula in NAMES.values()]},
            activation=Choice(list(NAMES), activation),
            z=Slider(z, values=inputs, digits=2, label="input z"),
            beta=Slider(float(beta), 0.0, 10.0, step=0.1, digits=1, label="β of Swish", hue="weights"),
        )

    def compute(self, activation, z, beta):
        swish = torch.stack([Swish(beta)(self.inputs), swish_derivative(self.inputs, beta)])
        is_swish = activation == SWISH
        curve, slopes = torch.where(is_swish, swish, self.curves[activation])
        own = _without_gradient(lambda z: swish_derivative(z, beta))
        zero, small = torch.where(is_swish, own, self.shares[activation])
        at = ((z + REACH) * STEPS).round().long()
        value, slope = curve[at], slopes[at]
        along = torch.linspace(-1, 1, 41) / (1 + slope.square()).sqrt()  # the tangent is 2 long
        density = torch.exp(-self.inputs.square() / 2) / math.sqrt(2 * math.pi)
        return {
            "curve": _inside(curve), "slopes": torch.where(slopes <= 2, slopes, torch.nan), "value": value,
            "slope": slope, "seen": _inside(value), "seen_slope": torch.where(slope <= 2, slope, torch.nan),
            "tangent_z": z + along, "tangent": _inside(value + slope * along), "dashed": _inside(swish[0]),
            "dashed_slopes": swish[1], "zero": zero, "small": small, "density": density, "swish": is_swish,
            "lost": torch.where(slopes.abs() < SMALL, density, 0)[None],
        }  # fmt: skip

    def marks(self):
        across = {"x": m.axis(-REACH, REACH, "input z"), "pick": {"x": "z"}}
        value = m.plot(
            m.line("dashed", "inputs", hue="weights", dashed=True, width=1.5),
            m.line("curve", "inputs", hue="feedforward", width=3),
            m.line("tangent", "tangent_z", hue="key"),
            m.dots("z", "seen", hue="feedforward"),
            y=m.axis(-2, TOP, ticks=[-2, 0, 2, 4]), aspect=(2 + TOP) / (2 * REACH),
            title="{activation}", hint="with its tangent; dashed: Swish, β = {beta:.1f}", **across,
        )  # fmt: skip
        slope = m.plot(
            m.area([self.data["inputs"]], "lost", hue="none", share=0.4),
            m.line("density", "inputs", hue="none", width=1),
            m.line("dashed_slopes", "inputs", hue="weights", dashed=True, width=1.5),
            m.line("slopes", "inputs", hue="key", width=3),
            m.dots("z", "seen_slope", hue="key"),
            y=m.axis(-0.5, 2, ticks=[0, 1, 2]), aspect=(2 + TOP) / (2 * REACH),
            title="Its slope", hint=f"filled: normal inputs with |slope| < {SMALL}", **across,
        )  # fmt: skip
        facts = {
            "value": "{value:.3f}",
            "slope": "{slope:.3f}",
            "normal inputs with slope 0": "{zero:.0f}%",
            f"with |slope| < {SMALL}": "{small:.0f}%",
        }
        formula = m.note("{activation}: {formulas[activation]}", code=True)
        return ["activation", formula, m.row(value, slope), "z", "beta", m.facts(**facts)]


def _value_and_slope(function, z: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        z = z.clone().requires_grad_()
        values = function(z)
        (slopes,) = torch.autograd.grad(values.sum(), z)
    return torch.stack([values.detach(), slopes])


def _without_gradient(slope) -> torch.Tensor:
    """Return the shares of standard normal inputs, in per cent, whose slope is zero, and is small."""
    z = 0.005 * torch.arange(-999.5, 1000)  # to five standard deviations
    density, size = torch.exp(-z.square() / 2), slope(z).abs()
    return 100 * torch.stack([(density * found).sum() for found in (size == 0, size < SMALL)]) / density.sum()


def _inside(values: torch.Tensor) -> torch.Tensor:
    """Leave out what lies outside the frame."""
    return torch.where((values >= -2) & (values <= TOP), values, torch.nan)
