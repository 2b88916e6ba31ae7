"""The rule-based generator: it reads the three prompts, makes the errors of a model, and can be repeated."""

from collections import Counter

import pytest

from llm_anatomy.data_generation.generators import TextGenerator
from llm_anatomy.data_generation.parsing import parse_classification, parse_instances, parse_instructions
from llm_anatomy.data_generation.pipeline import Settings, grow
from llm_anatomy.data_generation.pool import Pool, Task
from llm_anatomy.data_generation.prompts import (
    INSTANCE_STOP,
    INSTRUCTION_STOP,
    classification_prompt,
    input_first_prompt,
    instruction_prompt,
    output_first_prompt,
)
from llm_anatomy.data_generation.rule_based import UNUSABLE, RuleBasedGenerator
from llm_anatomy.training.data.story_instructions import KINDS, SEEN_KINDS, check, phrasings, read

PERFECT = RuleBasedGenerator(error_rate=0.0, flaw_rate=0.0)
TASKS = [Task(phrasings(kind)[0]) for kind in SEEN_KINDS[:8]]


def instances(generator, text, *, output_first, n=1):
    prompt = (output_first_prompt if output_first else input_first_prompt)(text)
    found = []
    for seed in range(n):
        (completion,) = generator.complete([prompt], max_tokens=1000, stop=INSTANCE_STOP, seed=seed)
        found += parse_instances(completion, output_first=output_first)
    return found


def instructions(generator, n):
    prompts = [instruction_prompt(TASKS)] * n
    made = [generator.complete([p], max_tokens=500, stop=INSTRUCTION_STOP, seed=i)[0] for i, p in enumerate(prompts)]
    return [text for completion in made for text in parse_instructions(completion)]


@pytest.mark.syllabus("GT-47")
def test_it_continues_the_list_of_tasks():
    assert isinstance(PERFECT, TextGenerator)
    (completion,) = PERFECT.complete([instruction_prompt(TASKS)], max_tokens=500, stop=INSTRUCTION_STOP, seed=1)
    assert completion.finish_reason == "stop" and "Task 15:" in completion.text and "Task 16" not in completion.text
    assert len(parse_instructions(completion)) == 7
    assert all(any(text in phrasings(kind) for kind in SEEN_KINDS) for text in instructions(PERFECT, 20))
    assert {text for text in instructions(RuleBasedGenerator(kinds=["mood"], flaw_rate=0), 9)} <= {*phrasings("mood")}


@pytest.mark.syllabus("GT-47")
def test_it_tells_classifications_from_other_tasks():
    for kind in SEEN_KINDS:
        (completion,) = PERFECT.complete([classification_prompt(phrasings(kind)[1])], max_tokens=3, stop=["\n"], seed=0)
        assert parse_classification(completion) == bool(KINDS[kind].labels)


@pytest.mark.syllabus("GT-47")
@pytest.mark.parametrize("kind", SEEN_KINDS)
def test_its_instances_are_right_if_it_makes_no_errors(kind):
    text = phrasings(kind)[2]
    for output_first in {False, bool(KINDS[kind].labels)}:
        found = instances(PERFECT, text, output_first=output_first, n=4)
        assert len(found) == 16
        assert all(check(read(text, one.input), one.output) for one in found)


@pytest.mark.syllabus("GT-47")
def test_labels_are_balanced_only_if_they_come_first():
    """The reason for the output-first form: shares of the more frequent label of one prompt, over many prompts."""
    generator = RuleBasedGenerator(error_rate=0.0, flaw_rate=0.0, n_instances=10)
    largest = {}
    for output_first in (False, True):
        counts = [
            Counter(one.output for one in instances(generator, f"{text}", output_first=output_first))
            for text in phrasings("mood")
        ]
        largest[output_first] = sum(max(count.values()) for count in counts) / sum(map(Counter.total, counts))
    assert largest[True] == 0.5 and largest[False] > 0.75


