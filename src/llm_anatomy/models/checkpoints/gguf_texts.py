"""The tokenizer of a GGUF file: its metadata becomes a ``tokenizer.json``, which Hugging Face's library reads."""

from collections.abc import Mapping
from typing import Any, TypeGuard, TypeVar

from llm_anatomy.models.checkpoints.chat import ChatTemplate
from llm_anatomy.models.checkpoints.gguf_files import GGUFFile
from llm_anatomy.models.checkpoints.layouts import template_around
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.tokenizers.base import BYTE_NAMES, SPACE
from llm_anatomy.tokenizers.hugging_face import HuggingFaceTokenizer
from llm_anatomy.tokenizers.pretokenization import LLAMA3, QWEN2

MODEL, PRE, TOKENS = "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens"

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
"""The types of tokens. Unknown, control and user-defined ones are found in a text before it is cut."""

Value = TypeVar("Value")

GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}


def _split(pattern: str) -> dict:
    pieces = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [pieces, GPT2 | {"use_regex": False}]}


TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

SPLITTERS: dict[str, dict[str, Any]] = {
    "gpt-2": {"pre_tokenizer": GPT2},
    **dict.fromkeys(
        ("smollm", "starcoder", "refact"), {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [DIGITS, GPT2]}}
    ),
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3"),
        {"pre_tokenizer": _split(LLAMA3.pattern), "ignore_merges": True, "bos": True},
    ),
    "qwen2": {"pre_tokenizer": _split(QWEN2.pattern), "normalizer": {"type": "NFC"}},
    "tekken": {"pre_tokenizer": _split(TEKKEN), "ignore_merges": True, "bos": True},
}
"""What the names in ``tokenizer.ggml.pre`` stand for. A file holds the name only, so that no other name can be read."""


NAMES = {"bos": "bos", "eos": "eos", "eot": "eot", "unk": "unknown", "pad": "padding"}
"""The special tokens by the names that chat templates use, and by those in the keys of GGUF."""


def read_gguf_texts(file: GGUFFile) -> Texts:
    """Read what a GGUF file says about texts: the tokenizer, the tokens around a text, and the chat templates.

    Args:
        file: its header. A tokenizer that is not supported is no error: a note says why there is none.

    Source: the specification of GGUF, section on the tokenizer; the vocabularies of llama.cpp; GT-40.

    >>> from pathlib import Path
    >>> from llm_anatomy.files import Record
    >>> file = GGUFFile(path=Path("a.gguf"), metadata={}, record=Record("a.gguf", {}), headers={})
    >>> read_gguf_texts(file).note
    'a.gguf: there is no tokenizer in the file'
    """
    ids = _special_ids(file.metadata)
    stop = tuple(dict.fromkeys(ids[name] for name in ("eos", "eot") if name in ids))
    template = _chat_template(file.metadata, ids)
    try:
        fields = tokenizer_fields(file.metadata)
        before, after = (_around(file.metadata, name) for name in ("bos", "eos"))
        if before + after:
            sides = ([(file.metadata[TOKENS][i], i) for i in ids] for ids in (before, after))
            fields["post_processor"] = template_around(*sides)
        tokenizer = HuggingFaceTokenizer.from_json(fields, file.path.name)
    except ValueError as error:
        note = f"{file.path.name}: {str(error).removeprefix(f'{file.path.name}: ')}"
        return Texts(note=note, stop=stop, chat_template=template)
    around = {"before": before, "after": after, "bos": ids.get("bos")}
    return Texts(tokenizer=tokenizer, **around, stop=stop, chat_template=template)


