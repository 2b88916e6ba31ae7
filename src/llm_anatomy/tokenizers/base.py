r"""What all tokenizers share: special tokens, decoding, text in chunks, files.

A tokenizer is a list of byte strings, the vocabulary; an id is an index into it. A subclass says how an ordinary piece
of text becomes ids (``_ids``) and what else has to be kept in a file (``_state``, ``_from_state``).

Lone surrogates are no characters and have no UTF-8. Python's strings may hold them all the same, so they are encoded
as the three bytes that the scheme would give, and come back with ``decode(ids, errors="surrogatepass")``; decoded
otherwise, they are invalid UTF-8 like any other.
"""

import base64
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal

import regex

from llm_anatomy.files import Record, write_atomically
from llm_anatomy.tokenizers.normalization import Normalizer
from llm_anatomy.tokenizers.pretokenization import BLOCK, AnySplit, NoSplit, PreTokenizer

VERSION = 1


def as_bytes(text: str) -> bytes:
    """The UTF-8 of a text, with lone surrogates as three bytes each.

    Args:
        text: any string.

    Source: RFC 3629, section 3; UCL-05.

    >>> [len(as_bytes(c)) for c in "aé€🙂"]
    [1, 2, 3, 4]
    """
    return text.encode("utf-8", "surrogatepass")


def check_texts(texts: Iterable[str]) -> Iterable[str]:
    """The texts, unless somebody gave one string, whose characters would pass for texts.

    Args:
        texts: any iterable of strings that is not itself a string.

    Raises:
        ValueError: for a string.

    Source: UCL-04.

    >>> list(check_texts(["one", "two"]))
    ['one', 'two']
    """
    if isinstance(texts, str):
        raise ValueError(f"texts is one string, {texts!r:.40}; put it into a list")
    return texts


def append_special_tokens(
    vocabulary: Iterable[bytes], special_tokens: Iterable[str]
) -> tuple[list[bytes], dict[str, int]]:
    """The vocabulary with the special tokens behind it, and their ids.

    Args:
        vocabulary: the ordinary tokens.
        special_tokens: texts, each once.

    Raises:
        ValueError: for a special token that comes twice, or one string instead of several.

    Source: Radford et al. (2019), whose end of text follows the merges; GT-41.

    >>> append_special_tokens([b"a", b"b"], ["<|end|>"])
    ([b'a', b'b', b'<|end|>'], {'<|end|>': 2})
    """
    vocabulary, special_tokens = list(vocabulary), list(check_texts(special_tokens))
    ids = {text: len(vocabulary) + i for i, text in enumerate(special_tokens)}
    if len(ids) < len(special_tokens):
        raise ValueError(f"{special_tokens=} must each come once")
    return vocabulary + [as_bytes(text) for text in special_tokens], ids


