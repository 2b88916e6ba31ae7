r"""The Unigram tokenizer: each piece has a probability, and a text is encoded by its most probable segmentation.

Byte pair encoding builds a vocabulary up, merge by merge. Unigram starts with far too many pieces, estimates their
probabilities by expectation maximization, and removes those whose removal lowers the likelihood least.

The probability of a segmentation is the product of the probabilities of its pieces, and the probability of a text is
the sum over its segmentations. All segmentations form one *lattice*. Its nodes are the positions between characters,
numbered from 0, and each piece that fits between two positions is an arc. The best segmentation, the sum over all of
them, a random one, and the expected count of each piece each take one pass over the arcs, although the number of
segmentations is exponential.

In this module, ``scores`` are log probabilities, one for each id. The id -1 denotes a character that is not a piece, so
the last entry of ``scores``, after those of all pieces, is the score of such a character.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from math import exp, inf, isfinite, log
from random import Random
from types import NoneType
from typing import NamedTuple

from tqdm import tqdm

from llm_anatomy.files import Record
from llm_anatomy.tokenizers.base import BYTE_NAMES, SPACE, PieceTokenizer, as_bytes, check_texts
from llm_anatomy.tokenizers.normalization import Normalizer
from llm_anatomy.tokenizers.pretokenization import PreTokenizer

UNKNOWN = -1
UNKNOWN_PENALTY = 10.0
"""Difference in log probability between the rarest piece and an unknown character; SentencePiece's value."""

USER_DEFINED_PENALTY = 0.1
"""SentencePiece subtracts this from the score of each user-defined piece."""

WORDS = PreTokenizer(r" ?\S+|\s+(?!\S)", look_ahead=0)
"""A space belongs to the word after it, so that "the" and " the" are two different pieces."""

METASPACE = PreTokenizer(r" ?[^ ]+", look_ahead=0)
"""SentencePiece's rule: a word begins at each space, and other white space is treated like any other character."""

Lattice = list[list[tuple[int, int]]]

# --- The lattice of all segmentations ---


def lattice(text: str, ids: Mapping[str, int], longest: int) -> Lattice:
    """Find all pieces in a text.

    Args:
        text: the text to segment.
        ids: the id of each piece.
        longest: number of characters in the longest piece.

    Returns:
        For each position, the arcs that end there, each a pair (start position, id of the piece). A character that is
        not a piece has an arc with id -1, so that a segmentation always exists.

    Source: Kudo (2018), section 3.2; GT-40.

    >>> lattice("aab", {"a": 0, "b": 1, "ab": 2}, longest=2)
    [[], [(0, 0)], [(1, 0)], [(1, 2), (2, 1)]]
    """
    arcs: Lattice = [[] for _ in range(len(text) + 1)]
    for start in range(len(text)):
        for end in range(start + 1, min(start + longest, len(text)) + 1):
            if (i := ids.get(text[start:end])) is not None:
                arcs[end].append((start, i))
        if text[start] not in ids:
            arcs[start + 1].append((start, UNKNOWN))
    return arcs


def best_segmentation(arcs: Lattice, scores: Sequence[float]) -> tuple[list[int], float]:
    r"""Find the most probable segmentation with the Viterbi algorithm.

    The best segmentation up to a position is a piece that ends there, after the best segmentation up to its start.

    .. math:: v_0 = 0, \quad v_j = \max_{(i, x) \to j} v_i + \log p(x)

    Args:
        arcs: a lattice, as from :func:`lattice`.
        scores: log probability of each id, and last that of an unknown character.

    Returns:
        The ids of the pieces, and the log probability of the segmentation. Of equally probable segmentations, the one
        with the longest last piece.

    Source: Viterbi (1967); Kudo (2018), section 3.2; GT-40.

    >>> best_segmentation([[], [(0, 0)], [(1, 0)], [(1, 2), (2, 1)]], [-1.0, -2.0, -2.5, -20.0])
    ([0, 2], -3.5)
    """
    best, last = [0.0], [(0, UNKNOWN)]
    for ending in arcs[1:]:
        highest, chosen = -inf, ending[0]
        for arc in ending:
            score = best[arc[0]] + scores[arc[1]]
            if score > highest:
                highest, chosen = score, arc
        best.append(highest)
        last.append(chosen)
    ids, position = [], len(arcs) - 1
    while position:
        position, i = last[position]
        ids.append(i)
    return ids[::-1], best[-1]