def test_it_makes_as_many_errors_as_it_is_told():
    for rate in (0.0, 0.25, 1.0):
        generator = RuleBasedGenerator(error_rate=rate, flaw_rate=0.0)
        for text, tolerance in (("Is this happy or sad?", 0.06), ("Which word comes first?", 0.1)):
            found = instances(generator, text, output_first=False, n=75)
            wrong = [not check(read(text, one.input), one.output) for one in found]
            assert sum(wrong) / len(wrong) == pytest.approx(rate, abs=tolerance)


def test_some_of_its_instructions_repeat_others_or_cannot_be_used_and_some_instances_lack_their_output():
    made = instructions(RuleBasedGenerator(flaw_rate=0.2), 100)
    shown = {task.instruction for task in TASKS}
    unusable = sum(text in UNUSABLE for text in made) / len(made)
    polite = sum(text.startswith("Please ") for text in made) / len(made)
    assert unusable == pytest.approx(0.2, abs=0.06) and polite == pytest.approx(0.1, abs=0.05)
    assert sum(text in shown for text in made) / len(made) > 0.1
    assert len(instances(RuleBasedGenerator(flaw_rate=0.5), "Is this happy or sad?", output_first=False, n=50)) < 170


def test_it_counts_tokens_and_is_cut_off_at_the_most():
    prompt = instruction_prompt(TASKS)
    (whole,) = PERFECT.complete([prompt], max_tokens=500, seed=3)
    (cut,) = PERFECT.complete([prompt], max_tokens=7, seed=3)
    assert (cut.n_tokens, cut.finish_reason) == (7, "length") and whole.text.startswith(cut.text)
    assert whole.n_tokens > 7 and whole.n_prompt_tokens == cut.n_prompt_tokens > 50
    (exact,) = PERFECT.complete([prompt], max_tokens=whole.n_tokens, seed=3)
    assert exact == whole and whole.finish_reason == "stop"


def test_the_same_seed_gives_the_same_texts_whatever_else_is_asked():
    prompts = [instruction_prompt(TASKS), input_first_prompt("Which word comes first?")]
    both = PERFECT.complete(prompts, max_tokens=99, seed=5)
    assert both == [PERFECT.complete([prompt], max_tokens=99, seed=5)[0] for prompt in prompts]
    assert both != PERFECT.complete(prompts, max_tokens=99, seed=6)
    assert PERFECT.complete(prompts, max_tokens=99) != PERFECT.complete(prompts, max_tokens=99)


def test_it_writes_something_for_any_prompt():
    prompts = ["", "Hello", input_first_prompt("Solve the riddle."), classification_prompt("Solve the riddle.")]
    assert len(PERFECT.complete(prompts, max_tokens=50, seed=0)) == 4
    assert len(instances(PERFECT, "Solve the riddle of the stories.", output_first=False)) == 4


def test_bad_arguments_are_refused():
    for arguments, message in (
        ({"kinds": ["sing"]}, "must be some of names"),
        ({"kinds": []}, "must be some of names"),
        ({"error_rate": 1.5}, "error_rate=1.5 must be from 0 to 1"),
        ({"flaw_rate": -1}, "flaw_rate=-1 must be from 0 to 1"),
        ({"n_instances": 0}, "n_instances=0 must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            RuleBasedGenerator(**arguments)


@pytest.mark.syllabus("GT-46")
def test_the_pipeline_grows_a_pool_from_it_and_filters_its_flaws():
    pool = Pool(TASKS)
    grow(pool, RuleBasedGenerator(), n_tasks=20, settings=Settings(seed=1), progress=False)
    assert len(pool.generated) >= 20 and not {task.instruction for task in pool} & {*UNUSABLE}
    assert {"near-duplicate", "keyword", "punctuation"} <= pool.refused.keys()
    again = Pool(TASKS)
    grow(again, RuleBasedGenerator(), n_tasks=20, settings=Settings(seed=1), progress=False)
    assert again.generated == pool.generated
