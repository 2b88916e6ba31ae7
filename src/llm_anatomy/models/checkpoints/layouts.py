"""The files of tokenizers that have no ``tokenizer.json``, in the layouts of transformers' classes.

Such files hold a vocabulary, and sometimes merges; how a text is normalized and cut is known from the name of the class
alone. Each class is described here once, as the ``tokenizer.json`` that transformers would make of it. A class that is
not described is refused: another one would read its files too, and give other ids.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_anatomy.files import Record
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.files import read_sentencepiece, read_vocabulary_and_merges
from llm_anatomy.tokenizers.hugging_face import FLAGS, HuggingFaceTokenizer
from llm_anatomy.tokenizers.pretokenization import QWEN2

CLASS_OF = {
    "gpt2": "GPT2Tokenizer",
    "gptj": "GPT2Tokenizer",
    "opt": "GPT2Tokenizer",
    "gpt_neox": "GPTNeoXTokenizer",
    "olmo": "GPTNeoXTokenizer",
    "mamba": "GPTNeoXTokenizer",
    "mpt": "GPTNeoXTokenizer",
    "qwen2": "Qwen2Tokenizer",
    "qwen3": "Qwen2Tokenizer",
    "qwen3_moe": "Qwen2Tokenizer",
    "starcoder2": "GPT2Tokenizer",
    "deberta": "DebertaTokenizer",
    "bert": "BertTokenizer",
    "roformer": "RoFormerTokenizer",
    "llama": "LlamaTokenizer",
    "mistral": "LlamaTokenizer",
    "mixtral": "LlamaTokenizer",
    "gemma": "GemmaTokenizer",
    "gemma2": "GemmaTokenizer",
    "gemma3_text": "GemmaTokenizer",
    "phi3": "LlamaTokenizer",
    "t5": "T5Tokenizer",
    "mt5": "T5Tokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
}
"""The class of the tokenizer for each ``model_type``, where the files name none."""

FILLER = re.compile(r"<.*>|\[.*\]|madeupword\d+")
"""Entries of a vocabulary that no merge forms, even if nothing says that they are special: ``<s>`` in OPT's files."""

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

MOST_SENTINELS = 10_000
"""More of T5's ``<extra_id_0>`` and so on are refused."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a class of transformers does with its files.

    Args:
        files: their names; all of them must be there.
        read: builds the tokenizer from the folder, the settings and the special tokens by id.
        settings: the defaults of the class, with the settings of ``tokenizer_config.json`` in their place where it has
            them.

    Source: transformers, the classes of these names; GT-40, GT-42.

    >>> LAYOUTS["BertTokenizer"].files
    ('vocab.txt',)
    """

    files: tuple[str, ...]
    read: Callable[[Path, dict, "AddedTokens"], Tokenizer]
    settings: Mapping[str, Any]


AddedTokens = list[dict]
"""The added tokens as ``tokenizer.json`` describes them, but without an id if it is not known."""


def read_layout(folder: Path, settings: Mapping[str, Any], model_type: str | None) -> tuple[Tokenizer, dict] | None:
    """Read the tokenizer of a folder without ``tokenizer.json``.

    Args:
        folder: of the checkpoint.
        settings: of ``tokenizer_config.json`` and, in older folders, ``special_tokens_map.json``.
        model_type: of ``config.json``, which tells the class if the settings do not.

    Returns:
        The tokenizer, and the settings with the defaults of its class; None if no file of a tokenizer is there.

    Raises:
        ValueError: if the class is not known, and for files that are malformed.

    Source: transformers, ``from_pretrained`` of its tokenizers.

    >>> read_layout(Path("no such folder"), {}, "gpt2") is None
    True
    """
    there = sorted({name for layout in LAYOUTS.values() for name in layout.files if (folder / name).is_file()})
    if not there:
        return None
    name = settings.get("tokenizer_class") or CLASS_OF.get(str(model_type))
    bare = str(name).removesuffix("Fast").removeprefix("M" if str(name).startswith("MT5") else "")
    if bare == "RoFormerTokenizer":
        raise ValueError("RoFormerTokenizer cuts Chinese text with the package rjieba, which is not supported")
    if bare not in LAYOUTS:
        named = f"tokenizer_class={name!r} is not one" if name else "no tokenizer_class says which it is"
        raise ValueError(
            f"{', '.join(there)} can be read for the classes {', '.join(LAYOUTS)}, and {named}; with tokenizer.json, "
            "any tokenizer can be read"
        )
    layout = LAYOUTS[bare]
    missing = [file for file in layout.files if file not in there]
    if missing:
        raise ValueError(f"{', '.join(missing)} of {bare} is missing beside {', '.join(there)}")
    settings = dict(layout.settings) | dict(settings)
    return layout.read(folder, settings, _added_tokens(folder, settings)), settings


