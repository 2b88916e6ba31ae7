"""Encode values of Python and PyTorch for messages, and decode them.

An encoded value is a dictionary: ``{"type": "tensor", "value": Tensor}``, and similar ones for numbers, text and None;
``{"type": "list", "items": […]}`` and the same with "tuple"; and ``{"type": "dict", "items": [[key, value], …]}``. Any
other value is encoded as ``{"type": "other"}``. As in the notebook's checks, arrays of NumPy count as tensors.
"""

from typing import Any

import numpy as np
import torch

from llm_anatomy.notebook.outcomes import without_numpy
from llm_grader import wire

MAX_TENSOR_ENTRIES = 4_000_000
MAX_LENGTH = 10_000  # entries of a list, characters of a text
MAX_DEPTH = 6
OTHER = {"type": "other"}


def encode(value: Any, depth: int = 0) -> dict:
    """Encode a value."""
    if isinstance(value, np.ndarray) and value.size > MAX_TENSOR_ENTRIES:
        return OTHER
    value = without_numpy(value)
    if isinstance(value, torch.Tensor):
        return _encode_tensor(value)
    if value is None:
        return {"type": "none"}
    if isinstance(value, bool | int | float):
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
        small = kind != "int" or abs(value) < 2**63
        return {"type": kind, "value": {"bool": bool, "int": int, "float": float}[kind](value)} if small else OTHER
    if isinstance(value, str):
        return {"type": "str", "value": str(value)} if len(value) <= MAX_LENGTH else OTHER
    if depth > MAX_DEPTH or not isinstance(value, list | tuple | dict) or len(value) > MAX_LENGTH:
        return OTHER
    if isinstance(value, dict):
        return {"type": "dict", "items": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]}
    kind = "tuple" if isinstance(value, tuple) else "list"
    return {"type": kind, "items": [encode(item, depth + 1) for item in value]}


def _encode_tensor(value: torch.Tensor) -> dict:
    name = str(value.dtype).removeprefix("torch.")
    if value.layout != torch.strided or value.is_meta or name not in wire.NAMES or value.numel() > MAX_TENSOR_ENTRIES:
        return OTHER
    plain = value.detach().cpu().resolve_neg().contiguous()
    array = plain.float().numpy() if name == "bfloat16" else plain.numpy()
    return {"type": "tensor", "value": wire.Tensor(array.copy(), name)}


def decode(value: dict) -> Any:
    """Decode a value."""
    kind = value["type"]
    if kind == "tensor":
        tensor = value["value"]
        return torch.from_numpy(tensor.array.copy()).to(getattr(torch, tensor.dtype))
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](map(decode, value["items"]))
    if kind == "dict":
        return {decode(k): decode(v) for k, v in value["items"]}
    return value.get("value")
