"""Arrays as readers have them: lists, NumPy arrays and tensors of any dtype are all taken."""

from collections.abc import Sequence

import numpy as np
import torch

from llm_anatomy.shapes import Tensor

Array = Sequence | np.ndarray | Tensor
Number = float | int


def as_doubles(values: Array, name: str, n_dimensions: int = 1) -> Tensor:
    """Turn values into a tensor of float64 on the CPU.

    Args:
        values: numbers.
        name: what the values are called in the error message.
        n_dimensions: the number of dimensions that they must have.

    Raises:
        ValueError: if they have another number of dimensions.

    Source: the documentation of PyTorch, ``torch.from_numpy``.

    >>> as_doubles([1, 0], "scores")
    tensor([1., 0.], dtype=torch.float64)
    """
    is_tensor = isinstance(values, Tensor)
    array = values.detach().cpu().double() if is_tensor else torch.from_numpy(np.array(values, dtype=np.float64))
    if array.ndim != n_dimensions:
        raise ValueError(f"{name} has {array.ndim} dimensions; it must have {n_dimensions}")
    return array


def check_confidence(confidence: Number) -> None:
    """Check that a confidence is a probability.

    Args:
        confidence: of an interval.

    Raises:
        ValueError: if it is not between 0 and 1.

    Source: Neyman (1937), "Outline of a theory of statistical estimation".

    >>> check_confidence(0.95)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"{confidence=} must be between 0 and 1")
