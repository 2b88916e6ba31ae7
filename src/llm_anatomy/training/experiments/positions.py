"""The position experiment: a small decoder for each position scheme and seed, trained at one length, tested beyond it.

    python -m llm_anatomy experiment positions

Everything but the scheme and its learning rate is the same: the model, the corpus and the order of the batches. The
learning rate of each scheme is chosen from ``MAX_LRS`` with a seed and stories of their own. A test compares lengths on
the same tokens, each with at least 32 tokens before it, and every test window lies inside one story. The command writes
the tables ``position_tuning``, ``position_losses``, ``losses_by_position``, ``position_control``, ``position_curves``,
``position_heads``, ``learned_positions``, ``t5_biases`` and ``position_experiment`` of :mod:`llm_anatomy.data`.
"""

import dataclasses
import math
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

from llm_anatomy.config import ModelConfig, RopeConfig, RopeScaling
from llm_anatomy.evaluation.perplexity import next_token_loss, token_losses
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.linear_attention import EluPlusOne, causal_linear_attention
from llm_anatomy.layers.positions.base import PositionContext, PositionScheme
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Int, Tensor
from llm_anatomy.training.data.stories import stories
from llm_anatomy.training.data.story_grammar import PLOTS
from llm_anatomy.training.data.windows import random_windows, windows_ending_at
from llm_anatomy.training.experiments.runs import Rows, Tables, best_max_lrs, initialize_, rows_of
from llm_anatomy.training.experiments.runs import results as results
from llm_anatomy.training.trainer import train

N_TRAINED = 64
LENGTHS = (64, 128, 256, 512)
N_SCORED = 32
"""Losses of different lengths are compared on the last tokens of the windows: each has at least 32 tokens before it."""
N_STEPS, BATCH_SIZE, WARMUP_STEPS = 1000, 16, 50
MAX_LRS = (5e-3, 1e-2, 2e-2, 4e-2, 8e-2)
TUNING_SEED = 5
N_TRAINING_STORIES, N_VALIDATION_STORIES, N_TEST_STORIES = 1000, 64, 256
N_OPENING = 64
"""Test windows start at least so many tokens into a story: behind its opening, which introduces the characters."""
POSITIONS_IN_A_ROW = 16
CONTROL, N_CONTROL = "transformer_xl", 256
"""The control: a scheme that is trained on longer windows as well, to see what the text before them is worth."""

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

    def forward(
        self, x: Float[Tensor, "batch tokens d_model"], *_, return_weights: bool = False, **__
    ) -> Float[Tensor, "batch tokens d_model"] | tuple[Float[Tensor, "batch tokens d_model"], None]:
        """Attend from every token to those before it and to itself. The other arguments of a block have no effect: the
        mask is always causal, and there are no weights."""
        query, key, value = (
            rearrange(linear(x), "batch tokens (heads d) -> batch heads tokens d", heads=self.n_heads)
            for linear in (self.w_query, self.w_key, self.w_value)
        )
        output, _ = causal_linear_attention(query, key, value, self.feature_map, position=self.rotation)
        output = self.w_output(rearrange(output, "batch heads tokens d -> batch tokens (heads d)"))
        return (output, None) if return_weights else output


@cache
def corpus() -> tuple[list[str], Int[Tensor, "training"], Int[Tensor, "held_out"]]:
    """Load the corpus of the experiment: the vocabulary, the training ids and the held-out ids.

    The stories are long, about 820 tokens each. A token is a run of letters and digits, a single sign, or the empty
    line between two stories. The ids follow the frequency in the training text: id 0 is the most frequent token.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`, seeds 0 and 1; IITD-17.

    >>> vocabulary, training, held_out = corpus()
    >>> len(vocabulary) < 1000 and len(training) > 800_000 and int(held_out.max()) < len(vocabulary)
    True
    """
    sizes = N_TRAINING_STORIES, N_VALIDATION_STORIES + N_TEST_STORIES
    training, held_out = (
        regex.findall(r"\w+|\n\n|[^\w\s]", "".join(f"{text}\n\n" for text in stories(seed, n, n_plots=len(PLOTS))))
        for seed, n in enumerate(sizes)
    )
    vocabulary = [token for token, _ in Counter[str](training).most_common()]
    id_of = {token: i for i, token in enumerate(vocabulary)}
    training_ids, held_out_ids = (torch.tensor([id_of[token] for token in text]) for text in (training, held_out))
    return vocabulary, training_ids, held_out_ids


