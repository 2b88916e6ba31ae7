r"""Tasks with which language models are compared: multiple choice, short answers, and the likelihood of texts.

A file with a task has one JSON object in each line. Its keys say what kind of task it is:

- ``{"context": "The lake is", "choices": ["deep", "loud"], "answer": 0}``: the choice that the model finds most likely
  after the context should be the right one, given by its index or its text. ``"unconditional"``, a text that says
  nothing about the choices, such as ``"Answer:"``, adds a fourth score.
- ``{"prompt": "Two plus two is", "answers": ["four", "4"]}``: what the model writes greedily, up to the end of the line
  or one of the strings in ``"stop"``, should be one of the answers.
- ``{"text": "The lake is deep."}``: how many bits does the model need for a byte of the text?

Questions about the same passage should share a ``"group"``: their results are not independent, and the intervals allow
for that. ``"delimiter"`` stands between a context or a prompt and what follows; it is a space by default. Other keys
are ignored.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Protocol

import torch

from llm_anatomy.evaluation.intervals import Interval, mean_interval, wilson_interval
from llm_anatomy.evaluation.multiple_choice import choice_scores, choose
from llm_anatomy.evaluation.text_metrics import exact_match, token_f1
from llm_anatomy.evaluation.text_model import TextModel

ItemResult = dict[str, Any]
"""What is known of one item after the model has seen it, as JSON values."""


# --- Items ---


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with several choices.

    Args:
        context: the text before the choices.
        choices: at least two.
        answer: index of the right one.
        unconditional: a text that says nothing about the choices; None leaves out the score that needs it.
        delimiter: between the context and a choice.
        group: questions with the same one, such as those about one passage, are not independent.

    Source: Brown et al. (2020), section 2.4; GT-09.

    >>> Question(context="The lake is", choices=("deep", "loud"), answer=0).solved
    ('The lake is', 'deep')
    """

    context: str
    choices: tuple[str, ...]
    answer: int
    unconditional: str | None = None
    delimiter: str = " "
    group: str | None = None

    @property
    def solved(self) -> tuple[str, str]:
        """The question with its answer, as an example for others."""
        return self.context, self.choices[self.answer]


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt with a short answer.

    Args:
        prompt: the text that the model continues.
        answers: what is right; the first one stands in examples.
        stop: strings that end the model's answer.
        delimiter: between a prompt and its answer, in examples.
        group: as in :class:`Question`.

    Source: Rajpurkar et al. (2016), "SQuAD", section 6.1; GT-10.

    >>> Prompt(prompt="Two plus two is", answers=("four", "4")).solved
    ('Two plus two is', 'four')
    """

    prompt: str
    answers: tuple[str, ...]
    stop: tuple[str, ...] = ("\n",)
    delimiter: str = " "
    group: str | None = None

    @property
    def solved(self) -> tuple[str, str]:
        """The prompt with its first answer, as an example for others."""
        return self.prompt, self.answers[0]


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A text, of which only the likelihood is asked.

    Args:
        text: of any length.
        group: as in :class:`Question`.

    Source: Gao et al. (2020), "The Pile", section 3.1; UCL-03.

    >>> Passage(text="The lake is deep.").group
    """

    text: str
    group: str | None = None


Item = Question | Prompt | Passage


# --- Tasks ---


class Task(Protocol):
    """What :func:`~llm_anatomy.evaluation.evaluate.evaluate` needs of a task.

    Source: this project's interface for evaluations; GT-09.

    >>> task: Task = MultipleChoice("lakes", [])
    >>> task.name
    'lakes'
    """

    @property
    def name(self) -> str:
        """The name of the task."""
        ...

    @property
    def items(self) -> Sequence[Any]:
        """Its questions, prompts or texts."""
        ...

    def run(
        self, model: TextModel, indices: Sequence[int], few_shot: int, seed: int
    ) -> Iterator[tuple[int, ItemResult]]:
        """Show some items to a model, and yield the index of each with its result, in any order."""
        ...

    def metrics(self, indices: Sequence[int], results: Sequence[ItemResult]) -> dict[str, Interval]:
        """Compute the metrics of a model from the results of some items."""
        ...


