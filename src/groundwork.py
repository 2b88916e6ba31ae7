"""What bookbinder and llm_grader both stand on: their one kind of error, and writing files whole.

It needs nothing but the standard library, so that it runs before anything is installed, and on Gradescope.
"""

import os
import threading
from pathlib import Path


class Refusal(Exception):
    """What a command cannot do, and why, in one sentence for the person at the terminal."""


def write_whole(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file so that whoever reads it at any moment finds the old content or the new one.

    The file is written beside its destination, has its mode from the beginning, and is moved there when it is complete.

    Raises:
        OSError: It cannot be written; nothing is left then but what was there before.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")  # others may write the same file
    part.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