class Tokenizer(ABC):
    r"""Text to ids and back. :math:`\mathrm{decode}(\mathrm{encode}(x)) = x` unless an unknown token stands in,
    or a normalizer has changed the text before it was split.

    Args:
        vocabulary: the bytes that each id stands for.
        pre_tokenizer: cuts ordinary text into the pieces that are encoded one by one.
        special_tokens: text of each special token and its id; the vocabulary holds its UTF-8 there. They are found
            before anything is split, the longest first.
        prefix: put before every text that is not empty and taken off again, as SentencePiece does with a space.
        normalizer: changes ordinary text first; the prefix is then put before each part between special tokens.

    Raises:
        ValueError: for an empty vocabulary, or a special token that it does not hold at that id.

    Source: UCL-04, GT-40.

    >>> from llm_anatomy.tokenizers.simple import ByteTokenizer
    >>> tokenizer = ByteTokenizer(special_tokens=["<|end|>"])
    >>> tokenizer.encode("hé<|end|>", allowed_special="all")
    [104, 195, 169, 256]
    """

    _kinds: dict[str, type["Tokenizer"]] = {}

    def __init_subclass__(cls):
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
            raise ValueError("vocabulary is empty; at least one token is needed")
        for text, i in self._special_tokens.items():
            if not text or not 0 <= i < len(vocabulary) or vocabulary[i] != as_bytes(text):
                raise ValueError(f"special_tokens[{text!r}]={i}, but the vocabulary does not hold that text there")
        longest_first = sorted(self._special_tokens, key=len, reverse=True)
        self._special = regex.compile("|".join(map(regex.escape, longest_first)))
        self._cache = _PieceCache(self._ids)

    @abstractmethod
    def _ids(self, piece: str) -> Sequence[int]:
        """The ids of one piece of ordinary text. What it returns may be remembered, so nobody changes it."""

    @property
    def n_vocab(self) -> int:
        """How many ids there are, special tokens included."""
        return len(self._vocabulary)

    @property
    def vocabulary(self) -> list[bytes]:
        """The bytes that each id stands for (a copy)."""
        return list(self._vocabulary)

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens and their ids (a copy)."""
        return dict(self._special_tokens)

    # --- Text to ids ---

    def encode(self, text: str, *, allowed_special: Collection[str] | Literal["all"] = ()) -> list[int]:
        """The ids of a text.

        Args:
            text: any string.
            allowed_special: the special tokens that may be written in the text, or "all". Nobody should be able to
                end a document, or to speak as the system, by typing it.

        Raises:
            ValueError: if the text holds a special token that is not allowed.
        """
        allowed = self._allowed(allowed_special)
        return self._encode(text if self.normalizer else self._prepared(text), allowed)

    def encode_batch(
        self, texts: Iterable[str], *, allowed_special: Collection[str] | Literal["all"] = ()
    ) -> list[list[int]]:
        """The ids of each text."""
        return [self.encode(text, allowed_special=allowed_special) for text in check_texts(texts)]

    def encode_iterable(
        self, chunks: Iterable[str], *, allowed_special: Collection[str] | Literal["all"] = ()
    ) -> Iterator[int]:
        """The ids of a text that comes in chunks, one by one: the same as ``encode("".join(chunks))`` would give.

        Only the text whose pieces may still change is kept in memory (see ``PreTokenizer.stable_pieces``): at most the
        longest piece and a block. With a normalizer, or a pre-tokenizer without stable pieces (``NoSplit``, or a
        pattern whose ``look_ahead`` is not known), that is the whole text.
        """
        return self._stream(check_texts(chunks), self._allowed(allowed_special))

    def _stream(self, chunks: Iterable[str], allowed: Collection[str]) -> Iterator[int]:
        if self.normalizer:
            yield from self._encode("".join(chunks), allowed)
            return
        waiting, enough = "", BLOCK
        for block in _blocks(chunks, self.prefix):
            waiting += block
            if len(waiting) >= enough:
                ids, waiting = self._encode_stable(waiting, allowed)
                yield from ids
                enough = max(BLOCK, 2 * len(waiting))  # doubled, so that one long piece is not split again and again
        yield from self._encode(waiting, allowed)

    def _prepared(self, text: str) -> str:
        """A text as it is split: normalized, after the prefix."""
        if self.normalizer:
            return self.normalizer(text, self.prefix)
        return self.prefix + text if text else ""

    def _encode(self, text: str, allowed: Collection[str]) -> list[int]:
        prepared = self._prepared if self.normalizer else str
        if not self._special_tokens:
            return self._encode_ordinary(prepared(text))
        ids, start = [], 0
        for found in self._special.finditer(text):
            ids += self._encode_ordinary(prepared(text[start : found.start()]))
            ids.append(self._special_id(found[0], allowed))
            start = found.end()
        return ids + self._encode_ordinary(prepared(text[start:]))

    def _encode_ordinary(self, text: str) -> list[int]:
        ids = []
        for pieces in self.pre_tokenizer.iter_blocks(text):
            ids += chain.from_iterable(map(self._cache.__getitem__, pieces))
        return ids

    def _encode_stable(self, text: str, allowed: Collection[str]) -> tuple[list[int], str]:
        """The ids of what no further text can change, and the rest."""
        longest = max(map(len, self._special_tokens), default=1)
        ids, start = [], 0
        for found in self._special.finditer(text) if self._special_tokens else ():
            if found.start() + longest > len(text):  # a longer special token may begin here
                break
            ids += self._encode_ordinary(text[start : found.start()])
            ids.append(self._special_id(found[0], allowed))
            start = found.end()
        end = max(start, len(text) - longest + 1)  # from here on, a special token may have begun
        pieces, rest = self.pre_tokenizer.stable_pieces(text[start:end])
        ids += chain.from_iterable(map(self._cache.__getitem__, pieces))
        return ids, rest + text[end:]

    def _allowed(self, allowed_special: Collection[str] | Literal["all"]) -> Collection[str]:
        if allowed_special == "all":
            return self._special_tokens
        unknown = sorted(set(allowed_special) - set(self._special_tokens))
        if isinstance(allowed_special, str) or unknown:
            raise ValueError(
                f"allowed_special={allowed_special!r} must be 'all' or some of {sorted(self._special_tokens)}"
            )
        return allowed_special

    def _special_id(self, text: str, allowed: Collection[str]) -> int:
        if text not in allowed:
            raise ValueError(
                f"the text holds the special token {text!r}; name it in allowed_special if that is meant, "
                "or take it out of the text"
            )
        return self._special_tokens[text]

    # --- Ids to text ---

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of the ids, one after the other, without the prefix.

        Raises:
            ValueError: for an id that is none.
        """
        ids = list(ids)
        if ids and not (min(ids) >= 0 and max(ids) < self.n_vocab):
            wrong = next(i for i in ids if not 0 <= i < self.n_vocab)
            raise ValueError(f"id {wrong} is not in the vocabulary, 0 to {self.n_vocab - 1}")
        joined = b"".join(map(self._vocabulary.__getitem__, ids))
        if self.normalizer and self.normalizer.joined:  # it leaves no text that begins with a space
            return joined.lstrip(b" ")
        return joined.removeprefix(as_bytes(self.prefix))

    def decode(self, ids: Iterable[int], *, errors: str = "replace") -> str:
        """The text of the ids.

        Args:
            ids: from this vocabulary.
            errors: what becomes of bytes that are no UTF-8, as in ``bytes.decode``: "replace" (by U+FFFD), "strict"
                (raises UnicodeDecodeError), "ignore", or "surrogatepass" (strict, but lone surrogates come back).
        """
        if errors not in ("replace", "strict", "ignore", "surrogatepass"):
            raise ValueError(f"{errors=} must be 'replace', 'strict', 'ignore' or 'surrogatepass'")
        return self.decode_bytes(ids).decode("utf-8", errors)

    # --- Files ---

    def save(self, path: str | os.PathLike) -> None:
        """Write one readable JSON file. An old file stays whole until the new one is complete."""
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

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Tokenizer":
        """The tokenizer of a file. ``Tokenizer.load`` takes any kind whose module has been imported.

        Raises:
            ValueError: for a file that is malformed or does not fit together, with its name and the line or key.
        """
        record = Record.read(path)
        if record.take("llm_anatomy tokenizer", int) != VERSION:
            record.refuse("llm_anatomy tokenizer", f"version {VERSION} is read here")
        kind = Tokenizer._kinds.get(record.take("kind", str))
        if kind is None or not issubclass(kind, cls):
            known = sorted(name for name, k in Tokenizer._kinds.items() if issubclass(k, cls))
            record.refuse("kind", f"{record.fields['kind']!r} is none of {', '.join(known)}")
        vocabulary = [_token_bytes(record, i, t) for i, t in enumerate(record.take("vocabulary", list))]
        special_tokens = record.take("special_tokens", dict)
        for text, i in special_tokens.items():
            if type(i) is not int:
                record.refuse("special_tokens", f"{text!r} has {i!r:.40}, which is not an id")
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
        """What a file has to hold besides the vocabulary, ready for JSON."""
        return {}

    @classmethod
    def _from_state(cls, record: Record, **arguments) -> "Tokenizer":
        """A tokenizer from ``arguments`` (those of ``Tokenizer``) and what ``_state`` had put into the record."""
        return cls(**arguments)


