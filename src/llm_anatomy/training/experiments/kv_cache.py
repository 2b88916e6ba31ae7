r"""The experiment of chapter 11: what is lost if the KV cache shrinks, in heads or in tokens, and what is won back?

    python -m llm_anatomy experiment kv_cache

*Fewer heads.* Small decoders with multi-head attention read the stories. Each is converted to grouped-query and
multi-query attention: a shared head starts as the mean of its group, as the first head, or as a random one. The
converted models are trained on for a small share of the original steps. Beside them, the multi-head model is trained on
for as long, and models with few key-value heads are trained from scratch for as many steps in sum, and for the extra
steps alone. The learning rate of the extra steps is chosen for each start, on validation stories and with seeds of
their own. The rate of the whole trainings is that of chapter 10's experiment, and was not tuned anew.

*Distance.* A model reads symbols among noise and is asked for one of them at the end. Models with sliding windows of
several widths, and with one, two or four layers, are trained from scratch. A layer with a window of w tokens carries
information over w - 1 tokens, so that n layers reach no further than n(w - 1). The models that have to pass several
symbols through four layers are trained again for longer, with a smaller rate.

*A cut cache.* The multi-head models read texts that are four times as long as those of their training, while their
cache keeps only the last tokens, or the first and the last.

A run is repeated to the digit on the same processor. On another one, rounding grows from step to step.

The command writes the tables ``kv_cache_experiment``, ``…_tuning``, ``…_uptraining``, ``…_distance``, ``…_relay``,
``…_sinks`` and ``…_first_token`` of :mod:`llm_anatomy.data`.
"""

import copy
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.evaluation.perplexity import next_token_loss, token_losses
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.head_sharing import RandomHead, first_head, mean_head, share_heads
from llm_anatomy.layers.masks import Mask
from llm_anatomy.layers.positions.base import PositionScheme, offsets
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.shapes import Float, Int, Tensor
from llm_anatomy.training.data.windows import random_windows
from llm_anatomy.training.experiments.feedforward import small_model
from llm_anatomy.training.experiments.runs import Rows, Tables, best_max_lrs, means_over_seeds
from llm_anatomy.training.experiments.story_models import N_VOCAB, corpus
from llm_anatomy.training.trainer import train

D_MODEL, N_LAYERS, N_HEADS, D_FF, N_CTX = 48, 2, 8, 192, 64
N_STEPS, BATCH_SIZE, WARMUP_STEPS, MAX_LR = 800, 8, 20, 2e-2
N_VALIDATION = 96
"""So many windows of the held-out stories are for the choice of learning rates, and the others for the test."""

KV_HEADS = (4, 2, 1)
SHARES = (0.02, 0.05, 0.1)
"""The extra steps as shares of the original ones."""
LONGER, LONGER_KV_HEADS = (0.25, 0.5), (2, 1)
"""Larger shares, and the numbers of key-value heads with which they are tried, from the mean alone."""
STARTS = ("multi-head", "mean", "first", "random", "extra steps alone")
"""How the extra steps begin: with the original model, with one of three conversions, or from scratch."""
EXTRA_LRS = (5e-3, 1e-2, 2e-2, 4e-2)
TUNING_SEEDS, TUNING_SHARE, TUNING_KV_HEADS = (5, 6), 0.05, 2

N_VALUES, N_COLOURS, N_NOISE = 8, 4, 4
DISTANCE = 32
"""The largest distance from a symbol to the question."""
WINDOWS, DEPTHS = {1: (4, 8, 16, None), 4: (8, None)}, (1, 2, 4)
"""The windows for each number of symbols in a text, and the numbers of layers."""
N_TASK_STEPS, TASK_BATCH_SIZE, TASK_LR, N_TEST = 300, 32, 1e-2, 200

RELAY, RELAY_LR, RELAY_STEPS = (4, 8, 4), 5e-3, 1800
"""Symbols, window and layers of the models that are trained again for longer, with a smaller rate."""

N_READ, N_SLOTS, N_SINKS, BUCKET = 256, (16, 32), 4, 32
"""The length of the texts that are read with a cut cache, the sizes of the cache, the number of first tokens that are
kept, and the number of positions in a row of the table."""
FIRST_ID = 0
"""The first token of all windows, for models that are trained with a fixed one. It is in no story."""