class _OneKind:
    """A task whose items are all of one kind."""

    kind: ClassVar[type]

    def __init__(self, name: str, items: Sequence[Any]):
        for index, item in enumerate(items):
            if not isinstance(item, self.kind):
                raise ValueError(f"{name}: item {index} is a {type(item).__name__}, not a {self.kind.__name__}")
        self.name, self.items = name, items

    def groups(self, indices: Sequence[int]) -> list[str] | None:
        """The group of each item; None if no two items share one."""
        groups = [self.items[i].group for i in indices]
        if all(group is None for group in groups):
            return None
        return [f"{i}, alone" if group is None else group for i, group in zip(indices, groups, strict=True)]

    def _prompts(self, text: Callable[[Any], str], indices: Sequence[int], few_shot: int, seed: int) -> list[str]:
        return [
            _with_examples(text(self.items[i]), examples(self.items, i, few_shot, seed), self.items[i].delimiter)
            for i in indices
        ]


def _with_examples(text: str, shown: Sequence[Any], delimiter: str) -> str:
    solved = [f"{question}{delimiter}{answer}" for question, answer in (item.solved for item in shown)]
    return "\n\n".join([*solved, text])


def examples(items: Sequence[Any], index: int, n: int, seed: int = 0) -> list[Any]:
    """Draw the examples that are shown before an item: others, none of which is of its group.

    Args:
        items: all items of the task.
        index: of the item that is asked.
        n: number of examples.
        seed: the same seed draws the same examples in the same order.

    Raises:
        ValueError: if there are too few other items.

    Source: Brown et al. (2020), section 2.4, who draw them for each question; GT-10.

    >>> prompts = [Prompt(prompt=f"{i} plus 1 is", answers=(f"{i + 1}",)) for i in range(9)]
    >>> [item.answers for item in examples(prompts, 0, 2)]
    [('7',), ('5',)]
    """
    if n < 0:
        raise ValueError(f"few_shot={n} must be at least 0")
    if not n:
        return []
    group = items[index].group
    others = [i for i in range(len(items)) if i != index and (group is None or items[i].group != group)]
    if len(others) < n:
        raise ValueError(f"few_shot={n} must be at most {len(others)}, the number of other items in another group")
    rng = Random(f"{seed}/{index}")
    return [items[others.pop(rng.randrange(len(others)))] for _ in range(n)]


class MultipleChoice(_OneKind):
    """Questions with choices: is the most likely one right?

    Args:
        name: of the task.
        items: its questions.

    Source: Brown et al. (2020), section 2.4; GT-09.

    >>> task = MultipleChoice("lakes", [Question(context="The lake is", choices=("deep", "loud"), answer=0)])
    >>> result = {"log_probs": [-2.0, -3.0], "n_tokens": [1, 1], "unconditional": None}
    >>> print(task.metrics([0], [result])["accuracy, raw"].estimate)
    1.0
    """

    kind = Question

    def run(
        self, model: TextModel, indices: Sequence[int], few_shot: int, seed: int
    ) -> Iterator[tuple[int, ItemResult]]:
        """Compute the likelihood of each choice."""
        prompts = self._prompts(lambda item: item.context, indices, few_shot, seed)
        pairs: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
        left = dict.fromkeys(indices, 0)
        results: dict[int, ItemResult] = {}
        for i, prompt in zip(indices, prompts, strict=True):
            item: Question = self.items[i]
            kinds = {"log_probs": prompt} | (
                {} if item.unconditional is None else {"unconditional": item.unconditional}
            )
            results[i] = {"log_probs": [0.0] * len(item.choices), "n_tokens": [0] * len(item.choices)}
            results[i]["unconditional"] = None if item.unconditional is None else [0.0] * len(item.choices)
            for column, choice in enumerate(item.choices):
                for kind, before in kinds.items():
                    pairs.setdefault((before, item.delimiter + choice), []).append((i, kind, column))
                    left[i] += 1
        owners = list(pairs.values())
        for number, found in model.stream_log_likelihoods(list(pairs)):
            for i, kind, column in owners[number]:
                results[i][kind][column] = found.log_prob
                if kind == "log_probs":
                    results[i]["n_tokens"][column] = found.n_tokens
                left[i] -= 1
                if not left[i]:
                    yield i, results.pop(i)

    def scores(self, indices: Sequence[int], results: Sequence[ItemResult]) -> dict[str, Any]:
        """Compute the scores of :func:`~llm_anatomy.evaluation.multiple_choice.choice_scores` for these questions."""
        widest = max(len(result["log_probs"]) for result in results)

        def padded(values: Sequence[Sequence[float]], filling: float) -> list[list[float]]:
            return [[*row, *[filling] * (widest - len(row))] for row in values]

        alone = [result["unconditional"] for result in results]
        return choice_scores(
            padded([result["log_probs"] for result in results], -math.inf),
            padded([result["n_tokens"] for result in results], 0),
            padded([[len(choice) for choice in self.items[i].choices] for i in indices], 0),
            None if any(row is None for row in alone) else padded(alone, 0.0),
        )

    def metrics(self, indices: Sequence[int], results: Sequence[ItemResult]) -> dict[str, Interval]:
        """Compute the accuracy with each score."""
        answers = [self.items[i].answer for i in indices]
        metrics = {}
        for name, score in self.scores(indices, results).items():
            right = [int(chosen == answer) for chosen, answer in zip(choose(score).tolist(), answers, strict=True)]
            metrics[f"accuracy, {name.replace('_', ' ')}"] = _proportion(right, self.groups(indices))
        return metrics


