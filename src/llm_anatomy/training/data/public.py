"""Named public corpora: fetched once where there is a network, checked, and kept.

What a name stands for cannot change: a file is used only if its SHA-256 is the one written here. Where there is no
network, and nothing was kept, the error says so, and :mod:`llm_anatomy.training.data.stories` makes text without one.
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
    """Where a text is and how to know that it is the right one.

    Args:
        url: of a UTF-8 text.
        sha256: of its bytes, in hexadecimal.
        n_bytes: its size; no more is read.
        about: what it is and who made it.

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
    """The text of a named corpus, from the cache if it is there, else from the network.

    Args:
        name: one of ``CORPORA``.
        cache: the folder where texts are kept, ``~/.cache/llm_anatomy`` by default.
        timeout: seconds to wait for the network.

    Raises:
        ValueError: if there is no such corpus, or the bytes are not those that its checksum stands for.
        ConnectionError: if it is not in the cache and the network does not answer.

    Source: Karpathy (2015), "The Unreasonable Effectiveness of Recurrent Neural Networks", for ``tiny_shakespeare``.

    >>> text = public_text("tiny_shakespeare")  # doctest: +SKIP
    >>> text[:14]  # doctest: +SKIP
    'First Citizen:'
    """
    if name not in CORPORA:
        raise ValueError(f"{name=} is no public corpus known here; there are {', '.join(CORPORA)}")
    corpus = CORPORA[name]
    path = Path(cache if cache is not None else Path.home() / ".cache" / "llm_anatomy") / f"{name}.txt"
    if path.exists():
        return _checked(path.read_bytes(), corpus, f"{path}; delete it to fetch it again").decode()
    try:
        with urlopen(corpus.url, timeout=timeout) as answer:
            content = answer.read(corpus.n_bytes + 1)
    except (OSError, HTTPException) as error:
        raise ConnectionError(
            f"{name} is not in {path.parent} and {corpus.url} cannot be reached ({error}). Without a network, "
            "llm_anatomy.training.data.stories makes text of any size."
        ) from error
    text = _checked(content, corpus, corpus.url).decode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return text


def _checked(content: bytes, corpus: PublicCorpus, origin: str) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != corpus.sha256:
        raise ValueError(f"the SHA-256 of what came is {found}, not {corpus.sha256} (from {origin})")
    return content
