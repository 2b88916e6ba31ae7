"""The prompts of Self-Instruct: for new instructions, for the question whether a task is classification, for instances.

No prompt ends in a space: most tokenizers join a space to the word after it, so that a model would begin a word that
it has rarely seen alone.
"""

import random
from collections.abc import Sequence

from llm_anatomy.data_generation.pool import Instance, Task

N_IN_CONTEXT = 8
"""Number of tasks in a prompt for new instructions."""

N_SEEDS = 6
"""How many of them are seed tasks, as soon as there are enough generated ones."""

INSTRUCTION_STOP = ("\nTask 16",)
CLASSIFICATION_STOP = ("\n",)
INSTANCE_STOP = ("\nTask:", "\n\n\n")

EXAMPLES = (
    Task(
        "Say whether the review is positive, negative or mixed.",
        (
            Instance("The soup was excellent, but we waited an hour for it.", "mixed"),
            Instance("I would come back for the view alone.", "positive"),
            Instance("The room was cold and the staff ignored us.", "negative"),
        ),
        is_classification=True,
    ),
    Task(
        "Return the first number of the list.",
        (Instance("17, 4, 32", "17"), Instance("apples, 6, 2", "6")),
        is_classification=False,
    ),
    Task(
        "Decide whether the message is spam. Answer yes or no.",
        (
            Instance("You have won a cruise. Send us your card number.", "yes"),
            Instance("The meeting on Friday begins at ten.", "no"),
        ),
        is_classification=True,
    ),
    Task(
        "Why do leaves change their colour in autumn?",
        (Instance("", "The tree breaks down the green chlorophyll, and yellow and red pigments become visible."),),
        is_classification=False,
    ),
    Task(
        "Which language is the sentence written in: English, French or Spanish?",
        (
            Instance("Le train part à midi.", "French"),
            Instance("The train leaves at noon.", "English"),
            Instance("El tren sale al mediodía.", "Spanish"),
        ),
        is_classification=True,
    ),
    Task(
        "Rewrite the sentence so that it is polite.",
        (Instance("Give me the report today.", "Could you please give me the report today?"),),
        is_classification=False,
    ),
)
"""Tasks that show a model what is asked. The paper has 31 for the question of classification, 19 of them with no."""


def sample_tasks(seeds: Sequence[Task], generated: Sequence[Task], draw: random.Random) -> list[Task]:
    """Draw the eight tasks that a prompt for new instructions shows, in random order.

    Six are seed tasks and two were generated earlier, so that the people who wrote the seeds keep a say in what is
    generated. While there are fewer than two generated tasks, seed tasks take their turns.

    Args:
        seeds: tasks that people wrote, at least eight.
        generated: tasks that a model wrote.
        draw: the source of randomness.

    Raises:
        ValueError: if there are fewer than eight seed tasks.

    Source: Wang et al. (2022), section 2.2; GT-46, GT-47.

    >>> seeds = [Task(f"Name {n} colours.") for n in range(2, 12)]
    >>> tasks = sample_tasks(seeds, [Task("Name a bird."), Task("Name a fish.")], random.Random(0))
    >>> len(tasks), sum(task in seeds for task in tasks)
    (8, 6)
    """
    if len(seeds) < N_IN_CONTEXT:
        raise ValueError(f"there are {len(seeds)} seed tasks; a prompt shows {N_IN_CONTEXT}")
    n_generated = min(N_IN_CONTEXT - N_SEEDS, len(generated))
    tasks = draw.sample(list(seeds), N_IN_CONTEXT - n_generated) + draw.sample(list(generated), n_generated)
    draw.shuffle(tasks)
    return tasks


def instruction_prompt(tasks: Sequence[Task]) -> str:
    """Write the prompt for new instructions: eight tasks, and an open ninth one.

    A completion ends before Task 16, with ``INSTRUCTION_STOP``, or where it is cut off.

    Args:
        tasks: exactly eight.

    Raises:
        ValueError: for another number of tasks.

    Source: Wang et al. (2022), section 2.2 and its table of prompts for new instructions; GT-47.

    >>> print(instruction_prompt([Task(f"Name {n} colours.") for n in range(2, 10)])[-55:])
    Task 7: Name 8 colours.
    Task 8: Name 9 colours.
    Task 9:
    """
    if len(tasks) != N_IN_CONTEXT:
        raise ValueError(f"the prompt shows {N_IN_CONTEXT} tasks, not {len(tasks)}")
    lines = [f"Task {number}: {_in_one_line(task.instruction)}" for number, task in enumerate(tasks, start=1)]
    return "\n".join(["Continue this list of varied tasks.", *lines, f"Task {N_IN_CONTEXT + 1}:"])