class ShortAnswers(_OneKind):
    """Prompts that the model continues: is the answer one of the right ones, and how many of its words are in them?

    Args:
        name: of the task.
        items: its prompts.
        max_new_tokens: the most tokens of an answer.

    Source: Rajpurkar et al. (2016), "SQuAD", section 6.1; GT-10.

    >>> task = ShortAnswers("sums", [Prompt(prompt="Two plus two is", answers=("four",))])
    >>> print(task.metrics([0], [{"text": "four", "exact_match": 1.0, "f1": 1.0}])["exact match"].estimate)
    1.0
    """

    kind = Prompt

    def __init__(self, name: str, items: Sequence[Prompt], max_new_tokens: int = 16):
        super().__init__(name, items)
        self.max_new_tokens = max_new_tokens

    def run(
        self, model: TextModel, indices: Sequence[int], few_shot: int, seed: int
    ) -> Iterator[tuple[int, ItemResult]]:
        """Let the model answer."""
        by_stop: dict[tuple[str, ...], list[int]] = {}
        for i in indices:
            by_stop.setdefault(self.items[i].stop, []).append(i)
        for stop, some in by_stop.items():
            prompts = self._prompts(lambda item: item.prompt, some, few_shot, seed)
            for number, text in model.stream_continuations(prompts, max_new_tokens=self.max_new_tokens, stop=stop):
                answers = self.items[some[number]].answers
                found = {"exact_match": float(exact_match(text, answers)), "f1": token_f1(text, answers)}
                yield some[number], {"text": text, **found}

    def metrics(self, indices: Sequence[int], results: Sequence[ItemResult]) -> dict[str, Interval]:
        """Compute the share of right answers, and the mean F1."""
        groups = self.groups(indices)
        right = [int(result["exact_match"]) for result in results]
        mean_f1 = _ratio([result["f1"] for result in results], [1.0] * len(results), groups)
        return {"exact match": _proportion(right, groups), "F1": mean_f1}


class Likelihoods(_OneKind):
    """Texts: how many bits does the model need for each byte?

    Args:
        name: of the task.
        items: its texts.

    Source: Gao et al. (2020), "The Pile", section 3.1; UCL-03.

    >>> task = Likelihoods("lakes", [Passage(text="The lake is deep.")])
    >>> result = {"log_prob": -11.7835, "n_tokens": 5, "n_bytes": 17}
    >>> print({name: round(metric.estimate, 2) for name, metric in task.metrics([0], [result]).items()})
    {'bits per byte': 1.0, 'perplexity': 10.56}
    """

    kind = Passage

    def run(
        self, model: TextModel, indices: Sequence[int], few_shot: int, seed: int
    ) -> Iterator[tuple[int, ItemResult]]:
        """Compute the likelihood of each text. There are no examples before a text, whatever ``few_shot`` is."""
        for number, found, n_bytes in model.stream_whole_texts([self.items[i].text for i in indices]):
            yield indices[number], {"log_prob": found.log_prob, "n_tokens": found.n_tokens, "n_bytes": n_bytes}

    def metrics(self, indices: Sequence[int], results: Sequence[ItemResult]) -> dict[str, Interval]:
        """Compute the bits per byte, which do not depend on the tokenizer, and the perplexity, which does."""
        groups = self.groups(indices)
        nats = [-result["log_prob"] for result in results]
        bits = _ratio([x / math.log(2) for x in nats], [result["n_bytes"] for result in results], groups)
        loss = _ratio(nats, [result["n_tokens"] for result in results], groups)
        return {"bits per byte": bits, "perplexity": Interval(*(math.exp(x) for x in loss))}


def _proportion(right: Sequence[int], groups: Sequence[str] | None) -> Interval:
    """The share of right answers; if all of them are equal, the interval counts each group as one."""
    if groups is None:
        return wilson_interval(sum(right), len(right))
    if len({*right}) == 1:
        n = len({*groups})
        return wilson_interval(right[0] * n, n)
    return _ratio(right, [1.0] * len(right), groups)


