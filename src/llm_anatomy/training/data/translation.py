"""A small parallel corpus of English and Tolva, an invented language, with word alignments.

Tolva is regular, and it differs from English in ways that attention has to learn:

- The time comes first and the verb last: *the dog sees a bird today* is, word by word, *today dog the bird sees*.
- In a noun phrase the noun comes first: *two small dogs* is *dogs small two*. Prepositions such as *in* follow the noun
  phrase.
- Nouns have a class, ``-o`` or ``-a``, and a plural ending ``-n``. Adjectives, numbers and articles have the endings of
  their noun. The verb has the endings of its subject, and one for the person.
- There is no *a*, and a pronoun as the subject is left out, since the verb expresses it. *will see* is one word. *not*
  is a word before the verb.

So the words of a pair correspond one to one, many to one or not at all, and rarely in the same order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

# English singular and plural: Tolva stem and class
NOUNS = {
    ("dog", "dogs"): ("kav", "o"), ("cat", "cats"): ("mir", "a"), ("bird", "birds"): ("sul", "a"),
    ("horse", "horses"): ("bret", "o"), ("mouse", "mice"): ("pik", "a"), ("fish", "fish"): ("lun", "o"),
    ("child", "children"): ("tem", "a"), ("woman", "women"): ("ves", "a"), ("man", "men"): ("dor", "o"),
    ("king", "kings"): ("rag", "o"), ("teacher", "teachers"): ("olm", "a"), ("farmer", "farmers"): ("grin", "o"),
    ("sailor", "sailors"): ("nav", "o"), ("friend", "friends"): ("ami", "a"), ("house", "houses"): ("kas", "a"),
    ("tree", "trees"): ("wod", "o"), ("boat", "boats"): ("bul", "a"), ("book", "books"): ("lib", "o"),
    ("letter", "letters"): ("skri", "a"), ("apple", "apples"): ("pom", "a"), ("stone", "stones"): ("gar", "o"),
    ("song", "songs"): ("kant", "a"), ("river", "rivers"): ("flus", "o"), ("garden", "gardens"): ("hort", "o"),
}  # fmt: skip
PEOPLE, THINGS = list(NOUNS)[:14], list(NOUNS)[14:22]
PLACES = [noun for noun in NOUNS if noun[0] in ("house", "tree", "boat", "river", "garden", "stone")]
ADJECTIVES = {
    "big": "gran", "small": "pet", "old": "vet", "young": "jov", "red": "rus", "white": "blan", "green": "zel",
    "happy": "rad", "tired": "fat", "strange": "mist", "new": "nov", "quiet": "tis",
}  # fmt: skip
NUMBERS = {"two": "du", "three": "tri", "four": "kvar", "five": "pent"}
# English base form, third person and past: Tolva stem
VERBS = {
    ("see", "sees", "saw"): "vid", ("find", "finds", "found"): "trov", ("take", "takes", "took"): "pren",
    ("carry", "carries", "carried"): "port", ("like", "likes", "liked"): "lub", ("watch", "watches", "watched"): "gard",
    ("draw", "draws", "drew"): "risk", ("know", "knows", "knew"): "zna", ("want", "wants", "wanted"): "vol",
    ("bring", "brings", "brought"): "ber", ("hide", "hides", "hid"): "kel", ("touch", "touches", "touched"): "tang",
}  # fmt: skip
PREPOSITIONS = {"in": "ni", "near": "apu", "behind": "post", "under": "sub", "with": "kun"}
# the verb's ending for the person and number of each pronoun
PRONOUNS = {"I": "m", "you": "t", "he": "", "she": "", "we": "mn", "they": "n"}
TENSES = {"present": "e", "past": "i", "future": "u"}
TIMES = {
    "present": {"today": "nun", "now": "jet", "every day": "kada"},
    "past": {"yesterday": "jer", "long ago": "olim"},
    "future": {"tomorrow": "mon", "soon": "tost"},
}


@dataclass(frozen=True)
class Pair:
    """A sentence in two languages, with its word alignment.

    Args:
        english, tolva: the words.
        alignment: pairs (index in ``english``, index in ``tolva``) of words that correspond to each other.

    Source: written for this course; for alignments, Brown et al. (1993), section 2.

    >>> Pair(("I", "sing"), ("kantem",), ((0, 0), (1, 0))).alignment
    ((0, 0), (1, 0))
    """

    english: tuple[str, ...]
    tolva: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...]

    @property
    def sure(self) -> tuple[tuple[int, int], ...]:
        """The sure links: of several English words for one Tolva word, the last one, which is no auxiliary or pronoun.

        The other links are possible ones, in the sense of Och and Ney (2003), section 5.2.
        """
        return tuple({j: (i, j) for i, j in self.alignment}.values())


# The words of a phrase in one language, each with a mark. Words with the same mark correspond to each other.
_Mark = str | tuple[str, str]
_Phrase = list[tuple[str, _Mark]]


def pair(seed: int = 0, index: int = 0) -> Pair:
    """Generate one pair of a corpus; the pairs before it need not be generated.

    Args:
        seed: seed of the corpus.
        index: index of the pair, from 0.

    Raises:
        ValueError: if ``index`` is below 0.

    Source: written for this course.

    >>> both = pair(seed=0, index=3)
    >>> " ".join(both.english)
    'the four dogs will not see the woman .'
    >>> " ".join(both.tolva)
    'kavon kvaron lon vesa la nu vidun .'
    >>> [(both.english[i], both.tolva[j]) for i, j in both.alignment][:4]
    [('the', 'lon'), ('four', 'kvaron'), ('dogs', 'kavon'), ('will', 'vidun')]
    """
    if index < 0:
        raise ValueError(f"{index=} must be at least 0")
    rng = Random(f"{seed}/{index}")
    english, tolva = _sentence(rng)
    alignment = [(i, j) for i, (_, mark) in enumerate(english) for j, (_, other) in enumerate(tolva) if mark == other]
    return Pair(tuple(word for word, _ in english), tuple(word for word, _ in tolva), tuple(alignment))


def pairs(seed: int = 0, n: int | None = None, first: int = 0) -> Iterator[Pair]:
    """Generate the pairs of a corpus one after the other.

    Args:
        seed: seed of the corpus.
        n: number of pairs; None for no end.
        first: index of the first pair.

    Raises:
        ValueError: if ``n`` or ``first`` is below 0.

    Source: written for this course.

    >>> next(pairs(first=2)) == list(pairs(n=3))[2]
    True
    """
    if n is not None and n < 0:
        raise ValueError(f"{n=} must be at least 0, or None for no end")
    for index in count(first) if n is None else range(first, first + n):
        yield pair(seed, index)


def joined(sentences: Sequence[Pair]) -> Pair:
    """Join sentences to a longer one, with *and* (*aj*) between them.

    Args:
        sentences: at least one, each ending in a full stop.

    Raises:
        ValueError: if there is no sentence.

    Source: written for this course, to lengthen sentences as in Cho et al. (2014), section 4.

    >>> long = joined([pair(seed=0, index=3), pair(seed=0, index=3)])
    >>> " ".join(long.tolva)
    'kavon kvaron lon vesa la nu vidun aj kavon kvaron lon vesa la nu vidun .'
    """
    if not sentences:
        raise ValueError("sentences is empty; it must hold at least one")
    english, tolva, alignment = [], [], []
    for number, one in enumerate(sentences):
        if number:  # "and" in place of the full stop
            english[-1], tolva[-1] = "and", "aj"
        alignment += [(i + len(english), j + len(tolva)) for i, j in one.alignment]
        english, tolva = [*english, *one.english], [*tolva, *one.tolva]
    return Pair(tuple(english), tuple(tolva), tuple(alignment))


def _sentence(rng: Random) -> tuple[_Phrase, _Phrase]:
    """Subject, verb, object, and perhaps a place and a time; in Tolva time, subject, place, object, verb."""
    tense = rng.choice(list(TENSES))
    subject, tolva_subject, ending = _pronoun(rng) if rng.random() < 0.3 else _noun_phrase(rng, PEOPLE, "subject")
    verb, tolva_verb = _verb(rng, tense, ending)
    thing, tolva_thing, _ = _noun_phrase(rng, PEOPLE + THINGS, "object")
    place, tolva_place = _place(rng) if rng.random() < 0.4 else ([], [])
    time, tolva_time = _time(rng, tense) if rng.random() < 0.5 else ([], [])
    stop: _Phrase = [(".", "stop")]
    return (
        subject + verb + thing + place + time + stop,
        tolva_time + tolva_subject + tolva_place + tolva_thing + tolva_verb + stop,
    )


def _pronoun(rng: Random) -> tuple[_Phrase, _Phrase, str]:
    """A pronoun. Tolva leaves it out, and it has the mark of the verb, whose ending expresses it."""
    word = rng.choice(list(PRONOUNS))
    return [(word, "verb")], [], PRONOUNS[word]


def _noun_phrase(rng: Random, nouns: list[tuple[str, str]], role: str) -> tuple[_Phrase, _Phrase, str]:
    """A noun phrase, such as *the two small dogs* (*dogs small two the*), and the ending that it gives the verb."""
    noun = rng.choice(nouns)
    stem, vowel = NOUNS[noun]
    number = rng.choice(list(NUMBERS)) if rng.random() < 0.3 else None
    several = number is not None or rng.random() < 0.3
    definite = rng.random() < 0.6
    adjective = rng.choice(list(ADJECTIVES)) if rng.random() < 0.5 else None
    ending = vowel + "n" * several
    english: _Phrase = [(noun[several], (role, "noun"))]
    tolva: _Phrase = [(stem + ending, (role, "noun"))]
    if adjective:
        english = [(adjective, (role, "adjective")), *english]
        tolva = [*tolva, (ADJECTIVES[adjective] + ending, (role, "adjective"))]
    if number:
        english = [(number, (role, "number")), *english]
        tolva = [*tolva, (NUMBERS[number] + ending, (role, "number"))]
    if definite:
        english = [("the", (role, "article")), *english]
        tolva = [*tolva, ("l" + ending, (role, "article"))]
    elif not several:  # has no counterpart: Tolva has no word with this mark
        english = [("an" if english[0][0][0] in "aeiou" else "a", (role, "a")), *english]
    return english, tolva, "n" * several


def _verb(rng: Random, tense: str, ending: str) -> tuple[_Phrase, _Phrase]:
    """A verb, such as *will not see* (*not see-will*). An English auxiliary has the mark of its verb."""
    forms = rng.choice(list(VERBS))
    base, third, past = forms
    negative, singular = rng.random() < 0.25, ending == ""
    helper = {"present": "does" if singular else "do", "past": "did", "future": "will"}[tense]
    plain = {"present": third if singular else base, "past": past}
    tolva: _Phrase = [(VERBS[forms] + TENSES[tense] + ending, "verb")]
    if negative:
        return [(helper, "verb"), ("not", "not"), (base, "verb")], [("nu", "not"), *tolva]
    return [(plain[tense], "verb")] if tense in plain else [(helper, "verb"), (base, "verb")], tolva


def _place(rng: Random) -> tuple[_Phrase, _Phrase]:
    """An adverbial of place, such as *in the garden* (*garden the in*)."""
    word = rng.choice(list(PREPOSITIONS))
    english, tolva, _ = _noun_phrase(rng, PEOPLE if word == "with" else PLACES, "place")
    return [(word, "preposition"), *english], [*tolva, (PREPOSITIONS[word], "preposition")]


def _time(rng: Random, tense: str) -> tuple[_Phrase, _Phrase]:
    english, tolva = rng.choice(list(TIMES[tense].items()))
    return [(word, "time") for word in english.split()], [(tolva, "time")]
