r"""Buckets of offsets: functions that relative schemes use to map offsets to the rows of a table.

Small offsets have a row each; larger offsets share rows, by clipping or in bins that grow with the distance. An offset
is key position minus query position; ``rows`` is the number of rows of a table.
"""

import math
from dataclasses import dataclass

import torch

from llm_anatomy.shapes import Int, Tensor


@dataclass(frozen=True)
class Clip:
    r"""One row per offset between two bounds; offsets beyond a bound share its row.

    .. math:: \mathrm{row}(r) = \mathrm{clip}(r, r_\mathrm{min}, r_\mathrm{max}) - r_\mathrm{min}

    Args:
        r_min: the smallest offset with a row of its own, at most 0.
        r_max: the largest offset with a row of its own, at least 0. All offsets between T tokens have rows of their own
            in ``Clip(1 - T, T - 1)``, with 2T - 1 rows.

    Raises:
        ValueError: for bounds that do not enclose 0.

    Source: Shaw et al. (2018), section 3.2; IITD-19, CMU-26, GT-30.

    >>> Clip(-2, 1)(torch.tensor([-9, -2, -1, 0, 1, 9])).tolist()
    [0, 0, 1, 2, 3, 3]
    """

    r_min: int
    r_max: int

    def __post_init__(self):
        if not self.r_min <= 0 <= self.r_max:
            raise ValueError(f"r_min={self.r_min} must be at most 0, and r_max={self.r_max} at least 0")

    @property
    def n_rows(self) -> int:
        return self.r_max - self.r_min + 1

    def __call__(self, offset: Int[Tensor, "*pairs"]) -> Int[Tensor, "*pairs"]:
        return offset.clamp(self.r_min, self.r_max) - self.r_min


@dataclass(frozen=True)
class T5Buckets:
    r"""Buckets of T5 for an encoder: half of the rows for the past and the present, and half for the future.

    In each half, small distances have a row each, and larger distances share bins that grow with the distance.

    .. math:: \mathrm{row}(r) = n\,[r > 0] + \begin{cases} |r| & |r| < e \\ \min\left(n - 1, \;
        e + \left\lfloor (n - e) \ln\frac{|r|}{e} \big/ \ln\frac{\mathrm{max}}{e} \right\rfloor\right) & |r| \geq e
        \end{cases}, \quad n = \frac{\mathrm{rows}}{2}, \; e = \lfloor n / 2 \rfloor

    Args:
        n_rows: total number of rows; even, at least 4.
        max_distance: all offsets of one sign from this distance on share a row; above ``e``, the number of distances
            with a row of their own.

    Raises:
        ValueError: for sizes out of range.

    Source: Raffel et al. (2020), section 2.1, and T5's code; IITD-21.

    >>> T5Buckets(8, 10)(torch.tensor([-99, -3, -2, -1, 0, 1, 2, 3, 99])).tolist()
    [3, 2, 2, 1, 0, 5, 6, 6, 7]
    """

    n_rows: int = 32
    max_distance: int = 128

    def __post_init__(self):
        if self.n_rows < 4 or self.n_rows % 2:
            raise ValueError(
                f"n_rows={self.n_rows} must be even and at least 4, with half of the rows for each direction"
            )
        self._check_max_distance(self.n_rows // 2)

    def _check_max_distance(self, n_rows: int) -> None:
        if self.max_distance <= n_rows // 2:
            raise ValueError(
                f"max_distance={self.max_distance} must be above {n_rows // 2}, the number of rows of one distance each"
            )

    def _row_of_distance(self, distance: Tensor, n_rows: int) -> Tensor:
        exact = n_rows // 2  # e
        # ln(|r| / e) / ln(max / e)
        growth = torch.log(distance.clamp(min=exact).float() / exact) / math.log(self.max_distance / exact)
        far = (exact + (growth * (n_rows - exact)).long()).clamp(max=n_rows - 1)
        return torch.where(distance < exact, distance, far)

    def __call__(self, offset: Int[Tensor, "*pairs"]) -> Int[Tensor, "*pairs"]:
        half = self.n_rows // 2
        return (offset > 0) * half + self._row_of_distance(offset.abs(), half)


@dataclass(frozen=True)
class T5CausalBuckets(T5Buckets):
    """Buckets of T5 for a decoder: all rows for the past and the present, since a causal mask hides the future.

    Args:
        n_rows: number of rows, at least 2.
        max_distance: all offsets from this distance on share a row; above ``n_rows // 2``.

    Raises:
        ValueError: for sizes out of range.

    Source: Raffel et al. (2020), section 2.1, and T5's code; IITD-21.

    >>> T5CausalBuckets(4, 10)(torch.tensor([-99, -5, -4, -1, 0, 7])).tolist()
    [3, 3, 2, 1, 0, 0]
    """

    def __post_init__(self):
        if self.n_rows < 2:
            raise ValueError(f"n_rows={self.n_rows} must be at least 2")
        self._check_max_distance(self.n_rows)

    def __call__(self, offset: Int[Tensor, "*pairs"]) -> Int[Tensor, "*pairs"]:
        return self._row_of_distance((-offset).clamp(min=0), self.n_rows)


@dataclass(frozen=True)
class DeBERTaLogBuckets:
    r"""Buckets of DeBERTa-v2 and v3: distances up to half the span have a row each, and larger ones share growing bins.

    The first version of DeBERTa uses ``Clip(-span, span - 1)`` instead.

    .. math:: \mathrm{row}(r) = \mathrm{span} + \begin{cases} r & |r| \leq m \\ \mathrm{sign}(r) \left(m +
        \left\lceil (m - 1) \ln\frac{|r|}{m} \big/ \ln\frac{\mathrm{max} - 1}{m} \right\rceil\right) & |r| > m
        \end{cases}, \quad m = \frac{\mathrm{span}}{2}, \quad 0 \leq \mathrm{row} < 2\,\mathrm{span}

    Args:
        span: half the number of rows (256 in the published models); even, at least 4.
        max_distance: the largest distance covered by the bins (512 in the published models); above ``span / 2 + 1``.

    Raises:
        ValueError: for sizes out of range.

    Source: the code of He et al. (2021), DeBERTa-v2; IITD-23.

    >>> DeBERTaLogBuckets(4, 9)(torch.tensor([-99, -3, -2, 0, 2, 3, 99])).tolist()
    [0, 1, 2, 4, 6, 7, 7]
    """

    span: int
    max_distance: int

    def __post_init__(self):
        if self.span < 4 or self.span % 2 or self.max_distance <= self.span // 2 + 1:
            raise ValueError(
                f"span={self.span} must be even and at least 4, and "
                f"max_distance={self.max_distance} above {self.span // 2 + 1}"
            )

    @property
    def n_rows(self) -> int:
        return 2 * self.span

    def __call__(self, offset: Int[Tensor, "*pairs"]) -> Int[Tensor, "*pairs"]:
        middle, distance = self.span // 2, offset.abs()
        growth = torch.log(distance.clamp(min=middle).float() / middle)
        # in float32 as well: the quotient is then exactly 1 where the last bin begins, and is not rounded up
        growth = growth / torch.log(torch.tensor((self.max_distance - 1) / middle, device=offset.device))
        far = offset.sign() * (middle + torch.ceil(growth * (middle - 1)).long())
        return (torch.where(distance <= middle, offset, far) + self.span).clamp(0, self.n_rows - 1)
