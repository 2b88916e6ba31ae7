r"""Byte pair encoding: begin with bytes, and join the most frequent pair again and again.

The lecture writes a new letter for each joined pair: aaabdaaabac becomes ZabdZabac with Z = aa. So does this module:
inside it, the token with id i is the character ``chr(i)``, a word is a string of such characters, a pair is a string of
two, and joining a pair is ``word.replace(pair, joined)``, which goes from left to right as it should.

"The most frequent pair" leaves two questions open, and tokenizers answer them differently: which pair wins a tie
(``smallest_ids``, ``first_seen``, ``shortest``), and how often aa occurs in aaa (``overlapping_pairs``,
``non_overlapping_pairs``).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from operator import add

from tqdm.auto import tqdm

from llm_anatomy.files import Record
from llm_anatomy.tokenizers.base import Tokenizer, append_special_tokens, as_bytes, check_texts
from llm_anatomy.tokenizers.normalization import Normalizer
from llm_anatomy.tokenizers.pretokenization import GPT4, LLAMA, PreTokenizer

_VISIBLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
GPT2_BYTES = _VISIBLE + [byte for byte in range(256) if byte not in _VISIBLE]
"""The bytes in the order of GPT-2's ids, which Hugging Face's byte-level trainer keeps: those that are visible in
latin-1 come first."""


def _latin(piece: str) -> str:
    """The UTF-8 of a piece with each byte as one character."""
    return as_bytes(piece).decode("latin-1")


# --- How often a pair occurs ---


def overlapping_pairs(word: str) -> Iterable[str]:
    r"""The pairs of neighbours: each symbol with the next one. In aaa, aa is counted twice.

    Args:
        word: a string of symbols.

    Source: UCL-08 (its pair_stats), Hugging Face tokenizers, tiktoken's teaching code; erratum E-82.

    >>> list(overlapping_pairs("aaab"))
    ['aa', 'aa', 'ab']
    """
    return map(add, word, word[1:])


def non_overlapping_pairs(word: str) -> Iterable[str]:
    r"""The pairs that could be joined: in aaa, aa is counted once, since the middle a can be joined only once.

    Args:
        word: a string of symbols.

    Source: erratum E-82: aaabdaaabac holds aa four times, of which two can be joined; UCL-07.

    >>> list(non_overlapping_pairs("aaab"))
    ['aa', 'ab']
    """
    last = None
    for pair in overlapping_pairs(word):
        last = None if pair == last else pair
        if last:
            yield pair


class PairCounts:
    r"""All words of a corpus as strings of symbols, how often each pair occurs in them, and where.

    .. math:: \mathrm{count}(p) = \sum_w n_w \, \#\{\text{occurrences of } p \text{ in } w\}

    A word is looked at once, however often it occurs, and a merge touches only the words that hold its pair.

    Args:
        words: each distinct word and how often it occurs, in the order in which they were seen.
        vocabulary: the bytes of each symbol.
        find_pairs: ``overlapping_pairs`` or ``non_overlapping_pairs``.

    Source: Sennrich et al. (2016), section 3.2 and algorithm 1; UCL-07, UCL-08.

    >>> pairs = PairCounts({"aaabdaaabac": 1}, [bytes([i]) for i in range(256)])
    >>> pairs.counts
    {'aa': 4, 'ab': 2, 'bd': 1, 'da': 1, 'ba': 1, 'ac': 1}
    >>> sorted(pairs.join("aa", "Z"))
    ['Za', 'dZ']
    >>> pairs.words
    ['ZabdZabac']
    """

    def __init__(
        self,
        words: Mapping[str, int],
        vocabulary: Sequence[bytes],
        find_pairs: Callable[[str], Iterable[str]] = overlapping_pairs,
    ):
        self.words, self.repeats = list(words), list(words.values())
        self.vocabulary, self.find_pairs = vocabulary, find_pairs
        self.where = defaultdict(list)  # words that hold the pair, in order; some may hold it no longer
        counts = defaultdict(int)
        for i, (word, n) in enumerate(words.items()):
            for pair in find_pairs(word):
                counts[pair] += n
                self.where[pair].append(i)
        self.counts = dict(counts)

    def join(self, pair: str, joined: str) -> set[str]:
        """Write ``joined`` for the pair in every word; returns the pairs that have come into being."""
        counts, where, new = self.counts, self.where, set()
        for i in where.pop(pair):
            before = self.words[i]
            after = before.replace(pair, joined)
            if after == before:
                continue
            self.words[i], n = after, self.repeats[i]
            for old in self.find_pairs(before):
                counts[old] -= n
            for now in self.find_pairs(after):
                counts[now] = counts.get(now, 0) + n
                if joined in now:
                    new.add(now)
                    where[now].append(i)
        del counts[pair]
        return new


# --- Which of several pairs that are equally frequent ---


def smallest_ids(pair: str, pairs: PairCounts) -> str:
    """The pair whose left token is older, then whose right token is: as in Hugging Face tokenizers and rustbpe.

    Args:
        pair, pairs: a pair of the corpus; what is returned is compared, and the smallest wins.

    Source: Hugging Face tokenizers (BpeTrainer); UCL-07, where ab wins over Za.

    >>> min("Źa", "ab", key=lambda pair: smallest_ids(pair, PairCounts({}, [])))
    'ab'
    """
    return pair


def first_seen(pair: str, pairs: PairCounts) -> tuple[int, int]:
    """The pair that comes first in the text: as in minbpe, and wherever Python's ``max`` looks through a dictionary.

    Args:
        pair, pairs: a pair of the corpus; what is returned, its word and its byte, is compared, and the smallest wins.

    Source: UCL-07: with Za joined before ab the lecture's text ends the same.

    >>> first_seen("bd", PairCounts({"aaabd": 1}, [bytes([i]) for i in range(256)]))
    (0, 3)
    """
    i, word = next((i, pairs.words[i]) for i in pairs.where[pair] if pair in pairs.words[i])
    return i, sum(len(pairs.vocabulary[ord(symbol)]) for symbol in word[: word.index(pair)])


def shortest(pair: str, pairs: PairCounts) -> tuple[int, bytes]:
    """The pair that makes the token with fewer characters, then the first in the alphabet: as in SentencePiece.

    Args:
        pair, pairs: a pair of the corpus; what is returned is compared, and the smallest wins.

    Source: Kudo and Richardson (2018), SentencePiece (its BPE trainer), where a space is the late letter ▁; GT-42.

    >>> shortest(" a", PairCounts({" a": 1}, [bytes([i]) for i in range(256)])) > (2, b"yz")
    True
    """
    token = b"".join(pairs.vocabulary[ord(symbol)] for symbol in pair)
    return len(token.decode(errors="replace")), token.replace(b" ", "▁".encode())


def merge_steps(
    pairs: PairCounts, n_vocab: int, tie_break: Callable[[str, PairCounts], object] = smallest_ids
) -> Iterator[tuple[str, str, int]]:
    r"""Find and join the most frequent pair until the vocabulary is full or no pair is left.

    The pairs wait in a heap. Counts of pairs that a merge breaks up fall without the heap being told: such an entry is
    noticed when it comes to the top, and put back where it belongs.

    Args:
        pairs: the corpus; it and its vocabulary change as the steps are taken.
        n_vocab: tokens to end with.
        tie_break: ``smallest_ids``, ``first_seen`` or ``shortest``.

    Returns:
        For each step the pair, its new symbol and its count; by then it has been joined.

    No token comes twice. A stretch of text between two borders that are never joined over goes through the steps as it
    would alone. So wherever it becomes one token, it does so by the same pair at the same step; and encoded alone, a
    token is itself.

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
        joined = chr(len(vocabulary))
        vocabulary.append(vocabulary[ord(pair[0])] + vocabulary[ord(pair[1])])
        for new in pairs.join(pair, joined):
            heappush(heap, (-counts[new], tie_break(new, pairs), new))
        yield pair, joined, now


