r"""Unigram: a vocabulary in which each piece has a probability, and a text its most probable split.

Byte pair encoding builds a vocabulary up, merge by merge. Unigram starts with far too many pieces, finds out by
expectation and maximization how much each is needed, and takes away those that would be missed least.

A split of a text into pieces is as probable as the product of their probabilities, and the text itself as the sum over
its splits. All splits lie in one *lattice*: the places between the characters are its nodes, and each piece that fits
between two of them is an arc. What is wanted of the splits (the best one, their sum, a random one, how often each
piece occurs) takes one pass over the arcs, though the splits themselves are exponentially many.

Legend: ``scores`` are log probabilities, one for each id. Id -1 stands for a character that no piece holds; so the last
entry of ``scores``, behind those of all pieces, is what such a character costs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from math import exp, inf, isfinite, log
from random import Random
from types import NoneType
from typing import NamedTuple

from tqdm import tqdm

from llm_anatomy.tokenizers.base import Record, Tokenizer, as_bytes, one_by_one
from llm_anatomy.tokenizers.normalizing import Normalizer
from llm_anatomy.tokenizers.splitting import Splitter

UNKNOWN = -1
UNKNOWN_PENALTY = 10.0
"""By how much an unknown character is less probable (in logarithms) than the rarest piece; SentencePiece's value."""

PREFERENCE = 0.1
"""What SentencePiece takes off the score of a piece that somebody laid down."""

WORDS = Splitter(r" ?\S+|\s+(?!\S)", look_ahead=0)
"""A space goes with the word that follows it, so that "the" and " the" are two pieces."""

SPACES = Splitter(r" ?[^ ]+", look_ahead=0)
"""As SentencePiece has it: a word begins at each space, and other white space is like any character."""

Lattice = list[list[tuple[int, int]]]

# --- The lattice of all splits ---


def lattice(text: str, ids: Mapping[str, int], longest: int) -> Lattice:
    """All pieces that fit into a text.

    Args:
        text: to be split.
        ids: of the pieces.
        longest: how many characters the longest piece has.

    Returns:
        For each place between characters, from 0, the arcs that end there: (start, id of the piece). A character that
        is no piece gets an arc with id -1, so that there always is a way through.

    Source: Kudo (2018), section 3.2; GT-40.

    >>> lattice("aab", {"a": 0, "b": 1, "ab": 2}, longest=2)
    [[], [(0, 0)], [(1, 0)], [(1, 2), (2, 1)]]
    """
    arcs = [[] for _ in range(len(text) + 1)]
    for start in range(len(text)):
        for end in range(start + 1, min(start + longest, len(text)) + 1):
            if (i := ids.get(text[start:end])) is not None:
                arcs[end].append((start, i))
        if text[start] not in ids:
            arcs[start + 1].append((start, UNKNOWN))
    return arcs


def best_split(arcs: Lattice, scores: Sequence[float]) -> tuple[list[int], float]:
    r"""The most probable split, by Viterbi's algorithm: the best split that ends at a place is a piece that ends there
    after the best split that ends where the piece starts.

    .. math:: v_0 = 0, \quad v_j = \max_{(i, x) \to j} v_i + \log p(x)

    Args:
        arcs: as from :func:`lattice`.
        scores: log probability of each id; the last one for unknown characters.

    Returns:
        The ids, and the log probability of the split. Of equally good splits, that with the longest last piece.

    Source: Viterbi (1967); Kudo (2018), section 3.2; GT-40.

    >>> best_split([[], [(0, 0)], [(1, 0)], [(1, 2), (2, 1)]], [-1.0, -2.0, -2.5, -20.0])
    ([0, 2], -3.5)
    """
    best, last = [0.0], [(0, UNKNOWN)]
    for ending in arcs[1:]:
        highest = -inf
        for arc in ending:
            score = best[arc[0]] + scores[arc[1]]
            if score > highest:
                highest, chosen = score, arc
        best.append(highest)
        last.append(chosen)
    ids, place = [], len(arcs) - 1
    while place:
        place, i = last[place]
        ids.append(i)
    return ids[::-1], best[-1]


