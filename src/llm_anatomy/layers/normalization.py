r"""Normalization: values are brought to a common scale, over the batch or over the features of one token.

The layers differ in the axis of their statistics. ``BatchNorm`` computes them for each feature over the batch.
``LayerNorm`` and ``RMSNorm`` compute them for each token over its features, and so do not depend on the batch.
Variances are those of the population: the sum of squares is divided by the number of values n, not by n - 1.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers._precision import _wide
from llm_anatomy.shapes import Bool, Float, Tensor

# --- The two formulas, along any axis ---


def min_max(x: Float[Tensor, "*shape"], axis: int) -> Float[Tensor, "*shape"]:
    r"""Scale values linearly, so that the smallest becomes 0 and the largest 1.

    .. math:: x' = \frac{x - x_\min}{x_\max - x_\min}

    Args:
        x: values of any shape.
        axis: the axis of minimum and maximum. If they are equal, the result is nan.

    Returns:
        Values from 0 to 1, of the same shape.

    Source: the lecture's two features of a student, age and tuition; IITD-34.

    >>> students = torch.tensor([[18.0, 20000.0], [21.5, 35000.0], [25.0, 50000.0]])
    >>> min_max(students, axis=0).tolist()
    [[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]]
    """
    low, high = x.aminmax(dim=axis, keepdim=True)
    return (x - low) / (high - low)


def standardize(x: Float[Tensor, "*shape"], axis: int, eps: float = 0.0) -> Float[Tensor, "*shape"]:
    r"""Shift and scale values to mean 0 and standard deviation 1, as batch norm (axis 0) and layer norm (axis -1) do.

    .. math:: \hat x = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}, \quad
        \mu = \frac1n \sum_i x_i, \quad \sigma^2 = \frac1n \sum_i (x_i - \mu)^2

    Args:
        x: values of any shape.
        axis: the axis of mean and standard deviation.
        eps: added to the variance. Without it, the result is nan if all values are equal; with it, 0.

    Returns:
        Values of the same shape and dtype. The statistics are computed in at least float32.

    Source: IITD-35, IITD-37, UCL-25 (the slides of the batch norm example say 1.69 for 1.70: erratum E-06).

    >>> batch = torch.tensor([[1.0, 3.0, 5.0, 7.0], [3.0, 4.0, 6.0, 2.0], [8.0, 3.0, 2.0, 1.0]])  # 3 samples
    >>> [round(v, 3) for v in standardize(batch, axis=0)[:, 0].tolist()]
    [-1.019, -0.34, 1.359]
    """
    wide = x.to(_wide(x.dtype))
    variance, mean = torch.var_mean(wide, axis, correction=0, keepdim=True)
    return ((wide - mean) / (variance + eps).sqrt()).to(x.dtype)


# --- The layers ---


class BatchNorm(nn.Module):
    r"""Batch normalization: standardize each feature over all tokens of the batch, then scale and shift it as learned.

    .. math:: y = \gamma \odot \frac{x - \mu_b}{\sqrt{\sigma_b^2 + \epsilon}} + \beta

    In training, the statistics are those of the batch, and their running averages are updated; the variance in the
    running average is divided by n - 1. In evaluation, the running averages are used. The output for a token therefore
    depends on its batch in training, but not in evaluation. Estimates from a small batch are noisy: the standard error
    of the mean is :math:`\sigma/\sqrt{B}`.

    Args:
        n_features: width of a token.
        eps: added to the variance; above 0.
        momentum: weight of the newest batch in the running averages, above 0 and at most 1.

    Raises:
        ValueError: for sizes out of range; in training, for a single token, whose variance is zero.

    Source: Ioffe and Szegedy (2015), algorithms 1 and 2; IITD-36, IITD-37, IITD-38, IITD-39, IITD-41, UCL-25 (errata
    E-04, E-97).

    >>> norm, batch = BatchNorm(2), torch.tensor([[1.0, 3.0], [3.0, 4.0], [8.0, 3.0]])
    >>> [round(v, 3) for v in norm(batch)[:, 0].tolist()], [round(v, 2) for v in norm.running_mean.tolist()]
    ([-1.019, -0.34, 1.359], [0.4, 0.33])
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, n_features: int, *, eps: float = 1e-5, momentum: float = 0.1):
        super().__init__()
        _check_range(n_features=n_features, eps=eps)
        if not eps > 0:
            raise ValueError(f"{eps=} must be above 0, since a feature may be constant over a batch")
        if not 0 < momentum <= 1:
            raise ValueError(f"{momentum=} must be above 0 and at most 1")
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(n_features)), nn.Parameter(torch.zeros(n_features))
        self.register_buffer("running_mean", torch.zeros(n_features))
        self.register_buffer("running_var", torch.ones(n_features))

    def forward(
        self, x: Float[Tensor, "batch *tokens features"], mask: Bool[Tensor, "batch *tokens"] | None = None
    ) -> Float[Tensor, "batch *tokens features"]:
        """Normalize the tokens of a batch.

        Args:
            x: one token for each row of the batch, or several.
            mask: True = a token, False = padding, which is not counted in the statistics; its output is zero.
        """
        _check_width(x, self.weight.shape[0])
        rows = x.flatten(0, -2) if mask is None else x[mask]  # (rows, features)
        if self.training and rows.shape[0] < 2:
            raise ValueError(f"BatchNorm needs at least 2 tokens in training for a variance, but x has {rows.shape[0]}")
        rows = F.batch_norm(
            rows, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps
        )
        return rows.view_as(x) if mask is None else torch.zeros_like(x).masked_scatter(mask[..., None], rows)