@dataclass(frozen=True)
class MergeStep:
    """One merge, for who wants to watch.

    Args:
        pair: the bytes of the two tokens that were joined.
        token_id: the id that they got.
        count: how often the pair occurred.
        counts: of all pairs before this merge, the most frequent first.
        text: the tokens of the text after it, piece by piece.

    Source: UCL-07 (the table of pairs beside the text).

    >>> step = next(BPE.train(["aab aab"], 258, trace=True))
    >>> step.pair, step.count, step.text
    ((b'a', b'a'), 2, [[b'aa', b'b'], [b' ', b'aa', b'b']])
    """

    pair: tuple[bytes, bytes]
    token_id: int
    count: int
    counts: dict[tuple[bytes, bytes], int]
    text: list[list[bytes]]


def _trace(pairs: PairCounts, numbers: list[int], steps: Iterator[tuple[str, str, int]]) -> Iterator[MergeStep]:
    """What the steps look like; ``numbers`` are those of the words in the order of the text."""

    def spelled(symbols: str) -> tuple[bytes, ...]:
        return tuple(pairs.vocabulary[ord(symbol)] for symbol in symbols)

    def ranked() -> dict[tuple[bytes, bytes], int]:
        return {spelled(pair): n for pair, n in sorted(pairs.counts.items(), key=lambda item: -item[1]) if n}

    counts = ranked()
    for pair, joined, count in steps:
        yield MergeStep(spelled(pair), ord(joined), count, counts, [list(spelled(pairs.words[i])) for i in numbers])
        counts = ranked()


