"""What a function does, as plain data: results of an exercise's answer that can be stored, compared and recognised."""

import math
import numbers
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

FEW = 4  # a tensor of more numbers is stored in a fingerprint by its sums
SUMS = 2
MAX_DEPTH = 20  # of lists in lists; one that contains itself has no end


class Unusable(Exception):
    """Raised if ``observe`` cannot use what the answer returned."""


class CheckTimeout(BaseException):
    """Raised in the thread of an answer that takes too long."""


def encode(value: Any, depth: int = 0) -> dict:
    """Convert a value to plain data, with floats that are not whole to six digits.

    The value is a tensor, a number, a string, None, or a tuple, a list or a dictionary (with string keys) of such
    values; see :func:`without_numpy`. Of any other value only the type is kept.
    """
    numpy = {"numpy": True} if isinstance(value, np.ndarray) else {}  # for messages: it counts as a tensor
    value = without_numpy(value)
    if depth > MAX_DEPTH and isinstance(value, tuple | list | dict):
        return {"type": f"{type(value).__name__} in too many others"}
    if isinstance(value, torch.Tensor) and value.layout == torch.strided and not (value.is_complex() or value.is_meta):
        data = [_six_digits(x) for x in value.detach().flatten().tolist()]
        return {"type": "tensor", "dtype": str(value.dtype), "shape": list(value.shape), "data": data} | numpy
    if isinstance(value, bool | int | float | str):
        return {"type": type(value).__name__, "shape": [], "data": [_six_digits(value)]}
    if isinstance(value, tuple | list):
        return {"type": type(value).__name__, "items": [encode(item, depth + 1) for item in value]}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        names = sorted(map(str, value))
        return {"type": "dict", "names": names, "items": [encode(value[name], depth + 1) for name in names]}
    if isinstance(value, torch.Tensor):
        return {"type": "complex tensor" if value.is_complex() else f"tensor ({value.layout})"}
    return {"type": type(value).__name__}


def without_numpy(value: Any) -> Any:
    """Return an array as a tensor, a scalar of NumPy's or a fraction as Python's own, and any other value as it is.

    An answer may return arrays where its exercise speaks of floats of some shape. Arrays of what PyTorch does not know,
    such as text, are returned as they are.
    """
    if isinstance(value, np.ndarray):
        try:
            return torch.from_numpy(value.astype(value.dtype.newbyteorder("="), order="C"))  # a copy in memory's order
        except TypeError:
            return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, int | float) else value


def decode(encoded: dict) -> Any:
    """Convert plain data back to a new copy of the value that was encoded."""
    kind = encoded["type"]
    if kind == "tensor":
        dtype = getattr(torch, encoded["dtype"].removeprefix("torch."))
        return torch.tensor(encoded["data"], dtype=dtype, device="cpu").reshape(encoded["shape"])
    if "items" in encoded:
        items = list(map(decode, encoded["items"]))
        if kind == "dict":
            return dict(zip(encoded["names"], items, strict=True))
        return tuple(items) if kind == "tuple" else items
    return encoded["data"][0] if "data" in encoded else None


def undecodable(encoded: dict) -> str | None:
    """Return the type of the first value that :func:`decode` cannot restore, or None."""
    if "items" in encoded:
        return next(filter(None, map(undecodable, encoded["items"])), None)
    return None if "data" in encoded or encoded["type"] == "NoneType" else encoded["type"]


def outcome(answer: Callable, case: dict, observe: Callable | None = None) -> tuple[dict, BaseException | None]:
    """Call the answer on an encoded case; return what it returned or raised and which arguments it changed.

    The exception itself is returned as well, so that the caller can report where it was raised.

    Args:
        observe: if given, ``observe(returned, **case)`` replaces the returned value; its AssertionError says why the
            value cannot be used.
    """
    arguments = {name: decode(value) for name, value in case.items()}
    error = None
    try:
        returned = answer(*arguments.values())
        if observe and returned is not None:
            returned = _observed(observe, returned, case)
    except CheckTimeout:
        raise
    except BaseException as e:  # sys.exit() in an answer is a mistake like any other
        found, error = {"raised": type(e).__name__}, e
    else:
        found = {"returned": encode(returned)}
    changed = [name for name, value in arguments.items() if not agree(encode(value), case[name])]
    return found | ({"changed": changed} if changed else {}), error


def _observed(observe: Callable, returned: Any, case: dict) -> Any:
    try:
        return observe(on_cpu(returned), **{name: decode(value) for name, value in case.items()})
    except AssertionError as e:
        raise Unusable(str(e)) from e
    except Exception as e:
        no_number = re.fullmatch("could not convert string to float: (.+)", str(e))
        other = re.fullmatch(r"float\(\) argument must be .*, not '(\w+)'", str(e))
        what = no_number[1] if no_number else other and other[1].replace("NoneType", "None")
        raise Unusable(f"{what} is not a number" if what else type(e).__name__) from e