class LayerNorm(nn.Module):
    r"""Layer normalization: standardize each token over its features, then scale and shift them as learned.

    .. math:: y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta, \quad
        \mu = \frac1d \sum_i x_i, \quad \sigma^2 = \frac1d \sum_i (x_i - \mu)^2

    Tokens do not influence each other, and training and evaluation are the same. Many models omit the shift; OLMo omits
    both.

    Args:
        d_model: width of a token.
        eps: added to the variance.
        weight: whether there is a scale :math:`\gamma`.
        bias: whether there is a shift :math:`\beta`.

    Raises:
        ValueError: for a width below 1 or a negative eps.

    Source: Ba et al. (2016), section 3; IITD-40, IITD-41, CMU-17, UCL-25, GT-21 (errata E-04, E-36).

    >>> [round(v, 3) for v in LayerNorm(4)(torch.tensor([[1.0, 3.0, 5.0, 7.0]])).flatten().tolist()]
    [-1.342, -0.447, 0.447, 1.342]
    """

    options: ClassVar[str | None] = "layernorm"
    """The field of the config that holds ``weight`` and ``bias``."""

    def __init__(self, d_model: int, *, eps: float = 1e-5, weight: bool = True, bias: bool = True):
        super().__init__()
        _check_range(d_model=d_model, eps=eps)
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model)) if weight else None
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Normalize each token by itself.

        Args:
            x: the tokens, with any dimensions before the width.

        Raises:
            ValueError: for tokens of another width.
        """
        _check_width(x, self.d_model)
        return F.layer_norm(x, (self.d_model,), self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    r"""RMS normalization: divide each token by its root mean square, then scale its features as learned.

    .. math:: y = \frac{x}{\sqrt{\frac1d \sum_i x_i^2 + \epsilon}} \odot g

    This is layer norm without the mean and the shift; on a token whose mean is zero, both agree. The result does not
    depend on the norm of the token, but depends on a shift of its entries. It is computed in at least float32, and
    rounded once, after the scale.

    Args:
        d_model: width of a token.
        eps: added to the mean square.

    Raises:
        ValueError: for a width below 1 or a negative eps.

    Source: Zhang and Sennrich (2019), equation 4; CMU-20, GT-16, GT-17, GT-18 (erratum E-35).

    >>> [round(v, 3) for v in RMSNorm(4)(torch.tensor([[1.0, 3.0, 5.0, 7.0]])).flatten().tolist()]
    [0.218, 0.655, 1.091, 1.528]
    """

    def __init__(self, d_model: int, *, eps: float = 1e-6):
        super().__init__()
        _check_range(d_model=d_model, eps=eps)
        self.eps, self.weight = eps, nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Normalize each token by itself.

        Args:
            x: the tokens, with any dimensions before the width.

        Raises:
            ValueError: for tokens of another width.
        """
        return _rms_norm(x, self.weight, self.eps)


class UnitOffsetRMSNorm(RMSNorm):
    r"""RMSNorm as stored in Gemma's checkpoints: the scale is one plus the weight, which is initialized to zero.

    .. math:: y = \frac{x}{\sqrt{\frac1d \sum_i x_i^2 + \epsilon}} \odot (1 + w)

    Weight decay drives this scale towards 1, and the scale of ``RMSNorm`` towards 0.

    Args:
        d_model, eps: as in ``RMSNorm``.

    Raises:
        ValueError: as in ``RMSNorm``.

    Source: Gemma team (2024), the released code; CMU-20, GT-16.

    >>> norm = UnitOffsetRMSNorm(4)
    >>> norm.weight.tolist(), [round(v, 3) for v in norm(torch.tensor([[1.0, 3.0, 5.0, 7.0]])).flatten().tolist()]
    ([0.0, 0.0, 0.0, 0.0], [0.218, 0.655, 1.091, 1.528])
    """

    def __init__(self, d_model: int, *, eps: float = 1e-6):
        super().__init__(d_model, eps=eps)
        nn.init.zeros_(self.weight)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return _rms_norm(x, 1 + self.weight.to(_wide(x.dtype)), self.eps)


