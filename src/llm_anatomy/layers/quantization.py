r"""Quantization: a matrix in 8 bits, with one scale for each row.

Legend of shapes: ``rows``, ``columns``.
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
