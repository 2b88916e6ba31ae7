"""The assembly of prompts: tasks, prompts and ends of answers as the package has them, and what it refuses."""

import random

import pytest

from llm_anatomy.data_generation import prompts
from llm_anatomy.data_generation.generators import Completion
from llm_anatomy.data_generation.parsing import parse_instructions
from llm_anatomy.data_generation.pool import Task
from llm_anatomy.notebook import PromptAssembly
from llm_anatomy.notebook.widgets.prompt_assembly import DRAWS, HEAD, LIMITS, N_IN_CONTEXT, STOP

SEEDS = [f"Name {n} colours {{of}} the sky." for n in range(10)]
NEW = [f"Sort {n} lists." for n in range(5)]
WRITTEN = [f"Find the {'very ' * (n % 3)}first word of list {n}." for n in range(9)]
LABELS = "Is it spam?"


@pytest.fixture(scope="module")
def made():
    return PromptAssembly(SEEDS, NEW, WRITTEN, {"classification": (prompts.classification_prompt(LABELS), " No")})


def shown(widget, **values):
    for name, value in (dict(form="new tasks", draw=1, n_generated=len(NEW), limit=LIMITS[-1]) | values).items():
        setattr(widget, name, value)
    return widget.outputs()


@pytest.mark.syllabus("GT-47")
def test_tasks_are_those_that_the_package_samples(made):
    for draw in (1, 2, DRAWS):
        for n in (0, 1, 2, 5):
            found = shown(made, draw=draw, n_generated=n)
            tasks = prompts.sample_tasks([Task(s) for s in SEEDS], [Task(s) for s in NEW[:n]], random.Random(draw))
            shown_tasks = [(SEEDS + NEW)[int(i)] for i in found["shown"] if i == i]
            assert shown_tasks == [task.instruction for task in tasks]
            assert (found["n_seeds"], found["n_new"]) == (N_IN_CONTEXT - min(n, 2), min(n, 2))
    assert prompts.instruction_prompt(tasks).split("\n")[0] == HEAD
    assert (f"\nTask {STOP}",) == prompts.INSTRUCTION_STOP


@pytest.mark.syllabus("GT-47")
@pytest.mark.parametrize("limit", LIMITS)
def test_an_answer_ends_where_the_package_ends_it(made, limit):
    found = shown(made, limit=limit)
    text = "\n".join(f"Task {n}: {text}" for n, text in enumerate(WRITTEN[: STOP - 9], 9)).removeprefix("Task 9:")
    is_cut = len(text.split()) > limit
    pieces = text.split("\n")
    kept, left = [], limit
    for piece in pieces:
        kept.append(" ".join(piece.split()[: max(left, 0)]))
        left -= len(piece.split())
    cut = "\n".join(piece for piece in kept if piece)
    parsed = parse_instructions(Completion(cut, 90, limit, "length" if is_cut else "stop"))
    assert found["kept"] == len(parsed) and parsed == WRITTEN[: len(parsed)]
    assert found["end"] == (0 if is_cut else 2)


def test_words_of_the_other_kinds_are_those_of_the_prompt(made):
    found = shown(made, form="classification")
    assert sum(i == i for i in found["shown"]) == len(prompts.EXAMPLES)
    assert repr(made).endswith("Task: Is it spam? ↵ Is it classification? The model writes:  No (complete). The answer "
                               "ends by itself.")  # fmt: skip
    with pytest.raises(ValueError, match="there are 3 seeds and 0 generated instructions; there must be 8 seeds"):
        PromptAssembly(SEEDS[:3], [], WRITTEN)