def forward(arcs: Lattice, scores: Sequence[float]) -> list[float]:
    r"""The forward algorithm: log probability of each prefix of the text, summed over its segmentations.

    This is the Viterbi algorithm with a sum in place of the maximum.

    .. math:: \alpha_0 = 0, \quad \alpha_j = \log \sum_{(i, x) \to j} e^{\alpha_i}\, p(x)

    Args:
        arcs: a lattice, as from :func:`lattice`.
        scores: log probability of each id, and last that of an unknown character.

    Returns:
        One value for each position; the last is the log probability of the text.

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


def sample_segmentation(arcs: Lattice, scores: Sequence[float], rng: Random, alpha: float = 1.0) -> list[int]:
    r"""Sample a segmentation by forward filtering and backward sampling.

    From the end of the text to its start, the last piece is drawn from its distribution, given where it ends.

    .. math:: P(\text{the piece that ends at } j \text{ is } x, \text{ from } i) = e^{\alpha_i - \alpha_j}\, p(x)

    Args:
        arcs: a lattice, as from :func:`lattice`.
        scores: log probability of each id, and last that of an unknown character.
        rng: source of randomness.
        alpha: power to which the probabilities of the segmentations are raised. With 0, all are equally probable; with
            a large value, the best one is nearly certain.

    Returns:
        The ids of the pieces.

    Source: Kudo (2018), section 3.3; Scott (2002), for forward filtering and backward sampling; GT-40.

    >>> arcs = [[], [(0, 0)], [(0, 1), (1, 0)]]  # a a, or aa
    >>> sample_segmentation(arcs, [log(0.5), log(0.125), -20.0], Random(0), alpha=50.0)
    [0, 0]
    """
    scores = [alpha * score for score in scores]
    total, ids, position = forward(arcs, scores), [], len(arcs) - 1
    while position:
        probabilities = [exp(total[start] + scores[i] - total[position]) for start, i in arcs[position]]
        ((position, i),) = rng.choices(arcs[position], probabilities)
        ids.append(i)
    return ids[::-1]


# --- Training ---


def expected_counts(lattices: Iterable[tuple[Lattice, int]], scores: Sequence[float]) -> tuple[list[float], float]:
    r"""The E step: expected count of each piece over the segmentations of all words.

    The count of a word starts at its last position and flows back through the lattice. At each position it is divided
    among the arcs that end there, with the probabilities of :func:`sample_segmentation`. The expected count of a piece
    is what flows along its arcs.

    Args:
        lattices: the lattice of each word, and the count of the word.
        scores: log probability of each id, and last that of an unknown character.

    Returns:
        The expected count of each id, and the log likelihood of all words under these scores.

    Source: Kudo (2018), section 3.2; Dempster, Laird and Rubin (1977); GT-40.

    >>> arcs = [[], [(0, 0)], [(0, 1), (1, 0)]]  # a a, or aa: equally probable with these scores
    >>> counts, _ = expected_counts([(arcs, 4)], [log(0.5), log(0.25), -20.0])
    >>> [round(count, 6) for count in counts[:2]]
    [4.0, 2.0]
    """
    counts, likelihood = [0.0] * len(scores), 0.0
    for arcs, times in lattices:
        alpha = forward(arcs, scores)
        likelihood += times * alpha[-1]
        flow = [0.0] * (len(arcs) - 1) + [float(times)]
        for position in range(len(arcs) - 1, 0, -1):
            for start, i in arcs[position]:
                share = flow[position] * exp(alpha[start] + scores[i] - alpha[position])
                counts[i] += share
                flow[start] += share
    return counts, likelihood


def maximum_likelihood_scores(counts: Sequence[float]) -> list[float]:
    r"""The M step: the log probabilities that maximize the likelihood of the counts.

    .. math:: p(x) = c(x) / \textstyle\sum_y c(y)

    Args:
        counts: expected count of each id, and last that of unknown characters, which is ignored.

    Returns:
        The score of each id, and last that of an unknown character, which is lower than all others.

    Source: Kudo (2018), section 3.2; GT-40.

    >>> [round(exp(score), 3) for score in maximum_likelihood_scores([3.0, 1.0, 0.0])[:2]]
    [0.75, 0.25]
    """
    total = log(sum(counts[:-1]))
    scores = [log(max(count, 1e-12)) - total for count in counts[:-1]]  # no piece may get probability 0
    return [*scores, min(scores) - UNKNOWN_PENALTY]


def seed_pieces(words: Mapping[str, int], max_piece_length: int, n_pieces: int) -> dict[str, float]:
    """Collect the seed vocabulary: all characters, and the substrings that cover most of the text.

    A substring is counted only if the substring without its last character occurs at least twice, which saves time.

    Args:
        words: count of each word.
        max_piece_length: largest number of characters in a piece.
        n_pieces: largest number of pieces; the characters are included in any case.

    Returns:
        For each piece its count times its length, in descending order.

    Source: Kudo (2018), section 3.2, step 1, with a suffix array; GT-40.

    >>> seed_pieces({"abab": 2, "c": 1}, max_piece_length=3, n_pieces=5)
    {'ab': 8.0, 'aba': 6.0, 'a': 4.0, 'b': 4.0, 'c': 1.0}
    """
    characters = Counter[str]()
    for word, times in words.items():
        for character in word:
            characters[character] += times
    frequent: Mapping[str, int] = characters
    longer: dict[str, float] = {}
    for length in range(2, max_piece_length + 1):
        counts = Counter[str]()
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


def pruning_losses(pieces: Sequence[str], scores: Sequence[float], counts: Sequence[float]) -> list[float]:
    r"""Approximate loss of log likelihood if a piece were removed from the vocabulary.

    The approximation replaces each occurrence of the piece by the best segmentation of its text into other pieces.

    .. math:: \mathrm{loss}(x) = c(x) \left( \log p(x) - \max_{s \in S(x) \setminus \{x\}} \log P(s) \right)

    Args:
        pieces: the pieces in the order of their ids.
        scores: log probability of each id, and last that of an unknown character.
        counts: expected count of each id.

    Returns:
        The loss of each id; infinite for single characters, which no other pieces can replace.

    Source: Kudo (2018), section 3.2, step 2b, with the approximation of SentencePiece's trainer; GT-40.

    >>> [round(x, 3) for x in pruning_losses(["a", "aa"], [log(0.5), log(0.4), -20.0], [1.0, 10.0])]
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
        result.append(count * (score - best_segmentation(arcs, scores)[1]))
    return result


