"""What passes between grader and worker: frames of short JSON and tensors in safetensors, and nothing else.

A frame is two lengths of four bytes, then JSON, then tensors. JSON holds the message, in which a tensor stands as
``{"tensor": n, "dtype": "float32"}``: entry n of the safetensors part. Both halves use this module, which knows NumPy
and not PyTorch. What a worker sends is read as hostile: lengths are capped before anything is read, the header of the
tensors is checked before it is used, and nothing is ever unpickled.
"""

import json
import math
import os
import select
import struct
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors.numpy import load, save

LENGTHS = struct.Struct(">II")
MAX_AXES = 8
MAX_DEPTH = 16
# safetensors' name → NumPy's; bfloat16 has no NumPy type and travels as float32 with its own name in the message
DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
NAMES = {*DTYPES.values(), "bfloat16"}


@dataclass(frozen=True)
class FrameLimits:
    """What one frame may hold: bytes of JSON (and of the tensors' header), bytes of tensors, and how many of them."""

    json_bytes: int = 2**18
    tensor_bytes: int = 2**25
    n_tensors: int = 256


TRUSTED_LIMITS = FrameLimits(2**26, 2**28, 2**16)
"""For frames that no student's code has had a hand in."""


class WireError(Exception):
    """A frame that is not one."""


class Closed(WireError):
    """The other side has gone."""


class Timeout(WireError):
    """Nothing came in time."""


class Tensor:
    """A tensor on its way: an array and the dtype that its owner gave it."""

    def __init__(self, array: np.ndarray, dtype: str | None = None) -> None:
        self.array = array
        self.dtype = dtype or str(array.dtype)

    def __repr__(self) -> str:
        return f"Tensor({self.array!r}, {self.dtype!r})"


def pack(message: Any) -> bytes:
    """A frame of a message: JSON's values, tuples as lists, with :class:`Tensor` anywhere in it."""
    return b"".join(_encode_frame(message))


def _encode_frame(message: Any) -> tuple[bytes, bytes, bytes]:
    arrays: dict[str, np.ndarray] = {}

    def encode_value(value: Any) -> Any:
        if isinstance(value, Tensor):
            arrays[str(len(arrays))] = np.asarray(value.array, order="C")
            return {"tensor": len(arrays) - 1, "dtype": value.dtype}
        if isinstance(value, dict):
            return {key: encode_value(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [encode_value(entry) for entry in value]
        return value

    text = json.dumps(encode_value(message), separators=(",", ":")).encode()
    tensors = save(arrays) if arrays else b""
    return LENGTHS.pack(len(text), len(tensors)), text, tensors


def unpack(text: bytes, tensors: bytes, limits: FrameLimits = TRUSTED_LIMITS) -> Any:
    """The message of a frame's two parts.

    Raises:
        WireError: whatever is wrong with them.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise WireError("the message is not JSON") from e
    arrays = _decode_tensors(tensors, limits) if tensors else {}

    def decode_value(value: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise WireError("the message is too deep")
        if isinstance(value, list):
            return [decode_value(entry, depth + 1) for entry in value]
        if not isinstance(value, dict):
            return value
        if "tensor" not in value:
            return {key: decode_value(entry, depth + 1) for key, entry in value.items()}
        if set(value) != {"tensor", "dtype"}:
            raise WireError("a tensor is described wrongly")
        array = arrays.get(str(value["tensor"]))
        if array is None:
            raise WireError("a tensor is missing")
        if str(array.dtype) != ("float32" if value["dtype"] == "bfloat16" else value["dtype"]):
            raise WireError("a tensor has another dtype than it says")
        return Tensor(array, value["dtype"])

    return decode_value(message)


def _decode_tensors(tensors: bytes, limits: FrameLimits) -> dict[str, np.ndarray]:
    """Decodes safetensors. How long its header is, how many it names and of what dtypes is looked at before; the
    library sees to it that shapes and places fit the bytes."""
    if len(tensors) < 8:
        raise WireError("the tensors are cut short")
    (length,) = struct.unpack("<Q", tensors[:8])
    if length > min(limits.json_bytes, len(tensors) - 8):
        raise WireError("the tensors' header is too long")
    try:
        header = json.loads(tensors[8 : 8 + length])
    except (ValueError, RecursionError) as e:
        raise WireError("the tensors' header is not JSON") from e
    if not isinstance(header, dict) or len(header) > limits.n_tensors:
        raise WireError("the tensors' header is not one")
    for entry in header.values():
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if not isinstance(shape, list) or len(shape) > MAX_AXES or entry.get("dtype") not in list(DTYPES):
            raise WireError("a tensor's header is not allowed")
    try:
        return load(tensors)
    except Exception as e:  # what the library raises differs between versions
        raise WireError("the tensors cannot be read") from e


def send(to: int, message: Any, deadline: float = math.inf) -> None:
    """Write a frame to a pipe before a moment of :func:`time.monotonic`."""
    for part in map(memoryview, _encode_frame(message)):
        rest = part
        while rest:
            _wait(to, deadline, select.POLLOUT)
            try:
                rest = rest[os.write(to, rest[:65536]) :]
            except BlockingIOError:
                continue
            except OSError as e:
                raise Closed("the other side has gone") from e


def receive(source: int, deadline: float = math.inf, limits: FrameLimits = TRUSTED_LIMITS) -> Any:
    """Read a frame from a pipe before a moment of :func:`time.monotonic`.

    Raises:
        Closed: the pipe ends.
        TooLate: the frame is not complete by then.
        WireError: it is not a frame, or longer than allowed.
    """
    n_text, n_tensors = LENGTHS.unpack(_read_exactly(source, LENGTHS.size, deadline))
    if n_text > limits.json_bytes or n_tensors > limits.tensor_bytes:
        raise WireError("a frame is longer than allowed")
    text = _read_exactly(source, n_text, deadline)
    return unpack(text, _read_exactly(source, n_tensors, deadline), limits)


def _read_exactly(source: int, size: int, deadline: float) -> bytes:
    found = bytearray(size)
    rest = memoryview(found)
    while rest:
        _wait(source, deadline, select.POLLIN)
        try:
            n_read = os.readv(source, [rest])
        except BlockingIOError:
            continue
        except OSError as e:
            raise Closed("the other side has gone") from e
        if not n_read:
            raise Closed("the other side has gone")
        rest = rest[n_read:]
    return bytes(found)


def _wait(fd: int, deadline: float, event: int) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise Timeout("nothing came in time")
    poll = select.poll()
    poll.register(fd, event)
    if not poll.poll(None if math.isinf(left) else max(1, int(left * 1000))):
        raise Timeout("nothing came in time")