def on_cpu(value: Any) -> Any:
    """Return a value with its tensors on the CPU, and without NumPy's arrays and scalars."""
    if isinstance(value, tuple | list):
        return (tuple if isinstance(value, tuple) else list)(map(on_cpu, value))  # namedtuples take no iterator
    if isinstance(value, dict):
        return {name: on_cpu(entry) for name, entry in value.items()}
    return value.cpu() if isinstance(value, torch.Tensor) else without_numpy(value)


def alike(a: dict, b: dict) -> bool:
    """Return whether two outcomes are the same up to rounding."""
    same = a.get("raised") == b.get("raised") and a.get("changed") == b.get("changed")
    return same and agree(a.get("returned", {}), b.get("returned", {}))


def agree(a: dict, b: dict) -> bool:
    """Return whether two encoded values have the same shape and numbers: floats up to rounding, integers exactly.

    Where ``b`` holds a fingerprint (see :func:`fingerprint`), the value's sums are compared.
    """
    if "sums" in b:
        return a.get("shape") == b["shape"] and "data" in a and _same_sums(a, b["sums"])
    if "data" in a and "data" in b:
        return a["shape"] == b["shape"] and all(map(close, a["data"], b["data"]))
    if "items" in a and "items" in b:
        same = len(a["items"]) == len(b["items"]) and a.get("names") == b.get("names")
        return same and all(map(agree, a["items"], b["items"]))
    return a == b


def close(x: int | float | str, y: int | float | str) -> bool:
    """Return whether two entries are the same: floats up to rounding, anything else exactly, as the grader does."""
    if x == y or not (isinstance(x, float) and isinstance(y, float)):
        return x == y
    return math.isnan(x) and math.isnan(y) or math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-5)


def _six_digits(x: Any) -> Any:
    return float(f"{x:.6g}") if isinstance(x, float) and not x.is_integer() else x


# Fingerprints: what is stored of a known mistake, so that a catalogue of twenty takes little room


def fingerprint(outcome: dict) -> dict:
    """Return an outcome in which each tensor of more than four numbers is replaced by weighted sums of its entries.

    It tells which answers have this outcome (see :func:`agree`), up to a relative error of 2e-5 in the sums.
    """
    return outcome | ({"returned": _reduced(outcome["returned"])} if "returned" in outcome else {})


def _reduced(encoded: dict) -> dict:
    if "items" in encoded:
        return encoded | {"items": list(map(_reduced, encoded["items"]))}
    if len(encoded.get("data", ())) <= FEW:
        return encoded
    return {"type": encoded["type"], "shape": encoded["shape"], "sums": [_six_digits(x) for x, _ in _sums(encoded)]}


def _sums(encoded: dict) -> Iterator[tuple[float, float]]:
    """Sums of the finite entries with weights between -0.5 and 0.5, then of where NaN, inf and -inf stand.

    Each comes with the error that rounding may have made of it.
    """
    weights = [[(i * multiplier + 1) % 1021 / 1021 - 0.5 for multiplier in (389, 877)] for i in _indices(encoded)]
    parts = [[x if math.isfinite(x) else 0.0 for x in encoded["data"]]]
    if not all(map(math.isfinite, encoded["data"])):
        parts += [[float(same(x)) for x in encoded["data"]] for same in (math.isnan, _above, _below)]
    for values in parts:
        for k in range(SUMS):
            products = [w[k] * x for w, x in zip(weights, values, strict=True)]
            yield sum(products), 2e-5 * sum(map(abs, products)) + 1e-6 * len(products)


def _indices(encoded: dict) -> range:
    return range(1, len(encoded["data"]) + 1)


def _above(x: float) -> bool:
    return x == math.inf


def _below(x: float) -> bool:
    return x == -math.inf


def _same_sums(found: dict, sums: list[float]) -> bool:
    if any(isinstance(x, str) for x in found["data"]):
        return False
    own = list(_sums(found))
    return len(own) == len(sums) and all(abs(x - y) <= error for (x, error), y in zip(own, sums, strict=True))


def tells(outcome: dict, right: dict) -> bool:
    """Return whether an outcome differs from the right one by more than NaN or an exception."""
    return "returned" in outcome and not alike(outcome, right) and _has_a_number(outcome["returned"])


def _has_a_number(encoded: dict) -> bool:
    if "items" in encoded:
        return any(map(_has_a_number, encoded["items"]))
    return "data" not in encoded or any(not isinstance(x, float) or not math.isnan(x) for x in encoded["data"])
