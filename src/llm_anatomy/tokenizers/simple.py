"""The three simplest tokenizers: one token for each character, for each word, or for each byte.

Each has a drawback. Characters make sequences long. Words make the vocabulary large, and some words are still missing
from it. Bytes can write every text but make sequences longer still. Byte pair encoding (``bpe``) is the compromise.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from llm_anatomy.files import Record
from llm_anatomy.tokenizers.base import PieceTokenizer, append_special_tokens, as_bytes, check_texts
from llm_anatomy.tokenizers.pretokenization import AnySplit, PreTokenizer

UNK_TOKEN = "<unk>"


def one_hot(ids: Sequence[int], n_vocab: int) -> list[list[int]]:
    r"""Turn each id into a one-hot vector; its product with an embedding matrix is the embedding of the token.

    .. math:: e_i \in \{0, 1\}^{n_\mathrm{vocab}}, \quad (e_i)_j = [i = j]

    Args:
        ids: token ids from 0 to ``n_vocab - 1``.
        n_vocab: length of the vectors.

    Returns:
        One vector for each id.

    Raises:
        ValueError: if an id is not in the vocabulary.

    Source: UCL-04, UCL-05.

    >>> one_hot([2, 0], 4)
    [[0, 0, 1, 0], [1, 0, 0, 0]]
    """
    for i in ids:
        if not 0 <= i < n_vocab:
            raise ValueError(f"id {i} is not in the vocabulary, whose ids are 0 to {n_vocab - 1}")
    return [[int(i == j) for j in range(n_vocab)] for i in ids]


class ByteTokenizer(PieceTokenizer):
    """Encode each byte of the UTF-8 as one token: 256 tokens can write every text.

    Args:
        special_tokens: their ids follow those of the bytes.

    Source: Xue et al. (2022), ByT5, section 3.1; UCL-05.

    >>> ByteTokenizer().encode("é!")
    [195, 169, 33]
    >>> ByteTokenizer().decode([195])  # the first of the two bytes of é
    '\\ufffd'
    """

    def __init__(self, special_tokens: Iterable[str] = ()):
        vocabulary, special_ids = append_special_tokens([bytes([i]) for i in range(256)], special_tokens)
        super().__init__(vocabulary, AnySplit(), special_ids)

    def _ids(self, piece: str) -> Sequence[int]:
        return as_bytes(piece)  # bytes are a sequence of integers

    @classmethod
    def _from_state(cls, record: Record, *, vocabulary, special_tokens, **arguments) -> "ByteTokenizer":
        tokenizer = cls(special_tokens)
        if tokenizer.vocabulary != vocabulary:
            record.refuse("vocabulary", "it must hold the 256 bytes and then the special tokens")
        return tokenizer


class CharacterTokenizer(PieceTokenizer):
    """Encode each character as one token. Characters that are not in the alphabet cannot be encoded.

    Args:
        characters: the alphabet, without duplicates; a character's id is its index.
        special_tokens: their ids follow those of the alphabet.

    Raises:
        ValueError: if a character occurs twice in the alphabet; in ``encode``, if a character is not in the alphabet.

    Source: UCL-05 (one-hot letters).

    >>> tokenizer = CharacterTokenizer.train(["abba"])
    >>> tokenizer.encode("baa")
    [1, 0, 0]
    >>> one_hot(tokenizer.encode("baa"), tokenizer.n_vocab)
    [[0, 1], [1, 0], [1, 0]]
    """

    def __init__(self, characters: Iterable[str], special_tokens: Iterable[str] = ()):
        characters = list(characters)
        vocabulary, special_ids = append_special_tokens(map(as_bytes, characters), special_tokens)
        super().__init__(vocabulary, AnySplit(), special_ids)
        self._id_of = {character: i for i, character in enumerate(characters)}
        if len(self._id_of) < len(characters) or any(len(c) != 1 for c in characters):
            raise ValueError(f"characters={characters!r:.60} must be single characters without duplicates")

    @classmethod
    def train(cls, texts: Iterable[str], *, special_tokens: Iterable[str] = ()) -> "CharacterTokenizer":
        """Take the alphabet from texts, in the order of Unicode."""
        return cls(sorted(set().union(*check_texts(texts))), special_tokens)

    def _ids(self, piece: str) -> Sequence[int]:
        try:
            return [self._id_of[character] for character in piece]
        except KeyError as error:
            raise ValueError(f"{error} is not in the alphabet of {len(self._id_of)} characters") from None

    @classmethod
    def _from_state(cls, record: Record, *, vocabulary, special_tokens, **arguments) -> "CharacterTokenizer":
        n_characters = len(vocabulary) - len(special_tokens)
        characters = [token.decode("utf-8", "surrogatepass") for token in vocabulary[:n_characters]]
        return cls(characters, special_tokens)


class WordTokenizer(PieceTokenizer):
    r"""Encode each word, each sign and each white-space character as one token, and all others as the unknown token.

    Decoding cannot restore an unknown word: it gives the text of the unknown token. ``PRE_TOKENIZER`` defines what a
    word is.

    Args:
        words: the vocabulary, without duplicates; a word's id is its index.
        special_tokens: their ids follow those of the words; the unknown token comes last.

    Raises:
        ValueError: if a word occurs twice.

    Source: UCL-06.

    >>> tokenizer = WordTokenizer.train(["the cat and the dog"], n_vocab=4)
    >>> tokenizer.vocabulary
    [b' ', b'the', b'cat', b'<unk>']
    >>> tokenizer.decode(tokenizer.encode("the dog"))
    'the <unk>'
    """

    PRE_TOKENIZER = PreTokenizer(r"\w+|\s|[^\w\s]", look_ahead=0)

    def __init__(self, words: Iterable[str], special_tokens: Iterable[str] = ()):
        words = list(words)
        vocabulary, special_ids = append_special_tokens(map(as_bytes, words), [*special_tokens, UNK_TOKEN])
        super().__init__(vocabulary, self.PRE_TOKENIZER, special_ids)
        self._id_of = {word: [i] for i, word in enumerate(words)}
        self._unk_ids = [special_ids[UNK_TOKEN]]
        if len(self._id_of) < len(words):
            raise ValueError(f"words={words!r:.60} must not hold duplicates")

    @classmethod
    def train(cls, texts: Iterable[str], n_vocab: int, *, special_tokens: Iterable[str] = ()) -> "WordTokenizer":
        """Take the most frequent words of texts, as many as ``n_vocab`` allows; of equally frequent ones, the first."""
        special_tokens = list(special_tokens)
        n_words = n_vocab - len(special_tokens) - 1
        if n_words < 1:
            raise ValueError(
                f"{n_vocab=} must be at least {len(special_tokens) + 2}: a word, the special tokens, the unknown token"
            )
        counts = Counter()
        for text in check_texts(texts):
            counts.update(cls.PRE_TOKENIZER(text))
        return cls([word for word, _ in counts.most_common(n_words)], special_tokens)

    def _ids(self, piece: str) -> Sequence[int]:
        return self._id_of.get(piece, self._unk_ids)

    @classmethod
    def _from_state(cls, record: Record, *, vocabulary, special_tokens, **arguments) -> "WordTokenizer":
        n_words = len(vocabulary) - len(special_tokens)
        words = [token.decode("utf-8", "surrogatepass") for token in vocabulary[:n_words]]
        return cls(words, [text for text in special_tokens if text != UNK_TOKEN])
