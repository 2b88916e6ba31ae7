"""Public corpora by name: downloaded once, verified, and kept in a cache.

The text of a name never changes: a file is used only if its SHA-256 is the one in this module. Without a network and
without a cached file there is an error; :mod:`llm_anatomy.training.data.stories` generates text that needs no network.
"""

import hashlib
import os
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from llm_anatomy.files import write_atomically


@dataclass(frozen=True)
class PublicCorpus:
    """Address, checksum and description of a public text.

    Args:
        url: address of a UTF-8 text.
        sha256: SHA-256 of its bytes, in hexadecimal.
        n_bytes: its size, which limits the download.
        about: description of the text and its origin.

    Source: the checksums of TensorFlow Datasets.

    >>> CORPORA["tiny_shakespeare"].n_bytes
    1115394
    """

    url: str
    sha256: str
    n_bytes: int
    about: str


CORPORA = {
    "tiny_shakespeare": PublicCorpus(
        url="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        n_bytes=1_115_394,
        about="40,000 lines of Shakespeare's plays (public domain), as chosen by Karpathy (2015) for char-rnn",
    ),
}


def public_text(name: str, cache: str | os.PathLike | None = None, timeout: float = 30) -> str:
    """Load the text of a named corpus from the cache, or download it.

    Args:
        name: one of ``CORPORA``.
        cache: folder of the cached texts, ``~/.cache/llm_anatomy`` by default.
        timeout: timeout of the download in seconds.

    Raises:
        ValueError: if there is no corpus of this name, or the checksum of the text is wrong.
        ConnectionError: if the text is not in the cache and cannot be downloaded.

    Source: Karpathy (2015), "The Unreasonable Effectiveness of Recurrent Neural Networks", for ``tiny_shakespeare``.

    >>> text = public_text("tiny_shakespeare")  # doctest: +SKIP
    >>> text[:14]  # doctest: +SKIP
    'First Citizen:'
    """
    if name not in CORPORA:
        raise ValueError(f"{name=} must be one of {', '.join(CORPORA)}")
    corpus = CORPORA[name]
    path = Path(cache if cache is not None else Path.home() / ".cache" / "llm_anatomy") / f"{name}.txt"
    if path.exists():
        return _checked(path.read_bytes(), corpus, f"{path}; delete it to fetch it again").decode()
    try:
        with urlopen(corpus.url, timeout=timeout) as answer:
            content = answer.read(corpus.n_bytes + 1)
    except (OSError, HTTPException) as error:
        raise ConnectionError(
            f"{name} is not in {path.parent}, and {corpus.url} cannot be reached ({error}). Without a network, "
            "llm_anatomy.training.data.stories generates text of any size."
        ) from error
    text = _checked(content, corpus, corpus.url).decode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return text


def _checked(content: bytes, corpus: PublicCorpus, origin: str) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != corpus.sha256:
        raise ValueError(f"the SHA-256 must be {corpus.sha256}, not {found} (from {origin})")
    return content
