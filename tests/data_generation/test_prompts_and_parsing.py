"""The three prompts of Self-Instruct, and what is read of the answers to them."""

import random

import pytest

from llm_anatomy.data_generation import prompts
from llm_anatomy.data_generation.generators import Completion
from llm_anatomy.data_generation.parsing import parse_classification, parse_instances, parse_instructions
from llm_anatomy.data_generation.pool import Instance, Task

SEEDS = [Task(f"Write about seed {n}.") for n in range(12)]
GENERATED = [Task(f"Write about idea {n}.") for n in range(5)]


def wrote(text, finish_reason="stop"):
    return Completion(text, 9, 9, finish_reason)


@pytest.mark.syllabus("GT-46")
@pytest.mark.parametrize(("n_generated", "n_seeds"), [(0, 8), (1, 7), (2, 6), (5, 6)])
def test_eight_tasks_are_sampled_six_of_them_seeds(n_generated, n_seeds):
    for seed in range(20):
        tasks = prompts.sample_tasks(SEEDS, GENERATED[:n_generated], random.Random(seed))
        assert len(set(task.instruction for task in tasks)) == 8
        assert sum(task in SEEDS for task in tasks) == n_seeds


def test_generated_tasks_stand_anywhere_among_the_seeds():
    sampled = [prompts.sample_tasks(SEEDS, GENERATED, random.Random(s)) for s in range(40)]
    assert {i for tasks in sampled for i, task in enumerate(tasks) if task in GENERATED} == set(range(8))
    assert {task.instruction for tasks in sampled for task in tasks} == {t.instruction for t in SEEDS + GENERATED}


def test_too_few_seeds_are_refused():
    with pytest.raises(ValueError, match="there are 7 seed tasks; a prompt shows 8"):
        prompts.sample_tasks(SEEDS[:7], GENERATED, random.Random(0))


@pytest.mark.syllabus("GT-47")
def test_the_prompt_for_instructions_lists_eight_tasks_and_leaves_the_ninth_open():
    written = prompts.instruction_prompt([Task("Write\nabout  rain."), *SEEDS[:7]])
    lines = written.splitlines()
    assert lines[1] == "Task 1: Write about rain." and lines[8] == "Task 8: Write about seed 6."
    assert lines[9:] == ["Task 9:"] and written.endswith("Task 9:")
    assert prompts.INSTRUCTION_STOP == ("\nTask 16",)
    for n in (7, 9):
        with pytest.raises(ValueError, match=f"shows 8 tasks, not {n}"):
            prompts.instruction_prompt(SEEDS[:n])


@pytest.mark.syllabus("GT-47")
def test_the_prompt_for_classification_asks_about_the_last_task():
    written = prompts.classification_prompt("Is it a bird?")
    assert written.endswith("Task: Is it a bird?\nIs it classification?")
    assert written.count("classification? Yes") == 3 and written.count("classification? No") == 3


@pytest.mark.syllabus("GT-47")
def test_prompts_for_instances_put_the_input_or_the_output_first():
    first, last = prompts.input_first_prompt("Sort it."), prompts.output_first_prompt("Sort it.")
    assert first.endswith("\n\nTask: Sort it.\n") and last.endswith("\n\nTask: Sort it.\n")
    assert first.index("Input: 17, 4, 32") < first.index("Output: 17")
    assert "Class label" not in first and "mixed" not in first
    assert last.index("Class label: mixed") < last.index("Input: The soup") and "Output" not in last
    labels = [line for line in last.splitlines() if line.startswith("Class label: ")]
    assert [label.removeprefix("Class label: ") for label in labels[:3]] == ["mixed", "positive", "negative"]
    assert "\nTask: Why do leaves change their colour in autumn?\nOutput: " in first  # a task without an input


@pytest.mark.parametrize("output_first", [False, True])
def test_what_a_prompt_shows_is_read_as_it_was_written(output_first):
    """The form of the examples is the form that is parsed."""
    write = prompts.output_first_prompt if output_first else prompts.input_first_prompt
    for task in prompts.EXAMPLES:
        if task.is_classification is output_first:
            _, shown, _ = write("A task.", [task]).split("\n\n")
            completion = wrote(shown.partition("\n")[2])
            assert parse_instances(completion, output_first=output_first) == list(task.instances)


