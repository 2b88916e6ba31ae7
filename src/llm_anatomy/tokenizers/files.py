r"""Readers for the files of other libraries: GPT-2, tiktoken, Hugging Face tokenizers and SentencePiece.

For ordinary text, each tokenizer that is read here gives the same ids as the library of the file. A file that is
damaged, inconsistent, or uses an unsupported feature is refused with the line or key at fault. Tokens that a library
adds around a text, such as a beginning-of-sequence token, are left to the caller.
"""

import base64
import binascii
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import AnyStr

from llm_anatomy.files import Record
from llm_anatomy.tokenizers.base import Tokenizer, as_bytes, check_texts
from llm_anatomy.tokenizers.bpe import BPE, GPT2_BYTES, CharacterBPE
from llm_anatomy.tokenizers.normalization import WHITE_SPACE, Normalizer
from llm_anatomy.tokenizers.pretokenization import GPT2, GPT4, LLAMA3, NoSplit, PreTokenizer
from llm_anatomy.tokenizers.unigram import METASPACE, Unigram

SPACE = "▁"
"""How SentencePiece writes a space (U+2581)."""

WORDS_WITH_SPACES = PreTokenizer(r" *[^ ]+| +", look_ahead=0)
"""Each word with all the spaces before it."""

# GPT-2 writes each byte as a visible character: as its Latin-1 character if that is visible, else from U+0100 on.
_BYTE_OF = {chr(byte if i < 188 else 256 + i - 188): byte for i, byte in enumerate(GPT2_BYTES)}


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


