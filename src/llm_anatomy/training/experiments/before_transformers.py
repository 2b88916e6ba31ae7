r"""The experiment of chapter 2: language models before the Transformer, trained on the same text and compared in bits.

    python -m llm_anatomy experiment before_transformers

Every model reads the same text in the same order: windows of 64 tokens, or of the 272 bytes that such a window has on
average. A token is a piece of GPT-2's pre-tokenizer, so that the tokens spell the text completely and a loss per token
can be converted to bits per byte. The test scores the same stretch of each held-out story for all models: 32 tokens,
or the bytes of these tokens, with about as much text before them as there was in training. The learning rate of each
model is chosen from ``MAX_LRS`` with a seed and stories of their own: all rates are tried with a third of the steps,
and the two best of them with all steps.

The command writes the tables ``before_transformers_experiment``, ``…_tuning``, ``…_models``, ``…_losses``,
``…_by_position``, ``…_reach``, ``…_curves`` and ``…_embeddings`` of :mod:`llm_anatomy.data`.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.config import ModelConfig
from llm_anatomy.evaluation.perplexity import token_losses
from llm_anatomy.layers.recurrent import Cell, ElmanCell, GRUCell, LSTMCell
from llm_anatomy.models.before_transformers import (
    BigramNetwork,
    EmbeddedBigramNetwork,
    MambaLM,
    MegaByte,
    NeuralProbabilisticLM,
    RecurrentLM,
)
from llm_anatomy.shapes import Bool, Float, Int, Tensor
from llm_anatomy.tokenizers.pretokenization import GPT2
from llm_anatomy.training.data import story_grammar as grammar
from llm_anatomy.training.data.stories import stories
from llm_anatomy.training.data.windows import windows_ending_at
from llm_anatomy.training.experiments import agreement
from llm_anatomy.training.experiments.runs import Rows, Tables, best_max_lrs
from llm_anatomy.training.trainer import train

N_TOKENS, N_BYTES = 64, 272
"""Lengths of the windows: tokens, and the bytes that so many tokens have on average, a multiple of MegaByte's patch."""
N_SCORED = 32
N_STEPS, BATCH_SIZE, WARMUP_SHARE = 600, 8, 0.1
MAX_LRS = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
TUNING_SEED = 5
N_TRAINING_STORIES, N_VALIDATION_STORIES, N_TEST_STORIES = 4000, 64, 256
D_EMBED, D_HIDDEN, N_CTX, D_MAMBA, D_STATE, PATCH_SIZE = 32, 128, 8, 48, 8, 8
N_IN_A_ROW = 8
DISTANCES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
N_CHANGED = 64
REACH_THRESHOLD = 0.01
"""A model reaches as far back as the change of one token moves its prediction by more than this, on average."""
END_OF_STORY = "\n\n"


@dataclass(frozen=True)
class Text:
    """A text as tokens and as bytes.

    Args:
        ids: the ids of its tokens.
        bytes: its bytes.
        starts: where each token begins among the bytes, and where the last one ends.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`; UCL-14, UCL-16.

    >>> text = corpus()[1]
    >>> bytes(text.bytes[text.starts[1] : text.starts[3]].tolist())
    b', a'
    """

    ids: Int[Tensor, "tokens"]
    bytes: Int[Tensor, "bytes"]
    starts: Int[Tensor, "borders"]


