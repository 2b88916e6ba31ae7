r"""Absolute schemes: each position has a vector of its own, added to the embedding of the token that stands there.

Legend of shapes: ``batch``, ``tokens``, ``d_model`` (width of an embedding, and of the vector of a position). The
ladder of the lecture: two codes that are rejected, kept here for their defects, two that lead to the sinusoids, then
the sinusoids, and a table that is trained.

Every scheme here is done when attention starts, so that keys can be cached, except where the vectors depend on how
long the sentence is.
"""

import math

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one, _check_integers
from llm_anatomy.layers._precision import _wide
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.shapes import Float, Int, Tensor


class AbsoluteScheme(PositionScheme):
    r"""What absolute schemes share: the vector of the position is added to the embedding, once, at the input.

    .. math:: x_i' = x_i + p_i, \quad \text{so that } q_i = W_q (x_i + p_i), \text{ likewise } k_i \text{ and } v_i

    Args:
        d_model: width of the embeddings, from 1.

    Raises:
        ValueError: for a width below 1; in ``embed``, for another width or positions that do not fit.
        TypeError: in ``embed`` and ``encoding``, for positions that are not integers.

    Source: Vaswani et al. (2017), section 3.5; IITD-16 (erratum E-03: the position is i, not k), CMU-23.

    >>> scheme = IntegerIndex(3)
    >>> scheme.encoding(torch.arange(2)).tolist()  # the vectors alone, for figures
    [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    >>> scheme.embed(torch.full((1, 2, 3), 0.5), torch.tensor([[7, 8]])).tolist()
    [[[7.5, 7.5, 7.5], [8.5, 8.5, 8.5]]]
    """

    def __init__(self, d_model: int):
        super().__init__()
        _check_at_least_one(d_model=d_model)
        self.d_model = d_model

    def encoding(
        self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch tokens d_model"]:
        """The vectors of the positions, one row per token; ``positions`` may be just ``(tokens,)``."""
        raise NotImplementedError(f"{type(self).__name__} must say which vector a position has")

    def embed(
        self, x: Float[Tensor, "batch tokens d_model"], positions: Int[Tensor, "#batch tokens"]
    ) -> Float[Tensor, "batch tokens d_model"]:
        if x.ndim != 3 or x.shape[-1] != self.d_model:
            raise ValueError(f"x has shape {tuple(x.shape)}; it must be (batch, tokens, d_model={self.d_model})")
        if positions.ndim != 2 or positions.shape[0] not in (1, x.shape[0]) or positions.shape[1] != x.shape[1]:
            raise ValueError(
                f"positions have shape {tuple(positions.shape)}; for x {tuple(x.shape)} they must be "
                f"({x.shape[0]} or 1, {x.shape[1]})"
            )
        return x + self.encoding(positions, x.dtype)


# --- Two options that the lecture rejects ---


class IntegerIndex(AbsoluteScheme):
    r"""Option 1, rejected: the index itself, in every coordinate.

    .. math:: p_i = i\,\mathbf{1}

    The values have no bound and drown the content, positions beyond the training range are unseen, and all coordinates
    say the same. In bfloat16 the index cannot even count beyond 256.

    Args:
        d_model: width of the embeddings, from 1.

    Raises:
        ValueError, TypeError: as ``AbsoluteScheme``.

    Source: IITD-04, IITD-06 (erratum E-20: added, not concatenated).

    >>> e_1 = torch.tensor([[[0.87, -0.64, 0.81, 0.26, -0.35]]])
    >>> [round(v, 2) for v in IntegerIndex(5).embed(e_1, torch.tensor([[1]])).flatten().tolist()]
    [1.87, 0.36, 1.81, 1.26, 0.65]
    """

    def encoding(
        self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch tokens d_model"]:
        _check_integers(positions=positions)
        return repeat(positions.to(dtype), "... tokens -> ... tokens d_model", d_model=self.d_model)


class LengthScaledIndex(AbsoluteScheme):
    r"""Option 2, rejected: the index, scaled by the length n of the sentence to lie between 0 and 1.

    .. math:: p_i = \frac{i}{n - 1}\,\mathbf{1}, \quad n = 1 + \max_j j, \quad p_0 = 0 \text{ where } n = 1

    The same position has another vector in a sentence of another length, and so has a step to the neighbour. The length
    is read off the positions, row by row: a row is one sentence, given whole; padding takes places within it.

    Args:
        d_model: width of the embeddings, from 1.

    Raises:
        ValueError: besides those of ``AbsoluteScheme``, for positions below 0, which no length scales to 0 to 1.

    Source: IITD-05 (the slide shows a picture; the formula is supplied).

    >>> scheme = LengthScaledIndex(1)
    >>> [round(scheme.encoding(torch.arange(n))[2].item(), 4) for n in (4, 31)]
    [0.6667, 0.0667]
    """

    not_cacheable = "each new token makes the sentence longer, which changes the vectors of all tokens before it"

    def encoding(
        self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch tokens d_model"]:
        _check_integers(positions=positions)
        _check_bounds(positions, positions >= 0, "at least 0")
        last = positions.amax(-1, keepdim=True).clamp(min=1)  # (..., 1): n - 1
        scaled = (positions.to(_wide(dtype)) / last).to(dtype)
        return repeat(scaled, "... tokens -> ... tokens d_model", d_model=self.d_model)


# --- Two steps towards the sinusoids ---


class BinaryCounter(AbsoluteScheme):
    r"""The index in binary digits, the fastest first: each coordinate alternates half as often as the one before.

    .. math:: p_{i,k} = \left\lfloor i / 2^k \right\rfloor \bmod 2

    Bit k has period :math:`2^{k+1}`, and the counter starts anew after :math:`2^{d_\mathrm{model}}` positions. Written
    numbers, and the slide's table, have the fastest digit last.

    Args:
        d_model: width of the embeddings: how many digits, from 1.

    Raises:
        ValueError, TypeError: as ``AbsoluteScheme``.

    Source: IITD-07.

    >>> BinaryCounter(4).encoding(torch.tensor([6, 7, 8])).int().tolist()
    [[0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]]
    """

    def encoding(
        self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch tokens d_model"]:
        _check_integers(positions=positions)
        digits = torch.arange(self.d_model, device=positions.device)
        return (positions.long()[..., None] >> digits & 1).to(dtype)


class SingleSine(AbsoluteScheme):
    r"""One sine over the positions, in every coordinate: bounded, the same for any length, and it repeats.

    .. math:: p_i = \sin\left(\frac{2\pi}{\mathrm{period}}\, i\right) \mathbf{1}

    Args:
        d_model: width of the embeddings, from 1.
        period: after how many positions it repeats, above 0. By default :math:`2\pi`, one radian per position, as in
            the first coordinate of the sinusoids: no two whole positions then agree exactly, but some come close.

    Raises:
        ValueError: besides those of ``AbsoluteScheme``, for a period that is not above 0.

    Source: IITD-09 (errata E-08: positions 0 and 6 agree if 6 is a whole number of half periods; E-09).

    >>> [round(abs(SingleSine(1, period).encoding(torch.tensor([6])).item()), 4) for period in (12.0, 6.0, 2 * math.pi)]
    [0.0, 0.0, 0.2794]
    """

    def __init__(self, d_model: int, period: float = 2 * math.pi):
        super().__init__(d_model)
        if not 0 < period < math.inf:
            raise ValueError(f"period={period} must be a number of positions above 0")
        self.period = period

    def encoding(
        self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch tokens d_model"]:
        _check_integers(positions=positions)
        angles = positions.to(_angle_dtype(positions.device)) * (2 * math.pi / self.period)
        return repeat(angles.sin().to(dtype), "... tokens -> ... tokens d_model", d_model=self.d_model)


# --- The two that models use ---


class Sinusoidal(AbsoluteScheme):
    r"""A sine and a cosine for each of many frequencies, from one radian per position down to almost none.

    .. math:: p_{i,2t} = \sin\left(i / \mathrm{base}^{2t/d_\mathrm{model}}\right), \quad
        p_{i,2t+1} = \cos\left(i / \mathrm{base}^{2t/d_\mathrm{model}}\right)

    Coordinates 2t and 2t + 1 form pair t. Where the width is odd, the last sine has no cosine beside it. Marian's
    and RoFormer's tables hold all sines first, then all cosines: a fixed reordering of the same numbers.

    Defined at any position; that a model trained on short texts reads longer ones does not follow (erratum E-21).

    Args:
        d_model: width of the embeddings, from 1; odd widths too.
        base: how far the wavelengths spread, from 2π up to almost 2π · base; above 1.

    Raises:
        ValueError: besides those of ``AbsoluteScheme``, for a base that is not above 1.

    Source: Vaswani et al. (2017), section 3.5; IITD-08 (errata E-09, and E-10: t counts pairs), IITD-10, IITD-11,
    IITD-12 (erratum E-11), IITD-16, IITD-17, CMU-23, GT-28.

    >>> [[round(v, 4) for v in row] for row in Sinusoidal(4).encoding(torch.arange(3), torch.float64).tolist()]
    [[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.01, 1.0], [0.9093, -0.4161, 0.02, 0.9998]]
    """

    def __init__(self, d_model: int, base: float = 10000.0):
        super().__init__(d_model)
        if not 1 < base < math.inf:
            raise ValueError(f"base={base} must be above 1, so that wavelengths grow")
        self.base = base

    def encoding(
        self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch tokens d_model"]:
        _check_integers(positions=positions)
        exact = dict(device=positions.device, dtype=_angle_dtype(positions.device))
        exponents = torch.arange(0, self.d_model, 2, **exact) / self.d_model  # (pairs,)
        angles = positions.to(**exact)[..., None] / self.base**exponents  # (..., tokens, pairs)
        pairs = torch.stack((angles.sin(), angles.cos()), -1).to(dtype)
        return rearrange(pairs, "... tokens pairs two -> ... tokens (pairs two)")[..., : self.d_model]


class Learned(AbsoluteScheme):
    r"""One trained vector per position, for as many positions as there are in training and no more.

    .. math:: p_i = P_{:,i}, \quad P \in \mathbb{R}^{d_\mathrm{model} \times n_\mathrm{ctx}}

    ``table`` is P with the positions as rows. The same thing is a linear layer over one-hot positions,
    :math:`p_i = P e_i`. It starts from a normal distribution of standard deviation 0.02, BERT's.

    Args:
        n_ctx: how many positions, from 1.
        d_model: width of the embeddings, from 1.

    Raises:
        ValueError: besides those of ``AbsoluteScheme``, for no positions; in ``embed`` and ``encoding``, for positions
            outside 0 to n_ctx - 1. A compiled graph leaves this check out.

    Source: Gehring et al. (2017), section 3.1; Devlin et al. (2019), section 3; IITD-13, IITD-16, CMU-24, GT-28,
    GT-29 (erratum E-99), UCL-23.

    >>> scheme = Learned(n_ctx=4, d_model=6)
    >>> scheme.encoding(torch.tensor([[3, 0]])).shape
    torch.Size([1, 2, 6])
    >>> scheme.encoding(torch.tensor([3, 4]))
    Traceback (most recent call last):
    ValueError: positions hold 4; they must be 0 to n_ctx - 1 = 3: there is no vector for any other
    """

    def __init__(self, n_ctx: int, d_model: int):
        super().__init__(d_model)
        _check_at_least_one(n_ctx=n_ctx)
        self.n_ctx = n_ctx
        self.table = nn.Parameter(torch.randn(n_ctx, d_model) * 0.02)

    def encoding(
        self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch tokens d_model"]:
        _check_integers(positions=positions)
        inside = (positions >= 0) & (positions < self.n_ctx)
        _check_bounds(positions, inside, f"0 to n_ctx - 1 = {self.n_ctx - 1}: there is no vector for any other")
        return F.embedding(positions.long(), self.table).to(dtype)


def _angle_dtype(device: torch.device) -> torch.dtype:
    """In float32, values at positions up to 2000 are off by up to some 1e-4; Apple's GPUs have nothing better."""
    return torch.float32 if device.type == "mps" else torch.float64


def _check_bounds(positions: Tensor, inside: Tensor, allowed: str) -> None:
    """Looks at values, for which a GPU must be waited for; a compiled graph cannot, and the meta device has none."""
    if torch.compiler.is_compiling() or positions.is_meta:
        return
    if not inside.all():
        raise ValueError(f"positions hold {positions[~inside][0].item()}; they must be {allowed}")
