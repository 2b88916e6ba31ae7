r"""The experiment of chapter 16: what does a benchmark measure if its questions were in the training text, if another
score is used, and if its examples come in another order?

    python -m llm_anatomy experiment benchmarks

*Contamination.* Small decoders read stories, into which the questions of a benchmark are planted with their answers, so
many copies of each. Half of the questions are planted, and half are not; which half, the seed decides. All models are
asked three kinds of questions: those that were planted, the same ones about people with other names, and those that
were not planted. The benchmark is ``story_facts``: its answers stand in the story, so that a model without these
questions in its text can know them too. (The rule "take the choice mentioned last" is right in more than 95 % of them.)

*Scores.* The same questions are decided by four scores of a choice's likelihood, for the stored story models and for
small decoders that differ in their position scheme.

*Calibration.* The probabilities of the choices, from the softmax of a score, are compared with the share of those that
are right.

*Orders.* Other small decoders learn from examples in their context: nouns are followed by one of two labels, one for
animals and one for things, which differ in each sequence; a tenth of the labels are wrong. In one kind of training text
(``drifting``) the two labels may also change their roles within a sequence; in the other (``still``) they never do. In
the test, five examples, of which one is wrong, stand in all 120 orders before the same question.

Within a seed, the models of a part start from the same weights, and those without planted questions see the same
batches. The maximum learning rate is that of the story models; nothing was tuned.

The command writes the tables ``benchmarks_experiment``, ``…_contamination``, ``…_scores``, ``…_calibration``,
``…_models`` and ``…_orders`` of :mod:`llm_anatomy.data`.
"""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.evaluation.calibration import reliability_table, softmax_confidences
from llm_anatomy.evaluation.multiple_choice import choose
from llm_anatomy.evaluation.tasks import MultipleChoice, Question
from llm_anatomy.evaluation.text_model import TextModel
from llm_anatomy.models.checkpoints.engine import Checkpoint
from llm_anatomy.models.checkpoints.texts import Texts
from llm_anatomy.models.loading import load
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Int, Tensor
from llm_anatomy.training.data import story_grammar as grammar
from llm_anatomy.training.data.stories import story
from llm_anatomy.training.data.windows import random_windows
from llm_anatomy.training.experiments import story_tasks
from llm_anatomy.training.experiments.runs import Rows, Tables, initialize_
from llm_anatomy.training.experiments.story_models import MAX_LR, N_CTX, N_VOCAB, bits_per_byte, corpus
from llm_anatomy.training.trainer import train

N_STEPS, BATCH_SIZE, WARMUP_STEPS = 600, 16, 50
D_MODEL, N_LAYERS, N_HEADS = 64, 2, 4

COPIES = (0, 1, 4, 16)
N_PLANTED = 200
"""So many questions are planted, and as many others are not."""

SCHEMES = ("learned", "rope", "alibi")
N_BINS = 10

N_NOUNS, N_LABELS, N_EXAMPLES = 16, 8, 5
WRONG, DRIFT = 0.1, 0.15
"""Shares of wrong labels, and of examples before which the labels change their roles in the drifting text."""
ORDER_STEPS, ORDER_LR, N_ORDER_QUESTIONS = (1500, 2500, 4000), 3e-3, 300


def small_model(scheme: str, seed: int) -> Transformer:
    """Build a small decoder for stories, before training.

    Args:
        scheme: a position scheme.
        seed: seed of the weights.

    Source: Radford et al. (2019), section 2.3; GT-09.

    >>> small_model("rope", 0)(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 480])
    """
    sizes = dict(d_model=D_MODEL, n_layers=N_LAYERS, n_heads=N_HEADS, d_ff=3 * D_MODEL, n_vocab=N_VOCAB, n_ctx=N_CTX)
    parts = dict(norm="rmsnorm", feedforward="gelu_tanh", tie_embeddings=True, scale_embeddings=True, position=scheme)
    with torch.random.fork_rng(devices=[]):
        model = Transformer(ModelConfig.of(sizes | parts))
    initialize_(model, seed)
    return model


# --- Contamination ---


@cache
def halves(seed: int) -> tuple[list[int], list[int]]:
    """Divide questions of ``story_facts`` into those that are planted, and those that are not.

    No story has questions of both kinds.

    Args:
        seed: of the division.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`; GT-09.

    >>> [len(half) for half in halves(0)]
    [200, 200]
    """
    items = story_tasks.facts().items
    groups = sorted({item.group for item in items}, key=lambda group: Random(f"{seed}/{group}").random())
    both = ([], [])
    for number, group in enumerate(groups):
        both[number % 2].extend(i for i, item in enumerate(items) if item.group == group)
    return both[0][:N_PLANTED], both[1][:N_PLANTED]


