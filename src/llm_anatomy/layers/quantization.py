r"""Quantization: a matrix in 8 bits, with one scale for each row.

Shapes: ``rows``, ``columns``.
"""

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def quantize_rows(matrix: Float[Tensor, "rows columns"]) -> tuple[Int[Tensor, "rows columns"], Float[Tensor, "rows"]]:
    r"""Round a matrix to integers from −127 to 127, with a scale for each row.

    .. math:: s_i = \max_j |W_{ij}| / 127, \quad Q_{ij} = \mathrm{round}(W_{ij} / s_i), \quad
        |s_i\, Q_{ij} - W_{ij}| \leq s_i / 2

    Args:
        matrix: finite numbers.

    Returns:
        The integers, and the scales as float32.

    Raises:
        ValueError: if a number is not finite.

    Source: Dettmers et al. (2022), "LLM.int8()", section 2.1, with their scale of a vector for each row.

    >>> quantize_rows(torch.tensor([[0.5, -1.27], [0.0, 0.0]]))[0].tolist()
    [[50, -127], [0, 0]]
    """
    matrix = matrix.float()
    if not matrix.isfinite().all():
        raise ValueError("matrix holds numbers that are not finite, which have no scale")
    scales = (matrix.abs().amax(-1) / 127).clamp(min=torch.finfo(torch.float32).tiny)
    return (matrix / scales[:, None]).round().to(torch.int8), scales


def dequantize_rows(
    integers: Int[Tensor, "rows columns"], scales: Float[Tensor, "rows"]
) -> Float[Tensor, "rows columns"]:
    r"""Multiply each row by its scale.

    .. math:: W_{ij} \approx s_i\, Q_{ij}

    Args:
        integers, scales: as from :func:`quantize_rows`.

    Source: Dettmers et al. (2022), "LLM.int8()", section 2.1.

    >>> dequantize_rows(*quantize_rows(torch.tensor([[0.5, -1.27]])))
    tensor([[ 0.5000, -1.2700]])
    """
    return integers * scales[:, None]


def quantize_groups(
    matrix: Float[Tensor, "rows columns"], group: int
) -> tuple[Int[Tensor, "rows columns"], Float[Tensor, "rows groups"], Float[Tensor, "rows groups"]]:
    r"""Round a matrix to 4 bits, integers from −8 to 7, with a scale and a zero point for each group of columns.

    .. math:: s = \frac{\max W - \min W}{15}, \quad z = \min W + 8 s, \quad
        Q_{ij} = \mathrm{round}\left(\frac{W_{ij} - z}{s}\right), \quad |s\, Q_{ij} + z - W_{ij}| \leq s / 2

    Minimum and maximum are those of the group, ``group`` neighbouring columns of a row.

    Args:
        matrix: finite numbers; its number of columns must be a multiple of ``group``.
        group: number of columns that share a scale, at least 1.

    Returns:
        The integers, and the scales and zero points as float32.

    Raises:
        ValueError: if a number is not finite, or if the columns do not divide into groups.

    Source: Frantar et al. (2023), "GPTQ", section 4, rounded to the nearest number.

    >>> integers, scales, zeros = quantize_groups(torch.tensor([[0.0, 1.5, -3.0, 4.5]]), group=2)
    >>> integers.tolist(), scales.tolist()
    ([[-8, 7, -8, 7]], [[0.10000000149011612, 0.5]])
    """
    matrix = matrix.float()
    if group < 1 or matrix.shape[1] % group:
        raise ValueError(f"{group=} must be at least 1 and divide the {matrix.shape[1]} columns of matrix")
    if not matrix.isfinite().all():
        raise ValueError("matrix holds numbers that are not finite, which have no scale")
    groups = matrix.unflatten(1, (-1, group))  # (rows, groups, group)
    low, high = groups.aminmax(dim=-1)
    scales = ((high - low) / 15).clamp(min=torch.finfo(torch.float32).tiny)
    zeros = low + 8 * scales
    integers = ((groups - zeros[..., None]) / scales[..., None]).round().clamp(-8, 7)
    return integers.flatten(1).to(torch.int8), scales, zeros
