"""From texts to token shards: documents are encoded in parallel and written in the order of their source.

Each document begins with the end-of-document token, which so divides it from the one before. What begins a document is
then always the same token, after which a model also begins when it generates a text, and what it learns to predict
after the last token of a document is that token again.
"""

import json
import os
import signal
import tempfile
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, cast

import numpy as np
import regex
from tqdm import tqdm

from llm_anatomy.files import write_atomically
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.tokenizers.hugging_face import HuggingFaceTokenizer
from llm_anatomy.training.data.shards import SHARD_TOKENS, ShardWriter
from llm_anatomy.training.data.sources import END_OF_TEXT, DocumentSource

CHUNK = 1 << 19
"""So many characters are encoded by a process at a time."""


class Document(NamedTuple):
    """The tokens of a document.

    Source: GT-03.

    >>> Document(np.array([1, 2])).targets is None
    True
    """

    ids: np.ndarray
    targets: np.ndarray | None = None
    """Whether the prediction of each token counts; None if all of them count."""


class Encoder(ABC):
    """How the documents of a source become tokens.

    Source: GT-03.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> encoder: Encoder = TextEncoder(ByteTokenizer())
    >>> encoder.settings
    {'before': [], 'after': []}
    """

    tokenizer: Tokenizer

    settings: dict[str, Any]
    """What the tokens depend on besides the tokenizer, in types that JSON has."""

    row_length: int | None = None
    """The number of tokens of each list of documents, if they are packed into rows."""

    before: Sequence[int] = ()
    """Ids before each document."""

    padding: int = 0
    """The id of tokens that fill a row."""

    @abstractmethod
    def __call__(self, documents: Sequence[Any]) -> list[list[Document]]:
        """Encode documents. Those of an inner list stay together in one split."""


