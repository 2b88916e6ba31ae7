r"""What every tokenizer can do (``Tokenizer``), and how those of this package do it (``PieceTokenizer``).

A vocabulary is a list of byte strings, and a token id is an index into it. A ``PieceTokenizer`` finds special tokens,
cuts the text between them into pieces, and encodes each piece by itself. Its subclasses define how a piece becomes ids
(``_ids``) and what a file has to hold besides the vocabulary (``_state``, ``_from_state``).

Lone surrogates are not characters, and UTF-8 does not encode them, but Python strings may contain them. Each is encoded
as the three bytes that UTF-8's scheme would give it, and ``decode(ids, errors="surrogatepass")`` restores it. The other
modes of ``decode`` treat these bytes as invalid UTF-8.
"""

import base64
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import regex

from llm_anatomy.files import Record, write_atomically
from llm_anatomy.tokenizers.normalization import Normalizer
from llm_anatomy.tokenizers.pretokenization import BLOCK, AnySplit, NoSplit, PreTokenizer

VERSION = 1


def as_bytes(text: str) -> bytes:
    """Encode a text as UTF-8, with three bytes for each lone surrogate.

    Args:
        text: any string.

    Source: RFC 3629, section 3; UCL-05.

    >>> [len(as_bytes(c)) for c in "aé€🙂"]
    [1, 2, 3, 4]
    """
    return text.encode("utf-8", "surrogatepass")


def check_texts(texts: Iterable[str]) -> Iterable[str]:
    """Return the texts, after a check that they are not one string, whose characters would be taken for texts.

    Args:
        texts: an iterable of strings that is not itself a string.

    Raises:
        ValueError: if ``texts`` is a string.

    Source: UCL-04.

    >>> list(check_texts(["one", "two"]))
    ['one', 'two']
    """
    if isinstance(texts, str):
        raise ValueError(f"texts is one string, {texts!r:.40}; it must be a list of strings, or another iterable")
    return texts


def append_special_tokens(
    vocabulary: Iterable[bytes], special_tokens: Iterable[str]
) -> tuple[list[bytes], dict[str, int]]:
    """Append special tokens to a vocabulary, and return the new vocabulary with the ids of the special tokens.

    Args:
        vocabulary: the ordinary tokens.
        special_tokens: the text of each special token, without duplicates.

    Raises:
        ValueError: if a special token occurs twice, or ``special_tokens`` is one string.

    Source: Radford et al. (2019), who put the end-of-text token after the merges; GT-41.

    >>> append_special_tokens([b"a", b"b"], ["<|end|>"])
    ([b'a', b'b', b'<|end|>'], {'<|end|>': 2})
    """
    vocabulary, special_tokens = list(vocabulary), list(check_texts(special_tokens))
    ids = {text: len(vocabulary) + i for i, text in enumerate(special_tokens)}
    if len(ids) < len(special_tokens):
        raise ValueError(f"{special_tokens=} must not hold duplicates")
    return vocabulary + [as_bytes(text) for text in special_tokens], ids


AllowedSpecial = Collection[str] | Literal["all"]

BYTE_NAMES = [f"<0x{byte:02X}>" for byte in range(256)]
"""How SentencePiece and Hugging Face write a token that is a single byte."""

SPACE = "▁"
"""How SentencePiece writes a space (U+2581)."""

HUGGING_FACE = "tokenizer.json"
"""A file of this name is written in the format of Hugging Face's tokenizers."""