def forward(arcs: Lattice, scores: Sequence[float]) -> list[float]:
    r"""The log probability of each beginning of the text, summed over its splits. Viterbi with a sum for the maximum.

    .. math:: \alpha_0 = 0, \quad \alpha_j = \log \sum_{(i, x) \to j} e^{\alpha_i}\, p(x)

    Args:
        arcs: as from :func:`lattice`.
        scores: log probability of each id; the last one for unknown characters.

    Returns:
        One value for each place; the last is the log probability of the text.

    Source: Kudo (2018), section 3.2, equation 2; Rabiner (1989), section III.A; GT-40.

    >>> total = forward([[], [(0, 0)], [(0, 1), (1, 0)]], [log(0.5), log(0.25), -20.0])  # a a, or aa
    >>> round(exp(total[-1]), 3)
    0.5
    """
    alpha = [0.0]
    for ending in arcs[1:]:
        terms = [alpha[start] + scores[i] for start, i in ending]
        highest = max(terms)
        alpha.append(highest + log(sum(exp(term - highest) for term in terms)) if len(terms) > 1 else highest)
    return alpha


def sample_split(arcs: Lattice, scores: Sequence[float], rng: Random, alpha: float = 1.0) -> list[int]:
    r"""A random split: forward filtering, backward sampling. From the end of the text to its start, the last piece is
    drawn with the probability that it is the last one.

    .. math:: P(\text{the piece that ends at } j \text{ is } x, \text{ from } i) = e^{\alpha_i - \alpha_j}\, p(x)

    Args:
        arcs: as from :func:`lattice`.
        scores: log probability of each id; the last one for unknown characters.
        rng: where chance comes from.
        alpha: power to which the probabilities of the splits are raised: 0 makes all splits equally probable, a large
            one leaves the best alone.

    Returns:
        The ids.

    Source: Kudo (2018), section 3.3; Scott (2002), for forward filtering and backward sampling; GT-40.

    >>> arcs = [[], [(0, 0)], [(0, 1), (1, 0)]]  # a a, or aa
    >>> sample_split(arcs, [log(0.5), log(0.125), -20.0], Random(0), alpha=50.0)
    [0, 0]
    """
    scores = [alpha * score for score in scores]
    total, ids, place = forward(arcs, scores), [], len(arcs) - 1
    while place:
        shares = [exp(total[start] + scores[i] - total[place]) for start, i in arcs[place]]
        ((place, i),) = rng.choices(arcs[place], shares)
        ids.append(i)
    return ids[::-1]


# --- Training ---


def expected_counts(lattices: Iterable[tuple[Lattice, int]], scores: Sequence[float]) -> tuple[list[float], float]:
    r"""The E step: how often each piece occurs, on average over the splits of all words.

    Each word pours its count in at its last place. From each place the amount flows back along the arcs that end
    there, in the shares that sampling draws with; what flows along an arc is what its piece is counted.

    Args:
        lattices: that of each word, and how often the word occurs.
        scores: log probability of each id, and a last entry for unknown characters.

    Returns:
        The expected count of each id, and the log likelihood of all words under these scores.

    Source: Kudo (2018), section 3.2; Dempster, Laird and Rubin (1977); GT-40.

    >>> arcs = [[], [(0, 0)], [(0, 1), (1, 0)]]  # a a, or aa: as probable with these scores
    >>> counts, _ = expected_counts([(arcs, 4)], [log(0.5), log(0.25), -20.0])
    >>> [round(count, 6) for count in counts[:2]]
    [4.0, 2.0]
    """
    counts, likelihood = [0.0] * len(scores), 0.0
    for arcs, times in lattices:
        alpha = forward(arcs, scores)
        likelihood += times * alpha[-1]
        flow = [0.0] * (len(arcs) - 1) + [times]
        for place in range(len(arcs) - 1, 0, -1):
            for start, i in arcs[place]:
                share = flow[place] * exp(alpha[start] + scores[i] - alpha[place])
                counts[i] += share
                flow[start] += share
    return counts, likelihood


def maximized(counts: Sequence[float]) -> list[float]:
    r"""The M step: the log probabilities under which the counts are most probable.

    .. math:: p(x) = c(x) / \textstyle\sum_y c(y)

    Args:
        counts: of each id; a last entry, for unknown characters, is passed over.

    Returns:
        The scores, and for unknown characters one that is lower than any.

    Source: Kudo (2018), section 3.2; GT-40.

    >>> [round(exp(score), 3) for score in maximized([3.0, 1.0, 0.0])[:2]]
    [0.75, 0.25]
    """
    total = log(sum(counts[:-1]))
    scores = [log(max(count, 1e-12)) - total for count in counts[:-1]]  # none may become impossible
    return [*scores, min(scores) - UNKNOWN_PENALTY]


