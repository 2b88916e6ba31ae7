"""The story models: two small decoders that write stories, and that differ in nothing but the position scheme.

    python -m llm_anatomy experiment story_models

They have the same tokenizer, byte pair encoding that is trained on the stories, the same sizes, and for each seed the
same first weights and the same batches. The learning rate is the one that was best for both schemes in the position
experiment; nothing else was tuned. The command writes the tables ``story_models``, ``story_models_curve`` and
``story_models_losses`` of :mod:`llm_anatomy.data`, and beside them it stores the models of the first seed:
``story_learned`` and ``story_rope``.

On another processor, or with another version of PyTorch, sums are rounded in another order. The weights and the
checksums of the models then differ, and the losses in their last digits; the tokenizer and the checksum of the training
text do not.
"""

import dataclasses
import hashlib
import math
import tempfile
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.evaluation.perplexity import token_losses
from llm_anatomy.models.stored import store, stored
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Int, Tensor
from llm_anatomy.tokenizers.bpe import BPE
from llm_anatomy.training.data.stories import stories
from llm_anatomy.training.data.windows import random_windows
from llm_anatomy.training.experiments.runs import Rows, Tables, initialize_
from llm_anatomy.training.trainer import train

COMMAND = "python -m llm_anatomy experiment story_models"
N_CTX, N_VOCAB = 96, 480
N_STEPS, BATCH_SIZE, WARMUP_STEPS, MAX_LR = 3000, 16, 100, 2e-2
N_TRAINING_STORIES, N_HELD_OUT_STORIES = 3000, 64
STEPS_IN_A_ROW = 50
"""The curve is the mean training loss of so many steps."""

SCHEMES = {"learned": {"position": "learned"}, "rope": {"position": "rope"}}
"""The fields of the config in which the models differ."""

COLUMNS = {
    "story_models_curve": ["scheme", "seed", "step", "loss"],
    "story_models_losses": ["scheme", "seed", "bits_per_byte", "bits_per_byte_stored"],
}
"""The columns of each table."""


class Corpus(NamedTuple):
    """What the story models read.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`, seeds 0 and 1; UCL-02.

    >>> Corpus("", BPE.train([""], 256), torch.tensor([1, 2]), torch.tensor([[3]])).training
    tensor([1, 2])
    """

    text: str
    """The training text."""

    tokenizer: BPE
    """Byte pair encoding, trained on this text."""

    training: Int[Tensor, "training"]
    """The ids of the training text."""

    held_out: Int[Tensor, "windows window"]
    """The ids of other stories in windows, each of which begins with the last token of the one before it."""


@cache
def corpus() -> Corpus:
    """Generate the stories of the experiment, and train the tokenizer. An empty line follows each story.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`, seeds 0 and 1; UCL-02, UCL-07.

    >>> corpus().tokenizer.n_vocab, corpus().held_out.shape[1]
    (480, 97)
    """
    training, held_out = (
        [f"{text}\n\n" for text in stories(seed, n)] for seed, n in enumerate((N_TRAINING_STORIES, N_HELD_OUT_STORIES))
    )
    tokenizer = cast(BPE, BPE.train(training, N_VOCAB))
    ids, others = (
        torch.tensor([i for text in tokenizer.encode_batch(texts) for i in text]) for texts in (training, held_out)
    )
    return Corpus("".join(training), tokenizer, ids, others.unfold(0, N_CTX + 1, N_CTX))


def story_config(scheme: str) -> ModelConfig:
    """Config of a story model.

    Args:
        scheme: one of ``SCHEMES``.

    Raises:
        ValueError: if the scheme is not one of these.

    Source: UCL-27, IITD-43.

    >>> story_config("rope").n_layers
    2
    """
    if scheme not in SCHEMES:
        raise ValueError(f"{scheme=} must be one of {', '.join(SCHEMES)}")
    sizes = dict(d_model=64, n_layers=2, n_heads=4, d_ff=192, n_vocab=N_VOCAB, n_ctx=N_CTX)
    parts = dict(norm="rmsnorm", feedforward="gelu_tanh", tie_embeddings=True, scale_embeddings=True)
    return ModelConfig.of(sizes | parts | SCHEMES[scheme])


