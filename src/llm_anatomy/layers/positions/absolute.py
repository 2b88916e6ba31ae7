r"""Absolute schemes: each position has a vector, which is added to the embedding of the token at this position.

Shapes: ``batch``, ``tokens``, ``d_model`` (width of an embedding, and of the vector of a position). The
schemes are those of the lecture, in its order: two codes that it rejects, two that lead to the sinusoids, the
sinusoids, and a trained table.

All schemes act before attention, so that keys can be cached. The only exception is :class:`LengthScaledIndex`, whose
vectors depend on the length of the sentence.
"""

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one, _check_integers
from llm_anatomy.layers._precision import _wide
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.shapes import Float, Int, Tensor


class AbsoluteScheme(PositionScheme):
    r"""What absolute schemes share: the vector of a position is added to the embedding, once, at the input.

    .. math:: x_i' = x_i + p_i, \quad \text{so that } q_i = W_q (x_i + p_i), \text{ likewise } k_i \text{ and } v_i

    A subclass implements ``encoding``.

    Args:
        d_model: width of the embeddings, at least 1.

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

    at_input: ClassVar[bool] = True

    def __init__(self, d_model: int):
        super().__init__()
        _check_at_least_one(d_model=d_model)
        self.d_model = d_model

    def encoding(
        self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch tokens d_model"]:
        """Compute the vectors of positions, one row per token.

        Args:
            positions: integers, (tokens,) or (batch, tokens).
            dtype: of the vectors.

        Raises:
            TypeError: for positions that are not integers.
            ValueError: by a scheme that has no vector for one of the positions.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement encoding")

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
    r"""Option 1, rejected: the index itself in every coordinate.

    .. math:: p_i = i\,\mathbf{1}

    The values are unbounded and dominate the content, positions beyond the training range are unseen, and all
    coordinates carry the same information. In bfloat16, successive indices above 256 are not even distinct.

    Args:
        d_model: width of the embeddings, at least 1.

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
    r"""Option 2, rejected: the index scaled by the length n of the sentence to the range from 0 to 1.

    .. math:: p_i = \frac{i}{n - 1}\,\mathbf{1}, \quad n = 1 + \max_j j, \quad p_0 = 0 \text{ where } n = 1

    The vector of a position, and the difference between neighbours, change with the length of the sentence. The length
    is computed from the positions of each row, which must hold one complete sentence; padding counts as part of it.

    Args:
        d_model: width of the embeddings, at least 1.

    Raises:
        ValueError: in addition to those of ``AbsoluteScheme``, for positions below 0.

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
        if not positions.shape[-1]:
            return torch.zeros(*positions.shape, self.d_model, dtype=dtype, device=positions.device)
        last = positions.amax(-1, keepdim=True).clamp(min=1)  # (..., 1): n - 1
        scaled = (positions.to(_wide(dtype)) / last).to(dtype)
        return repeat(scaled, "... tokens -> ... tokens d_model", d_model=self.d_model)


# --- Two steps towards the sinusoids ---


