"""From a budget to a config: parameters, context and memory decide the sizes of a decoder."""

import torch

from llm_anatomy.data import table
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider
from llm_anatomy.notebook.widgets.cost_calculator import _readable

CONTEXTS = [2**n for n in range(9, 18)]
MEMORIES = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 40.0, 80.0, 141.0, 160.0, 320.0, 640.0]
"""In gigabytes: those of the table ``hardware`` among them."""
BATCHES = [1, 2, 4, 8, 16, 32, 64]
OWN = ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "d_head", "tied")
SIZES = (*OWN, "n_parameters", "n_cached", "flops", "flops_per_key")
"""The fields of a config, and with them the columns of the table of choices."""


def _written(number: int) -> str:
    """Write a budget in millions or billions.

    >>> _written(30_000_000), _written(7_000_000_000)
    ('30 M', '7 B')
    """
    return f"{number // 10**9} B" if number >= 10**9 else f"{number // 10**6} M"


class BudgetToConfig(Widget):
    """Choose the config of a decoder for a number of parameters, a context and a memory, and see why.

    The configs are those of :func:`llm_anatomy.models.choosing.choose_architecture` for a vocabulary of 32,000 tokens,
    from the table ``architecture_choices``; the reasons are in the table ``architecture_reasons``. Width and depth
    follow from the number of parameters, and as many heads have keys and values of their own as fit into the memory,
    with two bytes for each number.

    Args:
        budget: number of parameters, one of those in the table.
        n_ctx: number of tokens of a text, a power of two from 512 to 131,072.
        memory: gigabytes for weights and cache.
        batch: number of texts that are generated together.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a budget that the table does not have.

    Source: CMU-01, CMU-21; Narang et al. (2021), table 1.

    >>> BudgetToConfig(7_000_000_000, n_ctx=32768, memory=24.0)  # doctest: +NORMALIZE_WHITESPACE, +ELLIPSIS
    About 7 B parameters, 1 text of 32768 tokens, 24.00 GB of memory: 33 layers of width 4096, 32 heads, 16 of them with
    keys and values of their own, d_ff 12544. Weights take 14.02 GB and the cache 8.86 GB, which fits. Why d_model: ...
    """

    sentence = (
        "About {budgets[budget]} parameters, {batch} {several|text|texts} of {n_ctx} tokens, {memory:.2f} "
        "GB of memory: {n_layers:.0f} layers of width {d_model:.0f}, {n_heads:.0f} heads, {n_kv_heads:.0f} "
        "of them with keys and values of their "
        "own, d_ff {d_ff:.0f}. Weights take {weights:.2f} GB and the cache {cache:.2f} GB, "
        "{fits|which does not fit|which fits}. Why {reason}: {reasons[reason]}"
    )

    def __init__(
        self,
        budget: int = 7_000_000_000,
        n_ctx: int = 32768,
        memory: float = 24.0,
        batch: int = 1,
        *,
        caption: str = "",
    ):
        rows = table("architecture_choices")
        budgets = list(dict.fromkeys(row["budget"] for row in rows))
        if budget not in budgets:
            raise ValueError(f"{budget=}; it must be one of {', '.join(map(str, budgets))}")
        of_budget = [[row for row in rows if row["budget"] == one] for one in budgets]
        most = max(map(len, of_budget))
        nan = [float("nan")] * len(SIZES)
        self.choices = torch.tensor(
            [
                [[float(row[name]) for name in SIZES] for row in found] + [nan] * (most - len(found))
                for found in of_budget
            ]
        )  # (budgets, numbers of key-value heads, sizes)
        most_heads = max(row["n_heads"] for row in rows)
        said = table("architecture_reasons")
        super().__init__(
            caption=caption,
            data={
                "budgets": [_written(one) for one in budgets],
                "hues": ["key", "query"],
                "heads": ["", *(str(n) for n in range(1, most_heads + 1))],
                "reasons": [
                    f"{row['reason']} (Chapter {row['chapter']})".replace("{tied}", "{tied|no|yes}") for row in said
                ],
            },
            budget=Choice([_written(one) for one in budgets], _written(budget), label="parameters"),
            n_ctx=Slider(n_ctx, values=CONTEXTS, label="tokens of a text"),
            batch=Slider(batch, values=BATCHES, label="texts at once"),
            memory=Slider(memory, values=MEMORIES, digits=2, label="memory in GB"),
            reason=Choice([row["field"] for row in said], label="why"),
        )

    def compute(self, budget, n_ctx, batch, memory, reason):
        own = self.choices.index_select(0, budget[None])[0]
        weights, caches = 2 * own[:, 7] / 1e9, 2 * own[:, 8] / 1e9 * n_ctx * batch
        totals = weights + caches
        fitting = totals <= memory
        fewest = (~totals.isnan()).sum() - 1
        at = torch.where(fitting.any(), fitting.int().argmax(), fewest)
        chosen = own.index_select(0, at[None])[0]
        sizes = dict(zip(SIZES, chosen.unbind(), strict=True))
        found = {name: sizes[name] for name in OWN}
        operations = sizes["flops"] + sizes["flops_per_key"] * n_ctx
        return found | _readable("count", sizes["n_parameters"]) | _readable("operations", operations) | {
            "aspect": (sizes["d_model"] / sizes["n_layers"]).round(),
            "weights": weights.index_select(0, at[None])[0], "cache": caches.index_select(0, at[None])[0],
            "fits": fitting.any(), "totals": totals, "all_weights": weights, "options": own[:, 3],
            "chosen": (torch.arange(len(own)) == at).int(), "several": batch > 1,
            "high": 1.25 * torch.maximum(totals.nan_to_num().amax(), memory),
        }  # fmt: skip

    def marks(self):
        bars = m.plot(
            m.bars("totals", across=True, hue="@hues[chosen]"),
            m.bars("all_weights", across=True, hue="normalization"),
            m.rule(x="memory", hue="position"),
            x=m.axis(0, "high", "GB"), y=m.axis(labels="heads[options]"),
            title="Memory for each number of key-value heads",
            hint="grey: weights; orange: cache; blue: that of the choice; dashed: the memory", height=250,
        )  # fmt: skip
        facts = {
            "width, d_model": "{d_model:.0f}", "layers, n_layers": "{n_layers:.0f}", "heads, n_heads": "{n_heads:.0f}",
            "key-value heads, n_kv_heads": "{n_kv_heads:.0f}", "feed-forward width, d_ff": "{d_ff:.0f}",
            "parameters": "{count:.2f} {count_unit||k|M|B|T}", "weights": "{weights:.2f} GB",
            "cache": "{cache:.2f} GB", "FLOPs of a token": "{operations:.1f} {operations_unit||k|M|G|T}",
        }  # fmt: skip
        fits = m.note("{fits|This does not fit into the memory, even if all heads share their keys and values.|}")
        command = "python -m llm_anatomy train run.yaml " + " ".join(
            f"--model.{name} {value}"
            for name, value in {
                "d_model": "{d_model:.0f}", "n_layers": "{n_layers:.0f}", "n_heads": "{n_heads:.0f}",
                "n_kv_heads": "{n_kv_heads:.0f}", "d_ff": "{d_ff:.0f}", "tie_embeddings": "{tied|false|true}",
                "position": "rope", "norm": "rmsnorm", "feedforward": "swiglu",
            }.items()
        )  # fmt: skip
        return [
            "budget", m.row("n_ctx", "memory"), "batch", bars, fits, m.facts(**facts), "reason",
            m.note("{reasons[reason]}"), m.note(command, code=True),
        ]  # fmt: skip