def in_letters(steps: Iterable[MergeStep]) -> Iterator[str]:
    """The text after each step as the lecture writes it: Z for the first joined pair, Y for the second, and so on.

    Args:
        steps: of one training with ``trace=True``. Letters that the text itself uses are left out.

    Raises:
        ValueError: when no visible ASCII character is left, which is why real vocabularies use numbers.

    Source: UCL-07, UCL-08 (new symbols count down from Z); errata E-73, E-82.

    >>> from llm_anatomy.tokenizers.pretokenization import NoSplit
    >>> list(in_letters(BPE.train(["aaabdaaabac"], 259, pre_tokenizer=NoSplit(), trace=True)))
    ['ZabdZabac', 'ZYdZYac', 'XdXac']
    """
    letters, free = {}, None
    for step in steps:
        if free is None:
            used = {byte for tokens in step.text for token in tokens for byte in token}
            free = (chr(i) for i in range(ord("Z"), ord(" "), -1) if i not in used)
        token = b"".join(step.pair)
        if token not in letters:
            letters[token] = next(free, None)
        if letters[token] is None:
            raise ValueError(f"no letter is left for token {len(letters)}, {token!r}")
        yield "".join(letters.get(t) or t.decode("latin-1") for tokens in step.text for t in tokens)


# --- The tokenizer ---


