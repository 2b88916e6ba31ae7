"""Values of Python and PyTorch as messages, and back.

A value is a small dictionary: ``{"is": "tensor", "value": Tensor}``, a number, text or None alike, ``{"is": "list",
"items": […]}`` for lists and tuples, ``{"is": "dict", "items": [[key, value], …]}``. What has no such form is
``{"is": "other"}``.
"""

from typing import Any

import torch

from llm_grader import wire

LARGEST = 4_000_000  # entries of one tensor
LONGEST = 10_000  # entries of one list, characters of one text
DEEPEST = 6
OTHER = {"is": "other"}


def encode(value: Any, depth: int = 0) -> dict:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if value is None:
        return {"is": "none"}
    if isinstance(value, bool | int | float):
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
        small = kind != "int" or abs(value) < 2**63
        return {"is": kind, "value": {"bool": bool, "int": int, "float": float}[kind](value)} if small else OTHER
    if isinstance(value, str):
        return {"is": "str", "value": str(value)} if len(value) <= LONGEST else OTHER
    if depth > DEEPEST or not isinstance(value, list | tuple | dict) or len(value) > LONGEST:
        return OTHER
    if isinstance(value, dict):
        return {"is": "dict", "items": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]}
    return {"is": "list", "items": [encode(item, depth + 1) for item in value]}


def _tensor(value: torch.Tensor) -> dict:
    name = str(value.dtype).removeprefix("torch.")
    if value.layout != torch.strided or value.is_meta or name not in wire.NAMES or value.numel() > LARGEST:
        return OTHER
    plain = value.detach().cpu().resolve_neg().contiguous()
    array = plain.float().numpy() if name == "bfloat16" else plain.numpy()
    return {"is": "tensor", "value": wire.Tensor(array.copy(), name)}


def decode(value: dict) -> Any:
    kind = value["is"]
    if kind == "tensor":
        tensor = value["value"]
        return torch.from_numpy(tensor.array.copy()).to(getattr(torch, tensor.dtype))
    if kind == "list":
        return [decode(item) for item in value["items"]]
    if kind == "dict":
        return {decode(k): decode(v) for k, v in value["items"]}
    return value.get("value")
