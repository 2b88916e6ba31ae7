"""The position experiment: a small decoder for each position scheme and seed, trained at one length, tested beyond it.

    python -m llm_anatomy experiment positions

Everything but the scheme is the same: the model, the corpus and the order of the batches. The command writes the tables
``position_losses``, ``position_curves``, ``position_heads``, ``learned_positions``, ``t5_biases`` and
``position_experiment`` of :mod:`llm_anatomy.data`.
"""

import csv
import dataclasses
import io
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
from llm_anatomy.files import write_atomically
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.linear_attention import EluPlusOne, causal_linear_attention
from llm_anatomy.layers.positions.base import PositionContext, PositionScheme
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Int, Tensor
from llm_anatomy.training.data.stories import story_text
from llm_anatomy.training.data.windows import random_windows, windows_ending_at
from llm_anatomy.training.trainer import train

N_TRAINED = 64
LENGTHS = (64, 128, 256, 512)
N_STEPS, BATCH_SIZE, MAX_LR, WARMUP_STEPS = 1000, 16, 5e-3, 50
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
"""The fields of the config that concern positions. The last two schemes have linear attention in place of softmax."""

SCALINGS = {
    "linear": lambda factor: RopeScaling(type="linear", factor=factor),
    "ntk": lambda factor: RopeScaling(type="ntk", factor=factor),
    "yarn": lambda factor: RopeScaling(type="yarn", factor=factor, original_max_position_embeddings=N_TRAINED),
}
"""The scalings of RoPE in the test, for texts that are ``factor`` times as long as in training."""


