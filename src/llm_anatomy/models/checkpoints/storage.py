"""The files of the weights: one file or shards with an index, as safetensors or as PyTorch's older pickles."""

import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from llm_anatomy.files import Record, first_line, write_atomically
from llm_anatomy.shapes import Tensor

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
OLD_SINGLE, OLD_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""The dtypes of stored weights, by the names of safetensors."""

NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPES.values()}
"""The names of these dtypes in PyTorch."""


@dataclass(frozen=True)
class Header:
    """The description of a tensor, known before the tensor is read.

    Args:
        file: the file that holds it.
        name: its name in the file.
        shape: its shape.
        dtype: its dtype, as named by safetensors.

    Source: the format of safetensors.

    >>> Header(Path("model.safetensors"), "a", (2, 3), "BF16").n_bytes
    12
    """

    file: Path
    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def n_bytes(self) -> int:
        """The size of the tensor in the file."""
        return torch.Size(self.shape).numel() * DTYPES[self.dtype].itemsize

    def read(self, opened: Callable[[Path], Any]) -> Tensor:
        """The tensor; ``opened`` opens a file, or returns it if it is open."""
        return opened(self.file).get_tensor(self.name)


@dataclass(frozen=True)
class _OfPickle(Header):
    """A tensor of a pickled file, which is mapped into memory where the file allows that."""

    tensor: Tensor = field(compare=False, repr=False)

    def read(self, opened: Callable[[Path], Any]) -> Tensor:
        """The tensor, for which nothing has to be opened."""
        return self.tensor


def headers(folder: str | os.PathLike) -> dict[str, Header]:
    """Read the headers of all tensors in a folder, by name.

    Args:
        folder: with ``model.safetensors``, or with shards and their index; or with these files as PyTorch wrote them
            before, which are called ``pytorch_model.bin``, and which are read where there are no others.

    Raises:
        ValueError: for a folder without these files; for a file that is missing, truncated or malformed, or that holds
            more than tensors; and for an index that does not agree with its files.

    Source: the format of safetensors; the documentation of ``torch.load``.

    >>> headers(".")
    Traceback (most recent call last):
    ValueError: folder '.' holds neither model.safetensors nor pytorch_model.bin, and no index of either
    """
    folder = Path(folder)
    for single, index, of_file in ((SINGLE, INDEX, _of_file), (OLD_SINGLE, OLD_INDEX, _of_pickle)):
        if (folder / single).is_file():
            return of_file(folder / single)
        if (folder / index).is_file():
            return _of_shards(folder / index, of_file)
    raise ValueError(f"folder {str(folder)!r:.200} holds neither {SINGLE} nor {OLD_SINGLE}, and no index of either")


def _of_file(path: Path) -> dict[str, Header]:
    try:
        with safe_open(path, "pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            found = {name: Header(path, name, tuple(s.get_shape()), s.get_dtype()) for name, s in slices.items()}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path.name} is truncated or no safetensors file: {error!s:.300}") from None
    return _with_names(path, found)


def _of_pickle(path: Path) -> dict[str, Header]:
    """The tensors of a pickled file, of which nothing but tensors is read: its code is never run."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError:
        raise ValueError(
            f"{path.name} holds more than tensors: reading it would run its code, so it is refused"
        ) from None
    except Exception as error:  # a damaged file can raise any kind
        reason = first_line(error) or type(error).__name__
        raise ValueError(f"{path.name} is truncated or no file of tensors: {reason:.300}") from None
    if not isinstance(found, dict) or not all(isinstance(n, str) and _is_plain(t) for n, t in found.items()):
        raise ValueError(f"{path.name} must hold plain tensors by their names, and nothing else")
    names = {dtype: name for name, dtype in DTYPES.items()}
    dtypes = {name: names.get(tensor.dtype, str(tensor.dtype)) for name, tensor in found.items()}
    return _with_names(
        path, {name: _OfPickle(path, name, tuple(t.shape), dtypes[name], t.detach()) for name, t in found.items()}
    )


def _is_plain(value: object) -> bool:
    """Whether this is a tensor that holds its numbers as they are."""
    if not isinstance(value, Tensor):
        return False
    return value.layout == torch.strided and value.device.type == "cpu" and not value.is_quantized


