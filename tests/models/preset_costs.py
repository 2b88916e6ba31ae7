"""Make ``data/preset_costs.csv``: after changes, ``PYTHONPATH=src:tests python -m models.preset_costs``."""

import csv
import dataclasses
from pathlib import Path

import llm_anatomy.data
from llm_anatomy.models.costs import costs
from llm_anatomy.models.presets import Preset, presets

TEXT = 2048
"""Tokens of the text in which operations are counted; half of them are source tokens in an encoder-decoder."""
FILE = Path(llm_anatomy.data.__file__).with_name("preset_costs.csv")


def row(preset: Preset) -> dict[str, object]:
    """The row of a preset: what it is, and what its parameters, cache and operations come to for each token."""
    config = preset.config()
    n_source = {"n_source": TEXT // 2} if config.kind == "encoder-decoder" else {}
    n_tokens = TEXT - n_source.get("n_source", 0)
    longer = dataclasses.replace(config, n_ctx=None if config.n_ctx is None else max(config.n_ctx, TEXT))
    counted, own = costs(longer, n_tokens, **n_source).total, costs(config, 1, **dict.fromkeys(n_source, 1)).total
    return {
        "preset": preset.name,
        "title": preset.title,
        "year": preset.year,
        "kind": config.kind,
        "norm": config.norm,
        "norm_placement": config.norm_placement,
        "position": config.position,
        "feedforward": config.feedforward,
        "parallel_block": int(config.parallel_block),
        "attention": config.attention,
        "n_heads": config.n_heads,
        "n_kv_heads": config.n_kv_heads,
        "n_experts": config.moe.n_experts if config.moe else 0,
        "n_parameters": own.n_parameters,
        "n_active": own.n_active,
        "n_cached": own.n_cached // (1 + len(n_source)),
        "flops": counted.flops // TEXT,
        "flops_training": (counted.flops + counted.flops_backward) // TEXT,
    }


def known() -> list[Preset]:
    """The presets that have a config."""
    return [preset for preset in presets().values() if preset.known]


if __name__ == "__main__":
    rows = [row(preset) for preset in known()]
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
