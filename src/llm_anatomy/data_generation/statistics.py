"""How varied generated instructions are: lengths, verbs with their objects, and the distance from the seed tasks."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import mean, median
from typing import Any, NamedTuple

from llm_anatomy.data_generation.filters import rouge_l, words_of
from llm_anatomy.data_generation.pool import Pool


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DETERMINERS = _words(
    "a an the this that these those my your his her its our their some any each every all both no another one two "
    "three four five six seven eight nine ten me us him them it you"
)
"""Words that may stand between a verb and the noun phrase that is its object."""

ENDS = _words(
    "of in on at to for from with without by about as into onto over under between among through during before after "
    "against per like than via within across along around "
    "and or but if whether when while where why how what which who whom whose that so because until unless "
    "is are was were be been has have had do does did can could may might must shall should will would not "
    "using based given such including containing describing explaining following"
)
"""Words before which a noun phrase ends, unless it has not begun: *the following sentence* is one."""

NO_VERBS = _words(
    "what which who whom whose when where why how is are was were do does did can could should would will may have has "
    "i you he she it we they there this that these those a an the my your if in on at for from with as to of"
)
"""Words with which a question, a statement or a condition begins, and no command."""


class VerbAndNoun(NamedTuple):
    """The verb of a command, and the noun that is its object.

    Source: Wang et al. (2022), section 4.1 and figure 3; GT-46.

    >>> VerbAndNoun("write", "story").noun
    'story'
    """

    verb: str
    noun: str | None


def verb_and_noun(instruction: str) -> VerbAndNoun | None:
    """Find the verb and the object of an instruction by a small rule; None for what is no command.

    The verb is the first word of the instruction, or of its part after the first comma where it begins with a
    condition such as *Given two numbers, …*. Its object is the last word of the noun phrase that follows, which ends
    before a punctuation mark, a preposition, a conjunction or a verb from a short list. There is none if the phrase is
    empty, as in *Explain why …*. The paper has a parser for this; the rule is wrong where a verb from outside of the
    list follows the object, and where a word is a verb only in this sentence.

    Args:
        instruction: an English sentence.

    Source: Wang et al. (2022), section 4.1, with Kitaev and Klein's parser (2018); GT-46.

    >>> verb_and_noun("Write a short story about a dog."), verb_and_noun("Given a list, sort it.")
    (VerbAndNoun(verb='write', noun='story'), VerbAndNoun(verb='sort', noun=None))
    >>> verb_and_noun("What is the capital of Chad?") is None
    True
    """
    parts = instruction.lower().split(",", 1)
    if len(parts) == 2 and re.match(r"\W*(given|if|for|in|using|based|please|from|with|as)\b", parts[0]):
        parts = parts[1:]
    words = re.findall(r"[a-z][a-z'-]*|[^\sa-z]", ",".join(parts).lstrip(" \"'*-"))
    words = words[1:] if words[:1] == ["please"] else words
    if not words or not words[0].isalpha() or words[0] in NO_VERBS:
        return None
    phrase = list[str]()
    for word in words[1:]:
        if not phrase and word in DETERMINERS:
            continue
        is_adjective = word in ("following", "given") and not phrase
        if not word[0].isalpha() or (word in ENDS and not is_adjective) or (phrase and word in DETERMINERS):
            break
        phrase.append(word)
    return VerbAndNoun(words[0], phrase[-1] if phrase else None)


def verb_noun_counts(instructions: Iterable[str]) -> Counter[VerbAndNoun]:
    """Count the pairs of verb and object; what is no command, or has no object, does not count.

    Args:
        instructions: English sentences.

    Source: Wang et al. (2022), section 4.1 and figure 3; GT-46.

    >>> verb_noun_counts(["Write a poem.", "Write a sad poem about rain.", "Why?"])
    Counter({VerbAndNoun(verb='write', noun='poem'): 2})
    """
    found = (verb_and_noun(instruction) for instruction in instructions)
    return Counter(pair for pair in found if pair is not None and pair.noun is not None)


def similarity_to_nearest(instructions: Iterable[str], others: Iterable[str]) -> list[float]:
    """Compute the highest ROUGE-L of each instruction with any of the others, such as the seed tasks.

    Args:
        instructions: of which each gets a number.
        others: the texts they are compared with.

    Source: Wang et al. (2022), section 4.1 and figure 4; GT-46.

    >>> similarity_to_nearest(["Name three kinds of fish."], ["Sort the words.", "Name three kinds of birds."])
    [0.8]
    """
    split = [words_of(other) for other in others]
    return [max((rouge_l(words_of(i), other) for other in split), default=0.0) for i in instructions]


def lengths(texts: Sequence[str]) -> dict[str, float]:
    """Return how many words texts have: the mean, the median, the least and the most.

    Args:
        texts: empty ones do not count.

    Source: Wang et al. (2022), section 4.1 and table 1; GT-46.

    >>> lengths(["Name a bird.", "Name a bird of Africa.", ""])
    {'mean': 4, 'median': 4.0, 'least': 3, 'most': 5}
    """
    counts = [len(text.split()) for text in texts if text.strip()] or [0]
    return {"mean": mean(counts), "median": median(counts), "least": min(counts), "most": max(counts)}


def describe(pool: Pool) -> dict[str, Any]:
    """Return what the paper's table says of a pool: how many tasks there are, how long they are, and how varied.

    Args:
        pool: whose generated tasks are described.

    Source: Wang et al. (2022), section 4 and table 1; GT-46.

    >>> pool = Pool([])
    >>> describe(pool)["tasks"], describe(pool)["instances"]
    (0, 0)
    """
    tasks = pool.generated
    instances = [instance for task in tasks for instance in task.instances]
    instructions = [task.instruction for task in tasks]
    nearest = similarity_to_nearest(instructions, [task.instruction for task in pool.seeds])
    n_refused = sum(pool.refused.values())
    return {
        "seed tasks": len(pool.seeds),
        "rounds": len(pool.rounds),
        "tasks": len(tasks),
        "classification tasks": sum(task.is_classification is True for task in tasks),
        "instances": len(instances),
        "instances with empty input": sum(not instance.input for instance in instances),
        "words of an instruction": lengths(instructions),
        "words of an input": lengths([instance.input for instance in instances]),
        "words of an output": lengths([instance.output for instance in instances]),
        "pairs of verb and noun": len(verb_noun_counts(instructions)),
        "ROUGE-L with the nearest seed task": mean(nearest) if nearest else 0.0,
        "refused": dict(sorted(pool.refused.items(), key=lambda pair: (-pair[1], pair[0]))),
        "refused in all": n_refused,
    }
