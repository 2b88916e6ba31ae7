"""The loop of Self-Instruct: sample tasks, let a model write more, filter them, and add them to the pool."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tqdm.auto import tqdm

from llm_anatomy.data_generation import prompts
from llm_anatomy.data_generation.cost import Usage
from llm_anatomy.data_generation.filters import (
    FILTERS,
    InstructionFilter,
    NearDuplicates,
    filter_instances,
    refused_by,
)
from llm_anatomy.data_generation.generators import Completion, TextGenerator
from llm_anatomy.data_generation.parsing import parse_classification, parse_instances, parse_instructions
from llm_anatomy.data_generation.pool import Pool, Round, Task
from llm_anatomy.data_generation.prompts import EXAMPLES

MAX_IDLE_ROUNDS = 20
"""After so many rounds without a new task, the pipeline gives up."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How tasks are generated.

    Args:
        seed: of all random choices.
        n_prompts: number of prompts for new instructions in each round, which a generator may answer at the same time.
        threshold: an instruction is refused if its ROUGE-L with another reaches it.
        temperature, top_p: for new instructions; labels and instances take the most probable token each time.
        instruction_tokens, instance_tokens: the most tokens of a completion of each kind.

    Raises:
        ValueError: for a number of prompts or tokens below 1.

    Source: Wang et al. (2022), section 2.2 and the appendix on querying the model; GT-46.

    >>> Settings().threshold
    0.7
    """

    seed: int = 0
    n_prompts: int = 1
    threshold: float = 0.7
    temperature: float = 0.7
    top_p: float = 0.5
    instruction_tokens: int = 1024
    instance_tokens: int = 300

    def __post_init__(self):
        for name in ("n_prompts", "instruction_tokens", "instance_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    def to_json(self) -> dict[str, Any]:
        """Return the settings by name."""
        return asdict(self)


def grow(
    pool: Pool,
    generator: TextGenerator,
    *,
    n_tasks: int,
    settings: Settings | None = None,
    filters: Iterable[InstructionFilter] = FILTERS,
    examples: Sequence[Task] = EXAMPLES,
    progress: bool = True,
) -> None:
    """Add generated tasks to a pool, round by round, until there are enough of them.

    A round depends only on the settings, on the number of the round and on the pool before it. So a pool with a file
    that is continued after a kill grows to the same tasks as one that was never interrupted, if the generator gives the
    same completions for the same prompts and seeds.

    Args:
        pool: with at least eight seed tasks.
        generator: writes the texts.
        n_tasks: how many generated tasks there are at the end; the last round may bring a few more.
        settings: by default those of the paper.
        filters: which instructions are refused before they are compared with the pool.
        examples: the tasks in the prompts for classification and for instances.
        progress: whether a progress bar is shown.

    Raises:
        ValueError: if there are fewer than eight seed tasks, if no example is classification or all of them are, and
            after 20 rounds that brought no task.

    Source: Wang et al. (2022), section 2.2 and figure 2; GT-46.

    >>> class Rules:
    ...     def complete(self, prompts, *, seed=None, **settings):
    ...         draw = random.Random(seed)
    ...         texts = {"Task 9:": f" Name {draw.choices(range(99), k=4)} and a colour.", "classification?": " No"}
    ...         found = [next((texts[end] for end in texts if p.endswith(end)), "Output: red") for p in prompts]
    ...         return [Completion(text, len(p) // 4, len(text) // 4, "stop") for p, text in zip(prompts, found)]
    >>> pool = Pool([Task(f"Count from {n} to {3 * n}.") for n in range(8)])
    >>> grow(pool, Rules(), n_tasks=3, progress=False)
    >>> len(pool.generated), pool.generated[0].instances[0].output
    (3, 'red')
    """
    settings, filters = settings or Settings(), tuple(filters)
    if len({task.is_classification is True for task in examples}) < 2:
        raise ValueError("examples must have tasks that are classification, and tasks that are not")
    near = NearDuplicates((task.instruction for task in pool), settings.threshold)
    n_generated = len(pool.generated)
    with tqdm(total=n_tasks, initial=n_generated, unit=" tasks", disable=not progress) as bar:
        while n_generated < n_tasks:
            _check_idle(pool)
            added = _round(pool, generator, near, settings, filters, examples)
            pool.append(added)
            for task in added.tasks:
                near.add(task.instruction)
            n_generated += len(added.tasks)
            bar.update(len(added.tasks))
            bar.set_postfix(rounds=len(pool.rounds), refused=sum(pool.refused.values()))


def _round(
    pool: Pool,
    generator: TextGenerator,
    near: NearDuplicates,
    settings: Settings,
    filters: Sequence[InstructionFilter],
    examples: Sequence[Task],
) -> Round:
    draw = random.Random(f"{settings.seed} {len(pool.rounds)}")
    sampled = [prompts.sample_tasks(pool.seeds, pool.generated, draw) for _ in range(settings.n_prompts)]
    written = generator.complete(
        [prompts.instruction_prompt(tasks) for tasks in sampled],
        max_tokens=settings.instruction_tokens,
        stop=prompts.INSTRUCTION_STOP,
        temperature=settings.temperature,
        top_p=settings.top_p,
        seed=draw.getrandbits(31),
    )
    usage, refused = Usage.of(written), Counter[str]()
    new, new_ones = list[str](), NearDuplicates(threshold=settings.threshold)
    for instruction in (i for completion in written for i in parse_instructions(completion)):
        reason = refused_by(instruction, (*filters, near, new_ones))
        if reason is None:
            new.append(instruction)
            new_ones.add(instruction)
        else:
            refused[reason] += 1

    def ask(asked: Sequence[str], max_tokens: int, stop: Sequence[str]) -> list[Completion]:
        """The most probable completions."""
        nonlocal usage
        seed = draw.getrandbits(31)
        if not asked:
            return []
        found = generator.complete(asked, max_tokens=max_tokens, stop=stop, temperature=0.0, seed=seed)
        usage += Usage.of(found)
        return found

    asked = [prompts.classification_prompt(instruction, examples) for instruction in new]
    labels = [parse_classification(c) is True for c in ask(asked, N_LABEL_TOKENS, prompts.CLASSIFICATION_STOP)]
    tasks = dict[str, Task]()
    for is_classification in (False, True):
        prompt = prompts.output_first_prompt if is_classification else prompts.input_first_prompt
        chosen = [instruction for instruction, label in zip(new, labels, strict=True) if label is is_classification]
        asked = [prompt(instruction, examples) for instruction in chosen]
        written = ask(asked, settings.instance_tokens, prompts.INSTANCE_STOP)
        for instruction, completion in zip(chosen, written, strict=True):
            parsed = parse_instances(completion, output_first=is_classification)
            instances, reasons = filter_instances(parsed)
            refused.update(reasons)
            if instances:
                tasks[instruction] = Task(instruction, tuple(instances), is_classification)
            else:
                refused["no instance"] += 1
    return Round(tuple(tasks[instruction] for instruction in new if instruction in tasks), refused, usage)


N_LABEL_TOKENS = 3
"""As many as an answer of yes or no may have."""


def _check_idle(pool: Pool) -> None:
    last = pool.rounds[-MAX_IDLE_ROUNDS:]
    if len(last) == MAX_IDLE_ROUNDS and not any(added.tasks for added in last):
        refused = sum((Counter(added.refused) for added in last), start=Counter[str]())
        reasons = ", ".join(f"{reason} {n}" for reason, n in refused.most_common(3)) or "nothing was written"
        raise ValueError(f"{MAX_IDLE_ROUNDS} rounds in a row brought no new task ({reasons})")
