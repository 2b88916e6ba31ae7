"""The position experiment: one small decoder for each scheme and seed, trained at one length, tested beyond it.

    python -m llm_anatomy experiment positions

Everything but the scheme is the same: model, corpus, order of the batches. What comes out are the tables
``position_losses``, ``position_curves``, ``position_heads``, ``learned_positions``, ``t5_biases`` and
``position_experiment`` of :mod:`llm_anatomy.data`.
"""

import csv
import dataclasses
import platform
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import regex
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn
from tqdm import tqdm

from llm_anatomy.config import ModelConfig, RopeConfig, RopeScaling
from llm_anatomy.evaluation.perplexity import next_token_loss
from llm_anatomy.layers.attention import MultiHeadAttention
from llm_anatomy.layers.linear_attention import EluPlusOne, causal_linear_attention
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Int, Tensor
from llm_anatomy.training.data.stories import story_text
from llm_anatomy.training.data.windows import random_windows, windows_that_end_at
from llm_anatomy.training.trainer import train

N_TRAINED = 64
LENGTHS = (64, 128, 256, 512)
N_STEPS, BATCH, PEAK_RATE, N_WARMUP = 1000, 16, 5e-3, 50
N_TRAINING_CHARACTERS, N_HELD_OUT_CHARACTERS = 4_000_000, 400_000
N_WINDOWS = 256

SCHEMES = {
    "none": {},
    "sinusoidal": {"position": "sinusoidal"},
    "learned": {"position": "learned", "n_ctx": N_TRAINED},
    "shaw": {"position": "shaw", "clipping.max_distance": 16},
    "transformer_xl": {"position": "transformer_xl"},
    # T5's last bucket is seen in training, as it was for T5
    "t5": {"position": "t5", "buckets.n_buckets": 16, "buckets.max_distance": 32},
    "alibi": {"position": "alibi"},
    "rope": {"position": "rope"},
    "linear": {},
    "linear_rope": {"position": "rope"},
}
"""What the config of each says of positions. The last two read with linear attention in place of the softmax."""

SCALINGS = {
    "linear": lambda factor: RopeScaling(type="linear", factor=factor),
    "ntk": lambda factor: RopeScaling(type="ntk", factor=factor),
    "yarn": lambda factor: RopeScaling(type="yarn", factor=factor, original_max_position_embeddings=N_TRAINED),
}
"""How RoPE is scaled at the test, for texts ``factor`` times as long as those of the training."""


class LinearSelfAttention(MultiHeadAttention):
    r"""Causal linear attention behind the face of multi-head attention, so that it fits into a block.

    .. math:: o_m = \frac{\sum_{n \leq m} \left(R_m \phi(q_m)\right)^\top \left(R_n \phi(k_n)\right) v_n}
        {\sum_{n \leq m} \phi(q_m)^\top \phi(k_n)}

    Args:
        d_model, n_heads, position: as in :class:`~llm_anatomy.layers.attention.MultiHeadAttention`.

    Source: Katharopoulos et al. (2020); Su et al. (2021), section 3.3; IITD-31, GT-52.

    >>> LinearSelfAttention(12, 3)(torch.randn(2, 5, 12)).shape
    torch.Size([2, 5, 12])
    """

    def __init__(self, d_model: int, n_heads: int, position: PositionScheme | None = None):
        super().__init__(d_model, n_heads, position=None)
        self.turned_by, self.feature_map = position, EluPlusOne()

    def forward(self, x: Float[Tensor, "batch tokens d_model"], **asked) -> Float[Tensor, "batch tokens d_model"]:
        query, key, value = (
            rearrange(linear(x), "batch tokens (heads d) -> batch heads tokens d", heads=self.n_heads)
            for linear in (self.w_query, self.w_key, self.w_value)
        )
        output, _ = causal_linear_attention(query, key, value, self.feature_map, position=self.turned_by)
        return self.w_output(rearrange(output, "batch heads tokens d -> batch tokens (heads d)"))


@cache
def corpus() -> tuple[list[str], Int[Tensor, "training"], Int[Tensor, "held_out"]]:
    """The words of the stories, and two texts as ids: one to train on, one that is held out.

    A word is a run of letters and digits or a single sign; the empty line between stories is one too. The most frequent
    word is number 0.

    Source: the package's own stories, seeds 0 and 1; IITD-17.

    >>> words, training, held_out = corpus()
    >>> len(words) < 1000 and len(training) > 900_000 and int(held_out.max()) < len(words)
    True
    """
    training, held_out = (
        regex.findall(r"\w+|\n\n|[^\w\s]", story_text(n, seed))
        for seed, n in enumerate((N_TRAINING_CHARACTERS, N_HELD_OUT_CHARACTERS))
    )
    words = [word for word, _ in Counter(training).most_common()]
    number = {word: i for i, word in enumerate(words)}
    return words, *(torch.tensor([number[word] for word in text]) for text in (training, held_out))


