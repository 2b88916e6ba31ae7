r"""Byte pair encoding: start with bytes, and merge the most frequent pair of tokens again and again.

The lecture writes a new letter for each merged pair: aaabdaaabac becomes ZabdZabac with Z = aa. With lower-case
letters, here is the whole algorithm:

>>> word = "aaabdaaabac"
>>> for merged in "zyx":
...     counts = Counter(map(add, word, word[1:]))
...     pair = min(counts, key=lambda pair: (-counts[pair], pair))
...     word = word.replace(pair, merged)
...     print(merged, "=", pair, word)
z = aa zabdzabac
y = ab zydzyac
x = zy xdxac

This module does the same. Internally, the token with id i is the character ``chr(i)``, called its symbol. A word is a
string of symbols and a pair is a string of two. Since nobody wants to count all pairs again after each merge, the words
remember where each pair is (``PairCounts``).

"The most frequent pair" leaves two questions open, and tokenizers answer them differently: which pair wins a tie
(``smallest_ids``, ``first_seen``, ``shortest``, ``largest_bytes``), and how often aa occurs in aaa
(``overlapping_pairs``, ``non_overlapping_pairs``).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from operator import add

import regex
from tqdm.auto import tqdm

from llm_anatomy.files import Record
from llm_anatomy.tokenizers.base import PieceTokenizer, append_special_tokens, as_bytes, check_texts
from llm_anatomy.tokenizers.normalization import Normalizer
from llm_anatomy.tokenizers.pretokenization import GPT4, LLAMA, PreTokenizer

_VISIBLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
GPT2_BYTES = _VISIBLE + [byte for byte in range(256) if byte not in _VISIBLE]
"""The bytes in the order of GPT-2's ids, which Hugging Face's byte-level trainer uses too: the visible characters of
Latin-1 come first."""

SHORT = 64
"""Words of at most so many symbols are encoded by a scan of all pairs for each merge, which is faster there."""

MANY = 10
"""A pair with fewer occurrences in a long word is not worth a replacement everywhere at once."""


def _latin(piece: str) -> str:
    """The UTF-8 of a piece, with each byte as one character."""
    return as_bytes(piece).decode("latin-1")


# --- Counting pairs ---


def overlapping_pairs(word: str) -> Iterable[str]:
    r"""All pairs of neighbours: each symbol with the next one. In aaa, the pair aa is counted twice.

    Args:
        word: a string of symbols.

    Source: UCL-08 (its pair_stats), Hugging Face tokenizers, tiktoken's teaching code; erratum E-82.

    >>> list(overlapping_pairs("aaab"))
    ['aa', 'aa', 'ab']
    """
    return map(add, word, word[1:])


def non_overlapping_pairs(word: str) -> Iterable[str]:
    r"""The pairs that can be merged: in aaa, the pair aa is counted once, since the middle a can be merged only once.

    Args:
        word: a string of symbols.

    Source: erratum E-82: aaabdaaabac contains aa four times, and two of the four can be merged; UCL-07.

    >>> list(non_overlapping_pairs("aaab"))
    ['aa', 'ab']
    """
    last = None
    for pair in overlapping_pairs(word):
        last = None if pair == last else pair
        if last:
            yield pair


BORDER = ""
"""What stands between two words. It is not a symbol, so it makes no pair with its neighbours."""


class PairCounts:
    r"""The distinct words of a corpus, side by side, with the count of each pair and the positions at which it occurs.

    .. math:: \mathrm{count}(p) = \sum_w n_w \, \#\{\text{occurrences of } p \text{ in } w\}

    Each distinct word is processed once, however often it occurs. A merge visits only the positions of its pair, and
    each pair that it merges makes the words one symbol shorter. So all merges together take time in proportion to the
    length of the distinct words, whether these are many short words or a single long one.

    A merged symbol covers several positions. It is written at the first and at the last of them, where its neighbours
    find it. The positions of a pair are in the order of the text, and some of them may have lost the pair since.

    Args:
        words: the count of each distinct word, in order of first occurrence.
        vocabulary: the bytes of each symbol.
        find_pairs: ``overlapping_pairs`` or ``non_overlapping_pairs``.

    Raises:
        ValueError: if ``find_pairs`` is neither of the two.

    Source: Sennrich et al. (2016), section 3.2 and algorithm 1; UCL-07, UCL-08.

    >>> pairs = PairCounts({"aaabdaaabac": 1}, [bytes([i]) for i in range(256)])
    >>> pairs.counts
    {'aa': 4, 'ab': 2, 'bd': 1, 'da': 1, 'ba': 1, 'ac': 1}
    >>> sorted(pairs.merge("aa", "Z"))
    ['Za', 'dZ']
    >>> pairs.words
    ['ZabdZabac']
    """

    def __init__(
        self,
        words: Mapping[str, int],
        vocabulary: list[bytes],
        find_pairs: Callable[[str], Iterable[str]] = overlapping_pairs,
    ):
        if find_pairs not in (overlapping_pairs, non_overlapping_pairs):
            raise ValueError(f"{find_pairs=} must be overlapping_pairs or non_overlapping_pairs")
        self.vocabulary, self._overlapping = vocabulary, find_pairs is overlapping_pairs
        self._lengths = {chr(i): 1 for i in range(len(vocabulary))}  # number of positions that a symbol covers
        self._symbols, self._times = [BORDER], [0]  # at each position: the symbol, and the count of its word
        for word, times in words.items():
            self._symbols += [*word, BORDER]
            self._times += [times] * (len(word) + 1)
        where = defaultdict[str, list[int]](list)
        for i, pair in enumerate(map(add, self._symbols, self._symbols[1:])):
            where[pair].append(i)
        self._where = {pair: positions for pair, positions in where.items() if len(pair) == 2}
        self.counts = {pair: self._sum(positions) for pair, positions in self._where.items()}
        self._recount(pair for pair in self.counts if pair[0] == pair[1])

    @property
    def words(self) -> list[str]:
        """The words as strings of symbols."""
        words, word, i = [], "", 1
        while i < len(self._symbols):
            symbol = self._symbols[i]
            word += symbol
            if symbol == BORDER:
                words.append(word)
                word = ""
            i += self._lengths.get(symbol, 1)
        return words

    def first(self, pair: str) -> int:
        """The first position of a pair."""
        positions = self._where[pair]
        del positions[: next(n for n, i in enumerate(positions) if self._is_at(i, pair))]
        return positions[0]

    def merge(self, pair: str, merged: str) -> set[str]:
        """Replace a pair by its merged symbol in every word, and return the pairs that this creates."""
        (left, right), symbols, lengths, counts = pair, self._symbols, self._lengths, self.counts
        half, whole = lengths[left], lengths[left] + lengths[right]
        lengths[merged] = whole
        before, after = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)  # positions by neighbour
        for i in self._where.pop(pair):
            middle, end = i + half, i + whole
            if symbols[i] == left and symbols[middle] == right:  # neither has been merged with another symbol
                before[symbols[i - 1]].append(i)
                after[symbols[end]].append(i)
                symbols[middle] = BORDER
                symbols[i] = symbols[end - 1] = merged
        before.pop(BORDER, None)
        after.pop(BORDER, None)
        lost, new = Counter[str](), dict[str, list[int]]()
        for symbol, positions in after.items():
            lost[right + symbol], new[merged + symbol] = self._sum(positions), positions
        for symbol, positions in before.items():
            lost[symbol + left] += self._sum(positions)
            new[symbol + merged] = [i - lengths[symbol] for i in positions]
        self._where |= new
        counts |= {pair: self._sum(positions) for pair, positions in new.items()}
        lost.pop(pair, None)
        del counts[pair]
        for old, n in lost.items():
            counts[old] -= n
        self._recount({left * 2, right * 2, merged * 2} & counts.keys())
        for old in lost:
            if not counts[old]:
                del counts[old], self._where[old]
        return new.keys() & counts.keys()

    def _is_at(self, i: int, pair: str) -> bool:
        return self._symbols[i] + self._symbols[i + self._lengths[pair[0]]] == pair

    def _sum(self, positions: Iterable[int]) -> int:
        """The number of positions, each as often as its word occurs."""
        return sum(map(self._times.__getitem__, positions))

    def _recount(self, doubles: Iterable[str]) -> None:
        """Count pairs of a symbol with itself, of which only every second one of a run can be merged.

        A merge calls this for pairs that are at most as frequent as its own, so that it takes no longer than the merge.
        """
        for double in () if self._overlapping else doubles:
            self._where[double] = [i for i in self._where[double] if self._is_at(i, double)]
            counted, free = list[int](), 0
            for i in self._where[double]:
                if i >= free:
                    counted.append(i)
                    free = i + 2 * self._lengths[double[0]]
            self.counts[double] = self._sum(counted)


# --- Breaking ties between pairs that are equally frequent ---


def smallest_ids(pair: str, pairs: PairCounts) -> str:
    """Prefer the smaller id of the left token, then of the right token, as Hugging Face tokenizers and rustbpe do.

    Args:
        pair, pairs: a pair and its corpus. The pair with the smallest return value is merged first.

    Source: Hugging Face tokenizers (BpeTrainer); UCL-07, where ab wins over Za.

    >>> min("Źa", "ab", key=lambda pair: smallest_ids(pair, PairCounts({}, [])))
    'ab'
    """
    return pair


def first_seen(pair: str, pairs: PairCounts) -> int:
    """Prefer the pair that occurs first in the text, as minbpe does, and any loop of ``max`` over a Python dictionary.

    Args:
        pair, pairs: a pair and its corpus. The pair with the smallest return value, its first position, is merged
            first.

    Source: UCL-07: if Za is merged before ab, the lecture's text ends the same.

    >>> pairs = PairCounts({"aaabd": 1}, [bytes([i]) for i in range(256)])
    >>> first_seen("ab", pairs) < first_seen("bd", pairs)
    True
    """
    return pairs.first(pair)


def shortest(pair: str, pairs: PairCounts) -> tuple[int, bytes]:
    """Prefer the pair whose token has fewer characters, then the first in alphabetical order, as SentencePiece does.

    Args:
        pair, pairs: a pair and its corpus. The pair with the smallest return value is merged first.

    Source: SentencePiece's BPE trainer (Kudo and Richardson, 2018), which sorts a space as ▁, after the letters; GT-42.

    >>> shortest(" a", PairCounts({" a": 1}, [bytes([i]) for i in range(256)])) > (2, b"yz")
    True
    """
    token = b"".join(pairs.vocabulary[ord(symbol)] for symbol in pair)
    return len(token.decode(errors="replace")), token.replace(b" ", "▁".encode())


_COMPLEMENTS = bytes(range(255, -1, -1))


def largest_bytes(pair: str, pairs: PairCounts) -> list[str]:
    r"""Prefer the pair whose tokens come last in the order of their bytes, the left token first.

    If a pair is a tuple of two ``bytes``, this is what ``max(counts, key=lambda pair: (counts[pair], pair))`` returns.

    Args:
        pair, pairs: a pair and its corpus. The pair with the smallest return value is merged first, so each byte is
            replaced by its complement. The end of a token counts as larger than any byte, since the longer one of "a"
            and "ab" comes last.

    Source: Stanford CS336 (2025), assignment 1, section 2.4, which breaks ties by "the lexicographically greater pair".

    >>> pairs = PairCounts({}, [bytes([i]) for i in range(256)])
    >>> min("ab", "ba", "bB", key=lambda pair: largest_bytes(pair, pairs))
    'ba'
    """
    return [pairs.vocabulary[ord(symbol)].translate(_COMPLEMENTS).decode("latin-1") + "\u0100" for symbol in pair]


def merge_steps(
    pairs: PairCounts, n_vocab: int, tie_break: Callable[[str, PairCounts], object] = smallest_ids
) -> Iterator[tuple[str, str, int]]:
    r"""Merge the most frequent pair until the vocabulary is full or no pair is left.

    The pairs are kept in a heap. When a merge lowers the count of another pair, the heap is not updated: the outdated
    entry is recognized when it reaches the top, and is pushed again with its present count.

    Args:
        pairs: the corpus; the merges change its words, counts and vocabulary.
        n_vocab: number of tokens at the end.
        tie_break: ``smallest_ids``, ``first_seen``, ``shortest`` or ``largest_bytes``.

    Yields:
        The pair, its merged symbol and its count, after each merge.

    No token occurs twice in the vocabulary. The reason: a stretch of text between two borders that no merge crosses
    goes through the same merges as it would alone. So wherever it becomes one token, the same merge creates that token;
    and the text of a token, encoded alone, gives that token.

    Source: Sennrich et al. (2016), algorithm 1; UCL-07, UCL-08.

    >>> pairs = PairCounts({"aaabdaaabac": 1}, [bytes([i]) for i in range(256)])
    >>> [(pair.replace(chr(256), "Z").replace(chr(257), "Y"), count) for pair, _, count in merge_steps(pairs, 259)]
    [('aa', 4), ('ab', 2), ('ZY', 2)]
    """
    counts, vocabulary = pairs.counts, pairs.vocabulary
    heap = [(-count, tie_break(pair, pairs), pair) for pair, count in counts.items()]
    heapify(heap)
    while heap and len(vocabulary) < n_vocab:
        count, _, pair = heappop(heap)
        now = counts.get(pair, 0)
        if now != -count:
            if now:
                heappush(heap, (-now, tie_break(pair, pairs), pair))
            continue
        merged = chr(len(vocabulary))
        vocabulary.append(vocabulary[ord(pair[0])] + vocabulary[ord(pair[1])])
        for new in pairs.merge(pair, merged):
            heappush(heap, (-counts[new], tie_break(new, pairs), new))
        yield pair, merged, now


@dataclass(frozen=True)
class MergeStep:
    """One merge of a training run, with everything that the lecture shows of it.

    Args:
        pair: the bytes of the two tokens that are merged.
        token_id: the id of the merged token.
        count: number of occurrences of the pair.
        counts: the counts of all pairs before this merge, the most frequent first.
        text: the tokens of each piece of the text after this merge.

    Source: UCL-07, with its table of pairs beside the text.

    >>> step = next(BPE.train(["aab aab"], 258, trace=True))
    >>> step.pair, step.count, step.text
    ((b'a', b'a'), 2, [[b'aa', b'b'], [b' ', b'aa', b'b']])
    """

    pair: tuple[bytes, bytes]
    token_id: int
    count: int
    counts: dict[tuple[bytes, bytes], int]
    text: list[list[bytes]]


def _trace(pairs: PairCounts, indices: list[int], steps: Iterator[tuple[str, str, int]]) -> Iterator[MergeStep]:
    """Describe each merge; ``indices`` are those of the words, in the order of the text."""

    def tokens(word: str) -> list[bytes]:
        return [pairs.vocabulary[ord(symbol)] for symbol in word]

    def both(pair: str) -> tuple[bytes, bytes]:
        left, right = tokens(pair)
        return left, right

    def ranked() -> dict[tuple[bytes, bytes], int]:
        return {both(pair): n for pair, n in sorted(pairs.counts.items(), key=lambda item: -item[1])}

    counts = ranked()
    for pair, merged, count in steps:
        words = pairs.words
        yield MergeStep(both(pair), ord(merged), count, counts, [tokens(words[i]) for i in indices])
        counts = ranked()


def in_letters(steps: Iterable[MergeStep]) -> Iterator[str]:
    """Write the text after each merge as the lecture does: Z for the first merged pair, Y for the second, and so on.

    Args:
        steps: the merges of one training run with ``trace=True``. Letters that occur in the text are not used.

    Raises:
        ValueError: if no visible ASCII character is left, which is why real vocabularies use numbers.

    Source: UCL-07, UCL-08 (new symbols count down from Z); errata E-73, E-82.

    >>> from llm_anatomy.tokenizers.pretokenization import NoSplit
    >>> list(in_letters(BPE.train(["aaabdaaabac"], 259, pre_tokenizer=NoSplit(), trace=True)))
    ['ZabdZabac', 'ZYdZYac', 'XdXac']
    """
    letters: dict[bytes, str] = {}
    free: Iterator[str] | None = None
    for step in steps:
        if free is None:
            used = {byte for tokens in step.text for token in tokens for byte in token}
            free = (chr(i) for i in range(ord("Z"), ord(" "), -1) if i not in used)
        token = b"".join(step.pair)
        if token not in letters:
            letter = next(free, None)
            if letter is None:
                raise ValueError(f"steps hold more than {len(letters)} merges; no letter is left for {token!r}")
            letters[token] = letter
        yield "".join(letters.get(t) or t.decode("latin-1") for tokens in step.text for t in tokens)


# --- The tokenizer ---


class BPE(PieceTokenizer):
    r"""Byte pair encoding on bytes: every text can be encoded, and frequent strings are single tokens.

    A word is encoded by the merges of training, in the same order: the pair that was learned first is merged first, and
    where it occurs more than once, from left to right.

    Args:
        vocabulary: the bytes of each token, among them all 256 single bytes.
        merges: the rank of each pair of ids that can be merged; lower ranks are merged first. The merged token is the
            one whose bytes are those of both.
        pre_tokenizer: as in ``PieceTokenizer``; ``GPT4`` by default.
        special_tokens, prefix, normalizer: as in ``PieceTokenizer``.
        ignore_merges: encode a piece that is itself a token as that token, without the merges, as tiktoken does. With
            a vocabulary that was trained, this saves time and changes no ids.
        backend: "python", or "tiktoken" for the same ids from that library's compiled code.

    Raises:
        ValueError: if the vocabulary lacks a byte or the result of a merge; with ``backend="tiktoken"``, if tiktoken
            would not give the same ids.

    Source: Gage (1994); Sennrich et al. (2016), section 3.2; Radford et al. (2019), section 2.2; UCL-07, UCL-08, GT-40.

    >>> tokenizer = BPE.train(["low lower lowest, new newer newest"], n_vocab=266)
    >>> [tokenizer.vocabulary[i] for i in tokenizer.encode("the newest is slow")]
    [b't', b'h', b'e', b' ne', b'west', b' ', b'i', b's', b' ', b's', b'low']
    """

    PRE_TOKENIZER = GPT4
    """The default."""

    _byte_ids: Sequence[int] = ()
    """Ids of bytes that are never merged; in this class there are none."""

    def __init__(
        self,
        vocabulary: Sequence[bytes],
        merges: Mapping[tuple[int, int], int],
        pre_tokenizer: PreTokenizer | None = None,
        special_tokens: Mapping[str, int] | None = None,
        prefix: str = "",
        normalizer: Normalizer | None = None,
        *,
        ignore_merges: bool = False,
        backend: str = "python",
    ):
        super().__init__(vocabulary, pre_tokenizer or self.PRE_TOKENIZER, special_tokens, prefix, normalizer)
        if backend not in ("python", "tiktoken"):
            raise ValueError(f"{backend=} must be 'python' or 'tiktoken'")
        apart = {*self._special_tokens.values(), *self._byte_ids}
        id_of = {token: i for i, token in enumerate(vocabulary) if token and i not in apart}
        self._symbols = self._alphabet(id_of)
        self._ranks: dict[str, int] = {}
        self._merged: dict[str, str] = {}
        for (left, right), rank in merges.items():
            if not (0 <= left < len(vocabulary) and 0 <= right < len(vocabulary)):
                raise ValueError(f"merges[{left}, {right}] must have ids from 0 to {len(vocabulary) - 1}")
            token = vocabulary[left] + vocabulary[right]
            if token not in id_of:
                raise ValueError(f"merges[{left}, {right}] gives {token!r}, which is not in the vocabulary")
            pair = chr(left) + chr(right)
            self._ranks[pair], self._merged[pair] = rank, chr(id_of[token])
        self._ids_of_token = {token: [i] for token, i in id_of.items()} if ignore_merges else {}
        self._compiled = self._tiktoken(id_of) if backend == "tiktoken" else None

    @property
    def merges(self) -> dict[tuple[int, int], int]:
        """The rank of each pair of ids that can be merged, in the order in which they were given (a copy)."""
        return {(ord(left), ord(right)): rank for (left, right), rank in self._ranks.items()}

    def _alphabet(self, id_of: Mapping[bytes, int]) -> dict[int, str]:
        """The symbol of each byte."""
        missing = [byte for byte in range(256) if bytes([byte]) not in id_of]
        if missing:
            raise ValueError(f"vocabulary lacks {len(missing)} of the 256 single bytes; the first is {missing[0]}")
        return {byte: chr(id_of[bytes([byte])]) for byte in range(256)}

    def _spell(self, piece: str) -> str:
        """Write a piece as a string of symbols."""
        return _latin(piece).translate(self._symbols)

    def _ids(self, piece: str) -> Sequence[int]:
        if self._ids_of_token and (ids := self._ids_of_token.get(as_bytes(piece))):
            return ids
        return list(map(ord, self._merge(self._spell(piece))))

    def _merge(self, word: str) -> str:
        """Merge pairs of symbols, the lowest rank first and then the leftmost.

        A scan of all pairs for each merge is the fastest for a short word. For a long one it takes quadratic time.
        """
        return self._merge_long(word) if len(word) > SHORT else self._merge_short(word)

    def _merge_short(self, word: str) -> str:
        rank_of, merged, symbols = self._ranks.get, self._merged, list(word)
        ranks = [rank_of(pair, inf) for pair in overlapping_pairs(word)]
        while ranks and (lowest := min(ranks)) < inf:
            i = ranks.index(lowest)
            symbols[i] = merged[symbols[i] + symbols.pop(i + 1)]
            del ranks[i]
            if i > 0:
                ranks[i - 1] = rank_of(symbols[i - 1] + symbols[i], inf)
            if i < len(ranks):
                ranks[i] = rank_of(symbols[i] + symbols[i + 1], inf)
        return "".join(symbols)

    def _merge_long(self, word: str) -> str:
        """Merge in time n log n: first the frequent pairs, each everywhere at once, then the others one by one."""
        return self._merge_one_by_one(self._merge_everywhere(word) if len(word) > 1000 * MANY else word)

    def _merge_everywhere(self, word: str) -> str:
        """Replace the pair of the lowest rank everywhere at once, as long as this saves time.

        This gives what merging one by one gives, unless another pair has the same rank or a merge creates a pair of the
        same or of a lower rank. Then the word is left to ``_merge_one_by_one``, which can go on from any state.

        A replacement reads the whole word, for which it must find the pair often. What is missing is taken from a small
        credit, since a frequent pair may follow a rare one.
        """
        ranks, merged = self._ranks, self._merged
        waiting = [(ranks[pair], pair) for pair in {*overlapping_pairs(word)} & ranks.keys()]
        heapify(waiting)
        credit = limit = len(word) / 50
        while waiting and credit > 0:
            rank, pair = heappop(waiting)
            parts, symbol = word.split(pair), merged[pair]
            count = len(parts) - 1
            credit = min(credit + count - MANY - len(word) / 1000, limit)
            if not count:
                continue
            new = {left[-1:] + symbol for left in parts[:-1]} | {symbol + right[:1] for right in parts[1:]}
            new |= {symbol + symbol, symbol + pair[0]}  # if the pair follows itself: afterwards, and in between
            created = [(ranks[pair], pair) for pair in new & ranks.keys()]
            same = {pair}
            while waiting and waiting[0][0] == rank:
                same.add(heappop(waiting)[1])
            if sum(pair in word for pair in same) > 1 or any(other <= rank for other, _ in created):
                break
            word = symbol.join(parts)
            for entry in created:
                heappush(waiting, entry)
        return word

    def _merge_one_by_one(self, word: str) -> str:
        """The symbols are a linked list, and the positions of pairs wait under their ranks.

        The positions of the lowest rank are visited from left to right. If a merge creates a pair of the same or of a
        lower rank, it is urgent: it comes before the rest of the positions.
        """
        rank_of, merged, n = self._ranks.get, self._merged, len(word)
        symbols, before, after = [*word, BORDER], list(range(-1, n)), list(range(1, n + 2))
        waiting, urgent = defaultdict[int, list[int]](list), list[tuple[int, int]]()
        for i, pair in enumerate(overlapping_pairs(word)):
            if (rank := rank_of(pair)) is not None:
                waiting[rank].append(i)
        ranks = sorted(waiting)
        while ranks:
            lowest = heappop(ranks)
            positions = sorted(waiting.pop(lowest), reverse=True)
            while positions or urgent:
                rank, i = heappop(urgent) if urgent else (lowest, positions.pop())
                j = after[i]
                pair = symbols[i] + symbols[j]
                if rank_of(pair) != rank:  # one of the two has been merged with another symbol
                    continue
                symbol = symbols[i] = merged[pair]
                symbols[j], k, h = BORDER, after[j], before[i]
                after[i], before[k] = k, i
                for left, new in (h, rank_of(symbols[h] + symbol)), (i, rank_of(symbol + symbols[k])):
                    if new is None:
                        continue
                    if new > lowest:
                        if new not in waiting:
                            heappush(ranks, new)
                        waiting[new].append(left)
                    else:
                        heappush(urgent, (new, left))
        return "".join(symbols)

    # --- Training ---

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        n_vocab: int,
        *,
        pre_tokenizer: PreTokenizer | None = None,
        special_tokens: Iterable[str] = (),
        tie_break: Callable[[str, PairCounts], object] = smallest_ids,
        find_pairs: Callable[[str], Iterable[str]] = overlapping_pairs,
        byte_alphabet: Sequence[int] = range(256),
        trace: bool = False,
        progress: bool = False,
    ) -> "BPE | Iterator[MergeStep]":
        """Learn merges from texts.

        Args:
            texts: the training texts; no token crosses the border between two of them. Special tokens in a text are
                cut out before its pieces are found, and no token is learned from them or across them.
            n_vocab: size of the vocabulary, with the bytes and the special tokens; smaller if no pairs are left.
            pre_tokenizer: cuts the texts into pieces, whose borders no merge crosses; by default the class's own.
            special_tokens: their ids follow those of the merges, in the given order. Where two of them begin at the
                same character of a text, the longer one counts.
            tie_break: ``smallest_ids``, ``first_seen``, ``shortest`` or ``largest_bytes``.
            find_pairs: ``overlapping_pairs`` or ``non_overlapping_pairs``.
            byte_alphabet: the bytes in the order of their ids, which also breaks ties: 0 to 255, or ``GPT2_BYTES``.
            trace: return an iterator over the merges (:class:`MergeStep`) instead of a tokenizer; for small texts.
            progress: show a progress bar.

        Raises:
            ValueError: if ``n_vocab`` is too small for the alphabet and the special tokens, or a special token is empty
                or occurs twice.

        >>> tokenizer = BPE.train(["ab<end>ab<end>"], 300, special_tokens=["<end>"], tie_break=largest_bytes)
        >>> tokenizer.vocabulary[256:]
        [b'ab', b'<end>']
        """
        special_tokens, pre_tokenizer = list(check_texts(special_tokens)), pre_tokenizer or cls.PRE_TOKENIZER
        append_special_tokens([], special_tokens)
        if "" in special_tokens:
            raise ValueError(f"{special_tokens=} must not contain an empty string")
        _check_vocabulary_size(n_vocab, 256, len(special_tokens))
        seen, order = Counter[str](), list[str]()
        for text in _without(special_tokens, check_texts(texts)):
            for pieces in pre_tokenizer.iter_blocks(text):
                seen.update(pieces)
                order += pieces if trace else ()
        vocabulary, spell = cls._alphabet_of_training(seen, byte_alphabet)
        n_alphabet = len(vocabulary)
        _check_vocabulary_size(n_vocab, n_alphabet, len(special_tokens))
        words = {spell(piece): n for piece, n in seen.items()}
        pairs = PairCounts(words, vocabulary, find_pairs)
        steps = merge_steps(pairs, n_vocab - len(special_tokens), tie_break)
        if trace:
            index = {word: i for i, word in enumerate(words)}
            return _trace(pairs, [index[spell(piece)] for piece in order], steps)
        bar = tqdm(steps, total=n_vocab - n_alphabet - len(special_tokens), disable=not progress, unit="merge")
        merges = {(ord(pair[0]), ord(pair[1])): rank for rank, (pair, _, _) in enumerate(bar)}
        vocabulary, special_ids = append_special_tokens(vocabulary, special_tokens)
        return cls(vocabulary, merges, pre_tokenizer, special_ids, ignore_merges=True)

    @classmethod
    def _alphabet_of_training(
        cls, seen: Iterable[str], byte_alphabet: Sequence[int]
    ) -> tuple[list[bytes], Callable[[str], str]]:
        """The vocabulary before the first merge, and a function that writes a piece as a string of its symbols."""
        if sorted(byte_alphabet) != list(range(256)):
            raise ValueError(f"byte_alphabet={byte_alphabet!r:.60} must contain each number from 0 to 255 once")
        symbols = {byte: chr(i) for i, byte in enumerate(byte_alphabet)}
        return [bytes([byte]) for byte in byte_alphabet], lambda piece: _latin(piece).translate(symbols)

    # --- Files ---

    def _state(self) -> dict:
        merges = [[left, right, rank] for (left, right), rank in self.merges.items()]
        return {"ignore_merges": bool(self._ids_of_token), "merges": merges}

    @classmethod
    def _from_state(cls, record: Record, **arguments) -> "BPE":
        merges = {}
        for i, entry in enumerate(record.take("merges", list)):
            if not (isinstance(entry, list) and len(entry) == 3 and all(type(n) is int for n in entry)):
                record.refuse("merges", f"entry {i} must be two ids and a rank, not {entry!r:.40}")
            merges[entry[0], entry[1]] = entry[2]
        return cls(merges=merges, ignore_merges=record.take("ignore_merges", bool), **arguments)

    # --- The same ids from tiktoken's compiled code ---

    def _encode_ordinary(self, text: str) -> list[int]:
        if self._compiled is None or not _is_unicode(text):
            return super()._encode_ordinary(text)
        return self._compiled(text)

    def _tiktoken(self, id_of: Mapping[bytes, int]) -> Callable[[str], list[int]]:
        """The encoder of tiktoken for the same vocabulary.

        It merges any two neighbours that form a token, the lowest id first. The result is the same if each token is
        formed at one rank only, ids and ranks are in the same order, and the merges can form each token.
        """
        ranks_of = defaultdict[int, set[int]](set)
        for pair, rank in self._ranks.items():
            ranks_of[ord(self._merged[pair])].add(rank)
        ranks = [rank for i in sorted(ranks_of) for rank in ranks_of[i]]
        if len(ranks) > len(ranks_of) or ranks != sorted(ranks):
            raise ValueError("backend='tiktoken' merges in the order of the ids, but these merges have another order")
        for token in id_of:
            if not self._ids_of_token and len(self._merge(token.decode("latin-1").translate(self._symbols))) > 1:
                raise ValueError(f"backend='tiktoken' would use the token {token!r}, which these merges never form")
        import tiktoken

        pattern = f"{self.pre_tokenizer.pattern}|(?s:.)"
        return tiktoken.Encoding(
            "llm_anatomy", pat_str=pattern, mergeable_ranks=dict(id_of), special_tokens={}
        ).encode_ordinary


def _without(special_tokens: Iterable[str], texts: Iterable[str]) -> Iterator[str]:
    """The parts of the texts between special tokens."""
    longest_first = sorted(special_tokens, key=len, reverse=True)
    special = regex.compile("|".join(map(regex.escape, longest_first)))
    for text in texts:
        yield from special.split(text) if longest_first else [text]


def _check_vocabulary_size(n_vocab: int, n_alphabet: int, n_special: int) -> None:
    if n_vocab < n_alphabet + n_special:
        raise ValueError(
            f"{n_vocab=} must be at least {n_alphabet + n_special}: {n_alphabet} tokens of the alphabet and "
            f"{n_special} special tokens"
        )


def _is_unicode(text: str) -> bool:
    """Whether the text has no lone surrogates, which tiktoken would replace."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _SymbolTable(dict[int, str]):
    """The symbol of each code point in the alphabet, and the symbols of its bytes for any other code point."""

    def __init__(self, symbols: Mapping[int, str], byte_symbols: Sequence[str]):
        super().__init__(symbols)
        self.byte_symbols = byte_symbols

    def __missing__(self, code_point: int) -> str:
        return "".join(self.byte_symbols[byte] for byte in as_bytes(chr(code_point)))


