"""What a model has written, read as instructions, answers and instances: cut off, misnumbered or empty as it may be."""

import re

from llm_anatomy.data_generation.generators import Completion
from llm_anatomy.data_generation.pool import Instance

NUMBER = re.compile(r"^\s*(?:Task\s*\d*\s*[:.)]|\d+\s*[:.)])", re.MULTILINE | re.IGNORECASE)
LABEL = re.compile(r"^[ \t]*(Task|Example|Input|Output|Class label)\b[ \t]*\d*[ \t]*(?::|$)[ \t]*", re.MULTILINE | re.I)


def parse_instructions(completion: Completion) -> list[str]:
    """Read the new instructions: the rest of Task 9, then Task 10 and so on.

    The numbers are not trusted, since models leave some out and repeat others: a line that begins with any number
    begins a task. If the completion was cut off at ``max_tokens``, its last task is left out, because it may be cut
    too. So does Alpaca's published code; that of Self-Instruct leaves out the whole completion.

    Args:
        completion: of :func:`~llm_anatomy.data_generation.prompts.instruction_prompt`.

    Source: Wang et al. (2022), section 2.2; GT-46, GT-47.

    >>> parse_instructions(Completion(" Name a bird.\\nTask 10: Name a fish.\\n12. Sort the", 90, 16, "length"))
    ['Name a bird.', 'Name a fish.']
    """
    texts = NUMBER.split(completion.text)
    if completion.finish_reason == "length":
        texts.pop()
    return [text for text in (" ".join(text.split()) for text in texts) if text]


def parse_classification(completion: Completion) -> bool | None:
    """Read the answer to the question whether a task is classification; None if it is neither yes nor no.

    Args:
        completion: of :func:`~llm_anatomy.data_generation.prompts.classification_prompt`.

    Source: Wang et al. (2022), section 2.2; GT-47.

    >>> parse_classification(Completion(" Yes, it is.", 90, 4, "stop"))
    True
    """
    found = re.match(r"\W*(yes|no)\b", completion.text, re.IGNORECASE)
    return None if found is None else found[1].lower() == "yes"


def parse_instances(completion: Completion, *, output_first: bool) -> list[Instance]:
    """Read the instances of a task. One that lacks its output is left out, and the last one of a completion that was
    cut off, which may be cut too.

    Args:
        completion: of one of the two prompts for instances.
        output_first: whether it was the prompt that asks for a class label before each input.

    Source: Wang et al. (2022), section 2.2; GT-47.

    >>> written = Completion("Input: 4, 2\\nOutput: 4\\nInput: 9\\nOutput: 9", 90, 16, "stop")
    >>> parse_instances(written, output_first=False)
    [Instance(input='4, 2', output='4'), Instance(input='9', output='9')]
    >>> parse_instances(Completion("Class label: no\\nInput: See you at ten.", 90, 11, "stop"), output_first=True)
    [Instance(input='See you at ten.', output='no')]
    """
    before, *rest = LABEL.split(completion.text)
    fields = [(label.lower(), text.strip()) for label, text in zip(rest[::2], rest[1::2], strict=True)]
    if not output_first and before.strip() and not any(label == "input" for label, _ in fields[:1]):
        fields = [("input", before.strip()), *fields]  # the paper's inputs may have a name of their own
    instances = _labels_first(fields) if output_first else _inputs_first(fields)
    if completion.finish_reason == "length":
        instances = instances[:-1]
    return [instance for instance in instances if instance.output]


def _inputs_first(fields: list[tuple[str, str]]) -> list[Instance]:
    """Each output with the input before it."""
    instances, read = [], ""
    for label, text in fields:
        if label == "task":  # the model has gone on to another one
            break
        if label == "output":
            instances.append(Instance(read, text))
        read = text if label in ("input", "example") else ""
    return instances


def _labels_first(fields: list[tuple[str, str]]) -> list[Instance]:
    """Each class label with the input after it, if there is one."""
    instances, label_of_next = [], None
    for label, text in fields:
        if label == "task":
            break
        if label == "class label":
            instances.append(Instance("", text))
            label_of_next = text
        elif label == "input" and label_of_next is not None:
            instances[-1] = Instance(text, label_of_next)
            label_of_next = None
    return instances
