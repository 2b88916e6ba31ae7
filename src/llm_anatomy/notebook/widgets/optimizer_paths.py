"""The paths of optimizers: SGD, momentum, Adam with an L2 penalty and AdamW, with one flat and one steep weight."""

import torch
from torch import Tensor

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Point, Slider, Tick

METHODS = ["SGD", "momentum", "Adam + L2", "AdamW"]
HUES = ["none", "position", "key", "query"]
STEEP, MINIMUM = 10.0, (2.0, 1.0)
N_STEPS, BETA2, EPS = 50, 0.999, 1e-8
EDGE, LOW, HIGH = 4.0, 1e-4, 300.0  # of the weights and the losses that are drawn
LEVELS = [60.0, 30.0, 12.0, 4.0, 1.0, 0.15]  # of the loss, one for each ellipse
ADAM = (
    "Without decay, both are Adam: it divides by the size of the gradients of each weight, so that the flat and the "
    "steep weight move about equally fast."
)
SAID = [
    "Each weight moves by the rate times its gradient. The steep weight settles only if the rate is below {bound:.3f}.",
    "Earlier gradients count again, each time multiplied by β. The path gathers speed along the flat weight, and "
    "overshoots.",
    f"{{decay_on|{ADAM}|The penalty is a part of the gradient, which Adam divides by its size. The path heads for the "
    "minimum with the penalty, where the steep weight has decayed much less than the flat one.}",
    f"{{decay_on|{ADAM}|Besides Adam's step, each step takes {{percent:.1f}} % from both weights, however large their "
    "gradients are.}",
]


class OptimizerPaths(Widget):
    r"""Show the paths of four optimizers on a quadratic loss with a flat and a steep weight.

    The loss is :math:`f(x) = \tfrac12 (x_1 - 2)^2 + 5\, (x_2 - 1)^2`. Its gradient g has no noise. With the learning
    rate α, SGD and momentum step by :math:`\alpha b_t`, where :math:`b_t = \beta b_{t-1} + g_t`, and β = 0 for SGD.
    Adam steps by :math:`\alpha\, \hat m_t / (\sqrt{\hat v_t} + \epsilon)`, with :math:`\beta_2 = 0.999` and
    :math:`\epsilon = 10^{-8}`. The decay w adds :math:`w x` to the gradient of the first three, an L2 penalty. It moves
    their minimum to :math:`x^*_i\, h_i / (h_i + w)` for the curvatures :math:`h = (1, 10)`. AdamW instead takes
    :math:`\alpha w x` from the weights. The valley lies along an axis, which suits Adam.

    Args:
        method: the initial optimizer: SGD, momentum, Adam + L2 or AdamW.
        start: the initial weights.
        rate: the initial learning rate α, from 0.01 to 0.24.
        beta: the initial β of momentum and β₁ of Adam, from 0 to 0.99.
        decay: the initial weight decay w, from 0 to 1.
        caption: one sentence that says what to look for.

    Source: Kingma and Ba (2015), algorithm 1; Loshchilov and Hutter (2019), algorithm 2, with the decay multiplied by
    the learning rate, as PyTorch does; GT-38, GT-39 (errata E-56, E-57).

    >>> OptimizerPaths("AdamW", decay=0.5)  # doctest: +NORMALIZE_WHITESPACE
    AdamW from (−1.50, 2.50), learning rate 0.080, β 0.90, weight decay 0.50: the first step is (0.14, −0.18), and after
    50 steps the weights are (1.06, 0.85). The loss there is 0.5618. The minimum of the loss is at (2.00, 1.00), and
    with the L2 penalty at (1.33, 0.95).
    """

    sentence = (
        "{method} from ({from[0]:.2f}, {from[1]:.2f}), learning rate {rate:.3f}, β {beta:.2f}, weight decay "
        "{decay:.2f}: the first step is ({first[0]:.2f}, {first[1]:.2f}), and after 50 steps the weights are "
        "{gone|({last[0]:.2f}, {last[1]:.2f}). The loss there is {loss:.4f}.|outside the picture.} The minimum of the "
        "loss is at (2.00, 1.00), and with the L2 penalty at ({penalized[0]:.2f}, {penalized[1]:.2f})."
    )

    def __init__(self, method: str = "SGD", start=(-1.5, 2.5), rate=0.08, beta=0.9, decay=0.0, *, caption: str = ""):
        super().__init__(
            caption=caption,
            data={"hues": HUES, "steps": list(range(N_STEPS + 1)), "said": SAID},
            method=Choice(METHODS, method, label="optimizer"),
            start=Point(start, 3, step=0.05, hue="value"),
            rate=Slider(rate, 0.01, 0.24, step=0.005, digits=3, label="learning rate"),
            beta=Slider(beta, 0.0, 0.99, step=0.01, label="β, β₁ of Adam"),
            decay=Slider(decay, 0.0, 1.0, step=0.05, label="weight decay"),
            corrected=Tick(True, label="bias correction"),
        )

    def compute(self, method, start, rate, beta, decay, corrected):
        paths = optimizer_paths(start, rate, beta, decay, corrected)  # (steps, methods, weights)
        curvature, minimum = torch.tensor([1.0, STEEP]), torch.tensor(MINIMUM)
        losses = (curvature * (paths - minimum) ** 2).sum(-1).T / 2
        seen = torch.where((paths.abs() <= EDGE).all(-1, keepdim=True), paths, torch.nan).permute(1, 2, 0)
        shown = seen.index_select(0, method[None])[0]
        own, last = paths.index_select(1, method[None])[:, 0], paths[-1].index_select(0, method[None])[0]
        angles, axes = torch.arange(65) * torch.pi / 32, (2 * torch.tensor(LEVELS)[:, None] / curvature).sqrt()
        across, up = (
            (centre + axes[:, i, None] * wave).clamp(-EDGE, EDGE)
            for i, (centre, wave) in enumerate(zip(MINIMUM, (angles.cos(), angles.sin()), strict=True))
        )
        return {
            "from": start, "first": own[1] - own[0], "last": last, "gone": (last.abs() > EDGE).any(),
            "loss": losses.index_select(0, method[None])[0, -1], "losses": drawn(losses),
            "path_x": seen[:, 0], "path_y": seen[:, 1], "own": shown, "dots": shown[:, ::5],
            "own_losses": drawn(losses.index_select(0, method[None])[0]),
            "penalized": curvature / (curvature + decay) * minimum, "decay_on": decay > 0,
            "percent": 100 * rate * decay, "bound": 2 / (STEEP + decay), "ring_x": across, "ring_y": up,
        }  # fmt: skip

    def marks(self):
        plane = m.plot(
            m.area("ring_x", "ring_y", hue="normalization", share=[0.04 * n for n in range(1, 7)]),
            *[m.line(f"path_y[{i}]", f"path_x[{i}]", hue=hue, width=1.5, faint=True) for i, hue in enumerate(HUES)],
            m.line("own[1]", "own[0]", hue="@hues[method]", width=3),
            m.dots("dots[0]", "dots[1]", hue="@hues[method]", size=4),
            m.dots("penalized[0]", "penalized[1]", hue="residual", diamond=True, size=6),
            m.dots(MINIMUM[0], MINIMUM[1], hue="residual", size=5, label="minimum"),
            m.handle("start"),
            x=m.axis(-EDGE, EDGE, "flat weight x₁", ticks=[-2, 0, 2]),
            y=m.axis(-EDGE, EDGE, "steep weight x₂", ticks=[-2, 0, 2]), aspect=1,
            title="{method}", hint="a dot every 5 steps; diamond: minimum with the L2 penalty",
        )  # fmt: skip
        losses = m.plot(
            *[m.line(f"losses[{i}]", "steps", hue=hue, width=1.5, faint=True) for i, hue in enumerate(HUES)],
            m.line("own_losses", "steps", hue="@hues[method]", width=3.5),
            x=m.axis(0, N_STEPS, "step"), y=m.axis(LOW, HIGH, ticks=[0.0001, 0.01, 1, 100], log=True),
            title="Loss", hint="grey: SGD; amber: momentum; orange: Adam + L2; blue: AdamW", height=330,
        )  # fmt: skip
        facts = {
            "first step": "({first[0]:.2f}, {first[1]:.2f})",
            "weights after 50 steps": "{gone|({last[0]:.2f}, {last[1]:.2f})|outside the picture}",
            "loss after 50 steps": "{gone|{loss:.4f}|}",
        }
        controls = "method", m.row("rate", "beta"), m.row("decay", "corrected")
        return [m.row(plane, losses), *controls, "start", m.facts(**facts), m.note("{said[method]}")]