@cache
def corpus() -> tuple[list[str], Text, Text]:
    """Load the corpus of the experiment: the vocabulary, the training text and the held-out text.

    The stories have about 160 tokens each. The ids follow the frequency in the training text: id 0 is the most frequent
    token. Every token of the held-out text occurs in the training text.

    Source: the stories of :mod:`llm_anatomy.training.data.stories`, seeds 0 and 1; UCL-14.

    >>> vocabulary, training, held_out = corpus()
    >>> len(vocabulary) < 1000 and len(training.ids) > 600_000 and int(held_out.ids.max()) < len(vocabulary)
    True
    """
    sizes = N_TRAINING_STORIES, N_VALIDATION_STORIES + N_TEST_STORIES
    pieces = [
        [token for story in stories(seed, n) for token in GPT2(f"{story}{END_OF_STORY}")]
        for seed, n in enumerate(sizes)
    ]
    vocabulary = [token for token, _ in Counter[str](pieces[0]).most_common()]
    id_of = {token: i for i, token in enumerate(vocabulary)}
    training, held_out = (
        Text(
            torch.tensor([id_of[token] for token in tokens]),
            torch.tensor(list("".join(tokens).encode())),
            F.pad(torch.tensor([len(token.encode()) for token in tokens]).cumsum(0), (1, 0)),
        )
        for tokens in pieces
    )
    return vocabulary, training, held_out


def training_windows(unit: str, batch_size: int, generator: torch.Generator) -> Iterator[Int[Tensor, "batch window"]]:
    """Draw batches of windows, at the same random positions of the training text for tokens and for bytes, without end.

    Args:
        unit: ``token`` or ``byte``.
        batch_size: number of windows in a batch.
        generator: source of randomness; the same seed gives the same positions, whatever the unit.

    Source: Radford et al. (2019), section 2; UCL-16.

    >>> tokens, bytes_ = (next(training_windows(unit, 2, torch.Generator().manual_seed(0))) for unit in UNITS)
    >>> tokens.shape, bytes_.shape
    (torch.Size([2, 65]), torch.Size([2, 273]))
    """
    _, training, _ = corpus()
    while True:
        first = torch.randint(len(training.ids) - 2 * N_TOKENS, (batch_size,), generator=generator)
        if unit == "token":
            yield training.ids[first[:, None] + torch.arange(N_TOKENS + 1)]
        else:
            yield training.bytes[training.starts[first][:, None] + torch.arange(N_BYTES + 1)]


