r"""Tokenizers in the format of Hugging Face's library, which reads, writes and runs them.

A file ``tokenizer.json`` describes a pipeline: a normalizer, a pre-tokenizer, a model (BPE, Unigram, WordPiece, word
level), a decoder, and added tokens with rules of their own. There are thousands of such files, and a well-kept library
that runs each of them exactly as it was trained. This module gives that library the interface of this package.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_anatomy.files import first_line, write_atomically
from llm_anatomy.tokenizers.base import (
    BYTE_NAMES,
    HUGGING_FACE,
    SPACE,
    AllowedSpecial,
    Tokenizer,
    _check_errors,
    as_bytes,
    check_texts,
)
from llm_anatomy.tokenizers.files import gpt2_bytes

if TYPE_CHECKING:
    import tokenizers

LARGEST_ID = 1 << 22
"""Files with larger ids are refused: the vocabulary, a list, would be mostly empty."""

FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
"""The rules of an added token: how it is found in a text, and whether it is special."""


class HuggingFaceTokenizer(Tokenizer):
    """A tokenizer that Hugging Face's library runs.

    ``encode`` gives the ids of ``tokenizers.Tokenizer.encode`` with ``add_special_tokens=False``, and ``decode`` the
    text of its ``decode`` with ``skip_special_tokens=False``: tokens that the file adds around a text are left to the
    caller. Added tokens that are not special, such as Qwen's ``<tool_call>``, may be typed.

    Args:
        content: a ``tokenizer.json``, which :meth:`save` writes again byte for byte.
        name: of the file, for messages.

    Raises:
        ValueError: if the library cannot read the content, if ``dropout`` would make the ids random, and if the library
            is not installed.

    Source: Hugging Face tokenizers, its documentation of the pipeline; GT-40, GT-42.

    >>> tokenizer = HuggingFaceTokenizer.from_json({
    ...     "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1, "world": 2}, "unk_token": "[UNK]"},
    ...     "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": []})
    >>> tokenizer.encode("hello, world"), tokenizer.n_vocab
    ([1, 0, 2], 3)
    """

    def __init__(self, content: bytes, name: str = HUGGING_FACE):
        self._content, self.name = content, name
        self._library = self._run(_library().Tokenizer.from_buffer, content)
        self._library.no_truncation()
        self._library.no_padding()
        if getattr(self._library.model, "dropout", None):
            raise ValueError(f"{name}: dropout={self._library.model.dropout} makes the ids random; it must be null")
        if not self._library.get_vocab_size():
            raise ValueError(f"{name}: the vocabulary is empty; it must hold at least one token")
        self._added = self._library.get_added_tokens_decoder()
        self._special_tokens = {token.content: i for i, token in sorted(self._added.items()) if token.special}
        self._check_added_ids()
        self._check_normalized()

    @classmethod
    def from_json(cls, content: str | bytes | Mapping[str, Any], name: str = HUGGING_FACE) -> "HuggingFaceTokenizer":
        """Build a tokenizer from the content of a ``tokenizer.json``, or from the JSON object that it would hold.

        Args:
            content: text, UTF-8, or an object, in which fields that are null may be left out.
            name: of the source, for messages.

        Raises:
            ValueError: as the class does.
        """
        if isinstance(content, Mapping):
            content = json.dumps({"version": "1.0", "added_tokens": []} | dict(content), ensure_ascii=False)
        return cls(as_bytes(content) if isinstance(content, str) else content, name)

    def _check_added_ids(self) -> None:
        """The library silently gives another id to an added token that the vocabulary does not hold at its own."""
        ids = {token.content: i for i, token in self._added.items()}
        for token in _added_tokens(self._content):
            if ids.get(token["content"]) != token["id"]:
                raise ValueError(
                    f"{self.name}: the added token {token['content']!r} must have the id {ids.get(token['content'])}, "
                    f"which Hugging Face's library would give it, not {token['id']}, or be in the model's vocabulary"
                )

    def _check_normalized(self) -> None:
        """An added token of which the normalizer leaves nothing would be found everywhere: the library then fails, or
        fills the memory."""
        normalizer = self._library.normalizer
        for token in self._added.values():
            if normalizer and token.normalized and not self._run(normalizer.normalize_str, token.content):
                raise ValueError(
                    f"{self.name}: the normalizer leaves nothing of the added token {token.content!r}, whose key "
                    "'normalized' must therefore be false"
                )

    def __reduce__(self) -> tuple:
        return type(self), (self._content, self.name)

    def _run(self, function: Callable, *arguments, **options) -> Any:
        """Call the library, whose errors are of many kinds; a panic of its Rust code is not even an ``Exception``."""
        try:
            return function(*arguments, **options)
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            reason = first_line(error).removeprefix("Cannot instantiate Tokenizer from buffer: ")
            raise ValueError(f"{self.name}: Hugging Face's library says: {reason or type(error).__name__}") from None

    # --- The vocabulary ---

    @property
    def n_vocab(self) -> int:
        return len(self._bytes_of_ids)

    @property
    def vocabulary(self) -> list[bytes]:
        return list(self._bytes_of_ids)

    @property
    def special_tokens(self) -> dict[str, int]:
        return dict(self._special_tokens)

    @property
    def added_tokens(self) -> dict[str, int]:
        return {token.content: i for i, token in sorted(self._added.items())}

    @property
    def rules_of_added_tokens(self) -> dict[str, dict[str, bool]]:
        """The rules of each added token, by its text: ``single_word``, ``lstrip``, ``rstrip``, ``normalized``,
        ``special``."""
        return {token.content: {flag: getattr(token, flag) for flag in FLAGS} for token in self._added.values()}

    def with_added_tokens(self, rules: Mapping[str, Mapping[str, bool]]) -> "HuggingFaceTokenizer":
        """The same tokenizer with more added tokens, or with other rules for those that it has.

        Args:
            rules: as in ``rules_of_added_tokens``. A token that is not in the vocabulary gets the next id.

        Raises:
            ValueError: as the class does.
        """
        library = self._run(_library().Tokenizer.from_buffer, self._content)
        self._run(library.add_tokens, [_library().AddedToken(text, **flags) for text, flags in rules.items()])
        return type(self)(as_bytes(library.to_str()), self.name)

    @property
    def post_processor(self) -> dict[str, Any]:
        """What the file says about tokens around a text, as its JSON object; empty if it says nothing."""
        last = self._library.post_processor
        return {} if last is None else json.loads(last.__getstate__())

    @cached_property
    def _bytes_of_ids(self) -> list[bytes]:
        vocab = self._library.get_vocab()
        n_vocab = 1 + max(*vocab.values(), *self._added, 0)
        if n_vocab > LARGEST_ID:
            raise ValueError(f"{self.name}: the id {n_vocab - 1} is too large; ids must be below {LARGEST_ID}")
        vocabulary, decoded = [b""] * n_vocab, _bytes_by(self._steps_of_decoder())
        for text, i in vocab.items():
            vocabulary[i] = decoded(text)
        for i, token in self._added.items():
            vocabulary[i] = as_bytes(token.content)
        return vocabulary

    @cached_property
    def byte_fallback_ids(self) -> frozenset[int]:
        vocab, steps = self._library.get_vocab(), self._steps_of_decoder()
        names = BYTE_NAMES if any(step["type"] == "ByteFallback" for step in steps) else ()
        return frozenset(vocab[name] for name in names if name in vocab)

    def _steps_of_decoder(self) -> list[dict]:
        decoder = self._library.decoder
        if decoder is None:
            return []
        fields = json.loads(decoder.__getstate__())
        return fields.get("decoders", [fields])

    @cached_property
    def _unk_ids(self) -> set[int]:
        """The ids that the model gives to what it does not know; none if it writes everything as bytes."""
        try:
            return {token.id for token in self._library.model.tokenize("\U0010ffff")}  # no character
        except Exception:  # a vocabulary of words without an unknown token
            return set()

    # --- Text to ids ---

    def encode(self, text: str, *, allowed_special: AllowedSpecial = ()) -> list[int]:
        encoding = self._run(self._library.encode, _without_surrogates(text), add_special_tokens=False)
        return self._checked(text, encoding, self._forbidden(allowed_special))

    def encode_batch(self, texts: Iterable[str], *, allowed_special: AllowedSpecial = ()) -> list[list[int]]:
        texts, forbidden = list(map(_without_surrogates, check_texts(texts))), self._forbidden(allowed_special)
        encodings = self._run(self._library.encode_batch, texts, add_special_tokens=False)
        return [self._checked(text, encoding, forbidden) for text, encoding in zip(texts, encodings, strict=True)]

    def _forbidden(self, allowed_special: AllowedSpecial) -> dict[int, str]:
        """The special tokens that the text must not contain, by id."""
        allowed = self._allowed(allowed_special)
        return {i: text for text, i in self._special_tokens.items() if text not in allowed}

    def _checked(self, text: str, encoding: "tokenizers.Encoding", forbidden: Mapping[int, str]) -> list[int]:
        ids = encoding.ids
        if not forbidden.keys().isdisjoint(ids):
            for i, (start, end) in zip(ids, encoding.offsets, strict=True):
                is_unknown = i in self._unk_ids and text[start:end].strip() != forbidden.get(i)
                if i in forbidden and not is_unknown:
                    raise self._not_allowed(forbidden[i])
        return ids

    # --- Ids to text ---

    def decode(self, ids: Iterable[int], *, errors: str = "replace") -> str:
        _check_errors(errors)
        if errors == "replace":
            return self._run(self._library.decode, self._checked_ids(ids), skip_special_tokens=False)
        return super().decode(ids, errors=errors)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        ids = self._checked_ids(ids)
        text = self.decode(ids)
        joined = b"".join(map(self._bytes_of_ids.__getitem__, ids))
        try:
            joined.decode()
        except UnicodeDecodeError:  # the library has replaced bytes; whether it has removed a space, its text tells
            return joined if text.startswith(" ") else joined.removeprefix(b" ")
        return text.encode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the tokenizer as it was read, whatever the name of the file."""
        write_atomically(path, self._content)


