"""The experiment of chapter 15: what does a story model learn from instruction data that a pipeline has made?

    python -m llm_anatomy experiment instructions

*The base model* is a small decoder that has read stories and no instruction. It is trained first and stored as
``story_base``; everything else begins with its stored weights.

*The data.* The pipeline of :mod:`llm_anatomy.data_generation` grows a pool of tasks from the seed tasks, and the
generator writes instances of these tasks until there are enough examples. The generator is the rule-based stand-in,
whose error rate is known. For each seed there is another pool, other examples and another order.

*The conditions* differ in one thing from ``main``, which trains all weights on 4,000 right examples with the loss on
responses: the loss on all tokens (``loss_all``), LoRA of four ranks (``lora_…``), fewer examples (``n_…``), examples
of which a share is wrong (``wrong_…``), examples of a few kinds of instructions only (``kinds_…``), and plain stories
among the rows (``replay_…``). All make the same number of steps with rows of the same number. The maximum learning rate
is chosen on instructions of their own, for ``main``, ``loss_all`` and each rank; the other conditions take that of
``main``. A control, ``no_new_names``, is ``main`` without any example that contains a name of the test ``facts``.

*The tests* are instructions with an exact check: put as in the data (``seen``), put in other ways (``paraphrase``), and
about names and helpers that no example asks for (``facts``). Four kinds of instructions are in no data. Each response
is judged twice: whether it is of the sort that is asked for (``form``), and whether it is right. How much the model has
forgotten is its loss on plain stories, in bits per byte.

The command writes the tables ``instructions_experiment``, ``…_tuning``, ``…_scores``, ``…_losses`` and ``…_pool`` of
:mod:`llm_anatomy.data`, and stores ``story_base`` and ``story_instructed``, the model of the condition ``main`` with
the first seed.
"""

import math
import re
import tempfile
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple, cast

import numpy as np
import torch

from llm_anatomy.config import ModelConfig
from llm_anatomy.data_generation.parsing import parse_instances
from llm_anatomy.data_generation.pipeline import Settings, grow
from llm_anatomy.data_generation.pool import Pool, Task, conversation, read_tasks
from llm_anatomy.data_generation.prompts import INSTANCE_STOP, input_first_prompt, output_first_prompt
from llm_anatomy.data_generation.rule_based import RuleBasedGenerator
from llm_anatomy.evaluation.perplexity import token_losses
from llm_anatomy.models.checkpoints import Checkpoint, load, save
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.generation import generate
from llm_anatomy.models.stored import FOLDER, store, stored
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Int, Tensor
from llm_anatomy.tokenizers.base import Tokenizer
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.training.data.instructions import ConversationEncoder
from llm_anatomy.training.data.shards import ShardWriter
from llm_anatomy.training.data.stories import stories
from llm_anatomy.training.data.story_instructions import (
    KINDS,
    SEEN_KINDS,
    TEST_NAMES,
    UNSEEN_KINDS,
    Instruction,
    check,
    draw,
    has_form,
    phrasings,
)
from llm_anatomy.training.data.windows import random_windows
from llm_anatomy.training.experiments.runs import Rows, Tables, best_max_lrs, initialize_, means_over_seeds
from llm_anatomy.training.lab.config import TrainConfig
from llm_anatomy.training.trainer import train

NAME = "instructions"
BASE, INSTRUCTED = "story_base", "story_instructed"

D_MODEL, N_LAYERS, N_HEADS, N_VOCAB, N_CTX = 64, 2, 4, 1700, 96
BASE_STEPS, BASE_BATCH, BASE_WINDOW, BASE_LR = 2500, 24, 64, 2e-2
N_STORIES, N_TEST_STORIES = 3000, 64

N_STEPS, BATCH_SIZE, WARMUP_STEPS = 600, 12, 20
N_EXAMPLES, N_TASKS = 4000, 40
LORA_TARGETS = ("w_query", "w_key", "w_value", "w_output", "w_up", "w_down")
RANKS, SIZES, WRONG, N_KINDS, REPLAY = (1, 4, 16, 64), (250, 1000), (0.25, 0.5), (3, 6), (0.1, 0.5)

NEW_NAME = re.compile(rf"\b(?:{'|'.join(sorted(TEST_NAMES))})\b")

