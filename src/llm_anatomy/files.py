"""Files: JSON that is read field by field with precise errors, files that are written completely or not at all, and
files that grow by whole lines.
"""

import ctypes
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

T = TypeVar("T")


class Record:
    """The fields of a JSON file. Each error message names the file and the key that is wrong.

    Args:
        name: name of the file, for error messages.
        fields: the JSON object that the file holds.

    Source: RFC 8259, section 4, which leaves it to the reader what to do with duplicate keys; GT-40.

    >>> Record("a.json", {"n": 3}).take("n", int)
    3
    """

    def __init__(self, name: str, fields: dict[str, Any]):
        self.name, self.fields = name, fields

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Record":
        """Read a file, which must hold one JSON object without duplicate keys.

        Raises:
            ValueError: if it does not, with the line or the key that is wrong.
        """
        path = Path(path)
        try:
            fields = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_without_duplicates)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path.name}, line {error.lineno}, column {error.colno}: {error.msg}") from None
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise ValueError(f"{path.name}, line {line}: not UTF-8 ({error.reason})") from None
        except _DuplicateKey as error:
            raise ValueError(f"{path.name}, key {error}: the key occurs twice") from None
        except RecursionError:
            raise ValueError(f"{path.name}: the file is nested too deeply to be read") from None
        if not isinstance(fields, dict):
            raise ValueError(f"{path.name}, line 1: the file must hold a JSON object, not {type(fields).__name__}")
        return cls(path.name, fields)

    def take(self, key: str, kind: type) -> Any:
        """Return the value of a key.

        Raises:
            ValueError: if the key is missing, or if its value is not of the given type.
        """
        if key not in self.fields:
            raise ValueError(f"{self.name}: key {key!r} is missing")
        value = self.fields[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.refuse(key, f"it must be of type {kind.__name__}, not {value!r:.40}")
        return value

    def refuse(self, key: str, problem: str) -> NoReturn:
        """Raise a ValueError that names the file, the key and the problem."""
        raise ValueError(f"{self.name}, key {key!r:.60}: {problem}")

    @contextmanager
    def name_in_errors(self, what: str) -> Iterator[None]:
        """Add the name of the file to each ValueError that is raised in this context.

        Args:
            what: what is being built from the file, for the message.
        """
        try:
            yield
        except ValueError as error:
            if str(error).startswith(self.name):
                raise
            raise ValueError(f"{self.name}: {what} does not fit together: {error}") from None


class _DuplicateKey(Exception):
    pass


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _DuplicateKey(f"{next(key for key in keys if keys.count(key) > 1)!r:.60}")
    return fields


def first_line(error: BaseException) -> str:
    """The first line of what an exception of another library says; empty if it says nothing.

    Args:
        error: the exception.

    Source: the documentation of Python, "Exceptions".

    >>> first_line(RuntimeError("no such device\\nStack trace: ..."))
    'no such device'
    """
    return next(iter(str(error).strip().splitlines()), "")


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file so that a reader sees either the old content or the complete new content, never a part of it.

    The content goes into a temporary file in the same folder, which then replaces the old file.

    Args:
        path: the file; its folder must exist.
        content: bytes, or text to be written as UTF-8.

    Raises:
        OSError: if the file cannot be written; an old file then keeps its content.

    Source: POSIX.1-2017, ``rename``, which replaces a file in one step.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder) / "a.txt", "one line\\n")
    ...     (Path(folder) / "a.txt").read_text()
    'one line\\n'
    """
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")  # others may write the same file
    try:
        draft.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def replace_folder(draft: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Replace a folder by a complete one; the old folder is afterwards where the draft was, or beside it.

    On Linux the two are exchanged in one step: at every moment ``folder`` is one of them, whole. Elsewhere, and on file
    systems that cannot exchange, the old one is moved aside first, and back if the new one cannot replace it.

    Args:
        draft: a folder on the same file system, in a folder that the caller removes afterwards.
        folder: another, which need not exist.

    Source: the manual of Linux, rename(2), ``RENAME_EXCHANGE``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     old, new = Path(folder, "old"), Path(folder, "new")
    ...     old.mkdir(), (old / "one").touch(), new.mkdir(), (new / "two").touch()
    ...     replace_folder(new, old)
    ...     [path.name for path in old.iterdir()]
    (None, None, None, None)
    ['two']
    """
    draft, folder = Path(draft), Path(folder)
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()  # Windows does not replace a folder by another
    if not folder.exists():
        os.replace(draft, folder)
    elif not _exchange(draft, folder):
        aside = draft.with_name(f"{draft.name}.old")
        os.replace(folder, aside)
        try:
            os.replace(draft, folder)
        except BaseException:
            os.replace(aside, folder)
            raise