class TrainingRound(NamedTuple):
    """The state of training after one E step and one M step.

    Source: Kudo (2018), section 3.2; GT-40.

    >>> TrainingRound({"a": 0.0}, -3.0).scores
    {'a': 0.0}
    """

    scores: dict[str, float]
    """Log probability of each piece after the M step."""
    log_likelihood: float
    """Log likelihood of all words before the M step; it never falls between rounds with the same pieces."""


def training_rounds(
    words: Mapping[str, int],
    n_pieces: int,
    max_piece_length: int = 16,
    n_seed_pieces: int | None = None,
    n_em_steps: int = 2,
) -> Iterator[TrainingRound]:
    """Train a Unigram vocabulary: estimate the scores and prune a quarter of the pieces, in turns.

    Training starts from :func:`seed_pieces` and ends with an estimate for the final pieces.

    Args:
        words: count of each word.
        n_pieces: number of pieces at the end.
        max_piece_length: largest number of characters in a piece.
        n_seed_pieces: number of pieces at the start, ``8 * n_pieces`` by default.
        n_em_steps: number of E and M steps before each pruning, and at the end.

    Yields:
        The state after each E and M step.

    Raises:
        ValueError: if the words have more than ``n_pieces`` characters, or too few substrings.

    Source: Kudo (2018), section 3.2; GT-40.

    >>> [len(r.scores) for r in training_rounds({"abab": 4, "abc": 2, "ac": 1}, 4)]
    [10, 10, 7, 7, 5, 5, 4, 4]
    """
    weights = seed_pieces(words, max_piece_length, 8 * n_pieces if n_seed_pieces is None else n_seed_pieces)
    n_characters = sum(len(piece) == 1 for piece in weights)
    if not n_characters <= n_pieces <= len(weights):
        raise ValueError(
            f"{n_pieces=} must be from {n_characters}, the characters of the text, to {len(weights)}, the seed pieces"
        )
    pieces, scores = list(weights), maximum_likelihood_scores([*weights.values(), 0.0])
    counts: list[float] = []
    while True:
        ids, longest = {piece: i for i, piece in enumerate(pieces)}, max(map(len, pieces))
        lattices = [(lattice(word, ids, longest), times) for word, times in words.items()]
        for _ in range(n_em_steps):
            counts, likelihood = expected_counts(lattices, scores)
            scores = maximum_likelihood_scores(counts)
            yield TrainingRound(dict(zip(pieces, scores, strict=False)), likelihood)
        if len(pieces) == n_pieces:
            return
        losses = pruning_losses(pieces, scores, counts)
        n_kept = max(n_pieces, n_characters, len(pieces) * 3 // 4)
        kept = sorted(sorted(ids.values(), key=lambda i: (-losses[i], i))[:n_kept])
        pieces, scores = [pieces[i] for i in kept], maximum_likelihood_scores([*(counts[i] for i in kept), 0.0])


def count_words(texts: Iterable[str], pre_tokenizer: PreTokenizer, character_coverage: float) -> Counter[str]:
    """Count the words of texts. Words are cut at characters that are too rare to be pieces.

    Args:
        texts: the texts.
        pre_tokenizer: cuts the texts into words.
        character_coverage: share of the text that is covered by characters with pieces, the most frequent first.

    Source: Kudo and Richardson (2018), section 3.2, character coverage; GT-42.

    >>> sorted(count_words(["a aba"], WORDS, character_coverage=0.8).items())
    [(' a', 1), ('a', 2)]
    """
    words = Counter(chain.from_iterable(map(pre_tokenizer, texts)))
    characters = Counter[str]()
    for word, times in words.items():
        for character in word:
            characters[character] += times
    covered, kept = 0, set[str]()
    for character, times in sorted(characters.items(), key=lambda entry: (-entry[1], entry[0])):
        is_surrogate = 0xD800 <= ord(character) < 0xE000  # not a character: it has no UTF-8
        if covered < character_coverage * characters.total() and not is_surrogate:
            covered += times
            kept.add(character)
    if len(kept) == len(characters):
        return words
    cut = Counter[str]()
    for word, times in words.items():
        for is_kept, part in groupby(word, kept.__contains__):
            if is_kept:
                cut["".join(part)] += times
    return cut


# --- The tokenizer ---


class Unigram(PieceTokenizer):
    r"""Encode each word by its most probable segmentation into pieces; characters without a piece become bytes.

    .. math:: \hat{x} = \arg\max_{x_1 \cdots x_n = \text{word}} \prod_i p(x_i)

    Args:
        vocabulary: the bytes of each token.
        scores: the log probability of each id; None for ids that are not pieces: bytes, unknown and special tokens.
        byte_ids: the ids of the bytes 0 to 255, in order; empty for a vocabulary without byte fallback.
        unk_id: the id of the unknown token, which encodes a run of characters without pieces if there are no bytes.
        pre_tokenizer, special_tokens, prefix, normalizer: as in ``PieceTokenizer``.
        user_defined: the ids of pieces whose scores are not learned. SentencePiece gives each of them the highest
            learned score, times its number of bytes, so that it is nearly always chosen.

    Raises:
        ValueError: if scores and vocabulary do not fit together; in ``encode``, for a character without a piece, if
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
        unk_id: int | None = None,
        pre_tokenizer: PreTokenizer = WORDS,
        special_tokens: Mapping[str, int] | None = None,
        prefix: str = "",
        normalizer: Normalizer | None = None,
        user_defined: Sequence[int] = (),
    ):
        super().__init__(vocabulary, pre_tokenizer, special_tokens, prefix, normalizer)
        self.scores, self.byte_ids, self.unk_id = list(scores), list(byte_ids), unk_id
        self.user_defined = list(user_defined)
        self._check_fields()
        self._ids_of = {vocabulary[i].decode(): i for i, score in enumerate(scores) if score is not None}
        self._longest = max(map(len, self._ids_of))
        fixed = set(user_defined)
        learned = [score for i, score in enumerate(scores) if score is not None and i not in fixed]
        self._costs = [*(-inf if score is None else score for score in scores), min(learned) - UNKNOWN_PENALTY]
        for i in user_defined:
            self._costs[i] = len(vocabulary[i].replace(b" ", as_bytes("▁"))) * max(learned) - USER_DEFINED_PENALTY

    def _check_fields(self) -> None:
        if len(self.scores) != self.n_vocab:
            raise ValueError(
                f"scores has {len(self.scores)} entries; it must have one for each of {self.n_vocab} tokens"
            )
        pieces = set()
        for i, (token, score) in enumerate(zip(self._vocabulary, self.scores, strict=True)):
            if score is None:
                continue
            if not isfinite(score):
                raise ValueError(f"scores[{i}]={score!r} must be a finite number or None")
            if not token or token in pieces or not _is_text(token):
                raise ValueError(f"vocabulary[{i}]={token!r} has a score, so it must be text, not empty, and unique")
            pieces.add(token)
        if not pieces:
            raise ValueError("scores are all None; at least one token must have a score")
        if self.byte_ids and not (
            len(self.byte_ids) == 256
            and all(0 <= i < self.n_vocab and self._vocabulary[i] == bytes([b]) for b, i in enumerate(self.byte_ids))
        ):
            raise ValueError("byte_ids must be the ids of the bytes 0 to 255, in order, or empty")
        if not all(0 <= i < self.n_vocab and self.scores[i] is not None for i in self.user_defined):
            raise ValueError(f"preferred={self.user_defined} must be ids of pieces")
        if len(pieces) == len(set(self.user_defined)):
            raise ValueError("user_defined contains all pieces; at least one score must be learned")
        if self.unk_id is not None and not 0 <= self.unk_id < self.n_vocab:
            raise ValueError(f"unk_id={self.unk_id!r} must be an id from 0 to {self.n_vocab - 1}, or None")

    @classmethod
    def from_pieces(
        cls,
        pieces: Sequence[tuple[str, float]],
        unk_token: str | None = None,
        *,
        special_tokens: Iterable[str] = (),
        pre_tokenizer: PreTokenizer = METASPACE,
        prefix: str = "",
        normalizer: Normalizer | None = None,
        user_defined: Sequence[int] = (),
        unk_surface: str | None = None,
    ) -> "Unigram":
        """Build a tokenizer from pieces in SentencePiece's notation: ``▁`` for a space, ``<0x0A>`` for a byte.

        Args:
            pieces: each piece with its score, in the order of the ids.
            unk_token: the piece that is the unknown token.
            special_tokens: the pieces that are special tokens.
            pre_tokenizer: ``NoSplit()`` if a piece has a space after its first character.
            prefix: a space if the model was trained with SentencePiece's dummy prefix.
            normalizer, user_defined: as in the class.
            unk_surface: what the unknown token is decoded as; by default as ``unk_token``.

        Raises:
            ValueError: if the unknown token or a special token is not among the pieces, and as the class does.
        """
        ids = {piece: i for i, (piece, _) in enumerate(pieces)}
        special_tokens = list(special_tokens)
        for name in [*special_tokens, *([] if unk_token is None else [unk_token])]:
            if name not in ids:
                raise ValueError(f"{name!r} must be one of the pieces")
        bytes_of = {name: bytes([byte]) for byte, name in enumerate(BYTE_NAMES)}
        others = {*special_tokens, unk_token}
        plain = [piece not in others and piece not in bytes_of for piece, _ in pieces]
        written = bytes_of | ({} if unk_surface is None or unk_token is None else {unk_token: as_bytes(unk_surface)})
        return cls(
            [
                as_bytes(piece.replace(SPACE, " ")) if is_plain else written.get(piece, as_bytes(piece))
                for (piece, _), is_plain in zip(pieces, plain, strict=True)
            ],
            [score if is_plain else None for (_, score), is_plain in zip(pieces, plain, strict=True)],
            byte_ids=[ids[name] for name in bytes_of if name in ids],
            unk_id=None if unk_token is None else ids[unk_token],
            pre_tokenizer=pre_tokenizer,
            special_tokens={name: ids[name] for name in special_tokens},
            prefix=prefix,
            normalizer=normalizer,
            user_defined=user_defined,
        )

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        n_vocab: int,
        *,
        pre_tokenizer: PreTokenizer = WORDS,
        special_tokens: Sequence[str] = (),
        prefix: str = "",
        max_piece_length: int = 16,
        character_coverage: float = 0.9995,
        progress: bool = False,
    ) -> "Unigram":
        """Learn pieces and their probabilities from texts. See :func:`training_rounds` for the single steps.

        Args:
            texts: the training texts.
            n_vocab: size of the vocabulary: 256 bytes, the special tokens, and the pieces, the most probable first.
            pre_tokenizer, prefix: as in the class.
            special_tokens: the text of each special token; their ids follow those of the bytes.
            max_piece_length: largest number of characters in a piece.
            character_coverage: share of the text whose characters get pieces; all others are encoded as bytes.
            progress: show a progress bar.

        Raises:
            ValueError: if a number is out of range, or ``n_vocab`` is too small or too large for the texts.
        """
        texts = check_texts(texts)
        if max_piece_length < 1 or not 0 < character_coverage <= 1:
            raise ValueError(f"{max_piece_length=} must be at least 1, and {character_coverage=} above 0 and at most 1")
        first = [bytes([b]) for b in range(256)] + [as_bytes(text) for text in special_tokens]
        if n_vocab <= len(first):
            raise ValueError(f"{n_vocab=} must be above {len(first)}, the number of bytes and special tokens")
        words = count_words((prefix + text for text in texts), pre_tokenizer, character_coverage)
        if not words:
            raise ValueError("texts have no characters to learn from")
        rounds = training_rounds(words, n_vocab - len(first), max_piece_length)
        scores: dict[str, float] = {}
        for last in tqdm(rounds, "Unigram", unit="round", disable=not progress):
            scores = last.scores
        scores = dict(sorted(scores.items(), key=lambda entry: (-entry[1], entry[0])))
        return cls(
            [*first, *map(as_bytes, scores)],
            [*[None] * len(first), *scores.values()],
            byte_ids=range(256),
            pre_tokenizer=pre_tokenizer,
            special_tokens={text: 256 + i for i, text in enumerate(special_tokens)},
            prefix=prefix,
        )

    def sample_encode(self, text: str, rng: Random, alpha: float = 0.1) -> list[int]:
        """Encode a text by a random segmentation. In training, this is called subword regularization.

        Args:
            text: a text without special tokens.
            rng: source of randomness.
            alpha: 1 to sample with the probabilities of the segmentations, less for more variety; at least 0.

        Raises:
            ValueError: if the text contains a special token, or ``alpha`` is negative.

        Source: Kudo (2018), section 3.3; GT-40.
        """
        if not alpha >= 0:
            raise ValueError(f"{alpha=} must be at least 0")
        if found := self._special.search(text):
            self._special_id(found[0], ())
        ids = []
        for word in self.pre_tokenizer(self._prepared(text, self.prefix)):
            ids += self._with_fallback(word, sample_segmentation(self._lattice(word), self._costs, rng, alpha))
        return ids

    def _ids(self, piece: str) -> list[int]:
        return self._with_fallback(piece, best_segmentation(self._lattice(piece), self._costs)[0])

    def _lattice(self, word: str) -> Lattice:
        return lattice(word, self._ids_of, self._longest)

    def _with_fallback(self, word: str, segmentation: Sequence[int]) -> list[int]:
        """Replace the unknown characters of a segmentation: each by its bytes, or each run by one unknown token."""
        if UNKNOWN not in segmentation:
            return list(segmentation)
        ids, position, in_run = [], 0, False
        for i in segmentation:
            if i != UNKNOWN:
                ids.append(i)
                position += len(self._vocabulary[i].decode())
            else:
                ids += self._fallback(word[position]) if self.byte_ids or not in_run else []
                position += 1
            in_run = i == UNKNOWN
        return ids

    def _fallback(self, character: str) -> list[int]:
        if self.byte_ids:
            return [self.byte_ids[b] for b in as_bytes(character)]
        if self.unk_id is None:
            raise ValueError(f"{character!r} has no piece, and the vocabulary has neither bytes nor an unknown token")
        return [self.unk_id]

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        ids = list(ids)
        known = ids.index(self.unk_id) if self.unk_id in ids else len(ids)
        rest = b"".join(map(self._vocabulary.__getitem__, self._checked_ids(ids)[known:]))
        return super().decode_bytes(ids[:known]) + rest  # a space of the unknown token is not a prefix

    def _state(self) -> dict:
        state = {"scores": self.scores, "byte_ids": self.byte_ids, "unk_id": self.unk_id}
        return state | ({"user_defined": self.user_defined} if self.user_defined else {})

    @classmethod
    def _from_state(cls, record: Record, **arguments) -> "Unigram":
        scores, byte_ids = record.take("scores", list), record.take("byte_ids", list)
        unk_id = record.take("unk_id", object)
        user_defined = record.take("user_defined", list) if "user_defined" in record.fields else []
        for key, values, kinds in [
            ("scores", scores, (float, int, NoneType)),
            ("byte_ids", byte_ids, (int,)),
            ("user_defined", user_defined, (int,)),
        ]:
            for i, value in enumerate(values):
                if type(value) not in kinds:
                    allowed = "a number or null" if key == "scores" else "a number"
                    record.refuse(key, f"entry {i} must be {allowed}, not {value!r:.40}")
        if type(unk_id) not in (int, NoneType):
            record.refuse("unk_id", f"it must be an id or null, not {unk_id!r:.40}")
        return cls(scores=scores, byte_ids=byte_ids, unk_id=unk_id, user_defined=user_defined, **arguments)


def _is_text(token: bytes) -> bool:
    try:
        return bool(token.decode())
    except UnicodeDecodeError:
        return False