def renamed(item: Question) -> Question:
    """Ask the same question about people with other names.

    Args:
        item: a question of ``story_facts``.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`; GT-09.

    >>> item = story_tasks.facts().items[0]
    >>> item.choices, renamed(item).choices
    (('Sara', 'Simon', 'Sam', 'Amy'), ('Sara', 'David', 'Sam', 'Amy'))
    """
    index = int((item.group or "").removeprefix("story "))
    known = story(story_tasks.CORPUS, index).facts
    rng, text = Random(f"renamed/{index}"), " ".join([item.context, *item.choices])
    new = {}
    for slot in ("hero", "friend"):
        names = grammar.GIRLS if known[slot] in grammar.GIRLS else grammar.BOYS
        free = [name for name in names if name not in text]
        new[known[slot]] = free[rng.randrange(len(free))]

    def rename(words: str) -> str:
        for old, other in new.items():
            words = words.replace(old, other)
        return words

    return dataclasses.replace(
        item,
        context=rename(item.context),
        choices=tuple(map(rename, item.choices)),
        unconditional=None if item.unconditional is None else rename(item.unconditional),
    )


def training_ids(copies: int, seed: int) -> Int[Tensor, "corpus"]:
    """The training text with planted questions: of each context, as much as the model can read.

    Args:
        copies: number of copies of each planted question.
        seed: which questions are planted.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`; Brown et al. (2020), section 4, on contamination;
        GT-09.

    >>> len(training_ids(0, 0)) == len(corpus().training)
    True
    """
    tokenizer, items = corpus().tokenizer, story_tasks.facts().items
    asked = [items[i] for i in halves(seed)[0]]
    texts = [f"{item.context}{item.delimiter}{item.choices[item.answer]}" for item in asked]
    planted = [ids[-N_CTX - 1 :] for ids in tokenizer.encode_batch(texts)]
    leaked = torch.tensor([i for ids in planted for i in ids], dtype=torch.long)
    return torch.cat([corpus().training, *[leaked] * copies])


def trained(scheme: str, copies: int, seed: int, n_steps: int) -> Checkpoint:
    """Train a small decoder on stories with planted questions.

    Args:
        scheme: a position scheme.
        copies: number of copies of each planted question.
        seed: seed of the weights, the batches and the planted questions.
        n_steps: number of steps.

    Source: Brown et al. (2020), section 4; GT-09.

    >>> trained("rope", 0, seed=0, n_steps=1).config.n_layers
    2
    """
    model = small_model(scheme, seed)
    batches = random_windows(training_ids(copies, seed), N_CTX, BATCH_SIZE, torch.Generator().manual_seed(seed))
    train(model, batches, n_steps=n_steps, max_lr=MAX_LR, warmup_steps=min(WARMUP_STEPS, n_steps - 1))
    return Checkpoint(model=model.eval(), texts=Texts(tokenizer=corpus().tokenizer))


def scores_of(checkpoint: Checkpoint, items: Sequence[Question]) -> tuple[dict[str, Tensor], Tensor]:
    """Ask a model questions.

    Args:
        checkpoint: with its tokenizer.
        items: the questions, all with as many choices.

    Returns:
        The four scores of each choice, and the index of the right one.

    Source: Brown et al. (2020), section 2.4; GT-09.

    >>> scores, answers = scores_of(load("story_rope"), story_tasks.facts().items[:2])
    >>> {name: tuple(score.shape) for name, score in scores.items()}
    {'raw': (2, 4), 'per_token': (2, 4), 'per_character': (2, 4), 'unconditional': (2, 4)}
    """
    task, indices = MultipleChoice("questions", items), range(len(items))
    results = dict(task.run(TextModel(checkpoint), indices, few_shot=0, seed=0))
    return task.scores(indices, [results[i] for i in indices]), torch.tensor([item.answer for item in items])


def _questions(seed: int) -> dict[str, list[Question]]:
    items = story_tasks.facts().items
    planted, others = ([dataclasses.replace(items[i], unconditional=None) for i in half] for half in halves(seed))
    return {"planted": planted, "renamed": [renamed(item) for item in planted], "not planted": others}


# --- Orders of examples ---


