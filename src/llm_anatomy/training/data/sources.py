"""Sources of texts: files, folders of files, and data sets of the Hugging Face hub, read from beginning to end.

A source is never in memory as a whole. What cannot be read is one sentence with the file and the line.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from llm_anatomy.files import first_line
from llm_anatomy.training.data.stories import stories

END_OF_TEXT = "<|endoftext|>"
"""The token between documents, as GPT-2 and most tokenizers after it call it."""

TEXTS, LINES, TABLES = (".txt", ".md"), (".jsonl",), (".parquet",)
BLOCK = 1 << 20


STORIES = "stories:"
"""What the name of generated stories begins with; their number follows."""


class DocumentSource:
    """The documents of a file, of all files below a folder, or of a data set, in a fixed order.

    A text file is one document or, with ``<|endoftext|>`` in it, as many as this divides it into. A line of a JSONL
    file, a row of a Parquet file and an entry of a data set is a document each. A file may be compressed (``.gz``).

    Args:
        name: a folder, of which files ending in ``.txt``, ``.md``, ``.jsonl`` and ``.parquet`` are read; a file, which
            is a text unless it ends otherwise; a folder that ``save_to_disk`` of Hugging Face's ``datasets`` has
            written; or the name of a data set on the hub, such as ``roneneldan/TinyStories``, of which the split
            ``train`` is streamed; or ``stories:20000`` for so many generated stories.
        field: the key or column that holds the document.
        kind: the type of a document: ``str``, or ``list`` for the messages of a conversation.
        subset: of a data set that has several.

    Raises:
        ValueError: if there is nothing to read; while it is read, for what is malformed, and if a library is missing.

    Source: the documentation of Hugging Face's datasets, "Stream"; Radford et al. (2019), section 2.1, for
    ``<|endoftext|>`` in files of texts; GT-03.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("One.<|endoftext|>Two.")
    ...     _ = Path(folder, "b.jsonl").write_text('{"text": "Three."}')
    ...     list(DocumentSource(folder))
    ['One.', 'Two.', 'Three.']
    """

    def __init__(
        self, name: str | os.PathLike[str], *, field: str = "text", kind: type = str, subset: str | None = None
    ):
        self.name, self.field, self.kind, self.subset = os.fspath(name), field, kind, subset
        path = Path(name)
        self._files: list[Path] | None = None
        self.n_bytes: int | None = None
        """Size of all files; None for a data set."""
        self.position = 0
        """Number of bytes that were read of them."""
        self._data_set = _open_data_set(self.name, subset) if _is_saved(path) or not path.exists() else None
        if self._data_set is None:
            self._files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if _ending(f) and f.is_file())
            if not self._files:
                raise ValueError(f"{path} holds no file that ends in {', '.join((*TEXTS, *LINES, *TABLES))}, or .gz")
            if kind is not str and any(_ending(file) not in (*LINES, *TABLES) for file in self._files):
                raise ValueError(
                    f"{path} holds text files, which have no key {field!r}; it must hold .jsonl or .parquet"
                )
            self.n_bytes = sum(file.stat().st_size for file in self._files)

    def __iter__(self) -> Iterator[Any]:
        self.position = 0
        if self._data_set is not None:
            for number, entry in enumerate(self._data_set):
                yield self._document(entry, f"{self.name}, entry {number}")
        for file in self._files or ():
            start = self.position
            reads = {LINES: self._lines, TABLES: self._rows}
            read = next((reads[endings] for endings in reads if _ending(file) in endings), self._texts)
            try:
                yield from read(file)
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise ValueError(f"{file} is no whole file of gzip: {first_line(error)}") from None
            self.position = start + file.stat().st_size

    def _document(self, entry: Any, where: str) -> Any:
        """The document in an entry, after a check of both."""
        if not isinstance(entry, dict):
            raise ValueError(f"{where}: it must be an object with the key {self.field!r}, not {entry!r:.60}")
        if self.field not in entry:
            raise ValueError(f"{where}: there is no key {self.field!r}; there are {', '.join(sorted(entry)) or 'none'}")
        document = entry[self.field]
        if not isinstance(document, self.kind):
            wanted = {str: "a text", list: "a list"}[self.kind]
            raise ValueError(f"{where}: the value of {self.field!r} must be {wanted}, not {document!r:.60}")
        return document

    def _texts(self, path: Path) -> Iterator[str]:
        """The parts of a text file between end-of-text tokens, which are not in memory together."""
        separator, waiting, n_lines = END_OF_TEXT.encode(), bytearray(), 1
        with _open(path) as file:
            start = self.position
            while block := file.read(BLOCK):
                self.position = start + _position(file)
                unseen = max(0, len(waiting) + 1 - len(separator))  # the token may begin in the block before
                waiting += block
                while (end := waiting.find(separator, unseen)) >= 0:
                    yield _decoded(bytes(waiting[:end]), path, n_lines)
                    n_lines += waiting.count(b"\n", 0, end)
                    del waiting[: end + len(separator)]
                    unseen = 0
            yield _decoded(bytes(waiting), path, n_lines)

    def _lines(self, path: Path) -> Iterator[Any]:
        with _open(path) as file:
            start = self.position
            for number, line in enumerate(file, 1):
                self.position = start + _position(file)
                where = f"{path}, line {number}"
                if line.isspace():
                    continue
                try:
                    entry = json.loads(_decoded(line.rstrip(b"\r\n"), path, number))
                except json.JSONDecodeError as error:
                    raise ValueError(f"{where}, column {error.colno}: {error.msg}") from None
                except RecursionError:
                    raise ValueError(f"{where}: it is nested too deeply to be read") from None
                yield self._document(entry, where)

    def _rows(self, path: Path) -> Iterator[Any]:
        try:
            from pyarrow import ArrowException
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise ValueError(f"to read {path}, install pyarrow (pip install 'llm_anatomy[training]')") from None
        number, start, n_bytes = 0, self.position, path.stat().st_size
        try:
            with ParquetFile(path) as table:
                if self.field not in table.schema_arrow.names:
                    known = ", ".join(table.schema_arrow.names)
                    raise ValueError(f"{path} has no column {self.field!r}; it has {known}")
                for rows in table.iter_batches(batch_size=1000, columns=[self.field]):
                    for document in rows.column(0).to_pylist():
                        yield self._document({self.field: document}, f"{path}, row {number}")
                        number += 1
                    self.position = start + n_bytes * number // max(table.metadata.num_rows, 1)
        except (ArrowException, OSError) as error:
            raise ValueError(f"{path}, row {number}: {first_line(error)}") from None


def _ending(file: Path) -> str | None:
    """The ending that says how a file is read; None if there is none."""
    ending = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    return ending if ending in (*TEXTS, *LINES, *TABLES) else None


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _position(file: Any) -> int:
    """The position in the file itself, of a compressed one in its compressed bytes."""
    return getattr(file, "fileobj", file).tell()


def _decoded(content: bytes, path: Path, line: int) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line += content[: error.start].count(b"\n")
        raise ValueError(f"{path}, line {line}: not UTF-8 ({error.reason})") from None


def _is_saved(path: Path) -> bool:
    """Whether ``save_to_disk`` of ``datasets`` has written a folder."""
    return any((path / name).is_file() for name in ("dataset_dict.json", "state.json"))


class _GeneratedStories:
    """Stories of :mod:`llm_anatomy.training.data.stories`, as entries of a data set."""

    def __init__(self, name: str):
        number = name.removeprefix(STORIES)
        if not number.isdecimal() or not int(number):
            raise ValueError(f"{name} must end in the number of stories, such as {STORIES}20000")
        self.n = int(number)

    def __iter__(self) -> Iterator[dict[str, str]]:
        return ({"text": text} for text in stories(seed=0, n=self.n))


def _open_data_set(name: str, subset: str | None) -> Any:
    if name.startswith(STORIES):
        return _GeneratedStories(name)
    is_here = Path(name).exists()
    try:
        import datasets
    except ImportError:
        about = "it" if is_here else f"{name}, which is no file or folder here, as a data set of the Hugging Face hub"
        raise ValueError(f"to read {about}, install datasets (pip install 'llm_anatomy[training]')") from None
    try:
        if not is_here:
            return datasets.load_dataset(name, subset, split="train", streaming=True)
        found = datasets.load_from_disk(name)
        return found["train"] if isinstance(found, dict) else found
    except Exception as error:  # the library raises many kinds
        about = "cannot be read" if is_here else "is no file or folder here, and no data set that can be read"
        raise ValueError(f"{name} {about}: {type(error).__name__}: {first_line(error)}") from None