def small_config(n_kv_heads: int = N_HEADS, **changes) -> ModelConfig:
    """Config of a small decoder.

    Args:
        n_kv_heads: number of key-value heads.
        changes: values of further fields of the config.

    Raises:
        ValueError: if the config does not allow a value.

    Source: Ainslie et al. (2023), section 2.2; CMU-11, CMU-15.

    >>> small_config(n_kv_heads=2).d_head
    6
    """
    sizes = dict(d_model=D_MODEL, n_layers=N_LAYERS, n_heads=N_HEADS, d_ff=D_FF, n_vocab=N_VOCAB)
    parts = dict(position="rope", norm="rmsnorm", feedforward="gelu", tie_embeddings=True, scale_embeddings=True)
    return ModelConfig.of(sizes | parts | dict(n_kv_heads=n_kv_heads) | changes)


def held_out_windows(n_tokens: int = N_CTX) -> Int[Tensor, "windows window"]:
    """Cut the held-out stories into windows, each of which begins with the last token of the one before it.

    Args:
        n_tokens: number of tokens that a model reads of each window.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`; CMU-15.

    >>> held_out_windows().shape, held_out_windows(256).shape
    (torch.Size([295, 65]), torch.Size([73, 257]))
    """
    ids = corpus().held_out
    return torch.cat((ids[:, :-1].flatten(), ids[-1:, -1])).unfold(0, n_tokens + 1, n_tokens)


def with_first_token(windows: Int[Tensor, "windows window"]) -> Int[Tensor, "windows window"]:
    """Replace the first token of each window by one that is the same for all.

    Args:
        windows: token ids.

    Source: Xiao et al. (2023), section 3.3; CMU-10.

    >>> with_first_token(torch.tensor([[5, 6, 7]])).tolist()
    [[0, 6, 7]]
    """
    return torch.cat((torch.full_like(windows[:, :1], FIRST_ID), windows[:, 1:]), 1)