class CharacterBPE(BPE):
    r"""Byte pair encoding on characters with byte fallback, as in SentencePiece and LLaMA.

    A character of the alphabet is one token, even if its UTF-8 has several bytes. Any other character is encoded as its
    bytes, which are never merged.

    Args:
        vocabulary, merges, pre_tokenizer, special_tokens, prefix, normalizer, ignore_merges: as in ``BPE``, but the
            default pre-tokenizer is ``LLAMA``.
        byte_ids: the ids of the 256 bytes that encode unseen characters. Other tokens may have the same bytes.

    Raises:
        ValueError: as in ``BPE``, or if ``byte_ids`` are not the ids of the 256 bytes.

    Source: Kudo and Richardson (2018); Touvron et al. (2023), section 2.1; GT-08, GT-42.

    >>> tokenizer = CharacterBPE.train(["naïve naïve"], n_vocab=266)
    >>> [tokenizer.vocabulary[i].decode() for i in tokenizer.encode("naïve")]
    ['naïve']
    >>> tokenizer.encode("🙂")
    [240, 159, 153, 130]
    """

    PRE_TOKENIZER = LLAMA

    def __init__(
        self,
        vocabulary: Sequence[bytes],
        merges: Mapping[tuple[int, int], int],
        pre_tokenizer: PreTokenizer | None = None,
        special_tokens: Mapping[str, int] | None = None,
        prefix: str = "",
        normalizer: Normalizer | None = None,
        *,
        byte_ids: Sequence[int] = range(256),
        ignore_merges: bool = False,
    ):
        self._byte_ids = list(byte_ids)
        ids_fit = all(0 <= i < len(vocabulary) for i in byte_ids)
        if not ids_fit or [vocabulary[i] for i in byte_ids] != [bytes([byte]) for byte in range(256)]:
            raise ValueError("byte_ids must be the ids of the bytes from 0 to 255, in order")
        super().__init__(
            vocabulary, merges, pre_tokenizer, special_tokens, prefix, normalizer, ignore_merges=ignore_merges
        )

    def _alphabet(self, id_of: Mapping[bytes, int]) -> dict[int, str]:
        characters = {}
        for token, i in id_of.items():
            text = token.decode("utf-8", "surrogatepass")
            if len(text) == 1:
                characters[ord(text)] = chr(i)
        return _SymbolTable(characters, [chr(i) for i in self._byte_ids])

    def _spell(self, piece: str) -> str:
        return piece.translate(self._symbols)

    @classmethod
    def _alphabet_of_training(
        cls, seen: Iterable[str], byte_alphabet: Sequence[int]
    ) -> tuple[list[bytes], Callable[[str], str]]:
        if list(byte_alphabet) != list(range(256)):
            raise ValueError("byte_alphabet must have its default: CharacterBPE never merges bytes")
        characters = sorted(set().union(*seen))
        symbols = {ord(character): chr(256 + i) for i, character in enumerate(characters)}
        vocabulary = [bytes([byte]) for byte in range(256)] + [as_bytes(character) for character in characters]
        return vocabulary, lambda piece: piece.translate(symbols)

    def _state(self) -> dict:
        return {"byte_ids": self._byte_ids} | super()._state()

    @classmethod
    def _from_state(cls, record: Record, **arguments) -> "BPE":
        byte_ids = record.take("byte_ids", list)
        if not all(type(i) is int for i in byte_ids):
            record.refuse("byte_ids", "it must be a list of 256 ids")
        return super()._from_state(record, byte_ids=byte_ids, **arguments)