def _ratio(above: Sequence[float], below: Sequence[float], groups: Sequence[str] | None) -> Interval:
    r"""The ratio of two sums over items, with the standard error of :math:`(a_i - R b_i) / \bar b`."""
    a, b = (torch.tensor(values, dtype=torch.float64) for values in (above, below))
    ratio = (a.sum() / b.sum()).item()
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups or ()))}
    clusters = None if groups is None else [numbers[name] for name in groups]
    if len(a) < 2 or (clusters is not None and len(numbers) < 2):
        return Interval(ratio, math.nan, math.nan)
    around_zero = mean_interval((a - ratio * b) / b.mean(), clusters)
    return Interval(ratio, ratio + around_zero.low, ratio + around_zero.high)


# --- Files ---


def read_task(path: str | os.PathLike[str]) -> Task:
    """Read a task from a file with one JSON object in each line, as described at the top of this module.

    Args:
        path: of the file; its name without the suffix is that of the task.

    Raises:
        ValueError: for a line that is no item or of another kind than the first, with its number, and for a file
            without items.

    Source: JSON Lines; RFC 8259; GT-09.

    >>> read_task("no/such/file.jsonl")
    Traceback (most recent call last):
    ValueError: no/such/file.jsonl cannot be read: No such file or directory
    """
    path = Path(path)
    try:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    items: list[Item] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                items.append(_item(line))
                if type(items[-1]) is not type(items[0]):
                    kinds = " and then a ".join(type(item).__name__.lower() for item in (items[0], items[-1]))
                    raise ValueError(f"a file holds items of one kind, and this one a {kinds}")
            except ValueError as error:
                raise ValueError(f"{path.name}, line {number}: {error}") from None
    if not items:
        raise ValueError(f"{path.name} has no items; each line should hold one as a JSON object")
    return {Question: MultipleChoice, Prompt: ShortAnswers, Passage: Likelihoods}[type(items[0])](path.stem, items)


def _item(line: bytes) -> Item:
    try:
        fields = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON ({error.msg} at column {error.colno})") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError(f"it must hold a JSON object, not {type(fields).__name__}")
    found = [kind for key, kind in KINDS.items() if key in fields]
    if len(found) != 1:
        raise ValueError(f"it must have exactly one of the keys {', '.join(KINDS)}")
    return found[0](fields)


def _question(fields: Mapping[str, Any]) -> Question:
    choices = _texts(fields, "choices")
    if len(choices) < 2:
        raise ValueError("key 'choices': there must be at least two")
    answer = fields.get("answer")
    if isinstance(answer, str) and choices.count(answer) == 1:
        answer = choices.index(answer)
    if type(answer) is not int or not 0 <= answer < len(choices):
        raise ValueError(
            f"key 'answer': {answer!r:.40} must be the text of one choice, or an index from 0 to {len(choices) - 1}"
        )
    alone = None if fields.get("unconditional") is None else _text(fields, "unconditional")
    return Question(
        context=_text(fields, "context"), choices=choices, answer=answer, unconditional=alone, **_shared(fields)
    )


def _prompt(fields: Mapping[str, Any]) -> Prompt:
    stop = _texts(fields, "stop") if "stop" in fields else ("\n",)
    return Prompt(prompt=_text(fields, "prompt"), answers=_texts(fields, "answers"), stop=stop, **_shared(fields))


def _passage(fields: Mapping[str, Any]) -> Passage:
    text = _text(fields, "text")
    if not text:
        raise ValueError("key 'text': it must have at least one character")
    return Passage(text=text, group=_shared(fields).get("group"))


KINDS: dict[str, Callable[[Mapping[str, Any]], Item]] = {"choices": _question, "answers": _prompt, "text": _passage}
"""The key that tells each kind of item."""


def _shared(fields: Mapping[str, Any]) -> dict[str, Any]:
    group = fields.get("group")
    if group is not None and not isinstance(group, str | int):
        raise ValueError(f"key 'group': {group!r:.40} must be a text or a number")
    shared = {} if "delimiter" not in fields else {"delimiter": _text(fields, "delimiter")}
    return shared | ({} if group is None else {"group": str(group)})


def _text(fields: Mapping[str, Any], key: str) -> str:
    if not isinstance(fields.get(key), str):
        raise ValueError(
            f"key {key!r}: {fields[key]!r:.40} must be a text" if key in fields else f"key {key!r} is missing"
        )
    return fields[key]


def _texts(fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
    texts = fields.get(key)
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"key {key!r}: {texts!r:.40} must be a list of texts, none of which is empty")
    return tuple(texts)