def _with_names(path: Path, found: dict[str, Header]) -> dict[str, Header]:
    for name in found:
        if not name.isprintable():  # it would garble every message that names it
            raise ValueError(f"{path.name} holds {name!r:.60}, which is no name of a tensor")
    return found


def _of_shards(index: Path, of_file: Callable[[Path], dict[str, Header]]) -> dict[str, Header]:
    folder, record = index.parent, Record.read(index)
    file_of = record.take("weight_map", dict)
    present = {path.name for path in folder.iterdir() if path.is_file()}
    for name, file in file_of.items():
        if not name.isprintable():  # it would garble every message that names it
            record.refuse("weight_map", f"{name!r:.60} is no name of a tensor")
        if not isinstance(file, str) or Path(file).name != file:
            record.refuse("weight_map", f"{name:.80} is in {file!r:.60}, which is no name of a file beside it")
        if file not in present:
            record.refuse("weight_map", f"{name:.80} is in {file!r:.80}, which is missing")
    found = {}
    for file in sorted(set(file_of.values())):
        for name, header in of_file(folder / file).items():
            if file_of.get(name) != file:
                record.refuse(
                    "weight_map", f"{file:.80} holds {name:.80}, but the index says {file_of.get(name)!s:.80}"
                )
            found[name] = header
    lost = [name for name in file_of if name not in found]
    if lost:
        record.refuse("weight_map", f"{file_of[lost[0]]:.80} does not hold {lost[0]:.80}")
    return found


def read(wanted: Sequence[Header], use: Callable[..., None]) -> None:
    """Map some tensors into memory, pass them to ``use``, and unmap them; ``use`` must copy what it keeps.

    Args:
        wanted: the headers of the tensors, in the order of the arguments of ``use``.
        use: a function of the tensors, called once.

    Raises:
        ValueError: for a file that has changed since its headers were read.

    Source: the format of safetensors, which can be memory-mapped.

    >>> read([], lambda: print("nothing to read"))
    nothing to read
    """
    files = sorted({header.file for header in wanted})
    says = f"{', '.join(file.name for file in files)} changed while it was read"
    with ExitStack() as stack:  # opened anew each time, because pages are freed when a mapping ends
        try:
            opened = cache(lambda file: stack.enter_context(safe_open(file, "pt")))
            tensors = [header.read(opened) for header in wanted]
        except (SafetensorError, OSError, ValueError) as error:
            raise ValueError(f"{says}: {error}") from None
        for header, tensor in zip(wanted, tensors, strict=True):
            if tuple(tensor.shape) != header.shape:
                raise ValueError(f"{says}: {header.name} was {header.shape} and is {tuple(tensor.shape)}")
        use(*tensors)


def write(folder: Path, groups: Iterable[tuple[Mapping[str, int], Callable[[], Mapping[str, Tensor]]]], limit: int):
    """Write tensors into a folder, in one file or in shards with an index.

    Args:
        folder: an existing folder.
        groups: of tensors that are made together: the size of each in bytes by name, and a function that makes them.
        limit: the most bytes of a shard; a larger group gets a shard of its own.

    Source: the layout of Hugging Face's sharded files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Path(folder), [({"a": 8}, lambda: {"a": torch.ones(2)}), ({"b": 4}, lambda: {"b": torch.ones(1)})], 8)
    ...     sorted(path.name for path in Path(folder).iterdir())[0], list(headers(folder))
    ('model-00001-of-00002.safetensors', ['a', 'b'])
    """
    shards, room = [], 0
    for sizes, make in groups:
        n_bytes = sum(sizes.values())
        if not shards or n_bytes > room:
            shards.append([])
            room = limit
        shards[-1].append((sizes, make))
        room -= n_bytes
    file_of, total = {}, 0
    for i, shard in enumerate(shards, start=1):
        file = SINGLE if len(shards) == 1 else f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        tensors = {}
        for sizes, make in shard:
            tensors |= {name: tensor.detach().cpu().contiguous() for name, tensor in make().items()}
            total += sum(sizes.values())
        save_file(tensors, folder / file, metadata={"format": "pt"})
        file_of |= dict.fromkeys(tensors, file)
    if len(shards) > 1:
        index = {"metadata": {"total_size": total}, "weight_map": file_of}
        write_atomically(folder / INDEX, json.dumps(index, indent=2) + "\n")
