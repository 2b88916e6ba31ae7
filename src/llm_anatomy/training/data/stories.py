"""Short stories in simple English, generated from a seed: a corpus of any size that needs no network.

A story is planned before it is written. The plan fixes the characters, what they own and like, where they go, and how
many things there are; then a chain of events is put into words. The story states each fact once and needs it again many
sentences later, so that there are long-range dependencies for attention to find: whose kite it is, how many plums are
left, the way back in reverse order. The words and sentences are in :mod:`llm_anatomy.training.data.story_grammar`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random

from llm_anatomy.training.data import story_grammar as grammar

_PRONOUNS = {
    "he": dict(they="he", them="him", their="his", themself="himself"),
    "she": dict(they="she", them="her", their="her", themself="herself"),
}


def _cased(forms: dict[str, str], name: str) -> str:
    """The form of this name, capitalized if the name is."""
    form = forms[name.lower()]
    return form[:1].upper() + form[1:] if name[0].isupper() else form


@dataclass(frozen=True)
class Character:
    """A person or animal with a name.

    In a sentence, ``{hero}`` becomes Mia, ``{hero:kind}`` a girl, ``{hero:they}`` she, and ``{hero:their}`` her. A
    capitalized slot such as ``{hero:They}`` gives a capitalized word.

    Args:
        name: the name.
        noun: the kind of person or animal.
        pronoun: ``he`` or ``she``.

    Source: written for this course.

    >>> "{0} is {0:kind}. {0:They} likes {0:themself}.".format(Character("Mia", "girl", "she"))
    'Mia is a girl. She likes herself.'
    """

    name: str
    noun: str
    pronoun: str

    def __format__(self, form: str) -> str:
        if not form:
            return self.name
        return _cased(_PRONOUNS[self.pronoun] | dict(noun=self.noun, kind=f"a {self.noun}"), form)


@dataclass(frozen=True)
class Thing:
    """One or several things, with verbs and pronouns that agree.

    In a sentence, ``{thing}`` becomes red kite, ``{thing:a}`` a red kite or some red shoes, ``{thing:was}`` was or
    were, ``{thing:is}`` is or are, ``{thing:it}`` it or them, and ``{thing:It}`` It or They, for the subject of a
    sentence.

    Args:
        noun: the noun with its adjectives, in the plural for several things.
        several: whether there are several things.

    Source: written for this course.

    >>> "{0:It} {0:is} here, take {0:it}: {0:a}!".format(Thing("red shoes", True))
    'They are here, take them: some red shoes!'
    """

    noun: str
    several: bool = False

    def __format__(self, form: str) -> str:
        if not form:
            return self.noun
        if form == "It":
            return "They" if self.several else "It"
        one = {"was": "was", "is": "is", "it": "it", "a": f"a {self.noun}"}
        many = {"was": "were", "is": "are", "it": "them", "a": f"some {self.noun}"}
        return _cased(many if self.several else one, form)


@dataclass(frozen=True)
class Counted:
    """A number of things of one kind.

    In a sentence, ``{rest}`` becomes three plums or one plum, ``{rest:number}`` three, and ``{rest:noun}`` plums. The
    slots of :class:`Thing` are available too.

    Args:
        one, many: the noun in the singular and in the plural.
        number: the number of things, from 1 to 12.

    Source: written for this course.

    >>> "{0:Number} {0:was} left, for {1} {1:was} eaten.".format(Counted("egg", "eggs", 1), Counted("egg", "eggs", 2))
    'One was left, for two eggs were eaten.'
    """

    one: str
    many: str
    number: int

    def __format__(self, form: str) -> str:
        noun, number = self.one if self.number == 1 else self.many, grammar.NUMBERS[self.number]
        if not form:
            return f"{number} {noun}"
        if form.lower() in ("number", "noun"):
            return _cased({"number": number, "noun": noun}, form)
        return Thing(noun, self.number > 1).__format__(form)


@dataclass(frozen=True)
class Place:
    """A place of the story, such as a hill.

    In a sentence, ``{place}`` becomes the hill, ``{place:at}`` on the hill, and ``{place:to}`` to the hill.

    Args:
        preposition: the preposition for being there.
        name: the name with its article.

    Source: written for this course.

    >>> "{0:At} they turned and looked back {0:to}.".format(Place("on", "the hill"))
    'On the hill they turned and looked back to the hill.'
    """

    preposition: str
    name: str

    def __format__(self, form: str) -> str:
        forms = dict(at=f"{self.preposition} {self.name}", to=f"to {self.name}")
        return _cased(forms, form) if form else self.name


class _Helper(str):
    """A name such as "the baker"; ``{helper:The}`` gives "The baker", for the beginning of a sentence."""

    def __format__(self, form: str) -> str:
        return f"T{self[1:]}" if form else str(self)


@dataclass(frozen=True)
class Story:
    """A story and its plan.

    Args:
        text: the text, one paragraph to a line.
        plots: the chains of events, each one of ``story_grammar.PLOTS``.
        facts: the text of each slot of the plan.

    Source: written for this course.

    >>> Story("Mia had a red kite.", ("lost",), {"hero": "Mia", "thing": "red kite"}).facts["thing"]
    'red kite'
    """

    text: str
    plots: tuple[str, ...]
    facts: dict[str, str]


def plan(rng: Random) -> dict[str, object]:
    """Draw the facts of a story. Hero and friend have different pronouns, all places differ, and the numbers add up.

    Args:
        rng: source of randomness.

    Returns:
        The value of each slot in braces.

    Source: written for this course.

    >>> facts = plan(Random(1))
    >>> facts["some"].number + facts["rest"].number == facts["many"].number
    True
    """
    hero, friend = _two_characters(rng)
    places = [Place(*place) for place in _different(rng, grammar.PLACES, 3)]
    homes = [Place(*home) for home in _different(rng, grammar.HOMES, 2)]
    trait, friend_trait = _different(rng, grammar.TRAITS, 2)
    winner, loser = _different(rng, [hero, friend], 2)
    faster, slower = rng.choice(list(grammar.FASTER.items()))
    food, crops = rng.choice(grammar.FOODS), rng.choice(grammar.CROPS)
    many = 3 + rng.randrange(9)
    some = 1 + rng.randrange(many - 1)
    colour = rng.choice(grammar.COLOURS)
    thing = Thing(f"{colour} {rng.choice(grammar.THINGS)}")
    if rng.random() < 0.3:
        thing = Thing(f"{colour} {rng.choice(grammar.PAIRS)}", several=True)
    return dict(
        hero=hero, hero_home=homes[0], hero_trait=trait, friend=friend, friend_home=homes[1], friend_trait=friend_trait,
        place=places[0], second=places[1], third=places[2], helper=_Helper(rng.choice(grammar.HELPERS)),
        creature=Thing(f"little {rng.choice(grammar.CREATURES)}"), season=rng.choice(grammar.SEASONS), thing=thing,
        tool=Thing(f"long {rng.choice(grammar.TOOLS)}"), coat=Thing(f"warm {rng.choice(grammar.COATS)}"),
        errand=Thing(rng.choice(grammar.ERRANDS)), food=food[1], crops=crops[1],
        harvest=Counted(*crops, 3 + rng.randrange(9)),
        many=Counted(*food, many), some=Counted(*food, some), rest=Counted(*food, many - some),
        winner=winner, loser=loser, faster=faster, slower=slower,
    )  # fmt: skip


def _two_characters(rng: Random) -> list[Character]:
    girl, boy = rng.choice(grammar.GIRLS), rng.choice(grammar.BOYS)
    kinds = _different(rng, grammar.ANIMALS, 2) if rng.random() < 0.5 else ["girl", "boy"]
    return _different(rng, [Character(girl, kinds[0], "she"), Character(boy, kinds[1], "he")], 2)


def _with_an(text: str) -> str:
    """The text with "an" before vowels."""
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)


def _different(rng: Random, options: list, n: int) -> list:
    """Draw ``n`` different options. (``rng.sample`` may change between Python versions; ``randrange`` does not.)"""
    rest = list(options)
    return [rest.pop(rng.randrange(len(rest))) for _ in range(n)]


def expand(rule: str, facts: dict[str, object], rng: Random) -> str:
    """Expand a rule of the grammar into text.

    One of its lines is drawn at random. Each slot in brackets is a rule that is expanded in the same way, and each slot
    in braces is filled in from the facts.

    Args:
        rule: a key of ``story_grammar.RULES``; the lines for the season of the story are added to the general ones.
        facts: the facts, as from :func:`plan`.
        rng: source of randomness.

    Raises:
        ValueError: if there is no such rule.

    Source: written for this course; a context-free grammar with slots.

    >>> facts = plan(Random(1))
    >>> expand("thanks", facts, Random(2)).count(str(facts["friend"].name)) > 0
    True
    """
    if rule not in grammar.RULES:
        raise ValueError(f"{rule=} must be one of {', '.join(grammar.RULES)}")
    lines = grammar.RULES[rule] + grammar.RULES.get(f"{rule} in {facts['season']}", [])
    line = re.sub(r"\[(\w+)\]", lambda slot: expand(slot[1], facts, rng), rng.choice(lines))
    return line.format_map(facts)


def story(seed: int = 0, index: int = 0, n_plots: int = 1) -> Story:
    """Generate one story of a corpus.

    The stories before it need not be generated. So workers can share the corpus by index, and training and test
    stories are separated by index. A long story has several plots: the same characters, things and places in one chain
    of events after the other. With all eight it has about 4,000 characters, and its last paragraphs need facts from the
    first.

    Args:
        seed: seed of the corpus.
        index: index of the story, from 0.
        n_plots: number of plots in the story, all different, from 1 to 8.

    Raises:
        ValueError: if ``index`` is below 0, or there are not so many plots.

    Source: written for this course.

    >>> fifth = story(seed=0, index=5)
    >>> fifth.facts["hero"] in fifth.text and fifth == story(seed=0, index=5)
    True
    """
    if index < 0:
        raise ValueError(f"{index=} must be at least 0")
    if not 1 <= n_plots <= len(grammar.PLOTS):
        raise ValueError(f"{n_plots=} must be from 1 to {len(grammar.PLOTS)}")
    rng = Random(f"{seed}/{index}")
    facts, plots = plan(rng), _different(rng, list(grammar.PLOTS), n_plots)
    beginning = [expand("opening", facts, rng), *_different(rng, [expand(r, facts, rng) for r in grammar.FACTS], 2)]
    events = [[expand(rule, facts, rng) for rule in grammar.PLOTS[plot]] for plot in plots]
    paragraphs = [beginning, *events, [expand("moral", facts, rng)]]
    text = "\n".join(" ".join(sentences) for sentences in paragraphs)
    return Story(_with_an(text), tuple(plots), {slot: f"{value}" for slot, value in facts.items()})


def stories(seed: int = 0, n: int | None = None, first: int = 0, n_plots: int = 1) -> Iterator[str]:
    """Generate the stories of a corpus one after the other.

    Args:
        seed: seed of the corpus.
        n: number of stories; None for no end.
        first: index of the first story.
        n_plots: number of plots in each story.

    Raises:
        ValueError: if ``n`` or ``first`` is below 0, or as in :func:`story`.

    Source: written for this course.

    >>> len(list(stories(n=3))), next(stories(first=2)) == list(stories(n=3))[2]
    (3, True)
    """
    if n is not None and n < 0:
        raise ValueError(f"{n=} must be at least 0, or None for no end")
    for index in count(first) if n is None else range(first, first + n):
        yield story(seed, index, n_plots).text


def story_text(n_characters: int, seed: int = 0) -> str:
    """Concatenate whole stories, with an empty line between them, up to a length.

    Args:
        n_characters: least number of characters in the text.
        seed: seed of the corpus.

    Raises:
        ValueError: if ``n_characters`` is below 0.

    Source: written for this course.

    >>> 10_000 <= len(story_text(10_000)) < 12_000
    True
    """
    if n_characters < 0:
        raise ValueError(f"{n_characters=} must be at least 0")
    texts, length = [], 0
    for text in stories(seed):
        if length >= n_characters:
            break
        texts.append(text)
        length += len(text) + 2
    return "\n\n".join(texts) + "\n" * bool(texts)