MAX_LRS = {"main": (0.0025, 0.005, 0.01, 0.02), "lora": (0.005, 0.01, 0.02, 0.04)}
TUNED = ("main", "loss_all", *(f"lora_{rank}" for rank in RANKS))
TUNING_SEEDS = (100, 101)
N_TUNING, N_TEST, MAX_NEW_TOKENS = 20, 40, 32

COLUMNS = {
    "instructions_tuning": ["condition", "max_lr", "seed", "error"],
    "instructions_scores": ["condition", "seed", "tests", "kind", "in_data", "n", "right", "form"],
    "instructions_losses": ["condition", "seed", "max_lr", "examples", "wrong", "bits_per_byte"],
    "instructions_pool": ["seed", "filter", "instructions"],
}
"""The columns of each table."""

CHAT_TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ m.content | replace('\n\n', '\n ') }}\n>"
    "{% else %} {{ m.content }}\n\n{% endif %}{% endfor %}"
)
"""How a conversation becomes one text: ``>`` begins a response, and an empty line ends it. The input begins with a
space, as words within a text do, so that its first word has the same token as the word of a response."""
STOP = "\n"


def render(messages: Sequence[dict[str, str]], add_generation_prompt: bool = False) -> str:
    """Write a conversation as ``CHAT_TEMPLATE`` does, but faster.

    Args:
        messages: of the user and the assistant in turns.
        add_generation_prompt: has no effect: a message of the user ends with the beginning of a response.

    Source: the documentation of transformers, "Chat templates"; GT-45.

    >>> render([{"role": "user", "content": "Count to two."}, {"role": "assistant", "content": "One, two."}])
    'Count to two.\\n> One, two.\\n\\n'
    """
    return "".join(
        m["content"].replace("\n\n", "\n ") + "\n>" if m["role"] == "user" else f" {m['content']}\n\n" for m in messages
    )


def seed_tasks() -> list[Task]:
    """Read the seed tasks, written for this course.

    Source: Wang et al. (2022), section 2.2, for what a seed task is; GT-46.

    >>> len(seed_tasks())
    12
    """
    return read_tasks(Path(str(FOLDER)) / "instruction_seeds.jsonl")


# --- The base model ---


def base_config() -> ModelConfig:
    """The config of the base model.

    Source: UCL-27, IITD-43.

    >>> base_config().n_vocab
    1700
    """
    sizes = dict(d_model=D_MODEL, n_layers=N_LAYERS, n_heads=N_HEADS, d_ff=3 * D_MODEL, n_vocab=N_VOCAB, n_ctx=N_CTX)
    parts = dict(position="rope", norm="rmsnorm", feedforward="gelu_tanh", tie_embeddings=True, scale_embeddings=True)
    return ModelConfig.of(sizes | parts)


@cache
def story_ids() -> tuple[BPE, Int[Tensor, "corpus"]]:
    """Train the tokenizer on the stories of the base model, and encode them.

    It has more tokens than that of the story models: most words of the stories are a single token, so that an
    instruction with its input and response fits into the context.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`, seed 0; UCL-07.

    >>> tokenizer, ids = story_ids()
    >>> tokenizer.n_vocab
    1700
    """
    texts = [f"{text}\n\n" for text in stories(0, N_STORIES)]
    tokenizer = cast(BPE, BPE.train(texts, N_VOCAB))
    return tokenizer, torch.tensor([i for ids in tokenizer.encode_batch(texts) for i in ids])


def train_base(n_steps: int = BASE_STEPS) -> Transformer:
    """Train the base model on stories.

    Args:
        n_steps: number of steps.

    Source: UCL-02, GT-45.

    >>> train_base(n_steps=1).config.n_layers
    2
    """
    with torch.random.fork_rng(devices=[]):
        model = Transformer(base_config())
    initialize_(model, 0)
    batches = random_windows(story_ids()[1], BASE_WINDOW, BASE_BATCH, torch.Generator().manual_seed(0))
    train(model, batches, n_steps=n_steps, max_lr=BASE_LR, warmup_steps=min(100, n_steps - 1))
    return model.eval()


# --- The data ---


class Data(NamedTuple):
    """What a condition trains on.

    Args:
        n_examples: number of examples.
        wrong: share of them whose outputs are wrong.
        n_kinds: number of kinds of instructions in them; 0 for all.
        replay: share of the rows that are plain stories.
        new_names: whether examples may contain the names whose pronouns only tests ask for.

    Source: GT-45, GT-46.

    >>> Data().n_examples
    4000
    """

    n_examples: int = N_EXAMPLES
    wrong: float = 0.0
    n_kinds: int = 0
    replay: float = 0.0
    new_names: bool = True


