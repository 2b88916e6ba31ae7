"""Three tokenizers that need no statistics: one token for each character, for each word, or for each byte.

Together they show what is wanted: characters make sequences long, words make the vocabulary large and leave some words
out, bytes leave nothing out and make sequences longer still. Byte pair encoding (``bpe``) lies between them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from llm_anatomy.files import Record
from llm_anatomy.tokenizers.base import Tokenizer, append_special_tokens, as_bytes, check_texts
from llm_anatomy.tokenizers.pretokenization import AnySplit, PreTokenizer

UNKNOWN = "<unk>"


def one_hot(ids: Sequence[int], n_vocab: int) -> list[list[int]]:
    r"""Each id as a vector with a single one: what an embedding matrix is multiplied with.

    .. math:: e_i \in \{0, 1\}^{n_\mathrm{vocab}}, \quad (e_i)_j = [i = j]

    Args:
        ids: each from 0 to ``n_vocab - 1``.
        n_vocab: the length of the vectors.

    Returns:
        One row for each id.

    Raises:
        ValueError: for an id outside the vocabulary.

    Source: UCL-04, UCL-05.

    >>> one_hot([2, 0], 4)
    [[0, 0, 1, 0], [1, 0, 0, 0]]
    """
    for i in ids:
        if not 0 <= i < n_vocab:
            raise ValueError(f"id {i} is not in the vocabulary, 0 to {n_vocab - 1}")
    return [[int(i == j) for j in range(n_vocab)] for i in ids]


class ByteTokenizer(Tokenizer):
    """One token for each byte of the UTF-8: 256 ids, and nothing that cannot be written.

    Args:
        special_tokens: their ids follow the bytes.

    Source: Xue et al. (2022), ByT5, section 3.1; UCL-05.

    >>> ByteTokenizer().encode("é!")
    [195, 169, 33]
    >>> ByteTokenizer().decode([195])  # half a character
    '\\ufffd'
    """

    def __init__(self, special_tokens: Iterable[str] = ()):
        vocabulary, special_tokens = append_special_tokens([bytes([i]) for i in range(256)], special_tokens)
        super().__init__(vocabulary, AnySplit(), special_tokens)

    def _ids(self, piece: str) -> Sequence[int]:
        return as_bytes(piece)  # bytes are a sequence of integers

    @classmethod
    def _from_state(cls, record: Record, *, vocabulary, special_tokens, **arguments) -> "ByteTokenizer":
        tokenizer = cls(special_tokens)
        if tokenizer.vocabulary != vocabulary:
            record.refuse("vocabulary", "it must be the 256 bytes and then the special tokens")
        return tokenizer


class CharacterTokenizer(Tokenizer):
    """One token for each character that was seen in training.

    Args:
        characters: the alphabet, each once; its order gives the ids.
        special_tokens: their ids follow the alphabet.

    Raises:
        ValueError: for a character that comes twice; when encoding, for one that is not in the alphabet.

    Source: UCL-05 (one-hot letters).

    >>> tokenizer = CharacterTokenizer.train(["abba"])
    >>> tokenizer.encode("baa")
    [1, 0, 0]
    >>> one_hot(tokenizer.encode("baa"), tokenizer.n_vocab)
    [[0, 1], [1, 0], [1, 0]]
    """

    def __init__(self, characters: Iterable[str], special_tokens: Iterable[str] = ()):
        characters = list(characters)
        vocabulary, special_tokens = append_special_tokens(map(as_bytes, characters), special_tokens)
        super().__init__(vocabulary, AnySplit(), special_tokens)
        self._id_of = {character: i for i, character in enumerate(characters)}
        if len(self._id_of) < len(characters) or any(len(c) != 1 for c in characters):
            raise ValueError(f"characters={characters!r:.60} must be single characters, each once")

    @classmethod
    def train(cls, texts: Iterable[str], *, special_tokens: Iterable[str] = ()) -> "CharacterTokenizer":
        """The alphabet of some texts, in the order of Unicode."""
        return cls(sorted(set().union(*check_texts(texts))), special_tokens)

    def _ids(self, piece: str) -> Sequence[int]:
        try:
            return [self._id_of[character] for character in piece]
        except KeyError as error:
            raise ValueError(f"the character {error} is not in the vocabulary of {len(self._id_of)}") from None

    @classmethod
    def _from_state(cls, record: Record, *, vocabulary, special_tokens, **arguments) -> "CharacterTokenizer":
        n_characters = len(vocabulary) - len(special_tokens)
        characters = [token.decode("utf-8", "surrogatepass") for token in vocabulary[:n_characters]]
        return cls(characters, special_tokens)


class WordTokenizer(Tokenizer):
    r"""One token for each frequent word, sign or white space; the others are all the same unknown token.

    What was unknown is lost: decoding gives its text, not the word. ``pre_tokenizer`` says what a word is.

    Args:
        words: the vocabulary, each once; its order gives the ids.
        special_tokens: their ids follow, and then that of the unknown token.

    Raises:
        ValueError: for a word that comes twice.

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
        vocabulary, special_tokens = append_special_tokens(map(as_bytes, words), [*special_tokens, UNKNOWN])
        super().__init__(vocabulary, self.PRE_TOKENIZER, special_tokens)
        self._id_of = {word: [i] for i, word in enumerate(words)}
        self._unknown = [special_tokens[UNKNOWN]]
        if len(self._id_of) < len(words):
            raise ValueError(f"words={words!r:.60} must hold each word once")

    @classmethod
    def train(cls, texts: Iterable[str], n_vocab: int, *, special_tokens: Iterable[str] = ()) -> "WordTokenizer":
        """The most frequent words, as many as ``n_vocab`` leaves room for; at a tie, the one seen first."""
        special_tokens = list(special_tokens)
        n_words = n_vocab - len(special_tokens) - 1
        if n_words < 1:
            raise ValueError(f"{n_vocab=} must be at least {len(special_tokens) + 2}: a word and the special tokens")
        counts = Counter()
        for text in check_texts(texts):
            counts.update(cls.PRE_TOKENIZER(text))
        return cls([word for word, _ in counts.most_common(n_words)], special_tokens)

    def _ids(self, piece: str) -> Sequence[int]:
        return self._id_of.get(piece, self._unknown)

    @classmethod
    def _from_state(cls, record: Record, *, vocabulary, special_tokens, **arguments) -> "WordTokenizer":
        n_words = len(vocabulary) - len(special_tokens)
        words = [token.decode("utf-8", "surrogatepass") for token in vocabulary[:n_words]]
        return cls(words, [text for text in special_tokens if text != UNKNOWN])