@cache
def held_out_ends(*, validation: bool = False) -> list[int]:
    """Draw the last token of one window for each held-out story, so that the window lies inside the story.

    Args:
        validation: use the stories that learning rates are chosen on, and not those of the test.

    Source: this project's experiment in chapter 2; UCL-14.

    >>> len(held_out_ends()) > 200
    True
    """
    vocabulary, _, held_out = corpus()
    after = (held_out.ids == vocabulary.index(END_OF_STORY)).nonzero().flatten()
    before = F.pad(after[:-1], (1, 0), value=-1) + 1  # the first token of each story
    # the first end that leaves room for a window of tokens and for one of bytes
    room = torch.searchsorted(held_out.starts, held_out.starts[before] + N_BYTES + 1)
    earliest = torch.maximum(before + N_TOKENS, room)
    free = torch.rand(len(after), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ends = earliest + (free * (after - earliest)).long()
    chosen = slice(0, N_VALIDATION_STORIES) if validation else slice(N_VALIDATION_STORIES, None)
    return [end for end, last in zip(ends[chosen].tolist(), after[chosen].tolist(), strict=True) if end < last]


def held_out_windows(
    unit: str, *, validation: bool = False
) -> tuple[Int[Tensor, "windows window"], Bool[Tensor, "windows n_targets"], int]:
    """Cut the windows of the test, and mark their scored targets: the last 32 tokens, or the bytes of these.

    Args:
        unit: ``token`` or ``byte``.
        validation: as in :func:`held_out_ends`.

    Returns:
        The windows, which of their targets are scored, and the number of bytes that all scored targets have together.
        It is the same for both units.

    Source: this project's experiment in chapter 2; UCL-14, UCL-16.

    >>> (_, tokens, n), (_, bytes_, n_of_bytes) = (held_out_windows(unit) for unit in UNITS)
    >>> bool((tokens.sum(1) == 32).all()), int(bytes_.sum()) == n == n_of_bytes
    (True, True)
    """
    _, _, held_out = corpus()
    ends = held_out_ends(validation=validation)
    n_bytes = held_out.starts[torch.tensor(ends) + 1] - held_out.starts[torch.tensor(ends) + 1 - N_SCORED]
    if unit == "token":
        windows = windows_ending_at(held_out.ids, ends, N_TOKENS)
        return windows, (torch.arange(N_TOKENS) >= N_TOKENS - N_SCORED).expand(len(ends), -1), int(n_bytes.sum())
    last_bytes = (held_out.starts[torch.tensor(ends) + 1] - 1).tolist()
    windows = windows_ending_at(held_out.bytes, last_bytes, N_BYTES)
    return windows, torch.arange(N_BYTES) >= N_BYTES - n_bytes[:, None], int(n_bytes.sum())


class Counts(nn.Module):
    r"""A table of counts, the baseline of the networks: how often a token occurs, perhaps after the last one.

    .. math:: p(b) = \frac{n_b + 1}{\sum_v n_v + n_\mathrm{vocab}}, \quad p(b \mid a) = \frac{n_{ab} + p(b)}{n_a + 1}

    Args:
        batches: the windows that are counted.
        n_vocab: number of tokens in the vocabulary.
        bigram: whether the prediction depends on the last token.

    Source: Shannon (1951), section 2; UCL-10.

    >>> Counts([torch.tensor([[0, 1, 0]])], n_vocab=2, bigram=False)(torch.tensor([[0, 1]])).exp()[0]
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """

    log_p: Tensor

    def __init__(self, batches: Iterable[Int[Tensor, "batch window"]], n_vocab: int, *, bigram: bool):
        super().__init__()
        pairs = torch.zeros(n_vocab, n_vocab, dtype=torch.float64)
        for windows in batches:
            indices = windows[:, :-1].flatten(), windows[:, 1:].flatten()
            pairs.index_put_(indices, torch.ones(len(indices[0]), dtype=pairs.dtype), accumulate=True)
        p = (pairs.sum(0) + 1) / (pairs.sum() + n_vocab)
        p = (pairs + p) / (pairs.sum(1, keepdim=True) + 1) if bigram else p.expand(n_vocab, -1)
        self.register_buffer("log_p", p.log().float())

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch tokens n_vocab"]:
        return self.log_p[ids]


def _recurrent(cell: type[Cell]) -> Callable[[int], nn.Module]:
    return lambda n_vocab: RecurrentLM(cell, n_vocab, D_EMBED, D_HIDDEN, fused=True)


def _mamba(n_vocab: int) -> MambaLM:
    return MambaLM(n_vocab, D_MAMBA, 1, d_state=D_STATE)


def _megabyte(n_vocab: int) -> MegaByte:
    parts = dict(n_layers=1, n_vocab=n_vocab, norm="rmsnorm", feedforward="gelu")
    wide = ModelConfig.of(dict(d_model=D_HIDDEN, n_heads=4, d_ff=4 * D_HIDDEN, n_ctx=N_BYTES) | parts)
    narrow = ModelConfig.of(dict(d_model=D_MAMBA, n_heads=2, d_ff=4 * D_MAMBA) | parts)
    return MegaByte(wide, narrow, PATCH_SIZE)


UNITS = ("token", "byte")
MODELS: dict[str, tuple[str, int | None, Callable[[int], nn.Module] | None]] = {
    "unigram counts": ("token", 0, None),
    "bigram counts": ("token", 1, None),
    "bigram network": ("token", 1, lambda n_vocab: BigramNetwork(n_vocab, D_HIDDEN)),
    "embedded bigram": ("token", 1, lambda n_vocab: EmbeddedBigramNetwork(n_vocab, D_EMBED, D_HIDDEN)),
    "tied bigram": (
        "token",
        1,
        lambda n_vocab: EmbeddedBigramNetwork(n_vocab, D_EMBED, D_HIDDEN, tie_embeddings=True),
    ),
    "Bengio": ("token", N_CTX, lambda n_vocab: NeuralProbabilisticLM(n_vocab, N_CTX, D_EMBED, D_HIDDEN)),
    "Elman": ("token", None, _recurrent(ElmanCell)),
    "GRU": ("token", None, _recurrent(GRUCell)),
    "LSTM": ("token", None, _recurrent(LSTMCell)),
    "Mamba": ("token", None, _mamba),
    "MambaByte": ("byte", None, _mamba),
    "MegaByte": ("byte", N_BYTES, _megabyte),
}
"""What each model reads, how many of these its prediction can depend on (None for no limit), and how it is built."""
TRAINED = [name for name, (_, _, build) in MODELS.items() if build]


def small_model(name: str, seed: int = 0) -> nn.Module:
    r"""Build one of the models, before training.

    Every matrix but those inside a recurrent cell or a Mamba block starts from :math:`N(0, 1/d_\mathrm{in})`, every
    table of embeddings from :math:`N(0, 1/d_\mathrm{emb})`.

    Args:
        name: one of ``TRAINED``.
        seed: seed of the weights.

    Raises:
        ValueError: if the name is not one of these.

    Source: UCL-10, UCL-12, UCL-14, UCL-15, UCL-16, UCL-09.

    >>> sum(p.numel() for p in small_model("Elman").parameters()) > 100_000
    True
    """
    if name not in TRAINED:
        raise ValueError(f"{name=} must be one of {', '.join(TRAINED)}")
    unit, _, build = MODELS[name]
    assert build is not None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build(len(corpus()[0]) if unit == "token" else 128)
        for path, weight in model.named_parameters():
            if weight.ndim == 2 and not path.startswith(("recurrent.", "blocks.")):
                nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
    return model


def run(
    name: str, seed: int, n_steps: int = N_STEPS, max_lr: float = MAX_LRS[2]
) -> tuple[nn.Module, list[tuple[int, float]]]:
    """Train one model of the experiment, or count.

    Args:
        name: one of ``MODELS``.
        seed: seed of the weights and the batches.
        n_steps: number of training steps.
        max_lr: the maximum learning rate.

    Returns:
        The model, and its learning curve: about 10 pairs (step, bits per byte of the validation stories).

    Source: UCL-10, UCL-12, UCL-14, UCL-15, UCL-16.

    >>> model, curve = run("Elman", seed=0, n_steps=1)
    >>> [step for step, _ in curve]
    [1]
    """
    unit, reach, build = MODELS[name]
    batches = training_windows(unit, BATCH_SIZE, torch.Generator().manual_seed(seed))
    if build is None:
        counts = Counts(islice(batches, n_steps), len(corpus()[0]), bigram=reach == 1)
        return counts, [(n_steps, bits_per_byte(counts, unit, validation=True))]
    model, curve = small_model(name, seed), []

    def watch(step: int) -> None:
        if step % (n_steps // 10 or 1) == 0:
            curve.append((step, bits_per_byte(model, unit, validation=True)))

    train(model, batches, n_steps=n_steps, max_lr=max_lr, warmup_steps=int(WARMUP_SHARE * n_steps), after_step=watch)
    return model, curve


def bits_per_byte(model: nn.Module, unit: str, *, validation: bool = False) -> float:
    r"""Loss of a model on the scored stretch of the held-out stories, in bits per byte of the text.

    .. math:: \frac{\sum_{t\ \mathrm{scored}} L_t}{n_\mathrm{bytes} \ln 2}

    Args:
        model: a model of tokens or of bytes.
        unit: which of them, ``token`` or ``byte``.
        validation: as in :func:`held_out_ends`.

    Source: Wang et al. (2024), "MambaByte", section 4; UCL-16.

    >>> class Fair(nn.Module):
    ...     def forward(self, ids):
    ...         return torch.zeros(*ids.shape, 128)
    >>> bits_per_byte(Fair(), "byte")  # log2 128
    7.0
    """
    windows, scored, n_bytes = held_out_windows(unit, validation=validation)
    return round(float(token_losses(model, windows).double()[scored].sum()) / n_bytes / math.log(2), 6)


def losses_by_position(model: nn.Module, unit: str) -> Float[Tensor, "rows"]:
    """Measure the loss at each position of the test windows, in bits per byte, each mean over 8 tokens in a row.

    Args:
        model, unit: as in :func:`bits_per_byte`. For bytes, a row has the bytes of 8 tokens on average.

    Source: Press et al. (2022), appendix B; UCL-14.

    >>> losses_by_position(small_model("Elman"), "token").shape
    torch.Size([8])
    """
    windows, _, _ = held_out_windows(unit)
    losses = token_losses(model, windows).double()
    if unit == "byte":
        return losses.mean(0).unflatten(0, (N_TOKENS // N_IN_A_ROW, -1)).mean(1) / math.log(2)
    sizes = torch.tensor([len(token.encode()) for token in corpus()[0]])[windows[:, 1:]]
    nats, n_bytes = (x.sum(0).unflatten(0, (-1, N_IN_A_ROW)).sum(1) for x in (losses, sizes))
    return nats / n_bytes / math.log(2)


@torch.no_grad()
def changes_by_distance(model: nn.Module, unit: str) -> Float[Tensor, "distances"]:
    r"""Measure how much the prediction after each test window changes if one token at some distance is another one.

    The token is replaced by a random one of as many bytes, so that models of tokens and of bytes read the same changed
    texts. The change of the prediction is the total variation distance, averaged over the windows:

    .. math:: \frac{1}{2} \sum_v |p(v) - p'(v)|

    Args:
        model, unit: as in :func:`bits_per_byte`.

    Returns:
        The mean change for each of ``DISTANCES``, in tokens; 1 is the last token that the model reads.

    Source: Khandelwal et al. (2018), who change distant tokens too; UCL-14.

    >>> changes = changes_by_distance(small_model("bigram network"), "token")
    >>> changes[0].item() > 0, changes[1:].abs().max().item() < 1e-6
    (True, True)
    """
    before, *after = (
        torch.cat([model(some)[:, -1].softmax(-1) for some in windows.split(32)]) for windows in _changed_windows(unit)
    )
    return torch.stack([(p - before).abs().sum(-1).mean() / 2 for p in after])


@cache
def _changed_windows(unit: str) -> list[Int[Tensor, "windows window"]]:
    """The inputs of the models: as they are, and with another token at each of the distances."""
    vocabulary, training, held_out = corpus()
    ends, generator = torch.tensor(held_out_ends()[:N_CHANGED]), torch.Generator().manual_seed(1)
    windows = windows_ending_at(held_out.ids, ends.tolist(), N_TOKENS - 1)
    sizes = torch.tensor([len(token.encode()) for token in vocabulary])
    of_size = {size: training.ids[sizes[training.ids] == size] for size in sizes.unique().tolist()}
    found = [windows]
    for distance in DISTANCES:
        changed = windows.clone()
        for row in changed:  # as frequent as they are in the text
            same = of_size[int(sizes[row[-distance]])]
            others = same[same != row[-distance]]
            others = others if len(others) else row[-distance, None]
            row[-distance] = others[torch.randint(len(others), (1,), generator=generator)]
        found.append(changed)
    if unit == "token":
        return found
    whole = held_out.bytes[held_out.starts[ends + 1][:, None] + torch.arange(-N_BYTES, 0)]
    texts = [["".join(vocabulary[i] for i in row).encode()[-N_BYTES:] for row in some.tolist()] for some in found]
    return [
        torch.stack(
            [torch.cat((row[: -len(text)], torch.tensor(list(text)))) for row, text in zip(whole, some, strict=True)]
        )
        for some in texts
    ]


def _spaced(words: Iterable[str]) -> list[str]:
    return [f" {word}" for word in words]


GROUPS = {
    "girls": _spaced(grammar.GIRLS[:12]),
    "boys": _spaced(grammar.BOYS[:12]),
    "animals": _spaced(grammar.ANIMALS),
    "colours": _spaced(grammar.COLOURS),
    "food": _spaced(many for _, many in grammar.FOODS),
    "numbers": _spaced(grammar.NUMBERS[1:12]),
    "helpers": _spaced(name.split()[1] for name in grammar.HELPERS if "old" not in name),
    "ways": _spaced(["walked", "ran", "hurried", "went", "rode", "wandered"]),
    "pronouns": _spaced(["he", "she", "him", "her", "his"]) + [" He", " She", " His", " Her"],
}
"""Tokens whose embeddings are stored, in groups that the grammar of the stories gives."""
ANALOGIES = [
    (" he", " him", " she", " her"),
    (" he", " his", " she", " her"),
    (" He", " he", " She", " she"),
    (" boy", " he", " girl", " she"),
    (" was", " were", " is", " are"),
    (" plum", " plums", " pear", " pears"),
    (" three", " four", " six", " seven"),
    (" fast", " slow", " strong", " small"),
]
"""Analogies: the first token is to the second as the third is to the fourth."""
EMBEDDED = ["embedded bigram", "tied bigram", "Bengio", "Elman", "GRU", "LSTM", "Mamba"]
STORED = "Bengio"
"""The models whose embeddings are examined, and the one for whose first seed they are stored."""


def analogy_ranks(table: Float[Tensor, "n_vocab d_embed"]) -> list[tuple[int, int]]:
    r"""Rank the right answer of each analogy: 1 if it is the token whose direction is closest.

    .. math:: \cos(e_v, e_b - e_a + e_c), \quad v \notin \{a, b, c\}

    Args:
        table: the embeddings.

    Returns:
        For each of ``ANALOGIES``, the rank of the answer, and its rank among the neighbours of the third token alone.
        An offset that adds something has the smaller rank.

    Source: Mikolov et al. (2013), "Linguistic Regularities", section 4; UCL-10.

    >>> len(analogy_ranks(torch.randn(len(corpus()[0]), 4))) == len(ANALOGIES)
    True
    """
    vocabulary, _, _ = corpus()
    unit, ranks = F.normalize(table, dim=-1), []
    for words in ANALOGIES:
        a, b, c, d = (vocabulary.index(word) for word in words)
        pair = []
        for direction in (unit[b] - unit[a] + unit[c], unit[c]):
            cosines = unit @ direction
            cosines[[a, b, c]] = -math.inf
            pair.append(int((cosines > cosines[d]).sum()) + 1)
        ranks.append((pair[0], pair[1]))
    return ranks


def neighbours_in_group(table: Float[Tensor, "n_vocab d_embed"]) -> dict[str, float]:
    """Measure the share of each group's tokens whose nearest neighbour among all groups' tokens is in the same group.

    Args:
        table: the embeddings.

    Source: Mikolov et al. (2013), "Linguistic Regularities", section 4; UCL-10.

    >>> list(neighbours_in_group(torch.randn(len(corpus()[0]), 4)))[:2]
    ['girls', 'boys']
    """
    vocabulary, _, _ = corpus()
    tokens = [(vocabulary.index(word), group) for group, words in GROUPS.items() for word in words]
    unit = F.normalize(table[[i for i, _ in tokens]], dim=-1)
    nearest = (unit @ unit.T).fill_diagonal_(-2).argmax(1).tolist()
    same = [(group, tokens[j][1] == group) for (_, group), j in zip(tokens, nearest, strict=True)]
    return {name: sum(hit for group, hit in same if group == name) / len(words) for name, words in GROUPS.items()}


NAME = "before_transformers"
COLUMNS: dict[str, list] = {
    f"{NAME}_tuning": ["model", "max_lr", "n_steps", "loss"],
    f"{NAME}_models": ["model", "unit", "parameters", "reach"],
    f"{NAME}_losses": ["model", "seed", "loss"],
    f"{NAME}_by_position": ["model", "seed", "position", "loss"],
    f"{NAME}_reach": ["model", "seed", "distance", "change"],
    f"{NAME}_curves": ["model", "seed", "step", "loss"],
    f"{NAME}_embeddings": ["group", "token", *range(D_EMBED)],
    f"{NAME}_neighbours": ["model", "seed", "group", "share"],
    f"{NAME}_analogies": ["model", "seed", "analogy", "rank", "rank_without_offset"],
    f"{NAME}_agreement": ["seed", "n_attractors", "unit", "right", "exchanged", "another_exchanged"],
    f"{NAME}_lstm": ["parameter", "row", "column", "value"],
}
"""The columns of each table."""


def experiment(out: Path, seeds: Iterable[int] = range(5), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Run the experiment and write its tables.

    Args:
        out: folder of the tables; it is created if it does not exist.
        seeds: each model is trained once for each seed.
        n_steps: number of training steps of each model.
        n_workers: number of processes, each with one thread. It does not change the tables.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: UCL-10, UCL-12, UCL-14, UCL-15, UCL-16, UCL-09.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    600
    """
    tables, seeds, began = Tables(out, COLUMNS, n_workers), list(seeds), time.monotonic()
    with tables.collecting() as collect:
        tuning = tables.rows[f"{NAME}_tuning"]
        collect(_tuning, [(name, max_lr, max(1, n_steps // 3)) for name in TRAINED for max_lr in MAX_LRS], "tuning")
        collect(_tuning, [(name, max_lr, n_steps) for name in TRAINED for max_lr in _two_best(name, tuning)], "tuning")
        best = best_max_lrs([[name, max_lr, loss] for name, max_lr, steps, loss in tuning if steps == n_steps])
        jobs = [(name, seed, n_steps, best.get(name, 0.0), seed == seeds[0]) for seed in seeds for name in MODELS]
        collect(_trained, jobs, "models")
        lstm_steps = min(n_steps, agreement.N_STEPS)
        collect(_agreement, [(seed, lstm_steps) for seed in seeds], "agreement")
        seed, unit = _clearest(tables.rows[f"{NAME}_agreement"])
        collect(_weights, [(seed, lstm_steps)], "weights")
    stored = [["lstm_seed", seed], ["number_unit", unit]]
    tables.write_settings(f"{NAME}_experiment", [*_settings(n_steps), *stored], seeds, time.monotonic() - began)


def _tuning(job: tuple[str, float, int]) -> Rows:
    name, max_lr, n_steps = job
    try:
        _, curve = run(name, TUNING_SEED, n_steps, max_lr)
        loss = curve[-1][1]
    except FloatingPointError:  # the learning rate was too high
        loss = math.inf
    return {f"{NAME}_tuning": [[name, max_lr, n_steps, f"{loss:.4f}"]]}


def _two_best(name: str, tuning: list[list]) -> list[float]:
    """The two rates with which a model did best in the short runs, for the long ones: a rate may diverge late."""
    losses = {max_lr: float(loss) for model, max_lr, _, loss in tuning if model == name}
    return sorted(losses, key=lambda max_lr: losses[max_lr])[:2]


def _trained(job: tuple[str, int, int, float, bool]) -> Rows:
    """Train and measure one model; return the rows of each table."""
    name, seed, n_steps, max_lr, first = job
    unit, reach, build = MODELS[name]
    model, curve = run(name, seed, n_steps, max_lr)
    positions = enumerate(losses_by_position(model, unit).tolist())
    changes = zip(DISTANCES, changes_by_distance(model, unit).tolist(), strict=True)
    rows = {
        f"{NAME}_losses": [[name, seed, f"{bits_per_byte(model, unit):.4f}"]],
        f"{NAME}_by_position": [[name, seed, i * N_IN_A_ROW, f"{x:.4f}"] for i, x in positions],
        f"{NAME}_reach": [[name, seed, distance, f"{x:.5f}"] for distance, x in changes],
        f"{NAME}_curves": [[name, seed, step, f"{x:.4f}"] for step, x in curve] if build else [],
    }
    if first:
        n_parameters = sum(p.numel() for p in model.parameters()) or len(corpus()[0]) ** ((reach or 0) + 1)
        rows[f"{NAME}_models"] = [[name, unit, n_parameters, reach]]
    if name in EMBEDDED:
        table = model.get_submodule("embedding").get_parameter("weight").detach()
        shares, ranks = neighbours_in_group(table).items(), zip(ANALOGIES, analogy_ranks(table), strict=True)
        rows[f"{NAME}_neighbours"] = [[name, seed, group, f"{share:.3f}"] for group, share in shares]
        rows[f"{NAME}_analogies"] = [[name, seed, ":".join(words).replace(" ", ""), *pair] for words, pair in ranks]
        if first and name == STORED:
            group_of = {word: "other" for words in ANALOGIES for word in words}
            group_of |= {word: group for group, words in GROUPS.items() for word in words}
            stored = [(group, word, table[corpus()[0].index(word)].tolist()) for word, group in group_of.items()]
            rows[f"{NAME}_embeddings"] = [[g, word.strip(), *(f"{x:.2f}" for x in row)] for g, word, row in stored]
    return rows


def _agreement(job: tuple[int, int]) -> Rows:
    """How the small LSTM of one seed does, and what the exchange of its number unit, and of any other, changes."""
    seed, n_steps = job
    model = agreement.small_lstm(seed, n_steps)
    unit, rows = agreement.number_unit(model), []
    for n_attractors in range(1, 5):
        right, after = agreement.right_verbs(model, n_attractors)
        others = float(torch.cat((after[:unit], after[unit + 1 :])).min())
        rows.append([seed, n_attractors, unit, f"{right:.3f}", f"{after[unit].item():.3f}", f"{others:.3f}"])
    return {f"{NAME}_agreement": rows}


def _clearest(rows: list[list]) -> tuple[int, int]:
    """The seed with the clearest number unit, and this unit: the verb is right but for an exchange of this unit."""
    scores: dict[tuple[int, int], float] = {}
    for seed, _, unit, right, exchanged, others in rows:
        scores[seed, unit] = scores.get((seed, unit), 0.0) + float(right) - float(exchanged) + float(others)
    return max(scores, key=lambda pair: scores[pair])


def _weights(job: tuple[int, int]) -> Rows:
    return {f"{NAME}_lstm": agreement.weights(agreement.small_lstm(*job))}


def _settings(n_steps: int) -> list[list]:
    vocabulary, training, held_out = corpus()
    return [
        ["command", f"python -m llm_anatomy experiment {NAME}"],
        ["d_embed", D_EMBED],
        ["d_hidden", D_HIDDEN],
        ["n_ctx", N_CTX],
        ["d_mamba", D_MAMBA],
        ["d_state", D_STATE],
        ["patch_size", PATCH_SIZE],
        ["n_vocab", len(vocabulary)],
        ["n_tokens", N_TOKENS],
        ["n_bytes", N_BYTES],
        ["n_steps", n_steps],
        ["batch_size", BATCH_SIZE],
        ["max_lrs", " ".join(map(str, MAX_LRS))],
        ["tuning_seed", TUNING_SEED],
        ["tuning_steps", max(1, n_steps // 3)],
        ["training_tokens", len(training.ids)],
        ["training_bytes", len(training.bytes)],
        ["held_out_tokens", len(held_out.ids)],
        ["test_windows", len(held_out_ends())],
        ["scored_tokens", N_SCORED],
        ["reach_threshold", REACH_THRESHOLD],
    ]