def read_gpt2(
    vocab: str | os.PathLike, merges: str | os.PathLike, special_tokens: Iterable[str] = ("<|endoftext|>",)
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
    record = Record.read(vocab)
    special_ids = {text: record.take(text, int) for text in special_tokens}
    texts = _by_id(record, record.fields)
    with record.name_in_errors("the vocabulary"):
        vocabulary = [as_bytes(text) if text in special_ids else gpt2_bytes(text) for text in texts]
    name, pairs = Path(merges).name, {}
    for number, line in enumerate(_lines(merges), start=1):
        if number == 1 and line.startswith("#version") or not line:
            continue
        parts = line.split(" ")
        if len(parts) != 2:
            raise ValueError(
                f"{name}, line {number}: the line must be two tokens with a space between them, not {line!r:.60}"
            )
        for token in [*parts, "".join(parts)]:
            if token not in record.fields:
                raise ValueError(f"{name}, line {number}: {token!r:.60} is not in {record.name}")
        pair = tuple(record.fields[part] for part in parts)
        if pair in pairs:
            raise ValueError(f"{name}, line {number}: the pair {line!r:.60} occurs twice")
        pairs[pair] = len(pairs)
    made = {vocabulary[left] + vocabulary[right] for left, right in pairs}
    for i, token in enumerate(vocabulary):
        if len(token) > 1 and token not in made and texts[i] not in special_ids:
            raise ValueError(f"{name}, line {number}: the file ends, but no line forms {texts[i]!r} of {record.name}")
    with record.name_in_errors("the tokenizer"):
        return BPE(vocabulary, pairs, GPT2, special_ids)


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


def read_hugging_face(path: str | os.PathLike) -> Tokenizer:
    """Read a tokenizer from ``tokenizer.json``: byte-level BPE, BPE with byte fallback, or Unigram.

    Args:
        path: the file. Its post-processor, which adds tokens around a text, is ignored.

    Raises:
        ValueError: if the file is malformed or uses an unsupported feature; the message names the key.

    Source: Hugging Face tokenizers; GT-40, GT-42.

    >>> read_hugging_face("no such file")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    record = Record.read(path)
    model = Record(f"{record.name}, model", record.take("model", dict))
    special_ids = {}
    for i, token in enumerate(record.take("added_tokens", list)):
        entry = Record(f"{record.name}, added_tokens[{i}]", token if isinstance(token, dict) else {})
        if not entry.take("special", bool):
            entry.refuse("special", "added tokens that are not special are not supported")
        special_ids[entry.take("content", str)] = entry.take("id", int)
    kind = model.take("type", str)
    with record.name_in_errors("the tokenizer"):
        if kind == "Unigram":
            return _hugging_face_unigram(record, model, special_ids)
        if kind != "BPE":
            model.refuse("type", f"it must be BPE or Unigram, not {kind!r}")
        for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
            if model.fields.get(key):
                model.refuse(key, f"{model.fields[key]!r} is not supported")
        return _hugging_face_bpe(record, model, special_ids)


def _hugging_face_bpe(record: Record, model: Record, special_ids: Mapping[str, int]) -> BPE:
    vocab = model.take("vocab", dict)
    texts = _by_id(model, vocab, special_ids)
    pairs = {}
    for rank, entry in enumerate(model.take("merges", list)):
        parts = entry.split(" ") if isinstance(entry, str) else entry
        if not (isinstance(parts, list) and len(parts) == 2 and all(part in vocab for part in parts)):
            model.refuse("merges", f"entry {rank} must be two tokens of the vocabulary, not {entry!r:.60}")
        pairs[tuple(vocab[part] for part in parts)] = rank
    whole = bool(model.fields.get("ignore_merges"))
    if model.fields.get("byte_fallback"):
        byte_of = {f"<0x{byte:02X}>": byte for byte in range(256)}
        missing = next((text for text in byte_of if text not in vocab), None)
        if missing:
            model.refuse("vocab", f"the token {missing!r} is missing, but byte_fallback needs it")
        vocabulary = [as_bytes(text) if text in special_ids else _spaced_bytes(text, byte_of) for text in texts]
        return CharacterBPE(
            vocabulary,
            pairs,
            _pre_tokenizer_for(vocabulary),
            special_ids,
            _prefix(record),
            byte_ids=[vocab[text] for text in byte_of],
            ignore_merges=whole,
        )
    if record.fields.get("normalizer"):
        record.refuse("normalizer", f"byte-level BPE must have none, not {record.fields['normalizer']!r:.60}")
    vocabulary = [as_bytes(text) if text in special_ids else gpt2_bytes(text) for text in texts]
    return BPE(vocabulary, pairs, _byte_level_pre_tokenizer(record), special_ids, ignore_merges=whole)


def _hugging_face_unigram(record: Record, model: Record, special_ids: Mapping[str, int]) -> Unigram:
    pieces = model.take("vocab", list)
    for i, entry in enumerate(pieces):
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)):
            model.refuse("vocab", f"entry {i} must be a piece and its score, not {entry!r:.60}")
    for text, i in special_ids.items():
        if not 0 <= i < len(pieces) or pieces[i][0] != text:
            record.refuse("added_tokens", f"{text!r} has id {i}, which belongs to another piece")
    unk_id = model.fields.get("unk_id")
    if unk_id is not None and not (type(unk_id) is int and 0 <= unk_id < len(pieces)):
        model.refuse("unk_id", f"it must be an id or null, not {unk_id!r}")
    normalizer = _normalizer(record)
    return Unigram.from_pieces(
        [tuple(entry) for entry in pieces],
        None if unk_id is None else pieces[unk_id][0],
        special_tokens=[text for text, i in special_ids.items() if i != unk_id],
        prefix=" " if normalizer else _prefix(record),
        normalizer=normalizer,
    )


def _byte_level_pre_tokenizer(record: Record) -> PreTokenizer:
    """The pre-tokenizer that the field ``pre_tokenizer`` describes, for BPE on bytes."""
    step = record.take("pre_tokenizer", dict)
    steps = step.get("pretokenizers", [step])
    *before, last = steps if isinstance(steps, list) and steps else [{}]
    if last.get("type") != "ByteLevel" or last.get("add_prefix_space") or len(before) > 1:
        record.refuse("pre_tokenizer", "it must be ByteLevel without add_prefix_space, after at most one Split")
    if not before:
        return GPT2 if last.get("use_regex", True) else NoSplit()
    pattern = before[0].get("pattern")
    pattern = pattern.get("Regex") if isinstance(pattern, dict) else None
    isolated = before[0].get("type") == "Split" and before[0].get("behavior") == "Isolated"
    if not isolated or before[0].get("invert") or pattern is None or last.get("use_regex", True):
        record.refuse("pre_tokenizer", f"{before[0]!r:.80} must be a Split by a Regex with behavior Isolated")
    return LLAMA3 if pattern == LLAMA3.pattern else PreTokenizer(pattern)


def _prefix(record: Record) -> str:
    """The space that is added before a text, in either notation of transformers; empty if there is none."""
    normalizer, words = record.fields.get("normalizer"), record.fields.get("pre_tokenizer")
    steps = [] if normalizer is None else normalizer.get("normalizers", [normalizer])
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    prepend = {"type": "Prepend", "prepend": SPACE}
    if words is None and steps in ([replace], [prepend, replace]):
        return " " * (len(steps) - 1)
    if steps or not (
        isinstance(words, dict) and words.get("type") == "Metaspace" and words.get("replacement") == SPACE
    ):
        record.refuse("normalizer", "only spaces written as ▁ are supported, with or without one before the text")
    return "" if words.get("prepend_scheme") == "never" else " "


def _normalizer(record: Record) -> Normalizer | None:
    """SentencePiece's normalizer in the notations of transformers; None if white space stays as it is.

    White space is collapsed by WhitespaceSplit, or by a Replace after a Strip. Metaspace then adds a ▁ before the text.
    """
    first, words = record.fields.get("normalizer") or {}, record.fields.get("pre_tokenizer") or {}
    steps = first.get("normalizers", [first] if first else [])
    precompiled = b""
    if steps and steps[0].get("type") == "Precompiled":
        try:
            precompiled = base64.b64decode(steps[0].get("precompiled_charsmap") or "", validate=True)
        except (ValueError, TypeError):
            record.refuse("normalizer", "precompiled_charsmap must be base 64")
        steps = steps[1:]
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    to_space, to_bar = ({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": to} for to in (" ", SPACE))
    *before, last = words.get("pretokenizers") or [words]
    if before == [{"type": "WhitespaceSplit"}] and steps in ([], [to_space]):
        collapsed = WHITE_SPACE
    elif not before and steps in ([strip, to_space], [strip, to_bar]):
        collapsed = " "
    elif precompiled:
        record.refuse("normalizer", "after Precompiled, WhitespaceSplit or Strip and Replace must collapse white space")
    else:
        return None
    always = last.get("prepend_scheme", "always") == "always" and last.get("add_prefix_space", True)
    if last.get("type") != "Metaspace" or last.get("replacement") != SPACE or not always:
        record.refuse("pre_tokenizer", f"{last!r:.80} must be a Metaspace with prepend_scheme always")
    with record.name_in_errors("the normalizer"):
        return Normalizer(precompiled, collapsed=collapsed, stripped=WHITE_SPACE)


def read_sentencepiece(path: str | os.PathLike, special_tokens: Iterable[str] = ()) -> Tokenizer:
    """Read a tokenizer from SentencePiece's ``.model`` without its library: Unigram, or BPE with byte fallback.

    Args:
        path: the file, which is a protocol buffer: nested fields, each with a number, a wire type and a value.
        special_tokens: added after the model's own pieces, such as T5's ``<extra_id_99>`` to ``<extra_id_0>``.

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
    pieces += [(text, 0.0, 3) for text in check_texts(special_tokens)]
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
    changes = changes if rules or blanks else None
    with record.name_in_errors("the tokenizer"):
        if trainer.get(3, 1) == 1:
            unk_token = next((text for text, _, kind in pieces if kind == 2), None)
            controls = [text for text, _, kind in pieces if kind == 3]
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
            )
        if trainer[3] != 2:
            record.refuse("trainer_spec.model_type", f"it must be 1 (Unigram) or 2 (BPE), not {trainer[3]}")
        return _sentencepiece_bpe(record, pieces, prefix, changes)