def seed_pieces(words: Mapping[str, int], max_length: int, n_pieces: int) -> dict[str, float]:
    """Far more pieces than needed: all characters, and the substrings that cover most of the text.

    A substring is counted only if what precedes its last character occurs twice, so that few are counted in vain.

    Args:
        words: how often each occurs.
        max_length: of a piece, in characters.
        n_pieces: at most so many, and all characters in any case.

    Returns:
        The pieces, each with its count times its length, most first.

    Source: Kudo (2018), section 3.2, step 1, which finds them with a suffix array; GT-40.

    >>> seed_pieces({"abab": 2, "c": 1}, max_length=3, n_pieces=5)
    {'ab': 8.0, 'aba': 6.0, 'a': 4.0, 'b': 4.0, 'c': 1.0}
    """
    characters = Counter()
    for word, times in words.items():
        for character in word:
            characters[character] += times
    frequent, longer = characters, {}
    for length in range(2, max_length + 1):
        counts = Counter()
        for word, times in words.items():
            for start in range(len(word) - length + 1):
                if word[start : start + length - 1] in frequent:
                    counts[word[start : start + length]] += times
        frequent = {piece: count for piece, count in counts.items() if count > 1}
        longer |= {piece: float(count * length) for piece, count in frequent.items()}
    n_longer = max(0, n_pieces - len(characters))
    best = sorted(longer.items(), key=lambda entry: (-entry[1], entry[0]))[:n_longer]
    weights = {character: float(count) for character, count in characters.items()} | dict(best)
    return dict(sorted(weights.items(), key=lambda entry: (-entry[1], entry[0])))


def losses(pieces: Sequence[str], scores: Sequence[float], counts: Sequence[float]) -> list[float]:
    r"""By how much the log likelihood would fall, about, if a piece were taken away: as often as it is counted, the
    best split of the piece itself would have to stand in for it.

    .. math:: \mathrm{loss}(x) = c(x) \left( \log p(x) - \max_{\text{splits of } x \text{ without } x} \log P \right)

    Args:
        pieces: their places are their ids.
        scores: log probability of each id, and a last entry for unknown characters.
        counts: of each id.

    Returns:
        The loss of each id; infinite for single characters, which nothing can stand in for.

    Source: Kudo (2018), section 3.2, step 2b; SentencePiece's trainer makes the same approximation; GT-40.

    >>> [round(x, 3) for x in losses(["a", "aa"], [log(0.5), log(0.4), -20.0], [1.0, 10.0])]
    [inf, 4.7]
    """
    ids, longest = {piece: i for i, piece in enumerate(pieces)}, max(map(len, pieces))
    result = []
    for piece, score, count in zip(pieces, scores, counts, strict=False):
        if len(piece) == 1:
            result.append(inf)
            continue
        arcs = lattice(piece, ids, longest)
        arcs[-1].remove((0, ids[piece]))
        result.append(count * (score - best_split(arcs, scores)[1]))
    return result


class Round(NamedTuple):
    """What training knows after an E and an M step.

    Source: Kudo (2018), section 3.2; GT-40.

    >>> Round({"a": 0.0}, -3.0).scores
    {'a': 0.0}
    """

    scores: dict[str, float]
    """Log probability of each piece after the M step."""
    log_likelihood: float
    """Of all words before it; among rounds with the same pieces it never falls."""