def small_config(scheme: str, n_vocab: int, **changes) -> ModelConfig:
    """The small decoder with that scheme.

    Args:
        scheme: one of ``SCHEMES``.
        n_vocab: how many words.
        changes: to other fields.

    Raises:
        ValueError: for another scheme, or a change that the config refuses.

    Source: IITD-17, CMU-33.

    >>> small_config("alibi", n_vocab=9).position
    'alibi'
    """
    if scheme not in SCHEMES:
        raise ValueError(f"{scheme=} must be one of {', '.join(SCHEMES)}")
    sizes = dict(d_model=64, n_layers=2, n_heads=4, d_ff=256, n_vocab=n_vocab)
    parts = dict(norm="rmsnorm", feedforward="gelu", tie_embeddings=True, scale_embeddings=True)
    return ModelConfig.of(sizes | parts | SCHEMES[scheme] | changes)


def small_model(scheme: str, seed: int = 0, **changes) -> Transformer:
    r"""The small decoder, before training. Whatever does not concern the scheme starts from the same numbers.

    Tables start from :math:`N(0, 1/d_\mathrm{model})` and are scaled by :math:`\sqrt{d_\mathrm{model}}`, so that a
    word and a sinusoid are of one size; matrices from :math:`N(0, 1/d_\mathrm{in})`.

    Args:
        scheme: one of ``SCHEMES``.
        seed: of the weights.
        changes: to fields of the config, such as ``n_layers=1``.

    Raises:
        ValueError: as ``small_config``.

    Source: Vaswani et al. (2017), section 3.4; IITD-17, CMU-33.

    >>> small_model("rope")(torch.tensor([[1, 2, 3]])).shape[:2]
    torch.Size([1, 3])
    """
    words, _, _ = corpus()
    config = small_config(scheme, len(words), **changes)
    with torch.random.fork_rng(devices=[]):
        model = Transformer(config)
    if scheme.startswith("linear"):
        for block in model.stack.blocks:
            position = block.attention.position if config.position == "rope" else None
            block.attention = LinearSelfAttention(config.d_model, config.n_heads, position)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in sorted(model.named_parameters(), key=lambda named: "position" in named[0]):  # theirs come last
        if weight.ndim == 2:
            table = name.endswith(("embedding.weight", "table"))
            nn.init.normal_(weight, std=config.d_model**-0.5 if table else weight.shape[1] ** -0.5, generator=generator)
    return model


