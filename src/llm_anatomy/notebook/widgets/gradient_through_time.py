"""Gradient through time: how the norm of a product of Jacobians grows or shrinks with the number of its factors."""

import math
from functools import cache

import torch

from llm_anatomy.layers.gradient_through_time import gradient_through_time, scale_to_spectral_radius
from llm_anatomy.layers.recurrent import LSTMCell
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Slider

WIDTH, MOST_STEPS = 12, 50
RADII = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5]
INPUTS = [0.0, 0.25, 0.5, 1.0]
FORGET_BIASES = [-2, -1, 0, 1, 2, 3, 4]


class GradientThroughTime(Widget):
    r"""Show how strongly a state depends on the state so many steps before, in an Elman network and in an LSTM.

    The curves are the spectral norms of :math:`\partial h_T / \partial s_{T-n}`, a product of n Jacobians, for networks
    with random weights: Elman's without tanh, where the product is :math:`W^n`, Elman's with tanh, and an LSTM. The
    reader sets the spectral radius of Elman's W, the size of its inputs, which saturate the tanh, and the bias of the
    LSTM's forget gate. Beside them stands what the power method predicts, the spectral radius to the power n.

    Args:
        radius: the initial spectral radius, from 0.5 to 1.5 in steps of 0.1.
        inputs: the initial standard deviation of what is added to W h: 0, 0.25, 0.5 or 1.
        forget: the initial bias of the LSTM's forget gate, from -2 to 4.
        caption: one sentence that says what to look for.

    Source: Pascanu et al. (2013), section 2.1; UCL-15, erratum E-98.

    >>> GradientThroughTime(radius=0.9)  # doctest: +NORMALIZE_WHITESPACE
    Spectral radius 0.90: over 50 steps, the power method predicts a factor of 10^−2.3. The gradient is multiplied by
    10^−2.0 in the linear network, by 10^−4.8 with tanh, and by 10^−1.1 in the LSTM with forget bias 3.
    """

    sentence = (
        "Spectral radius {radius:.2f}: over 50 steps, the power method predicts a factor of 10^{power_50:.1f}. The "
        "gradient is multiplied by 10^{linear_50:.1f} in the linear network, by 10^{tanh_50:.1f} with tanh, and by "
        "10^{lstm_50:.1f} in the LSTM with forget bias {forget}."
    )

    def __init__(self, radius: float = 0.9, inputs: float = 0.25, forget: int = 3, *, caption: str = ""):
        self.steps = torch.arange(MOST_STEPS + 1.0)
        self.linear, self.tanh, self.lstm = _curves()
        super().__init__(
            caption=caption,
            radius=Slider(radius, values=RADII, label="spectral radius of W"),
            inputs=Slider(inputs, values=INPUTS, label="size of the inputs"),
            forget=Slider(forget, values=FORGET_BIASES, label="forget bias of the LSTM"),
        )

    def compute(self, radius, inputs, forget):
        row = ((radius - RADII[0]) * 10).round().long()
        column = (inputs > torch.tensor(INPUTS) - 1e-4).sum() - 1
        power = self.steps * radius.log() / math.log(10)
        logs = {
            "power": power,
            "linear": self.linear + power,
            "tanh": self.tanh.index_select(0, row[None])[0].index_select(0, column[None])[0],
            "lstm": self.lstm.index_select(0, (forget - FORGET_BIASES[0])[None])[0],
        }
        inside = {name: torch.where((log > -9) & (log < 9), log, torch.nan) for name, log in logs.items()}
        return inside | {f"{name}_50": log[50] for name, log in logs.items()}

    def marks(self):
        curves = {
            "power": ("position", "radiusⁿ"),
            "linear": ("key", "without tanh"),
            "tanh": ("query", "with tanh"),
            "lstm": ("value", "LSTM"),
        }
        lines = [m.line(name, hue=hue, dashed=name == "power") for name, (hue, _) in curves.items()]
        ends = [m.dots(45, f"{name}[45]", hue=hue, size=1, label=label) for name, (hue, label) in curves.items()]
        plot = m.plot(
            *lines, *ends,
            x=m.axis(0, MOST_STEPS, "steps back"), y=m.axis(-9, 9, "log₁₀ of the norm", ticks=[-9, -6, -3, 0, 3, 6, 9]),
            title="How much of a change n steps ago is left?", height=300,
        )  # fmt: skip
        facts = m.facts(**{label: f"10^{{{name}_50:.1f}}" for name, (_, label) in curves.items()})
        return [plot, m.note("After 50 steps:"), facts, "radius", "inputs", "forget"]


@cache
def _curves() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return log10 of the norms: (steps,) linear at radius 1; (radii, inputs, steps) tanh; (biases, steps) LSTM."""
    draw = torch.Generator().manual_seed(0)
    w = scale_to_spectral_radius(torch.randn(WIDTH, WIDTH, generator=draw, dtype=torch.float64), 1.0)
    x = torch.randn(1, MOST_STEPS, WIDTH, generator=draw, dtype=torch.float64)
    zeros = torch.zeros(1, WIDTH, dtype=torch.float64)
    linear = gradient_through_time(lambda x_t, state: (state[0] @ w.T + x_t,), x, (zeros,))[0]

    weights = torch.tensor(RADII, dtype=torch.float64)[:, None, None] * w  # (radii, d, d)
    weights = weights.repeat_interleave(len(INPUTS), 0)  # one network for each pair
    sizes = torch.tensor(INPUTS, dtype=torch.float64).repeat(len(RADII))[:, None, None]

    def elman(x_t, state):
        # h' = tanh(W h + x)
        return ((torch.einsum("bij,bj->bi", weights, state[0]) + x_t).tanh(),)

    start = zeros.expand(len(weights), -1)
    tanh = gradient_through_time(elman, sizes * x, (start,)).view(len(RADII), len(INPUTS), -1)

    cell = LSTMCell(WIDTH, WIDTH).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * WIDTH**-0.5)
    gates = torch.randn(1, MOST_STEPS, 4 * WIDTH, generator=draw, dtype=torch.float64) / 2
    biases = torch.tensor(FORGET_BIASES, dtype=torch.float64)[:, None] * (torch.arange(4 * WIDTH) // WIDTH == 1)
    start = zeros.expand(len(biases), -1)
    lstm = gradient_through_time(cell.step, gates + biases[:, None], (start, start))
    return tuple(norms.flip(-1).log10().round(decimals=3).float() for norms in (linear, tanh, lstm))
