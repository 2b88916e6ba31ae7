r"""Linear layers that store their weights for products with few rows, as in decoding.

A step of decoding multiplies one row for each sequence with every weight of a model, so its time is the time to read
the weights. ``pack`` chooses the layout in which they are read fastest, or stores them with fewer bits. The layers are
for inference: their weights are buffers without gradients.

Shapes: ``rows`` are tokens, ``d_in`` and ``d_out`` the widths before and after the product.
"""

import sys
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.deprecation import renamed_arguments
from llm_anatomy.layers.quantization import quantize_groups, quantize_rows
from llm_anatomy.shapes import Float, Tensor

GROUP = 32
"""Number of neighbouring weights of a row that share a scale and a zero point in 4 bits."""

WEIGHTS = (None, "bfloat16", "int8", "int4")
"""How ``pack`` stores weights: in their own dtype, as bfloat16, or in 8 or 4 bits."""


ROWS = 8
"""Number of rows for which oneDNN's layout is chosen; it serves one row and many nearly as well."""

ON_INTEL = "Intel" in getattr(torch.cpu, "get_capabilities", dict)().get("cpu_name", "")
"""Whether the CPU is one for which MKL, with which PyTorch computes ``F.linear``, was written."""

SMALLEST, SMALLEST_FOR_ONE_ROW = (2**20, sys.maxsize) if ON_INTEL else (2**16, 2**20)
"""Number of weights from which oneDNN's kernel is used in float32, for several rows and for one. With fewer, calling it
takes longer than the product. On Intel's CPUs, ``F.linear`` reads a row's weights at the rate of memory."""


class PackedLinear(nn.Module):
    r"""Linear layer with a weight in its own dtype, in the layout that is read fastest.

    .. math:: y = x W^\top + b

    On a CPU, a weight in float32, or in bfloat16 where the CPU has AVX-512, is packed once for PyTorch's oneDNN kernel.
    With eight rows, this took 0.2 to 0.8 of the time of ``F.linear`` on an AMD EPYC, and 0.4 to 1 on an Intel Xeon. On
    Intel's CPUs, only matrices of a million weights or more are packed in float32, and they are also kept as they are
    for one row; on others, the smaller ones are kept so. ``torch.compile`` cannot read packed weights. Where a wide
    matrix in float32 is kept or not packed, its columns are made contiguous, which is faster for one row. The values
    are the same in all layouts, up to the order of the sums.

    Args:
        weight: (d_out, d_in), as in ``nn.Linear``. It is not copied if its layout does not change.
        bias: (d_out,) or None.
        prepack: whether oneDNN's layout may be used; False for a layer that will be compiled.

    Raises:
        RuntimeError: from ``torch.compile``, for a packed weight.

    Source: no paper; measured in ``benchmarks/generation.py``.

    >>> layer = PackedLinear(torch.ones(3, 2), prepack=False)
    >>> layer(torch.tensor([[1.0, 2.0]])).tolist(), layer.weight.stride()
    ([[3.0, 3.0, 3.0]], (1, 3))
    """

    weight: Tensor | None
    packed: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        weight: Float[Tensor, "d_out d_in"],
        bias: Float[Tensor, "d_out"] | None = None,
        *,
        prepack: bool = True,
    ):
        super().__init__()
        weight, on_cpu, packed = weight.detach(), weight.device.type == "cpu", None
        in_float32, is_small = weight.dtype == torch.float32, weight.numel() < SMALLEST_FOR_ONE_ROW
        self.d_in = weight.shape[1]
        if prepack and on_cpu and _has_kernel(weight):
            packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)
        if on_cpu and in_float32 and weight.shape[0] > self.d_in and (is_small or packed is None):
            weight = weight.t().contiguous().t()
        self.register_buffer("weight", weight if in_float32 and is_small or packed is None else None, persistent=False)
        self.register_buffer("packed", packed, persistent=False)
        self.register_buffer("bias", None if bias is None else bias.detach(), persistent=False)

    @property
    def is_packed(self) -> bool:
        """Whether the weight lies in oneDNN's layout."""
        return self.packed is not None

    def forward(self, x: Float[Tensor, "*rows d_in"]) -> Float[Tensor, "*rows d_out"]:
        if self.packed is None or self.weight is not None and x.numel() == self.d_in:
            return F.linear(x, cast(Tensor, self.weight), self.bias)
        if torch.compiler.is_compiling():
            raise RuntimeError("torch.compile cannot read packed weights; make the layer with prepack=False")
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")


