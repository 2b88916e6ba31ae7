"""Finding a checkpoint: a folder, or a name on the Hugging Face hub, whose library downloads and caches it."""

import os
import re
from pathlib import Path

from llm_anatomy.files import first_line
from llm_anatomy.models.checkpoints import pooling, storage, texts

FILES = (
    "config.json",
    "generation_config.json",
    "model*.safetensors",
    storage.INDEX,
    *texts.FILES,
    *pooling.FILES,
)
"""The files to download: no other format of the same weights."""

OLD_FILES = ("pytorch_model*.bin", storage.OLD_INDEX)
"""The files to download besides where there are no newer ones."""


def locate(name_or_folder: str | os.PathLike) -> Path:
    """Find the folder of a checkpoint; a name on the hub is downloaded, unless there is a folder of that name.

    Args:
        name_or_folder: a path, or a name such as ``openai-community/gpt2``.

    Raises:
        ValueError: for anything else, for a name if ``huggingface_hub`` is not installed, and if the download fails.

    Source: the hub of Hugging Face.

    >>> locate("no/such/folder")
    Traceback (most recent call last):
    ValueError: name_or_folder='no/such/folder' is no folder, and no name on the hub, which is like owner/model
    """
    folder, name = Path(name_or_folder), str(name_or_folder)
    try:
        if folder.is_dir():
            return folder
    except (OSError, ValueError) as error:  # such as a name that is too long, or that holds a zero byte
        raise ValueError(f"name_or_folder={name!r:.200} is no folder: {getattr(error, 'strerror', error)}") from None
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name):
        raise ValueError(
            f"name_or_folder={name!r:.200} is no folder, and no name on the hub, which is like owner/model"
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ValueError(
            f"name_or_folder={name!r:.200} is no folder; to fetch it by name, install huggingface_hub "
            "(pip install 'llm_anatomy[checkpoints]')"
        ) from None
    try:
        folder = Path(snapshot_download(name, allow_patterns=list(FILES)))
        if not any(folder.glob("model*.safetensors")):
            folder = Path(snapshot_download(name, allow_patterns=list(OLD_FILES)))
        return folder
    except Exception as error:  # network, hub, permissions: its library raises many kinds
        reason = first_line(error) or type(error).__name__
        raise ValueError(
            f"name_or_folder={name!r:.200} is no folder and could not be fetched: {reason:.300}"
        ) from error