class LinearSelfAttention(SelfAttention):
    r"""Causal linear attention with the interface of self-attention, so that it fits into a block.

    .. math:: o_m = \frac{\sum_{n \leq m} \left(R_m \phi(q_m)\right)^\top \left(R_n \phi(k_n)\right) v_n}
        {\sum_{n \leq m} \phi(q_m)^\top \phi(k_n)}

    Args:
        d_model, n_heads, position: as in :class:`~llm_anatomy.layers.attention.SelfAttention`.

    Source: Katharopoulos et al. (2020); Su et al. (2021), section 3.3; IITD-31, GT-52.

    >>> LinearSelfAttention(12, 3)(torch.randn(2, 5, 12)).shape
    torch.Size([2, 5, 12])
    """

    def __init__(self, d_model: int, n_heads: int, position: PositionScheme | None = None):
        super().__init__(d_model, n_heads, position=None)
        self.rotation, self.feature_map = position, EluPlusOne()

    def forward(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens d_model"]:
        """Attend from every token to those before it and to itself."""
        return self.attend(x)[0]

    def attend(self, x: Float[Tensor, "batch tokens d_model"], *_, **__) -> tuple[Tensor, None]:
        """Compute the output as a block asks for it; there are no weights, and the mask is always causal."""
        query, key, value = (
            rearrange(linear(x), "batch tokens (heads d) -> batch heads tokens d", heads=self.n_heads)
            for linear in (self.w_query, self.w_key, self.w_value)
        )
        output, _ = causal_linear_attention(query, key, value, self.feature_map, position=self.rotation)
        return self.w_output(rearrange(output, "batch heads tokens d -> batch tokens (heads d)")), None


@cache
def corpus() -> tuple[list[str], Int[Tensor, "training"], Int[Tensor, "held_out"]]:
    """Load the corpus of the experiment: the vocabulary, the training ids and the held-out ids.

    A token is a run of letters and digits, a single sign, or the empty line between two stories. The ids follow the
    frequency in the training text: id 0 is the most frequent token.

    Source: the package's own stories, seeds 0 and 1; IITD-17.

    >>> vocabulary, training, held_out = corpus()
    >>> len(vocabulary) < 1000 and len(training) > 900_000 and int(held_out.max()) < len(vocabulary)
    True
    """
    training, held_out = (
        regex.findall(r"\w+|\n\n|[^\w\s]", story_text(n, seed))
        for seed, n in enumerate((N_TRAINING_CHARACTERS, N_HELD_OUT_CHARACTERS))
    )
    vocabulary = [token for token, _ in Counter[str](training).most_common()]
    id_of = {token: i for i, token in enumerate(vocabulary)}
    training_ids, held_out_ids = (torch.tensor([id_of[token] for token in text]) for text in (training, held_out))
    return vocabulary, training_ids, held_out_ids


def small_config(scheme: str, n_vocab: int, **changes) -> ModelConfig:
    """Config of the small decoder with a position scheme.

    Args:
        scheme: one of ``SCHEMES``.
        n_vocab: size of the vocabulary.
        changes: values of further fields of the config.

    Raises:
        ValueError: if the scheme is not one of these, or the config does not allow a value.

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
    r"""Build the small decoder, before training. All weights but those of the scheme are the same for each scheme.

    Embedding tables start from :math:`N(0, 1/d_\mathrm{model})` and are scaled by :math:`\sqrt{d_\mathrm{model}}`, so
    that the embedding of a token and a sinusoid have the same size. Matrices start from :math:`N(0, 1/d_\mathrm{in})`.

    Args:
        scheme: one of ``SCHEMES``.
        seed: seed of the weights.
        changes: values of fields of the config, such as ``n_layers=1``.

    Raises:
        ValueError: as in :func:`small_config`.

    Source: Vaswani et al. (2017), section 3.4; IITD-17, CMU-33.

    >>> small_model("rope")(torch.tensor([[1, 2, 3]])).shape[:2]
    torch.Size([1, 3])
    """
    vocabulary, _, _ = corpus()
    config = small_config(scheme, len(vocabulary), **changes)
    with torch.random.fork_rng(devices=[]):
        model = Transformer(config)
    if scheme.startswith("linear"):
        for block in model.stack.blocks:
            scheme_of_block = _attention(block).position if config.position == "rope" else None
            block.attention = LinearSelfAttention(config.d_model, config.n_heads, scheme_of_block)
    generator = torch.Generator().manual_seed(seed)
    # the parameters of the scheme come last, so that all others start from the same numbers
    for name, weight in sorted(model.named_parameters(), key=lambda named: "position" in named[0]):
        if weight.ndim == 2:
            table = name.endswith(("embedding.weight", "table"))
            nn.init.normal_(weight, std=config.d_model**-0.5 if table else weight.shape[1] ** -0.5, generator=generator)
    return model


def _attention(block: nn.Module) -> SelfAttention:
    assert isinstance(block.attention, SelfAttention)
    return block.attention


def run(scheme: str, seed: int, n_steps: int = N_STEPS) -> tuple[Transformer, list[tuple[int, float]]]:
    """Train one model of the experiment.

    Args:
        scheme: one of ``SCHEMES``.
        seed: seed of the weights and the batches.
        n_steps: number of training steps.

    Returns:
        The model, and its learning curve: about 20 pairs (step, held-out loss).

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

    batches = random_windows(training, N_TRAINED, BATCH_SIZE, torch.Generator().manual_seed(seed))
    train(model, batches, n_steps=n_steps, max_lr=MAX_LR, warmup_steps=min(WARMUP_STEPS, n_steps - 1), after_step=watch)
    return model, curve


def _test_windows(held_out: Tensor, n_tokens: int) -> Tensor:
    """Windows of the held-out text. Their last tokens are the same at every length."""
    step = (len(held_out) - max(LENGTHS) - 1) // N_WINDOWS
    return windows_ending_at(held_out, [max(LENGTHS) + i * step for i in range(N_WINDOWS)], n_tokens)


def losses_by_length(model: Transformer, scheme: str) -> Iterator[tuple[str, int, float]]:
    """Measure the loss on the last 64 tokens of the held-out windows, at each length that the model can read.

    Args:
        model: the trained model.
        scheme: its position scheme.

    Yields:
        The scaling of RoPE ("" for none), the length, and the loss.

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
def mean_attention_weights(model: Transformer, n_distances: int = 32) -> Float[Tensor, "layers heads distances"]:
    """Mean attention weight of each head against distance, averaged over the held-out text.

    Args:
        model: a trained model with softmax attention.
        n_distances: number of distances, from 0. Only queries with all of them are included in the mean.

    Source: CMU-24.

    >>> mean_attention_weights(small_model("rope"), n_distances=3).shape
    torch.Size([2, 4, 3])
    """
    _, _, held_out = corpus()
    _, records = model(_test_windows(held_out, N_TRAINED)[:, :-1], return_records=True)
    weights = torch.stack([record.attention_weights for record in records])  # (layers, batch, heads, queries, keys)
    back = [weights.diagonal(-d, -2, -1)[..., n_distances - 1 - d :] for d in range(n_distances)]
    return torch.stack([w.mean((1, 3)) for w in back], -1)


def experiment(out: Path, seeds: Iterable[int] = range(5), n_steps: int = N_STEPS) -> None:
    """Run the experiment and write its tables.

    Args:
        out: folder of the tables; it is created if it does not exist.
        seeds: one model is trained for each scheme and seed.
        n_steps: number of training steps of each model.

    Source: IITD-17, IITD-31, CMU-24, CMU-33.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    1000
    """
    torch.set_num_threads(1)  # one order of summation, so that a run can be repeated exactly
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
            heads += _rows([scheme], mean_attention_weights(model))
            _write(out / "position_heads.csv", ["scheme", "layer", "head", "distance", "weight"], heads)
        if seed == seeds[0] and scheme == "learned":
            table = F.normalize(model.position.get_parameter("table").detach(), dim=-1)
            rows = [[i, *(f"{x:.2f}" for x in row)] for i, row in enumerate((table @ table.T).tolist())]
            _write(out / "learned_positions.csv", ["position", *range(len(table))], rows)
        if seed == seeds[0] and scheme == "t5":
            context = PositionContext(torch.arange(N_TRAINED)[None])
            any_heads = torch.zeros(1, model.config.n_heads, N_TRAINED, 1)
            bias = _attention(model.stack.blocks[0]).position.bias(any_heads, any_heads, context)
            assert bias is not None
            _write(out / "t5_biases.csv", ["head", "distance", "bias"], _rows([], bias[0, :, -1].flip(-1).detach()))
    _write(out / "position_experiment.csv", ["field", "value"], _settings(seeds, n_steps, time.monotonic() - began))


def _rows(first: list, values: Tensor) -> list[list]:
    """One row for each entry: the first columns, the indices of the entry, and its value."""
    return [[*first, *index.tolist(), f"{values[tuple(index)]:.4f}"] for index in torch.ones_like(values).nonzero()]


def _settings(seeds: list[int], n_steps: int, seconds: float) -> list[list]:
    vocabulary, training, held_out = corpus()
    config = dataclasses.asdict(small_config("none", len(vocabulary)))
    shown = ("d_model", "n_layers", "n_heads", "d_ff", "n_vocab", "norm", "feedforward", "tie_embeddings")
    return [
        ["command", "python -m llm_anatomy experiment positions"],
        *([field, config[field]] for field in shown),
        ["n_tokens", N_TRAINED],
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["max_lr", MAX_LR],
        ["training_tokens", len(training)],
        ["held_out_tokens", len(held_out)],
        ["held_out_windows", N_WINDOWS],
        ["seeds", " ".join(map(str, seeds))],
        ["torch", torch.__version__.partition("+")[0]],
        ["python", platform.python_version()],
        ["minutes", round(seconds / 60)],
    ]


def _write(path: Path, head: list, rows: list[list]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows([head, *rows])
    write_atomically(path, file.getvalue())