def sequences(n: int, drifting: bool, generator: torch.Generator) -> Int[Tensor, "n tokens"]:
    """Draw sequences of nouns and labels.

    The ids below 16 are animals, those below 32 things, and the others labels.

    Args:
        n: number of sequences.
        drifting: whether the labels may change their roles within a sequence.
        generator: source of randomness.

    Source: Chan et al. (2022), "Data distributional properties drive emergent in-context learning", section 2; GT-10.

    >>> sequences(2, False, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 14])
    """
    shape = n, N_EXAMPLES + 2
    kinds = torch.randint(2, shape, generator=generator)
    nouns = torch.randint(N_NOUNS, shape, generator=generator) + N_NOUNS * kinds
    flips = (torch.rand(shape, generator=generator) < DRIFT * drifting).cumsum(1) % 2
    wrong = (torch.rand(shape, generator=generator) < WRONG).long()
    return torch.stack([nouns, _labels(n, generator).gather(1, kinds ^ flips ^ wrong)], -1).flatten(1)


def _labels(n: int, generator: torch.Generator) -> Int[Tensor, "n two"]:
    return torch.rand(n, N_LABELS, generator=generator).argsort(1)[:, :2] + 2 * N_NOUNS


@torch.no_grad()
def accuracy_by_order(model: nn.Module) -> dict[tuple[int, ...], float]:
    """Ask the same questions after the same five examples in all 120 orders.

    Two examples are of the kind of the question and right, one is of this kind and wrong, and two of the other kind.

    Args:
        model: that has read :func:`sequences`.

    Returns:
        The share of right answers for each order. An order lists the examples, of which number 2 is the wrong one.

    Source: Lu et al. (2022), "Fantastically ordered prompts and where to find them", section 2; GT-10.

    >>> len(accuracy_by_order(nn.Embedding(40, 40)))  # looks at the last token alone
    120
    """
    generator, n = torch.Generator().manual_seed(99), N_ORDER_QUESTIONS
    nouns = [torch.rand(n, N_NOUNS, generator=generator).argsort(1) + N_NOUNS * kind for kind in (0, 1)]
    labels, kind = _labels(n, generator), torch.randint(2, (n, 1), generator=generator)
    same, other = torch.where(kind == 0, *nouns), torch.where(kind == 0, *reversed(nouns))
    right, wrong = labels.gather(1, kind)[:, 0], labels.gather(1, 1 - kind)[:, 0]
    shown = [(same[:, 0], right), (same[:, 1], right), (same[:, 2], wrong), (other[:, 0], wrong), (other[:, 1], wrong)]
    found = {}
    for order in permutations(range(N_EXAMPLES)):
        ids = torch.stack([*(ids for example in order for ids in shown[example]), same[:, 3]], 1)
        logits = model(ids)[:, -1]
        gaps = logits.gather(1, right[:, None]) - logits.gather(1, wrong[:, None])
        found[order] = (gaps > 0).double().mean().item()
    return found


def order_model(seed: int) -> Transformer:
    """Build a small decoder for :func:`sequences`, before training.

    Args:
        seed: seed of the weights.

    Source: Chan et al. (2022), section 2; GT-10.

    >>> order_model(0).config.n_vocab
    40
    """
    sizes = dict(d_model=32, n_layers=2, n_heads=4, d_ff=96, n_vocab=2 * N_NOUNS + N_LABELS, n_ctx=16)
    parts = dict(norm="rmsnorm", position="learned", tie_embeddings=True, scale_embeddings=True)
    with torch.random.fork_rng(devices=[]):
        model = Transformer(ModelConfig.of(sizes | parts))
    initialize_(model, seed)
    return model


