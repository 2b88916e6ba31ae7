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
MOST_AXES = 8
DEEPEST = 16
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
class Caps:
    """What one frame may hold: bytes of JSON (and of the tensors' header), bytes of tensors, and how many of them."""

    text: int = 2**18
    tensors: int = 2**25
    count: int = 256


WIDE = Caps(2**26, 2**28, 2**16)
"""For frames that no student's code has had a hand in."""


class WireError(Exception):
    """A frame that is not one."""


class Closed(WireError):
    """The other side has gone."""


class TooLate(WireError):
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
    return b"".join(_parts(message))


def _parts(message: Any) -> tuple[bytes, bytes, bytes]:
    arrays: dict[str, np.ndarray] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            arrays[str(len(arrays))] = np.asarray(value.array, order="C")
            return {"tensor": len(arrays) - 1, "dtype": value.dtype}
        if isinstance(value, dict):
            return {key: plain(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [plain(entry) for entry in value]
        return value

    text = json.dumps(plain(message), separators=(",", ":")).encode()
    tensors = save(arrays) if arrays else b""
    return LENGTHS.pack(len(text), len(tensors)), text, tensors


def unpack(text: bytes, tensors: bytes, caps: Caps = WIDE) -> Any:
    """The message of a frame's two parts.

    Raises:
        WireError: whatever is wrong with them.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise WireError("the message is not JSON") from e
    arrays = _arrays(tensors, caps) if tensors else {}

    def full(value: Any, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise WireError("the message is too deep")
        if isinstance(value, list):
            return [full(entry, depth + 1) for entry in value]
        if not isinstance(value, dict):
            return value
        if "tensor" not in value:
            return {key: full(entry, depth + 1) for key, entry in value.items()}
        if set(value) != {"tensor", "dtype"}:
            raise WireError("a tensor is described wrongly")
        array = arrays.get(str(value["tensor"]))
        if array is None:
            raise WireError("a tensor is missing")
        if str(array.dtype) != ("float32" if value["dtype"] == "bfloat16" else value["dtype"]):
            raise WireError("a tensor has another dtype than it says")
        return Tensor(array, value["dtype"])

    return full(message)


def _arrays(tensors: bytes, caps: Caps) -> dict[str, np.ndarray]:
    """Decodes safetensors. How long its header is, how many it names and of what dtypes is looked at before; the
    library sees to it that shapes and places fit the bytes."""
    if len(tensors) < 8:
        raise WireError("the tensors are cut short")
    (length,) = struct.unpack("<Q", tensors[:8])
    if length > min(caps.text, len(tensors) - 8):
        raise WireError("the tensors' header is too long")
    try:
        header = json.loads(tensors[8 : 8 + length])
    except (ValueError, RecursionError) as e:
        raise WireError("the tensors' header is not JSON") from e
    if not isinstance(header, dict) or len(header) > caps.count:
        raise WireError("the tensors' header is not one")
    for entry in header.values():
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if not isinstance(shape, list) or len(shape) > MOST_AXES or entry.get("dtype") not in list(DTYPES):
            raise WireError("a tensor's header is not allowed")
    try:
        return load(tensors)
    except Exception as e:  # what the library raises differs between versions
        raise WireError("the tensors cannot be read") from e


def send(to: int, message: Any, deadline: float = math.inf) -> None:
    """Write a frame to a pipe before a moment of :func:`time.monotonic`."""
    for part in map(memoryview, _parts(message)):
        rest = part
        while rest:
            _wait(to, deadline, select.POLLOUT)
            try:
                rest = rest[os.write(to, rest[:65536]) :]
            except BlockingIOError:
                continue
            except OSError as e:
                raise Closed("the other side has gone") from e


def receive(source: int, deadline: float = math.inf, caps: Caps = WIDE) -> Any:
    """Read a frame from a pipe before a moment of :func:`time.monotonic`.

    Raises:
        Closed: the pipe ends.
        TooLate: the frame is not complete by then.
        WireError: it is not a frame, or longer than allowed.
    """
    n_text, n_tensors = LENGTHS.unpack(_exactly(source, LENGTHS.size, deadline))
    if n_text > caps.text or n_tensors > caps.tensors:
        raise WireError("a frame is longer than allowed")
    text = _exactly(source, n_text, deadline)
    return unpack(text, _exactly(source, n_tensors, deadline), caps)


def _exactly(source: int, size: int, deadline: float) -> bytes:
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
        raise TooLate("nothing came in time")
    poll = select.poll()
    poll.register(fd, event)
    if not poll.poll(None if math.isinf(left) else max(1, int(left * 1000))):
        raise TooLate("nothing came in time")