CONDITIONS = {
    "main": Data(),
    "loss_all": Data(),
    **{f"lora_{rank}": Data() for rank in RANKS},
    **{f"n_{n}": Data(n) for n in SIZES},
    **{f"wrong_{share}_n_{n}": Data(n, wrong=share) for share in WRONG for n in (*SIZES, N_EXAMPLES)},
    **{f"kinds_{n}": Data(n_kinds=n) for n in N_KINDS},
    **{f"replay_{share}": Data(replay=share) for share in REPLAY},
    "no_new_names": Data(new_names=False),
}
"""The data of each condition."""


def kinds_of(data: Data, seed: int) -> tuple[str, ...]:
    """List the kinds of instructions in the data of a condition; few kinds are drawn anew for each seed.

    Args:
        data: of the condition.
        seed: of the run.

    Source: Gudibande et al. (2023), who compare narrow with broad imitation; GT-45.

    >>> len(kinds_of(Data(n_kinds=3), seed=0)), len(kinds_of(Data(), seed=0))
    (3, 18)
    """
    return tuple(Random(f"kinds {seed}").sample(SEEN_KINDS, data.n_kinds)) if data.n_kinds else SEEN_KINDS


@cache
def grown_pool(seed: int, n_tasks: int = N_TASKS) -> Pool:
    """Grow the pool of tasks from the seed tasks by the pipeline.

    Args:
        seed: of the pipeline.
        n_tasks: least number of tasks that are generated.

    Source: Wang et al. (2022), section 2.2; GT-46.

    >>> pool = grown_pool(0, n_tasks=4)
    >>> len(pool.seeds), len(pool.generated) >= 4
    (12, True)
    """
    pool = Pool(seed_tasks())
    grow(pool, RuleBasedGenerator(), n_tasks=n_tasks, settings=Settings(seed=seed), progress=False)
    return pool


def examples(data: Data, seed: int, n_tasks: int = N_TASKS) -> list[list[dict[str, str]]]:
    """Let the generator write instances of the tasks of the pool, in turns, until there are enough.

    Args:
        data: how many examples there are, how many of them are wrong, and of how many kinds they are.
        seed: of the pool and of the instances.
        n_tasks: least number of tasks that are generated for the pool.

    Returns:
        The conversations, each with one message of the user and one of the assistant.

    Raises:
        ValueError: if the pool has no task of these kinds.

    Source: Wang et al. (2022), section 2.2; GT-45, GT-46.

    >>> (conversation,) = examples(Data(n_examples=1), seed=0, n_tasks=12)
    >>> [message["role"] for message in conversation]
    ['user', 'assistant']
    """
    texts = {text for kind in kinds_of(data, seed) for text in phrasings(kind)}
    tasks = [task for task in grown_pool(seed, n_tasks) if task.instruction in texts]
    if not tasks:
        raise ValueError(f"the pool of seed {seed} has no task of the kinds {', '.join(kinds_of(data, seed))}")
    generator, found, order = RuleBasedGenerator(error_rate=data.wrong), [], Random(f"order {seed}")
    while len(found) < data.n_examples:
        order.shuffle(tasks)
        output_first = [bool(task.is_classification) for task in tasks]
        prompts = [
            (output_first_prompt if first else input_first_prompt)(task.instruction)
            for task, first in zip(tasks, output_first, strict=True)
        ]
        completions = generator.complete(prompts, max_tokens=1000, stop=INSTANCE_STOP, seed=order.getrandbits(32))
        for task, first, completion in zip(tasks, output_first, completions, strict=True):
            written = [conversation(task, i) for i in parse_instances(completion, output_first=first)]
            found += [e for e in written if data.new_names or not any(NEW_NAME.search(m["content"]) for m in e)]
    return found[: data.n_examples]


