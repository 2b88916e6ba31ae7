r"""Readers for the files of GPT-2, tiktoken and SentencePiece, without their libraries.

For ordinary text, each tokenizer that is read here gives the same ids as the library of the file. A file that is
damaged, inconsistent, or uses an unsupported feature is refused with the line or key at fault. Tokens that a library
adds around a text, such as a beginning-of-sequence token, are left to the caller.
``llm_anatomy.tokenizers.hugging_face`` reads ``tokenizer.json``.
"""

import base64
import binascii
import os
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import AnyStr

from llm_anatomy.files import Record
from llm_anatomy.tokenizers.base import BYTE_NAMES, SPACE, Tokenizer, as_bytes, check_texts
from llm_anatomy.tokenizers.bpe import BPE, GPT2_BYTES, CharacterBPE
from llm_anatomy.tokenizers.normalization import Normalizer
from llm_anatomy.tokenizers.pretokenization import GPT2, GPT4, NoSplit, PreTokenizer
from llm_anatomy.tokenizers.unigram import METASPACE, Unigram

UNK_SURFACE = " ⁇ "
"""What SentencePiece decodes the unknown token as, unless the model says otherwise."""

WORDS_WITH_SPACES = PreTokenizer(r" *[^ ]+| +", look_ahead=0)
"""Each word with all the spaces before it."""

# GPT-2 writes each byte as a visible character: as its Latin-1 character if that is visible, else from U+0100 on.
_VISIBLE = {byte: chr(byte if i < 188 else 256 + i - 188) for i, byte in enumerate(GPT2_BYTES)}
_BYTE_OF = {visible: byte for byte, visible in _VISIBLE.items()}


def gpt2_bytes(visible: str) -> bytes:
    r"""Decode a token of GPT-2's files, which write each byte as a visible character.

    Args:
        visible: the token as it is written there, with Ġ for a space.

    Raises:
        ValueError: if a character does not represent a byte.

    Source: the code of Radford et al. (2019); GT-40.

    >>> gpt2_bytes("Ġthe")
    b' the'
    """
    try:
        return bytes(map(_BYTE_OF.__getitem__, visible))
    except KeyError as error:
        raise ValueError(f"{visible!r} contains {error}, which does not represent a byte") from None


def gpt2_visible(token: bytes) -> str:
    r"""Write a token as GPT-2's files do, with a visible character for each byte: the inverse of :func:`gpt2_bytes`.

    Args:
        token: its bytes.

    Source: the code of Radford et al. (2019); GT-40.

    >>> gpt2_visible(b" the")
    'Ġthe'
    """
    return "".join(map(_VISIBLE.__getitem__, token))


