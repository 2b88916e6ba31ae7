"""Checks of arguments that several layers share."""

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import torch

from llm_anatomy.shapes import Tensor


def _check_at_least_one(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size} must be at least 1")


def _accepted(part: Callable, offered: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the offered arguments that a part takes, by their names."""
    return {name: offered[name] for name in signature(part).parameters if name in offered}


def _check_integers(**positions: Tensor) -> None:
    for name, tensor in positions.items():
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError(f"{name} have dtype {tensor.dtype}; they must be integers")


def _check_ids(ids: object, **others: object) -> None:
    """Check token ids and what has a value for each of them: a boolean ``attention_mask``, integers otherwise."""
    if not isinstance(ids, torch.Tensor):
        kind = type(ids).__name__
        raise TypeError(f"ids is a {kind}; it must be a tensor (batch, tokens), as torch.tensor([[1, 2, 3]]) makes")
    _check_integers(ids=ids)
    if ids.ndim != 2:
        hint = "; ids[None] makes a batch of one text" if ids.ndim == 1 else ""
        raise ValueError(f"ids has shape {tuple(ids.shape)}; it must be (batch, tokens){hint}")
    for name, tensor in others.items():
        if tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}; it must be a tensor (batch, tokens)")
        if name != "attention_mask":
            _check_integers(**{name: tensor})
        elif tensor.dtype != torch.bool:
            raise TypeError(f"{name} has dtype {tensor.dtype}; it must be torch.bool, which {name}.bool() makes")
        if tensor.shape != ids.shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must be that of ids, {tuple(ids.shape)}")