class BFloat16Linear(PackedLinear):
    r"""Linear layer with a weight in bfloat16; the input is rounded to it, and the output has the dtype of the input.

    Half the bytes are read. A CPU without instructions for bfloat16 or AVX-512 converts the numbers first, and may gain
    nothing.

    Args:
        weight, bias, prepack: as in :class:`PackedLinear`.

    Source: Kalamkar et al. (2019), "A Study of BFLOAT16 for Deep Learning Training".

    >>> BFloat16Linear(torch.full((3, 2), 0.5))(torch.tensor([[1.0, 2.0]])).tolist()
    [[1.5, 1.5, 1.5]]
    """

    def __init__(
        self,
        weight: Float[Tensor, "d_out d_in"],
        bias: Float[Tensor, "d_out"] | None = None,
        *,
        prepack: bool = True,
    ):
        super().__init__(weight.bfloat16(), None if bias is None else bias.bfloat16(), prepack=prepack)

    def forward(self, x: Float[Tensor, "*rows d_in"]) -> Float[Tensor, "*rows d_out"]:
        return super().forward(x.bfloat16()).to(x.dtype)


class Int8Linear(nn.Module):
    r"""Linear layer with a weight in 8 bits and one scale for each row of the matrix; the input is rounded to bfloat16.

    .. math:: y_i = s_i \sum_j Q_{ij} x_j + b_i, \quad W_{ij} \approx s_i Q_{ij}

    Args:
        weight, bias: as in :class:`PackedLinear`. On a CPU, the columns must be a multiple of 32. On a GPU,
            ``torch.compile`` makes one kernel of the conversion and the product, which reads the 8 bits; without it,
            the weight is converted first.

    Raises:
        ValueError: for a weight of other sizes, which PyTorch's kernel does not check.

    Source: Dettmers et al. (2022), "LLM.int8()", section 2.1, for weights alone; PyTorch's ``_weight_int8pack_mm``.

    >>> layer = Int8Linear(torch.linspace(-1.27, 1.27, 64).view(2, 32))
    >>> layer(torch.eye(32)[:2]).shape, layer.weight.dtype, layer.weight[1, -1].item()
    (torch.Size([2, 2]), torch.int8, 127)
    """

    weight: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, weight: Float[Tensor, "d_out d_in"], bias: Float[Tensor, "d_out"] | None = None):
        super().__init__()
        if weight.device.type == "cpu":
            _check_sizes(weight, rows=1)
        integers, scales = quantize_rows(weight.detach())
        self.d_out = len(weight)
        self.register_buffer("weight", integers, persistent=False)
        self.register_buffer("scales", scales.bfloat16(), persistent=False)
        self.register_buffer("bias", None if bias is None else bias.detach(), persistent=False)

    def forward(self, x: Float[Tensor, "*rows d_in"]) -> Float[Tensor, "*rows d_out"]:
        if self.weight.device.type != "cpu":
            output = F.linear(x, self.weight.to(x.dtype)) * self.scales.to(x.dtype)
            return output if self.bias is None else output + self.bias
        rows = x.reshape(-1, x.shape[-1]).bfloat16().contiguous()
        output = torch.ops.aten._weight_int8pack_mm(rows, self.weight, self.scales).to(x.dtype)
        output = output if self.bias is None else output + self.bias
        return output.view(*x.shape[:-1], self.d_out)


