"""Small trained models, stored in one file each with matrices in 8 bits, such as those that ship with the book.

The file is a safetensors file. A matrix is stored as integers from −127 to 127 with one scale for each row, under its
name and ``.scales``; every other tensor as float32. Its metadata holds the config in our own format of checkpoints,
what was said about the training, and a checksum of all of this. Nothing is pickled.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from llm_anatomy.files import Record, first_line, write_atomically
from llm_anatomy.layers.quantization import dequantize_rows, quantize_rows
from llm_anatomy.models.checkpoints.engine import _check_tensors, _empty_model
from llm_anatomy.models.checkpoints.family import LanguageModel
from llm_anatomy.models.checkpoints.own_format import FAMILY
from llm_anatomy.shapes import Tensor
from llm_anatomy.tokenizers import Tokenizer

KEY, SCALES = "llm_anatomy", ".scales"
FOLDER, SUFFIX = files("llm_anatomy.data"), ".safetensors"


def store(model: nn.Module, path: str | os.PathLike, **metadata: Any) -> None:
    """Store a model in one file, with its matrices in 8 bits. The same model and metadata always give the same file.

    Args:
        model: any model that a config describes, with floating-point weights; it is left unchanged.
        path: the file, which is replaced only when it is complete.
        metadata: what :func:`stored` returns besides the model: JSON values, or tokenizers. It should say how the model
            was trained: the command, the seed, and the SHA-256 of the training text.

    Raises:
        ValueError: for a model that no config describes, or that has other tensors than its config says; for tensors
            that are not floating-point or not finite; for metadata that is neither JSON nor a tokenizer.

    Source: the format of safetensors; Dettmers et al. (2022), "LLM.int8()", section 2.1.

    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.models.transformer import Transformer
    >>> model = Transformer(ModelConfig(d_model=8, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store(model, Path(folder) / "small.safetensors", seed=3)
    ...     again, metadata = stored(Path(folder) / "small.safetensors")
    >>> again.config == model.config, metadata["seed"]
    (True, 3)
    """
    if not isinstance(model, LanguageModel):
        raise ValueError(f"a model of type {type(model).__name__} has no config that describes it")
    described = FAMILY.hf_config(model.config)
    _check_tensors(FAMILY, model)
    tensors = {}
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            raise ValueError(f"{name} is {tensor.dtype}; a stored model has floating-point tensors only")
        if not tensor.isfinite().all():
            raise ValueError(f"{name} holds numbers that are not finite")
        tensor = tensor.detach().to("cpu", torch.float32).contiguous()
        if tensor.ndim == 2:
            tensors[name], tensors[name + SCALES] = quantize_rows(tensor)
        else:
            tensors[name] = tensor
    known = {name: _fields_of(v) if isinstance(v, Tokenizer) else v for name, v in metadata.items()}
    try:
        header = json.loads(json.dumps({"model": described, "metadata": known}, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"metadata must be JSON values or tokenizers: {error}") from None
    header["sha256"] = _checksum(header, tensors)
    write_atomically(path, save(tensors, {KEY: _json(header)}))


def shipped() -> list[str]:
    """The names of the models that ship with the package.

    Source: this module.

    >>> "story_rope" in shipped()
    True
    """
    return sorted(file.name.removesuffix(SUFFIX) for file in FOLDER.iterdir() if file.name.endswith(SUFFIX))


def stored(name_or_path: str | os.PathLike) -> tuple[LanguageModel, dict[str, Any]]:
    """Read a stored model; returns it with its metadata.

    Args:
        name_or_path: the name of a model that ships with the package, such as ``story_rope``, or the path of a file
            whose name ends in ``.safetensors``.

    Returns:
        The model in float32, in evaluation mode, and the metadata that :func:`store` was given, where tokenizers are
        tokenizers again, with ``sha256``, the checksum of the content.

    Raises:
        ValueError: for a name that is not among the stored models; for a file that is missing, damaged, or was not
            written by :func:`store`; for a checksum, a config or tensors that do not fit the rest.

    Source: this module.

    >>> stored("gpt-5")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: name_or_path='gpt-5' must be a path that ends in .safetensors, or one of the stored models ...
    """
    if Path(name_or_path).suffix == SUFFIX:
        return _read(Path(name_or_path))
    names = shipped()
    if name_or_path not in names:
        among = f"one of the stored models {', '.join(names)}"
        raise ValueError(f"{name_or_path=!r:.200} must be a path that ends in {SUFFIX}, or {among}")
    with as_file(FOLDER / f"{name_or_path}{SUFFIX}") as path:
        return _read(path)


def _read(path: Path) -> tuple[LanguageModel, dict[str, Any]]:
    try:
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get(KEY)
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path.name} is missing, damaged, or no safetensors file: {first_line(error):.200}") from None
    try:
        header = Record(path.name, json.loads(text or ""))
        model_fields, metadata = header.take("model", dict), header.take("metadata", dict)
        checksum = header.take("sha256", str)
    except (json.JSONDecodeError, RecursionError, TypeError, AttributeError):
        raise ValueError(f"{path.name} was not written by llm_anatomy.models.stored.store") from None
    if checksum != _checksum({"model": model_fields, "metadata": metadata}, found):
        raise ValueError(f"{path.name} was changed after it was written: its checksum does not fit its content")
    model = _empty_model(FAMILY, FAMILY.config(Record(path.name, model_fields)), path.name)
    _fill(model, found, path.name)
    metadata = {name: _tokenizer(name, v) if _is_tokenizer(v) else v for name, v in metadata.items()}
    return model.eval(), metadata | {"sha256": checksum}


def _fill(model: LanguageModel, found: Mapping[str, Tensor], named: str) -> None:
    """Give an empty model its tensors, after all of them are known to fit."""
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    expected = {}
    for name, shape in wanted.items():
        is_matrix = len(shape) == 2
        expected[name] = torch.int8 if is_matrix else torch.float32, shape
        if is_matrix:
            expected[name + SCALES] = torch.float32, shape[:1]
    here = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in found.items()}
    for name in sorted(expected.keys() | here.keys()):
        if expected.get(name) != here.get(name):
            is_there, belongs = (_described(one.get(name)) for one in (here, expected))
            raise ValueError(f"{named}: tensor {name!r:.80} is {is_there}; its config says {belongs}")
    whole = {n: dequantize_rows(found[n], found[n + SCALES]) if len(wanted[n]) == 2 else found[n] for n in wanted}
    model.load_state_dict(whole, assign=True)


def _described(kind: tuple[torch.dtype, tuple[int, ...]] | None) -> str:
    return "absent" if kind is None else f"{str(kind[0]).removeprefix('torch.')} {kind[1]}"


def _checksum(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the header and of each tensor's name, type, shape and bytes, in the order of the names."""
    content = hashlib.sha256(_json(header).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        content.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        content.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return content.hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _fields_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """What the file of a tokenizer holds."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(Path(folder) / "tokenizer")
        return json.loads((Path(folder) / "tokenizer").read_text("utf-8"))


def _is_tokenizer(value: Any) -> bool:
    return isinstance(value, dict) and "llm_anatomy tokenizer" in value


def _tokenizer(name: str, fields: dict[str, Any]) -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_text(json.dumps(fields), "utf-8")
        return Tokenizer.load(Path(folder) / name)
