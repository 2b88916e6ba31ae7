"""Tasks about the stories: each answer is what the story says, and none of the other choices is."""

import re

import pytest

from llm_anatomy.evaluation.evaluate import evaluate
from llm_anatomy.evaluation.text_model import read_checkpoint
from llm_anatomy.training.data.story_grammar import PAIRS, THINGS
from llm_anatomy.training.experiments import story_tasks
from llm_anatomy.training.experiments.story_models import N_HELD_OUT_STORIES, N_TRAINING_STORIES
from llm_anatomy.training.experiments.story_tasks import FARTHEST, KINDS, N_CHOICES, TASKS


def stories():
    return story_tasks._stories()


def test_no_story_was_read_by_the_models():
    from llm_anatomy.training.data.stories import stories as generate

    read = {*generate(0, N_TRAINING_STORIES), *generate(1, N_HELD_OUT_STORIES)}
    assert not read & {one.text for one in stories()}


@pytest.mark.syllabus("GT-09")
def test_the_right_choice_is_what_the_story_says_next_and_has_said_before():
    items = TASKS["story_facts"]().items
    kinds = {}
    for item in items:
        text = stories()[int(item.group.split()[1])].text
        right = item.choices[item.answer]
        assert text.startswith(f"{item.context} {right}") and right in item.context[-FARTHEST - 2 * len(right) :]
        assert len({*item.choices}) == N_CHOICES
        kind = next(kind for kind, values in KINDS.items() if right in values)
        assert all(choice in KINDS[kind] for choice in item.choices)
        assert item.context.endswith(item.unconditional)
        kinds[kind] = kinds.get(kind, 0) + 1
    assert len(items) == 820 and min(kinds.values()) >= 10 and {*kinds} == {*KINDS}
    answers = [item.answer for item in items]
    assert all(150 < answers.count(index) < 260 for index in range(N_CHOICES))


def test_verbs_agree_with_things():
    items = TASKS["story_verbs"]().items
    for item in items:
        noun = item.context.split()[-1]
        assert (noun in PAIRS) <= (item.answer == 1) and (noun in THINGS) <= (item.answer == 0)
    assert 20 < sum(item.answer for item in items) < len(items) - 20


@pytest.mark.syllabus("GT-10")
def test_last_words_end_a_sentence_and_were_there_before():
    texts = [one.text for one in stories()]
    for item in TASKS["story_last_words"]().items:
        (answer,) = item.answers
        assert any(text.startswith(f"{item.prompt} {answer}.") for text in texts)
        assert re.search(rf"\b{answer}\b", item.prompt[-FARTHEST:])


@pytest.mark.syllabus("UCL-15")
def test_the_other_noun_of_the_sentences_of_chapter_2_has_the_other_number():
    items = TASKS["agreement"]().items
    for item in items:
        first, *_, last = item.context.split()[1:]
        assert item.choices == ("is", "are") and first.endswith("s") == bool(item.answer) != last.endswith("s")
    assert len(items) == 200


def test_a_story_model_knows_more_than_chance():
    tasks = [make() for make in TASKS.values()]
    report = evaluate(read_checkpoint("story_learned"), tasks, limit=60)
    metrics = report.metrics
    assert metrics["story_facts"]["accuracy, raw"].low > 1 / N_CHOICES
    assert metrics["story_verbs"]["accuracy, raw"].estimate > 0.9
    assert metrics["story_last_words"]["exact match"].low > 0.1
    assert metrics["story_text"]["bits per byte"].estimate < 0.5
