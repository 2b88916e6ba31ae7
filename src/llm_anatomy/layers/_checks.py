"""What the layers refuse in the same words."""

import torch

from llm_anatomy.shapes import Tensor


def _check_at_least_one(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size} must be at least 1")


def _check_integers(**positions: Tensor) -> None:
    for name, tensor in positions.items():
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError(f"{name} have dtype {tensor.dtype}; they must be integers")