def fit(
    model: Transformer, seed: int, max_lr: float = MAX_LR, n_steps: int = N_STEPS, *, fixed_first: bool = False
) -> None:
    """Train a small decoder on the stories.

    Args:
        model: it is changed.
        seed: seed of the batches.
        max_lr: the maximum learning rate.
        n_steps: number of training steps.
        fixed_first: whether all windows begin with the same token.

    Raises:
        FloatingPointError: if a loss is not finite.

    Source: CMU-15.

    >>> fit(small_model(small_config()), seed=0, n_steps=2)
    """
    batches = random_windows(corpus().training, N_CTX, BATCH_SIZE, torch.Generator().manual_seed(seed))
    batches = map(with_first_token, batches) if fixed_first else batches
    train(model, batches, n_steps=n_steps, max_lr=max_lr, warmup_steps=min(WARMUP_STEPS, n_steps // 4))


# --- Fewer key-value heads ---


def convert(model: Transformer, n_kv_heads: int, start: str = "mean", seed: int = 0) -> Transformer:
    """Make a copy of a trained model with fewer key-value heads in all layers.

    Args:
        model: with multi-head or grouped-query attention; it stays unchanged.
        n_kv_heads: new number of key-value heads.
        start: ``"mean"``, ``"first"`` or ``"random"``: what the shared head is made of.
        seed: seed of random heads.

    Raises:
        ValueError: for another start, or if ``n_kv_heads`` does not divide the present number.

    Source: Ainslie et al. (2023), section 2.1; CMU-14, CMU-15.

    >>> convert(small_model(small_config()), 2).config.n_kv_heads
    2
    """
    random = RandomHead(torch.Generator().manual_seed(seed))
    pools: dict[str, Callable[[Tensor], Tensor]] = {"mean": mean_head, "first": first_head, "random": random}
    if start not in pools:
        raise ValueError(f"{start=} must be one of {', '.join(pools)}")
    converted = copy.deepcopy(model)
    converted.config = dataclasses.replace(model.config, n_kv_heads=n_kv_heads)
    for block in converted.stack.blocks:
        assert isinstance(block.attention, SelfAttention)
        block.attention = share_heads(block.attention, n_kv_heads, pools[start])
    return converted


def begin(original: Transformer, start: str, n_kv_heads: int, seed: int) -> Transformer:
    """Make the model with which the extra steps begin.

    Args:
        original: the trained multi-head model.
        start: one of ``STARTS``.
        n_kv_heads: number of key-value heads, if the start is not ``"multi-head"``.
        seed: seed of what is random.

    Raises:
        ValueError: for another start.

    Source: Ainslie et al. (2023), section 3.3; CMU-15.

    >>> begin(small_model(small_config()), "extra steps alone", 1, seed=0).config.n_kv_heads
    1
    """
    if start == "multi-head":
        return copy.deepcopy(original)
    if start == "extra steps alone":
        return small_model(small_config(n_kv_heads), seed)
    return convert(original, n_kv_heads, start, seed)


def fit_on(model: Transformer, seed: int, share: float, max_lr: float, n_steps: int = N_STEPS) -> None:
    """Train a model on for a share of the original steps, on other batches.

    Args:
        model: it is changed.
        seed: seed of the original training.
        share: the number of extra steps, as a share of the original ones.
        max_lr: the maximum learning rate of the extra steps.
        n_steps: number of the original steps.

    Source: Ainslie et al. (2023), section 2.1; CMU-15.

    >>> fit_on(small_model(small_config(1)), seed=0, share=0.1, max_lr=0.01, n_steps=20)
    """
    fit(model, seed + 1000, max_lr, extra_steps(share, n_steps))


def extra_steps(share: float, n_steps: int = N_STEPS) -> int:
    """Return the number of extra steps, at least one.

    Args:
        share: the extra steps as a share of the original ones.
        n_steps: number of the original steps.

    Source: Ainslie et al. (2023), section 2; CMU-15.

    >>> extra_steps(0.05)
    40
    """
    return max(1, round(share * n_steps))


# --- Distance ---


def examples(
    n: int, n_items: int, generator: torch.Generator, distance: int | None = None
) -> tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch"]]:
    """Draw texts of noise with symbols of different colours among it, and a question for one colour at the end.

    A symbol is a colour with a value, and the answer is the value of the symbol of the colour that is asked for. There
    are ``DISTANCE`` tokens before the question.

    Args:
        n: number of texts.
        n_items: number of symbols in each text, from 1 to ``N_COLOURS``, each of another colour.
        generator: source of randomness.
        distance: from the symbol that is asked for to the question; random by default.

    Source: Hochreiter and Schmidhuber (1997), section 5, whose tasks have long lags too; CMU-10.

    >>> ids, answers = examples(2, 1, torch.Generator().manual_seed(0), distance=32)
    >>> tuple(ids.shape), torch.equal(ids[:, 0] % N_VALUES, answers)
    ((2, 33), True)
    """
    n_symbols = N_COLOURS * N_VALUES
    ids = n_symbols + torch.randint(N_NOISE, (n, DISTANCE + 1), generator=generator)
    indices = torch.rand(n, DISTANCE, generator=generator).argsort(1)[:, :n_items]
    if distance is not None:  # the index of the first symbol is given, and another one that was there moves
        wanted = DISTANCE - distance
        indices[:, 1:][indices[:, 1:] == wanted] = -1
        indices[:, 1:] = torch.where(indices[:, 1:] < 0, indices[:, :1], indices[:, 1:])
        indices[:, 0] = wanted
    colours = torch.rand(n, n_items, generator=generator).argsort(1)
    values = torch.randint(N_VALUES, (n, n_items), generator=generator)
    ids.scatter_(1, indices, colours * N_VALUES + values)
    ids[:, -1] = n_symbols + N_NOISE + colours[:, 0]
    return ids, values[:, 0]


def recall(
    window: int | None,
    n_layers: int,
    n_items: int,
    seed: int,
    n_steps: int = N_TASK_STEPS,
    *,
    max_lr: float = TASK_LR,
) -> list[float]:
    """Train a model to recall a symbol, and return the share of right answers at each distance, from 1 on.

    Args:
        window: number of tokens that a token attends to in each layer, itself included; None for all.
        n_layers: number of layers.
        n_items: number of symbols in each text.
        seed: seed of the weights and the texts.
        n_steps: number of training steps.
        max_lr: the maximum learning rate.

    Source: Jiang et al. (2023), "Mistral 7B", section 2; CMU-10.

    >>> len(recall(None, n_layers=1, n_items=1, seed=0, n_steps=1))
    32
    """
    n_vocab = N_COLOURS * N_VALUES + N_NOISE + N_COLOURS
    sizes = dict(d_model=32, n_layers=n_layers, n_heads=4, d_ff=64, n_vocab=n_vocab, n_kv_heads=4)
    model = small_model(small_config(**sizes, window=window), seed)
    generator = torch.Generator().manual_seed(seed)

    def texts() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield examples(TASK_BATCH_SIZE, n_items, generator)

    def batch_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        ids, answers = batch
        return F.cross_entropy(model(ids)[:, -1, :N_VALUES], answers)

    warmup = min(WARMUP_STEPS, n_steps - 1)
    train(model, texts(), batch_loss=batch_loss, n_steps=n_steps, max_lr=max_lr, warmup_steps=warmup)
    accuracies = []
    with torch.no_grad():
        for distance in range(1, DISTANCE + 1):
            ids, answers = examples(N_TEST, n_items, generator, distance)
            accuracies.append((model(ids)[:, -1, :N_VALUES].argmax(-1) == answers).float().mean().item())
    return accuracies


# --- A cache that is cut while the model reads on ---


@dataclass(frozen=True)
class CutCacheMask(Mask):
    """A token may attend to what is left in a cache: some tokens that are kept, itself, and the tokens before it.

    Args:
        n_slots: number of tokens in the cache.
        n_kept: number of tokens that are kept for good; fewer than ``n_slots``.
        first_kept: position of the first of them.

    Source: Xiao et al. (2023), "Efficient Streaming Language Models with Attention Sinks", section 3.2; CMU-10.

    >>> CutCacheMask(3, n_kept=1).as_tensor(5).int()[-1].tolist()
    [1, 0, 0, 1, 1]
    """

    n_slots: int
    n_kept: int = 0
    first_kept: int = 0

    def allows(self, query_positions, key_positions):
        distances = -offsets(query_positions, key_positions)
        kept = self.is_kept(key_positions)[:, None] | (distances < self.n_slots - self.n_kept)
        return (distances >= 0) & kept

    def is_kept(self, positions: Int[Tensor, "*shape"]) -> Tensor:
        """Whether a token is kept for good."""
        return (self.first_kept <= positions) & (positions < self.first_kept + self.n_kept)


class PositionsInCache(PositionScheme):
    """RoPE with the positions that the tokens have in the cache, so that kept tokens never are further away than that.

    The distances to the last tokens are those of the text. The query is rotated back for the tokens that are kept.

    Args:
        rope: the position scheme of the trained model.
        mask: which tokens the cache has.

    Source: Xiao et al. (2023), section 3.2; CMU-10.

    >>> from llm_anatomy.layers.positions.rotary import HalfSplitRotary
    >>> from llm_anatomy.layers.positions.base import PositionContext
    >>> rope = HalfSplitRotary(4)
    >>> scheme, x, t = PositionsInCache(rope, CutCacheMask(3, n_kept=1)), torch.ones(1, 1, 6, 4), torch.arange(6)[None]
    >>> query = rope.rotate(x, t)
    >>> changed = query @ query.mT / 2 + scheme.bias(query, query, PositionContext(t))
    >>> torch.allclose(changed[0, 0, 5, 0], changed[0, 0, 2, 0])  # the last token is in the third slot
    True
    """

    def __init__(self, rope: PositionScheme, mask: CutCacheMask):
        super().__init__()
        self.rope, self.mask = rope, mask

    def tables(self, positions, dtype):
        return self.rope.tables(positions, dtype)

    def rotate(self, x, positions, tables=None):
        return self.rope.rotate(x, positions, tables)

    def bias(self, query, key, context):
        positions = context.query_positions
        back = positions.clamp(max=self.mask.n_slots - 1 + self.mask.first_kept) - positions
        change = (self.rope.rotate(query, back) - query) @ key.mT * self.scale(query.shape[-1])
        return torch.where(self.mask.is_kept(context.key_positions)[:, None, None], change, 0.0)


def cut_cache(
    model: Transformer, n_slots: int, n_kept: int = 0, first_kept: int = 0, *, in_cache: bool = True
) -> Transformer:
    """Make a copy of a trained model that reads with a cache of a few tokens.

    Args:
        model: with multi-head attention and RoPE; it stays unchanged.
        n_slots, n_kept, first_kept: as in :class:`CutCacheMask`.
        in_cache: whether the positions are those in the cache, and not those in the text.

    Source: Xiao et al. (2023), section 3.2; CMU-10.

    >>> cut_cache(small_model(small_config()), 8, 2).stack.masks[0]
    CutCacheMask(n_slots=8, n_kept=2, first_kept=0)
    """
    cut, mask = copy.deepcopy(model), CutCacheMask(n_slots, n_kept, first_kept)
    cut.stack.masks = [mask for _ in cut.stack.masks]  # type: ignore[assignment]
    if in_cache and n_kept:
        for block in cut.stack.blocks:
            assert isinstance(block.attention, SelfAttention)
            block.attention.position = PositionsInCache(block.attention.position, mask)
    return cut


def policies(model: Transformer) -> Iterator[tuple[str, int | None, int, Transformer]]:
    """Make the models that read with a whole or a cut cache: policy, slots, kept tokens, and the model.

    Args:
        model: the trained model.

    Source: Xiao et al. (2023), section 3.2 and table 2; CMU-10.

    >>> [policy for policy, *_ in policies(small_model(small_config()))][:3]
    ['full', 'window', 'window+sinks']
    """
    yield "full", None, 0, model
    for n in N_SLOTS:
        yield "window", n, 0, cut_cache(model, n)
        yield "window+sinks", n, 1, cut_cache(model, n, 1)
        yield "window+sinks", n, N_SINKS, cut_cache(model, n, N_SINKS)
        yield "window+sinks at text positions", n, N_SINKS, cut_cache(model, n, N_SINKS, in_cache=False)
        yield "window+next tokens", n, N_SINKS, cut_cache(model, n, N_SINKS, first_kept=N_SINKS)


@torch.no_grad()
def shares_of_first_token(model: Transformer, windows: Int[Tensor, "windows window"]) -> Float[Tensor, "layers heads"]:
    """Measure the share of attention that the first token of a window gets from those in its second half.

    Args:
        model: a trained model.
        windows: token ids, each window one token longer than the model's input.

    Source: Xiao et al. (2023), figure 2; CMU-10.

    >>> shares_of_first_token(small_model(small_config()), held_out_windows()[:8]).shape
    torch.Size([2, 8])
    """
    _, records = model(windows[:, :-1], return_records=True)
    half = windows.shape[1] // 2
    return torch.stack([record.attention_weights[:, :, half:, 0].mean((0, 2)) for record in records])


# --- Training and tables ---

NAME = "kv_cache"
COLUMNS = {
    f"{NAME}_tuning": ["start", "max_lr", "seed", "validation_loss"],
    f"{NAME}_uptraining": ["n_kv_heads", "start", "share", "seed", "test_loss"],
    f"{NAME}_sinks": ["first_token", "policy", "n_slots", "n_sinks", "position", "seed", "loss"],
    f"{NAME}_first_token": ["first_token", "layer", "head", "seed", "share"],
    f"{NAME}_distance": ["n_items", "window", "n_layers", "distance", "seed", "accuracy"],
    f"{NAME}_relay": ["n_items", "window", "n_layers", "max_lr", "n_steps", "distance", "seed", "accuracy"],
}
"""The columns of each table. A position is the first of its bucket; there is no window where a cell is empty."""


def experiment(out: Path, seeds: Iterable[int] = range(4), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Run the experiment and write its tables.

    Args:
        out: folder of the tables; it is created if it does not exist.
        seeds: one multi-head model is trained and converted for each seed; the first three are those of the distances.
        n_steps: number of steps of the original training; the steps of the distance task change in proportion.
        n_workers: number of processes, each with one thread. It does not change the tables.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: CMU-10, CMU-15, CMU-16.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    800
    """
    tables, seeds, began = Tables(out, COLUMNS, n_workers), list(seeds), time.monotonic()
    with tables.collecting() as collect:
        collect(_tuning, [(seed, n_steps) for seed in TUNING_SEEDS], "learning rates")
        best = best_max_lrs(means_over_seeds(tables.rows[f"{NAME}_tuning"]))
        collect(_uptrained, [(seed, tuple(best.items()), n_steps) for seed in seeds], "uptraining")
        shapes = [(items, window, depth) for items in WINDOWS for window in WINDOWS[items] for depth in DEPTHS]
        jobs = [(*shape, seed, _task_steps(shape[0], n_steps)) for shape in shapes for seed in seeds[:3]]
        collect(_distances, jobs, "distances")
        collect(_first_tokens, [(seed, n_steps) for seed in seeds], "fixed first token")
        collect(_scratch, [(seed, n_steps) for seed in seeds], "from scratch")
        collect(_longer, [(seed, best["mean"], n_steps) for seed in seeds[:3]], "longer uptraining")
        relay_steps = max(1, n_steps * RELAY_STEPS // N_STEPS)
        collect(_relays, [(*RELAY, seed, relay_steps) for seed in seeds[:3]], "longer training on distances")
    tables.write_settings(f"{NAME}_experiment", _settings(n_steps), seeds, time.monotonic() - began)


def _task_steps(n_items: int, n_steps: int) -> int:
    """The steps of the distance task; twice as many for several symbols, which are harder to learn."""
    return max(1, n_steps * N_TASK_STEPS * (1 if n_items == 1 else 2) // N_STEPS)


def original(seed: int, n_steps: int = N_STEPS, *, fixed_first: bool = False) -> Transformer:
    """Train the multi-head model of a seed.

    Args:
        seed: seed of the weights and the batches.
        n_steps: number of training steps.
        fixed_first: whether all windows begin with the same token.

    Source: Ainslie et al. (2023), section 2.1; CMU-15.

    >>> original(0, n_steps=1).config.n_kv_heads
    8
    """
    model = small_model(small_config(), seed)
    fit(model, seed, n_steps=n_steps, fixed_first=fixed_first)
    return model


def _tuning(job: tuple[int, int]) -> Rows:
    seed, n_steps = job
    trained, rows = original(seed, n_steps), []
    for start in STARTS:
        for max_lr in EXTRA_LRS:
            model = begin(trained, start, TUNING_KV_HEADS, seed)
            fit_on(model, seed, TUNING_SHARE, max_lr, n_steps)
            loss = next_token_loss(model, held_out_windows()[:N_VALIDATION])
            rows.append([start, max_lr, seed, f"{loss:.4f}"])
    return {f"{NAME}_tuning": rows}


def _test_loss(model: Transformer) -> str:
    return f"{next_token_loss(model, held_out_windows()[N_VALIDATION:]):.4f}"


def _uptrained(job: tuple[int, tuple[tuple[str, float], ...], int]) -> Rows:
    """All that begins with the original model of a seed."""
    seed, best, n_steps = job
    trained, rows = original(seed, n_steps), []
    for start, max_lr in best:
        for n_kv_heads in (N_HEADS,) if start == "multi-head" else KV_HEADS:
            for share in (0.0, *SHARES):
                model = begin(trained, start, n_kv_heads, seed)
                if share:
                    fit_on(model, seed, share, max_lr, n_steps)
                elif start == "extra steps alone":
                    continue
                rows.append([n_kv_heads, start, share, seed, _test_loss(model)])
    return {f"{NAME}_uptraining": rows} | _reading_on(trained, "any", seed)


def _first_tokens(job: tuple[int, int]) -> Rows:
    seed, n_steps = job
    return _reading_on(original(seed, n_steps, fixed_first=True), "fixed", seed)


def _reading_on(trained: Transformer, first: str, seed: int) -> Rows:
    """The losses with a whole and a cut cache, and the shares of the first token, in windows that begin as trained."""
    begin_windows = with_first_token if first == "fixed" else torch.clone
    short, long = (begin_windows(held_out_windows(n)) for n in (N_CTX, N_READ))
    shares, rows = shares_of_first_token(trained, short[:N_VALIDATION]), []
    for policy, n_slots, n_sinks, model in policies(trained):
        losses = token_losses(model, long, batch_size=8).mean(0).unfold(0, BUCKET, BUCKET).mean(-1)
        known = first, policy, "" if n_slots is None else n_slots, n_sinks
        rows += [[*known, i * BUCKET, seed, f"{loss:.4f}"] for i, loss in enumerate(losses.tolist())]
    heads = [
        [first, layer, head, seed, f"{share:.4f}"]
        for layer, of_heads in enumerate(shares.tolist())
        for head, share in enumerate(of_heads)
    ]
    return {f"{NAME}_sinks": rows, f"{NAME}_first_token": heads}


def _scratch(job: tuple[int, int]) -> Rows:
    """Models that are trained from scratch, for as many steps as the original training and the extra steps together."""
    seed, n_steps = job
    rows = []
    for n_kv_heads in (N_HEADS, *KV_HEADS):
        model, share = small_model(small_config(n_kv_heads), seed), SHARES[-1]
        fit(model, seed, n_steps=n_steps + extra_steps(share, n_steps))
        rows.append([n_kv_heads, "scratch", share, seed, _test_loss(model)])
    return {f"{NAME}_uptraining": rows}


def _longer(job: tuple[int, float, int]) -> Rows:
    """Conversions by the mean that are trained on for a quarter and a half of the original steps."""
    seed, max_lr, n_steps = job
    trained, rows = original(seed, n_steps), []
    for n_kv_heads in LONGER_KV_HEADS:
        for share in LONGER:
            model = begin(trained, "mean", n_kv_heads, seed)
            fit_on(model, seed, share, max_lr, n_steps)
            rows.append([n_kv_heads, "mean", share, seed, _test_loss(model)])
    return {f"{NAME}_uptraining": rows}


def _distances(job: tuple[int, int | None, int, int, int]) -> Rows:
    n_items, window, n_layers, seed, n_steps = job
    accuracies = recall(window, n_layers, n_items, seed, n_steps)
    known = n_items, "" if window is None else window, n_layers
    return {f"{NAME}_distance": [[*known, d, seed, f"{a:.3f}"] for d, a in enumerate(accuracies, 1)]}


def _relays(job: tuple[int, int, int, int, int]) -> Rows:
    n_items, window, n_layers, seed, n_steps = job
    accuracies = recall(window, n_layers, n_items, seed, n_steps, max_lr=RELAY_LR)
    known = n_items, window, n_layers, RELAY_LR, n_steps
    return {f"{NAME}_relay": [[*known, d, seed, f"{a:.3f}"] for d, a in enumerate(accuracies, 1)]}


def _settings(n_steps: int) -> list[list]:
    config = dataclasses.asdict(small_config())
    shown = ("d_model", "n_layers", "n_heads", "d_ff", "n_vocab", "position", "norm", "feedforward", "tie_embeddings")
    windows = held_out_windows()[:, 1:]
    return [
        ["command", f"python -m llm_anatomy experiment {NAME}"],
        *([field, config[field]] for field in shown),
        ["n_tokens", N_CTX],
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["warmup_steps", WARMUP_STEPS],
        ["max_lr", MAX_LR],
        ["extra_lrs", " ".join(map(str, EXTRA_LRS))],
        ["tuning_seeds", " ".join(map(str, TUNING_SEEDS))],
        ["tuning_share", TUNING_SHARE],
        ["tuning_kv_heads", TUNING_KV_HEADS],
        ["validation_tokens", windows[:N_VALIDATION].numel()],
        ["test_tokens", windows[N_VALIDATION:].numel()],
        ["task_steps", _task_steps(1, n_steps)],
        ["task_steps_4", _task_steps(4, n_steps)],
        ["task_batch_size", TASK_BATCH_SIZE],
        ["task_lr", TASK_LR],
        ["task_values", N_VALUES],
        ["task_tests", N_TEST],
        ["read_tokens", N_READ],
        ["read_windows", len(held_out_windows(N_READ))],
    ]