def classification_prompt(instruction: str, examples: Sequence[Task] = EXAMPLES) -> str:
    """Write the prompt that asks whether a task is classification.

    Args:
        instruction: of the task.
        examples: tasks of which this is known.

    Source: Wang et al. (2022), section 2.2 and its table of prompts for classification; GT-47.

    >>> print(classification_prompt("Is the number even?", EXAMPLES[1:2]))
    Can the task be seen as classification, that is, are its outputs a few fixed labels?
    <BLANKLINE>
    Task: Return the first number of the list.
    Is it classification? No
    <BLANKLINE>
    Task: Is the number even?
    Is it classification?
    """
    blocks = ["Can the task be seen as classification, that is, are its outputs a few fixed labels?"]
    blocks += [_question(task.instruction) + (" Yes" if task.is_classification else " No") for task in examples]
    return "\n\n".join([*blocks, _question(instruction)])


def _question(instruction: str) -> str:
    return f"Task: {_in_one_line(instruction)}\nIs it classification?"


def input_first_prompt(instruction: str, examples: Sequence[Task] = EXAMPLES) -> str:
    """Write the prompt for instances of a task that is no classification: first the input, then its output.

    Args:
        instruction: of the task.
        examples: tasks with instances; those that are classification are left out.

    Source: Wang et al. (2022), section 2.2 and its table of prompts for the input-first approach; GT-47.

    >>> print(input_first_prompt("Reverse the word.", EXAMPLES[1:4]), end="")
    Write examples for each task, several where it is possible. Where a task needs no input, write its output at once.
    <BLANKLINE>
    Task: Return the first number of the list.
    Example 1
    Input: 17, 4, 32
    Output: 17
    Example 2
    Input: apples, 6, 2
    Output: 6
    <BLANKLINE>
    Task: Why do leaves change their colour in autumn?
    Output: The tree breaks down the green chlorophyll, and yellow and red pigments become visible.
    <BLANKLINE>
    Task: Reverse the word.
    """
    blocks = [
        "Write examples for each task, several where it is possible. Where a task needs no input, write its output at "
        "once."
    ]
    for task in examples:
        if not task.is_classification:
            blocks.append("\n".join([f"Task: {_in_one_line(task.instruction)}", *_inputs_first(task.instances)]))
    return "\n\n".join([*blocks, f"Task: {_in_one_line(instruction)}\n"])


def _inputs_first(instances: Sequence[Instance]) -> list[str]:
    if all(not instance.input for instance in instances):
        return [f"Output: {instance.output}" for instance in instances]
    numbered = enumerate(instances, start=1)
    return [f"Example {number}\nInput: {instance.input}\nOutput: {instance.output}" for number, instance in numbered]


def output_first_prompt(instruction: str, examples: Sequence[Task] = EXAMPLES) -> str:
    """Write the prompt for instances of a classification task: first a class label, then an input that belongs to it.

    A model that writes the input first tends to write inputs of one and the same label. Writing the label first gives
    each label its inputs.

    Args:
        instruction: of the task.
        examples: tasks with instances; only those that are classification are shown.

    Source: Wang et al. (2022), section 2.2 and its table of prompts for the output-first approach; GT-47.

    >>> print(output_first_prompt("Is the number even?", EXAMPLES[2:3]), end="")
    Write for each classification task an input of each class label. Where it needs no input, write the labels alone.
    <BLANKLINE>
    Task: Decide whether the message is spam. Answer yes or no.
    Class label: yes
    Input: You have won a cruise. Send us your card number.
    Class label: no
    Input: The meeting on Friday begins at ten.
    <BLANKLINE>
    Task: Is the number even?
    """
    blocks = [
        "Write for each classification task an input of each class label. Where it needs no input, write the labels "
        "alone."
    ]
    for task in examples:
        if task.is_classification:
            blocks.append("\n".join([f"Task: {_in_one_line(task.instruction)}", *_outputs_first(task.instances)]))
    return "\n\n".join([*blocks, f"Task: {_in_one_line(instruction)}\n"])


def _outputs_first(instances: Sequence[Instance]) -> list[str]:
    return [f"Class label: {i.output}" + (f"\nInput: {i.input}" if i.input else "") for i in instances]


def _in_one_line(text: str) -> str:
    """The text without line breaks, at which a prompt's list would end."""
    return " ".join(text.split())
