"""What is in a checkpoint: its config, its parts, the number of its parameters, its tokenizer; without the weights."""

import dataclasses
import math
import os
from collections.abc import Iterator
from typing import Any

from torch import nn

from llm_anatomy.config import Config
from llm_anatomy.models.checkpoints.engine import open_checkpoint
from llm_anatomy.models.checkpoints.family import LanguageModel
from llm_anatomy.models.checkpoints.pooling import MODULES, read_pooling
from llm_anatomy.models.checkpoints.texts import Texts


def describe(name_or_folder: str | os.PathLike) -> dict[str, Any]:
    """Describe a checkpoint from the headers of its files: plain values, and the config of the model.

    Args:
        name_or_folder: as in :func:`~llm_anatomy.models.checkpoints.engine.load`.

    Raises:
        ValueError: as ``load`` does before it reads the weights.

    Source: the layout of Hugging Face's checkpoints; GT-43, GT-44.

    >>> import tempfile
    >>> from llm_anatomy.models.before_transformers import BigramNetwork
    >>> from llm_anatomy.models.checkpoints import save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(BigramNetwork(n_vocab=7, d_hidden=4), folder)
    ...     found = describe(folder)
    >>> found["model"], found["parameters"], found["dtypes"], found["config"]
    ('BigramNetwork', 56, {'F32': 56}, BigramConfig(n_vocab=7, d_hidden=4, n_matrices=2))
    """
    opened = open_checkpoint(name_or_folder)
    texts, dtypes = opened.read_texts(), {}
    for header in opened.needed:
        kind = getattr(header, "kind", header.dtype)  # of a quantized tensor
        dtypes[kind] = dtypes.get(kind, 0) + math.prod(header.shape)
    files = {file.name: file.stat().st_size for file in sorted({header.file for header in opened.needed})}
    pooling, pooling_note = None, ""
    if (opened.path / MODULES).is_file():
        try:
            found = read_pooling(opened.path)
            pooling = [*found.poolings, *(type(module).__name__ for module in found.after)]
        except ValueError as error:
            pooling_note = str(error)
    return {
        "path": str(opened.path),
        "family": opened.family.name,
        "dtypes": dtypes,
        "files": files,
        **described(opened.model, texts),
        "architecture": (opened.record.fields.get("architectures") or [None])[0],
        "pooling": pooling,
        "pooling_note": pooling_note,
    }


def described(model: LanguageModel, texts: Texts) -> dict[str, Any]:
    """What can be said of a model and its tokenizer without the files that they came from.

    Args:
        model: whose tensors may be on the meta device.
        texts: with its tokenizer.

    Source: as :func:`describe`.

    >>> from llm_anatomy.models.before_transformers import BigramNetwork
    >>> described(BigramNetwork(n_vocab=7, d_hidden=4), Texts(note="none"))["parameters"]
    56
    """
    tokenizer = None
    if texts.tokenizer:
        tokenizer = {"kind": type(texts.tokenizer).__name__, "n_vocab": texts.tokenizer.n_vocab}
    return {
        "architecture": None,
        "model": type(model).__name__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "tokenizer": tokenizer,
        "tokenizer_note": texts.note,
        "pooling": None,
        "pooling_note": "",
        "parts": list(_parts(model)),
        "config": model.config,
    }


def changed(config: Config, before: str = "") -> Iterator[tuple[str, object]]:
    """The fields that differ from their defaults, by dotted names such as ``rope.base``.

    Args:
        config: of any model.
        before: what precedes the names.

    Source: as :func:`describe`.

    >>> from llm_anatomy.models.before_transformers import BigramConfig
    >>> list(changed(BigramConfig(n_vocab=7, d_hidden=4)))
    [('n_vocab', 7), ('d_hidden', 4)]
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Config):
            yield from changed(value, f"{before}{field.name}.")
        elif value != field.default:
            yield before + field.name, value


def _parts(model: LanguageModel) -> Iterator[dict[str, Any]]:
    """The outermost modules with parameters; those that are shared count where they come first."""
    seen: set[int] = set()
    for name, part in [*model.named_children(), *((n, p) for n, p in model.named_parameters(recurse=False))]:
        parameters = list(part.parameters()) if isinstance(part, nn.Module) else [part]
        if parameters:
            n = sum(p.numel() for p in parameters if id(p) not in seen)
            seen |= {id(p) for p in parameters}
            yield {"part": name, "module": _kind(part), "parameters": n}


def _kind(part: nn.Module | nn.Parameter) -> str:
    """The class of a module, and of what it repeats."""
    if not isinstance(part, nn.Module):
        return "vector"
    lists = [part] if isinstance(part, nn.ModuleList) else [m for m in part.children() if isinstance(m, nn.ModuleList)]
    repeated = [f"{len(modules)} × {type(modules[0]).__name__}" for modules in lists if len(modules)]
    return ", ".join([*([] if part in lists else [type(part).__name__]), *repeated])