def training_rounds(
    words: Mapping[str, int], n_pieces: int, max_length: int = 16, n_seeds: int | None = None, em_steps: int = 2
) -> Iterator[Round]:
    """Seed, then by turns estimate and prune by a quarter, until so many pieces are left; then estimate once more.

    Args:
        words: how often each occurs.
        n_pieces: how many are wanted.
        max_length: of a piece, in characters.
        n_seeds: how many to begin with, eight times as many by default.
        em_steps: how many E and M steps before each pruning, and at the end.

    Raises:
        ValueError: if there are more characters than pieces wanted, or too few substrings.

    Source: Kudo (2018), section 3.2; GT-40.

    >>> [len(r.scores) for r in training_rounds({"abab": 4, "abc": 2, "ac": 1}, 4)]
    [10, 10, 7, 7, 5, 5, 4, 4]
    """
    weights = seed_pieces(words, max_length, 8 * n_pieces if n_seeds is None else n_seeds)
    n_characters = sum(len(piece) == 1 for piece in weights)
    if not n_characters <= n_pieces <= len(weights):
        raise ValueError(
            f"{n_pieces=} must be from {n_characters}, the characters of the text, to {len(weights)}, the pieces found"
        )
    pieces, scores = list(weights), maximized([*weights.values(), 0.0])
    while True:
        ids, longest = {piece: i for i, piece in enumerate(pieces)}, max(map(len, pieces))
        lattices = [(lattice(word, ids, longest), times) for word, times in words.items()]
        for _ in range(em_steps):
            counts, likelihood = expected_counts(lattices, scores)
            scores = maximized(counts)
            yield Round(dict(zip(pieces, scores, strict=False)), likelihood)
        if len(pieces) == n_pieces:
            return
        missed = losses(pieces, scores, counts)
        n_kept = max(n_pieces, n_characters, len(pieces) * 3 // 4)
        kept = sorted(sorted(ids.values(), key=lambda i: (-missed[i], i))[:n_kept])
        pieces, scores = [pieces[i] for i in kept], maximized([*(counts[i] for i in kept), 0.0])


def count_words(texts: Iterable[str], splitter: Splitter, coverage: float) -> Counter[str]:
    """How often each word occurs; words are cut at characters too rare to get a piece of their own.

    Args:
        texts: to be counted.
        splitter: what makes words of them.
        coverage: the share of the text whose characters get pieces, the most frequent ones first.

    Source: Kudo and Richardson (2018), section 3.2, character coverage; GT-42.

    >>> sorted(count_words(["a aba"], WORDS, coverage=0.8).items())
    [(' a', 1), ('a', 2)]
    """
    words = Counter(chain.from_iterable(map(splitter, texts)))
    characters = Counter()
    for word, times in words.items():
        for character in word:
            characters[character] += times
    covered, kept = 0, set()
    for character, times in sorted(characters.items(), key=lambda entry: (-entry[1], entry[0])):
        if (
            covered >= coverage * characters.total() or 0xD800 <= ord(character) < 0xE000
        ):  # surrogates are no characters
            continue
        covered += times
        kept.add(character)
    if len(kept) == len(characters):
        return words
    cut = Counter()
    for word, times in words.items():
        for is_kept, part in groupby(word, kept.__contains__):
            if is_kept:
                cut["".join(part)] += times
    return cut


# --- The tokenizer ---


class Unigram(Tokenizer):
    r"""The most probable split of each word into pieces; characters that no piece holds are written as bytes.

    .. math:: \hat{x} = \arg\max_{x_1 \cdots x_n = \text{word}} \prod_i p(x_i)

    Args:
        vocabulary: the bytes that each id stands for.
        scores: the log probability of each id; None for those that are no pieces: bytes, unknown and special tokens.
        byte_ids: the ids of the bytes 0 to 255, in order; none, where the vocabulary has no bytes to fall back to.
        unknown: the id that stands for a character, or several in a row, where there are no bytes.
        splitter: what makes words of a text.
        special_tokens: text and id of each.
        prefix: put before every text, as SentencePiece does with a space.
        normalizer: as in ``Tokenizer``.
        preferred: the ids of pieces that somebody laid down, whose scores are not learned. SentencePiece gives them
            the highest learned score for each byte, so that they are nearly always chosen.

    Raises:
        ValueError: if scores and vocabulary do not fit together; in ``encode``, for a character without piece, if
            there are neither bytes nor an unknown token.

    Source: Kudo (2018), "Subword Regularization"; Kudo and Richardson (2018), "SentencePiece"; GT-40, GT-42.

    >>> tokenizer = Unigram.from_pieces([("▁", -3.0), ("a", -2.0), ("b", -2.5), ("▁ab", -4.0), ("<unk>", 0.0)], "<unk>")
    >>> tokenizer.encode("ab ab ba"), tokenizer.vocabulary[3]
    ([1, 2, 3, 0, 2, 1], b' ab')
    """

    def __init__(
        self,
        vocabulary: Sequence[bytes],
        scores: Sequence[float | None],
        *,
        byte_ids: Sequence[int] = (),
        unknown: int | None = None,
        splitter: Splitter = WORDS,
        special_tokens: Mapping[str, int] | None = None,
        prefix: str = "",
        normalizer: Normalizer | None = None,
        preferred: Sequence[int] = (),
    ):
        super().__init__(vocabulary, splitter, special_tokens, prefix, normalizer)
        self.scores, self.byte_ids, self.unknown = list(scores), list(byte_ids), unknown
        self.preferred = list(preferred)
        self._check_shapes()
        self._ids_of = {vocabulary[i].decode(): i for i, score in enumerate(scores) if score is not None}
        self._longest = max(map(len, self._ids_of))
        laid_down = set(preferred)
        learned = [score for i, score in enumerate(scores) if score is not None and i not in laid_down]
        self._costs = [*(-inf if score is None else score for score in scores), min(learned) - UNKNOWN_PENALTY]
        for i in preferred:
            self._costs[i] = len(vocabulary[i].replace(b" ", as_bytes("▁"))) * max(learned) - PREFERENCE

    def _check_shapes(self) -> None:
        if len(self.scores) != self.n_vocab:
            raise ValueError(f"there are {len(self.scores)} scores for {self.n_vocab} tokens; each needs one, or None")
        pieces = set()
        for i, (token, score) in enumerate(zip(self._vocabulary, self.scores, strict=True)):
            if score is None:
                continue
            if not isfinite(score):
                raise ValueError(f"scores[{i}]={score!r} must be a finite number, or None")
            if not token or token in pieces or not _is_text(token):
                raise ValueError(f"vocabulary[{i}]={token!r} has a score; it must be text, not empty, and come once")
            pieces.add(token)
        if not pieces:
            raise ValueError("scores are all None; at least one token must be a piece")
        if self.byte_ids and not (
            len(self.byte_ids) == 256
            and all(0 <= i < self.n_vocab and self._vocabulary[i] == bytes([b]) for b, i in enumerate(self.byte_ids))
        ):
            raise ValueError("byte_ids must be the 256 ids of the bytes 0 to 255, in order, or none")
        if not all(0 <= i < self.n_vocab and self.scores[i] is not None for i in self.preferred):
            raise ValueError(f"preferred={self.preferred} must be ids of pieces")
        if len(pieces) == len(set(self.preferred)):
            raise ValueError("preferred holds all pieces; at least one score must be learned")
        if self.unknown is not None and not 0 <= self.unknown < self.n_vocab:
            raise ValueError(f"unknown={self.unknown!r} must be an id, 0 to {self.n_vocab - 1}, or None")

    @classmethod
    def from_pieces(
        cls,
        pieces: Sequence[tuple[str, float]],
        unknown: str | None = None,
        *,
        special_tokens: Iterable[str] = (),
        splitter: Splitter = SPACES,
        prefix: str = "",
        normalizer: Normalizer | None = None,
        preferred: Sequence[int] = (),
    ) -> "Unigram":
        """From pieces as SentencePiece writes them: ``▁`` for a space, ``<0x0A>`` for a byte.

        Args:
            pieces: each with its score; their places are their ids.
            unknown: which of them stands for what is unknown.
            special_tokens: which of them are special.
            splitter: ``Whole()`` where pieces hold a space that is not their first character.
            prefix: a space, where the model was trained with SentencePiece's dummy prefix.
            normalizer, preferred: as for the class.

        Raises:
            ValueError: for an unknown or special token that is none of the pieces, and as the class does.
        """
        places = {piece: i for i, (piece, _) in enumerate(pieces)}
        for name in [*special_tokens, *([] if unknown is None else [unknown])]:
            if name not in places:
                raise ValueError(f"{name!r} is none of the pieces")
        bytes_of = {f"<0x{b:02X}>": bytes([b]) for b in range(256)}
        others = {*special_tokens, unknown}
        plain = [piece not in others and piece not in bytes_of for piece, _ in pieces]
        return cls(
            [
                as_bytes(piece.replace("▁", " ")) if is_plain else bytes_of.get(piece, as_bytes(piece))
                for (piece, _), is_plain in zip(pieces, plain, strict=True)
            ],
            [score if is_plain else None for (_, score), is_plain in zip(pieces, plain, strict=True)],
            byte_ids=[places[name] for name in bytes_of if name in places],
            unknown=None if unknown is None else places[unknown],
            splitter=splitter,
            special_tokens={name: places[name] for name in special_tokens},
            prefix=prefix,
            normalizer=normalizer,
            preferred=preferred,
        )

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        n_vocab: int,
        *,
        splitter: Splitter = WORDS,
        special_tokens: Sequence[str] = (),
        prefix: str = "",
        max_length: int = 16,
        coverage: float = 0.9995,
        progress: bool = False,
    ) -> "Unigram":
        """Learn pieces and their probabilities. See :func:`training_rounds` for the steps, one by one.

        Args:
            texts: to learn from.
            n_vocab: how many ids: 256 bytes, the special tokens, and the rest are pieces, the most probable first.
            splitter, special_tokens, prefix: as for the class; special tokens come after the bytes.
            max_length: of a piece, in characters.
            coverage: the share of the text whose characters get pieces; the rest is left to bytes.
            progress: show a bar.

        Raises:
            ValueError: for a number out of range, or too many or too few pieces wanted for the text.
        """
        texts = one_by_one(texts)
        if max_length < 1 or not 0 < coverage <= 1:
            raise ValueError(f"{max_length=} must be at least 1 and {coverage=} above 0 and at most 1")
        first = [bytes([b]) for b in range(256)] + [as_bytes(text) for text in special_tokens]
        if n_vocab <= len(first):
            raise ValueError(f"{n_vocab=} must be above {len(first)}, for the bytes and special tokens")
        words = count_words((prefix + text for text in texts), splitter, coverage)
        if not words:
            raise ValueError("texts hold no character to learn from")
        rounds = training_rounds(words, n_vocab - len(first), max_length)
        for last in tqdm(rounds, "Unigram", unit="round", disable=not progress):
            scores = last.scores
        scores = dict(sorted(scores.items(), key=lambda entry: (-entry[1], entry[0])))
        return cls(
            [*first, *map(as_bytes, scores)],
            [*[None] * len(first), *scores.values()],
            byte_ids=range(256),
            splitter=splitter,
            special_tokens={text: 256 + i for i, text in enumerate(special_tokens)},
            prefix=prefix,
        )

    def sample(self, text: str, rng: Random, alpha: float = 0.1) -> list[int]:
        """The ids of a random split, so that a model sees a text in many ways: subword regularization.

        Args:
            text: without special tokens.
            rng: where chance comes from.
            alpha: 1 for splits as probable as the vocabulary says, less for more variety; at least 0.

        Raises:
            ValueError: for a special token in the text, or a negative ``alpha``.

        Source: Kudo (2018), section 3.3; GT-40.
        """
        if not alpha >= 0:
            raise ValueError(f"{alpha=} must be at least 0")
        if found := self._special.search(text):
            self._special_id(found[0], ())
        ids = []
        for word in self.splitter(self._prepared(text)):
            ids += self._spelled(word, sample_split(self._lattice(word), self._costs, rng, alpha))
        return ids

    def _ids(self, piece: str) -> list[int]:
        return self._spelled(piece, best_split(self._lattice(piece), self._costs)[0])

    def _lattice(self, word: str) -> Lattice:
        return lattice(word, self._ids_of, self._longest)

    def _spelled(self, word: str, split: Sequence[int]) -> list[int]:
        """The split, with bytes, or one unknown token for a run, where characters have no piece."""
        if UNKNOWN not in split:
            return list(split)
        ids, place, run = [], 0, False
        for i in split:
            if i != UNKNOWN:
                ids.append(i)
                place += len(self._vocabulary[i].decode())
            else:
                ids += self._fallback(word[place]) if self.byte_ids or not run else []
                place += 1
            run = i == UNKNOWN
        return ids

    def _fallback(self, character: str) -> list[int]:
        if self.byte_ids:
            return [self.byte_ids[b] for b in as_bytes(character)]
        if self.unknown is None:
            raise ValueError(f"no piece holds {character!r}, and there are neither bytes nor an unknown token")
        return [self.unknown]

    def _state(self) -> dict:
        state = {"scores": self.scores, "byte_ids": self.byte_ids, "unknown": self.unknown}
        return state | ({"preferred": self.preferred} if self.preferred else {})

    @classmethod
    def _from_state(cls, record: Record, **arguments) -> "Unigram":
        scores, byte_ids = record.take("scores", list), record.take("byte_ids", list)
        unknown = record.take("unknown", object)
        preferred = record.take("preferred", list) if "preferred" in record.fields else []
        for key, values, kinds in [
            ("scores", scores, (float, int, NoneType)),
            ("byte_ids", byte_ids, (int,)),
            ("preferred", preferred, (int,)),
        ]:
            for i, value in enumerate(values):
                if type(value) not in kinds:
                    record.refuse(
                        key, f"entry {i} is {value!r:.40}; a number{' or null' * (key == 'scores')} is wanted"
                    )
        if type(unknown) not in (int, NoneType):
            record.refuse("unknown", f"{unknown!r:.40} is neither an id nor null")
        return cls(scores=scores, byte_ids=byte_ids, unknown=unknown, preferred=preferred, **arguments)


def _is_text(token: bytes) -> bool:
    try:
        return bool(token.decode())
    except UnicodeDecodeError:
        return False