def read_gpt2(
    vocab: str | os.PathLike, merges: str | os.PathLike, special_tokens: Collection[str] = ("<|endoftext|>",)
) -> BPE:
    """Read GPT-2's tokenizer from its two files.

    Args:
        vocab: ``vocab.json``, with the id of each token.
        merges: ``merges.txt``, with one pair on each line after a first line that begins with ``#version``.
        special_tokens: the entries of the vocabulary that are special tokens, which no merge forms.

    Raises:
        ValueError: if a file is malformed or truncated, or the two files do not belong together.

    Source: Radford et al. (2019), section 2.2; GT-40, GT-41 (40,000 merges make GPT's 40,478: erratum E-47).

    >>> read_gpt2("no such file", "merges.txt")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    ids, pairs = read_vocabulary_and_merges(vocab, merges, special_tokens)
    vocabulary = [as_bytes(text) if text in special_tokens else gpt2_bytes(text) for text in ids]
    ranks = {(ids[left], ids[right]): rank for rank, (left, right) in enumerate(pairs)}
    with Record(Path(vocab).name, {}).name_in_errors("the tokenizer"):
        return BPE(vocabulary, ranks, GPT2, {text: ids[text] for text in special_tokens})


def read_vocabulary_and_merges(
    vocab: str | os.PathLike, merges: str | os.PathLike, special_tokens: Collection[str] = ()
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Read the two files of GPT-2's layout, in which many models have their tokenizers.

    Args:
        vocab, merges: as in :func:`read_gpt2`.
        special_tokens: the entries of the vocabulary that no merge forms.

    Returns:
        The id of each token, in the order of the ids, and the pairs in the order in which they are merged.

    Raises:
        ValueError: as :func:`read_gpt2` does.

    Source: Radford et al. (2019), section 2.2; GT-40, GT-41.

    >>> read_vocabulary_and_merges("no such file", "merges.txt")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    record = Record.read(vocab)
    for text in special_tokens:
        record.take(text, int)
    ids = {text: i for i, text in enumerate(_by_id(record, record.fields))}
    with record.name_in_errors("the vocabulary"):
        for text in ids.keys() - set(special_tokens):
            gpt2_bytes(text)
    name, pairs, number = Path(merges).name, {}, 0
    for number, line in enumerate(_lines(merges), start=1):
        if number == 1 and line.startswith("#version") or not line:
            continue
        parts = line.split(" ")
        if len(parts) != 2:
            raise ValueError(
                f"{name}, line {number}: the line must be two tokens with a space between them, not {line!r:.60}"
            )
        for token in [*parts, "".join(parts)]:
            if token not in ids:
                raise ValueError(f"{name}, line {number}: {token!r:.60} is not in {record.name}")
        if tuple(parts) in pairs:
            raise ValueError(f"{name}, line {number}: the pair {line!r:.60} occurs twice")
        pairs[tuple(parts)] = None
    made = {left + right for left, right in pairs}
    for token in ids:
        if len(token) > 1 and token not in made and token not in special_tokens:
            raise ValueError(f"{name}, line {number}: the file ends, but no line forms {token!r} of {record.name}")
    return ids, list(pairs)


def read_tiktoken(
    path: str | os.PathLike,
    pre_tokenizer: PreTokenizer = GPT4,
    special_tokens: Mapping[str, int] | None = None,
    **options,
) -> BPE:
    r"""Read a tokenizer from a file of ranks, as tiktoken has: two neighbours can be merged if their bytes are a token.

    Args:
        path: the file, with a token in base 64 and its rank, which is its id, on each line.
        pre_tokenizer: the file does not contain it; ``GPT4`` is that of cl100k.
        special_tokens: the file does not contain these either. Ids between the ranks and the special tokens are unused.
        options: further arguments of ``BPE``, such as ``backend="tiktoken"``.

    Raises:
        ValueError: if the file is malformed or truncated; the message names the line.

    Source: OpenAI's tiktoken; UCL-09, GT-41 (cl100k has 100,256 ranks and special tokens up to id 100,276: E-51).

    >>> read_tiktoken("no such file")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    name, id_of = Path(path).name, {}
    for number, line in enumerate(_lines(path), start=1):
        try:
            encoded, rank = line.split(" ")
            token, rank = base64.b64decode(encoded, validate=True), int(rank)
        except (ValueError, binascii.Error):
            raise ValueError(f"{name}, line {number}: the line must be base 64 and a rank, not {line!r:.60}") from None
        if rank != len(id_of):
            raise ValueError(f"{name}, line {number}: the rank must be {len(id_of)}, not {rank}")
        if not token or token in id_of:
            raise ValueError(f"{name}, line {number}: the token {token!r} is empty or occurs twice")
        id_of[token] = rank
    special_tokens = dict(special_tokens or {})
    vocabulary = list(id_of) + [b""] * (max(special_tokens.values(), default=-1) + 1 - len(id_of))
    for text, i in special_tokens.items():
        if not len(id_of) <= i:
            raise ValueError(
                f"special_tokens[{text!r}]={i} must be at least {len(id_of)}, the number of ranks in {name}"
            )
        vocabulary[i] = as_bytes(text)
    try:
        return BPE(vocabulary, _all_splits(id_of, id_of), pre_tokenizer, special_tokens, ignore_merges=True, **options)
    except ValueError as error:
        raise ValueError(f"{name} does not fit together: {error}") from None