def optimizer_paths(start: Tensor, rate: Tensor, beta: Tensor, decay: Tensor, corrected: Tensor) -> Tensor:
    """Return the weights before each step and after the last one, of shape (steps + 1, methods, 2)."""
    curvature, minimum = torch.tensor([1.0, STEEP]), torch.tensor(MINIMUM)
    adaptive, decoupled = torch.tensor([[False], [False], [True], [True]]), torch.tensor([[0.0], [0.0], [0.0], [1.0]])
    beta1, numbers = beta * torch.tensor([[0.0], [1.0], [1.0], [1.0]]), torch.arange(1, N_STEPS + 1)
    share, penalty = torch.where(adaptive, 1 - beta1, 1), decay * (1 - decoupled)
    first_sums = torch.where(adaptive & corrected, 1 - beta1 ** numbers[:, None, None], 1)
    second_sums = torch.where(corrected, 1 - BETA2**numbers, 1)
    x = start.expand(len(METHODS), 2)
    first, second, path = torch.zeros_like(x), torch.zeros_like(x), [x]
    for first_sum, second_sum in zip(first_sums.unbind(), second_sums.unbind(), strict=True):
        gradient = curvature * (x - minimum) + penalty * x
        first = beta1 * first + share * gradient
        second = BETA2 * second + (1 - BETA2) * gradient * gradient
        size = torch.where(adaptive, (second / second_sum).sqrt() + EPS, 1)
        x = x - rate * (first / first_sum / size + decay * decoupled * x)
        path.append(x)
    return torch.stack(path)


def drawn(losses: Tensor) -> Tensor:
    """Leave out what is above the frame of the logarithmic plot, and draw at its foot what is below it."""
    return torch.where(losses <= HIGH, losses.clamp(min=LOW), torch.nan)