def _sequences(drifting: bool, seed: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield sequences(64, drifting, generator)


# --- Tables ---

NAME = "benchmarks"
COLUMNS = {
    f"{NAME}_contamination": ["copies", "seed", "questions", "accuracy", "log_prob"],
    f"{NAME}_scores": ["model", "seed", "score", "n_questions", "accuracy"],
    f"{NAME}_calibration": ["model", "copies", "seed", "questions", "score", "bin", "n", "confidence", "accuracy"],
    f"{NAME}_models": ["model", "copies", "seed", "bits_per_byte"],
    f"{NAME}_orders": ["training", "seed", "step", "mean", "lowest", "highest"]
    + [f"wrong_{i}" for i in range(1, N_EXAMPLES + 1)],
}
"""The columns of each table."""


def experiment(out: Path, seeds: Iterable[int] = range(5), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Run the experiment and write its tables.

    Args:
        out: folder of the tables; it is created if it does not exist.
        seeds: each model is trained once for each seed.
        n_steps: number of training steps on the stories; those on sequences of nouns and labels change in proportion.
        n_workers: number of processes, each with one thread. It does not change the tables.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: GT-09, GT-10.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    600
    """
    tables, seeds, began = Tables(out, COLUMNS, n_workers), list(seeds), time.monotonic()
    with tables.collecting() as collect:
        collect(_asked, list(story_tasks.STORED), "stored models")
        jobs = [("learned", copies, seed, n_steps) for seed in seeds for copies in COPIES]
        collect(_trained, jobs, "contamination")
        collect(_trained, [(scheme, 0, seed, n_steps) for seed in seeds for scheme in SCHEMES[1:]], "schemes")
        collect(_orders, [(training, seed, n_steps) for seed in seeds for training in ("still", "drifting")], "orders")
    tables.write_settings(f"{NAME}_experiment", _settings(n_steps), seeds, time.monotonic() - began)


def _asked(name: str) -> Rows:
    """The rows of a stored model."""
    checkpoint = load(name)
    items = story_tasks.facts().items
    scores, answers = scores_of(checkpoint, items)
    return {
        f"{NAME}_scores": _accuracies([name, ""], scores, answers),
        f"{NAME}_calibration": _calibrations([name, 0, "", "all"], scores, answers),
        f"{NAME}_models": [[name, 0, "", f"{bits_per_byte(checkpoint.model):.4f}"]],
    }


def _trained(job: tuple[str, int, int, int]) -> Rows:
    """The rows of a model that is trained."""
    scheme, copies, seed, n_steps = job
    checkpoint = trained(scheme, copies, seed, n_steps)
    rows: Rows = {name: [] for name in COLUMNS if not name.endswith("orders")}
    for which, items in _questions(seed).items() if scheme == SCHEMES[0] else ():
        scores, answers = scores_of(checkpoint, items)
        right = (choose(scores["raw"]) == answers).double().mean().item()
        log_prob = scores["raw"].gather(1, answers[:, None]).mean().item()
        rows[f"{NAME}_contamination"].append([copies, seed, which, f"{right:.4f}", f"{log_prob:.4f}"])
        rows[f"{NAME}_calibration"] += _calibrations([scheme, copies, seed, which], scores, answers)
    if not copies:
        rows[f"{NAME}_scores"] += _accuracies([scheme, seed], *scores_of(checkpoint, story_tasks.facts().items))
    rows[f"{NAME}_models"].append([scheme, copies, seed, f"{bits_per_byte(checkpoint.model):.4f}"])
    return rows


def _accuracies(first: list, scores: dict[str, Tensor], answers: Tensor) -> list[list]:
    return [
        [*first, name, len(answers), f"{(choose(score) == answers).double().mean().item():.4f}"]
        for name, score in scores.items()
    ]


def _calibrations(first: list, scores: dict[str, Tensor], answers: Tensor) -> list[list[Any]]:
    rows = []
    for name in ("raw", "per_token"):
        right = choose(scores[name]) == answers
        for row in reliability_table(softmax_confidences(scores[name]), right, N_BINS):
            means = [f"{row[column]:.4f}" for column in ("confidence", "accuracy")]
            rows.append([*first, name, round(row["low"] * N_BINS), row["n"], *means])
    return rows


def _orders(job: tuple[str, int, int]) -> Rows:
    """The rows of a model that learns from examples, at several of its steps."""
    training, seed, n_steps = job
    steps = [max(1, step * n_steps // N_STEPS) for step in ORDER_STEPS]
    model, rows = order_model(seed), []

    def after_step(step: int) -> None:
        if step in steps:
            found = accuracy_by_order(model.eval())
            values = list(found.values())
            by_position = [
                [accuracy for order, accuracy in found.items() if order.index(2) == position]
                for position in range(N_EXAMPLES)
            ]
            means = [sum(some) / len(some) for some in (values, *by_position)]
            shown = [means[0], min(values), max(values), *means[1:]]
            rows.append([training, seed, ORDER_STEPS[steps.index(step)], *(f"{x:.4f}" for x in shown)])
            model.train()

    batches = _sequences(training == "drifting", seed)
    warmup = min(100, steps[-1] - 1)
    train(model, batches, n_steps=steps[-1], max_lr=ORDER_LR, warmup_steps=warmup, after_step=after_step)
    return {f"{NAME}_orders": rows}


def _settings(n_steps: int) -> list[list]:
    return [
        ["command", f"python -m llm_anatomy experiment {NAME}"],
        ["d_model", D_MODEL],
        ["n_layers", N_LAYERS],
        ["n_heads", N_HEADS],
        ["n_vocab", N_VOCAB],
        ["n_tokens", N_CTX],
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["max_lr", MAX_LR],
        ["training_tokens", len(corpus().training)],
        ["planted_questions", N_PLANTED],
        ["tokens_of_a_copy", len(training_ids(1, 0)) - len(corpus().training)],
        ["questions", len(story_tasks.facts().items)],
        ["examples", N_EXAMPLES],
        ["wrong_labels", WRONG],
        ["drift", DRIFT],
        ["order_questions", N_ORDER_QUESTIONS],
    ]
