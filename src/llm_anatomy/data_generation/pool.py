"""The pool of tasks: what the seeds are, what a model has added to them, and the file that holds both safely."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from llm_anatomy.data_generation.cost import Usage
from llm_anatomy.files import JsonLines, write_atomically


class Instance(NamedTuple):
    """One input of a task with its output.

    Source: Wang et al. (2022), section 2.1; GT-46.

    >>> Instance("17, 4, 32", "17").output
    '17'
    """

    input: str
    """Empty if the instruction alone says everything."""

    output: str


@dataclass(frozen=True)
class Task:
    """An instruction with its instances.

    Args:
        instruction: what is to be done.
        instances: inputs and outputs; there may be none yet.
        is_classification: whether the outputs are a few fixed labels; None if this is not known.

    Raises:
        ValueError: if the instruction is empty.

    Source: Wang et al. (2022), section 2.1; GT-46.

    >>> Task("Return the first number.", (Instance("17, 4", "17"),)).instances[0].output
    '17'
    """

    instruction: str
    instances: tuple[Instance, ...] = ()
    is_classification: bool | None = None

    def __post_init__(self):
        if not self.instruction.strip():
            raise ValueError(f"instruction={self.instruction!r} must not be empty")

    def to_json(self) -> dict[str, Any]:
        """Return the task as a JSON object with the keys of Self-Instruct's seed tasks."""
        fields: dict[str, Any] = {"instruction": self.instruction, "instances": [i._asdict() for i in self.instances]}
        return fields if self.is_classification is None else fields | {"is_classification": self.is_classification}

    @classmethod
    def from_json(cls, fields: Any) -> "Task":
        """Read a task from such an object. Other keys, such as ``id`` and ``name``, are left alone.

        Raises:
            ValueError: if the object is none of a task; the message names the key.
        """
        if not isinstance(fields, Mapping):
            raise ValueError(f"a task must be a JSON object, not {type(fields).__name__}")
        instances = fields.get("instances", [])
        if not isinstance(instances, list) or not all(isinstance(i, Mapping) for i in instances):
            raise ValueError(f"key 'instances': it must be a list of objects, not {instances!r:.40}")
        pairs = [Instance(_text(i, "input", ""), _text(i, "output")) for i in instances]
        label = fields.get("is_classification")
        if not (label is None or isinstance(label, bool)):
            raise ValueError(f"key 'is_classification': it must be true or false, not {label!r:.40}")
        return cls(_text(fields, "instruction"), tuple(pairs), label)


def _text(fields: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = fields.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"key {key!r} " + ("is missing" if value is None else f"must be a text, not {value!r:.40}"))
    return value


def read_tasks(path: str | os.PathLike[str]) -> list[Task]:
    """Read tasks from a JSONL file, one in each line, such as Self-Instruct's ``seed_tasks.jsonl``.

    Args:
        path: the file. Each line has the keys ``instruction`` and ``instances``, a list of objects with ``input`` and
            ``output``, and may have ``is_classification``.

    Raises:
        ValueError: for a line that is none of a task; the message names the line.

    Source: the seed tasks of Wang et al. (2022); GT-46.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "seeds.jsonl").write_text('{"instruction": "Name a bird.", "instances": []}')
    ...     read_tasks(Path(folder, "seeds.jsonl"))
    [Task(instruction='Name a bird.', instances=(), is_classification=None)]
    """
    return JsonLines(path).read(Task.from_json, by_hand=True)


def write_conversations(tasks: Iterable[Task], path: str | os.PathLike[str]) -> int:
    """Write every instance as a conversation, in the form that ``python -m llm_anatomy tokenize --conversations`` and
    most libraries for fine-tuning read; returns how many there are.

    The user's message is the instruction, with the input below it if there is one; the assistant's is the output.

    Args:
        tasks: such as ``pool.generated``.
        path: a JSONL file, which is replaced only when the new one is complete.

    Source: the form of messages in OpenAI's API and in Hugging Face's chat templates; GT-45.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tasks = [Task("Return the first number.", (Instance("17, 4", "17"),))]
    ...     write_conversations(tasks, Path(folder, "a.jsonl")), Path(folder, "a.jsonl").read_text()[:56]
    (1, '{"messages": [{"role": "user", "content": "Return the fi')
    """
    lines = [json.dumps({"messages": conversation(task, i)}) for task in tasks for i in task.instances]
    write_atomically(path, "".join(f"{line}\n" for line in lines))
    return len(lines)


def conversation(task: Task, instance: Instance) -> list[dict[str, str]]:
    """Return the two messages of one instance.

    Args:
        task: whose instruction the user gives.
        instance: whose output the assistant answers.

    Source: the form of messages in OpenAI's API and in Hugging Face's chat templates; GT-45.

    >>> [message["content"] for message in conversation(Task("Name a bird."), Instance("", "The robin."))]
    ['Name a bird.', 'The robin.']
    """
    asked = f"{task.instruction}\n\n{instance.input}" if instance.input else task.instruction
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": instance.output}]


# --- The pool ---


@dataclass(frozen=True)
class Round:
    """What one round of the pipeline brought.

    Args:
        tasks: those that passed all filters.
        refused: how many each filter refused, by the name of the filter.
        usage: what the round cost.

    Source: Wang et al. (2022), section 2.2; GT-46.

    >>> Round((Task("Name a bird."),), {"near-duplicate": 2}, Usage(3, 900, 80)).refused
    {'near-duplicate': 2}
    """

    tasks: tuple[Task, ...]
    refused: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = Usage()