class TextEncoder(Encoder):
    """Encodes texts, each as one document with the same ids around it.

    Special tokens that a text contains are left out: nobody should be able to end a document by typing one.

    Args:
        tokenizer: of the texts.
        before, after: ids before and after each text.

    Source: Radford et al. (2019), whose documents are divided by one token; GT-03, GT-40.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> encode = TextEncoder(ByteTokenizer(["<|endoftext|>"]), before=[256])
    >>> [[document.ids.tolist() for document in unit] for unit in encode(["ab", "", "a<|endoftext|>b"])]
    [[[256, 97, 98]], [[256, 97, 98]]]
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = (), after: Sequence[int] = ()):
        self.tokenizer, self.before, self.after = tokenizer, list(before), list(after)
        self.settings = {"before": self.before, "after": self.after}
        self._special = special_tokens_of(tokenizer)

    def __call__(self, texts: Sequence[str]) -> list[list[Document]]:
        parts = [self._special.split(text) if self._special else [text] for text in texts]
        encoded = iter(self.tokenizer.encode_batch([part for of_text in parts for part in of_text]))
        found = []
        for of_text in parts:
            ids = [i for part in islice(encoded, len(of_text)) for i in part]
            if ids:
                found.append([Document(np.asarray([*self.before, *ids, *self.after], dtype=np.uint32))])
        return found


def special_tokens_of(tokenizer: Tokenizer) -> regex.Pattern[str] | None:
    """A pattern that finds the special tokens of a tokenizer in a text; None if it has none.

    Args:
        tokenizer: of the text.

    Source: GT-40.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> special_tokens_of(ByteTokenizer(["<s>"])).split("a<s>b")
    ['a', 'b']
    """
    longest_first = sorted(filter(None, tokenizer.special_tokens), key=len, reverse=True)
    return regex.compile("|".join(map(regex.escape, longest_first))) if longest_first else None


def tokenize(
    source: DocumentSource,
    folder: str | os.PathLike[str],
    encoder: Encoder,
    *,
    validation: float = 0.01,
    workers: int = 1,
    shard_tokens: int = SHARD_TOKENS,
) -> dict[str, int]:
    """Encode all documents of a source, and write them as token shards.

    If it was interrupted before, it continues where the last shard ended. The files are the same as if it had not been,
    and the same for any number of workers.

    Args:
        source: of the documents.
        folder: for the shards and the tokenizer.
        encoder: a :class:`TextEncoder` or a :class:`~llm_anatomy.training.data.instructions.ConversationEncoder`.
        validation: the part of the tokens that are kept for validation, from 0 to below 1: whole documents, or the end
            of the only document.
        workers: number of processes that encode.
        shard_tokens: number of tokens of a shard.

    Returns:
        The number of tokens of each split.

    Raises:
        ValueError: if the folder holds another corpus or a complete one, the source holds nothing, or a document cannot
            be read or encoded; the sentence names it.
        ChildProcessError: if a worker was ended from outside.

    Source: GT-03.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> from llm_anatomy.training.data.shards import TokenShards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("One.<|endoftext|>Two.")
    ...     encoder = TextEncoder(ByteTokenizer(["<|endoftext|>"]), before=[256])
    ...     tokenize(DocumentSource(Path(folder, "a.txt")), Path(folder, "shards"), encoder, validation=0.1)
    ...     TokenShards(Path(folder, "shards"), "train").ids(0, 5)
    {'train': 5, 'validation': 5}
    array([256,  79, 110, 101,  46], dtype=uint16)
    """
    if not 0 <= validation < 1:
        raise ValueError(f"{validation=} must be from 0 to below 1")
    if workers < 1:
        raise ValueError(f"{workers=} must be at least 1")
    row_length = encoder.row_length
    writer = ShardWriter(
        folder,
        n_vocab=encoder.tokenizer.n_vocab,
        tokenizer=encoder.tokenizer,
        settings={
            "source": source.name,
            "subset": source.subset,
            "field": source.field,
            "n_bytes": source.n_bytes,
            "validation": validation,
            **encoder.settings,
        },
        has_targets=row_length is not None,
        row_length=row_length,
        shard_tokens=shard_tokens,
    )

    def add(unit: Sequence[Document]) -> None:
        """Add documents to the split that has too few tokens."""
        is_short = writer.n_tokens.get("validation", 0) < validation * sum(writer.n_tokens.values())
        for document in unit:
            writer.add("validation" if is_short else "train", *document)

    only = None  # the first unit, until there is a second
    unit_of_bar = " documents" if source.n_bytes is None else "B"
    with tqdm(total=source.n_bytes, unit=unit_of_bar, unit_scale=True, desc="tokenizing", disable=None) as bar:
        for n_read, units in _encoded(_chunks(source, writer.n_read), encoder, workers):
            for unit in units:
                if only is None and not writer.n_tokens:
                    only = unit
                    continue
                if only is not None:
                    add(only)
                    only = None
                add(unit)
            writer.read(n_read)
            bar.update(n_read if source.n_bytes is None else source.position - bar.n)
            bar.set_postfix_str(f"{sum(writer.n_tokens.values()) / 1e6:,.1f}M tokens")
    if only is not None:
        _add_in_two(writer, only, validation if row_length is None else 0.0, encoder.before)
    if not writer.n_tokens:
        raise ValueError(f"{source.name} holds no text: none of its documents has a token")
    if row_length is not None:  # the last token of the last row has a target too
        for split in writer.n_tokens:
            writer.add(split, [encoder.padding], [False])
    writer.finish()
    return dict(writer.n_tokens)


def _add_in_two(writer: ShardWriter, only: Sequence[Document], validation: float, before: Sequence[int]) -> None:
    """Add the only document of a source, its end for validation."""
    for document in only:
        n_train = max(len(before) + 1, len(document.ids) - round(validation * len(document.ids)))
        writer.add("train", document.ids[:n_train], *document[1:])
        if n_train < len(document.ids):
            writer.add("validation", [*before, *document.ids[n_train:]])


def _chunks(source: DocumentSource, n_read: int) -> Iterator[tuple[int, list[Any]]]:
    """The documents after those that were read before, in lists that take about equally long, each with the number of
    its first document."""
    chunk, size, first = [], 0, n_read
    for document in islice(source, n_read, None):
        chunk.append(document)
        size += len(document) if isinstance(document, str) else len(str(document))
        if size >= CHUNK:
            yield first, chunk
            chunk, size, first = [], 0, first + len(chunk)
    if chunk:
        yield first, chunk


def _encoded(
    chunks: Iterable[tuple[int, list[Any]]], encoder: Encoder, workers: int
) -> Iterator[tuple[int, list[list[Document]]]]:
    """For each chunk, the number of its documents and their tokens, in the order of the chunks."""
    if workers == 1:
        for first, chunk in chunks:
            yield len(chunk), _encode(encoder, first, chunk)
        return
    waiting = deque()
    with ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, (encoder,)) as pool:
        try:
            for first, chunk in chunks:
                waiting.append((len(chunk), pool.submit(_encode_in_worker, first, chunk)))
                if len(waiting) > 2 * workers:  # reads no further ahead, so that memory holds a few chunks
                    n, found = waiting.popleft()
                    yield n, found.result()
            for n, found in waiting:
                yield n, found.result()
        except BrokenProcessPool:
            raise ChildProcessError(
                "a worker was ended from outside, perhaps for lack of memory; the same command again continues"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _encode(encoder: Encoder, first: int, documents: list[Any]) -> list[list[Document]]:
    try:
        return encoder(documents)
    except ValueError:
        for number, document in enumerate(documents, first):  # which of them it was
            try:
                encoder([document])
            except ValueError as error:
                raise ValueError(f"document {number}: {error}") from None
        raise


_encoder_of_worker: Encoder


def _start_worker(encoder: Encoder) -> None:
    global _encoder_of_worker
    _encoder_of_worker = encoder
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there are as many processes as are wanted
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is answered by the parent, which ends the workers
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """If the parent is killed, it cannot end its workers, which would wait for it forever."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _encode_in_worker(first: int, documents: list[Any]) -> list[list[Document]]:
    return _encode(_encoder_of_worker, first, documents)