def tokenizer_fields(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the ``tokenizer.json`` that the metadata of a GGUF file stands for.

    Args:
        metadata: of the file.

    Raises:
        ValueError: for a tokenizer that is not supported, and for one that is malformed.

    Source: as :func:`read_gguf_texts`; the converters of Hugging Face's library.

    >>> tokenizer_fields({"tokenizer.ggml.model": "rwkv"})
    Traceback (most recent call last):
    ValueError: the tokenizer 'rwkv' is not supported; it must be 'gpt2' or 'llama'
    """
    kind = metadata.get(MODEL)
    if kind is None:
        raise ValueError("there is no tokenizer in the file")
    if kind not in MAKERS:
        raise ValueError(f"the tokenizer {kind!r:.60} is not supported; it must be 'gpt2' or 'llama'")
    tokens = metadata.get(TOKENS)
    types = metadata.get("tokenizer.ggml.token_type", [NORMAL] * len(tokens or ()))
    if not (_are(tokens, str) and tokens and _are(types, int, len(tokens))):
        raise ValueError("the tokens or their types are missing or malformed")
    fields = MAKERS[kind](metadata, tokens, types)
    exact = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    fields["added_tokens"] = [
        {"id": i, "content": text, **exact, "special": types[i] != USER_DEFINED}
        for text, i in fields["model"]["vocab"].items()
        if types[i] in (UNKNOWN, CONTROL, USER_DEFINED) and text
    ]
    return {"version": "1.0", **fields}


def _special_ids(metadata: Mapping[str, Any]) -> dict[str, int]:
    """The ids of the special tokens that have a name, as far as the vocabulary has them."""
    ids = {name: metadata.get(f"tokenizer.ggml.{key}_token_id") for name, key in NAMES.items()}
    tokens = metadata.get(TOKENS)
    known = range(len(tokens)) if isinstance(tokens, list) else ()
    return {name: i for name, i in ids.items() if isinstance(i, int) and i in known}


def _chat_template(metadata: Mapping[str, Any], ids: Mapping[str, int]) -> ChatTemplate | None:
    key = "tokenizer.chat_template"
    templates = {name.removeprefix(f"{key}."): text for name, text in metadata.items() if name.startswith(f"{key}.")}
    templates |= {"default": metadata[key]} if key in metadata else {}
    if not templates or not all(isinstance(text, str) for text in templates.values()):
        return None
    return ChatTemplate(
        templates=templates, variables={f"{name}_token": metadata[TOKENS][i] for name, i in ids.items()}
    )


def _around(metadata: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """The id before each text (bos) or after it (eos). Where the file does not say so, it is as in llama.cpp."""
    has_bos = metadata[MODEL] == "llama" or SPLITTERS[metadata[PRE]].get("bos", False)
    is_added = metadata.get(f"tokenizer.ggml.add_{name}_token", name == "bos" and has_bos)
    ids = _special_ids(metadata)
    return (ids[name],) if is_added and name in ids else ()


def _are(values: Any, kind: type[Value], length: int | None = None) -> TypeGuard[list[Value]]:
    """Whether this is a list of values of one type, and of this length."""
    is_list = isinstance(values, list) and all(isinstance(value, kind) for value in values)
    return is_list and length in (None, len(values))


def _vocab(tokens: list[str]) -> dict[str, int]:
    vocab = {text: i for i, text in enumerate(tokens)}
    if len(vocab) < len(tokens):
        twice = next(text for i, text in enumerate(tokens) if vocab[text] != i)
        raise ValueError(f"the token {twice!r:.60} occurs twice")
    return vocab


def _byte_level(metadata: Mapping[str, Any], tokens: list[str], types: list[int]) -> dict[str, Any]:
    """Byte-level BPE, as in GPT-2. Tokens are written by its visible characters for bytes."""
    splitter, merges = metadata.get(PRE), metadata.get("tokenizer.ggml.merges")
    if splitter not in SPLITTERS:
        raise ValueError(f"the splitter {splitter!r:.60} is not known; it must be one of {', '.join(SPLITTERS)}")
    if not _are(merges, str) or any(merge.count(" ") != 1 for merge in merges):
        raise ValueError("the merges are missing or malformed")
    known = SPLITTERS[splitter]
    return {
        "normalizer": known.get("normalizer"),
        "pre_tokenizer": known["pre_tokenizer"],
        "decoder": GPT2,
        "model": {
            "type": "BPE",
            "ignore_merges": known.get("ignore_merges", False),
            "vocab": _vocab(tokens),
            "merges": [merge.split(" ") for merge in merges],
        },
    }


def _sentencepiece(metadata: Mapping[str, Any], tokens: list[str], types: list[int]) -> dict[str, Any]:
    """BPE on characters with single bytes for unknown ones, as SentencePiece trains it for Llama 2 and Gemma."""
    # spaces of tokens that were defined by hand are written as they are
    tokens = [text.replace(" ", SPACE) if types[i] == USER_DEFINED else text for i, text in enumerate(tokens)]
    tokens = _with_ascii(tokens)
    scores, vocab = metadata.get("tokenizer.ggml.scores"), _vocab(tokens)
    if not _are(scores, float, len(tokens)):
        raise ValueError("the scores of the tokens are missing or malformed")
    normalizer: dict[str, Any] = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    decoders: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    decoders += [{"type": "ByteFallback"}, {"type": "Fuse"}]
    if metadata.get("tokenizer.ggml.add_space_prefix", True):
        normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, normalizer]}
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    unknown = _special_ids(metadata).get("unk")
    return {
        "normalizer": normalizer,
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE",
            "unk_token": None if unknown is None else tokens[unknown],
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": vocab,
            "merges": _merges(vocab, scores, types),
        },
    }


MAKERS = {"gpt2": _byte_level, "llama": _sentencepiece}


def _with_ascii(tokens: list[str]) -> list[str]:
    """The tokens, with ASCII's single bytes written as characters.

    SentencePiece merges characters that are no tokens, such as two tabs, and Hugging Face's library does not."""
    known, named = set(tokens), {name: chr(byte) for byte, name in enumerate(BYTE_NAMES[:128])}
    return [named[text] if text in named and named[text] not in known else text for text in tokens]


def _merges(vocab: Mapping[str, int], scores: list[float], types: list[int]) -> list[list[str]]:
    """All pairs of tokens that form a token, in SentencePiece's order: tokens that were defined by hand come first,
    whatever the score that the converter gave them, and then the highest score."""

    def rank(text: str) -> tuple[float, int]:
        i = vocab[text]
        return (0.0 if types[i] == USER_DEFINED else -scores[i]), i

    merges = []
    for text in sorted((text for text, i in vocab.items() if types[i] not in (UNKNOWN, CONTROL, BYTE)), key=rank):
        pairs = [(text[:cut], text[cut:]) for cut in range(1, len(text))]
        pairs = [pair for pair in pairs if pair[0] in vocab and pair[1] in vocab]
        merges += sorted(pairs, key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
    return [list(pair) for pair in merges]