def _sentencepiece_bpe(
    record: Record, pieces: list[tuple[str, float, int]], prefix: str, normalizer: Normalizer | None
) -> CharacterBPE:
    byte_of = {f"<0x{byte:02X}>": byte for byte in range(256)}
    byte_ids = {byte_of[text]: i for i, (text, _, kind) in enumerate(pieces) if kind == 6 and text in byte_of}
    if len(byte_ids) < 256:
        record.refuse("trainer_spec.byte_fallback", "it must be true with BPE, or unknown characters would be lost")
    special_ids = {text: i for i, (text, _, kind) in enumerate(pieces) if kind in (2, 3)}
    id_of = {text.replace(SPACE, " "): i for i, (text, _, kind) in enumerate(pieces) if kind == 1}
    by_score = sorted(id_of, key=lambda text: -pieces[id_of[text]][1])
    vocabulary = [as_bytes(text) if kind in (2, 3) else _spaced_bytes(text, byte_of) for text, _, kind in pieces]
    merges = _all_splits(id_of, {text: rank for rank, text in enumerate(by_score)})
    ids = [byte_ids[byte] for byte in range(256)]
    return CharacterBPE(
        vocabulary, merges, _pre_tokenizer_for(vocabulary), special_ids, prefix, normalizer, byte_ids=ids
    )


# --- What the readers share ---


def _lines(path: str | os.PathLike) -> list[str]:
    data = Path(path).read_bytes()
    try:
        return data.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"{Path(path).name}, line {line}: not UTF-8 ({error.reason})") from None


def _by_id(record: Record, vocab: Mapping[str, int], special_ids: Mapping[str, int] | None = None) -> list[str]:
    """The tokens in the order of their ids, which must be 0, 1, 2, …"""
    every = dict(vocab)
    for text, i in (special_ids or {}).items():
        if every.setdefault(text, i) != i:
            record.refuse(text, f"its id is {every[text]} here, but {i} among the added tokens")
    for text, i in every.items():
        if type(i) is not int or not 0 <= i < len(every):
            record.refuse(text, f"id {i!r} must be from 0 to {len(every) - 1}, one for each of {len(every)} tokens")
    texts = sorted(every, key=every.__getitem__)
    for i, text in enumerate(texts):
        if every[text] != i:
            record.refuse(text, f"its id {every[text]} is also that of {texts[i - 1]!r}")
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