class Int4Linear(nn.Module):
    r"""Linear layer with a weight in 4 bits, and a scale and a zero point for each group of 32 weights in a row.

    .. math:: y_i = \sum_g \sum_{j \in g} (s_{ig} Q_{ij} + z_{ig})\, x_j + b_i, \quad Q_{ij} \in \{-8, \dots, 7\}

    The input, the scales and the zero points are rounded to bfloat16.

    Args:
        weight, bias: as in :class:`PackedLinear`; the weight must be on a CPU, its rows a multiple of 16 and its
            columns a multiple of 32.

    Raises:
        ValueError: for a weight on another device, or of other sizes.

    Source: Frantar et al. (2023), "GPTQ", section 4 (groups), rounded to the nearest number; PyTorch's
    ``_weight_int4pack_mm_for_cpu``.

    >>> weight = torch.linspace(-8, 7, 16).repeat(16, 2)  # 16 values, which 4 bits can represent
    >>> Int4Linear(weight)(torch.eye(32)[:1])[0, :3].tolist()
    [-8.0, -8.0, -8.0]
    """

    weight: Tensor
    scales_and_zeros: Tensor
    bias: Tensor | None

    def __init__(self, weight: Float[Tensor, "d_out d_in"], bias: Float[Tensor, "d_out"] | None = None):
        super().__init__()
        _check_sizes(weight, rows=16)
        integers, scales, zeros = quantize_groups(weight.detach(), GROUP)
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(integers.int() + 8, 1)
        self.d_out = len(weight)
        self.register_buffer("weight", packed, persistent=False)
        both = torch.stack((scales, zeros), -1).transpose(0, 1).bfloat16().contiguous()  # (groups, d_out, 2)
        self.register_buffer("scales_and_zeros", both, persistent=False)
        self.register_buffer("bias", None if bias is None else bias.detach(), persistent=False)

    def forward(self, x: Float[Tensor, "*rows d_in"]) -> Float[Tensor, "*rows d_out"]:
        rows = x.reshape(-1, x.shape[-1]).bfloat16().contiguous()
        output = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.weight, GROUP, self.scales_and_zeros).to(x.dtype)
        output = output if self.bias is None else output + self.bias
        return output.view(*x.shape[:-1], self.d_out)


@renamed_arguments(weights="quantize")
def pack(
    weight: Float[Tensor, "d_out d_in"],
    bias: Float[Tensor, "d_out"] | None = None,
    quantize: str | None = None,
    *,
    prepack: bool = True,
) -> nn.Module:
    """Make the linear layer that stores a weight as ``quantize`` says, or as nearly as its sizes allow.

    PyTorch's kernels for 8 bits take rows of a multiple of 32 weights, and those for 4 bits also a multiple of 16 rows.

    Args:
        weight: (d_out, d_in), as in ``nn.Linear``.
        bias: (d_out,) or None.
        quantize: None for the dtype of the weight, ``"bfloat16"``, ``"int8"``, where a weight whose sizes do not fit
            keeps its dtype, or ``"int4"``, where such a weight is stored in 8 bits if those fit.
        prepack: as in :class:`PackedLinear`; without effect on 8 and 4 bits.

    Raises:
        ValueError: for any other value of ``quantize``, and for 4 bits on another device than a CPU.

    Source: Pope et al. (2022), section 2 (the bytes of the weights decide the time of a decoding step); GT-43.

    >>> [type(pack(torch.ones(rows, 32), quantize="int4")).__name__ for rows in (16, 5)]
    ['Int4Linear', 'Int8Linear']
    """
    if quantize not in WEIGHTS:
        raise ValueError(f"{quantize=} must be one of {', '.join(map(repr, WEIGHTS))}")
    on_cpu = weight.device.type == "cpu"
    if quantize == "int4" and not on_cpu:
        raise ValueError(f"{quantize=} must be None, 'bfloat16' or 'int8' on device {weight.device}: it needs a CPU")
    d_out, d_in = weight.shape
    if quantize == "int4" and d_out % 16:
        quantize = "int8"
    if quantize in ("int8", "int4") and d_in % GROUP and on_cpu:
        quantize = None
    if quantize in ("int8", "int4"):
        return (Int8Linear if quantize == "int8" else Int4Linear)(weight, bias)
    return (BFloat16Linear if quantize else PackedLinear)(weight, bias, prepack=prepack)


def _has_kernel(weight: Tensor) -> bool:
    """Whether oneDNN's kernel takes a weight on this CPU, and is worth its call."""
    if weight.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32 and weight.numel() >= SMALLEST and torch.backends.mkldnn.is_available()


def _check_sizes(weight: Tensor, rows: int) -> None:
    if weight.device.type != "cpu":
        raise ValueError(f"weight is on device {weight.device}; it must be on a CPU")
    if weight.shape[0] % rows or weight.shape[1] % GROUP:
        multiples = f"{GROUP} columns" if rows == 1 else f"{rows} rows and {GROUP} columns"
        raise ValueError(f"weight has shape {tuple(weight.shape)}; it must have multiples of {multiples}")
