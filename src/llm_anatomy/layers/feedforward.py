r"""Feed-forward layers: each token, on its own, is projected up, passed through an activation, and projected down.

An activation is an object that is called with a tensor; ``ACTIVATIONS`` makes one by name. A plain layer has one
projection up. A gated layer has two: the activation of one, the gate, is multiplied by the other. Gated layers are
named after the activation of their gate: ``GATES``.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.shapes import Float, Tensor

# --- Activations: one number in, one number out ---


class Swish(nn.Module):
    r"""Swish activation: a smooth function between half the identity and ReLU, with a fixed or trainable parameter.

    .. math:: \mathrm{Swish}_\beta(z) = z\, \sigma(\beta z) = \frac{z}{1 + e^{-\beta z}}

    With :math:`\beta = 0` it is :math:`z / 2`, with :math:`\beta = 1` it is PyTorch's SiLU, and as :math:`\beta` grows
    it becomes ReLU.

    Args:
        beta: the parameter, or its initial value if it is trainable.
        trainable: whether ``beta`` is a parameter.

    Source: Ramachandran et al. (2017), section 5.1; CMU-03 (erratum E-26), GT-23.

    >>> [round(z, 4) for z in Swish(beta=2.0)(torch.tensor([-1.0, 0.0, 1.0])).tolist()]
    [-0.1192, 0.0, 0.8808]
    """

    def __init__(self, beta: float | Float[Tensor, ""] = 1.0, *, trainable: bool = False):
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(float(beta))) if trainable else beta

    def forward(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return z * torch.sigmoid(self.beta * z)


def swish_derivative(z: Float[Tensor, "*shape"], beta: float | Float[Tensor, ""] = 1.0) -> Float[Tensor, "*shape"]:
    r"""Compute the derivative of Swish.

    .. math:: \frac{d}{dz} \mathrm{Swish}_\beta(z) = \sigma(\beta z) + \beta z\, \sigma(\beta z) (1 - \sigma(\beta z))

    It is one half at zero for every :math:`\beta`, negative to the left of the minimum, and slightly above one at large
    arguments.

    Args:
        z: points at which the derivative is computed.
        beta: as in :class:`Swish`.

    Source: Ramachandran et al. (2017), section 5.1; CMU-04 (the slide has the curve only).

    >>> [round(slope, 4) for slope in swish_derivative(torch.tensor([-3.0, 0.0, 3.0])).tolist()]
    [-0.0881, 0.5, 1.0881]
    """
    gate = torch.sigmoid(beta * z)  # σ(βz)
    return gate + beta * z * gate * (1 - gate)


class SquaredReLU(nn.Module):
    r"""Square of ReLU, whose derivative is continuous.

    .. math:: f(z) = \max(0, z)^2

    Source: So et al. (2021), "Primer", section 3; GT-22.

    >>> SquaredReLU()(torch.tensor([-3.0, 0.5, 3.0])).tolist()
    [0.0, 0.25, 9.0]
    """

    def forward(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return F.relu(z).square()


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "identity": nn.Identity,
    "relu": nn.ReLU,
    "squared_relu": SquaredReLU,
    "gelu": nn.GELU,  # z Φ(z), exact
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),  # GPT-2, T5 v1.1, Gemma
    "swish": nn.SiLU,  # Swish with β = 1, in one kernel
    "trainable_swish": partial(Swish, trainable=True),
    "elu": nn.ELU,
    "selu": nn.SELU,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
}
"""From the name to a constructor: ``ACTIVATIONS["gelu"]()``. Each layer needs its own, which may have parameters."""

GATES = {
    "glu": "sigmoid",
    "bilinear": "identity",
    "reglu": "relu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_tanh",  # T5 v1.1 and Gemma
    "swiglu": "swish",
}
"""From the name of a gated layer to the activation of its gate (Shazeer, 2020; Narang et al. call bilinear LiGLU)."""


class ClampedSwiGLU(nn.Module):
    r"""The gating of gpt-oss: gate and up are clamped, the gate passes Swish with a parameter, and one is added to up.

    .. math:: f(g, u) = \min(g, L)\, \sigma(\alpha \min(g, L)) \, (\mathrm{clamp}(u, -L, L) + 1)

    The bounds keep activations within the reach of low precision. With u = 0 the layer is a plain one with Swish.

    Args:
        alpha: the parameter of Swish; with 1.702 Swish approximates GELU.
        limit: the bound L, above 0.

    Raises:
        ValueError: for a limit that is not above 0.

    Source: OpenAI (2025), "gpt-oss-120b & gpt-oss-20b Model Card", section 2.3, and the released code; Hendrycks and
    Gimpel (2016), section 2 (1.702).

    >>> gating = ClampedSwiGLU(alpha=1.702, limit=7.0)
    >>> [round(v, 4) for v in gating(torch.tensor([1.0, 9.0]), torch.tensor([0.0, -9.0])).tolist()]
    [0.8458, -41.9997]
    """

    def __init__(self, alpha: float = 1.702, limit: float = 7.0):
        super().__init__()
        if not limit > 0:
            raise ValueError(f"{limit=} must be above 0")
        self.alpha, self.limit = alpha, limit

    def forward(self, gate: Float[Tensor, "*shape"], up: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        return gate * torch.sigmoid(self.alpha * gate) * (up + 1)


# --- The layers ---


class FeedForward(nn.Module):
    r"""Feed-forward layer with one projection up, an activation, and one projection down.

    .. math:: \mathrm{FFN}(x) = f(x W_1 + b_1)\, W_2 + b_2

    The activation f acts within the layer; the factor :math:`W_2` belongs to the layer (erratum E-24).

    Args:
        d_model: width of the tokens, at least 1.
        d_ff: width between the projections, at least 1; usually four times ``d_model``.
        activation: a function of a tensor, such as ``ACTIVATIONS["relu"]()``.
        bias: whether both projections have biases.

    Raises:
        ValueError: for widths below one.
        TypeError: for an activation that cannot be called with a tensor.

    Source: Vaswani et al. (2017), section 3.3; CMU-03, GT-20, GT-22, UCL-26, UCL-27, IITD-42.

    >>> layer = FeedForward(d_model=8, d_ff=32, activation=ACTIVATIONS["gelu"](), bias=True)
    >>> tuple(layer(torch.randn(2, 5, 8)).shape), sum(p.numel() for p in layer.parameters())
    ((2, 5, 8), 552)
    """

    def __init__(self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor], *, bias: bool = False):
        super().__init__()
        _check_shapes(d_model, d_ff, activation)
        self.w_up = nn.Linear(d_model, d_ff, bias=bias)
        self.activation = activation
        self.w_down = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "*tokens d_model"]:
        """Change each token by itself.

        Args:
            x: the tokens, with any dimensions before the width.
        """
        return self.w_down(self.activation(self.w_up(x)))


class GatedFeedForward(nn.Module):
    r"""Feed-forward layer with a gate, which is multiplied by the projection up before the projection down.

    .. math:: \mathrm{FFN}(x) = \left(f(x W + b) \otimes (x V + c)\right) W_2 + b_2

    W (gate) and V (up) are stored as one matrix, so that one product computes both: the first ``d_ff`` rows of
    ``w_gate_up.weight`` are W, and the others are V. Separate weights are loaded as
    ``state["w_gate_up.weight"] = torch.cat([gate, up])``, and biases likewise.

    Args:
        d_model: width of the tokens, at least 1.
        d_ff: width of gate and up, at least 1; :func:`gated_width` keeps the number of parameters of a plain layer.
        activation: the activation of the gate, such as ``ACTIVATIONS[GATES["swiglu"]]()``.
        bias: whether the projections have biases.

    Raises:
        ValueError: for widths below one.
        TypeError: for an activation that cannot be called with a tensor.

    Source: Dauphin et al. (2017), section 2 (GLU); Shazeer (2020), section 2 (errata E-28, E-31, E-58); CMU-05, CMU-08,
    GT-24, GT-25, GT-27.

    >>> layer = GatedFeedForward(d_model=8, d_ff=gated_width(30), activation=ACTIVATIONS[GATES["swiglu"]]())
    >>> tuple(layer(torch.randn(2, 5, 8)).shape), sum(p.numel() for p in layer.parameters()) == 2 * 8 * 30
    ((2, 5, 8), True)
    """

    def __init__(self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor], *, bias: bool = False):
        super().__init__()
        _check_shapes(d_model, d_ff, activation)
        self.w_gate_up = nn.Linear(d_model, 2 * d_ff, bias=bias)
        self.activation = activation
        self.w_down = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "*tokens d_model"]:
        """Change each token by itself.

        Args:
            x: the tokens, with any dimensions before the width.
        """
        gate, up = self.w_gate_up(x).chunk(2, dim=-1)  # each (*tokens, d_ff)
        return self.w_down(self.gated(gate, up))

    def gated(self, gate: Float[Tensor, "*tokens d_ff"], up: Float[Tensor, "*tokens d_ff"]) -> Tensor:
        """Multiply the projection up by the activation of the gate.

        Args:
            gate, up: both projections of the tokens.
        """
        return self.activation(gate) * up


class ClampedFeedForward(GatedFeedForward):
    r"""Feed-forward layer whose gating is a function of both sides.

    .. math:: \mathrm{FFN}(x) = f(x W + b,\; x V + c)\, W_2 + b_2

    Args:
        d_model, d_ff, bias: as in :class:`GatedFeedForward`.
        activation: a function of gate and up, such as ``ClampedSwiGLU()``.

    Source: OpenAI (2025), "gpt-oss-120b & gpt-oss-20b Model Card", section 2.3.

    >>> layer = ClampedFeedForward(d_model=8, d_ff=20, activation=ClampedSwiGLU())
    >>> tuple(layer(torch.randn(2, 5, 8)).shape)
    (2, 5, 8)
    """

    options: ClassVar[str | None] = "clamped_swiglu"
    """The field of the config that holds the options of its activation."""

    activation: Callable[[Tensor, Tensor], Tensor]

    def gated(self, gate: Float[Tensor, "*tokens d_ff"], up: Float[Tensor, "*tokens d_ff"]) -> Tensor:
        """Apply the gating to both sides."""
        return self.activation(gate, up)


def _check_shapes(d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor]) -> None:
    _check_at_least_one(d_model=d_model, d_ff=d_ff)
    if isinstance(activation, type) or not callable(activation):
        raise TypeError(f"{activation=} must be a function of a tensor, such as ACTIVATIONS['relu']()")


def gated_width(d_ff: int, *, multiplier: float = 1.0, multiple_of: int = 1) -> int:
    r"""Compute the width of a gated layer, with three matrices, that has the parameters of a plain one, with two.

    .. math:: 3\, d\, d_\mathrm{ff}' = 2\, d\, d_\mathrm{ff} \;\Rightarrow\; d_\mathrm{ff}' = \tfrac{2}{3} d_\mathrm{ff}

    Llama then rounds up to a multiple that suits the hardware. Llama 2 70B and Llama 3 first multiply by a factor.

    Args:
        d_ff: width of the plain layer, at least 1.
        multiplier: factor of the two thirds, above 0.
        multiple_of: the width is rounded up to a multiple of this number, at least 1.

    Raises:
        ValueError: for values outside these ranges.

    Source: Shazeer (2020), section 2; Touvron et al. (2023), section 2.2; CMU-06, CMU-34, GT-25.

    >>> gated_width(3072), gated_width(4 * 4096, multiple_of=256)
    (2048, 11008)
    >>> gated_width(4 * 4096, multiplier=1.3, multiple_of=1024)
    14336
    """
    _check_at_least_one(d_ff=d_ff, multiple_of=multiple_of)
    if not multiplier > 0:
        raise ValueError(f"{multiplier=} must be above 0")
    width = int(multiplier * (2 * d_ff // 3))
    return max(1, math.ceil(width / multiple_of)) * multiple_of