def _added_tokens(folder: Path, settings: dict) -> AddedTokens:
    """The tokens that the settings add or name, each once; those with a known id first."""
    found: dict[str, dict] = {}
    entries = [(token, {"id": i}) for i, token in sorted(_by_number(settings.get("added_tokens_decoder") or {}))]
    named = [(settings.get(name), {"special": True}) for name in NAMED]
    for key in ("additional_special_tokens", "extra_special_tokens"):
        extra = settings.get(key) or []
        if not isinstance(extra, list | dict):
            raise ValueError(f"tokenizer_config.json, key {key!r}: it must be a list of tokens, not {extra!r:.60}")
        named += [(token, {"special": True}) for token in (extra.values() if isinstance(extra, dict) else extra)]
    older = folder / "added_tokens.json"
    if older.is_file() and not entries:
        record, special = Record.read(older), {text_of(token) for token, _ in named if isinstance(token, str | dict)}
        ids = {text: record.take(text, int) for text in record.fields}
        for text in sorted(ids, key=ids.__getitem__):
            entries.append((text, {"id": ids[text], "special": text in special, "normalized": text not in special}))
    for token, known in entries + named:
        token = {"content": token} if isinstance(token, str) else token
        if token is None:
            continue
        if not isinstance(token, dict) or not isinstance(token.get("content"), str):
            raise ValueError(f"tokenizer_config.json: {token!r:.60} does not describe a token")
        special = {"special": True} if known.get("special") else {}
        found[token["content"]] = _rules(token) | known | found.get(token["content"], {}) | special
    return list(found.values())


def _by_number(tokens: Mapping[str, Any]) -> list[tuple[int, Any]]:
    try:
        return [(int(i), token) for i, token in tokens.items()]
    except (ValueError, AttributeError):
        raise ValueError("tokenizer_config.json, key 'added_tokens_decoder': its keys must be ids") from None


def _rules(token: Mapping[str, Any]) -> dict:
    return {"content": token["content"]} | {flag: bool(token.get(flag, False)) for flag in FLAGS}


def with_added_tokens(
    tokenizer: HuggingFaceTokenizer, folder: Path, settings: Mapping[str, Any]
) -> HuggingFaceTokenizer:
    """Add to a tokenizer what the files beside its ``tokenizer.json`` add or name, and it lacks.

    Args:
        tokenizer: of the folder.
        folder: in which ``added_tokens.json`` may be.
        settings: as in :func:`read_layout`. The rules that ``added_tokens_decoder`` gives a token replace its own.

    Raises:
        ValueError: if a token would get another id than these files say, and if they are malformed.

    Source: transformers, ``from_pretrained`` of its tokenizers.

    >>> words = HuggingFaceTokenizer.from_json({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}})
    >>> with_added_tokens(words, Path("no such folder"), {"eos_token": "</s>"}).special_tokens
    {'</s>': 1}
    """
    there, rules_are_said = tokenizer.rules_of_added_tokens, bool(settings.get("added_tokens_decoder"))
    found = _added_tokens(folder, dict(settings))
    rules = {token["content"]: {flag: token[flag] for flag in FLAGS} for token in found}
    ids = {token["content"]: token["id"] for token in found if "id" in token}
    changed = {
        text: flags
        for text, flags in rules.items()
        if text not in there or rules_are_said and text in ids and flags != there[text]
    }
    if changed:
        tokenizer = tokenizer.with_added_tokens(changed)
    given = tokenizer.added_tokens
    for text, i in ids.items():
        if given.get(text, i) != i:  # an empty token is not added
            raise ValueError(
                f"{tokenizer.name}: {text!r:.60} has the id {given[text]}, but the files beside it add it as {i}"
            )
    return tokenizer


# --- Layouts that become a tokenizer.json ---