class BPE(Tokenizer):
    r"""Byte pair encoding on bytes: every text can be written, and frequent strings are one token.

    A word is encoded as it would have been in training: of all neighbours that may be joined, the pair learned first is
    joined first; where it occurs more than once, from the left.

    Args:
        vocabulary: the bytes that each id stands for; all 256 single bytes are among them.
        merges: for each pair of ids that may be joined, its rank: the lowest is joined first. The joined token is the
            one with the bytes of both.
        pre_tokenizer: as in ``Tokenizer``; without one, ``GPT4``.
        special_tokens, prefix, normalizer: as in ``Tokenizer``.
        ignore_merges: a piece that is itself a token becomes that token without asking the merges, as in tiktoken. For
            a trained vocabulary this changes nothing but the time.
        backend: "python", or "tiktoken" where that library is installed: the same ids from compiled code.

    Raises:
        ValueError: for a vocabulary that lacks a byte, or a merge whose result it lacks; for ``backend="tiktoken"``
            where tiktoken would not give the same ids.

    Source: Gage (1994); Sennrich et al. (2016), section 3.2; Radford et al. (2019), section 2.2; UCL-07, UCL-08, GT-40.

    >>> tokenizer = BPE.train(["low lower lowest, new newer newest"], n_vocab=266)
    >>> [tokenizer.vocabulary[i] for i in tokenizer.encode("the newest is slow")]
    [b't', b'h', b'e', b' ne', b'west', b' ', b'i', b's', b' ', b's', b'low']
    """

    PRE_TOKENIZER = GPT4
    """Where none is given."""

    _byte_ids: Sequence[int] = ()
    """Ids of bytes that are never joined; here there are none."""

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
        self._ranks, self._joined = {}, {}
        for (left, right), rank in merges.items():
            if not (0 <= left < len(vocabulary) and 0 <= right < len(vocabulary)):
                raise ValueError(f"merges[{left}, {right}]: ids go from 0 to {len(vocabulary) - 1}")
            token = vocabulary[left] + vocabulary[right]
            if token not in id_of:
                raise ValueError(f"merges[{left}, {right}] makes {token!r}, which the vocabulary does not hold")
            pair = chr(left) + chr(right)
            self._ranks[pair], self._joined[pair] = rank, chr(id_of[token])
        self._whole = {token: [i] for token, i in id_of.items()} if ignore_merges else {}
        self._compiled = self._tiktoken(id_of) if backend == "tiktoken" else None

    @property
    def merges(self) -> dict[tuple[int, int], int]:
        """The rank of each pair of ids that may be joined, in the order of learning (a copy)."""
        return {(ord(left), ord(right)): rank for (left, right), rank in self._ranks.items()}

    def _alphabet(self, id_of: Mapping[bytes, int]) -> dict[int, str]:
        """From a byte to its symbol."""
        missing = [byte for byte in range(256) if bytes([byte]) not in id_of]
        if missing:
            raise ValueError(f"vocabulary lacks {len(missing)} of the 256 single bytes, the first is {missing[0]}")
        return {byte: chr(id_of[bytes([byte])]) for byte in range(256)}

    def _spell(self, piece: str) -> str:
        """A piece as a string of symbols."""
        return _latin(piece).translate(self._symbols)

    def _ids(self, piece: str) -> Sequence[int]:
        if self._whole and (ids := self._whole.get(as_bytes(piece))):
            return ids
        return list(map(ord, self._join(self._spell(piece))))

    def _join(self, word: str) -> str:
        """Join what may be joined, lowest rank first, then leftmost: neighbours in a linked list, pairs in a heap.

        Looking at all pairs again after each merge would take time quadratic in the length of a word, and somebody
        will send a hundred thousand letters without a space.
        """
        ranks, joined, n = self._ranks, self._joined, len(word)
        symbols, before, after = list(word), list(range(-1, n - 1)), list(range(1, n + 1))
        heap = [(ranks[pair], i, pair) for i, pair in enumerate(overlapping_pairs(word)) if pair in ranks]
        heapify(heap)
        while heap:
            _, i, pair = heappop(heap)
            j = after[i]
            if j == n or symbols[i] + symbols[j] != pair:  # one of the two was joined with another meanwhile
                continue
            symbols[i], symbols[j], after[i] = joined[pair], "", after[j]
            if after[i] < n:
                before[after[i]] = i
            for left, right in (before[i], i), (i, after[i]):
                if left >= 0 and right < n and (pair := symbols[left] + symbols[right]) in ranks:
                    heappush(heap, (ranks[pair], left, pair))
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
            texts: any number of strings; each is split by itself.
            n_vocab: ids to end with, bytes and special tokens included; fewer if the texts have no more pairs.
            pre_tokenizer: keeps apart what may not be joined; without one, the ``PRE_TOKENIZER`` of the class.
            special_tokens: their ids follow the merges.
            tie_break: ``smallest_ids``, ``first_seen`` or ``shortest``.
            find_pairs: ``overlapping_pairs`` or ``non_overlapping_pairs``.
            byte_alphabet: the bytes in the order of their ids, which decides ties too: 0 to 255, or ``GPT2_BYTES``.
            trace: give the merges one by one as ``MergeStep`` instead of a tokenizer; for small texts.
            progress: show a bar.

        Raises:
            ValueError: for a vocabulary that has no room for the alphabet and the special tokens.
        """
        special_tokens, pre_tokenizer = list(check_texts(special_tokens)), pre_tokenizer or cls.PRE_TOKENIZER
        append_special_tokens([], special_tokens)
        _check_vocabulary_size(n_vocab, 256, len(special_tokens))
        seen, order = Counter(), []
        for text in check_texts(texts):
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
            number = {word: i for i, word in enumerate(words)}
            return _trace(pairs, [number[spell(piece)] for piece in order], steps)
        bar = tqdm(steps, total=n_vocab - n_alphabet - len(special_tokens), disable=not progress, unit="merge")
        merges = {(ord(pair[0]), ord(pair[1])): rank for rank, (pair, _, _) in enumerate(bar)}
        vocabulary, special_ids = append_special_tokens(vocabulary, special_tokens)
        return cls(vocabulary, merges, pre_tokenizer, special_ids, ignore_merges=True)

    @classmethod
    def _alphabet_of_training(
        cls, seen: Iterable[str], byte_alphabet: Sequence[int]
    ) -> tuple[list[bytes], Callable[[str], str]]:
        """The vocabulary to begin with, and how a piece is written in its symbols."""
        if sorted(byte_alphabet) != list(range(256)):
            raise ValueError(f"byte_alphabet={byte_alphabet!r:.60} must hold each number from 0 to 255 once")
        symbols = {byte: chr(i) for i, byte in enumerate(byte_alphabet)}
        return [bytes([byte]) for byte in byte_alphabet], lambda piece: _latin(piece).translate(symbols)

    # --- Files ---

    def _state(self) -> dict:
        merges = [[left, right, rank] for (left, right), rank in self.merges.items()]
        return {"ignore_merges": bool(self._whole), "merges": merges}

    @classmethod
    def _from_state(cls, record: Record, **arguments) -> "BPE":
        merges = {}
        for i, entry in enumerate(record.take("merges", list)):
            if not (isinstance(entry, list) and len(entry) == 3 and all(type(n) is int for n in entry)):
                record.refuse("merges", f"entry {i} is {entry!r:.40}; two ids and a rank are wanted")
            merges[entry[0], entry[1]] = entry[2]
        return cls(merges=merges, ignore_merges=record.take("ignore_merges", bool), **arguments)

    # --- The same ids from compiled code ---

    def _encode_ordinary(self, text: str) -> list[int]:
        if self._compiled is None or not _is_unicode(text):
            return super()._encode_ordinary(text)
        return self._compiled(text)

    def _tiktoken(self, id_of: Mapping[bytes, int]) -> Callable[[str], list[int]]:
        """tiktoken's encoder of the same vocabulary. It joins any two neighbours that make a token, the lowest id
        first, so each token must be made at one rank, ids and ranks must rise together, and no text may be left out.
        """
        ranks_of = defaultdict(set)
        for pair, rank in self._ranks.items():
            ranks_of[ord(self._joined[pair])].add(rank)
        ranks = [rank for i in sorted(ranks_of) for rank in ranks_of[i]]
        if len(ranks) > len(ranks_of) or ranks != sorted(ranks):
            raise ValueError("backend='tiktoken' joins by id, but these merges are not in the order of their ids")
        for token in id_of:
            if not self._whole and len(self._join(token.decode("latin-1").translate(self._symbols))) > 1:
                raise ValueError(f"backend='tiktoken' would use {token!r}, which these merges never make")
        import tiktoken

        pattern = f"{self.pre_tokenizer.pattern}|(?s:.)"
        return tiktoken.Encoding(
            "llm_anatomy", pat_str=pattern, mergeable_ranks=id_of, special_tokens={}
        ).encode_ordinary


def _check_vocabulary_size(n_vocab: int, n_alphabet: int, n_special: int) -> None:
    if n_vocab < n_alphabet + n_special:
        raise ValueError(
            f"{n_vocab=} must be at least {n_alphabet + n_special}: {n_alphabet} tokens of the alphabet and "
            f"{n_special} special tokens"
        )


def _is_unicode(text: str) -> bool:
    """Whether there is no lone surrogate; tiktoken would replace it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _OrBytes(dict):
    """From a character's number to its symbol, and from any other's to the symbols of its bytes."""

    def __init__(self, symbols: Mapping[int, str], byte_symbols: Sequence[str]):
        super().__init__(symbols)
        self.byte_symbols = byte_symbols

    def __missing__(self, number: int) -> str:
        return "".join(self.byte_symbols[byte] for byte in as_bytes(chr(number)))