class _PieceCache(dict):
    """The ids of pieces already seen. Long pieces, which seldom come again, and more than ``LIMIT`` are not kept."""

    LIMIT = 1 << 16
    LONGEST = 64

    def __init__(self, compute: Callable[[str], Sequence[int]]):
        self.compute = compute

    def __missing__(self, piece: str) -> Sequence[int]:
        ids = self.compute(piece)
        if len(piece) <= self.LONGEST:
            if len(self) >= self.LIMIT:
                self.clear()
            self[piece] = ids
        return ids

    def __reduce__(self):  # copies and other processes start with an empty memory
        return type(self), (self.compute,)


def _blocks(chunks: Iterable[str], prefix: str) -> Iterator[str]:
    """The same text, with the prefix, in chunks of about ``BLOCK`` characters, none of them empty."""
    for chunk in chunks:
        for start in range(0, len(chunk), BLOCK):
            yield prefix + chunk[start : start + BLOCK]
            prefix = ""


# --- Files ---


def _readable(token: bytes) -> str | list[int]:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return list(token)


def _token_bytes(record: Record, i: int, token: object) -> bytes:
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
        record.refuse("pre_tokenizer", "its kind must be PreTokenizer, Whole or Anywhere")
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        record.refuse("pre_tokenizer", str(error))


def _normalizer_fields(normalizer: Normalizer | None) -> dict | None:
    if normalizer is None:
        return None
    names = ("joined", "stripped", "kept")
    rules = base64.b64encode(normalizer.precompiled).decode()
    return {"precompiled": rules} | {name: getattr(normalizer, name) for name in names}


def _normalizer_of(record: Record) -> dict[str, Normalizer]:
    """The normalizer as an argument, where the file has one."""
    if record.fields.get("normalizer") is None:
        return {}
    fields = dict(record.take("normalizer", dict))
    try:
        "".join([fields["joined"], fields["stripped"], *fields["kept"]])
        return {"normalizer": Normalizer(base64.b64decode(fields.pop("precompiled"), validate=True), **fields)}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        record.refuse("normalizer", f"it does not describe one: {error}")


def _json_lines(fields: dict) -> str:
    """JSON with one line for each key, and one for each entry of a list."""
    lines = []
    for key, value in fields.items():
        if isinstance(value, list):
            text = "[\n" + ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in value) + "\n ]"
        else:
            text = json.dumps(value, ensure_ascii=False)
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
