"""Instructions about the world of the stories, with an exact check of every response.

An instruction is a sentence that says what to do, such as "Name the people in the text.", and often an input, such as
a passage of a story. There are many **kinds** of instructions, and each kind can be put in many ways, of which some are
kept for tests. Since the passages are written by the grammar of :mod:`llm_anatomy.training.data.stories`, a short rule
knows the right answer to most kinds from the input alone. Where there are many right responses ("Write a sentence with
this word."), the parser of the grammar decides.

Two kinds ask what no passage says. ``pronoun`` asks whether a name belongs to a girl or a boy, which a model that has
read the stories can know. ``home`` asks where the helpers of the stories live, which no story says: a model can know it
only for the helpers that its instruction data name.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from random import Random

from llm_anatomy.training.data import story_grammar as grammar
from llm_anatomy.training.data.stories import Character, Thing, _different, _with_an, expand, plan
from llm_anatomy.training.data.story_parser import is_sentence, sentences

Input = Callable[[Random, bool], str]
"""Draws the input of an instruction, for training (False) or for a test (True)."""


@dataclass(frozen=True)
class Instruction:
    """What a model is asked to do.

    Args:
        kind: one of ``KINDS``.
        text: the instruction itself.
        input: what it is applied to; empty if it needs nothing.

    Source: Wang et al. (2022), section 2.1; GT-46.

    >>> Instruction("first", "Give the first word of the list.", "drum, kite, map").message()
    'Give the first word of the list.\\n\\ndrum, kite, map'
    """

    kind: str
    text: str
    input: str = ""

    def message(self) -> str:
        """The instruction and its input, as a user writes them."""
        return f"{self.text}\n\n{self.input}" if self.input else self.text


@dataclass(frozen=True)
class Kind:
    """A kind of instruction.

    Args:
        phrasings: how the instruction is put in training data. ``{a|b}`` stands for either word.
        test_phrasings: how it is put in tests alone.
        draw: draws an input.
        respond: a right response to an input, or None where the input does not fit the kind; the random numbers choose
            among several right ones.
        has_form: whether a response is of the sort that is asked for, such as a number, right or wrong.
        accepts: whether a response to an input is right, for kinds with many right ones; by default it must be the one
            of ``respond``.
        labels: the answers among which a classification chooses; empty for other kinds.

    Source: written for this course; Wang et al. (2022), section 2.1, for instruction, input and classification; GT-46.

    >>> KINDS["mood"].labels
    ('happy', 'sad')
    """

    phrasings: tuple[str, ...]
    test_phrasings: tuple[str, ...]
    draw: Input
    respond: Callable[[str, Random], str | None]
    has_form: Callable[[str], bool]
    accepts: Callable[[str, str], bool] | None = None
    labels: tuple[str, ...] = field(default=())


# --- Words of the stories ---

NAMES = [*grammar.GIRLS, *grammar.BOYS]
TEST_NAMES = frozenset(NAMES[::4])
"""Names that are never in the inputs of ``pronoun`` but in tests."""

LISTED = grammar.THINGS
PREPOSITIONS = "at|on|in|above|behind|near|beside|under"


def _either(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_NAME = rf"\b(?:{_either(NAMES)})\b"
_HOME = _either(_with_an(f"{preposition} {home}") for preposition, home in grammar.HOMES)
_LIVED = re.compile(rf"(?P<name>{_NAME})(?:| was an? \w+|, an? \w+ \w+)(?:,? who)? lived (?P<home>{_HOME})")
_THING = rf"\b(?:(?:an?|some) )?((?:{_either(grammar.COLOURS)}) (?:{_either(grammar.THINGS + grammar.PAIRS)}))\b"
_FOODS = _either(word for pair in grammar.FOODS for word in pair)
_COUNTED = re.compile(rf"\b({_either(grammar.NUMBERS[1:])}) (?:{_FOODS})\b")
_BEINGS = re.compile(rf"\b(?:{_either(grammar.ANIMALS)}|girl|boy)\b")

HELPER_HOMES = {
    helper: " ".join(grammar.PLACES[(11 * i + 5) % len(grammar.PLACES)]) for i, helper in enumerate(grammar.HELPERS)
}
"""Where each helper lives: facts that no story states."""
TEST_HELPERS = frozenset(grammar.HELPERS[1::2])
"""The helpers whose homes only tests ask for."""


# --- Inputs ---


def _passage(rng: Random, *rules: str, **changed: object) -> str:
    facts = plan(rng) | changed
    return _with_an(" ".join(expand(rule, facts, rng) for rule in rules))


def _short_sentences(rng: Random, n: int, longest: int = 50) -> list[str]:
    """Sentences about one plan, each short, and all different."""
    facts, found = plan(rng), []
    while len(found) < n:
        text = expand(rng.choice(["weather", "hero_fact", "friend_fact", "thanks", "moral"]), facts, rng)
        found += [s for s in sentences(_with_an(text)) if len(s) <= longest and s not in found and '"' not in s]
    return found[:n]


def _draw_lived(rng: Random, question: str) -> str:
    """Two people with their homes, and a question about one of them."""
    while True:
        passage = _passage(rng, "opening", "friend_fact")
        if len(passage) <= 160 and len(found := list(_LIVED.finditer(passage))) == 2:
            return f"{passage} {question.format(**rng.choice(found).groupdict())}"


def _draw_replace(rng: Random, _: bool) -> str:
    while True:
        (sentence,) = _short_sentences(rng, 1, 60)
        if len(names := re.findall(_NAME, sentence)) == 1:
            of_same = grammar.GIRLS if names[0] in grammar.GIRLS else grammar.BOYS
            return f"{names[0]}, {rng.choice([name for name in of_same if name != names[0]])}: {sentence}"


def _draw_list(rng: Random, _: bool) -> str:
    return ", ".join(_different(rng, LISTED, 3 + rng.randrange(2)))


def _draw_yes_no(rng: Random, _: bool) -> str:
    facts = plan(rng)
    sentence = sentences(_with_an(expand("hero_fact", facts, rng)))[0]
    noun = f"{facts['thing']}".split()[-1]
    if rng.random() < 0.5:
        noun = rng.choice([other for other in [*grammar.THINGS, *grammar.PAIRS] if other != noun])
    return f"{noun}: {sentence}"


def _draw_mood(rng: Random, _: bool) -> str:
    while True:
        text = _passage(rng, rng.choice(["gift_given", "lost_found", "lost_gone", "lend_trouble", "rescue_end"]))
        found = [s for s in sentences(text) if len(s) <= 90 and '"' not in s and _mood(s)]
        if found:
            return found[0]


def _draw_season(rng: Random, _: bool) -> str:
    season = rng.choice(grammar.SEASONS)
    return rng.choice(grammar.RULES[f"weather in {season}"])


def _draw_number(rng: Random, _: bool) -> str:
    while True:
        text = sentences(_passage(rng, "share"))[-1]
        if len(_COUNTED.findall(text)) == 1:
            return text


def _draw_things(rng: Random, _: bool) -> str:
    return sentences(_passage(rng, "hero_fact"))[0]


def _draw_name(rng: Random, is_test: bool) -> str:
    return rng.choice([name for name in NAMES if (name in TEST_NAMES) == is_test])


# --- Right answers ---


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(_NAME, text)))


def _question(text: str) -> tuple[str, str]:
    """The passage and the question after it."""
    *passage, question = sentences(text) or [""]
    return " ".join(passage), question


def _who(text: str, _: Random) -> str | None:
    passage, question = _question(text)
    asked = re.fullmatch(rf"Who lived ({_HOME})\?", question)
    return next((m["name"] for m in _LIVED.finditer(passage) if asked and m["home"] == asked[1]), None)


def _where(text: str, _: Random) -> str | None:
    passage, question = _question(text)
    asked = re.fullmatch(rf"Where did ({_NAME}) live\?", question)
    return next((m["home"] for m in _LIVED.finditer(passage) if asked and m["name"] == asked[1]), None)


def _replaced(text: str, _: Random) -> str | None:
    given = re.fullmatch(rf"({_NAME}), ({_NAME}): (.+)", text)
    return re.sub(rf"\b{given[1]}\b", given[2], given[3]) if given else None


def _listed(text: str) -> list[str]:
    words = text.split(", ")
    return words if len(words) > 1 and set(words) <= {*LISTED} else []


def _mood(text: str) -> str | None:
    return next((label for rule, label in (("glad", "happy"), ("sad", "sad"))
                 if re.search(rf"\bwas ({_either(grammar.RULES[rule])})\b", text)), None)  # fmt: skip


def _season(text: str, _: Random) -> str | None:
    return next((s for s in grammar.SEASONS if text in grammar.RULES[f"weather in {s}"]), None)


def _are_animals(text: str, _: Random) -> str | None:
    found = set(_BEINGS.findall(text))
    return None if not found else "children" if found <= {"girl", "boy"} else "animals"


def _yes_no(text: str, _: Random) -> str | None:
    word, colon, sentence = text.partition(": ")
    if not colon or word not in {*grammar.THINGS, *grammar.PAIRS}:
        return None
    return "yes" if re.search(rf"\b{word}\b", sentence) else "no"


def _thing(text: str, _: Random) -> str | None:
    found = re.search(_THING, text)
    return found and f"{'some' if found[1].split()[-1] in grammar.PAIRS else 'a'} {found[1]}"


def _next_sentence(text: str, rng: Random) -> str | None:
    names = _names(text)
    if len(names) != 2:
        return None
    people = [Character(name, "fox", "she" if name in grammar.GIRLS else "he") for name in names]
    facts = plan(rng) | {"hero": people[0], "friend": people[1]}
    return sentences(_with_an(expand(rng.choice(["hero_fact", "friend_fact"]), facts, rng)))[0]


def _sentence_with(word: str, rng: Random) -> str | None:
    if word not in {*grammar.THINGS, *grammar.PAIRS}:
        return None
    thing = Thing(f"{rng.choice(grammar.COLOURS)} {word}", word in grammar.PAIRS)
    return sentences(_passage(rng, "hero_fact", thing=thing))[0]


def _sentence_about(name: str, rng: Random) -> str | None:
    if name not in NAMES:
        return None
    hero = Character(name, "fox", "she" if name in grammar.GIRLS else "he")
    while True:
        friend = plan(rng)["friend"]
        if friend.pronoun != hero.pronoun:  # type: ignore[attr-defined]
            break
    found = sentences(_passage(rng, rng.choice(["hero_fact", "friend_fact"]), hero=hero, friend=hero))
    return next(sentence for sentence in found if name in sentence)


# --- Forms ---


def _is_one_of(words: Iterable[str]) -> Callable[[str], bool]:
    allowed = frozenset(words)
    return lambda response: normalized(response) in allowed


def _is_text(response: str) -> bool:
    found = sentences(response.strip())
    return bool(found) and all(map(is_sentence, found))


def _is_single_sentence(response: str) -> bool:
    return len(sentences(response.strip())) == 1 and _is_text(response)


def normalized(response: str) -> str:
    """A response without what does not change its meaning: spaces around it, a full stop, capitals and an article.

    Args:
        response: what a model has written.

    Source: Rajpurkar et al. (2016), "SQuAD", whose evaluation removes the same; GT-46.

    >>> normalized(" A red kite.\\n")
    'red kite'
    """
    return re.sub(r"^(an?|the|some|her|his) ", "", " ".join(response.split()).rstrip(".").lower())


def _lowered(words: Iterable[str]) -> list[str]:
    return [word.lower() for word in words]


_is_name = _is_one_of(_lowered(NAMES))
_is_number = _is_one_of(grammar.NUMBERS[1:])
_is_thing = _is_one_of(LISTED)
_HOMES = [_with_an(f"{preposition} {home}") for preposition, home in grammar.HOMES]


def _is_list(response: str) -> bool:
    return bool(_listed(normalized(response)))


def _is_names(response: str) -> bool:
    return re.fullmatch(rf"{_NAME}(?:(?:, | and ){_NAME})*\.?", response.strip()) is not None


def _is_coloured(response: str) -> bool:
    return re.fullmatch(_THING, normalized(response)) is not None


_ANSWER = (
    "{Answer|Read the text and answer} the question.",
    "{Give|Find} the answer to the question {in|after} the text.",
)
_TEST_ANSWER = ("What is the right answer?", "Look at the text, and tell me what the question asks.")

KINDS: dict[str, Kind] = {
    "names": Kind(
        ("{Name|List|Give} the {people|characters} in the {text|story}.",
         "Which {names|people} are in the {text|story}?",
         "{Write|Find} all names {that you see|of the text}."),
        ("Who appears here?", "Tell me the names that occur."),
        lambda rng, _: _passage(rng, rng.choice(["opening", "thanks", "lost_ask"])),
        lambda text, _: " and ".join(_names(text)) if _names(text) else None,
        _is_names,
    ),
    "who": Kind(
        _ANSWER, _TEST_ANSWER,
        lambda rng, _: _draw_lived(rng, "Who lived {home}?"),
        _who, _is_name,
    ),
    "thing": Kind(
        ("Which {thing|object} is in the text?", "{Name|Find} the thing that {somebody has|the text is about}.",
         "What does {the hero|somebody} {have|own} here?"),
        ("Tell me what object occurs.", "What is it that belongs to somebody?"),
        _draw_things, _thing, _is_coloured,
    ),
    "number": Kind(
        ("How many {things|pieces} to eat are there?", "{Find|Give} the number in the text.",
         "What number does the text {say|give}?"),
        ("Tell me how many there were.", "Count the food."),
        _draw_number,
        lambda text, _: _COUNTED.findall(text)[0] if len(_COUNTED.findall(text)) == 1 else None,
        _is_number,
    ),
    "count": Kind(
        ("How many sentences {are there|do you see}?", "Count {all|the} sentences of the text.",
         "{Give|Say} the number of sentences."),
        ("Tell me how many sentences you read.", "What is the count of sentences here?"),
        lambda rng, _: " ".join(_short_sentences(rng, 1 + rng.randrange(4), 40)),
        lambda text, _: grammar.NUMBERS[len(sentences(text))] if 1 <= len(sentences(text)) <= 12 else None,
        _is_number,
    ),
    "replace": Kind(
        ("{Replace|Change} the first name {by|to} the second.", "Write the sentence with the {second|other} name.",
         "{Put|Use} the second name for the first."),
        ("Swap the name at the beginning for the one after it.", "Rename the first person as the second."),
        _draw_replace, _replaced, _is_single_sentence,
    ),
    "copy": Kind(
        ("{Copy|Repeat} the {sentence|text} as it is.", "Write the {sentence|text} {again|once more}.",
         "Say the same words again."),
        ("Give back the same words.", "Reproduce what you read."),
        lambda rng, _: _short_sentences(rng, 1, 60)[0],
        lambda text, _: text or None,
        _is_single_sentence,
    ),
    "reverse": Kind(
        ("{Reverse|Turn around} the order of the {list|words}.", "Write the words from last to first.",
         "{Give|Say} the list in reverse order."),
        ("Start with the last word and end with the first.", "Flip the list."),
        _draw_list, lambda text, _: ", ".join(_listed(text)[::-1]) or None, _is_list,
    ),
    "first": Kind(
        ("{Give|Name|Find} the first {word|thing} of the list.", "Which {word|thing} comes first?",
         "What does the list begin with?"),
        ("Tell me the word at the start.", "Take the first of these words."),
        _draw_list, lambda text, _: (_listed(text) or [None])[0], _is_thing,
    ),
    "mood": Kind(
        ("Is this happy or sad?", "{Decide|Say} whether the {mood|text} is happy or sad.",
         "Label the {sentence|text} as happy or sad."),
        ("What is the mood, happy or sad?", "How does it feel: happy or sad?"),
        _draw_mood, lambda text, _: _mood(text), _is_one_of(["happy", "sad"]), labels=("happy", "sad"),
    ),
    "season": Kind(
        ("Which season is it?", "{Name|Give|Find} the season of the {text|weather}.",
         "In what season {is this|are we}?"),
        ("Tell me the time of the year.", "Is it spring, summer, autumn or winter?"),
        _draw_season, _season, _is_one_of(grammar.SEASONS), labels=tuple(grammar.SEASONS),
    ),
    "beings": Kind(
        ("Are they children or animals?", "{Say|Decide} whether the {text|story} is about children or animals.",
         "Label the {people|characters}: children or animals."),
        ("Children or animals?", "What are the two, children or animals?"),
        lambda rng, _: _passage(rng, "opening"), _are_animals, _is_one_of(["children", "animals"]),
        labels=("children", "animals"),
    ),
    "pronoun": Kind(
        ("Is this name she or he?", "{Give|Find|Say} the pronoun of the {name|person}.",
         "Which pronoun {fits|belongs to} the name?"),
        ("Would you say she or he?", "Tell me which of she and he is right."),
        _draw_name,
        lambda text, _: None if text not in NAMES else "she" if text in grammar.GIRLS else "he",
        _is_one_of(["she", "he"]), labels=("she", "he"),
    ),
    "contains": Kind(
        ("Is the {thing|word} in the {text|sentence}?",
         "{Say|Decide}, yes or no, whether the sentence has the first word.",
         "Does the {text|sentence} {name|have} the thing?"),
        ("Can you find the thing, yes or no?", "True or not: it occurs in the sentence."),
        _draw_yes_no, _yes_no, _is_one_of(["yes", "no"]), labels=("yes", "no"),
    ),
    "home": Kind(
        ("Where does this person live?", "{Name|Give|Say} the home of the {person|helper}.",
         "Where is {this person|the helper} at home?"),
        ("Tell me where we find this person.", "Say where the house of this person is."),
        lambda rng, is_test: rng.choice([h for h in grammar.HELPERS if (h in TEST_HELPERS) == is_test]),
        lambda text, _: HELPER_HOMES.get(text), _is_one_of(_lowered(map(" ".join, grammar.PLACES))),
    ),
    "continue": Kind(
        ("{Continue|Go on with} the {text|story} by one sentence.", "What {comes|happens} next {here|in the story}?",
         "Write the next sentence."),
        ("How does it go on?", "Add one more sentence."),
        lambda rng, _: _passage(rng, "opening"), _next_sentence, _is_text,
        lambda text, response: _is_text(response) and {*_names(response)} <= {*_names(text)}
        and not {*sentences(response.strip())} & {*sentences(text)},
    ),
    "write": Kind(
        ("Write a {sentence|story} with {this|the} word.", "{Make|Say} a sentence in which the word {is|stands}.",
         "Use the word in a sentence."),
        ("Tell me something that has this word.", "Build a sentence around the word."),
        lambda rng, _: rng.choice([*grammar.THINGS, *grammar.PAIRS]), _sentence_with, _is_text,
        lambda word, response: _is_text(response) and re.search(rf"\b{re.escape(word)}\b", response) is not None,
    ),
    "about": Kind(
        ("Write a {sentence|story} about {this|the} {person|name}.", "{Say|Tell me} something about the person.",
         "Make a sentence with {this|the} name."),
        ("What can you tell of this person?", "Invent something that this person does."),
        lambda rng, _: rng.choice(NAMES), _sentence_about, _is_text,
        lambda name, response: _is_text(response) and name in _names(response),
    ),
    # --- kinds for tests of what was learned from others ---
    "last": Kind(
        ("{Give|Name|Find} the last {word|thing} of the list.", "Which {word|thing} comes last?",
         "What does the list end with?"),
        ("Tell me the word at the end.", "Take the last of these words."),
        _draw_list, lambda text, _: (_listed(text) or [None])[-1], _is_thing,
    ),
    "second": Kind(
        ("{Give|Name|Find} the second {word|thing} of the list.", "Which {word|thing} comes second?",
         "What does the list have after its first word?"),
        ("Tell me the word after the first.", "Take the second of these words."),
        _draw_list, lambda text, _: (_listed(text) or [None, None])[1], _is_thing,
    ),
    "colour": Kind(
        ("Which colour is in the text?", "{Name|Find} the colour of the thing.",
         "What colour does {the thing|it} have?"),
        ("Tell me the colour that occurs.", "How is the thing painted?"),
        _draw_things,
        lambda text, _: found[1].split()[0] if (found := re.search(_THING, text)) else None,
        _is_one_of(grammar.COLOURS),
    ),
    "where": Kind(
        _ANSWER, _TEST_ANSWER,
        lambda rng, _: _draw_lived(rng, "Where did {name} live?"),
        _where, _is_one_of(_lowered(_HOMES)),
    ),
}  # fmt: skip
"""Every kind of instruction by its name."""

UNSEEN_KINDS = ("last", "second", "colour", "where")
"""Kinds that are not in training data: each resembles one that is."""

SEEN_KINDS = tuple(name for name in KINDS if name not in UNSEEN_KINDS)


# --- Phrasings ---


@cache
def phrasings(kind: str, *, test: bool = False) -> tuple[str, ...]:
    """List the ways to put an instruction.

    Args:
        kind: one of ``KINDS``.
        test: whether those for tests are meant.

    Raises:
        ValueError: if there is no such kind.

    Source: written for this course; GT-46.

    >>> len(phrasings("mood")), phrasings("mood", test=True)[0]
    (7, 'What is the mood, happy or sad?')
    """
    _check_kind(kind)
    of_kind = KINDS[kind].test_phrasings if test else KINDS[kind].phrasings
    return tuple(text for pattern in of_kind for text in _alternatives(pattern))


def _alternatives(pattern: str) -> list[str]:
    parts = re.split(r"\{([^}]*)\}", pattern)
    options = [part.split("|") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(chosen) for chosen in product(*options)]


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"{kind=} must be one of {', '.join(KINDS)}")


# --- Instructions and their check ---


def draw(kind: str, rng: Random, *, new_phrasing: bool = False, test: bool = False) -> Instruction:
    """Draw an instruction of a kind, with its input.

    Args:
        kind: one of ``KINDS``.
        rng: source of randomness.
        new_phrasing: whether it is put in a way that training data never have.
        test: whether the input is for a test. It matters for ``pronoun`` and ``home``, whose inputs are single names:
            those of tests are never in training data.

    Raises:
        ValueError: if there is no such kind.

    Source: written for this course; GT-46.

    >>> draw("first", Random(1))
    Instruction(kind='first', text='Name the first word of the list.', input='doll, book, mirror')
    """
    text = rng.choice(phrasings(kind, test=new_phrasing))
    return Instruction(kind, text, KINDS[kind].draw(rng, test))


def respond(instruction: Instruction, rng: Random | None = None) -> str:
    """Give a right response.

    Args:
        instruction: as :func:`draw` or :func:`read` gives it.
        rng: chooses among several right responses.

    Raises:
        ValueError: if the input does not fit the kind.

    Source: written for this course; GT-46.

    >>> respond(Instruction("reverse", "Reverse the list.", "drum, kite, map"))
    'map, kite, drum'
    """
    _check_kind(instruction.kind)
    response = KINDS[instruction.kind].respond(instruction.input, rng or Random(0))
    if response is None:
        raise ValueError(f"input={instruction.input!r:.80} does not fit the kind {instruction.kind!r}")
    return response


def check(instruction: Instruction, response: str) -> bool:
    """Decide whether a response is right.

    Capitals, an article at the beginning, a full stop at the end and the length of spaces do not count.

    Args:
        instruction: as :func:`draw` or :func:`read` gives it.
        response: what a model has written.

    Raises:
        ValueError: if the input does not fit the kind.

    Source: written for this course; GT-46.

    >>> instruction = Instruction("write", "Use the word in a sentence.", "kite")
    >>> [check(instruction, text) for text in ("Mia had a red kite.", "Mia had an red kite.", "Kite.")]
    [True, False, False]
    """
    right = respond(instruction)
    accepts = KINDS[instruction.kind].accepts
    return accepts(instruction.input, response) if accepts else normalized(response) == normalized(right)


def has_form(instruction: Instruction, response: str) -> bool:
    """Decide whether a response is of the sort that is asked for, be it right or wrong.

    Args:
        instruction: as :func:`draw` or :func:`read` gives it.
        response: what a model has written.

    Source: Gudibande et al. (2023), "The false promise of imitating proprietary LLMs", for style and facts; GT-45.

    >>> instruction = Instruction("first", "Which word comes first?", "drum, kite, map")
    >>> has_form(instruction, "Map."), has_form(instruction, "Mia had a red kite.")
    (True, False)
    """
    _check_kind(instruction.kind)
    return KINDS[instruction.kind].has_form(response)


def read(text: str, input: str = "") -> Instruction | None:
    """Find out which kind of instruction a text is.

    Args:
        text: the instruction.
        input: its input; it decides between kinds that are put in the same way.

    Returns:
        The instruction; None if it is none of the kinds, or its input does not fit.

    Source: written for this course; GT-46.

    >>> read("Which word comes last?", "drum, kite, map").kind
    'last'
    >>> read("Sing a song.") is None
    True
    """
    text, input = text.strip(), input.strip()
    candidates = [kind for kind in KINDS if text in phrasings(kind) or text in phrasings(kind, test=True)]
    fits = (Instruction(kind, text, input) for kind in candidates if KINDS[kind].respond(input, Random(0)) is not None)
    return next(fits, None)