# --- Instructions ---


@pytest.mark.syllabus("GT-46")
@pytest.mark.parametrize(
    ("text", "finish_reason", "expected"),
    [
        (" One.\nTask 10: Two.\nTask 11: Three.", "stop", ["One.", "Two.", "Three."]),
        (" One.\nTask 10: Two.\nTask 11: Thr", "length", ["One.", "Two."]),
        (" One.\nTask 10: Two.\nTask 11:", "length", ["One.", "Two."]),
        (" One.\n10. Two.\n10) Three.\n3: Four.", "stop", ["One.", "Two.", "Three.", "Four."]),
        ("Task 9: One.\nTask: Two.\ntask 12 : Three.", "stop", ["One.", "Two.", "Three."]),
        (" One\n  goes on.\n\n\nTask 10:\n\nTask 11:  Two. ", "stop", ["One goes on.", "Two."]),
        (" Name 3 birds. 4. is a number.", "stop", ["Name 3 birds. 4. is a number."]),
        ("", "stop", []),
        ("\n", "length", []),
        (" Only one that is cut", "length", []),
    ],
)
def test_instructions_are_read_whatever_their_numbers(text, finish_reason, expected):
    assert parse_instructions(wrote(text, finish_reason)) == expected


# --- Classification ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [(" Yes", True), ("No.", False), (" yes, it is", True), ("\nNO", False), ("**Yes**", True)]
    + [("", None), (" Maybe", None), ("Nothing", None), ("It is. Yes", None)],
)
def test_an_answer_is_yes_no_or_neither(text, expected):
    assert parse_classification(wrote(text)) is expected


# --- Instances ---

INPUTS_FIRST = [
    ("Output: red", [("", "red")]),
    ("Input: a\nOutput: b", [("a", "b")]),
    ("Example 1\nInput: a\nOutput: b\nExample 2\nInput: c\nOutput: d", [("a", "b"), ("c", "d")]),
    ("Example 1\na\nOutput: b", [("a", "b")]),  # without the name of the field
    ("The list: 1, 2\nOutput: 1", [("The list: 1, 2", "1")]),  # with another name
    ("Input: line 1\nline 2\nOutput:\n- x\n- y\n", [("line 1\nline 2", "- x\n- y")]),
    ("input: a\noutput : b", [("a", "b")]),
    ("Input: a\nOutput:\nInput: c\nOutput: d", [("c", "d")]),
    ("Input: a\nInput: c\nOutput: d", [("c", "d")]),  # the first one lacks its output
    ("Output: b\nOutput: d", [("", "b"), ("", "d")]),
    ("Input: a\nOutput: b\nTask: Sort it.\nInput: c\nOutput: d", [("a", "b")]),
    ("Input: see Output: there\nOutput: b", [("see Output: there", "b")]),  # not at the beginning of a line
    ("Input: a", []),
    ("Nothing that is asked.", []),
    ("", []),
]
LABELS_FIRST = [
    ("Class label: yes\nInput: a\nClass label: no\nInput: b", [("a", "yes"), ("b", "no")]),
    ("Class label: yes\nClass label: no", [("", "yes"), ("", "no")]),
    ("Class Label: yes\nInput: a\nInput: b", [("a", "yes")]),  # the second one has no label of its own
    ("Input: a\nClass label: yes", [("", "yes")]),
    ("Class label:\nInput: a\nClass label: no\nInput: b", [("b", "no")]),
    ("", []),
]


@pytest.mark.syllabus("GT-47")
@pytest.mark.parametrize(
    ("text", "expected", "output_first"),
    [(*case, False) for case in INPUTS_FIRST] + [(*case, True) for case in LABELS_FIRST],
)
def test_instances_are_read_and_incomplete_ones_left_out(text, expected, output_first):
    assert parse_instances(wrote(text), output_first=output_first) == [Instance(*pair) for pair in expected]


def test_the_last_instance_of_what_was_cut_off_is_left_out():
    text = "Input: a\nOutput: b\nInput: c\nOutput: d"
    assert parse_instances(wrote(text, "length"), output_first=False) == [Instance("a", "b")]
    text = "Class label: yes\nInput: a\nClass label: no\nInput: b"
    assert parse_instances(wrote(text, "length"), output_first=True) == [Instance("a", "yes")]