def run(scheme: str, seed: int, n_steps: int = N_STEPS) -> tuple[Transformer, list[float]]:
    """Train one story model.

    Args:
        scheme: one of ``SCHEMES``.
        seed: seed of the weights and the batches.
        n_steps: number of training steps.

    Returns:
        The model, and the training loss of each batch in nats per token.

    Source: UCL-02, UCL-27.

    >>> model, losses = run("rope", seed=0, n_steps=1)
    >>> len(losses), 5 < losses[0] < 8
    (1, True)
    """
    with torch.random.fork_rng(devices=[]):
        model = Transformer(story_config(scheme))
    initialize_(model, seed)
    batches = random_windows(corpus().training, N_CTX, BATCH_SIZE, torch.Generator().manual_seed(seed))
    losses = train(model, batches, n_steps=n_steps, max_lr=MAX_LR, warmup_steps=min(WARMUP_STEPS, n_steps - 1))
    return model.eval(), losses


def bits_per_byte(model: nn.Module) -> float:
    r"""Measure the loss on the held-out stories, per byte of the text, which does not depend on the tokenizer.

    .. math:: \frac{-\sum_t \log_2 p_\theta(w_t \mid w_{<t})}{\text{number of bytes of all } w_t}

    Args:
        model: with the vocabulary of the corpus.

    Source: Gao et al. (2020), "The Pile", section 3.1; UCL-03.

    >>> 3 < bits_per_byte(Transformer(story_config("rope"))) < 6  # not trained
    True
    """
    _, tokenizer, _, held_out = corpus()
    n_bytes = sum(len(tokenizer.vocabulary[i]) for i in held_out[:, 1:].flatten().tolist())
    return token_losses(model, held_out).double().sum().item() / math.log(2) / n_bytes


def experiment(out: Path, seeds: Iterable[int] = range(3), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Train the models, write the tables, and store the models of the first seed.

    Args:
        out: folder of the tables and models; it is created if it does not exist.
        seeds: one model is trained for each scheme and seed.
        n_steps: number of training steps of each model.
        n_workers: number of processes, each with one thread. It does not change the results.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: UCL-02, UCL-27.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    3000
    """
    seeds, began = list(seeds), time.monotonic()
    tables = Tables(out, COLUMNS, n_workers)
    jobs = [(out if seed == seeds[0] else None, scheme, seed, n_steps) for seed in seeds for scheme in SCHEMES]
    with tables.collecting() as collect:
        collect(_trained, jobs, "models")
    tables.write_settings("story_models", _settings(n_steps), seeds, time.monotonic() - began)


def _trained(job: tuple[Path | None, str, int, int]) -> Rows:
    """Train one model, store it if it has a folder, and return the rows of each table."""
    folder, scheme, seed, n_steps = job
    text, tokenizer, _, _ = corpus()
    model, losses = run(scheme, seed, n_steps)
    known = {"command": COMMAND, "seed": seed, "n_steps": n_steps, "training_sha256": _sha256(text)}
    with tempfile.TemporaryDirectory() as elsewhere:  # those that are not kept are stored as well, to be measured
        path = (folder or Path(elsewhere)) / f"story_{scheme}.safetensors"
        store(model, path, tokenizer=tokenizer, **known)
        both = [bits_per_byte(model), bits_per_byte(stored(path)[0])]
    means = torch.tensor(losses).unfold(0, STEPS_IN_A_ROW, STEPS_IN_A_ROW).mean(-1).tolist()
    return {
        "story_models_curve": [[scheme, seed, n * STEPS_IN_A_ROW, f"{x:.4f}"] for n, x in enumerate(means, 1)],
        "story_models_losses": [[scheme, seed, *(f"{x:.4f}" for x in both)]],
    }


def _settings(n_steps: int) -> list[list]:
    text, tokenizer, training, held_out = corpus()
    config = dataclasses.asdict(story_config("rope"))
    shown = ("d_model", "n_layers", "n_heads", "d_ff", "n_vocab", "n_ctx", "norm", "feedforward", "tie_embeddings")
    return [
        ["command", COMMAND],
        *([field, config[field]] for field in shown),
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["max_lr", MAX_LR],
        ["training_stories", N_TRAINING_STORIES],
        ["training_tokens", len(training)],
        ["training_bytes", len(text.encode())],
        ["training_sha256", _sha256(text)],
        ["held_out_stories", N_HELD_OUT_STORIES],
        ["held_out_tokens", held_out[:, 1:].numel()],
    ]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
