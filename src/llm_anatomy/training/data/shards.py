"""Token shards: a tokenized corpus as NumPy files that are mapped into memory, so that it may be larger than memory.

A folder holds ``index.json``, the tokenizer, and for each shard of a split::

    train-00000.npy          the token ids of the documents, one after the other: uint16, or uint32 for ids above 65,535
    train-00000.ends.npy     where each document ends, as the index after its last token: int64
    train-00000.targets.npy  for instruction data, whether the prediction of each token counts: bool

No document is divided between two shards. The index is written after the shards that it names, and says at the end
that the corpus is complete: whatever interrupts the writing, no reader takes a part for the whole.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from llm_anatomy.files import Record, write_atomically
from llm_anatomy.tokenizers.base import HUGGING_FACE, Tokenizer
from llm_anatomy.tokenizers.hugging_face import HuggingFaceTokenizer

INDEX = "index.json"
VERSION = 1
SHARD_TOKENS = 100_000_000
N_OPEN = 128
"""Shards whose files are open at the same time; systems allow a process about a thousand open files."""


class TokenShards:
    """One split of a tokenized corpus, read as one long sequence of tokens.

    Args:
        folder: of the corpus.
        split: such as ``"train"`` or ``"validation"``.

    Raises:
        ValueError: if the folder holds no complete corpus or no such split, or a file of a shard is missing, truncated
            or of another dtype; the sentence names the file.

    Source: this project's format; memory-mapped tokens as in Karpathy's nanoGPT; GT-03.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = ShardWriter(folder, n_vocab=10)
    ...     writer.add("train", [1, 2, 3])
    ...     writer.add("train", [4, 5])
    ...     writer.finish()
    ...     shards = TokenShards(folder, "train")
    ...     shards.n_tokens, shards.n_documents, shards.ids(1, 4), shards.documents(1, 4)
    (5, 2, array([2, 3, 4], dtype=uint16), array([0, 0, 1]))
    """

    def __init__(self, folder: str | os.PathLike[str], split: str):
        self.folder, self.split = Path(folder), split
        index = read_index(folder)
        if not index.take("complete", bool):
            raise ValueError(
                f"{self.folder} is not complete: tokenize was interrupted; the same command again continues it"
            )
        splits = index.take("splits", dict)
        if not splits.get(split):
            raise ValueError(f"{self.folder} has no split {split!r}; it has {', '.join(sorted(splits)) or 'none'}")
        self.n_vocab: int = index.take("n_vocab", int)
        self.has_targets: bool = index.take("has_targets", bool)
        self.row_length: int | None = index.fields.get("row_length")
        """If documents were packed into rows, so that no row divides one: the number of tokens of a row."""
        tokenizer = index.fields.get("tokenizer")
        self.tokenizer: Path | None = self.folder / tokenizer["file"] if tokenizer else None
        """The file of the tokenizer, if there is one."""
        self.settings: Mapping[str, Any] = index.take("settings", dict)
        """What the tokens depend on, as it was given to the writer."""
        self._dtype, self._shards = np.dtype(index.take("dtype", str)), splits[split]
        self._first = np.cumsum([0, *(shard["n_tokens"] for shard in self._shards)])
        self._first_document = np.cumsum([0, *(shard["n_documents"] for shard in self._shards)])
        self.sha256 = hashlib.sha256("".join(shard["sha256"] for shard in self._shards).encode()).hexdigest()
        """Names the tokens of the split: another split, or the same of another corpus, has another."""
        self._open = lru_cache(N_OPEN)(self._read)
        for number in range(len(self._shards)):
            self._read(number)  # what is missing or truncated is said before a run, not in it

    def __reduce__(self) -> tuple:
        # Another process maps the files itself; the pickle of a map would hold their content.
        return type(self), (self.folder, self.split)

    @property
    def n_tokens(self) -> int:
        """Number of tokens of the split."""
        return int(self._first[-1])

    @property
    def n_documents(self) -> int:
        """Number of documents of the split."""
        return int(self._first_document[-1])

    def ids(self, start: int, stop: int) -> np.ndarray:
        """The ids of the tokens from ``start`` to before ``stop``, counted over all shards, as they are stored."""
        return self._slice("ids", start, stop)

    def targets(self, start: int, stop: int) -> np.ndarray:
        """For the same tokens, whether the prediction of each counts; only of a corpus with ``has_targets``."""
        return self._slice("targets", start, stop)

    def documents(self, start: int, stop: int) -> np.ndarray:
        """For the same tokens, the number of the document to which each belongs, counted over all shards."""
        parts = []
        for number, a, b in self._parts(start, stop):
            ends = self._open(number)["ends"]
            first, last = ends.searchsorted(a, side="right"), ends.searchsorted(b - 1, side="right")
            begins = np.zeros(b - a, dtype=np.int64)  # 1 where a document begins
            begins[0] = self._first_document[number] + first
            begins[ends[first:last] - a] = 1
            parts.append(begins.cumsum())
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _slice(self, name: str, start: int, stop: int) -> np.ndarray:
        parts = [self._open(number)[name][a:b] for number, a, b in self._parts(start, stop)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _parts(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """For each shard that holds some of the tokens: its number, and where in it they begin and end."""
        if not 0 <= start < stop <= self.n_tokens:
            raise ValueError(f"tokens {start} to {stop} must lie in the split, which has {self.n_tokens}")
        first = int(np.searchsorted(self._first, start, side="right")) - 1
        found = []
        for number in range(first, len(self._shards)):
            offset = int(self._first[number])
            if offset >= stop:
                break
            found.append((number, max(start - offset, 0), min(stop - offset, self._shards[number]["n_tokens"])))
        return found

    def _read(self, number: int) -> dict[str, np.ndarray]:
        """Map the files of a shard into memory, after a check that they are whole."""
        shard = self._shards[number]
        expected = {"ids": (self._dtype, shard["n_tokens"]), "ends": (np.dtype(np.int64), shard["n_documents"])}
        if self.has_targets:
            expected["targets"] = (np.dtype(bool), shard["n_tokens"])
        return {
            name: _mapped(_path(self.folder, shard["name"], name), dtype, n) for name, (dtype, n) in expected.items()
        }


def _mapped(path: Path, dtype: np.dtype, n: int) -> np.ndarray:
    again = "tokenize the corpus again, into another folder"
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing, but {INDEX} names it; {again}") from None
    except (ValueError, EOFError) as error:  # the header promises more than the file has, or is no header
        raise ValueError(f"{path} is truncated or damaged ({error}); {again}") from None
    if array.dtype != dtype or array.shape != (n,):
        found = f"{array.size} entries of {array.dtype}"
        raise ValueError(f"{path} has {found}, but {INDEX} says {n} of {dtype}; {again}")
    return np.asarray(array)  # the class of maps makes each slice slower


def _path(folder: Path, shard: str, name: str) -> Path:
    return folder / (f"{shard}.npy" if name == "ids" else f"{shard}.{name}.npy")


def read_index(folder: str | os.PathLike[str]) -> Record:
    """Read the index of a corpus, whether or not the corpus is complete.

    Args:
        folder: of the corpus.

    Raises:
        ValueError: if there is none, or it is malformed or of another version.

    Source: the format of this module.

    >>> read_index("no such folder")
    Traceback (most recent call last):
    ValueError: no such folder has no index.json, so it holds no token shards; the command tokenize writes them
    """
    path = Path(folder, INDEX)
    if not path.is_file():
        raise ValueError(
            f"{Path(folder)} has no {INDEX}, so it holds no token shards; the command tokenize writes them"
        )
    index = Record.read(path)
    if index.take("llm_anatomy token shards", int) != VERSION:
        index.refuse("llm_anatomy token shards", f"it must be version {VERSION}")
    return index


class ShardWriter:
    """Writes a tokenized corpus, a shard of each split at a time, and continues where an earlier writer was stopped.

    The documents that the index counts in ``n_read`` are in the shards that it names. A new writer with the same
    settings keeps these shards, and expects the documents after them.

    Args:
        folder: of the corpus; it is made if it does not exist.
        n_vocab: number of tokens of the tokenizer, which decides the dtype of the ids.
        tokenizer: is saved in the folder, if it is given.
        settings: what the tokens depend on, such as the source; a corpus is continued only with the same ones.
        has_targets: whether each document comes with targets.
        row_length: number of tokens of a row, if the documents are packed into rows.
        shard_tokens: a shard of each split is written when one of them has so many tokens.

    Raises:
        ValueError: if the folder holds a complete corpus, or one of other settings.

    Source: this project's format.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = ShardWriter(folder, n_vocab=70_000)
    ...     writer.add("validation", [69_999])
    ...     writer.finish()
    ...     TokenShards(folder, "validation").ids(0, 1)
    array([69999], dtype=uint32)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        n_vocab: int,
        tokenizer: Tokenizer | None = None,
        settings: Mapping[str, Any] | None = None,
        has_targets: bool = False,
        row_length: int | None = None,
        shard_tokens: int = SHARD_TOKENS,
    ):
        self.folder, self.shard_tokens = Path(folder), shard_tokens
        self.folder.mkdir(parents=True, exist_ok=True)
        self._index: dict[str, Any] = {
            "llm_anatomy token shards": VERSION,
            "n_vocab": n_vocab,
            "dtype": "uint16" if n_vocab <= 1 << 16 else "uint32",
            "tokenizer": None,
            "has_targets": has_targets,
            "row_length": row_length,
            "settings": json.loads(json.dumps(settings or {})),
        }
        self._splits: dict[str, list[dict[str, Any]]] = {}
        self.n_read = 0
        """Number of documents of the source, whatever became of them, that are in the shards or waiting."""
        self._start(tokenizer)
        self._waiting: dict[str, list[np.ndarray]] = {}
        self._ends: dict[str, list[int]] = {}
        self._targets: dict[str, list[np.ndarray]] = {}
        self.n_tokens = {split: sum(shard["n_tokens"] for shard in shards) for split, shards in self._splits.items()}
        """Number of tokens of each split so far."""

    def _start(self, tokenizer: Tokenizer | None) -> None:
        """Take up what an earlier writer left, if there was one, and put the tokenizer into the folder."""
        for pattern in (".tokenizer.*", ".*.npy.*", f".{INDEX}.*"):  # drafts of a writer that was killed
            for draft in self.folder.glob(pattern):
                draft.unlink()
        name = HUGGING_FACE if isinstance(tokenizer, HuggingFaceTokenizer) else "llm_anatomy_tokenizer.json"
        draft = self.folder / f".tokenizer.{os.getpid()}"
        try:
            if tokenizer is not None:
                tokenizer.save(draft)
                sha256 = hashlib.sha256(draft.read_bytes()).hexdigest()
                self._index["tokenizer"] = {"file": name, "sha256": sha256}
            if (self.folder / INDEX).exists():
                self._continue(read_index(self.folder).fields)
            elif tokenizer is not None:
                os.replace(draft, self.folder / name)
        finally:
            draft.unlink(missing_ok=True)

    def _continue(self, old: dict[str, Any]) -> None:
        if old["complete"]:
            raise ValueError(f"{self.folder} holds a complete corpus already; choose another folder, or remove it")
        for name, value in self._index.items():
            if old.get(name) != value:
                was, is_now = json.dumps(old.get(name)), json.dumps(value)
                raise ValueError(
                    f"{self.folder} holds a part of another corpus ({name} was {was:.200}, and is {is_now:.200}); "
                    "choose another folder, or remove it"
                )
        self._splits, self.n_read = old["splits"], old["n_read"]

    def add(
        self, split: str, ids: Sequence[int] | np.ndarray, targets: Sequence[bool] | np.ndarray | None = None
    ) -> None:
        """Append a document to a split.

        Args:
            split: such as ``"train"``.
            ids: of its tokens, at least one.
            targets: for each token, whether its prediction counts; required with ``has_targets``, and only then.
        """
        ids = np.asarray(ids, dtype=self._index["dtype"])
        if (targets is not None) != self._index["has_targets"]:
            raise ValueError(f"targets must be given with has_targets=True, and only then; split {split!r}")
        if not len(ids) or (targets is not None and len(targets) != len(ids)):
            raise ValueError(f"a document has {len(ids)} tokens; it must have one, and as many targets as tokens")
        ends = self._ends.setdefault(split, [])
        self._waiting.setdefault(split, []).append(ids)
        ends.append((ends[-1] if ends else 0) + len(ids))
        if targets is not None:
            self._targets.setdefault(split, []).append(np.asarray(targets, dtype=bool))
        self.n_tokens[split] = self.n_tokens.get(split, 0) + len(ids)

    def read(self, n_documents: int) -> None:
        """Say that so many further documents of the source were read, and all of them added that are not left out.

        Here, and not while a document is added, shards are written.
        """
        self.n_read += n_documents
        if any(ends[-1] >= self.shard_tokens for ends in self._ends.values()):
            self._write(complete=False)

    def finish(self) -> None:
        """Write what is left, and the index of the complete corpus."""
        self._write(complete=True)

    def _write(self, *, complete: bool) -> None:
        for split, waiting in self._waiting.items():
            shards = self._splits.setdefault(split, [])
            name = f"{split}-{len(shards):05d}"
            arrays = {"ids": np.concatenate(waiting), "ends": np.asarray(self._ends[split], dtype=np.int64)}
            if split in self._targets:
                arrays["targets"] = np.concatenate(self._targets[split])
            content = hashlib.sha256()
            for kind, array in arrays.items():
                content.update(array.data)
                _save(_path(self.folder, name, kind), array)
            sizes = {"n_tokens": len(arrays["ids"]), "n_documents": len(arrays["ends"])}
            shards.append({"name": name, **sizes, "sha256": content.hexdigest()})
        self._waiting, self._ends, self._targets = {}, {}, {}
        index = {**self._index, "complete": complete, "n_read": self.n_read, "splits": self._splits}
        write_atomically(self.folder / INDEX, json.dumps(index, indent=1, ensure_ascii=False) + "\n")


def _save(path: Path, array: np.ndarray) -> None:
    """Write an array so that a reader sees all of it or nothing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            np.save(file, array)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
