r"""Our tokenizers in the format of Hugging Face's library, so that it gives the same ids and texts.

The library's pipeline and ours have the same steps under other names: a prefix is a normalizer that prepends, a
pre-tokenizer is a ``Split``, and the tokens of byte-level BPE are written with visible characters. What the format
cannot represent exactly is refused.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import regex

from llm_anatomy.tokenizers.base import BYTE_NAMES, SPACE, PieceTokenizer, Tokenizer
from llm_anatomy.tokenizers.bpe import BPE, CharacterBPE
from llm_anatomy.tokenizers.files import gpt2_bytes, gpt2_visible
from llm_anatomy.tokenizers.pretokenization import AnySplit, NoSplit, PreTokenizer
from llm_anatomy.tokenizers.simple import UNK_TOKEN, ByteTokenizer, CharacterTokenizer, WordTokenizer
from llm_anatomy.tokenizers.unigram import Unigram


def to_hugging_face(tokenizer: Tokenizer) -> bytes:
    """Write a tokenizer of this package in the format of ``tokenizer.json``.

    Args:
        tokenizer: a ``ByteTokenizer``, ``CharacterTokenizer``, ``WordTokenizer``, ``BPE``, ``CharacterBPE`` or
            ``Unigram``.

    Raises:
        ValueError: if the format cannot represent the tokenizer exactly; the message says why.

    Source: Hugging Face tokenizers; GT-40, GT-42.

    >>> content = to_hugging_face(ByteTokenizer(special_tokens=["<|end|>"]))
    >>> json.loads(content)["added_tokens"][0]["id"]
    256
    """
    kinds: dict[type, Callable[[Any], dict]] = {
        ByteTokenizer: _byte_level,
        CharacterTokenizer: _characters,
        WordTokenizer: _words,
        BPE: _byte_level,
        CharacterBPE: _character_bpe,
        Unigram: _unigram,
    }
    if type(tokenizer) not in kinds:
        names = ", ".join(kind.__name__ for kind in kinds)
        _refuse(f"it must be one of {names}, not {type(tokenizer).__name__}")
    fields = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": _added_tokens(tokenizer)}
    content = fields | {"post_processor": None} | kinds[type(tokenizer)](tokenizer)
    try:
        return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()
    except UnicodeEncodeError as error:
        _refuse(f"it contains {error.object[error.start]!r}, which is no character")


def _refuse(problem: str) -> NoReturn:
    raise ValueError(f"the tokenizer cannot be written as tokenizer.json: {problem}")


def _added_tokens(tokenizer: Tokenizer) -> list[dict]:
    rules = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    by_id = sorted(tokenizer.special_tokens.items(), key=lambda entry: entry[1])
    return [{"id": i, "content": text} | rules for text, i in by_id]


# --- One function for each kind of tokenizer ---


def _byte_level(tokenizer: ByteTokenizer | BPE) -> dict:
    vocabulary, special_ids = tokenizer.vocabulary, set(tokenizer.special_tokens.values())
    for text, i in tokenizer.special_tokens.items():
        if _is_written_as_bytes(text) and gpt2_bytes(text) != vocabulary[i]:
            _refuse(f"its format would decode the special token {text!r} as {gpt2_bytes(text)!r}")
    names = [token.decode() if i in special_ids else gpt2_visible(token) for i, token in enumerate(vocabulary)]
    merges, ignore_merges = _merges(tokenizer, names) if isinstance(tokenizer, BPE) else ([], False)
    steps = [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]
    return {
        "normalizer": _normalizer(tokenizer),
        "pre_tokenizer": _sequence("pretokenizers", _splits(tokenizer.pre_tokenizer) + steps),
        "decoder": _sequence("decoders", steps + _without_prefix(tokenizer)),
        "model": _bpe_model(_vocab(names), merges, ignore_merges=ignore_merges, byte_fallback=False),
    }


def _character_bpe(tokenizer: CharacterBPE) -> dict:
    names = _names(tokenizer, tokenizer._byte_ids)
    merges, ignore_merges = _merges(tokenizer, names)
    if ignore_merges:
        _refuse("ignore_merges=True changes its ids, and would change those of texts such as '<0x41>' too")
    return {
        "normalizer": _normalizer(tokenizer),
        "pre_tokenizer": _sequence("pretokenizers", _splits(tokenizer.pre_tokenizer)),
        "decoder": _sequence("decoders", [{"type": "ByteFallback"}, {"type": "Fuse"}, *_without_prefix(tokenizer)]),
        "model": _bpe_model(_vocab(names), merges, ignore_merges=False, byte_fallback=True),
    }


def _unigram(tokenizer: Unigram) -> dict:
    names, scores = _names(tokenizer, tokenizer.byte_ids), tokenizer.scores
    _vocab(names)
    lowest = min(cost for cost, score in zip(tokenizer._costs, scores, strict=False) if score is not None)
    learned = min(score for i, score in enumerate(scores) if score is not None and i not in tokenizer.user_defined)
    if lowest < learned:
        _refuse("a user-defined piece is less probable than all others, which would change the score of the unknown")
    if "" in names:
        _refuse(f"the id {names.index('')} has no token, and its format knows no such ids with Unigram")
    special = set(tokenizer.special_tokens)
    never = [name for name, score in zip(names, scores, strict=True) if score is None and name not in special]
    pieces = [name for name, score in zip(names, scores, strict=True) if score is not None]
    groups = [[name for name in never if name in BYTE_NAMES], *([name] for name in never if name not in BYTE_NAMES)]
    cuts = [_cut_in(group, pieces, in_runs=not tokenizer.byte_ids) for group in groups if group]
    unk_id = tokenizer.unk_id if tokenizer.unk_id is not None or not tokenizer.byte_ids else tokenizer.byte_ids[0]
    fallback = [{"type": "ByteFallback"}] if tokenizer.byte_ids else []
    return {
        "normalizer": _normalizer(tokenizer),
        "pre_tokenizer": _sequence("pretokenizers", _splits(tokenizer.pre_tokenizer) + cuts),
        "decoder": _sequence("decoders", [*fallback, {"type": "Fuse"}, *_without_prefix(tokenizer)]),
        "model": {
            "type": "Unigram",
            "unk_id": unk_id,
            "vocab": [
                [name, lowest if score is None else cost]
                for name, score, cost in zip(names, scores, tokenizer._costs, strict=False)
            ],
            "byte_fallback": bool(tokenizer.byte_ids),
        },
    }


def _characters(tokenizer: CharacterTokenizer) -> dict:
    """The library refuses a character that is not in the alphabet, as we do, since its unknown token has no id."""
    names = [token.decode("utf-8", "surrogatepass") for token in tokenizer.vocabulary]
    return _word_level(_vocab(names), "(?m:.)", unk_token="")


def _words(tokenizer: WordTokenizer) -> dict:
    names = [token.decode("utf-8", "surrogatepass") for token in tokenizer.vocabulary]
    return _word_level(_vocab(names), in_oniguruma(tokenizer.pre_tokenizer.pattern), UNK_TOKEN)


def _word_level(vocab: dict[str, int], pattern: str, unk_token: str) -> dict:
    return {
        "normalizer": None,
        "pre_tokenizer": _split(pattern, "Isolated"),
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": unk_token},
    }


# --- Vocabularies and merges ---


def _names(tokenizer: PieceTokenizer, byte_ids: Sequence[int]) -> list[str]:
    """How the format writes each token: a byte as <0x0A>, any other as its text."""
    names = []
    byte_of = {i: name for i, name in zip(byte_ids, BYTE_NAMES, strict=False)}
    for i, token in enumerate(tokenizer.vocabulary):
        try:
            names.append(byte_of.get(i) or token.decode())
        except UnicodeDecodeError:
            _refuse(f"token {i}, {token!r}, is not UTF-8")
    return names


def _vocab(names: Sequence[str]) -> dict[str, int]:
    vocab: dict[str, int] = {}
    for i, name in enumerate(names):
        if name and vocab.setdefault(name, i) != i:
            _refuse(f"its format would write the tokens {vocab[name]} and {i} alike, as {name!r}")
    return vocab


def _bpe_model(vocab: dict[str, int], merges: list[list[str]], **options: bool) -> dict:
    no = dict(dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False)
    return {"type": "BPE"} | no | options | {"vocab": vocab, "merges": merges}


def _merges(tokenizer: BPE, names: Sequence[str]) -> tuple[list[list[str]], bool]:
    """The pairs in the order of their ranks, and whether ``ignore_merges`` changes any ids.

    Two pairs of one rank, as tiktoken's files have them, form the same token. Only one of them ever occurs: the one
    that is left when the token is merged by the lower ranks.
    """
    by_rank: dict[int, list[tuple[int, int]]] = {}
    for pair, rank in tokenizer.merges.items():
        by_rank.setdefault(rank, []).append(pair)
    vocabulary, apart = tokenizer.vocabulary, {*tokenizer.special_tokens.values(), *tokenizer._byte_ids}
    id_of = {token: i for i, token in enumerate(vocabulary) if token and i not in apart}
    pairs: dict[tuple[int, int], tuple[int, int]] = {}  # the rank of each, and the token that it forms
    for rank, group in sorted(by_rank.items()):
        token, *others = dict.fromkeys(vocabulary[left] + vocabulary[right] for left, right in group)
        if others:
            _refuse(
                f"merges of rank {rank} form {token!r} and {others[0]!r}, and its format gives each token another rank"
            )
        left = _merged(_spelled(tokenizer, token), pairs) if len(group) > 1 else list(group[0])
        pairs |= {pair: (rank, id_of[token]) for pair in group if list(pair) == left}
    unformed = tokenizer._ids_of_token and any(len(tokenizer._merge(_spelled(tokenizer, t))) > 1 for t in id_of)
    return [[names[left], names[right]] for left, right in pairs], bool(unformed)


def _spelled(tokenizer: BPE, token: bytes) -> str:
    text = token.decode() if isinstance(tokenizer, CharacterBPE) else token.decode("latin-1")
    return text.translate(tokenizer._symbols)


def _merged(symbols: str, pairs: Mapping[tuple[int, int], tuple[int, int]]) -> list[int]:
    """What the merges, in their order, make of a word."""
    ids = list(map(ord, symbols))
    while known := [(*pairs[pair], i) for i, pair in enumerate(pairwise(ids)) if pair in pairs]:
        _, merged, i = min(known, key=lambda entry: (entry[0], entry[2]))
        ids[i : i + 2] = [merged]
    return ids


def _is_written_as_bytes(text: str) -> bool:
    try:
        return bool(gpt2_bytes(text))
    except ValueError:
        return False


# --- Normalizers, pre-tokenizers and decoders ---


def _sequence(key: str, steps: list[dict]) -> dict | None:
    return {"type": "Sequence", key: steps} if len(steps) > 1 else steps[0] if steps else None


def _replace(pattern: str, content: str) -> dict:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _one_of(characters: str) -> str:
    return "[" + "".join(f"\\x{{{ord(character):x}}}" for character in characters) + "]"


def _normalizer(tokenizer: PieceTokenizer) -> dict | None:
    normalizer, steps = tokenizer.normalizer, []
    if normalizer:
        if normalizer.precompiled:
            _refuse("Hugging Face's library applies the character replacements of SentencePiece in another way")
        if normalizer.collapsed:
            steps += [_replace(_one_of(normalizer.collapsed) + "+", " "), _replace(r"\A ", "")]
        steps.append(_replace(SPACE, " "))
    if tokenizer.prefix:
        steps.append({"type": "Prepend", "prepend": tokenizer.prefix})
    if normalizer and normalizer.stripped:
        steps.append(_replace(_one_of(normalizer.stripped) + r"+\z", ""))
    return _sequence("normalizers", steps)


def _without_prefix(tokenizer: PieceTokenizer) -> list[dict]:
    """The steps of a decoder that remove the prefix from the beginning of the text."""
    if tokenizer.normalizer and tokenizer.normalizer.collapsed:
        unk_id = tokenizer.unk_id if isinstance(tokenizer, Unigram) else None
        unknown = "" if unk_id is None else tokenizer.vocabulary[unk_id].decode()
        before_unknown = rf"\A *(?={''.join(map(_one_of, unknown))})|" if unknown[:1] == " " else ""
        return [{"type": "Fuse"}, _replace(rf"{before_unknown}\A +", "")]
    prefix = "".join(map(_one_of, tokenizer.prefix))
    return [{"type": "Fuse"}, _replace(rf"\A{prefix}", "")] if prefix else []


def _split(pattern: str, behavior: str) -> dict:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def _splits(pre_tokenizer: PreTokenizer) -> list[dict]:
    if isinstance(pre_tokenizer, NoSplit | AnySplit):
        return []
    return [_split(in_oniguruma(pre_tokenizer.pattern), "Isolated")]


def _cut_in(names: Sequence[str], pieces: Sequence[str], in_runs: bool) -> dict:
    """A cut within names that are not to be matched as pieces, at a position that no piece crosses.

    Nor may a run of unknown characters cross it, if a run is one token.
    """
    known = set(pieces)
    for k in range(1, min(map(len, names))):
        crossed = any(name[k - 1 : k + 1] in piece for name in names for piece in pieces)
        in_run = in_runs and any(known.isdisjoint(name[k - 1 : k + 1]) for name in names)
        if not crossed and not in_run:
            break
    else:
        _refuse(f"its format would take the text {names[0]!r} for that token, unless it is a special token")
    parts = ({name[:k] for name in names}, {name[k:] for name in names})
    heads, tails = ("|".join("".join(map(_one_of, text)) for text in sorted(part)) for part in parts)
    return _split(f"(?:{heads})(?={tails})", "MergedWithPrevious")


# --- Regular expressions ---

_W = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}"
_ATOM = regex.compile(
    r"\\p\{[LMNPSZ][a-z]?\}|\\P\{[LMNPSZ][a-z]?\}|\\[sSdDrntfv]|\\w|\\W|\\[^\w\s]|\\ |[^\\]", regex.DOTALL
)
_QUANTIFIER = regex.compile(r"(?:[?*+]|\{\d+(?:,\d*)?\})(?P<mode>[+?]?)")
_MULTIPLE_FOLDS = regex.compile(r"ss|ff|fi|fl|st", regex.IGNORECASE)


def in_oniguruma(pattern: str) -> str:
    r"""Translate the pattern of a pre-tokenizer from the syntax of ``regex`` to that of Hugging Face's library.

    Both know the constructs of the well-known patterns. They differ in the meaning of ``$``, of ``\w``, of a ``+``
    after ``{1,3}``, and of what no match covers, which we cut into single characters.

    Args:
        pattern: as in ``PreTokenizer``.

    Raises:
        ValueError: for a construct whose meaning could differ.

    Source: the manuals of ``regex`` and Oniguruma (its Ruby syntax); UCL-09, GT-42.

    >>> in_oniguruma(r"\p{N}{1,3}+|\s++$")
    '(?>\\p{N}{1,3})|\\s++\\Z|(?m:.)'
    """
    if "(?i:" in pattern and _MULTIPLE_FOLDS.search(pattern):
        _refuse(f"pattern={pattern!r:.80} ignores the case of letters that have a ligature")
    if regex.fullmatch(pattern, ""):
        _refuse(f"pattern={pattern!r:.80} matches the empty text")
    parts, at = [], 0
    while at < len(pattern):
        part, at = _element(pattern, at)
        if quantifier := _QUANTIFIER.match(pattern, at):
            at = quantifier.end()
            if quantifier[0][0] == "{" and quantifier["mode"]:
                if quantifier["mode"] == "?" or part == ")":
                    _refuse(f"pattern={pattern!r:.80} uses {quantifier[0]!r}")
                part = f"(?>{part}{quantifier[0][:-1]})"
            else:
                part += quantifier[0]
        parts.append(part)
    return "".join(parts) + "|(?m:.)"


def _element(pattern: str, at: int) -> tuple[str, int]:
    """The translation of the element that begins at an offset, and the offset of its end."""
    for opening in ("(?:", "(?!", "(?i:", ")", "|", "."):
        if pattern.startswith(opening, at):
            return opening, at + len(opening)
    if pattern[at] in "$^":
        return {"$": r"\Z", "^": r"\A"}[pattern[at]], at + 1
    if pattern[at] == "[":
        return _class(pattern, at)
    atom = _ATOM.match(pattern, at)
    if atom is None or atom[0] in "(){}*+?":
        _refuse(f"pattern={pattern!r:.80} uses {pattern[at : at + 3]!r}, which could have another meaning there")
    return {r"\w": f"[{_W}]", r"\W": f"[^{_W}]"}.get(atom[0], atom[0]), atom.end()


def _class(pattern: str, at: int) -> tuple[str, int]:
    start, parts, at = at, ["["], at + 1
    if pattern[at] == "^":
        parts, at = ["[^"], at + 1
    while pattern[at] != "]" or len(parts) == 1 and pattern[at - 1] in "[^":
        atom = _ATOM.match(pattern, at)
        if atom is None or atom[0] in ("[", r"\W") or pattern[at : at + 2] in ("&&", "--", "||", "~~"):
            _refuse(f"pattern={pattern!r:.80} uses {pattern[start : at + 2]!r}, which could have another meaning there")
        parts.append(_W if atom[0] == r"\w" else rf"\{atom[0]}" if atom[0] in "&]" else atom[0])
        at = atom.end()
    return "".join(parts) + "]", at + 1
