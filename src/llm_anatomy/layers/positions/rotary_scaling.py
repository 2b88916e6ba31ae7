r"""The frequencies of rotary position embedding, and their scalings for texts longer than in training.

``pairs = d_rotary / 2`` is the number of planes in which a head is rotated.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from llm_anatomy.shapes import Float, Int, Tensor


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
