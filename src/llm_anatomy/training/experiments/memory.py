r"""The memory experiment: a model sees one symbol, then noise, and must say at the end which symbol it was.

    python -m llm_anatomy experiment memory

The right answer is known, so that a model's memory is measured and nothing else: without memory, one answer in four is
right. Every model is trained with each of ``MAX_LRS``, from the same seeds, on the same examples. The command writes
the tables ``memory_accuracies`` and ``memory_experiment`` of :mod:`llm_anatomy.data`.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.layers.embeddings import TokenEmbedding, Unembedding
from llm_anatomy.layers.recurrent import ElmanCell, GRUCell, LSTMCell, Recurrent
from llm_anatomy.layers.state_space import MambaBlock
from llm_anatomy.shapes import Float, Int, Tensor
from llm_anatomy.training.experiments.runs import Rows, Tables

N_SYMBOLS, N_NOISE = 4, 3
D_EMBED, D_HIDDEN = 12, 24
DISTANCES = (10, 20, 40)
MAX_LRS = (0.01, 0.03)
N_STEPS, BATCH_SIZE, N_TEST = 300, 32, 1000
OPEN = 3.0
"""The bias of a gate that is open at first: it keeps about 95 % of its state at each token."""


def examples(
    n: int, distance: int, generator: torch.Generator
) -> tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch"]]:
    """Draw sequences of one symbol and so many tokens of noise, and the symbols as answers.

    Args:
        n: number of sequences.
        distance: number of tokens after the symbol.
        generator: source of randomness.

    Source: Hochreiter and Schmidhuber (1997), section 5, whose tasks have long lags too; UCL-15.

    >>> ids, answers = examples(2, 5, torch.Generator().manual_seed(0))
    >>> tuple(ids.shape), bool((ids[:, 0] == answers).all()), bool((ids[:, 1:] >= N_SYMBOLS).all())
    ((2, 6), True, True)
    """
    symbols = torch.randint(N_SYMBOLS, (n,), generator=generator)
    noise = N_SYMBOLS + torch.randint(N_NOISE, (n, distance), generator=generator)
    return torch.cat((symbols[:, None], noise), 1), symbols


class SymbolReader(nn.Module):
    """A layer that reads tokens, and scores each symbol after the last one.

    Args:
        layer: maps (batch, tokens, ``d_embed``) to the outputs at each token, and a state.
        d_embed, d_output: widths of what the layer reads and of its outputs.

    Source: Hochreiter and Schmidhuber (1997), section 5; UCL-15.

    >>> reader = SymbolReader(Recurrent(GRUCell, 3, 5), d_embed=3, d_output=5)
    >>> tuple(reader(torch.tensor([[0, 4, 4, 5]])).shape)
    (1, 4)
    """

    def __init__(self, layer: nn.Module, d_embed: int = D_EMBED, d_output: int = D_HIDDEN):
        super().__init__()
        self.embedding = TokenEmbedding(N_SYMBOLS + N_NOISE, d_embed)
        nn.init.normal_(self.embedding.weight)
        self.layer = layer
        self.unembedding = Unembedding(TokenEmbedding(N_SYMBOLS, d_output))

    def forward(self, ids: Int[Tensor, "batch tokens"]) -> Float[Tensor, "batch n_symbols"]:
        outputs, _ = self.layer(self.embedding(ids))
        return self.unembedding(outputs[:, -1:])[:, 0]


def _recurrent(cell: type, open_gate: bool = False, orthogonal: bool = False) -> SymbolReader:
    layer = Recurrent(cell, D_EMBED, D_HIDDEN, fused=True)
    with torch.no_grad():
        if open_gate:  # the second gate is the forget gate of the LSTM and the update gate of the GRU
            layer.cells[0].bias_hh[D_HIDDEN : 2 * D_HIDDEN] = OPEN
        if orthogonal:
            nn.init.orthogonal_(layer.cells[0].weight_hh)
    return SymbolReader(layer)


MODELS: dict[str, Callable[[], SymbolReader]] = {
    "Elman": lambda: _recurrent(ElmanCell),
    "Elman, orthogonal": lambda: _recurrent(ElmanCell, orthogonal=True),
    "LSTM": lambda: _recurrent(LSTMCell),
    "LSTM, gate open": lambda: _recurrent(LSTMCell, open_gate=True),
    "GRU": lambda: _recurrent(GRUCell),
    "GRU, gate open": lambda: _recurrent(GRUCell, open_gate=True),
    "Mamba": lambda: SymbolReader(MambaBlock(D_EMBED, d_state=8), d_output=D_EMBED),
}
"""How each model is built. Apart from what its name says, it starts as PyTorch or the paper has it."""


def run(
    model: nn.Module,
    distance: int,
    seed: int = 0,
    n_steps: int = N_STEPS,
    *,
    max_lr: float = MAX_LRS[0],
    max_grad_norm: float = 1.0,
    optimizer: type[torch.optim.Optimizer] = torch.optim.Adam,
) -> float:
    """Train a model to remember, and return the share of right answers on new examples.

    Args:
        model: maps ids (batch, tokens) to a score for each symbol.
        distance: number of tokens after the symbol.
        seed: seed of the examples.
        n_steps: number of training steps.
        max_lr: the learning rate, which falls linearly to zero.
        max_grad_norm: gradients with a larger norm are clipped to it.
        optimizer: its class.

    Source: Pascanu et al. (2013), section 3.2 (clipping); UCL-15.

    >>> torch.manual_seed(0) and None
    >>> run(MODELS["GRU"](), distance=2, n_steps=60, max_lr=0.03)
    1.0
    """
    generator = torch.Generator().manual_seed(seed)
    descent = optimizer(model.parameters(), lr=max_lr)  # type: ignore[call-arg]
    for step in range(n_steps):
        descent.param_groups[0]["lr"] = max_lr * (1 - step / n_steps)
        ids, answers = examples(BATCH_SIZE, distance, generator)
        loss = F.cross_entropy(model(ids), answers)
        descent.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
        descent.step()
    ids, answers = examples(N_TEST, distance, generator)
    with torch.no_grad():
        return (model(ids).argmax(-1) == answers).float().mean().item()


COLUMNS = {"memory_accuracies": ["model", "distance", "max_lr", "seed", "accuracy"]}
"""The columns of each table."""


def experiment(out: Path, seeds: Iterable[int] = range(5), n_steps: int = N_STEPS, n_workers: int = 1) -> None:
    """Run the experiment and write its tables.

    Args:
        out: folder of the tables; it is created if it does not exist.
        seeds: each model is trained once for each seed, distance and learning rate.
        n_steps: number of training steps of each model.
        n_workers: number of processes, each with one thread. It does not change the tables.

    Raises:
        ValueError: if ``n_workers`` is below 1.

    Source: UCL-15, UCL-16.

    >>> from inspect import signature
    >>> signature(experiment).parameters["n_steps"].default
    300
    """
    tables, seeds, began = Tables(out, COLUMNS, n_workers), list(seeds), time.monotonic()
    jobs = [
        (name, distance, max_lr, seed, n_steps)
        for distance in DISTANCES
        for name in MODELS
        for max_lr in MAX_LRS
        for seed in seeds
    ]
    with tables.collecting() as collect:
        collect(_trained, jobs, "models")
    sizes = dict(n_symbols=N_SYMBOLS, n_noise=N_NOISE, d_embed=D_EMBED, d_hidden=D_HIDDEN, open_bias=OPEN)
    sizes |= dict(n_steps=n_steps, batch_size=BATCH_SIZE, n_test=N_TEST)
    settings = [["command", "python -m llm_anatomy experiment memory"], *map(list, sizes.items())]
    tables.write_settings("memory_experiment", settings, seeds, time.monotonic() - began)


def _trained(job: tuple[str, int, float, int, int]) -> Rows:
    name, distance, max_lr, seed, n_steps = job
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MODELS[name]()
    accuracy = run(model, distance, seed, n_steps, max_lr=max_lr)
    return {"memory_accuracies": [[name, distance, max_lr, seed, f"{accuracy:.3f}"]]}
