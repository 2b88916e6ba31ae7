r"""What is made of a reader's text: ids of one tokenizer, of several, or the merges of byte pair encoding.

Each class has a twin in ``text.js``, from which a page without a kernel gets the same numbers and words; a browser test
compares the two. ``__call__`` is Python's side, and ``spec`` is what the twin needs to know.
"""

from collections.abc import Sequence

import regex
import torch
from torch import Tensor

from llm_anatomy.notebook.widgets.arguments import whole
from llm_anatomy.tokenizers.base import PieceTokenizer, as_bytes
from llm_anatomy.tokenizers.bpe import BPE, CharacterBPE
from llm_anatomy.tokenizers.pretokenization import AnySplit, NoSplit, PreTokenizer
from llm_anatomy.tokenizers.simple import ByteTokenizer, CharacterTokenizer, WordTokenizer
from llm_anatomy.tokenizers.unigram import Unigram

UNSEEN = regex.compile(r"[\p{Cc}\p{Cf}\p{Co}\p{Z}\uFE00-\uFE0F]")
SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥"}

# --- How tokens are shown ---


def shown(token: bytes) -> str:
    """Write a token so that a reader sees all of it: signs for white space, code points for what has no shape.

    Bytes that are not UTF-8 are written in hexadecimal digits.

    >>> shown(b" two"), shown("é".encode()[:1]), shown(b"\\0")
    ('␣two', '<C3>', 'U+0000')
    """
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return f"<{token.hex(' ').upper()}>"
    text = UNSEEN.sub(lambda found: SIGNS.get(found[0], f"U+{ord(found[0]):04X}"), text)
    return harmless(regex.sub(r"^\p{M}", r"◌\g<0>", text))


def harmless(value):
    """Return the value, or the string with U+2060, which is not seen, after each brace: it is then no template."""
    return value.replace("{", "{\N{WORD JOINER}") if isinstance(value, str) else value


