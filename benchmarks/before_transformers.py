"""Training time against context length: the models before the Transformer beside attention.

    python benchmarks/before_transformers.py [--out FOLDER]

The loss and its gradient for 2,048 tokens, cut into sequences of a given length, so that a model whose cost is linear
in the length takes the same time in each column. Models have one layer and about the same width; all read a vocabulary
of 256, so that the last layer weighs little. The peer is a decoder of one layer with causal attention, and each ratio
is a model's time over the peer's at the same length. The last column is the model's own time at the longest length
over that at the shortest, in the same round: 1 is linear growth. With ``--out``, the table is written to
``FOLDER/before-transformers-cpu.md`` too.
"""

import argparse
import statistics
from pathlib import Path

import torch
import torch.nn.functional as F
from measure import arguments, once, take_turns

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.recurrent import ElmanCell, GRUCell, LSTMCell
from llm_anatomy.models.before_transformers import (
    BigramNetwork,
    EmbeddedBigramNetwork,
    MambaLM,
    MegaByte,
    NeuralProbabilisticLM,
    RecurrentLM,
)
from llm_anatomy.models.transformer import Transformer

N_VOCAB, WIDTH, N_TOKENS, LENGTHS, PEER = 256, 64, 2048, (64, 256, 1024, 2048), "attention"


def models(n_ctx):
    """The contestants by name; Bengio's network has the whole length as its context, or eight tokens."""
    parts = dict(n_layers=1, n_vocab=N_VOCAB, norm="rmsnorm", feedforward="gelu")
    sizes = dict(d_model=WIDTH, n_heads=4, d_ff=4 * WIDTH) | parts
    recurrent = {"Elman": ElmanCell, "GRU": GRUCell, "LSTM": LSTMCell}
    return {
        PEER: Transformer(ModelConfig.of(sizes | {"position": "rope"})),
        "bigram": BigramNetwork(N_VOCAB, WIDTH),
        "embedded bigram": EmbeddedBigramNetwork(N_VOCAB, WIDTH, WIDTH),
        "Bengio, context 8": NeuralProbabilisticLM(N_VOCAB, 8, WIDTH, WIDTH),
        "Bengio, context n": NeuralProbabilisticLM(N_VOCAB, n_ctx, WIDTH, WIDTH) if n_ctx <= 256 else None,
        **{name: RecurrentLM(cell, N_VOCAB, WIDTH, WIDTH, fused=True) for name, cell in recurrent.items()},
        "LSTM, step by step": RecurrentLM(LSTMCell, N_VOCAB, WIDTH, WIDTH),
        "Mamba": MambaLM(N_VOCAB, WIDTH, 1),
        "MegaByte": MegaByte(ModelConfig.of(sizes | {"n_ctx": n_ctx}), ModelConfig.of(sizes), 8),
    }


def step(model, ids):
    """What gives the seconds of one loss with its gradient."""

    def loss(ids):
        return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    return lambda: once(loss, [ids], backward=True)


def cell(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--out", type=Path, help="folder for the table")
    given = arguments(__doc__, where)
    torch.set_num_threads(1)
    contestants = {}
    for n in LENGTHS:
        ids = torch.randint(0, N_VOCAB, (N_TOKENS // n, n + 1), device=given.device)
        for name, model in models(n).items():
            if model is not None:
                contestants[name, n] = step(model.to(given.device), ids)
                contestants[name, n]()
    times = take_turns(contestants, given.rounds)
    lines = [
        f"| model | {' | '.join(f'{n} tokens' for n in LENGTHS)} | {LENGTHS[-1]} over {LENGTHS[0]} |",
        "| --- |" + " --- |" * (len(LENGTHS) + 1),
    ]
    for name in models(LENGTHS[0]):
        found = [times.get((name, n)) for n in LENGTHS]
        peers = [times[PEER, n] for n in LENGTHS]
        over = [
            cell([a / b for a, b in zip(*pair, strict=True)]) if pair[0] else "—"
            for pair in zip(found, peers, strict=True)
        ]
        if name == PEER:
            over = [f"{statistics.median(seconds) * 1e3:,.0f} ms" for seconds in peers]
        growth = cell([a / b for a, b in zip(found[-1], found[0], strict=True)]) if found[-1] else "—"
        lines.append(f"| {name} | {' | '.join(over)} | {growth} |")
        print(lines[-1], flush=True)
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        head = (
            f"Loss and gradient of {N_TOKENS:,} tokens in sequences of a given length, on one thread: time over that "
            f"of one layer of attention at the same length, median of {given.rounds} rounds [quartiles]. The row of "
            "attention has its own times. The last column is a model's own growth.\n\n"
        )
        (given.out / "before-transformers-cpu.md").write_text(head + "\n".join(lines) + "\n")
