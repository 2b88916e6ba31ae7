"""Make ``data/architecture_choices.csv``: after changes, run ``PYTHONPATH=src:tests python -m
models.architecture_choices``."""

import csv
from pathlib import Path

import llm_anatomy.data
from llm_anatomy.models.choosing import TOLERANCE, _config, _divisors, _shapes
from llm_anatomy.models.costs import costs

BUDGETS = [int(n) for n in (1e7, 3e7, 1e8, 3e8, 1e9, 3e9, 7e9, 13e9, 30e9, 70e9)]
N_VOCAB, N_CTX = 32000, 2048
FILE = Path(llm_anatomy.data.__file__).with_name("architecture_choices.csv")


def rows(budget: int) -> list[dict[str, object]]:
    """The usual shape for a budget with each number of key-value heads, the largest first."""
    shape, found = _shapes(budget, N_VOCAB)[0], []
    for n_kv_heads in _divisors(shape.n_heads):
        config = _config(shape, n_kv_heads, budget, N_CTX, N_VOCAB)
        counted = costs(config, 1).total
        assert abs(counted.n_parameters / budget - 1) <= TOLERANCE
        per_key = 4 * config.n_layers * config.d_model
        found.append(
            {
                "budget": budget,
                "d_model": config.d_model,
                "n_layers": config.n_layers,
                "n_heads": config.n_heads,
                "n_kv_heads": config.n_kv_heads,
                "d_head": config.d_head,
                "d_ff": config.d_ff,
                "tied": int(config.tie_embeddings),
                "n_parameters": counted.n_parameters,
                "n_cached": counted.n_cached,
                "flops": counted.flops - per_key,
                "flops_per_key": per_key,
            }
        )
    return found


if __name__ == "__main__":
    every = [row for budget in BUDGETS for row in rows(budget)]
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, every[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(every)