class AcrossHeads(nn.Module):
    """Norm over all heads of a token at once, as OLMo 2 normalizes its queries and keys.

    QK-norm keeps the scores from growing. Most models normalize each head by itself, with one weight for all heads;
    this is ``RMSNorm(d_head)``, without a wrapper. This module merges the heads, normalizes, and splits them again.

    Args:
        norm: a norm of width heads x d_head; for keys, the heads are the key-value heads.

    Source: OLMo team (2025), "2 OLMo 2 Furious"; QK-norm from Dehghani et al. (2023); CMU-20.

    >>> query = torch.randn(2, 3, 5, 4)  # (batch, heads, tokens, d_head)
    >>> normed = AcrossHeads(RMSNorm(3 * 4))(query)
    >>> mean_square = normed.square().mean((1, 3))  # over heads and entries: one number a token
    >>> tuple(normed.shape), bool(torch.allclose(mean_square, torch.ones(2, 5), atol=1e-3))
    ((2, 3, 5, 4), True)
    """

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def forward(self, x: Float[Tensor, "batch heads tokens d_head"]) -> Float[Tensor, "batch heads tokens d_head"]:
        flat = rearrange(x, "batch heads tokens d -> batch tokens (heads d)")
        return rearrange(self.norm(flat), "batch tokens (heads d) -> batch heads tokens d", heads=x.shape[1])


class LayerNormPerHead(nn.Module):
    r"""Layer norm of each head by itself, with a scale for each head and no shift, for queries and keys.

    .. math:: y_h = \gamma_h \odot \frac{x_h - \mu_h}{\sqrt{\sigma_h^2 + \epsilon}}

    StableLM 2 12B and Command R+ normalize their queries and keys with it. ``LayerNorm(d_head)`` in its place would
    have one scale for all heads.

    Args:
        n_heads: number of heads; of keys, that of the key-value heads.
        d_head: width of a head.
        eps: added to the variance.

    Raises:
        ValueError: for sizes below 1, a negative eps, and heads of another width.

    Source: Stability AI (2024), "Stable LM 2", and Cohere (2024), "Command R+", the released code; QK-norm from
    Dehghani et al. (2023), "Scaling Vision Transformers to 22 Billion Parameters"; CMU-20.

    >>> norm, query = LayerNormPerHead(n_heads=3, d_head=4), torch.randn(2, 3, 5, 4)  # (batch, heads, tokens, d_head)
    >>> tuple(norm.weight.shape), bool(norm(query).mean(-1).abs().max() < 1e-6)
    ((3, 4), True)
    """

    no_weight_decay = ("weight",)
    """The scales, a vector for each head."""

    def __init__(self, n_heads: int, d_head: int, *, eps: float = 1e-5):
        super().__init__()
        _check_range(n_heads=n_heads, d_head=d_head, eps=eps)
        self.eps, self.weight = eps, nn.Parameter(torch.ones(n_heads, d_head))

    def forward(self, x: Float[Tensor, "batch heads tokens d_head"]) -> Float[Tensor, "batch heads tokens d_head"]:
        _check_width(x, self.weight.shape[1])
        normed = F.layer_norm(x.to(_wide(x.dtype)), (x.shape[-1],), eps=self.eps)
        return (normed * self.weight[:, None]).to(x.dtype)  # rounded once, after the scale


def _rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    _check_width(x, weight.shape[0])
    # PyTorch has one kernel on a GPU. On a CPU it has none, and is slower than the lines below except for one token.
    if x.dtype == weight.dtype and (x.device.type != "cpu" or x.numel() == weight.numel()):
        return F.rms_norm(x, weight.shape, weight, eps)
    wide = x.to(_wide(x.dtype))
    norm = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)  # (*batch, 1)
    # x / sqrt(|x|^2 / d + eps) * weight
    return (wide * (norm.square() / x.shape[-1] + eps).rsqrt() * weight).to(x.dtype)


def _check_range(*, eps: float, **width: int) -> None:
    _check_at_least_one(**width)
    if not eps >= 0:
        raise ValueError(f"{eps=} must be at least 0")


def _check_width(x: Tensor, width: int) -> None:
    if x.shape[-1] != width:
        raise ValueError(f"x has shape {tuple(x.shape)}; its last axis must be {width}, the width of this norm")
