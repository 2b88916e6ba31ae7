"""One way to load a model, wherever it is: a folder, a file, a name on the hub, a training run, or this package."""

import dataclasses
import math
import os
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from llm_anatomy.models.checkpoints import description
from llm_anatomy.models.checkpoints.chat import ChatTemplate
from llm_anatomy.models.checkpoints.engine import Checkpoint, _device, _dtype
from llm_anatomy.models.checkpoints.engine import load as load_checkpoint
from llm_anatomy.models.checkpoints.family import LanguageModel
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.stored import FOLDER, SUFFIX, shipped, stored


def load(
    name_or_path: str | os.PathLike[str],
    *,
    dtype: torch.dtype | str | None = None,
    device: str | torch.device = "cpu",
    ignore: Collection[str] = (),
) -> Checkpoint:
    """Load a model with its tokenizer, ready to run.

    Args:
        name_or_path: a folder in the layout of Hugging Face's library, or one that ``save`` has written; the folder of
            a training run that has ended; a GGUF file such as ``SmolLM2-135M-Instruct.Q4_1.gguf``; a name on the
            Hugging Face hub such as ``openai-community/gpt2``; a model that ships with the package, such as
            ``story_rope``; or a file that :func:`~llm_anatomy.models.stored.store` has written. What exists as a path
            is read from there.
        dtype: a floating-point type for all weights, such as ``torch.bfloat16`` or ``"bfloat16"``; by default that of
            the files, where quantized weights count as float32.
        device: of the model.
        ignore: names of fields of ``config.json`` that its family does not know, and without which the model is loaded
            all the same.

    Returns:
        The model, its config, its tokenizer and its special tokens.

    Raises:
        ValueError: for a name that is none of these, for files that are damaged or have an option that is not
            supported, and for a model that does not fit into the free memory.

    Source: the layout of Hugging Face's checkpoints; GT-43, GT-44.

    >>> load("story_rope").config.n_ctx
    96
    >>> load("story_rop")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: name_or_path='story_rop' cannot be loaded: it is no path, and no model of the package (story_base,
    story_instructed, story_learned, story_llama, story_rope, translation) or of the hub, whose names are like
    owner/model
    """
    path = Path(name_or_path)
    if is_stored(name_or_path):
        model, metadata = stored(name_or_path)
        kind = torch.float32 if dtype is None else _dtype(dtype)
        texts = Texts(tokenizer=metadata.get("tokenizer"), note="the model was stored without one")
        if "chat_template" in metadata:  # an answer is a line
            template = ChatTemplate(templates={"default": metadata["chat_template"]})
            texts = dataclasses.replace(texts, chat_template=template, stop_strings=("\n",))
        return Checkpoint(model=model.to(_device(device), kind), texts=texts)
    if not path.exists() and "/" not in str(name_or_path) and path.suffix != ".gguf":
        among = ", ".join(shipped())
        raise ValueError(
            f"name_or_path={str(name_or_path)!r:.200} cannot be loaded: it is no path, and no model of the package "
            f"({among}) or of the hub, whose names are like owner/model"
        )
    return load_checkpoint(_of_a_run(path) or name_or_path, dtype=dtype, device=device, ignore=ignore)


def is_stored(name_or_path: str | os.PathLike[str]) -> bool:
    """Whether a name or path is that of a model that :func:`~llm_anatomy.models.stored.store` has written.

    Args:
        name_or_path: as in :func:`load`.

    Source: :mod:`llm_anatomy.models.stored`.

    >>> is_stored("story_rope"), is_stored("owner/model")
    (True, False)
    """
    if Path(name_or_path).exists():
        return Path(name_or_path).is_file() and Path(name_or_path).suffix == SUFFIX
    return Path(name_or_path).suffix == SUFFIX or str(name_or_path) in shipped()


def _of_a_run(path: Path) -> Path | None:
    """The folder of the model at the end of a training run; None if the path is no run. Its own config.json is that of
    the run, and beside it lie no weights."""
    model = path / "model"
    return model if (model / "config.json").is_file() and not any(path.glob(f"*{SUFFIX}")) else None


def describe(name_or_path: str | os.PathLike[str]) -> dict[str, Any]:
    """Describe a model without computing with it: its config, its parts, its parameters, its files, its tokenizer.

    Args:
        name_or_path: as in :func:`load`.

    Raises:
        ValueError: as ``load`` does.

    Source: as :func:`~llm_anatomy.models.checkpoints.description.describe`.

    >>> describe("story_rope")["model"]
    'Transformer'
    """
    if not is_stored(name_or_path):
        return description.describe(_of_a_run(Path(name_or_path)) or name_or_path)
    path = Path(name_or_path)
    path = path if path.suffix == SUFFIX else Path(str(FOLDER / f"{name_or_path}{SUFFIX}"))
    checkpoint = load(name_or_path)
    assert isinstance(checkpoint.model, LanguageModel)
    kinds = Counter[str]()
    for parameter in checkpoint.model.parameters():
        kinds["I8" if parameter.ndim == 2 else "F32"] += math.prod(parameter.shape)
    return description.described(checkpoint.model, checkpoint.texts) | {
        "path": str(path),
        "family": checkpoint.family,
        "dtypes": dict(kinds),
        "files": {path.name: path.stat().st_size},
    }