class BinaryCounter(AbsoluteScheme):
    r"""Binary digits of the index, lowest first: each coordinate alternates half as often as the previous one.

    .. math:: p_{i,k} = \left\lfloor i / 2^k \right\rfloor \bmod 2

    Bit k has period :math:`2^{k+1}`, and the code repeats after :math:`2^{d_\mathrm{model}}` positions. In written
    numbers, and in the slide's table, the lowest digit is the last one.

    Args:
        d_model: width of the embeddings, the number of digits; at least 1.

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
    r"""One sine of the position in every coordinate: bounded and independent of the length, but periodic.

    .. math:: p_i = \sin\left(\frac{2\pi}{\mathrm{period}}\, i\right) \mathbf{1}

    Args:
        d_model: width of the embeddings, at least 1.
        period: number of positions after which the sine repeats, above 0. The default :math:`2\pi` is one radian per
            position, as in the first coordinate of the sinusoids; no two integer positions then agree exactly, but some
            almost do.

    Raises:
        ValueError: in addition to those of ``AbsoluteScheme``, for a period that is not above 0.

    Source: IITD-09 (errata E-08: positions 0 and 6 agree if 6 is a whole number of half periods; E-09).

    >>> [round(abs(SingleSine(1, period).encoding(torch.tensor([6])).item()), 4) for period in (12.0, 6.0, 2 * math.pi)]
    [0.0, 0.0, 0.2794]
    """

    def __init__(self, d_model: int, period: float = 2 * math.pi):
        super().__init__(d_model)
        if not 0 < period < math.inf:
            raise ValueError(f"{period=} must be above 0 and finite")
        self.period = period

    def encoding(
        self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch tokens d_model"]:
        _check_integers(positions=positions)
        angles = positions.to(_angle_dtype(positions.device)) * (2 * math.pi / self.period)
        return repeat(angles.sin().to(dtype), "... tokens -> ... tokens d_model", d_model=self.d_model)


# --- Two schemes that models use ---


class Sinusoidal(AbsoluteScheme):
    r"""Sinusoidal encoding: a sine and a cosine for each of many frequencies, from one radian per position down.

    .. math:: p_{i,2t} = \sin\left(i / \mathrm{base}^{2t/d_\mathrm{model}}\right), \quad
        p_{i,2t+1} = \cos\left(i / \mathrm{base}^{2t/d_\mathrm{model}}\right)

    Coordinates 2t and 2t + 1 form pair t. If the width is odd, the last sine has no cosine. Marian and RoFormer store
    all sines first and then all cosines, which are the same numbers in another order.

    The encoding is defined at every position, but a model that was trained on short texts may still fail on longer ones
    (erratum E-21).

    Args:
        d_model: width of the embeddings, even or odd, at least 1.
        base: sets the range of the wavelengths, from 2π to almost 2π · base; above 1.

    Raises:
        ValueError: in addition to those of ``AbsoluteScheme``, for a base that is not above 1.

    Source: Vaswani et al. (2017), section 3.5; IITD-08 (errata E-09, and E-10: t counts pairs), IITD-10, IITD-11,
    IITD-12 (erratum E-11), IITD-16, IITD-17, CMU-23, GT-28.

    >>> [[round(v, 4) for v in row] for row in Sinusoidal(4).encoding(torch.arange(3), torch.float64).tolist()]
    [[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.01, 1.0], [0.9093, -0.4161, 0.02, 0.9998]]
    """

    label = "sinusoidal positions"

    def __init__(self, d_model: int, base: float = 10000.0):
        super().__init__(d_model)
        if not 1 < base < math.inf:
            raise ValueError(f"{base=} must be above 1 and finite")
        self.base = base

    def encoding(
        self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch tokens d_model"]:
        _check_integers(positions=positions)
        positions = positions.to(_angle_dtype(positions.device))
        exponents = torch.arange(0, self.d_model, 2, dtype=positions.dtype, device=positions.device) / self.d_model
        angles = positions[..., None] / self.base**exponents  # (..., tokens, pairs)
        pairs = torch.stack((angles.sin(), angles.cos()), -1).to(dtype)
        return rearrange(pairs, "... tokens pairs two -> ... tokens (pairs two)")[..., : self.d_model]


class Learned(AbsoluteScheme):
    r"""Learned encoding: one trained vector for each position up to ``n_ctx``.

    .. math:: p_i = P_{:,i}, \quad P \in \mathbb{R}^{d_\mathrm{model} \times n_\mathrm{ctx}}

    ``table`` is the transpose of P: its rows belong to positions. The scheme is equivalent to a linear layer on one-hot
    positions, :math:`p_i = P e_i`. As in BERT, the table is initialized from a normal distribution with a standard
    deviation of 0.02.

    Args:
        n_ctx: number of positions, at least 1.
        d_model: width of the embeddings, at least 1.
        offset: number of rows of the table that precede that of position 0, as two do in OPT.

    Raises:
        ValueError: in addition to those of ``AbsoluteScheme``, if ``n_ctx`` is below 1 or ``offset`` below 0; in
            ``embed`` and ``encoding``, for positions outside 0 to n_ctx - 1. A compiled graph skips this check.

    Source: Gehring et al. (2017), section 3.1; Devlin et al. (2019), section 3; IITD-13, IITD-16, CMU-24, GT-28,
    GT-29 (erratum E-99), UCL-23.

    >>> scheme = Learned(n_ctx=4, d_model=6)
    >>> scheme.encoding(torch.tensor([[3, 0]])).shape
    torch.Size([1, 2, 6])
    >>> scheme.encoding(torch.tensor([3, 4]))
    Traceback (most recent call last):
    ValueError: positions hold 4; they must be 0 to n_ctx - 1 = 3: there is no vector for any other
    """

    options = "learned"
    needs_n_ctx = True
    label = "learned positions"

    def __init__(self, n_ctx: int, d_model: int, *, offset: int = 0):
        super().__init__(d_model)
        _check_at_least_one(n_ctx=n_ctx)
        if offset < 0:
            raise ValueError(f"{offset=} must be at least 0")
        self.n_ctx, self.offset = n_ctx, offset
        self.table = nn.Parameter(torch.randn(n_ctx + offset, d_model) * 0.02)

    def encoding(
        self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch tokens d_model"]:
        _check_integers(positions=positions)
        inside = (positions >= 0) & (positions < self.n_ctx)
        _check_bounds(positions, inside, f"0 to n_ctx - 1 = {self.n_ctx - 1}: there is no vector for any other")
        return F.embedding(positions.long() + self.offset, self.table).to(dtype)


def _angle_dtype(device: torch.device) -> torch.dtype:
    """Return float64: float32 has errors of about 1e-4 at positions up to 2000. Apple's GPUs have float32 only."""
    return torch.float32 if device.type == "mps" else torch.float64


def _check_bounds(positions: Tensor, inside: Tensor, allowed: str) -> None:
    """Raise a ValueError for a position outside the allowed range. A compiled graph and the meta device, which have no
    values, omit this check."""
    if torch.compiler.is_compiling() or positions.is_meta:
        return
    if not inside.all():
        raise ValueError(f"positions hold {positions[~inside][0].item()}; they must be {allowed}")
