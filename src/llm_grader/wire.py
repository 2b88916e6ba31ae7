"""The wire format between grader and worker: frames of short JSON and of tensors in the safetensors format.

A frame consists of two lengths of four bytes each, JSON, and tensors. The JSON holds the message, in which
``{"tensor": n, "dtype": "float32"}`` refers to entry n of the safetensors part. Both halves of the grader use this
module, which imports NumPy but not PyTorch. Frames of a worker may be hostile:
their lengths are limited before they are read, the header of the tensors is checked before it is used, and nothing is
ever unpickled.
"""

import json
import math
import os
import select
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors.numpy import load, save

LENGTHS = struct.Struct(">II")
MAX_AXES = 8
MAX_DEPTH = 16
# safetensors dtype → NumPy dtype; NumPy has no bfloat16, which is sent as float32 and named in the message
DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
NAMES = {*DTYPES.values(), "bfloat16"}


@dataclass(frozen=True)
class FrameLimits:
    """Limits of one frame.

    Args:
        json_bytes: largest size of the JSON, and of the header of the tensors.
        tensor_bytes: largest size of the tensors.
        n_tensors: largest number of tensors.
    """

    json_bytes: int = 2**18
    tensor_bytes: int = 2**25
    n_tensors: int = 256


TRUSTED_LIMITS = FrameLimits(2**26, 2**28, 2**16)
"""Limits of frames that no student's code can influence."""


class WireError(Exception):
    """Raised for a malformed frame."""


class Closed(WireError):
    """Raised if the other side has closed the pipe."""


class Timeout(WireError):
    """Raised if a frame is not complete in time."""


class Tensor:
    """A tensor in a message: an array, and the name of the dtype that it has in PyTorch."""

    def __init__(self, array: np.ndarray, dtype: str | None = None) -> None:
        self.array = array
        self.dtype = dtype or str(array.dtype)

    def __repr__(self) -> str:
        return f"Tensor({self.array!r}, {self.dtype!r})"


def pack(message: Any) -> bytes:
    """Encode a message of JSON values and :class:`Tensor` as a frame. Tuples become lists."""
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
    """Decode the JSON and the tensors of a frame into a message.

    Args:
        text: the JSON part.
        tensors: the safetensors part.
        limits: limits of the frame.

    Raises:
        WireError: the frame is malformed.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise WireError("the message is not JSON") from e
    arrays = _decode_tensors(tensors, limits) if tensors else {}

    def decode_value(value: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise WireError("the message is nested too deeply")
        if isinstance(value, list):
            return [decode_value(entry, depth + 1) for entry in value]
        if not isinstance(value, dict):
            return value
        if "tensor" not in value:
            return {key: decode_value(entry, depth + 1) for key, entry in value.items()}
        if set(value) != {"tensor", "dtype"}:
            raise WireError("a reference to a tensor is malformed")
        array = arrays.get(str(value["tensor"]))
        if array is None:
            raise WireError("a tensor is missing")
        if str(array.dtype) != ("float32" if value["dtype"] == "bfloat16" else value["dtype"]):
            raise WireError("a tensor does not have the stated dtype")
        return Tensor(array, value["dtype"])

    return decode_value(message)


def _decode_tensors(tensors: bytes, limits: FrameLimits) -> dict[str, np.ndarray]:
    """Decode tensors in the safetensors format.

    The length of the header and the number and dtypes of the tensors are checked first; the library checks that shapes
    and offsets match the data.
    """
    if len(tensors) < 8:
        raise WireError("the tensors are incomplete")
    (length,) = struct.unpack("<Q", tensors[:8])
    if length > min(limits.json_bytes, len(tensors) - 8):
        raise WireError("the tensors' header is too long")
    try:
        header = json.loads(tensors[8 : 8 + length])
    except (ValueError, RecursionError) as e:
        raise WireError("the tensors' header is not JSON") from e
    if not isinstance(header, dict) or len(header) > limits.n_tensors:
        raise WireError("the tensors' header is malformed")
    for entry in header.values():
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if not isinstance(shape, list) or len(shape) > MAX_AXES or entry.get("dtype") not in list(DTYPES):
            raise WireError("the entry of a tensor in the header is malformed")
    try:
        return load(tensors)
    except Exception as e:  # the type of the error differs between versions of the library
        raise WireError("the tensors cannot be read") from e


def send(fd: int, message: Any, deadline: float = math.inf) -> None:
    """Write a frame to a pipe.

    Args:
        fd: file descriptor of the pipe.
        message: the message.
        deadline: time of :func:`time.monotonic` at which to give up.

    Raises:
        Closed: the other side has closed the pipe.
        Timeout: the frame cannot be written in time.
    """
    for part in map(memoryview, _encode_frame(message)):
        rest = part
        while rest:
            _wait(fd, deadline, select.POLLOUT)
            try:
                rest = rest[os.write(fd, rest[:65536]) :]
            except BlockingIOError:
                continue
            except OSError as e:
                raise Closed("the other side has closed the pipe") from e


def receive(fd: int, deadline: float = math.inf, limits: FrameLimits = TRUSTED_LIMITS) -> Any:
    """Read a frame from a pipe and decode it.

    Args:
        fd: file descriptor of the pipe.
        deadline: time of :func:`time.monotonic` at which to give up.
        limits: limits of the frame.

    Raises:
        Closed: the other side has closed the pipe.
        Timeout: the frame is not complete in time.
        WireError: the frame is malformed or longer than allowed.
    """
    n_text, n_tensors = LENGTHS.unpack(_read_exactly(fd, LENGTHS.size, deadline))
    if n_text > limits.json_bytes or n_tensors > limits.tensor_bytes:
        raise WireError("a frame is longer than allowed")
    text = _read_exactly(fd, n_text, deadline)
    return unpack(text, _read_exactly(fd, n_tensors, deadline), limits)


def _read_exactly(fd: int, size: int, deadline: float) -> bytes:
    found = bytearray(size)
    rest = memoryview(found)
    while rest:
        _wait(fd, deadline, select.POLLIN)
        try:
            n_read = os.readv(fd, [rest])
        except BlockingIOError:
            continue
        except OSError as e:
            raise Closed("the other side has closed the pipe") from e
        if not n_read:
            raise Closed("the other side has closed the pipe")
        rest = rest[n_read:]
    return bytes(found)


def _wait(fd: int, deadline: float, event: int) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise Timeout("the time limit was exceeded")
    poll = select.poll()
    poll.register(fd, event)
    if not poll.poll(None if math.isinf(left) else max(1, int(left * 1000))):
        raise Timeout("the time limit was exceeded")


def wait_while_busy(
    fd: int, cpu_time: Callable[[], float], least: float, waits: tuple[float, float], deadline: float = math.inf
) -> None:
    """Wait until there is something to read, as long as the other side computes, or until the deadline.

    Args:
        fd: file descriptor to read from.
        cpu_time: returns the CPU time that the other side has used so far.
        least: how much more of it counts as computing.
        waits: seconds before the first look at that time, and between two looks.
        deadline: time by ``time.monotonic``.

    Raises:
        Timeout: the other side has used less CPU time than that between two looks.
    """
    poll, used, (seconds, later) = select.poll(), -math.inf, waits
    poll.register(fd, select.POLLIN)
    while not poll.poll(seconds * 1000) and time.monotonic() < deadline:
        used, before, seconds = cpu_time(), used, later
        if used < before + least:
            raise Timeout("the other side does nothing")
