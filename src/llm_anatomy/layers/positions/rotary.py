r"""Rotary position embedding: queries and keys are rotated by their position, so that their scalar products depend on
the difference of positions alone.

The first ``d_rotary`` entries of a head form ``pairs = d_rotary / 2`` planes; plane i rotates by ``position *
frequency_i``. Legend of shapes as in ``layers.functional``. Which entries form a pair is a matter of storage.
Interleaved pairs are neighbours (the paper, GPT-J, RoFormer, Cohere, Llama's own files); half-split pairs are entry i
of the first half and entry i of the second (GPT-NeoX, Hugging Face's files of Llama). A fixed reordering leads from one
to the other.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from llm_anatomy.layers._checks import _check_integers
from llm_anatomy.layers._precision import _wide
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.shapes import Float, Int, Tensor

# --- The frequency of each plane: objects that are called with the width and the base ---


@dataclass(frozen=True)
class Frequencies:
    r"""The angle per position of each plane, from one radian in the first plane down to almost none in the last.

    .. math:: \theta_i = \mathrm{base}^{-2i / d_\mathrm{rotary}}, \quad i = 0, \dots, d_\mathrm{rotary}/2 - 1

    The subclasses lower the frequencies, so that a model can read longer texts than it was trained on. Each is an
    object that is called with ``(d_rotary, base)``; ``attention_scaling`` multiplies rotated queries and keys alike.
    Where frequencies depend on the length of the text (``by_length``), the call gives those of the trained length, and
    ``at_length`` those of another one.

    Source: Su et al. (2021), section 3.2.2; IITD-26, CMU-31, GT-36 (the list has d/2 values: errata E-39, E-53).

    >>> [round(f, 4) for f in Frequencies()(8, 10000.0).tolist()]
    [1.0, 0.1, 0.01, 0.001]
    """

    by_length: ClassVar[bool] = False
    """Whether the frequencies depend on the length of the text. What a cache holds of a shorter text then no longer
    holds: keys were rotated by other frequencies, and in all layers but the first they were computed from tokens that
    had seen such keys."""

    @property
    def attention_scaling(self) -> float:
        return 1.0

    def __call__(self, d_rotary: int, base: float) -> Float[Tensor, "pairs"]:
        return 1.0 / base ** _exponents(d_rotary)

    def at_length(self, d_rotary: int, base: float, n_tokens: Int[Tensor, ""]) -> Float[Tensor, "pairs"]:
        """The frequencies for a text of this many tokens, on the device of ``n_tokens``."""
        return self(d_rotary, base).to(n_tokens.device)

    def alike(self, n_before: int, n_after: int) -> bool:
        """Whether texts of both lengths have the same frequencies."""
        return True


def _exponents(d_rotary: int, device: torch.device | str = "cpu") -> Float[Tensor, "pairs"]:
    return torch.arange(0, d_rotary, 2, dtype=torch.float32, device=device) / d_rotary


@dataclass(frozen=True)
class _Scaled(Frequencies):
    """What all scalings share: ``factor``, how many times longer than in training a text may be; at least 1.

    Raises:
        ValueError: for a factor below 1.
    """

    factor: float

    def __post_init__(self):
        if not self.factor >= 1:
            raise ValueError(f"factor={self.factor} must be at least 1: scaling lengthens the context")


@dataclass(frozen=True)
class LinearScaling(_Scaled):
    r"""Position interpolation: divide all frequencies by the factor, as if positions were squeezed together.

    .. math:: \theta_i' = \theta_i / \mathrm{factor}

    Source: Chen et al. (2023), section 3.2.

    >>> LinearScaling(factor=4.0)(2, 10000.0).tolist()
    [0.25]
    """

    def __call__(self, d_rotary: int, base: float) -> Float[Tensor, "pairs"]:
        return super().__call__(d_rotary, base) / self.factor


@dataclass(frozen=True)
class NTKScaling(_Scaled):
    r"""A larger base: the highest frequency stays, and the lowest is divided by the whole factor.

    .. math:: \mathrm{base}' = \mathrm{base} \cdot \mathrm{factor}^{d_\mathrm{rotary} / (d_\mathrm{rotary} - 2)}

    Raises:
        ValueError: when called for fewer than two planes, which cannot keep one frequency and change another.

    Source: bloc97 (2023), "NTK-aware scaled RoPE"; Peng et al. (2023), section 3.1.

    >>> [round(f, 6) for f in NTKScaling(factor=4.0)(4, 10000.0).tolist()]
    [1.0, 0.0025]
    """

    @classmethod
    def for_length(cls, n_tokens: int, original_max_position_embeddings: int, factor: float) -> "NTKScaling":
        """Make the scaling that :class:`DynamicNTKScaling` has for one length: no change up to the trained length, and
        beyond it by as much as ``n_tokens`` requires."""
        return cls(
            factor * max(n_tokens, original_max_position_embeddings) / original_max_position_embeddings - (factor - 1)
        )

    def __call__(self, d_rotary: int, base: float) -> Float[Tensor, "pairs"]:
        _check_planes(d_rotary)
        return super().__call__(d_rotary, base * self.factor ** (d_rotary / (d_rotary - 2)))


def _check_planes(d_rotary: int) -> None:
    if d_rotary < 4:
        raise ValueError(f"d_rotary={d_rotary} must be at least 4 for NTK scaling")


@dataclass(frozen=True)
class DynamicNTKScaling(_Scaled):
    r"""NTK scaling by as much as the text requires: no change up to the trained length, and a larger base beyond it.

    .. math:: \mathrm{base}' = \mathrm{base} \cdot
        \left(\mathrm{factor}\,\frac{n}{n_\mathrm{trained}} - (\mathrm{factor} - 1)\right)^{d_\mathrm{rotary} /
        (d_\mathrm{rotary} - 2)}, \quad n = \max(n_\mathrm{tokens}, n_\mathrm{trained})

    Every new token beyond the trained length changes all frequencies, so that the whole text must be read again, and a
    cache is of no use: a model refuses to go on with one, and ``generate`` reads anew at every step. Hugging Face's
    code agrees without a cache; with one it mixes keys that were rotated for different lengths.

    Args:
        factor: how fast the base grows with the length, at least 1.
        original_max_position_embeddings: the length that the model was trained on.

    Raises:
        ValueError: for a factor or a length below 1; when called for fewer than two planes.

    Source: emozilla (2023), "Dynamically scaled RoPE"; Peng et al. (2023), "YaRN", section 3.3 and appendix A.2.

    >>> dynamic = DynamicNTKScaling(factor=4.0, original_max_position_embeddings=100)
    >>> [round(f, 6) for f in dynamic(4, 10000.0).tolist()]
    [1.0, 0.01]
    >>> [round(f, 6) for f in dynamic.at_length(4, 10000.0, torch.tensor(200)).tolist()]
    [1.0, 0.002]
    """

    original_max_position_embeddings: int
    by_length: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        _check_length(self.original_max_position_embeddings)

    def __call__(self, d_rotary: int, base: float) -> Float[Tensor, "pairs"]:
        _check_planes(d_rotary)
        return super().__call__(d_rotary, base)

    def at_length(self, d_rotary: int, base: float, n_tokens: Int[Tensor, ""]) -> Float[Tensor, "pairs"]:
        n_trained = self.original_max_position_embeddings
        growth = self.factor * n_tokens.clamp(min=n_trained) / n_trained - (self.factor - 1)
        return 1.0 / (base * growth ** (d_rotary / (d_rotary - 2))) ** _exponents(d_rotary, n_tokens.device)

    def alike(self, n_before: int, n_after: int) -> bool:
        return max(n_before, n_after) <= self.original_max_position_embeddings or n_before == n_after


def _check_length(original_max_position_embeddings: int) -> None:
    if not original_max_position_embeddings >= 1:
        raise ValueError(f"{original_max_position_embeddings=} must be at least 1")


@dataclass(frozen=True)
class LongRoPEScaling(_Scaled):
    r"""LongRoPE: a divisor for each plane, found by search, and one list of them for each of two ranges of lengths.

    .. math:: \theta_i' = \frac{\theta_i}{\lambda_i}, \quad \lambda = \begin{cases} \mathrm{short} &
        n_\mathrm{tokens} \le n_\mathrm{trained} \\ \mathrm{long} & \text{otherwise} \end{cases}

    When a text grows beyond the trained length, all frequencies change at that token, and the whole text must be read
    again: a model refuses to go on with its cache, and ``generate`` reads anew, as Hugging Face's code of Phi-3 does.

    Args:
        factor: how many times longer than in training a text may be, at least 1.
        original_max_position_embeddings: the length that the model was trained on; at least 2 unless the factor is 1 or
            ``attention_factor`` is given.
        short_factor, long_factor: the divisors of the planes, all above 0, up to that length and beyond it.
        attention_factor: multiplies rotated queries and keys; :math:`\sqrt{1 + \ln \mathrm{factor} / \ln
            n_\mathrm{trained}}` by default.

    Raises:
        ValueError: for numbers out of range; when called, for lists of another length than the number of planes.

    Source: Ding et al. (2024), "LongRoPE", sections 3.2 and 3.3; Abdin et al. (2024), "Phi-3 Technical Report",
    section 2.

    >>> scaling = LongRoPEScaling(4.0, 100, short_factor=(1.0, 1.0), long_factor=(1.0, 5.0))
    >>> [round(f, 6) for f in scaling(4, 10000.0).tolist()]
    [1.0, 0.01]
    >>> [round(f, 6) for f in scaling.at_length(4, 10000.0, torch.tensor(101)).tolist()]
    [1.0, 0.002]
    """

    original_max_position_embeddings: int
    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    attention_factor: float | None = None
    by_length: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        _check_length(self.original_max_position_embeddings)
        for name in ("short_factor", "long_factor"):
            divisors = getattr(self, name)
            if not all(isinstance(divisor, int | float) and divisor > 0 for divisor in divisors):
                raise ValueError(f"{name}={divisors!r:.60} must hold numbers above 0")
        if self.original_max_position_embeddings == 1 and self.factor > 1 and self.attention_factor is None:
            raise ValueError("original_max_position_embeddings=1 must be at least 2 unless attention_factor is given")

    @property
    def attention_scaling(self) -> float:
        if self.attention_factor is not None or self.factor == 1:
            return 1.0 if self.attention_factor is None else self.attention_factor
        return math.sqrt(1 + math.log(self.factor) / math.log(self.original_max_position_embeddings))

    def __call__(self, d_rotary: int, base: float) -> Float[Tensor, "pairs"]:
        for name in ("short_factor", "long_factor"):
            n = len(getattr(self, name))
            if n != d_rotary // 2:
                raise ValueError(f"{name} holds {n} numbers; it must hold one for each of {d_rotary // 2} planes")
        return self._divided(d_rotary, base, torch.tensor(self.short_factor, dtype=torch.float32, device="cpu"))

    def at_length(self, d_rotary: int, base: float, n_tokens: Int[Tensor, ""]) -> Float[Tensor, "pairs"]:
        short, long = (
            torch.tensor(divisors, dtype=torch.float32, device=n_tokens.device)
            for divisors in (self.short_factor, self.long_factor)
        )
        return self._divided(d_rotary, base, torch.where(n_tokens > self.original_max_position_embeddings, long, short))

    def alike(self, n_before: int, n_after: int) -> bool:
        n_trained = self.original_max_position_embeddings
        return (n_before > n_trained) == (n_after > n_trained)

    @staticmethod
    def _divided(d_rotary: int, base: float, divisors: Float[Tensor, "pairs"]) -> Float[Tensor, "pairs"]:
        return 1.0 / (divisors * base ** _exponents(d_rotary, divisors.device))


@dataclass(frozen=True)
class _ScaledByTurns(_Scaled):
    r"""What YaRN and Llama 3 share: planes that make many full turns within the trained length keep their frequency,
    planes that hardly complete one are interpolated, and those in between are blended linearly.

    .. math:: \theta_i' = \theta_i \left(k_i + \frac{1 - k_i}{\mathrm{factor}}\right), \quad 0 \le k_i \le 1

    Args:
        factor: how many times longer than in training a text may be, at least 1.
        original_max_position_embeddings: the length that the model was trained on.
        beta_fast, beta_slow: a plane with more than ``beta_fast`` full turns in that length is kept, one with fewer
            than ``beta_slow`` is interpolated; both above 0, ``beta_fast`` the larger one. Llama's configs call them
            ``high_freq_factor`` and ``low_freq_factor``.

    Raises:
        ValueError: for a factor or a length below 1, or bounds in the wrong order.
    """

    original_max_position_embeddings: int
    beta_fast: float
    beta_slow: float

    def __post_init__(self):
        super().__post_init__()
        _check_length(self.original_max_position_embeddings)
        if not self.beta_fast > self.beta_slow > 0:
            raise ValueError(f"beta_fast={self.beta_fast} must be above beta_slow={self.beta_slow}, and that above 0")

    def blend(self, frequencies: Float[Tensor, "pairs"], kept: Float[Tensor, "pairs"]) -> Float[Tensor, "pairs"]:
        return frequencies * (kept + (1 - kept) / self.factor)


@dataclass(frozen=True)
class YaRNScaling(_ScaledByTurns):
    r"""YaRN: fast planes keep their frequency, slow planes are interpolated, and the scores get a temperature.

    .. math:: k_i = 1 - \mathrm{clamp}\left(
        \frac{i - i(\mathrm{fast})}{i(\mathrm{slow}) - i(\mathrm{fast})}, 0, 1\right),
        \quad i(\mathrm{turns}) = \frac{d_\mathrm{rotary}}{2\ln\mathrm{base}}
        \ln\frac{n_\mathrm{trained}}{2\pi\,\mathrm{turns}}

    i(turns) is the index of the plane that makes this many full turns within the trained length, rounded down for fast
    and up for slow unless ``truncate=False``, as in gpt-oss. The paper blends by the number of turns. Its code and the
    models that use it blend by the index of the plane, and so do we.

    Args:
        factor: how many times longer than in training a text may be, at least 1.
        original_max_position_embeddings: the length on which the model was trained.
        beta_fast, beta_slow: a plane with more than ``beta_fast`` full turns in that length keeps its frequency, and
            one with fewer than ``beta_slow`` is interpolated.
        attention_factor: :math:`\sqrt{1/t}`. It multiplies rotated queries and rotated keys, so that the scores are
            divided by the temperature t. By default :math:`0.1 \ln(\mathrm{factor}) + 1`.
        truncate: whether i(fast) and i(slow) are rounded to whole planes.

    Source: Peng et al. (2023), "YaRN", sections 3.2 to 3.4.

    >>> round(YaRNScaling(factor=4.0, original_max_position_embeddings=2048).attention_scaling, 4)
    1.1386
    """

    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True

    @property
    def attention_scaling(self) -> float:
        return 0.1 * math.log(self.factor) + 1 if self.attention_factor is None else self.attention_factor

    def __call__(self, d_rotary: int, base: float) -> Float[Tensor, "pairs"]:
        def index(turns: float) -> float:
            return (
                math.log(self.original_max_position_embeddings / (2 * math.pi * turns))
                * d_rotary
                / (2 * math.log(base))
            )

        fast, slow = index(self.beta_fast), index(self.beta_slow)
        if self.truncate:
            fast, slow = math.floor(fast), math.ceil(slow)
        fast, slow = max(fast, 0), min(slow, d_rotary - 1)  # slow below fast for tiny bases and lengths, as there
        slow += 0.001 * (slow == fast)  # no division by zero
        kept = 1 - ((torch.arange(d_rotary // 2, device="cpu") - fast) / (slow - fast)).clamp(0, 1)
        return self.blend(super().__call__(d_rotary, base), kept)


@dataclass(frozen=True)
class Llama3Scaling(_ScaledByTurns):
    r"""Llama 3: planes are blended by their number of turns in the trained length, and there is no temperature.

    .. math:: k_i = \mathrm{clamp}\left(
        \frac{\mathrm{turns}_i - \mathrm{slow}}{\mathrm{fast} - \mathrm{slow}}, 0, 1\right),
        \quad \mathrm{turns}_i = \frac{n_\mathrm{trained}\,\theta_i}{2\pi}

    Source: code of Llama 3.1; Grattafiori et al. (2024), "The Llama 3 Herd of Models".

    >>> [round(f, 6) for f in Llama3Scaling(factor=8.0, original_max_position_embeddings=100)(4, 10000.0).tolist()]
    [1.0, 0.00125]
    """

    beta_fast: float = 4.0
    beta_slow: float = 1.0

    def __call__(self, d_rotary: int, base: float) -> Float[Tensor, "pairs"]:
        frequencies = super().__call__(d_rotary, base)
        turns = self.original_max_position_embeddings * frequencies / (2 * math.pi)
        kept = ((turns - self.beta_slow) / (self.beta_fast - self.beta_slow)).clamp(0, 1)
        return self.blend(frequencies, kept)


# --- One rotation written in three ways, with neighbours paired as in the paper ---


def rotate_by_matrix(
    x: Float[Tensor, "*batch tokens d_rotary"], angles: Float[Tensor, "*#batch tokens pairs"]
) -> Float[Tensor, "*batch tokens d_rotary"]:
    r"""Rotate by the definition: a matrix with one 2 x 2 rotation per plane on its diagonal, and zeros elsewhere.

    .. math:: R_m x, \quad R_m = \mathrm{blockdiag}_i
        \begin{pmatrix} \cos m\theta_i & -\sin m\theta_i \\ \sin m\theta_i & \cos m\theta_i \end{pmatrix}

    Args:
        x: queries or keys.
        angles: :math:`m\theta_i`, position times frequency.

    Source: Su et al. (2021), equation 15; IITD-26, CMU-30, CMU-31, GT-35, UCL-28.

    >>> quarter = torch.tensor([[math.pi / 2]])
    >>> [round(v, 4) for v in rotate_by_matrix(torch.tensor([[1.0, 2.0]]), quarter).flatten().tolist()]
    [-2.0, 1.0]
    """
    matrix = torch.zeros(*angles.shape[:-1], x.shape[-1], x.shape[-1], dtype=x.dtype, device=x.device)
    first = torch.arange(0, x.shape[-1], 2, device=x.device)
    second = first + 1
    matrix[..., first, first] = matrix[..., second, second] = angles.cos().to(x.dtype)
    matrix[..., first, second], matrix[..., second, first] = -angles.sin().to(x.dtype), angles.sin().to(x.dtype)
    return (matrix @ x[..., None])[..., 0]


def rotate_complex(
    x: Float[Tensor, "*batch tokens d_rotary"], angles: Float[Tensor, "*#batch tokens pairs"]
) -> Float[Tensor, "*batch tokens d_rotary"]:
    r"""Rotate by complex numbers: two neighbours are one such number, and its product with a number of length one is
    the rotation.

    .. math:: (x_{2i} + \mathrm{i}\, x_{2i+1}) \, e^{\mathrm{i} m \theta_i}

    Args:
        x, angles: as in ``rotate_by_matrix``.

    Source: Su et al. (2021), equation 12; IITD-25.

    >>> rotate_complex(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0]])).tolist()
    [[1.0, 2.0]]
    """
    return multiply_pairs(x, torch.stack((angles.cos(), angles.sin()), -1))


def rotate_efficient(
    x: Float[Tensor, "*batch tokens d_rotary"], angles: Float[Tensor, "*#batch tokens pairs"]
) -> Float[Tensor, "*batch tokens d_rotary"]:
    r"""Rotate without the zeros of the matrix: two products, entry by entry, and one reordering of neighbours.

    .. math:: R_m x = x \odot (\cos m\theta_0, \cos m\theta_0, \cos m\theta_1, \dots)
        + (-x_1, x_0, -x_3, x_2, \dots) \odot (\sin m\theta_0, \sin m\theta_0, \sin m\theta_1, \dots)

    Args:
        x, angles: as in ``rotate_by_matrix``.

    Source: Su et al. (2021), equation 34, with its last two entries corrected (erratum E-01); IITD-30.

    >>> rotate_efficient(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0]])).tolist()
    [[1.0, 2.0]]
    """
    cos, sin = (table.to(x.dtype).repeat_interleave(2, -1) for table in (angles.cos(), angles.sin()))
    return x * cos + rotate_every_two(x) * sin


def rotate_every_two(x: Float[Tensor, "*batch d_rotary"]) -> Float[Tensor, "*batch d_rotary"]:
    """Rotate each plane by a quarter turn: neighbours swap, and the first of them changes its sign.

    Args:
        x: pairs of neighbours.

    Source: Su et al. (2021), equation 34 (erratum E-01); IITD-30.

    >>> rotate_every_two(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist()
    [-2.0, 1.0, -4.0, 3.0]
    """
    return torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)


def multiply_pairs(
    x: Float[Tensor, "*batch d_rotary"], factors: Float[Tensor, "*#batch pairs 2"]
) -> Float[Tensor, "*batch d_rotary"]:
    """Multiply neighbours by ``factors`` (cosine, sine) as complex numbers, in the precision of ``factors``.

    Args:
        x: pairs of neighbours.
        factors: cosine and sine of the angle of each pair.

    Source: Su et al. (2021), equation 12; IITD-25.

    >>> multiply_pairs(torch.tensor([3.0, 5.0]), torch.tensor([[0.0, 1.0]])).tolist()
    [-5.0, 3.0]
    """
    if x.dtype != factors.dtype:
        return multiply_pairs(x.to(factors.dtype), factors).to(x.dtype)
    if torch.compiler.is_compiling():  # torch.compile fuses operations on real numbers, but not on complex ones
        (first, second), (cos, sin) = (x[..., 0::2], x[..., 1::2]), factors.unbind(-1)
        return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)
    if x.stride(-1) != 1 or x.storage_offset() % 2 or any(step % 2 for step in x.stride()[:-1]):
        x = x.clone(memory_format=torch.contiguous_format)  # a pair must lie where a complex number can
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))  # (*batch, pairs)
    return torch.view_as_real(pairs * torch.view_as_complex(factors)).flatten(-2)


def interleaved_to_half_split(x: Tensor) -> Tensor:
    """Reorder the last axis, so that entries that were neighbours are paired across the halves. Applied head by
    head to the output rows of W^Q and W^K, and to their biases, this converts a model with interleaved pairs to the
    same model with half-split pairs.

    Args:
        x: of any shape, an even number of entries on its last axis.

    Source: the storage orders of GPT-J and GPT-NeoX; IITD-26.

    >>> interleaved_to_half_split(torch.tensor([0, 1, 2, 3, 4, 5])).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return torch.cat((x[..., 0::2], x[..., 1::2]), -1)


def decay_bound(frequencies: Float[Tensor, "pairs"], distances: Int[Tensor, "distances"]) -> Float[Tensor, "distances"]:
    r"""Compute the paper's curve of long-term decay, an upper bound: a score may still grow with the distance.

    .. math:: \frac{1}{d/2} \sum_{i=1}^{d/2} |S_i|, \quad
        S_i = \sum_{j=1}^{i} e^{\mathrm{i}\,(m-n)\,\theta_j}

    Args:
        frequencies: one for each plane.
        distances: between query and key.

    Source: Su et al. (2021), section 3.4.3; IITD-29, GT-36, with erratum E-72.

    >>> [round(v, 2) for v in decay_bound(Frequencies()(128, 10000.0), torch.tensor([0, 10, 100])).tolist()]
    [32.5, 17.95, 10.23]
    """
    angles = distances[:, None] * frequencies  # (distances, pairs)
    return torch.hypot(angles.cos().cumsum(-1), angles.sin().cumsum(-1)).mean(-1)  # |S_i|, without complex numbers


# --- The scheme, once for each pairing ---


class Rotary(PositionScheme):
    r"""Rotary position embedding: the part that both ways of pairing share.

    .. math:: q_m' = R_m q_m, \quad k_n' = R_n k_n, \quad {q_m'}^\top k_n' = q_m^\top R_{n-m} k_n

    The rotation preserves lengths; YaRN also multiplies the result by ``attention_scaling``. A rotated vector depends
    on its position, but the product of two of them depends only on the difference of their positions.
    The rotation is applied to queries and keys after their projections, never to values. Any integer position is
    allowed. Angles are computed in float32 at least, whatever the dtype of the model; ``.to(dtype)`` does not touch the
    frequencies.

    With frequencies that depend on the length of the text, the text is as long as its last position says, over the
    whole batch, as in Hugging Face's code.

    Args:
        d_rotary: number of entries of a head that are rotated, the first ones; even, at most the width of a head.
        base: the larger, the lower the lowest frequency; above 1.
        frequencies: computes the frequency of each plane from these two, such as a scaling for longer contexts.

    Raises:
        ValueError: for a width that is odd or below 2, or a base of 1 or below; in ``rotate``, for heads narrower than
            ``d_rotary`` or positions that do not fit.
        TypeError: in ``rotate``, for positions that are not integers.

    Source: Su et al. (2021), "RoFormer: Enhanced Transformer with Rotary Position Embedding"; IITD-15,
    IITD-24, IITD-25, IITD-26, IITD-27, IITD-28, CMU-28, CMU-29, CMU-30, CMU-31, CMU-32, GT-33, GT-34, GT-35, GT-52,
    UCL-28.

    >>> rotary, x = HalfSplitRotary(4), torch.tensor([[[[1.0, 3.0, 2.0, 4.0]]]])
    >>> bool(torch.isclose(rotary.rotate(x, torch.tensor([[3]])).norm(), x.norm()))
    True
    """

    def __init__(self, d_rotary: int, base: float = 10000.0, frequencies: Frequencies | None = None):
        super().__init__()
        if d_rotary < 2 or d_rotary % 2:
            raise ValueError(f"{d_rotary=} must be even and at least 2")
        if not base > 1:
            raise ValueError(f"{base=} must be above 1")
        scheme = Frequencies() if frequencies is None else frequencies
        self.d_rotary, self.attention_scaling = d_rotary, scheme.attention_scaling
        self.base, self.scaling, self.by_length = base, scheme, scheme.by_length
        self.register_buffer("frequencies", scheme(d_rotary, base), persistent=False)

    def rotate(
        self,
        x: Float[Tensor, "*leading tokens d_head"],
        positions: Int[Tensor, "*#batch tokens"],
        tables: tuple[Tensor, ...] | None = None,
    ) -> Float[Tensor, "*leading tokens d_head"]:
        """Rotate the first ``d_rotary`` entries of each query, or key, by its position; the others do not change.

        Args:
            x: queries or keys, with any dimensions before the tokens: none, batch, heads, batch and heads, or more.
            positions: (tokens,) for all of ``x``, or (batch, tokens), where batch is the first dimension of ``x`` or 1.
            tables: from ``tables``, for the same positions; computed unless they are given.

        >>> rotary, x = HalfSplitRotary(4), torch.randn(3, 5, 4)  # no heads: (batch, tokens, d_head)
        >>> by_one = rotary.rotate(x, torch.arange(5))
        >>> bool(torch.equal(rotary.rotate(x, torch.arange(5).expand(3, 5)), by_one))
        True
        """
        self._check_shapes(x, positions)
        tables = self.tables(positions, x.dtype) if tables is None else tables
        if positions.ndim == 2 and x.ndim != 4:  # from (batch, 1, tokens, ...) to the dimensions of x
            tables = tuple(table.view(table.shape[0], *[1] * (x.ndim - 3), *table.shape[2:]) for table in tables)
        if self.d_rotary == x.shape[-1]:
            return self._rotate(x, *tables)
        return torch.cat((self._rotate(x[..., : self.d_rotary], *tables), x[..., self.d_rotary :]), -1)

    def tables(self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Cosines and sines at the positions, for vectors of ``dtype``: each (tokens, ...) for positions (tokens,), and
        (batch or 1, 1, tokens, ...), with a dimension for the heads, for positions (batch or 1, tokens)."""
        raise NotImplementedError

    def _rotate(self, x: Float[Tensor, "*leading tokens d_rotary"], *tables: Tensor) -> Tensor:
        """Rotate all entries of ``x``."""
        raise NotImplementedError

    def reads_alike(self, n_before: int, n_after: int) -> bool:
        return not self.by_length or self.scaling.alike(n_before, n_after)

    def _angles(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        wide, frequencies = _wide(dtype), self.frequencies
        if self.by_length and positions.numel():
            frequencies = self.scaling.at_length(self.d_rotary, self.base, positions.max() + 1)
        frequencies = frequencies.to(positions.device, wide)
        positions = positions[..., None] if positions.ndim == 1 else positions[:, None, :, None]
        return positions.to(wide) * frequencies  # (tokens, pairs) or (batch or 1, 1, tokens, pairs)

    def _check_shapes(self, x: Tensor, positions: Tensor) -> None:
        shape, given = x.shape, positions.shape
        if len(shape) < 2 or shape[-1] < self.d_rotary:
            raise ValueError(
                f"x has shape {tuple(shape)}; it must be (..., tokens, d_head) with d_head at least "
                f"d_rotary={self.d_rotary}"
            )
        _check_integers(positions=positions)
        fits = given == shape[-2:-1]
        if len(given) == 2 and len(shape) > 2:
            fits = given[1] == shape[-2] and given[0] in (1, shape[0])
        if not fits:
            alternative = f" or ({shape[0]} or 1, {shape[-2]})" if len(shape) > 2 else ""
            raise ValueError(
                f"positions have shape {tuple(given)}; for x {tuple(shape)} they must be ({shape[-2]},){alternative}"
            )

    def _apply(self, fn, recurse=True):
        """Follow a change of device, but not of dtype: rounded frequencies give wrong angles at late positions."""
        frequencies = self.frequencies
        super()._apply(fn, recurse)
        self.frequencies = frequencies.to(self.frequencies.device)
        return self


class InterleavedRotary(Rotary):
    r"""RoPE with interleaved pairs: entries 0 and 1, 2 and 3, and so on.

    The paper, GPT-J, RoFormer and Cohere use this pairing. The complex form is the fastest for it, since a pair is
    stored in memory like a complex number.

    .. math:: (x_{2i} + \mathrm{i}\, x_{2i+1}) \, e^{\mathrm{i} m \theta_i}

    Arguments and errors as in ``Rotary``.

    Source: Su et al. (2021), section 3.4.2; IITD-25, IITD-26.

    >>> x, positions = torch.tensor([[[[1.0, 2.0, 3.0, 4.0, 5.0]]]]), torch.tensor([[3]])
    >>> [round(v, 4) for v in InterleavedRotary(4).rotate(x, positions).flatten().tolist()]  # the last entry stays
    [-1.2722, -1.8389, 2.8787, 4.0882, 5.0]
    """

    def tables(self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype) -> tuple[Tensor, ...]:
        angles = self._angles(positions, dtype)
        return (torch.stack((angles.cos(), angles.sin()), -1) * self.attention_scaling,)  # (..., pairs, 2)

    def _rotate(self, x: Float[Tensor, "*leading tokens d_rotary"], *tables: Tensor) -> Tensor:
        return multiply_pairs(x, *tables)


class HalfSplitRotary(Rotary):
    r"""RoPE with half-split pairs: entry i of the first half and entry i of the second.

    GPT-NeoX and Hugging Face's Llama use this pairing. The efficient form is the fastest for it: the halves are
    exchanged, and the sine carries the sign.

    .. math:: x \odot (c, c) + (x_\mathrm{second}, x_\mathrm{first}) \odot (-s, s), \quad
        c_i = \cos m\theta_i, \; s_i = \sin m\theta_i

    Arguments and errors as in ``Rotary``.

    Source: Su et al. (2021), section 3.4.2; IITD-25, IITD-26.

    >>> x, positions = torch.tensor([[[[1.0, 3.0, 2.0, 4.0, 5.0]]]]), torch.tensor([[3]])
    >>> [round(v, 4) for v in HalfSplitRotary(4).rotate(x, positions).flatten().tolist()]  # the last entry stays
    [-1.2722, 2.8787, -1.8389, 4.0882, 5.0]
    """

    def tables(self, positions: Int[Tensor, "*batch tokens"], dtype: torch.dtype) -> tuple[Tensor, ...]:
        angles = self._angles(positions, dtype)  # (..., tokens, pairs)
        cos, sin = angles.cos() * self.attention_scaling, angles.sin() * self.attention_scaling
        return torch.cat((cos, cos), -1).to(dtype), torch.cat((-sin, sin), -1).to(dtype)

    def _rotate(self, x: Float[Tensor, "*leading tokens d_rotary"], *tables: Tensor) -> Tensor:
        # under autocast the tables have the dtype of the hidden states, not of x
        cos, signed_sin = (table.to(x.dtype) for table in tables)
        return (x * cos).addcmul_(x.roll(self.d_rotary // 2, -1), signed_sin)