def text_of(token: Any) -> str | None:
    """The text of a token in ``tokenizer_config.json``, which is a string or an object with its content.

    Args:
        token: either of them, or None.

    Source: transformers, ``AddedToken``.

    >>> text_of({"content": "<s>"})
    '<s>'
    """
    return token.get("content") if isinstance(token, dict) else token


def _assembled(name: str, vocab: dict[str, int], added: AddedTokens, sides: tuple[list, list], parts: dict):
    """A tokenizer from its parts. Added tokens without an id get the next ones, in their order."""
    for token in added:
        i = token.setdefault("id", vocab.get(token["content"], max(vocab.values(), default=-1) + 1))
        if vocab.setdefault(token["content"], i) != i:
            raise ValueError(f"{name}: {token['content']!r} has the id {vocab[token['content']]}, but is added as {i}")
    before, after = ([(text, vocab[text]) for text in side if text in vocab] for side in sides)
    fields = {"added_tokens": sorted(added, key=lambda token: token["id"])}
    return HuggingFaceTokenizer.from_json(fields | {"post_processor": template_around(before, after)} | parts, name)


def template_around(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> dict:
    """The post-processor of a ``tokenizer.json`` that adds tokens around a text.

    Args:
        before, after: the tokens, each with its id.

    Source: Hugging Face tokenizers, ``TemplateProcessing``.

    >>> template_around([("<s>", 1)], [])["single"][0]
    {'SpecialToken': {'id': '<s>', 'type_id': 0}}
    """
    sides = [[{"SpecialToken": {"id": text, "type_id": 0}} for text, _ in side] for side in (before, after)]
    first, second = ([*sides[0], {"Sequence": {"id": name, "type_id": 0}}, *sides[1]] for name in "AB")
    special = {text: {"id": text, "ids": [i], "tokens": [text]} for text, i in before + after}
    return {"type": "TemplateProcessing", "single": first, "pair": first + second, "special_tokens": special}


def around(settings: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The tokens that a class adds before and after a text.

    Args:
        settings: of its ``tokenizer_config.json``, with the defaults of the class.

    Source: transformers, ``update_post_processor``.

    >>> around({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True})
    (['<s>'], [])
    """
    before, after = (
        [text_of(settings.get(f"{name}_token")) for name in side if settings.get(f"add_{name}_token")]
        for side in (("bos", "cls"), ("eos", "sep"))
    )
    return [text for text in before if text], [text for text in after if text]


def _byte_level(normalizer: dict | None = None, pattern: str = "") -> Callable[[Path, dict, AddedTokens], Tokenizer]:
    def read(folder: Path, settings: dict, added: AddedTokens) -> Tokenizer:
        known = Record.read(folder / "vocab.json").fields.keys()
        unformed = {text for text in known if FILLER.fullmatch(text)} | {token["content"] for token in added} & known
        vocab, merges = read_vocabulary_and_merges(folder / "vocab.json", folder / "merges.txt", unformed)
        step = {"type": "ByteLevel", "trim_offsets": True, "use_regex": not pattern}
        step["add_prefix_space"] = bool(settings.get("add_prefix_space"))
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        parts = {
            "normalizer": normalizer,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, step]} if pattern else step,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "vocab": vocab, "merges": [list(pair) for pair in merges]},
        }
        return _assembled("vocab.json", vocab, added, around(settings), parts)

    return read


def _word_piece(folder: Path, settings: dict, added: AddedTokens) -> Tokenizer:
    try:
        words = (folder / "vocab.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"vocab.txt: not UTF-8 ({error.reason} at byte {error.start})") from None
    vocab = {word: i for i, word in enumerate(words)}  # of equal words, the last, as in transformers
    unk_token = text_of(settings["unk_token"])
    if unk_token not in vocab:
        raise ValueError(f"vocab.txt: the unknown token {unk_token!r} is not there")
    normalizer = {"type": "BertNormalizer", "clean_text": True}
    normalizer["handle_chinese_chars"] = bool(settings["tokenize_chinese_chars"])
    normalizer |= {"strip_accents": settings["strip_accents"], "lowercase": bool(settings["do_lower_case"])}
    model = {"type": "WordPiece", "unk_token": unk_token, "continuing_subword_prefix": "##"}
    parts = {
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": model | {"max_input_chars_per_word": 100, "vocab": vocab},
    }
    return _assembled("vocab.txt", vocab, added, around(settings), parts)


# --- SentencePiece ---


def _sentencepiece(file: str) -> Callable[[Path, dict, AddedTokens], Tokenizer]:
    def read(folder: Path, settings: dict, added: AddedTokens) -> Tokenizer:
        for name in ("do_lower_case", "split_by_punct"):
            if settings.get(name):
                raise ValueError(f"tokenizer_config.json: {name}={settings[name]!r} is not supported with {file}")
        if settings.get("legacy") is False:  # no prefix after special tokens, unlike SentencePiece
            raise ValueError(
                f"tokenizer_config.json: legacy=False is not supported with {file}; tokenizer.json is needed"
            )
        for token in added:
            rules = [name for name in ("single_word", "lstrip", "rstrip") if token[name]]
            if rules or not token["special"]:
                rule = rules[0] if rules else "special"
                raise ValueError(
                    f"tokenizer_config.json: {rule}={token[rule]} of the added token {token['content']!r} is not "
                    f"supported with {file}"
                )
        tokenizer = read_sentencepiece(folder / file, [token["content"] for token in added])
        for token in added:
            i = tokenizer.special_tokens[token["content"]]
            if token.get("id", i) != i:
                raise ValueError(f"{file}: {token['content']!r} has the id {i}, but is added as {token['id']}")
        return tokenizer

    return read


def _t5(folder: Path, settings: dict, added: AddedTokens) -> Tokenizer:
    """T5's class appends sentinels to the pieces, the last one first, as many as ``extra_ids`` says."""
    if not any("<extra_id_" in token["content"] for token in added if "id" in token):
        added = [token for token in added if "<extra_id_" not in token["content"]]
        record = Record("tokenizer_config.json", settings)
        n_sentinels = record.take("extra_ids", int)
        if not 0 <= n_sentinels <= MOST_SENTINELS:
            record.refuse("extra_ids", f"it must be from 0 to {MOST_SENTINELS}, not {n_sentinels}")
        sentinels = [{"content": f"<extra_id_{i}>", "special": True} for i in reversed(range(n_sentinels))]
        added += map(_rules, sentinels)
    return _sentencepiece("spiece.model")(folder, settings, added)


_END_OF_TEXT = {name: "<|endoftext|>" for name in ("unk_token", "bos_token", "eos_token")}
_BERT = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
_BERT |= {"add_cls_token": True, "add_sep_token": True}
_SENTENCES = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}
_NFC = {"type": "NFC"}
_GPT2_FILES = ("vocab.json", "merges.txt")

LAYOUTS = {
    "GPT2Tokenizer": Layout(files=_GPT2_FILES, read=_byte_level(), settings=_END_OF_TEXT),
    "GPTNeoXTokenizer": Layout(
        files=_GPT2_FILES, read=_byte_level(_NFC), settings=_END_OF_TEXT | {"pad_token": "<|padding|>"}
    ),
    "Qwen2Tokenizer": Layout(
        files=_GPT2_FILES,
        read=_byte_level(_NFC, QWEN2.pattern),
        settings=_END_OF_TEXT | {"bos_token": None, "pad_token": "<|endoftext|>"},
    ),
    "DebertaTokenizer": Layout(files=_GPT2_FILES, read=_byte_level(), settings=_BERT),
    "BertTokenizer": Layout(
        files=("vocab.txt",),
        read=_word_piece,
        settings=_BERT | {"do_lower_case": True, "tokenize_chinese_chars": True, "strip_accents": None},
    ),
    "LlamaTokenizer": Layout(files=("tokenizer.model",), read=_sentencepiece("tokenizer.model"), settings=_SENTENCES),
    "GemmaTokenizer": Layout(
        files=("tokenizer.model",),
        read=_sentencepiece("tokenizer.model"),
        settings=_SENTENCES | {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"},
    ),
    "T5Tokenizer": Layout(
        files=("spiece.model",),
        read=_t5,
        settings={"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>", "add_eos_token": True}
        | {"extra_ids": 100},
    ),
    "DebertaV2Tokenizer": Layout(
        files=("spm.model",), read=_sentencepiece("spm.model"), settings=_BERT | {"bos_token": "[CLS]"}
    ),
}
"""The layouts by the name of the class, which may also end in ``Fast``."""
