"""Where a checkpoint is: a folder, or a name on the Hugging Face hub, fetched once and then kept by its library."""

import os
import re
from pathlib import Path

from llm_anatomy.models.checkpoints import storage, texts

FILES = (
    "config.json",
    "generation_config.json",
    "model*.safetensors",
    storage.INDEX,
    *texts.FILES,
)
"""What is fetched: no pickle, and no other format of the same weights."""


def locate(name_or_folder: str | os.PathLike) -> Path:
    """The folder of a checkpoint, fetched with a progress bar if it is a name on the hub. A folder comes first.

    Args:
        name_or_folder: a path, or a name such as ``openai-community/gpt2``.

    Raises:
        ValueError: for what is neither, for a name when ``huggingface_hub`` is missing, and when fetching fails.

    Source: the hub of Hugging Face.

    >>> locate("no/such/folder")
    Traceback (most recent call last):
    ValueError: name_or_folder='no/such/folder' is no folder, and no name on the hub, which is like owner/model
    """
    folder = Path(name_or_folder)
    if folder.is_dir():
        return folder
    name = str(name_or_folder)
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name):
        raise ValueError(f"name_or_folder={name!r} is no folder, and no name on the hub, which is like owner/model")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ValueError(
            f"name_or_folder={name!r} is no folder; to fetch it by name, install huggingface_hub "
            "(pip install 'llm_anatomy[hub]')"
        ) from None
    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES)))
    except Exception as error:  # of the network, of the hub, of rights: its library has many
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"name_or_folder={name!r} is no folder and could not be fetched: {reason}") from error