def read_hugging_face(path: str | os.PathLike) -> HuggingFaceTokenizer:
    """Read a tokenizer from ``tokenizer.json``, with Hugging Face's library.

    Args:
        path: the file. Its post-processor, which adds tokens around a text, its truncation and padding are ignored.

    Raises:
        ValueError: as :class:`HuggingFaceTokenizer` does.

    Source: Hugging Face tokenizers; GT-40, GT-42.

    >>> read_hugging_face("no such file")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    return HuggingFaceTokenizer(Path(path).read_bytes(), Path(path).name)


def _library():
    try:
        import tokenizers
    except ImportError:
        raise ValueError(
            "to read tokenizer.json, install tokenizers (pip install 'llm_anatomy[checkpoints]')"
        ) from None
    return tokenizers


def _added_tokens(content: bytes) -> list[dict]:
    """The list of added tokens, found without reading the vocabulary, which takes long."""
    text = content.decode()
    for key in re.finditer(r'"added_tokens"\s*:\s*(?=\[)', text):
        return json.JSONDecoder().raw_decode(text, key.end())[0]
    return []


def _without_surrogates(text: str) -> str:
    """The same text, after a check that it is one that UTF-8, and so the library, can write."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text has a lone surrogate at position {error.start}, {text[error.start]!r}, which is no character"
        ) from None
    return text


def _bytes_by(steps: list[dict]) -> Callable[[str], bytes]:
    """How the steps of a decoder write one token."""
    kinds = {step["type"] for step in steps}
    to_space = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    byte_of = {name: bytes([byte]) for byte, name in enumerate(BYTE_NAMES)} if "ByteFallback" in kinds else {}
    space = " " if "Metaspace" in kinds or to_space in steps else SPACE

    def decoded(text: str) -> bytes:
        if "ByteLevel" in kinds:
            try:
                return gpt2_bytes(text)
            except ValueError:  # as the library does
                return as_bytes(text)
        return byte_of.get(text) or as_bytes(text.replace(SPACE, space))

    return decoded
