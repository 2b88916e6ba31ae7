"""Keep each graded file byte for byte, so that it can be shown for as long as its marks are kept."""

import hashlib
from pathlib import Path

from groundwork import write_whole

FOLDER = "attempts"


def keep(out: Path, data: bytes) -> Path:
    """Keep a file in the folder of marks under the SHA-256 hash of its bytes, and return its path.

    Args:
        out: folder of the marks.
        data: content of the file.

    Raises:
        OSError: the file cannot be written.
    """
    folder = out / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(data).hexdigest()}.ipynb"
    if not path.is_file() or path.read_bytes() != data:
        write_whole(path, data, 0o600)
    return path


def kept(out: Path) -> set[str]:
    """Return the hashes of the files that are kept in the folder of marks."""
    return {path.stem for path in (out / FOLDER).glob("*.ipynb")}