def well_formed(text: str) -> str:
    """Join pairs of surrogates, and replace lone ones by U+FFFD, as a page does.

    >>> well_formed("\\ud83d\\ude42 \\ud83d")
    '🙂 �'
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# --- What the page needs of a tokenizer ---

_ATOM = r"\\[pP]\{\w+\}|\\.|\[(?:\\.|[^\]\\])*\]|[^\\\[\](){}|*+?.^$]|\."
_PARTS = regex.compile(
    rf"(?P<any>\(\?s:\.\))|(?P<folded>\(\?i:[^()]*\))|(?P<own>(?:{_ATOM})(?:[*+?]|\{{\d+(?:,\d*)?\}})\+)"
    rf"|(?P<same>{_ATOM}|\((?:\?(?:[:=!]|<[=!]))|[)|*+?^$]|\{{\d+(?:,\d*)?\}})"
)
_CLASSES = {
    r"\s": r"\p{White_Space}",
    r"\S": r"\P{White_Space}",
    r"\d": r"\p{Nd}",
    r"\w": r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}",
}
_CATEGORIES = regex.compile(r"\\[pP]\{(?:[LMNPSZC]|L[ultmo]|M[nce]|N[dlo]|P[cdseifo]|S[mcko]|Z[slp]|C[cfson])\}")
_THIRD_CASES = {"s": "ſ", "k": "\u212a"}


def to_javascript(pattern: str) -> str:
    r"""Write a pattern of a pre-tokenizer in JavaScript's syntax, for its flag ``u``.

    White space, digits and word characters mean the same characters there, a group that ignores case lists them, and a
    possessive quantifier becomes a group that is looked ahead at, which is not entered again.

    Raises:
        ValueError: for a part that has no counterpart; it names the part.

    >>> to_javascript(r"'(?i:s|ll)|\s+(?!\S)|\p{N}{1,3}+")
    "'(?:[sSſ]|[lL][lL])|[\\p{White_Space}]+(?![\\P{White_Space}])|(?=(\\p{N}{1,3}))\\1"
    """
    groups, written, at = 0, [], 0
    while at < len(pattern):
        found = _PARTS.match(pattern, at)
        if not found:
            raise ValueError(
                f"{pattern=} has {pattern[at : at + 8]!r}, which the page's regular expressions do not know"
            )
        part, at = found[0], found.end()
        if found["any"]:
            written.append("[^]")
        elif found["folded"]:
            written.append("(?:" + regex.sub(r"\[(\p{L}+)\]|\p{L}", _both_cases, part[4:]))
        elif found["own"]:
            groups += 1
            written.append(f"(?=({_javascript_atom(part[:-1])}))\\{groups}")
        else:
            written.append(_javascript_atom(part))
    return "".join(written)


def _both_cases(found) -> str:
    """A class of all letters that a letter, or those of a class, match where case is ignored."""
    return f"[{''.join(letter + letter.upper() + _THIRD_CASES.get(letter, '') for letter in found[1] or found[0])}]"


def _javascript_atom(atom: str) -> str:
    for category in regex.findall(r"\\[pP]\{\w+\}", atom):
        if not _CATEGORIES.fullmatch(category):
            raise ValueError(f"the pattern has {category!r}; in a page it must be a general category, such as \\p{{L}}")

    def class_of(found):
        known = _CLASSES.get(found[0])
        if known is None and found[0][1].isalnum() and found[0][1] not in "rntfvpP":
            raise ValueError(f"the pattern has {found[0]!r}, which the page's regular expressions do not know")
        if known is None:
            return found[0] if found[0][1].isalnum() or found[0][1] in r"^$\.*+?()[]{}|/-" else found[0][1]
        return known if atom[0] == "[" else f"[{known}]"

    if atom[0] == "[" and regex.search(r"\[:|&&|--|\|\||~~|(?<!\\)\[", atom[1:]):
        raise ValueError(f"the pattern has {atom!r}, a class that the page's regular expressions do not know")
    return regex.sub(r"\\.", class_of, atom)


def for_page(tokenizer: PieceTokenizer) -> dict:
    """Return what the page needs to encode text as this tokenizer does, in JSON's types.

    A list of consecutive ids is written as its first one. Who types a special token gets the ids of its characters.

    Raises:
        ValueError: if the page cannot give the same ids; it says why.

    >>> for_page(CharacterTokenizer("ab"))
    {'kind': 'words', 'special': {}, 'pattern': '[^]', 'words': ['a', 'b'], 'unknown': -1}
    """
    if tokenizer.normalizer:
        raise ValueError("the tokenizer has a normalizer, and the page has none")
    vocabulary, special = tokenizer.vocabulary, {i: text for text, i in tokenizer.special_tokens.items()}
    if isinstance(tokenizer, ByteTokenizer):
        return {"kind": "merges", "special": special, "bytes": 0, "merges": [], "made": []}
    if isinstance(tokenizer, CharacterTokenizer | WordTokenizer):
        words = [vocabulary[i].decode() for i in range(tokenizer.n_vocab) if i not in special]
        letters = isinstance(tokenizer, CharacterTokenizer)
        pattern = "[^]" if letters else to_javascript(tokenizer.pre_tokenizer.pattern)
        unknown = -1 if letters else tokenizer.n_vocab - 1
        return {"kind": "words", "special": special, "pattern": pattern, "words": words, "unknown": unknown}
    known: dict = {"special": special}
    if not isinstance(tokenizer.pre_tokenizer, NoSplit | AnySplit):
        known["pattern"] = to_javascript(tokenizer.pre_tokenizer.pattern)
    if tokenizer.prefix:
        known["prefix"] = tokenizer.prefix
    if isinstance(tokenizer, BPE):
        return _merges(tokenizer, vocabulary, known)
    if isinstance(tokenizer, Unigram):
        return _pieces(tokenizer, vocabulary, known)
    raise ValueError(f"the page has no {type(tokenizer).__name__}")


def _merges(tokenizer: BPE, vocabulary: list[bytes], known: dict) -> dict:
    by_rank = sorted(tokenizer.merges.items(), key=lambda item: item[1])
    if len({rank for _, rank in by_rank}) < len(by_rank):
        raise ValueError("two merges of the tokenizer have the same rank; in the page all ranks must differ")
    symbols = {code: ord(symbol) for code, symbol in tokenizer._symbols.items()}
    by_letter = isinstance(tokenizer, CharacterBPE)
    byte_ids = tokenizer._byte_ids if by_letter else [symbols[byte] for byte in range(256)]
    made = [ord(tokenizer._merged[chr(left) + chr(right)]) for (left, right), _ in by_rank]
    if other := {*range(len(vocabulary))} - {*known["special"], *byte_ids, *symbols.values(), *made}:
        raise ValueError(f"no merge makes the token {vocabulary[min(other)]!r}, so that the page would not know it")
    known |= {"kind": "merges", "bytes": _ids(byte_ids), "merges": [i for pair, _ in by_rank for i in pair]}
    known |= {"made": _ids(made)} | ({"letters": {chr(code): i for code, i in symbols.items()}} if by_letter else {})
    return known | ({"whole": True} if tokenizer._ids_of_token else {})


def _pieces(tokenizer: Unigram, vocabulary: list[bytes], known: dict) -> dict:
    ids = [i for i, score in enumerate(tokenizer.scores) if score is not None]
    if not tokenizer.byte_ids and tokenizer.unk_id is None:
        raise ValueError("the tokenizer has neither bytes nor an unknown token, and a reader may type any character")
    others = {*range(len(vocabulary))} - {*ids, *tokenizer.byte_ids}
    known["special"] |= {i: vocabulary[i].decode() for i in sorted(others)}
    known |= {"kind": "pieces", "ids": _ids(ids), "pieces": [vocabulary[i].decode() for i in ids]}
    known |= {"scores": [tokenizer._costs[i] for i in [*ids, -1]]}
    return known | ({"bytes": _ids(tokenizer.byte_ids)} if tokenizer.byte_ids else {"unknown": tokenizer.unk_id})


def _ids(ids: Sequence[int]) -> list[int] | int:
    """The ids, or the first of them if they are consecutive."""
    return ids[0] if ids and list(ids) == list(range(ids[0], ids[0] + len(ids))) else list(ids)


# --- What is made of a text ---


class Encoder:
    """The ids that a tokenizer gives a text: ``ids`` and ``n`` for ``compute``, ``tokens`` and ``vocabulary`` to show.

    ``ids`` holds the last ``n_ctx`` ids, padded with 0 on the right, and ``n`` says how many they are. ``tokens`` are
    their texts, as :func:`shown` writes them, and ``vocabulary`` is the text of each id. A character that is not in the
    alphabet of a ``CharacterTokenizer`` has the id −1.

    Args:
        tokenizer: a tokenizer of the package that the page can follow (:func:`for_page`).
        n_ctx: the length of ``ids``.

    Raises:
        ValueError: if the page cannot give the same ids; it says why.

    >>> known = Encoder(ByteTokenizer(), 4)("hé")
    >>> known["ids"], known["n"], known["tokens"]
    (tensor([104, 195, 169,   0]), tensor(3), ['h', '<C3>', '<A9>'])
    """

    def __init__(self, tokenizer: PieceTokenizer, n_ctx: int):
        self.tokenizer, self.n_ctx = tokenizer, whole("n_ctx", n_ctx, 1, 4096)
        self._spec = {"kind": "encoder", "tokenizer": for_page(tokenizer), "n_ctx": n_ctx}
        self._vocabulary = [shown(token) for token in tokenizer.vocabulary]

    def spec(self) -> dict:
        return self._spec

    def __call__(self, text: str) -> dict[str, Tensor | list]:
        ids, tokens = (found[-self.n_ctx :] for found in _encoded(self.tokenizer, text))
        padded = torch.tensor(ids + [0] * (self.n_ctx - len(ids)))
        return {"ids": padded, "n": torch.tensor(len(ids)), "tokens": tokens, "vocabulary": self._vocabulary}


class Encoders:
    """The ids that several tokenizers give a text: ``ids`` and ``tokens``, a list for each, to show them.

    For ``compute`` there are ``n``, the number of tokens of each, and the numbers of UTF-8 ``bytes`` and of ``words``
    between white space.

    Args:
        tokenizers: tokenizers of the package that the page can follow (:func:`for_page`).

    Raises:
        ValueError: if the page cannot give the same ids; it says why.

    >>> Encoders([ByteTokenizer(), CharacterTokenizer("h")])("hé")["ids"]
    [[104, 195, 169], [0, -1]]
    """

    def __init__(self, tokenizers: Sequence[PieceTokenizer]):
        self.tokenizers = list(tokenizers)
        self._spec = {"kind": "encoders", "tokenizers": [for_page(tokenizer) for tokenizer in tokenizers]}

    def spec(self) -> dict:
        return self._spec

    def __call__(self, text: str) -> dict[str, Tensor | list]:
        ids, tokens = zip(*(_encoded(tokenizer, text) for tokenizer in self.tokenizers), strict=True)
        sizes = {
            "n": [len(row) for row in ids],
            "bytes": len(as_bytes(text)),
            "words": len(regex.findall(r"\S+", text)),
        }
        return {"ids": list(ids), "tokens": list(tokens)} | {name: torch.tensor(size) for name, size in sizes.items()}


def _encoded(tokenizer: PieceTokenizer, text: str) -> tuple[list[int], list[str]]:
    """The ids of a text in which no special token is looked for, and the tokens as they are shown."""
    if isinstance(tokenizer, CharacterTokenizer):  # in a page, a character that it lacks is shown and not refused
        return [tokenizer._id_of.get(character, -1) for character in text], [shown(as_bytes(c)) for c in text]
    ids, vocabulary = tokenizer._encode_ordinary(tokenizer._prepared(text, tokenizer.prefix)), tokenizer.vocabulary
    return list(ids), [shown(vocabulary[i]) for i in ids]


class Merges:
    """The merges that byte pair encoding learns from a text; ``compute`` gets a row for each number of merges.

    ``ids`` are those of the text (merges + 1, bytes), padded with −1, and ``n`` (merges + 1) says how many they are.
    ``left``, ``right`` and ``counts`` (merges + 1, pairs) are the most frequent pairs, in the order in which they would
    be merged, also padded with −1. ``made`` is the number of merges; the rows after that repeat the last one.
    ``vocabulary`` is the text of each id, as :func:`shown` writes it.

    Args:
        n_merges: the largest number of merges.
        longest: number of characters of the longest text.
        n_pairs: number of pairs in each row.
        pre_tokenizer: cuts the text into pieces, whose borders no merge crosses.

    Raises:
        ValueError: if the page cannot cut as the pre-tokenizer does.

    >>> known = Merges(2, longest=3, n_pairs=2)("aab")
    >>> known["ids"].tolist()[2], known["counts"].tolist(), known["vocabulary"][256:]
    ([257, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1], [[1, 1], [1, -1], [-1, -1]], ['aa', 'aab'])
    """

    def __init__(self, n_merges: int, *, longest: int, n_pairs: int, pre_tokenizer: PreTokenizer | None = None):
        self.n_merges, self.longest, self.n_pairs = n_merges, longest, n_pairs
        self.pre_tokenizer = pre_tokenizer or NoSplit()
        cuts = not isinstance(self.pre_tokenizer, NoSplit | AnySplit)
        self._spec = {"kind": "training", "merges": n_merges, "width": 4 * longest, "pairs": n_pairs}
        self._spec |= {"pattern": to_javascript(self.pre_tokenizer.pattern)} if cuts else {}

    def spec(self) -> dict:
        return self._spec

    def __call__(self, text: str) -> dict[str, Tensor | list]:
        steps = list(BPE.train([text], 257 + self.n_merges, pre_tokenizer=self.pre_tokenizer, trace=True))
        vocabulary = [bytes([byte]) for byte in range(256)] + [b"".join(step.pair) for step in steps[: self.n_merges]]
        id_of = {token: i for i, token in enumerate([*vocabulary, *(b"".join(s.pair) for s in steps[self.n_merges :])])}
        rows = [list(as_bytes(text))] + [[id_of[token] for piece in step.text for token in piece] for step in steps]
        pairs = [[(-count, *map(id_of.__getitem__, pair)) for pair, count in step.counts.items()] for step in steps]
        rows, pairs = ((found + found[-1:] * self.n_merges)[: self.n_merges + 1] for found in (rows, [*pairs, []]))
        tops = [(sorted(row) + [(1, -1, -1)] * self.n_pairs)[: self.n_pairs] for row in pairs]
        counts, left, right = torch.tensor(tops).unbind(-1)
        width = 4 * self.longest
        return {
            "ids": torch.tensor([row + [-1] * (width - len(row)) for row in rows]),
            "n": torch.tensor([len(row) for row in rows]),
            "left": left, "right": right, "counts": -counts,
            "made": torch.tensor(len(vocabulary) - 256),
            "vocabulary": [shown(token) for token in vocabulary],
        }  # fmt: skip