def read_sentencepiece(path: str | os.PathLike, special_tokens: Iterable[str] = ()) -> Tokenizer:
    """Read a tokenizer from SentencePiece's ``.model`` without its library: Unigram, or BPE with byte fallback.

    Args:
        path: the file, which is a protocol buffer: nested fields, each with a number, a wire type and a value.
        special_tokens: pieces of the model that are special tokens besides its control tokens; others are added after
            the model's own pieces, such as T5's ``<extra_id_99>`` to ``<extra_id_0>``.

    Raises:
        ValueError: if the file is truncated or malformed, with the offset of the byte; if the model uses an unsupported
            feature, with the key.

    Source: Kudo and Richardson (2018), and their sentencepiece_model.proto; GT-40, GT-42; E-88.

    >>> read_sentencepiece("no such file")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    name = Path(path).name
    pieces: list[tuple[str, float, int]] = []
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    for number, value, start in _protobuf_fields(Path(path).read_bytes(), name):
        if number == 1:
            entry = _protobuf_message(value, name, start)
            text, score, kind = entry.get(1), entry.get(2, bytes(4)), entry.get(3, 1)
            try:
                if not (isinstance(text, bytes) and isinstance(score, bytes) and isinstance(kind, int)):
                    raise TypeError
                pieces.append((text.decode(), struct.unpack("<f", score)[0], kind))
            except (TypeError, UnicodeDecodeError, struct.error):
                raise ValueError(f"{name}, byte {start}: piece {len(pieces)} is malformed") from None
        elif number in (2, 3):
            (trainer if number == 2 else normalizer).update(_protobuf_message(value, name, start))
    if not pieces or not trainer or not normalizer:
        raise ValueError(f"{name}: the file must contain pieces, trainer_spec and normalizer_spec")
    special_tokens = list(check_texts(special_tokens))
    unk_token = next((text for text, _, kind in pieces if kind == 2), None)
    pieces = [(t, score, 3 if t in special_tokens and kind != 2 else kind) for t, score, kind in pieces]
    known = {text for text, _, _ in pieces}
    pieces += [(text, 0.0, 3) for text in special_tokens if text not in known]
    record = Record(name, {})
    if not normalizer.get(5, 1):
        record.refuse("normalizer_spec.escape_whitespaces", "it must be true; false is not supported")
    if trainer.get(24):
        record.refuse("trainer_spec.treat_whitespace_as_suffix", "it must be false; true is not supported")
    for i, (text, _, kind) in enumerate(pieces):
        if kind not in ((1, 2, 3, 4, 5, 6) if trainer.get(3, 1) == 1 else (1, 2, 3, 5, 6)):
            record.refuse("pieces", f"piece {i}, {text!r}, has type {kind}, which is supported only with Unigram")
    user_defined = [i for i, (_, _, kind) in enumerate(pieces) if kind == 4]
    prefix, blanks = (" " if normalizer.get(number, 1) else "" for number in (3, 4))
    rules = normalizer.get(2, b"")
    if not isinstance(rules, bytes):
        record.refuse("normalizer_spec.precompiled_charsmap", f"it must be bytes, not {rules}")
    with record.name_in_errors("the normalizer"):
        changes = Normalizer(
            rules, collapsed=blanks, stripped=blanks, protected=tuple(pieces[i][0] for i in user_defined)
        )
    with record.name_in_errors("the tokenizer"):
        if trainer.get(3, 1) == 1:
            unk_surface = trainer.get(44, UNK_SURFACE.encode())
            if not isinstance(unk_surface, bytes):
                record.refuse("trainer_spec.unk_surface", f"it must be text, not {unk_surface}")
            is_special = unk_token in special_tokens  # then it is written as any other special token
            controls = [text for text, _, kind in pieces if kind == 3 or kind == 2 and is_special]
            scored = [(text, score) for text, score, _ in pieces]
            across = any(SPACE in text[1:] for text, _, kind in pieces if kind in (1, 4))
            return Unigram.from_pieces(
                scored,
                unk_token,
                special_tokens=controls,
                pre_tokenizer=NoSplit() if across else METASPACE,
                prefix=prefix,
                normalizer=changes,
                user_defined=user_defined,
                unk_surface=None if is_special else unk_surface.decode(errors="replace"),
            )
        if trainer[3] != 2:
            record.refuse("trainer_spec.model_type", f"it must be 1 (Unigram) or 2 (BPE), not {trainer[3]}")
        if unk_token in special_tokens:
            pieces = [(text, score, 3 if kind == 2 else kind) for text, score, kind in pieces]
        return _sentencepiece_bpe(record, pieces, prefix, changes)


def _sentencepiece_bpe(
    record: Record, pieces: list[tuple[str, float, int]], prefix: str, normalizer: Normalizer
) -> CharacterBPE:
    byte_of = {name: byte for byte, name in enumerate(BYTE_NAMES)}
    byte_ids = {byte_of[text]: i for i, (text, _, kind) in enumerate(pieces) if kind == 6 and text in byte_of}
    if len(byte_ids) < 256:
        record.refuse("trainer_spec.byte_fallback", "it must be true with BPE, or unknown characters would be lost")
    special_ids = {text: i for i, (text, _, kind) in enumerate(pieces) if kind == 3}
    id_of = {text.replace(SPACE, " "): i for i, (text, _, kind) in enumerate(pieces) if kind == 1}
    by_score = sorted(id_of, key=lambda text: -pieces[id_of[text]][1])
    written = {2: lambda _: as_bytes(UNK_SURFACE), 3: as_bytes}
    vocabulary = [written.get(kind, lambda text: _spaced_bytes(text, byte_of))(text) for text, _, kind in pieces]
    merges = _all_splits(id_of, {text: rank for rank, text in enumerate(by_score)})
    pre_tokenizer = _pre_tokenizer_for(map(as_bytes, id_of))
    ids = [byte_ids[byte] for byte in range(256)]
    return CharacterBPE(vocabulary, merges, pre_tokenizer, special_ids, prefix, normalizer, byte_ids=ids)


# --- What the readers share ---


def _lines(path: str | os.PathLike) -> list[str]:
    data = Path(path).read_bytes()
    try:
        return data.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"{Path(path).name}, line {line}: not UTF-8 ({error.reason})") from None


def _by_id(record: Record, vocab: Mapping[str, int]) -> list[str]:
    """The tokens in the order of their ids, which must be 0, 1, 2, …"""
    for text, i in vocab.items():
        if type(i) is not int or not 0 <= i < len(vocab):
            record.refuse(text, f"id {i!r} must be from 0 to {len(vocab) - 1}, one for each of {len(vocab)} tokens")
    texts = sorted(vocab, key=vocab.__getitem__)
    for i, text in enumerate(texts):
        if vocab[text] != i:
            record.refuse(text, f"its id {vocab[text]} is also that of {texts[i - 1]!r}")
    return texts


def _all_splits(id_of: Mapping[AnyStr, int], ranks: Mapping[AnyStr, int]) -> dict[tuple[int, int], int]:
    """All pairs of tokens that form a token, with its rank: tiktoken and SentencePiece rank a merge by its result."""
    return {
        (id_of[token[:cut]], id_of[token[cut:]]): ranks[token]
        for token in id_of
        for cut in range(1, len(token))
        if token[:cut] in id_of and token[cut:] in id_of
    }


def _spaced_bytes(text: str, byte_of: Mapping[str, int]) -> bytes:
    return bytes([byte_of[text]]) if text in byte_of else as_bytes(text.replace(SPACE, " "))


def _pre_tokenizer_for(vocabulary: Iterable[bytes]) -> PreTokenizer:
    """A pre-tokenizer for SentencePiece's BPE, which has none.

    If no token has a space after another character, no merge crosses such a position. Then a cut there changes no ids
    and saves time.
    """
    return NoSplit() if any(b" " in token.lstrip(b" ") for token in vocabulary) else WORDS_WITH_SPACES


def _protobuf_message(value: bytes | int, name: str, start: int) -> dict[int, bytes | int]:
    """The fields of a message inside a protocol buffer: the value of each number."""
    if isinstance(value, int):
        raise ValueError(f"{name}, byte {start}: the field must be a message, not a number")
    return {number: value for number, value, _ in _protobuf_fields(value, name, start)}


def _protobuf_fields(data: bytes, name: str, start: int = 0) -> Iterator[tuple[int, bytes | int, int]]:
    """The fields of a protocol buffer: number, value, and the offset in the file at which the value begins."""

    def varint(offset: int) -> tuple[int, int]:
        value, shift = 0, 0
        while True:
            value |= (data[offset] & 0x7F) << shift
            if data[offset] < 0x80:
                return value, offset + 1
            offset, shift = offset + 1, shift + 7

    offset = 0
    while offset < len(data):
        try:
            key, value_at = varint(offset)
            wire = key & 7
            if wire == 0:
                value, end = varint(value_at)
            else:
                size, value_at = varint(value_at) if wire == 2 else ({1: 8, 5: 4}[wire], value_at)
                value, end = data[value_at : value_at + size], value_at + size
        except (IndexError, KeyError):
            raise ValueError(f"{name}, byte {start + offset}: the field is malformed or truncated") from None
        if end > len(data):
            raise ValueError(f"{name}, byte {start + offset}: the file ends within a field")
        yield key >> 3, value, start + value_at
        offset = end
