"""Frames: what goes in comes out, and what is no frame is refused, whatever its bytes."""

import contextlib
import json
import os
import pickle
import struct
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from llm_grader import wire
from llm_grader.wire import FrameLimits, Tensor, WireError

ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array([[True], [False]]),
    np.array(7, dtype=np.int64),
    np.zeros((0, 4), np.float64),
    np.array([np.nan, np.inf, -np.inf, -0.0]),
    np.arange(4, dtype=np.uint8),
    np.arange(3, dtype=np.float16),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
]


def parts(message):
    """Of a frame: the text and the tensors."""
    frame = wire.pack(message)
    n_text, n_tensors = wire.LENGTHS.unpack(frame[:8])
    assert len(frame) == 8 + n_text + n_tensors
    return frame[8 : 8 + n_text], frame[8 + n_text :]


def with_header(header, rest=b"\0" * 64):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + rest


ONE = json.dumps({"tensor": 0, "dtype": "float32"}).encode()


def test_what_goes_in_comes_out():
    sent = {"text": "ä\0", "numbers": [1, -2.5, True, None], "tensors": [Tensor(array) for array in ARRAYS]}
    found = wire.unpack(*parts(sent))
    assert {name: found[name] for name in ("text", "numbers")} == {name: sent[name] for name in ("text", "numbers")}
    for there, back in zip(ARRAYS, found["tensors"], strict=True):
        assert back.dtype == str(there.dtype) == str(back.array.dtype)
        np.testing.assert_array_equal(back.array, there, strict=True)


def test_bfloat16_travels_as_float32_under_its_own_name():
    found = wire.unpack(*parts([Tensor(np.ones((2, 1), np.float32), "bfloat16")]))
    assert found[0].dtype == "bfloat16" and found[0].array.dtype == np.float32


@pytest.mark.parametrize(
    "header",
    [
        {"0": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 8]}},
        {"0": {"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 0]}},
        {"0": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
        {"0": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}},
        {"0": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"0": {"dtype": "F32", "shape": [2], "data_offsets": [60, 68]}},
        {"0": {"dtype": "F32", "shape": [0, 1 << 40], "data_offsets": [0, 0]}},
        {"0": {"dtype": "F32", "shape": [1] * 9 + [16], "data_offsets": [0, 64]}},
        {"0": {"dtype": "C64", "shape": [32], "data_offsets": [0, 64]}},
        {"0": {"dtype": "F32", "shape": [1] * 9, "data_offsets": [0, 4]}},
        {"0": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}},
        {"0": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}},
        {"0": {"dtype": "O", "shape": [1], "data_offsets": [0, 8]}},
        {"0": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}},
        {"0": {"shape": [1]}},
        {"0": None},
        {str(i): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(300)},
        [],
        b"[" * 5000,
        b"\xff\xfe",
        b"",
    ],
    ids=lambda header: str(header)[:40],
)
def test_a_crafted_header_is_refused(header):
    with pytest.raises(WireError):
        wire.unpack(b"{}", with_header(header), FrameLimits())


def test_a_header_may_have_so_many_tensors_and_so_many_bytes():
    many = {str(i): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(9)}
    tensors = with_header(many, b"")
    assert wire.unpack(b"{}", tensors, FrameLimits(n_tensors=9, json_bytes=1000)) == {}
    for limits in (FrameLimits(n_tensors=8), FrameLimits(json_bytes=100)):
        with pytest.raises(WireError):
            wire.unpack(b"{}", tensors, limits)


@pytest.mark.parametrize("tensors", [b"\0", struct.pack("<Q", 1 << 63) + b"{}", struct.pack("<Q", 100) + b"{}"])
def test_a_header_that_is_not_there_is_refused(tensors):
    with pytest.raises(WireError):
        wire.unpack(ONE, tensors)


def test_nothing_is_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "bomb"),)

    for text, tensors in [
        (pickle.dumps(Bomb()), b""),
        (ONE, pickle.dumps(Bomb())),
        (ONE, with_header(pickle.dumps(Bomb()))),
    ]:
        with pytest.raises(WireError):
            wire.unpack(text, tensors)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "message",
    [
        {"tensor": 0, "dtype": "float64"},
        {"tensor": 1, "dtype": "float32"},
        {"tensor": "0/../0", "dtype": "float32"},
        {"tensor": 0, "dtype": "object"},
        {"tensor": 0, "dtype": ["float32"]},
        {"tensor": 0},
        {"tensor": 0, "dtype": "float32", "more": 1},
    ],
    ids=str,
)
def test_a_tensor_is_what_it_says_or_refused(message):
    tensors = save({"0": np.ones(3, np.float32)})
    assert wire.unpack(ONE, tensors).array.tolist() == [1, 1, 1]
    with pytest.raises(WireError):
        wire.unpack(json.dumps([message]).encode(), tensors)


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 100_000, b'"\xff"', b"[" * 40 + b"]" * 40, b"1" * 5000])
def test_text_that_is_no_message_is_refused(text):
    with pytest.raises(WireError):
        wire.unpack(text, b"")


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_mutated_frame_is_read_or_refused(data):
    text, tensors = map(bytearray, parts({"a": [Tensor(array) for array in ARRAYS], "b": "text"}))
    for part in (text, tensors):
        for _ in range(data.draw(st.integers(0, 6))):
            part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
        del part[data.draw(st.integers(0, len(part))) if data.draw(st.booleans()) else len(part) :]
    with contextlib.suppress(WireError):
        wire.unpack(bytes(text), bytes(tensors), FrameLimits())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.binary(max_size=400))
def test_random_bytes_are_read_or_refused(text, tensors):
    with contextlib.suppress(WireError):
        wire.unpack(text, tensors, FrameLimits())


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    yield reader, writer
    for end in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(end)


def test_frames_follow_one_another_through_a_pipe(pipe):
    for message in ({"n": 1}, [Tensor(ARRAYS[0])], "third"):
        wire.send(pipe[1], message)
    assert wire.receive(pipe[0]) == {"n": 1}
    np.testing.assert_array_equal(wire.receive(pipe[0])[0].array, ARRAYS[0])
    assert wire.receive(pipe[0]) == "third"


def test_lengths_are_refused_before_anything_is_read(pipe):
    for lengths in [(2**32 - 1, 0), (4, 2**32 - 1)]:
        os.write(pipe[1], wire.LENGTHS.pack(*lengths))
        with pytest.raises(WireError, match="longer than allowed"):
            wire.receive(pipe[0], time.monotonic() + 60, FrameLimits())


def test_half_a_frame_is_too_late_and_a_closed_pipe_is_closed(pipe):
    os.write(pipe[1], wire.pack("whole")[:9])
    with pytest.raises(wire.Timeout):
        wire.receive(pipe[0], time.monotonic() + 0.05)
    os.close(pipe[1])
    with pytest.raises(wire.Closed):
        wire.receive(pipe[0], time.monotonic() + 60)


def test_what_drips_in_is_too_late_as_well(pipe):
    os.write(pipe[1], wire.pack("whole"))
    with pytest.raises(wire.Timeout):
        wire.receive(pipe[0], time.monotonic() - 1)


def test_a_reader_that_does_not_read_is_given_up(pipe):
    with pytest.raises(wire.Timeout):
        wire.send(pipe[1], "x" * 10**6, time.monotonic() + 0.05)
    os.close(pipe[0])
    with pytest.raises(wire.Closed):
        wire.send(pipe[1], "x", time.monotonic() + 60)