def held_out_windows(n_tokens: int, *, validation: bool = False) -> Int[Tensor, "windows window"]:
    """Cut one window from each held-out story. Windows of different lengths end with the same tokens.

    Where a window ends is drawn at random, but so that the 512 tokens before lie inside the story, behind its opening.

    Args:
        n_tokens: number of tokens in the model's input, from 1 to 512.
        validation: cut the windows from the stories that learning rates are chosen on, and not from those of the test.

    Raises:
        ValueError: if ``n_tokens`` is not from 1 to 512.

    Source: Press et al. (2022), section 2, who compare lengths on the same tokens; IITD-17.

    >>> short, long = held_out_windows(64), held_out_windows(512)
    >>> short.shape, torch.equal(short, long[:, -65:])
    (torch.Size([256, 65]), True)
    """
    if not 1 <= n_tokens <= LENGTHS[-1]:
        raise ValueError(f"{n_tokens=} must be from 1 to {LENGTHS[-1]}")
    vocabulary, _, held_out = corpus()
    after_story = (held_out == vocabulary.index("\n\n")).nonzero().flatten()
    before_story = F.pad(after_story[:-1], (1, 0), value=-1)
    earliest = before_story + 1 + N_OPENING + LENGTHS[-1]
    free = torch.rand(len(earliest), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ends = (earliest + (free * (after_story - earliest)).long()).tolist()
    chosen = ends[:N_VALIDATION_STORIES] if validation else ends[N_VALIDATION_STORIES:]
    return windows_ending_at(held_out, chosen, n_tokens)


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
    """Build the small decoder, before training. All weights but those of the scheme are the same for each scheme.

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
    initialize_(model, seed)
    return model


def _attention(block: nn.Module) -> SelfAttention:
    assert isinstance(block.attention, SelfAttention)
    return block.attention


def run(
    scheme: str, seed: int, n_steps: int = N_STEPS, max_lr: float = MAX_LRS[2], n_tokens: int = N_TRAINED
) -> tuple[Transformer, list[tuple[int, float]]]:
    """Train one model of the experiment.

    Args:
        scheme: one of ``SCHEMES``.
        seed: seed of the weights and the batches.
        n_steps: number of training steps.
        max_lr: the maximum learning rate.
        n_tokens: length of the windows, at most 1024. A batch has 1024 tokens in all.

    Returns:
        The model, and its learning curve: about 20 pairs (step, loss on the validation stories).

    Source: IITD-17, CMU-33.

    >>> model, curve = run("none", seed=0, n_steps=1)
    >>> [step for step, _ in curve]
    [1]
    """
    _, training, _ = corpus()
    model = small_model(scheme, seed)
    windows, curve = held_out_windows(N_TRAINED, validation=True), []

    def watch(step: int) -> None:
        if step % (n_steps // 20 or 1) == 0:
            curve.append((step, next_token_loss(model, windows)))

    batch_size = BATCH_SIZE * N_TRAINED // n_tokens
    batches = random_windows(training, n_tokens, batch_size, torch.Generator().manual_seed(seed))
    train(model, batches, n_steps=n_steps, max_lr=max_lr, warmup_steps=min(WARMUP_STEPS, n_steps - 1), after_step=watch)
    return model, curve


def losses_by_length(model: Transformer, scheme: str) -> Iterator[tuple[str, int, float]]:
    """Measure the loss on the last 32 tokens of the test windows, at each length that the model can read.

    Args:
        model: the trained model.
        scheme: its position scheme.

    Yields:
        The scaling of RoPE ("" for none), the length, and the loss.

    Source: Press et al. (2022), section 2; IITD-17, GT-52.

    >>> [length for _, length, _ in losses_by_length(small_model("learned"), "learned")]
    [64]
    """
    for n_tokens in LENGTHS:
        if model.config.n_ctx is not None and n_tokens > model.config.n_ctx:
            continue
        windows = held_out_windows(n_tokens)
        yield "", n_tokens, next_token_loss(model, windows, last=N_SCORED)
        if scheme == "rope" and n_tokens > N_TRAINED:
            for name, scaling in SCALINGS.items():
                rope = RopeConfig(scaling=scaling(n_tokens / N_TRAINED))
                scaled = Transformer(dataclasses.replace(model.config, rope=rope))
                scaled.load_state_dict(model.state_dict())
                yield name, n_tokens, next_token_loss(scaled, windows, last=N_SCORED)


def losses_by_position(model: Transformer) -> Float[Tensor, "rows"]:
    """Measure the loss in the longest window that the model can read, each mean over 16 positions in a row.

    Args:
        model: the trained model.

    Source: Press et al. (2022), appendix B; IITD-17, GT-52.

    >>> losses_by_position(small_model("learned")).shape
    torch.Size([4])
    """
    n_tokens = min(LENGTHS[-1], model.config.n_ctx or LENGTHS[-1])
    losses = token_losses(model, held_out_windows(n_tokens)).mean(0)
    return losses.unflatten(0, (-1, POSITIONS_IN_A_ROW)).mean(1)


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
    _, records = model(held_out_windows(N_TRAINED)[:, :-1], return_records=True)
    weights = torch.stack([record.attention_weights for record in records])  # (layers, batch, heads, queries, keys)
    back = [weights.diagonal(-d, -2, -1)[..., n_distances - 1 - d :] for d in range(n_distances)]
    return torch.stack([w.mean((1, 3)) for w in back], -1)


COLUMNS = {
    "position_tuning": ["scheme", "max_lr", "loss"],
    "position_losses": ["scheme", "scaling", "seed", "n_tokens", "loss"],
    "losses_by_position": ["scheme", "seed", "position", "loss"],
    "position_control": ["seed", "n_trained", "n_tokens", "loss"],
    "position_curves": ["scheme", "seed", "step", "loss"],
    "position_heads": ["scheme", "layer", "head", "distance", "weight"],
    "learned_positions": ["position", *range(N_TRAINED)],
    "t5_biases": ["head", "distance", "bias"],
}
"""The columns of each table."""


def experiment(out: Path, seeds: Iterable[int] = range(5), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Run the experiment and write its tables.

    Args:
        out: folder of the tables; it is created if it does not exist.
        seeds: one model is trained for each scheme and seed.
        n_steps: number of training steps of each model.
        n_workers: number of processes, each with one thread. It does not change the tables.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: IITD-17, IITD-31, CMU-24, CMU-33.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    1000
    """
    tables, seeds, began = Tables(out, COLUMNS, n_workers), list(seeds), time.monotonic()
    with tables.collecting() as collect:
        collect(_tuning, [(scheme, max_lr, n_steps) for scheme in SCHEMES for max_lr in MAX_LRS], "learning rates")
        best = best_max_lrs(tables.rows["position_tuning"])
        jobs = [(scheme, seed, n_steps, best[scheme], seed == seeds[0]) for seed in seeds for scheme in SCHEMES]
        collect(_trained, jobs, "models")
        collect(_control, [(seed, n_steps, best[CONTROL]) for seed in seeds], "control")
    tables.write_settings("position_experiment", _settings(n_steps), seeds, time.monotonic() - began)


def _tuning(job: tuple[str, float, int]) -> Rows:
    scheme, max_lr, n_steps = job
    try:
        _, curve = run(scheme, TUNING_SEED, n_steps, max_lr)
        loss = curve[-1][1]
    except FloatingPointError:  # the learning rate was too high
        loss = math.inf
    return {"position_tuning": [[scheme, max_lr, f"{loss:.4f}"]]}


def _trained(job: tuple[str, int, int, float, bool]) -> Rows:
    """Train and measure one model; return the rows of each table. For the first seed, some tell what it has learned."""
    scheme, seed, n_steps, max_lr, first = job
    model, curve = run(scheme, seed, n_steps, max_lr)
    by_position = enumerate(losses_by_position(model).tolist())
    rows = {
        "position_losses": [
            [scheme, scaling, seed, n, f"{x:.4f}"] for scaling, n, x in losses_by_length(model, scheme)
        ],
        "losses_by_position": [[scheme, seed, i * POSITIONS_IN_A_ROW, f"{x:.4f}"] for i, x in by_position],
        "position_curves": [[scheme, seed, step, f"{x:.4f}"] for step, x in curve],
    }
    if first and not scheme.startswith("linear"):
        rows["position_heads"] = rows_of([scheme], mean_attention_weights(model))
    if first and scheme == "learned":
        vectors = F.normalize(model.position.get_parameter("table").detach(), dim=-1)
        cosines = enumerate((vectors @ vectors.T).tolist())
        rows["learned_positions"] = [[i, *(f"{x:.2f}" for x in row)] for i, row in cosines]
    if first and scheme == "t5":
        context = PositionContext(torch.arange(N_TRAINED)[None])
        any_heads = torch.zeros(1, model.config.n_heads, N_TRAINED, 1)
        bias = _attention(model.stack.blocks[0]).position.bias(any_heads, any_heads, context)
        assert bias is not None
        rows["t5_biases"] = rows_of([], bias[0, :, -1].flip(-1).detach())
    return rows


def _control(job: tuple[int, int, float]) -> Rows:
    seed, n_steps, max_lr = job
    model, _ = run(CONTROL, seed, n_steps, max_lr, N_CONTROL)
    return {"position_control": [[seed, N_CONTROL, n, f"{x:.4f}"] for _, n, x in losses_by_length(model, CONTROL)]}


def _settings(n_steps: int) -> list[list]:
    vocabulary, training, held_out = corpus()
    config = dataclasses.asdict(small_config("none", len(vocabulary)))
    shown = ("d_model", "n_layers", "n_heads", "d_ff", "n_vocab", "norm", "feedforward", "tie_embeddings")
    return [
        ["command", "python -m llm_anatomy experiment positions"],
        *([field, config[field]] for field in shown),
        ["n_tokens", N_TRAINED],
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["max_lrs", " ".join(map(str, MAX_LRS))],
        ["tuning_seed", TUNING_SEED],
        ["training_tokens", len(training)],
        ["held_out_tokens", len(held_out)],
        ["test_windows", N_TEST_STORIES],
        ["scored_tokens", N_SCORED],
    ]