class CharacterBPE(BPE):
    r"""Byte pair encoding on characters, with bytes for those that were never seen: SentencePiece's way, as in LLaMA.

    A character of the alphabet is one token even where its UTF-8 has several bytes; another becomes its bytes, which
    are never joined.

    Args:
        vocabulary, merges, pre_tokenizer, special_tokens, prefix, normalizer, ignore_merges: as in ``BPE``, but the
            default pre-tokenizer is ``LLAMA``.
        byte_ids: the ids of the 256 bytes that stand for unseen characters. Other tokens may have the same bytes.

    Raises:
        ValueError: as in ``BPE``, and for byte ids that are not those of the bytes.

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
        return _OrBytes(characters, [chr(i) for i in self._byte_ids])

    def _spell(self, piece: str) -> str:
        return piece.translate(self._symbols)

    @classmethod
    def _alphabet_of_training(
        cls, seen: Iterable[str], byte_alphabet: Sequence[int]
    ) -> tuple[list[bytes], Callable[[str], str]]:
        if list(byte_alphabet) != list(range(256)):
            raise ValueError("byte_alphabet must be left alone: here bytes are never joined")
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
            record.refuse("byte_ids", "256 ids are wanted")
        return super()._from_state(record, byte_ids=byte_ids, **arguments)
