"""The files of the weights: one safetensors file, or shards with an index."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from llm_anatomy.files import Record, write_atomically
from llm_anatomy.shapes import Tensor

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""The dtypes of stored weights, by the names of safetensors."""


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


def headers(folder: str | os.PathLike) -> dict[str, Header]:
    """Read the headers of all tensors in a folder, by name.

    Args:
        folder: with ``model.safetensors``, or with shards and their index.

    Raises:
        ValueError: for a folder without these files, naming any pickles in it; for a file that is missing, truncated or
            malformed; and for an index that does not agree with its files.

    Source: the format of safetensors.

    >>> headers(".")
    Traceback (most recent call last):
    ValueError: folder '.' holds no model.safetensors and no model.safetensors.index.json
    """
    folder = Path(folder)
    if (folder / SINGLE).is_file():
        return _of_file(folder / SINGLE)
    if (folder / INDEX).is_file():
        return _of_shards(folder)
    pickles = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
    says = f"folder {str(folder)!r} holds no {SINGLE} and no {INDEX}"
    if pickles:
        says += (
            f"; it holds {', '.join(pickles[:3])}, which is pickled: reading it would run its code, so it is refused"
        )
    raise ValueError(says)


def _of_file(path: Path) -> dict[str, Header]:
    try:
        with safe_open(path, "pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            found = {name: Header(path, name, tuple(s.get_shape()), s.get_dtype()) for name, s in slices.items()}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path.name} is truncated or no safetensors file: {error}") from None
    for name in found:
        if not name.isprintable():  # it would garble every message that names it
            raise ValueError(f"{path.name} holds {name!r:.60}, which is no name of a tensor")
    return found


def _of_shards(folder: Path) -> dict[str, Header]:
    record = Record.read(folder / INDEX)
    file_of = record.take("weight_map", dict)
    for name, file in file_of.items():
        if not isinstance(file, str) or Path(file).name != file:
            record.refuse("weight_map", f"{name} is in {file!r:.60}, which is no name of a file beside it")
        if not (folder / file).is_file():
            record.refuse("weight_map", f"{name} is in {file}, which is missing")
    found = {}
    for file in sorted(set(file_of.values())):
        for name, header in _of_file(folder / file).items():
            if file_of.get(name) != file:
                record.refuse("weight_map", f"{file} holds {name}, but the index says {file_of.get(name)}")
            found[name] = header
    lost = [name for name in file_of if name not in found]
    if lost:
        record.refuse("weight_map", f"{file_of[lost[0]]} does not hold {lost[0]}")
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
            opened = {file: stack.enter_context(safe_open(file, "pt")) for file in files}
            tensors = [opened[header.file].get_tensor(header.name) for header in wanted]
        except (SafetensorError, OSError) as error:
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