# --- The tokenizer ---


def train_tokenizer(
    source: DocumentSource,
    n_vocab: int,
    *,
    special_tokens: Sequence[str] = (END_OF_TEXT,),
    n_characters: int = 10_000_000,
) -> BPE:
    """Train byte pair encoding on the beginning of a source.

    Args:
        source: of texts.
        n_vocab: size of the vocabulary, with the special tokens.
        special_tokens: to be added after the merges.
        n_characters: the training text ends with the document that reaches so many.

    Raises:
        ValueError: if ``n_vocab`` is too small for the bytes and the special tokens.

    Source: Sennrich et al. (2016), section 3.2; GT-40, GT-41.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("new newer newest")
    ...     train_tokenizer(DocumentSource(folder), 260).vocabulary[256:]
    [b'ew', b'new', b' new', b'<|endoftext|>']
    """
    trained = BPE.train(_beginning(source, n_characters), n_vocab, special_tokens=special_tokens)
    return cast(BPE, trained)  # an iterator only with trace=True


def _beginning(source: DocumentSource, n_characters: int) -> Iterator[str]:
    for text in source:
        yield text
        n_characters -= len(text)
        if n_characters <= 0:
            return


def with_special_token(tokenizer: Tokenizer, text: str) -> Tokenizer:
    """Return a tokenizer with one special token more, whose id follows all others.

    Args:
        tokenizer: stays as it is; it is returned if it has the token.
        text: of the special token.

    Raises:
        ValueError: if the library of a ``tokenizer.json`` would give the token another id.

    Source: Radford et al. (2019), who put the end-of-text token after the merges; GT-41.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> with_special_token(ByteTokenizer(), "<|endoftext|>").special_tokens
    {'<|endoftext|>': 256}
    """
    if text in tokenizer.special_tokens:
        return tokenizer
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer")
        tokenizer.save(path)
        fields = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(tokenizer, HuggingFaceTokenizer):
            flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            fields["added_tokens"] += [{"id": tokenizer.n_vocab, "content": text, "special": True, **flags}]
        else:
            fields["vocabulary"].append(text)
            fields["special_tokens"][text] = tokenizer.n_vocab
        write_atomically(path, json.dumps(fields, ensure_ascii=False))
        return Tokenizer.load(path)