class Pool:
    """Seed tasks, and the tasks that rounds of the pipeline have added; with a path, a file holds them too.

    The first line of the file says what the seeds and the settings are, and each further line holds one round. A round
    is added as one line, which is on the disk before :meth:`append` returns: whenever the program is
    killed, the file holds whole rounds, and at most the beginning of another, which the next round replaces.

    Args:
        seeds: the tasks that people wrote; they must differ from each other.
        path: a JSONL file that is made, or continued if it exists. By default, nothing is written.
        settings: whatever decides what is generated, as JSON values; a file that was made with others is refused.

    Raises:
        ValueError: for two seeds with the same instruction; for a file that was made with other seeds or settings, or
            is no pool.

    Source: Wang et al. (2022), section 2.2 (the task pool); GT-46.

    >>> pool = Pool([Task("Name a bird.")])
    >>> pool.append(Round((Task("Name the largest lake of Africa."),)))
    >>> len(pool), pool.generated[0].instruction
    (2, 'Name the largest lake of Africa.')
    """

    def __init__(
        self,
        seeds: Sequence[Task],
        path: str | os.PathLike[str] | None = None,
        settings: Mapping[str, Any] | None = None,
    ):
        instructions = [task.instruction for task in seeds]
        twice = sorted({i for i in instructions if instructions.count(i) > 1})
        if twice:
            raise ValueError(f"the seed task {twice[0]!r:.60} is there twice")
        self.seeds, self.path, self.rounds = tuple(seeds), None if path is None else Path(path), list[Round]()
        self.settings = json.loads(json.dumps(dict(settings or {})))
        self._lines = None if self.path is None else self._open(self.path)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Pool":
        """Open the file of a pool, with the seeds and the settings that are written in it.

        Raises:
            ValueError: if it is no pool.
            OSError: if there is no such file.
        """
        head, _ = _read(JsonLines(path))
        return cls([Task.from_json(seed) for seed in head["seeds"]], path, head["settings"])

    def append(self, added: Round) -> None:
        """Add a round, to the file first.

        Raises:
            ValueError: if another program has written to the file in the meantime.
        """
        if self._lines is not None:
            self._lines.append(_round_to_json(len(self.rounds), added))
        self.rounds.append(added)

    @property
    def generated(self) -> list[Task]:
        """The tasks that were added to the seeds, oldest first."""
        return [task for added in self.rounds for task in added.tasks]

    @property
    def refused(self) -> dict[str, int]:
        """How many each filter has refused so far."""
        counts = Counter[str]()
        for added in self.rounds:
            counts.update(added.refused)
        return dict(counts)

    @property
    def usage(self) -> Usage:
        """What all rounds have cost."""
        return sum((added.usage for added in self.rounds), start=Usage())

    def __iter__(self) -> Iterator[Task]:
        yield from self.seeds
        yield from self.generated

    def __len__(self) -> int:
        return len(self.seeds) + sum(len(added.tasks) for added in self.rounds)

    def _open(self, path: Path) -> JsonLines:
        head = {"pool": VERSION, "settings": self.settings, "seeds": [task.to_json() for task in self.seeds]}
        if not path.exists():
            write_atomically(path, f"{json.dumps(head, ensure_ascii=False)}\n")
        lines = JsonLines(path, sync=True, exclusive=True)
        found, self.rounds = _read(lines)
        for key in sorted(found["settings"].keys() | self.settings.keys()):
            there, here = found["settings"].get(key), self.settings.get(key)
            if there != here:
                raise ValueError(f"{path.name} was made with {key}={there!r:.60}, and cannot go on with {here!r:.60}")
        if found["seeds"] != head["seeds"]:
            raise ValueError(f"{path.name} was made with other seed tasks")
        return lines


VERSION = 1
_NO_POOL = "this is no pool of tasks that this package has written"


def _read(lines: JsonLines) -> tuple[dict[str, Any], list[Round]]:
    """The first line of the file of a pool, and its rounds."""
    heads, rounds = list[dict[str, Any]](), list[Round]()

    def parse(fields: Any) -> None:
        if heads:
            rounds.append(_round_from_json(len(rounds), fields))
        else:
            heads.append(_head(fields))

    lines.read(parse)
    if not heads:
        raise ValueError(f"{lines.path.name}, line 1: {_NO_POOL}")
    return heads[0], rounds


def _head(fields: Any) -> dict[str, Any]:
    if not isinstance(fields, dict) or fields.get("pool") != VERSION:
        raise ValueError(_NO_POOL)
    if not isinstance(fields.get("seeds"), list) or not isinstance(fields.get("settings"), dict):
        raise ValueError("the keys 'seeds' and 'settings' must be there")
    return fields


def _round_to_json(number: int, added: Round) -> dict[str, Any]:
    tasks = [task.to_json() for task in added.tasks]
    return {"round": number, "tasks": tasks, "refused": dict(added.refused), "usage": added.usage.to_json()}


def _round_from_json(number: int, fields: Any) -> Round:
    try:
        if fields["round"] != number:
            raise ValueError(f"it holds round {fields['round']!r:.20}, where round {number} is due")
        tasks = tuple(Task.from_json(task) for task in fields["tasks"])
        return Round(tasks, dict(fields["refused"]), Usage(**fields["usage"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"this is no round of a pool ({error!r:.60})") from None