class Tokenizer(ABC):
    r"""What every tokenizer can do: turn text into token ids and ids into text, and be saved and loaded.

    .. math:: \mathrm{decode}(\mathrm{encode}(x)) = x

    This holds unless the text contains something unknown to the tokenizer, or a normalizer has changed the text.

    Source: UCL-04, GT-40.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> tokenizer: Tokenizer = ByteTokenizer(special_tokens=["<|end|>"])
    >>> tokenizer.encode("hé<|end|>", allowed_special="all")
    [104, 195, 169, 256]
    """

    _kinds: dict[str, type["PieceTokenizer"]] = {}
    _to_hugging_face: Callable[["Tokenizer"], bytes]
    _from_hugging_face: Callable[[str | os.PathLike[str]], "Tokenizer"]

    @property
    @abstractmethod
    def n_vocab(self) -> int:
        """Number of tokens, including the special tokens; ids are from 0 to ``n_vocab - 1``."""

    @property
    @abstractmethod
    def vocabulary(self) -> list[bytes]:
        """The bytes of each token, in the order of the ids, and none for an id without a token (a copy)."""

    @property
    @abstractmethod
    def special_tokens(self) -> dict[str, int]:
        """The id of each special token (a copy)."""

    @property
    def added_tokens(self) -> dict[str, int]:
        """The id of each token that is found before the text is cut, whether it is special or may be typed (a copy)."""
        return self.special_tokens

    @property
    def byte_fallback_ids(self) -> frozenset[int]:
        """The ids of bytes whose text changes if a later byte does not fit to them: then all of the run is replaced."""
        return frozenset()

    @abstractmethod
    def encode(self, text: str, *, allowed_special: AllowedSpecial = ()) -> list[int]:
        """Encode a text as token ids.

        Args:
            text: any string.
            allowed_special: the special tokens that the text may contain, or "all". By default it may contain none:
                nobody should be able to end a document, or to speak as the system, by typing the special token.

        Raises:
            ValueError: if the text contains a special token that is not allowed.
        """

    def encode_batch(self, texts: Iterable[str], *, allowed_special: AllowedSpecial = ()) -> list[list[int]]:
        """Encode each text as a list of token ids.

        Args:
            texts: any strings.
            allowed_special: as in :meth:`encode`.

        Raises:
            ValueError: if a text contains a special token that is not allowed, or ``texts`` is one string.
        """
        return [self.encode(text, allowed_special=allowed_special) for text in check_texts(texts)]

    def encode_iterable(self, chunks: Iterable[str], *, allowed_special: AllowedSpecial = ()) -> Iterator[int]:
        """Encode a text that arrives in chunks, and yield the same ids as ``encode("".join(chunks))`` would return.

        Memory holds the whole text, unless a subclass knows where it may be cut.

        Args:
            chunks: the parts of the text, in their order.
            allowed_special: as in :meth:`encode`.

        Raises:
            ValueError: if the text contains a special token that is not allowed, or ``chunks`` is one string.
        """
        return iter(self.encode("".join(check_texts(chunks)), allowed_special=allowed_special))

    @abstractmethod
    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of a text: those of its tokens, without a prefix that encoding has added.

        Args:
            ids: token ids.

        Raises:
            ValueError: if an id is not in the vocabulary.
        """

    def decode(self, ids: Iterable[int], *, errors: str = "replace") -> str:
        """Decode token ids into text.

        Args:
            ids: token ids.
            errors: how to treat bytes that are not valid UTF-8, as in ``bytes.decode``: "replace" (by U+FFFD), "strict"
                (raise UnicodeDecodeError), "ignore", or "surrogatepass" (strict, but restore lone surrogates).

        Raises:
            ValueError: if an id is not in the vocabulary, or ``errors`` is none of these.
        """
        _check_errors(errors)
        return self.decode_bytes(ids).decode("utf-8", errors)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the tokenizer as JSON. The new file replaces an old one only when it is complete.

        A file with the name ``tokenizer.json`` has the format of Hugging Face's tokenizers, whose library then gives
        the same ids and texts.

        Args:
            path: of the file.

        Raises:
            ValueError: if that format cannot represent the tokenizer; the message says why.
        """
        write_atomically(path, Tokenizer._to_hugging_face(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Tokenizer":
        """Load a tokenizer from a file of either format; ``Tokenizer.load`` loads any class.

        Args:
            path: of the file.

        Raises:
            ValueError: if the file is malformed or inconsistent; the message names the file and the line or key.
        """
        data = Path(path).read_bytes()
        if b'"llm_anatomy tokenizer"' in data or b'"model"' not in data:
            return PieceTokenizer._read(Record.read(path), cls)
        tokenizer = Tokenizer._from_hugging_face(path)
        if not isinstance(tokenizer, cls):
            name = Path(path).name
            raise ValueError(f"{name} has Hugging Face's format; load it by Tokenizer.load, not {cls.__name__}.load")
        return tokenizer

    def _allowed(self, allowed_special: AllowedSpecial) -> Collection[str]:
        if isinstance(allowed_special, str) and allowed_special == "all":
            return self.special_tokens
        unknown = set(allowed_special) - set(self.special_tokens)
        if isinstance(allowed_special, str) or unknown:
            raise ValueError(
                f"allowed_special={allowed_special!r} must be 'all' or some of {sorted(self.special_tokens)}"
            )
        return allowed_special

    def _not_allowed(self, text: str) -> ValueError:
        return ValueError(
            f"the text contains the special token {text!r}; list it in allowed_special if this is intended, "
            "or remove it from the text"
        )

    def _checked_ids(self, ids: Iterable[int]) -> list[int]:
        ids = list(ids)
        if ids and not (min(ids) >= 0 and max(ids) < self.n_vocab):
            wrong = next(i for i in ids if not 0 <= i < self.n_vocab)
            raise ValueError(f"id {wrong} is not in the vocabulary, whose ids are 0 to {self.n_vocab - 1}")
        return ids


class PieceTokenizer(Tokenizer):
    r"""Base class of the tokenizers that find special tokens, cut the text between them, and encode each piece.

    Args:
        vocabulary: the bytes of each token; a token's id is its index.
        pre_tokenizer: cuts ordinary text into pieces, each of which is encoded by itself.
        special_tokens: the id of each special token; the vocabulary must hold the token's UTF-8 at that id. Special
            tokens are found before the text is cut, and the longest one wins.
        prefix: added before each part of the text between special tokens, unless the part is empty, like
            SentencePiece's dummy space. Decoding removes it from the beginning of the text.
        normalizer: applied to each part of the text between special tokens.

    Raises:
        ValueError: if the vocabulary is empty, or does not hold a special token at its id.

    Source: UCL-04, GT-40.

    >>> from llm_anatomy.tokenizers.bpe import BPE
    >>> tokenizer: PieceTokenizer = BPE.train(["a b"], 256)
    >>> tokenizer.pre_tokenizer("two words")
    ['two', ' words']
    """

    def __init_subclass__(cls) -> None:
        Tokenizer._kinds[cls.__name__] = cls

    def __init__(
        self,
        vocabulary: Sequence[bytes],
        pre_tokenizer: PreTokenizer,
        special_tokens: Mapping[str, int] | None = None,
        prefix: str = "",
        normalizer: Normalizer | None = None,
    ):
        self._vocabulary, self._special_tokens = list(vocabulary), dict(special_tokens or {})
        self.pre_tokenizer, self.prefix, self.normalizer = pre_tokenizer, prefix, normalizer
        if not vocabulary:
            raise ValueError("vocabulary is empty; it must hold at least one token")
        for text, i in self._special_tokens.items():
            if not text or not 0 <= i < len(vocabulary) or vocabulary[i] != as_bytes(text):
                raise ValueError(f"special_tokens[{text!r}]={i}, but the vocabulary does not hold that text there")
        longest_first = sorted(self._special_tokens, key=len, reverse=True)
        self._special = regex.compile("|".join(map(regex.escape, longest_first)))
        self._cache = _PieceCache(self._ids)

    @abstractmethod
    def _ids(self, piece: str) -> Sequence[int]:
        """Encode one piece of ordinary text. The result may be cached, so callers must not modify it."""

    @property
    def n_vocab(self) -> int:
        return len(self._vocabulary)

    @property
    def vocabulary(self) -> list[bytes]:
        return list(self._vocabulary)

    @property
    def special_tokens(self) -> dict[str, int]:
        return dict(self._special_tokens)

    # --- Text to ids ---

    def encode(self, text: str, *, allowed_special: AllowedSpecial = ()) -> list[int]:
        return self._encode(text, self._allowed(allowed_special), self.prefix)

    def encode_iterable(self, chunks: Iterable[str], *, allowed_special: AllowedSpecial = ()) -> Iterator[int]:
        """Encode a text that arrives in chunks, and yield the same ids as ``encode("".join(chunks))`` would return.

        Memory holds only the end of the text, where the pieces may still change (see ``PreTokenizer.stable_pieces``):
        at most the longest piece and a block. The exceptions, where memory holds the whole text, are a normalizer and a
        pre-tokenizer without stable pieces (``NoSplit``, or a pattern whose ``look_ahead`` is not known).

        Args:
            chunks, allowed_special: as in :meth:`Tokenizer.encode_iterable`.

        Raises:
            ValueError: as there.
        """
        return self._stream(check_texts(chunks), self._allowed(allowed_special))

    def _stream(self, chunks: Iterable[str], allowed: Collection[str]) -> Iterator[int]:
        if self.normalizer:
            yield from self._encode("".join(chunks), allowed, self.prefix)
            return
        waiting, prefix, enough = "", self.prefix, BLOCK
        for block in _blocks(chunks):
            waiting += block
            if len(waiting) >= enough:
                ids, waiting, prefix = self._encode_stable(waiting, allowed, prefix)
                yield from ids
                enough = max(BLOCK, 2 * len(waiting))  # doubled, so that a long piece is not cut again and again
        yield from self._encode(waiting, allowed, prefix)

    def _prepared(self, text: str, prefix: str) -> str:
        """A part of the text after normalization, with the prefix: this is what the pre-tokenizer cuts."""
        if self.normalizer:
            return self.normalizer(text, prefix)
        return prefix + text if text else ""

    def _encode(self, text: str, allowed: Collection[str], prefix: str) -> list[int]:
        if not self._special_tokens:
            return self._encode_ordinary(self._prepared(text, prefix))
        ids, start = [], 0
        for found in self._special.finditer(text):
            ids += self._encode_ordinary(self._prepared(text[start : found.start()], prefix))
            ids.append(self._special_id(found[0], allowed))
            start, prefix = found.end(), self.prefix
        return ids + self._encode_ordinary(self._prepared(text[start:], prefix))

    def _encode_ordinary(self, text: str) -> list[int]:
        ids = []
        for pieces in self.pre_tokenizer.iter_blocks(text):
            ids += chain.from_iterable(map(self._cache.__getitem__, pieces))
        return ids

    def _encode_stable(self, text: str, allowed: Collection[str], prefix: str) -> tuple[list[int], str, str]:
        """Encode the part of the text whose ids stay the same whatever follows.

        Returns the ids, the rest of the text, and the prefix of that rest: none if its first piece has begun before.
        """
        longest = max(map(len, self._special_tokens), default=1)
        ids, start = [], 0
        for found in self._special.finditer(text) if self._special_tokens else ():
            if found.start() + longest > len(text):  # a longer special token may begin here and end in the next chunk
                break
            ids += self._encode_ordinary(self._prepared(text[start : found.start()], prefix))
            ids.append(self._special_id(found[0], allowed))
            start, prefix = found.end(), self.prefix
        end = max(start, len(text) - longest + 1)  # a special token may begin after this and end in the next chunk
        pieces, rest = self.pre_tokenizer.stable_pieces(self._prepared(text[start:end], prefix))
        if len(rest) > end - start or not pieces:  # a part of the prefix is not stable yet
            return ids, text[start:], prefix
        ids += chain.from_iterable(map(self._cache.__getitem__, pieces))
        return ids, rest + text[end:], ""

    def _special_id(self, text: str, allowed: Collection[str]) -> int:
        if text not in allowed:
            raise self._not_allowed(text)
        return self._special_tokens[text]

    # --- Ids to text ---

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        joined = b"".join(map(self._vocabulary.__getitem__, self._checked_ids(ids)))
        if self.normalizer and self.normalizer.collapsed:  # no normalized text begins with a space
            return joined.lstrip(b" ")
        return joined.removeprefix(as_bytes(self.prefix))

    # --- Files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        if Path(path).name == HUGGING_FACE:
            return super().save(path)
        fields = {
            "llm_anatomy tokenizer": VERSION,
            "kind": type(self).__name__,
            "pre_tokenizer": {"kind": type(self.pre_tokenizer).__name__} | _pre_tokenizer_fields(self.pre_tokenizer),
            "prefix": self.prefix,
            "normalizer": _normalizer_fields(self.normalizer),
            "special_tokens": self._special_tokens,
            "vocabulary": [_readable(token) for token in self._vocabulary],
        }
        write_atomically(path, _json_lines(fields | self._state()))

    @staticmethod
    def _read(record: Record, wanted: type[Tokenizer]) -> "PieceTokenizer":
        """Build the tokenizer that a file of this package describes."""
        if record.take("llm_anatomy tokenizer", int) != VERSION:
            record.refuse("llm_anatomy tokenizer", f"it must be version {VERSION}")
        kind = Tokenizer._kinds.get(record.take("kind", str))
        if kind is None or not issubclass(kind, wanted):
            known = sorted(name for name, k in Tokenizer._kinds.items() if issubclass(k, wanted))
            record.refuse("kind", f"{record.fields['kind']!r} must be one of {', '.join(known)}")
        vocabulary = [_token_bytes(record, i, t) for i, t in enumerate(record.take("vocabulary", list))]
        special_tokens = record.take("special_tokens", dict)
        for text, i in special_tokens.items():
            if type(i) is not int:
                record.refuse("special_tokens", f"the id of {text!r} must be an integer, not {i!r:.40}")
        with record.name_in_errors("the tokenizer"):
            return kind._from_state(
                record,
                vocabulary=vocabulary,
                pre_tokenizer=_pre_tokenizer_of(record),
                special_tokens=special_tokens,
                prefix=record.take("prefix", str),
                **_normalizer_of(record),
            )

    def _state(self) -> dict:
        """What a file has to hold besides the arguments of ``PieceTokenizer``, as JSON values."""
        return {}

    @classmethod
    def _from_state(cls, record: Record, **arguments) -> "PieceTokenizer":
        """Build a tokenizer from the arguments of the class and the fields that ``_state`` wrote into the file."""
        return cls(**arguments)


class _PieceCache(dict[str, Sequence[int]]):
    """The ids of recent pieces: at most ``MAX_SIZE``, and no long ones, which seldom occur again."""

    MAX_SIZE = 1 << 16
    MAX_PIECE_LENGTH = 64

    def __init__(self, compute: Callable[[str], Sequence[int]]):
        self.compute = compute

    def __missing__(self, piece: str) -> Sequence[int]:
        ids = self.compute(piece)
        if len(piece) <= self.MAX_PIECE_LENGTH:
            if len(self) >= self.MAX_SIZE:
                self.clear()
            self[piece] = ids
        return ids

    def __reduce__(self) -> tuple:  # copies, also those for other processes, start empty
        return type(self), (self.compute,)


def _blocks(chunks: Iterable[str]) -> Iterator[str]:
    """The same text in blocks of at most ``BLOCK`` characters. No block is empty."""
    for chunk in chunks:
        for start in range(0, len(chunk), BLOCK):
            yield chunk[start : start + BLOCK]


def _check_errors(errors: str) -> None:
    if errors not in ("replace", "strict", "ignore", "surrogatepass"):
        raise ValueError(f"{errors=} must be 'replace', 'strict', 'ignore' or 'surrogatepass'")


# --- Files ---


def _readable(token: bytes) -> str | list[int]:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return list(token)


def _token_bytes(record: Record, i: int, token: Any) -> bytes:
    """The bytes of entry ``i`` of the vocabulary: it is a string, or a list of numbers if the bytes are not UTF-8."""
    try:
        return token.encode() if isinstance(token, str) else bytes(token)
    except (ValueError, TypeError):
        record.refuse("vocabulary", f"entry {i} is {token!r:.40}, which is neither text nor a list of bytes")


def _pre_tokenizer_fields(pre_tokenizer: PreTokenizer) -> dict:
    return (
        {}
        if type(pre_tokenizer) is not PreTokenizer
        else {"pattern": pre_tokenizer.pattern, "look_ahead": pre_tokenizer.look_ahead}
    )


def _pre_tokenizer_of(record: Record) -> PreTokenizer:
    fields = dict(record.take("pre_tokenizer", dict))
    kind = {"PreTokenizer": PreTokenizer, "NoSplit": NoSplit, "AnySplit": AnySplit}.get(fields.pop("kind", None))
    if kind is None:
        record.refuse("pre_tokenizer", "its kind must be PreTokenizer, NoSplit or AnySplit")
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        record.refuse("pre_tokenizer", str(error))


def _normalizer_fields(normalizer: Normalizer | None) -> dict | None:
    if normalizer is None:
        return None
    names = ("collapsed", "stripped", "protected")
    rules = base64.b64encode(normalizer.precompiled).decode()
    return {"precompiled": rules} | {name: getattr(normalizer, name) for name in names}


def _normalizer_of(record: Record) -> dict[str, Normalizer]:
    """The normalizer of a file as a keyword argument; no argument if the file has none."""
    if record.fields.get("normalizer") is None:
        return {}
    fields = dict(record.take("normalizer", dict))
    try:
        "".join([fields["collapsed"], fields["stripped"], *fields["protected"]])
        return {"normalizer": Normalizer(base64.b64decode(fields.pop("precompiled"), validate=True), **fields)}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        record.refuse("normalizer", f"it does not describe a normalizer: {error}")


def _json_lines(fields: dict) -> str:
    """JSON with one line for each key, and one line for each entry of a list."""
    lines = []
    for key, value in fields.items():
        if isinstance(value, list):
            text = "[\n" + ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in value) + "\n ]"
        else:
            text = json.dumps(value, ensure_ascii=False)
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