def write_rows(folder: Path, data: Data, seed: int, *, loss: str = "responses") -> None:
    """Write the shards of a condition: rows of packed examples and, for replay, of plain stories.

    Args:
        folder: of the shards.
        data: of the condition.
        seed: of the run.
        loss: ``"responses"`` or ``"all"``, as for
            :class:`~llm_anatomy.training.data.instructions.ConversationEncoder`.

    Source: GT-45; Scialom et al. (2022), "Fine-tuned language models are continual learners", for replay.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_rows(Path(folder), Data(n_examples=4), seed=0)
    ...     (Path(folder) / "index.json").is_file()
    True
    """
    tokenizer, ids = story_ids()
    encode = ConversationEncoder(tokenizer, render, N_CTX, loss=loss)
    rows = encode(examples(data, seed))
    writer = ShardWriter(folder, n_vocab=N_VOCAB, tokenizer=tokenizer, has_targets=True, row_length=N_CTX)
    for row in rows:
        for document in row:
            writer.add("train", document.ids, document.targets)
    windows = random_windows(ids, N_CTX - 1, 1, torch.Generator().manual_seed(seed))
    for _ in range(round(len(rows) * data.replay / (1 - data.replay))):
        writer.add("train", next(windows)[0].numpy(), np.arange(N_CTX) > 0)
    writer.finish()


# --- Fine-tuning ---