def _exchange(first: Path, second: Path) -> bool:
    """Whether the system could exchange two names in one step."""
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError, TypeError):  # no Linux, or an old one
        return False
    at_working_folder, exchange = -100, 2
    return renameat2(at_working_folder, os.fsencode(first), at_working_folder, os.fsencode(second), exchange) == 0


class JsonLines:
    """A file with one JSON value in each line, to which whole lines are appended even if the program is killed.

    If a kill cuts off a line, the unfinished line is not read, and the next append removes it; until then, the file
    stays as it is. Threads may append at the same time.

    Args:
        path: the file; the first append makes it.
        sync: whether a line must be on the disk before :meth:`append` returns, so that it survives a power failure.
        exclusive: whether to refuse to append if another program has written since :meth:`read`.

    Source: the write-ahead logs of databases; https://jsonlines.org.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = JsonLines(Path(folder, "a.jsonl"))
    ...     lines.append({"step": 1})
    ...     _ = lines.path.open("a").write('{"step": 2, "lo')
    ...     lines.append({"step": 2})
    ...     lines.read()
    [{'step': 1}, {'step': 2}]
    """

    def __init__(self, path: str | os.PathLike[str], *, sync: bool = False, exclusive: bool = False):
        self.path, self._sync, self._exclusive = Path(path), sync, exclusive
        self._lock, self._n_bytes = threading.Lock(), 0

    def read(
        self,
        parse: Callable[[Any], T] = lambda value: value,
        *,
        problem: str = "it is not JSON",
        by_hand: bool = False,
    ) -> list[T]:
        """Return what each line holds.

        Args:
            parse: makes the result from the value of a line.
            problem: what is said of a line that is not JSON, or for which ``parse`` raises no ValueError of its own.
            by_hand: whether people may have written the file, with empty lines and no line break at its end.

        Raises:
            ValueError: for a line that cannot be read; the message names the file and the line.
            OSError: if there is no such file.
        """
        found, self._n_bytes = [], 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if by_hand and not line.strip() or not by_hand and not line.endswith(b"\n"):
                    continue
                try:
                    found.append(parse(json.loads(line)))
                except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
                    raise ValueError(f"{self.path.name}, line {number}: {problem}") from None
                except ValueError as error:
                    raise ValueError(f"{self.path.name}, line {number}: {error}") from None
                self._n_bytes += len(line)
        return found

    def append(self, value: Any) -> None:
        """Write a line.

        Raises:
            ValueError: if another program has written to a file that is exclusive.
            OSError: if the line cannot be written; the file is then as before.
        """
        line = f"{json.dumps(value, ensure_ascii=False)}\n".encode()
        with self._lock, self.path.open("ab+", buffering=0) as file:
            end = _end_of_last_line(file)
            if self._exclusive and end != self._n_bytes:
                raise ValueError(f"{self.path.name} was changed by another program; only one at a time can continue it")
            file.truncate(end)
            try:
                n_written = 0
                while n_written < len(line):  # the system may write a part
                    n_written += file.write(line[n_written:])
            except OSError as error:
                file.truncate(end)
                raise OSError(error.errno, error.strerror, str(self.path)) from None
            if self._sync:
                os.fsync(file.fileno())
            self._n_bytes = end + len(line)


def _end_of_last_line(file: BinaryIO) -> int:
    """The number of bytes up to the last line break."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 1))
    if file.read(1) in (b"", b"\n"):
        return end
    file.seek(0)
    return file.read().rfind(b"\n") + 1
