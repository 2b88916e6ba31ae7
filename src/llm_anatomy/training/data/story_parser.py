"""Decide whether a sentence is one that the grammar of the stories can write: a measure of what a model has learned.

The sentences of :mod:`llm_anatomy.training.data.story_grammar` become patterns, in which each slot matches the texts
that it can have. What a sentence says in several slots must agree: names with pronouns and with what they are, verbs
with numbers, and numbers with each other. Facts of other sentences do not count, so that "She was happy." is a sentence
whoever the hero is.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

from llm_anatomy.training.data import story_grammar as grammar
from llm_anatomy.training.data.stories import Character, Counted, Place, Thing, _Helper


def sentences(text: str) -> list[str]:
    """Split text of the stories into sentences.

    A sentence ends with a full stop, a question mark or an exclamation mark and the quotation mark after it, unless it
    goes on in lower case, as in ``"Wait!" said Mia.``

    Args:
        text: the text; a paragraph ends a sentence, too.

    Source: written for this course.

    >>> sentences('"Are you cold?" asked Mia. "Take my coat." Tom put it on.')
    ['"Are you cold?" asked Mia.', '"Take my coat."', 'Tom put it on.']
    """
    return [sentence for sentence in re.sub(rf"{_END} (?![a-z])", r"\1\n", text).split("\n") if sentence]


def is_sentence(sentence: str) -> bool:
    """Decide whether the grammar can write a sentence.

    Args:
        sentence: one item of :func:`sentences`.

    Source: written for this course; a context-free grammar with slots.

    >>> is_sentence("Mia had a red kite."), is_sentence("Mia had an red kite."), is_sentence("Mia had red kite a.")
    (True, False, False)
    >>> is_sentence("Mia smiled at Tom, and he smiled back."), is_sentence("Mia smiled at Tom, and she smiled back.")
    (True, False)
    """
    if re.search(r"\b[Aa] (?=[aeiou])|\b[Aa]n (?!hour|[aeiou])", sentence):
        return False
    sentence = _without_an(sentence)
    return any(template.matches(sentence) for template in _templates())


def parsed_fraction(text: str) -> float:
    """Compute the fraction of the sentences of a text that the grammar can write.

    Args:
        text: such as samples of a model. If it breaks off within a sentence, then this last one is left out.

    Raises:
        ValueError: if the text has no sentence.

    Source: written for this course.

    >>> parsed_fraction("Mia had a red kite. It were a present from the baker. Tom had a")
    0.5
    """
    found = sentences(text)
    if found and not re.search(f"{_END}$", found[-1]):
        found.pop()
    if not found:
        raise ValueError(f"text={text!r:.40} must have at least one sentence")
    return sum(map(is_sentence, found)) / len(found)


_END = r'([.!?]"?)'


def _without_an(text: str) -> str:
    """The text before its stories put ``an`` before vowels."""
    return re.sub(r"\b([Aa])n (?=[aeiou])", r"\1 ", text)


# --- Templates of sentences ---


@dataclass(frozen=True)
class _Template:
    """A sentence with slots: the pattern, the variable and form of each of its groups, and a part that each has."""

    pattern: re.Pattern[str]
    slots: dict[str, tuple[str, str]]
    literal: str

    def matches(self, sentence: str) -> bool:
        match = self.pattern.fullmatch(sentence) if self.literal in sentence else None
        if match is None:
            return False
        values: dict[str, frozenset] = {}
        for group, (variable, form) in self.slots.items():
            if match[group] is not None:
                those = _texts(variable, form)[match[group]]
                values[variable] = values.get(variable, those) & those
        return all(values.values()) and all(_agree(values, *rule) for rule in _AGREEMENTS)


@cache
def _templates() -> list[_Template]:
    return [_template(sentence) for sentence in dict.fromkeys(_sentences_of_the_grammar())]


def _is_phrase(rule: str) -> bool:
    """Whether a rule gives a part of a sentence, rather than sentences."""
    return not any(re.search(f"{_END}$", line) for line in grammar.RULES[rule])


def _sentences_of_the_grammar() -> Iterator[str]:
    for rule, lines in grammar.RULES.items():
        for line in lines if not _is_phrase(rule) else []:
            own = re.sub(r"\[(\w+)\] ?", lambda slot: slot[0] if _is_phrase(slot[1]) else "", line)
            yield from filter(None, re.sub(rf"{_END} (?![a-z]|\[said\])", r"\1\n", own).split("\n"))


_SLOT = re.compile(r"\[(?P<rule>\w+)\]|\{(?P<variable>\w+):?(?P<form>\w*)\}")


def _template(sentence: str) -> _Template:
    slots: dict[str, tuple[str, str]] = {}

    def pattern_of(text: str) -> str:
        parts, start = [], 0
        for slot in _SLOT.finditer(text):
            parts.append(re.escape(_without_an(text[start : slot.start()])))
            start = slot.end()
            if slot["rule"]:
                parts.append(f"(?:{'|'.join(map(pattern_of, grammar.RULES[slot['rule']]))})")
            else:
                group = f"slot_{len(slots)}"
                slots[group] = slot["variable"], slot["form"]
                texts = sorted(_texts(*slots[group]), key=len, reverse=True)
                parts.append(f"(?P<{group}>{'|'.join(map(re.escape, texts))})")
        return "".join([*parts, re.escape(_without_an(text[start:]))])

    literals = re.sub(_SLOT, "\n", sentence).split("\n")
    return _Template(re.compile(pattern_of(sentence)), slots, _without_an(max(literals, key=len)))


# --- Values of slots ---


@cache
def _texts(variable: str, form: str) -> dict[str, frozenset]:
    """The texts that a slot can have, each with the values that give it."""
    found: dict[str, set] = {}
    for value in _values(variable):
        found.setdefault(_without_an(format(value, form)), set()).add(value)
    return {text: frozenset(values) for text, values in found.items()}


@cache
def _values(variable: str) -> list:
    """The values that :func:`~llm_anatomy.training.data.stories.plan` can give a variable."""
    if variable in ("hero", "friend", "winner", "loser"):
        kinds = [(grammar.GIRLS, "girl", "she"), (grammar.BOYS, "boy", "he")]
        return [
            Character(name, noun, pronoun)
            for names, child, pronoun in kinds
            for name in names
            for noun in [child, *grammar.ANIMALS]
        ]
    if variable in ("many", "some", "rest", "harvest"):
        kinds, least = (
            (grammar.CROPS if variable == "harvest" else grammar.FOODS),
            1 if variable in ("some", "rest") else 3,
        )
        return [Counted(*kind, number) for kind in kinds for number in range(least, 12)]
    if variable == "thing":
        kinds = [(noun, False) for noun in grammar.THINGS] + [(noun, True) for noun in grammar.PAIRS]
        return [Thing(f"{colour} {noun}", several) for colour in grammar.COLOURS for noun, several in kinds]
    return {
        "place": lambda: [Place(*pair) for pair in grammar.PLACES],
        "home": lambda: [Place(*pair) for pair in grammar.HOMES],
        "trait": lambda: grammar.TRAITS,
        "helper": lambda: [_Helper(helper) for helper in grammar.HELPERS],
        "creature": lambda: [Thing(f"little {noun}") for noun in grammar.CREATURES],
        "season": lambda: grammar.SEASONS,
        "tool": lambda: [Thing(f"long {noun}") for noun in grammar.TOOLS],
        "coat": lambda: [Thing(f"warm {noun}") for noun in grammar.COATS],
        "errand": lambda: [Thing(noun) for noun in grammar.ERRANDS],
        "food": lambda: [several for _, several in grammar.FOODS],
        "crops": lambda: [several for _, several in grammar.CROPS],
        "faster": lambda: list(grammar.FASTER),
        "slower": lambda: list(grammar.FASTER.values()),
    }[{"second": "place", "third": "place"}.get(variable, variable.rpartition("_")[2])]()


# --- What must agree ---


def _two_characters(one: Character, other: Character) -> bool:
    """Of two characters, one is she and the other he, and they are a girl and a boy, or two different animals."""
    are_animals = [character.noun in grammar.ANIMALS for character in (one, other)]
    return one.pronoun != other.pronoun and one.noun != other.noun and are_animals[0] == are_animals[1]


def _different(*values: object) -> bool:
    return len({*values}) == len(values)


def _shares(many: Counted | None, some: Counted | None, rest: Counted | None) -> bool:
    """The numbers add up, and all things are of one kind."""
    kinds = {counted.many for counted in (many, some, rest) if counted}
    total = (some.number if some else 1) + (rest.number if rest else 1)
    whole = many.number if many else max(3, total) if some and rest else 11
    return len(kinds) == 1 and (total == whole <= 11 if some and rest else total <= whole)


_AGREEMENTS: list[tuple[Callable[..., bool], bool, tuple[str, ...]]] = [
    (_two_characters, True, ("hero", "friend")),
    (_two_characters, True, ("winner", "loser")),
    (_different, True, ("place", "second")),
    (_different, True, ("place", "third")),
    (_different, True, ("second", "third")),
    (lambda faster, slower: grammar.FASTER[faster] == slower, True, ("faster", "slower")),
    (_shares, False, ("many", "some", "rest")),
]
"""What must hold for some of the possible values of these variables, where the sentence has all or any of them."""


def _agree(values: dict[str, frozenset], holds: Callable[..., bool], needs_all: bool, names: tuple[str, ...]) -> bool:
    n_present = sum(name in values for name in names)
    if n_present < (len(names) if needs_all else 2):
        return True
    # Of people, only what they are can disagree: their names differ because their pronouns do.
    options = [{_nameless(value) for value in values.get(name, [None])} for name in names]
    return any(holds(*chosen) for chosen in product(*options))


def _nameless(value: object) -> object:
    return Character("", value.noun, value.pronoun) if isinstance(value, Character) else value
