r"""Tasks about the stories, for which the plan of each story knows the right answer.

The stories are none of those that the story models have read: their corpus has a seed of its own. A question is asked
in the words of the story, which breaks off where the answer follows. What is needed for it stands at most 160
characters before, so that a model with a short context can know it.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from random import Random

from llm_anatomy.evaluation.tasks import Likelihoods, MultipleChoice, Passage, Prompt, Question, ShortAnswers, Task
from llm_anatomy.training.data import story_grammar as grammar
from llm_anatomy.training.data.stories import Story, story
from llm_anatomy.training.experiments import agreement

CORPUS, N_STORIES = 16, 300
"""The seed of the corpus, and the number of its stories."""

FARTHEST = 160
"""So many characters may lie between a fact and the question about it."""

N_CHOICES = 4
KINDS: dict[str, list[str]] = {
    "name": [*grammar.GIRLS, *grammar.BOYS],
    "thing": [f"{colour} {noun}" for colour in grammar.COLOURS for noun in grammar.THINGS],
    "things": [f"{colour} {noun}" for colour in grammar.COLOURS for noun in grammar.PAIRS],
    "place": [name for _, name in grammar.PLACES],
    "food": [many for _, many in grammar.FOODS],
}
"""What a choice can be, by the kind of the answer."""


@cache
def _stories() -> list[Story]:
    return [story(CORPUS, index) for index in range(N_STORIES)]


def _draw(rng: Random, options: list[str], n: int, without: set[str]) -> list[str]:
    rest = [option for option in options if option not in without]
    return [rest.pop(rng.randrange(len(rest))) for _ in range(n)]


def _repeated(text: str, words: str) -> Iterator[int]:
    """Where words are repeated within a short distance, after a space."""
    found = [match.start() for match in re.finditer(rf"\b{re.escape(words)}\b", text)]
    for first, second in zip(found, found[1:], strict=False):
        if second - first - len(words) <= FARTHEST and text[second - 1] == " ":
            yield second


def facts() -> Task:
    """Ask for a name, a thing, a location or a food that the story has mentioned, among others of the same kind.

    The right choice is what the story says next. In 49 of the 600 questions about a name, another choice happens to be
    the other character of the story, so that only the sentence tells who is meant. A rule that takes the choice that
    was mentioned last is right in more than 95 % of all 820 questions.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`; GT-09.

    >>> item = facts().items[0]
    >>> item.context[-18:], item.choices, item.choices[item.answer]
    ('bout her pink cap.', ('Sara', 'Simon', 'Sam', 'Amy'), 'Simon')
    """
    items = []
    for index, one in enumerate(_stories()):
        rng = Random(f"{CORPUS}/{index}")
        things = "things" if one.facts["thing"].endswith("s") else "thing"
        slots = {"friend": "name", "hero": "name", "thing": things, "place": "place", "second": "place", "food": "food"}
        for slot, kind in slots.items():
            answer = one.facts[slot]
            starts = list(_repeated(one.text, answer))
            if not starts or (kind == "name" and answer not in KINDS["name"]):
                continue
            start = starts[rng.randrange(len(starts))]
            others = _draw(rng, KINDS[kind], N_CHOICES - 1, {answer})
            right = rng.randrange(N_CHOICES)
            context = one.text[: start - 1]
            items.append(
                Question(
                    context=context,
                    choices=(*others[:right], answer, *others[right:]),
                    answer=right,
                    unconditional=" ".join(context.split(" ")[-2:]),
                    group=f"story {index}",
                )
            )
    return MultipleChoice("story_facts", items)


def verbs() -> Task:
    """Ask for *was* or *were* after a thing or several things, such as red shoes.

    Source: Linzen et al. (2016), section 2, in the words of the stories; UCL-15.

    >>> item = verbs().items[0]
    >>> item.context[-7:], item.choices, item.choices[item.answer]
    ('ink cap', ('was', 'were'), 'was')
    """
    nouns = [*grammar.THINGS, *grammar.PAIRS, *(many for _, many in [*grammar.FOODS, *grammar.CROPS]), *grammar.COATS]
    items = []
    for index, one in enumerate(_stories()):
        for match in re.finditer(rf"\b(?:{'|'.join(nouns)}) (was|were)\b", one.text):
            answer = ("was", "were").index(match[1])
            context = one.text[: match.start(1) - 1]
            items.append(Question(context=context, choices=("was", "were"), answer=answer, group=f"story {index}"))
    return MultipleChoice("story_verbs", items)


def last_words() -> Task:
    """Let a model write the last word of a sentence, which has occurred before in the story.

    Source: Paperno et al. (2016), "The LAMBADA dataset", section 2, in the words of the stories; GT-10.

    >>> item = last_words().items[0]
    >>> item.prompt[-21:], item.answers
    (' Simon about her pink', ('cap',))
    """
    items = []
    for index, one in enumerate(_stories()):
        rng = Random(f"{CORPUS}/{index}/words")
        ends = [match for match in re.finditer(r" ([A-Za-z]{3,})\.", one.text)]
        known = [match for match in ends if re.search(rf"\b{match[1]}\b", one.text[: match.start()][-FARTHEST:])]
        if known:
            match = known[rng.randrange(len(known))]
            items.append(Prompt(prompt=one.text[: match.start()], answers=(match[1],), stop=(".", ",", "\n")))
    return ShortAnswers("story_last_words", items, max_new_tokens=8)


def whole_stories() -> Task:
    """Measure how many bits a model needs for a byte of the stories.

    Source: Gao et al. (2020), "The Pile", section 3.1; UCL-03.

    >>> len(whole_stories().items)
    60
    """
    return Likelihoods("story_text", [Passage(text=f"{one.text}\n\n") for one in _stories()[:60]])


def attractors() -> Task:
    """Ask for *is* or *are* after a subject and another noun of the other number, in the sentences of chapter 2.

    The sentences are not those of a story, though most of their words occur in stories.

    Source: Linzen et al. (2016), section 2; UCL-15.

    >>> item = attractors().items[1]
    >>> item.context, item.choices, item.choices[item.answer]
    ('The books behind the tree', ('is', 'are'), 'are')
    """
    words, plural = agreement.test_sentences(1)
    items = []
    for ids, number in zip(words, plural.tolist(), strict=True):
        context = " ".join(agreement.WORDS[i] for i in ids).capitalize()
        items.append(Question(context=context, choices=("is", "are"), answer=number))
    return MultipleChoice("agreement", items)


TASKS: dict[str, Callable[[], Task]] = {
    "story_facts": facts,
    "story_verbs": verbs,
    "story_last_words": last_words,
    "story_text": whole_stories,
    "agreement": attractors,
}
"""The tasks by their names."""


STORED = ("story_learned", "story_rope", "story_llama")
"""The stored models that have read stories."""