def fine_tune(base: Checkpoint, condition: str, seed: int, max_lr: float, n_steps: int = N_STEPS) -> Transformer:
    """Fine-tune the base model with the training lab.

    Args:
        base: with its tokenizer.
        condition: one of ``CONDITIONS``.
        seed: of the data and their order.
        max_lr: the maximum learning rate.
        n_steps: number of steps.

    Raises:
        ValueError: if there is no such condition.

    Source: Taori et al. (2023), "Alpaca"; Hu et al. (2022), "LoRA"; GT-45.

    >>> fine_tune(Checkpoint(model=train_base(1)), "full", seed=0, max_lr=0.01)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: condition='full' must be one of main, loss_all, ...
    """
    from llm_anatomy.training.lab.loop import MODEL, run  # slow to import, and not needed by other commands

    if condition not in CONDITIONS:
        raise ValueError(f"{condition=} must be one of {', '.join(CONDITIONS)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(base, folder / "base")
        loss = "all" if condition == "loss_all" else "responses"
        write_rows(folder / "data", CONDITIONS[condition], seed, loss=loss)
        rank = int(condition.removeprefix("lora_")) if condition.startswith("lora_") else 0
        fields = {
            "out": str(folder / "run"),
            "n_steps": n_steps,
            "seed": seed,
            "data": {"path": str(folder / "data"), "n_tokens": N_CTX, "batch_size": BATCH_SIZE},
            "optimizer": {"max_lr": max_lr, "weight_decay": 0.0},
            "schedule": {"warmup_steps": min(WARMUP_STEPS, n_steps - 1)},
            "parallel": {"device": "cpu"},
            "checkpoint": {"every": n_steps, "keep_last": 1, "asynchronous": False},
            "watch": {"evaluate_every": 0, "quiet": True},
            "spikes": {"action": "none"},
            "finetune": {"start_from": str(folder / "base"), "lora_rank": rank, "lora_targets": list(LORA_TARGETS)},
        }
        with torch.random.fork_rng(devices=[]):
            result = run(TrainConfig.of(fields))
        if result.status:  # a signal has stopped it
            raise InterruptedError(result.message)
        return cast(Transformer, load(folder / "run" / MODEL).model)


# --- Tests ---


class Score(NamedTuple):
    """How a model responds to instructions of one kind.

    Args:
        n: number of instructions.
        right: how many responses are right.
        form: how many are of the sort that is asked for.

    Source: Gudibande et al. (2023), for the two judgements; GT-45.

    >>> Score(40, 30, 38).right / Score(40, 30, 38).n
    0.75
    """

    n: int
    right: int
    form: int


def responses(model: Transformer, tokenizer: Tokenizer, instructions: Sequence[Instruction]) -> list[str]:
    """Let a model respond, each time with its most probable tokens.

    Args:
        model: base or fine-tuned.
        tokenizer: of the model.
        instructions: whose messages fit into the context.

    Source: GT-45.

    >>> model, known = Transformer(base_config()).eval(), story_ids()[0]
    >>> len(responses(model, known, [Instruction("write", "Use the word in a sentence.", "kite")]))
    1
    """
    prompts = [tokenizer.encode(render([{"role": "user", "content": i.message()}])) for i in instructions]
    settings = dict(max_new_tokens=MAX_NEW_TOKENS, stop_strings=[STOP], decode=tokenizer.decode, overflow="stop")
    return [tokenizer.decode(ids).partition(STOP)[0] for ids in generate(model, prompts, **settings).ids]


TESTS = {
    "seen": [(kind, {}) for kind in KINDS],
    "paraphrase": [(kind, {"new_phrasing": True}) for kind in SEEN_KINDS],
    "facts": [(kind, {"test": True}) for kind in ("pronoun", "home")],
}
"""The kinds of each set of tests, and how their instructions are drawn."""


@cache
def test_instructions(tests: str, kind: str, n: int = N_TEST, seed: str = "tests") -> tuple[Instruction, ...]:
    """Draw the instructions of a test, the same ones for every model.

    Args:
        tests: one of ``TESTS``.
        kind: one of the kinds in it.
        n: number of instructions.
        seed: of the draw.

    Source: GT-45.

    >>> len(test_instructions("paraphrase", "mood", n=3))
    3
    """
    rng, settings = Random(f"{seed} {tests} {kind}"), dict(TESTS[tests])[kind]
    return tuple(draw(kind, rng, **settings) for _ in range(n))


test_instructions.__test__ = False  # type: ignore[attr-defined]  # no test of pytest, whatever its name says


def score(model: Transformer, tokenizer: Tokenizer, instructions: Sequence[Instruction]) -> Score:
    """Count the responses of a model that are right, and those that have the right form.

    Args:
        model: base or fine-tuned.
        tokenizer: of the model.
        instructions: of any kinds.

    Source: GT-45.

    >>> model, known = Transformer(base_config()).eval(), story_ids()[0]
    >>> score(model, known, [Instruction("first", "Which word comes first?", "drum, kite, map")]).n
    1
    """
    pairs = list(zip(instructions, responses(model, tokenizer, instructions), strict=True))
    return Score(len(pairs), sum(check(*pair) for pair in pairs), sum(has_form(*pair) for pair in pairs))


@cache
def plain_windows() -> tuple[Int[Tensor, "windows window"], int]:
    """Cut stories that no model has read into windows, and count their bytes.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`, seed 1; UCL-03.

    >>> windows, n_bytes = plain_windows()
    >>> windows.shape[1]
    97
    """
    tokenizer, _ = story_ids()
    texts = [f"{text}\n\n" for text in stories(1, N_TEST_STORIES)]
    windows = torch.tensor([i for ids in tokenizer.encode_batch(texts) for i in ids]).unfold(0, N_CTX + 1, N_CTX)
    return windows, sum(len(tokenizer.vocabulary[i]) for i in windows[:, 1:].flatten().tolist())


def bits_per_byte(model: Transformer) -> float:
    """Measure the loss on plain stories.

    Args:
        model: base or fine-tuned.

    Source: Gao et al. (2020), "The Pile", section 3.1; UCL-03, GT-45.

    >>> 2 < bits_per_byte(Transformer(base_config())) < 9  # not trained
    True
    """
    windows, n_bytes = plain_windows()
    return token_losses(model, windows).double().sum().item() / math.log(2) / n_bytes


# --- The experiment ---


def experiment(out: Path, seeds: Iterable[int] = range(5), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Train the base model, choose the learning rates, fine-tune under all conditions, and write the tables.

    Args:
        out: folder of the tables and the stored models; it is created if it does not exist.
        seeds: each condition is trained once for each.
        n_steps: number of steps of each fine-tuning; the base model makes as many times more as by default.
        n_workers: number of processes, each with one thread. It does not change the results.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: GT-45, GT-46, E-68.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    600
    """
    seeds, began = list(seeds), time.monotonic()
    tables = Tables(out, COLUMNS, n_workers)
    tuning = [(out, name, lr, seed, n_steps) for name in TUNED for lr in _max_lrs(name) for seed in TUNING_SEEDS]
    with tables.collecting() as collect:
        collect(_base, [(out, max(1, BASE_STEPS * n_steps // N_STEPS))], "base model")
        collect(_tuning, tuning, "tuning")
        best = best_max_lrs(means_over_seeds(tables.rows["instructions_tuning"]))
        jobs = [
            (out, name, best.get(name, best["main"]), seed, n_steps, seed == seeds[0])
            for seed in seeds
            for name in CONDITIONS
        ]
        collect(_fine_tuned, jobs, "models")
    tables.write_settings("instructions_experiment", _settings(n_steps), seeds, time.monotonic() - began)


def _max_lrs(condition: str) -> tuple[float, ...]:
    return MAX_LRS["lora" if condition.startswith("lora_") else "main"]


def _stored_base(out: Path) -> Checkpoint:
    model, known = stored(out / f"{BASE}.safetensors")
    return Checkpoint(model=model, texts=Texts(tokenizer=known["tokenizer"]))


def _base(job: tuple[Path, int]) -> Rows:
    """Train and store the base model, and test it as it is."""
    out, n_steps = job
    model, (tokenizer, _) = train_base(n_steps), story_ids()
    known = {"command": COMMAND, "seed": 0, "n_steps": n_steps}
    store(model, out / f"{BASE}.safetensors", tokenizer=tokenizer, **known)
    model = cast(Transformer, _stored_base(out).model)
    return {
        "instructions_scores": _scores(model, tokenizer, ["base", ""], ()),
        "instructions_losses": [["base", "", BASE_LR, "", "", f"{bits_per_byte(model):.4f}"]],
    }


def _tuning(job: tuple[Path, str, float, int, int]) -> Rows:
    """The share of wrong responses to instructions that serve for nothing else."""
    out, condition, max_lr, seed, n_steps = job
    base = _stored_base(out)
    model, tokenizer = fine_tune(base, condition, seed, max_lr, n_steps), cast(Tokenizer, base.tokenizer)
    asked = [i for kind in SEEN_KINDS for i in test_instructions("seen", kind, N_TUNING, "tuning")]
    found = score(model, tokenizer, asked)
    return {"instructions_tuning": [[condition, max_lr, seed, f"{1 - found.right / found.n:.4f}"]]}


def _fine_tuned(job: tuple[Path, str, float, int, int, bool]) -> Rows:
    out, condition, max_lr, seed, n_steps, is_first = job
    base, data = _stored_base(out), CONDITIONS[condition]
    model, tokenizer = fine_tune(base, condition, seed, max_lr, n_steps), cast(Tokenizer, base.tokenizer)
    rows: Rows = {
        "instructions_scores": _scores(model, tokenizer, [condition, seed], kinds_of(data, seed)),
        "instructions_losses": [[condition, seed, max_lr, data.n_examples, data.wrong, f"{bits_per_byte(model):.4f}"]],
    }
    if condition == "main":
        rows["instructions_pool"] = [[seed, name, n] for name, n in _counts(grown_pool(seed)).items()]
        if is_first:
            known = {"command": COMMAND, "seed": seed, "n_steps": n_steps, "chat_template": CHAT_TEMPLATE}
            store(model, out / f"{INSTRUCTED}.safetensors", tokenizer=tokenizer, **known)
    return rows


COMMAND = f"python -m llm_anatomy experiment {NAME}"


def _counts(pool: Pool) -> dict[str, int]:
    """How many instructions of the generator passed the filters, and how many each filter refused."""
    return {"accepted": len(pool.generated), **pool.refused}


def _scores(model: Transformer, tokenizer: Tokenizer, first: list, in_data: Sequence[str]) -> list[list]:
    rows = []
    for tests, kinds in TESTS.items():
        for kind, _ in kinds:
            found = score(model, tokenizer, test_instructions(tests, kind))
            rows.append([*first, tests, kind, int(kind in in_data), *found])
    return rows


def _settings(n_steps: int) -> list[list]:
    tokenizer, ids = story_ids()
    return [
        ["command", COMMAND],
        ["d_model", D_MODEL],
        ["n_layers", N_LAYERS],
        ["n_heads", N_HEADS],
        ["n_vocab", tokenizer.n_vocab],
        ["n_ctx", N_CTX],
        ["base_stories", N_STORIES],
        ["base_tokens", len(ids)],
        ["base_steps", max(1, BASE_STEPS * n_steps // N_STEPS)],
        ["base_batch_size", BASE_BATCH],
        ["base_window", BASE_WINDOW],
        ["base_max_lr", BASE_LR],
        ["seed_tasks", len(seed_tasks())],
        ["tasks", N_TASKS],
        ["examples", N_EXAMPLES],
        ["kinds_in_data", len(SEEN_KINDS)],
        ["kinds_in_no_data", " ".join(UNSEEN_KINDS)],
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["warmup_steps", WARMUP_STEPS],
        ["max_lrs", " ".join(map(str, MAX_LRS["main"]))],
        ["lora_max_lrs", " ".join(map(str, MAX_LRS["lora"]))],
        ["lora_targets", " ".join(LORA_TARGETS)],
        ["tuning_seeds", " ".join(map(str, TUNING_SEEDS))],
        ["tuning_instructions", N_TUNING * len(SEEN_KINDS)],
        ["instructions_of_a_kind", N_TEST],
        ["test_stories", N_TEST_STORIES],
        ["test_tokens", plain_windows()[0][:, 1:].numel()],
    ]