def run(scheme: str, seed: int, n_steps: int = N_STEPS) -> tuple[Transformer, list[tuple[int, float]]]:
    """Train one model.

    Args:
        scheme: one of ``SCHEMES``.
        seed: of weights and batches.
        n_steps: how many steps.

    Returns:
        The model, and its held-out loss at some of the steps.

    Source: IITD-17, CMU-33.

    >>> model, curve = run("none", seed=0, n_steps=1)
    >>> [step for step, _ in curve]
    [1]
    """
    _, training, held_out = corpus()
    model = small_model(scheme, seed)
    windows, curve = _test_windows(held_out, N_TRAINED), []

    def watch(step: int) -> None:
        if step % (n_steps // 20 or 1) == 0:
            curve.append((step, next_token_loss(model, windows)))

    batches = random_windows(training, N_TRAINED, BATCH, torch.Generator().manual_seed(seed))
    train(model, batches, n_steps=n_steps, peak_rate=PEAK_RATE, n_warmup=min(N_WARMUP, n_steps - 1), after_step=watch)
    return model, curve


def _test_windows(held_out: Tensor, n_tokens: int) -> Tensor:
    """The same last words at every length."""
    step = (len(held_out) - max(LENGTHS) - 1) // N_WINDOWS
    return windows_that_end_at(held_out, [max(LENGTHS) + i * step for i in range(N_WINDOWS)], n_tokens)


def losses_by_length(model: Transformer, scheme: str) -> Iterator[tuple[str, int, float]]:
    """Scaling, length and loss on the last 64 words, for all lengths that the model reads.

    Args:
        model: trained.
        scheme: its own.

    Source: Press et al. (2022), section 2; IITD-17, GT-52.

    >>> [length for _, length, _ in losses_by_length(small_model("learned"), "learned")]
    [64]
    """
    _, _, held_out = corpus()
    for n_tokens in LENGTHS:
        if model.config.n_ctx is not None and n_tokens > model.config.n_ctx:
            continue
        windows = _test_windows(held_out, n_tokens)
        yield "", n_tokens, next_token_loss(model, windows, last=N_TRAINED)
        if scheme == "rope" and n_tokens > N_TRAINED:
            for name, scaling in SCALINGS.items():
                rope = RopeConfig(scaling=scaling(n_tokens / N_TRAINED))
                scaled = Transformer(dataclasses.replace(model.config, rope=rope))
                scaled.load_state_dict(model.state_dict())
                yield name, n_tokens, next_token_loss(scaled, windows, last=N_TRAINED)


@torch.no_grad()
def mean_weights(model: Transformer, n_distances: int = 32) -> Float[Tensor, "layers heads distances"]:
    """How much each head looks at the word so many positions back, averaged over the held-out text.

    Args:
        model: trained, with softmax attention.
        n_distances: how far; only queries that have so many words before them count.

    Source: CMU-24.

    >>> mean_weights(small_model("rope"), n_distances=3).shape
    torch.Size([2, 4, 3])
    """
    _, _, held_out = corpus()
    _, records = model(_test_windows(held_out, N_TRAINED)[:, :-1], return_records=True)
    weights = torch.stack([record.weights for record in records])  # (layers, batch, heads, queries, keys)
    back = [weights.diagonal(-d, -2, -1)[..., n_distances - 1 - d :] for d in range(n_distances)]
    return torch.stack([w.mean((1, 3)) for w in back], -1)


def experiment(out: Path, seeds: Iterable[int] = range(5), n_steps: int = N_STEPS) -> None:
    """Run it all and write the tables.

    Args:
        out: the folder for the tables; made if it is missing.
        seeds: one model for each scheme and each of these.
        n_steps: of each training.

    Source: IITD-17, IITD-31, CMU-24, CMU-33.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    1000
    """
    torch.set_num_threads(1)  # sums in one order, so that the digits come out again
    out.mkdir(parents=True, exist_ok=True)
    seeds, began = list(seeds), time.monotonic()
    losses, curves, heads = [], [], []
    for seed, scheme in tqdm([(seed, scheme) for seed in seeds for scheme in SCHEMES], desc="models", disable=None):
        model, curve = run(scheme, seed, n_steps)
        curves += [[scheme, seed, step, f"{loss:.4f}"] for step, loss in curve]
        losses += [[scheme, scaling, seed, n, f"{loss:.4f}"] for scaling, n, loss in losses_by_length(model, scheme)]
        _write(out / "position_curves.csv", ["scheme", "seed", "step", "loss"], curves)
        _write(out / "position_losses.csv", ["scheme", "scaling", "seed", "n_tokens", "loss"], losses)
        if seed == seeds[0] and not scheme.startswith("linear"):
            heads += _rows([scheme], mean_weights(model))
            _write(out / "position_heads.csv", ["scheme", "layer", "head", "distance", "weight"], heads)
        if seed == seeds[0] and scheme == "learned":
            table = F.normalize(model.position.table.detach(), dim=-1)
            rows = [[i, *(f"{x:.2f}" for x in row)] for i, row in enumerate((table @ table.T).tolist())]
            _write(out / "learned_positions.csv", ["position", *range(len(table))], rows)
        if seed == seeds[0] and scheme == "t5":
            positions = torch.arange(N_TRAINED)[None]
            any_heads = torch.zeros(1, model.config.n_heads, N_TRAINED, 1)
            bias = model.stack.blocks[0].attention.position.bias(any_heads, any_heads, positions, positions)[0]
            _write(out / "t5_biases.csv", ["head", "distance", "bias"], _rows([], bias[:, -1].flip(-1).detach()))
    _write(out / "position_experiment.csv", ["field", "value"], _settings(seeds, n_steps, time.monotonic() - began))


def _rows(first: list, values: Tensor) -> list[list]:
    """One row for each entry: what comes first, its indices, and the entry."""
    return [[*first, *index.tolist(), f"{values[tuple(index)]:.4f}"] for index in torch.ones_like(values).nonzero()]


def _settings(seeds: list[int], n_steps: int, seconds: float) -> list[list]:
    words, training, held_out = corpus()
    config = dataclasses.asdict(small_config("none", len(words)))
    shown = ("d_model", "n_layers", "n_heads", "d_ff", "n_vocab", "norm", "feedforward", "tie_embeddings")
    return [
        ["command", "python -m llm_anatomy experiment positions"],
        *([field, config[field]] for field in shown),
        ["n_tokens", N_TRAINED],
        ["n_steps", n_steps],
        ["batch", BATCH],
        ["peak_rate", PEAK_RATE],
        ["training_words", len(training)],
        ["held_out_words", len(held_out)],
        ["held_out_windows", N_WINDOWS],
        ["seeds", " ".join(map(str, seeds))],
        ["torch", torch.__version__.partition("+")[0]],
        ["python", platform.python_version()],
        ["minutes", round(seconds / 60)],
    ]


def _write(path: Path, head: list, rows: list[list]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([head, *rows])
