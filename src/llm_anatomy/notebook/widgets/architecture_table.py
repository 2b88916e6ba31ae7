"""The table of architectures: models sorted and filtered, two of them compared, and what training them would cost."""

import torch

from llm_anatomy.data import table
from llm_anatomy.layers.feedforward import GATES
from llm_anatomy.notebook.block_diagrams import ACTIVATIONS, NORMS
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget, fixed
from llm_anatomy.notebook.widgets.controls import Choice, Slider
from llm_anatomy.notebook.widgets.cost_calculator import _COLUMNS, _readable

MODELS = {
    "transformer-base": "Transformer", "gpt": "GPT", "bert-base": "BERT", "gpt-2-xl": "GPT-2", "t5-11b": "T5",
    "gpt-3": "GPT-3", "mt5-xxl": "mT5", "t5-v1.1-xxl": "T5 v1.1", "gpt-j": "GPT-J", "gopher": "Gopher",
    "chinchilla": "Chinchilla", "palm-540b": "PaLM", "gpt-neox": "GPT-NeoX", "opt-175b": "OPT", "bloom": "BLOOM",
    "llama-65b": "LLaMA", "mpt-7b": "MPT", "falcon-7b": "Falcon", "llama-2-70b": "Llama 2", "qwen-14b": "Qwen",
    "stablelm-3b": "StableLM", "mistral-7b": "Mistral", "deepseek-67b": "DeepSeek", "yi-34b": "Yi", "olmo-7b": "OLMo",
    "starcoder2-3b": "StarCoder2", "gemma-7b": "Gemma", "command-r": "Command R", "llama-3-8b": "Llama 3",
    "phi-3-mini-4k": "Phi-3", "deepseek-v2": "DeepSeek-V2", "llama-3.1-405b": "Llama 3.1", "gemma-2-9b": "Gemma 2",
    "granite-3.0-2b": "Granite 3.0", "gemma-3-1b": "Gemma 3", "qwen3-30b-a3b": "Qwen3", "smollm3-3b": "SmolLM3",
    "gpt-oss-20b": "gpt-oss", "olmo-3-7b": "OLMo 3",
}  # fmt: skip
"""The presets of the table in the order in which they appeared, and how they are called there."""
POSITIONS = {
    "none": "none", "sinusoidal": "sinusoidal", "learned": "learned", "rope": "RoPE", "alibi": "ALiBi",
    "falcon_alibi": "ALiBi", "t5": "T5 bias", "shaw": "Shaw", "transformer_xl": "XL style", "deberta": "DeBERTa",
    "deberta_v2": "DeBERTa", "tupe": "TUPE",
}  # fmt: skip
GATED = {*GATES, "clamped_swiglu"}
SORTS = ("year", "parameters", "cache", "FLOPs", "price")
ROWS = ("model", "year", "kind", "norm", "norm placement", "positions", "feed-forward", "experts", "block", "attention",
        "parameters", "active parameters", "cache of a token", "FLOPs of a token", "training tokens")  # fmt: skip
KINDS = ("norm_kind", "position_kind", "feedforward_kind", "attention_kind")
DESIGNS = ROWS[2:10]
TICKS = [10.0**n for n in range(-3, 6)]
PRICES = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]


def _short(number: float | int, units: str = "kMBT") -> str:
    """Write a number with a decimal and a unit, three digits from 100 on.

    >>> _short(65285660672), _short(2621440, "kMGT"), _short(135e9, "kMGT"), _short(0)
    ('65.3 B', '2.6 M', '135 G', '0')
    """
    unit = 0
    while number >= 999.5 and unit < len(units):
        number, unit = number / 1000, unit + 1
    return f"{fixed(number, 0 if number >= 99.95 or not unit else 1)} {units[unit - 1] if unit else ''}".strip()


def _attention(row: dict) -> str:
    if row["attention"] == "latent":
        return "latent"
    if row["n_kv_heads"] == row["n_heads"]:
        return "multi-head"
    return "multi-query" if row["n_kv_heads"] == 1 else f"grouped, {row['n_heads']}:{row['n_kv_heads']}"


_HOURS, _DOLLARS = (f"{{{name}_@:.1f}} {{{name}_@_unit||k|M|B|T}}" for name in ("hours", "dollars"))
_SPENT = (
    "{priced_@|the training of {titles[@]} has no price, since its tokens are unknown|"
    f"the training of {{titles[@]}} takes {_HOURS} hours and {_DOLLARS} dollars}}"
)


class ArchitectureTable(Widget):
    r"""Sort and filter the architectures of published models, and compare two of them.

    The designs, parameters, caches and operations are those of the table ``preset_costs``: operations of the forward
    pass for each token of a text of 2,048 tokens, and the cache of a token in 16 bits over all layers. In an
    encoder-decoder, half of the tokens are source tokens. Windows reduce neither number: every key is counted, masked
    or not. The position scheme is that of the layers that have one. Training takes

    .. math:: \mathrm{hours} = \frac{\mathrm{FLOPs\ of\ a\ token}\cdot\mathrm{tokens}}
        {3600 \cdot \mathrm{peak} \cdot \mathrm{utilization}}

    processor hours, with the operations of forward and backward pass, and the tokens of the table ``training_tokens``,
    for the models of which they are public. The price is that of one final run; data, trials and people come besides.

    Args:
        first, second: presets to compare.
        sort: by ``"year"``, ``"parameters"``, ``"cache"``, ``"FLOPs"`` or ``"price"``.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a preset that the table does not have.

    Source: GT-43, GT-44, whose two tables it rebuilds with what has been released until 2025; GT-11.

    >>> ArchitectureTable("gpt-3", "llama-65b").differences()[:2]
    [('year', '2020', '2023'), ('norm', 'LayerNorm', 'RMSNorm')]
    """

    sentence = (
        "{n_shown:.0f} of {n} models, sorted by {sort}: [[{titles[shown]}]]. {titles[first]} beside {titles[second]}: "
        "{n_differences:.0f} of {n_designs} choices of design differ. On {hardware} at {utilization} % of the peak and "
        f"{{price:.1f}} dollars an hour, {_SPENT.replace('@', 'first')}, and {_SPENT.replace('@', 'second')}."
    )

    def __init__(
        self, first: str = "transformer-base", second: str = "llama-65b", sort: str = "year", *, caption: str = ""
    ):
        for name, preset in {"first": first, "second": second}.items():
            if preset not in MODELS:
                raise ValueError(f"{name}={preset!r}; it must be one of {', '.join(MODELS)}")
        counted = {row["preset"]: row for row in table("preset_costs")}
        tokens = {row["preset"]: float(row["tokens"]) for row in table("training_tokens")}
        released = {row["preset"]: int(row["month"][:4]) for row in table("model_timeline")}
        rows = [counted[name] | {"year": released.get(name, counted[name]["year"])} for name in MODELS]
        self.rows = [self._words(row, tokens.get(row["preset"])) for row in rows]
        columns = ("n_parameters", "n_cached", "flops", "flops_training")
        numbers = [[float(row[name]) for name in columns] + [tokens.get(row["preset"], 0.0)] for row in rows]
        self.numbers = torch.tensor(numbers)  # (models, columns and tokens)
        kinds = [
            (
                "rmsnorm" in row["norm"],
                0 if row["position"] in ("sinusoidal", "learned") else 1 if row["position"] == "rope" else 2,
                row["feedforward"] in GATED,
                0 if _attention(row) == "multi-head" else 2 if row["attention"] == "latent" else 1,
            )
            for row in rows
        ]
        self.kinds = torch.tensor([[int(kind) for kind in row] for row in kinds])
        designs = [[words[name] for name in DESIGNS] for words in self.rows]
        every = [sorted({design[i] for design in designs}) for i in range(len(DESIGNS))]
        self.designs = torch.tensor([[every[i].index(word) for i, word in enumerate(design)] for design in designs])
        hardware = table("hardware")
        self.peaks = torch.tensor([float(row[_COLUMNS[0]]) for row in hardware])
        names = list(MODELS)
        super().__init__(
            caption=caption,
            data={
                "n": len(rows),
                "n_designs": len(DESIGNS),
                "names": ["", *(f"{n} {MODELS[name]}" for n, name in enumerate(MODELS, 1))],
                "titles": ["", *(row["title"] for row in rows)],
                **{name: ["", *(words[name] for words in self.rows)] for name in ("norm", "positions")},
                "feed_forward": ["", *(words["feed-forward"] for words in self.rows)],
                "compared": [[], *([words[name] for name in ROWS] for words in self.rows)],
                "labels": list(ROWS),
                "hues": ["none", "query", "key"],
            },
            sort=Choice(SORTS, sort, label="sorted by"),
            norm_kind=Choice(["all", "LayerNorm", "RMSNorm"], label="norm"),
            position_kind=Choice(["all", "added", "RoPE", "others"], label="positions"),
            feedforward_kind=Choice(["all", "plain", "gated"], label="feed-forward"),
            attention_kind=Choice(["all", "multi-head", "shared K, V", "latent"], label="attention"),
            first=Slider(names.index(first) + 1, 1, len(rows), label="first", hue="query"),
            second=Slider(names.index(second) + 1, 1, len(rows), label="second", hue="key"),
            hardware=Choice([row["name"] for row in hardware], "A100", label="processor"),
            utilization=Slider(40, 5, 100, step=5, label="% of peak"),
            price=Slider(2.0, values=PRICES, digits=1, label="dollars an hour"),
        )

    @staticmethod
    def _words(row: dict, tokens: float | None) -> dict[str, str]:
        """What the comparison says of a model, by the names of its rows."""
        return dict(
            zip(
                ROWS,
                (
                    row["title"],
                    str(row["year"]),
                    row["kind"],
                    NORMS[row["norm"]],
                    row["norm_placement"].replace("_", "-"),
                    POSITIONS[row["position"]],
                    ACTIVATIONS[row["feedforward"]].removesuffix(" (tanh)"),
                    str(row["n_experts"] or "none"),
                    "parallel" if row["parallel_block"] else "serial",
                    _attention(row),
                    _short(row["n_parameters"]),
                    _short(row["n_active"]),
                    f"{_short(2 * row['n_cached'])}B" if row["n_cached"] else "none",
                    _short(row["flops"], "kMGTP"),
                    _short(tokens) if tokens else "unknown",
                ),
                strict=True,
            )
        )

    def differences(self) -> list[tuple[str, str, str]]:
        """The rows in which the two models differ, each with the words for both."""
        first, second = self.rows[self.first - 1], self.rows[self.second - 1]
        return [(name, first[name], second[name]) for name in ROWS[1:] if first[name] != second[name]]

    def compute(self, sort, first, second, hardware, utilization, price, **kinds):
        parameters, cached, flops, training, tokens = self.numbers.unbind(1)
        peak = self.peaks.index_select(0, hardware[None])[0]
        hours = training * tokens / (3600 * peak * utilization / 100)
        wanted = torch.stack([kinds[name] for name in KINDS])
        kept = ((wanted == 0) | (self.kinds == wanted - 1)).all(1)
        billions, dollars = parameters / 1e9, hours * price
        drawn = torch.stack((billions, billions, 2 * cached / 1000, flops / 1e9, dollars / 1e6))
        drawn = drawn.index_select(0, sort[None])[0]  # what the dots show
        count = torch.arange(len(parameters))
        key = torch.where(sort == 0, count, torch.where(drawn > 0, drawn, 1e9))
        order = torch.where(kept, key, torch.inf).sort(stable=True).indices
        shown = torch.where(count < kept.sum(), order + 1.0, torch.nan)
        values = torch.where(drawn > 0, drawn, torch.nan).index_select(0, order)
        low, high = torch.where(drawn > 0, drawn, torch.inf).amin() / 2, 2 * drawn.amax()
        ticks = torch.tensor(TICKS)
        chosen = (shown == first) + 2 * ((shown == second) & (first != second))
        differ = (self.designs.index_select(0, first[None] - 1) != self.designs.index_select(0, second[None] - 1))[0]
        found = {}
        for name, at in {"first": first, "second": second}.items():
            own = hours.index_select(0, at[None] - 1)[0]
            found |= _readable(f"hours_{name}", own) | _readable(f"dollars_{name}", own * price)
            found[f"priced_{name}"] = own > 0
        numbers = torch.zeros(len(ROWS) - 2 - len(DESIGNS))  # they differ nearly always
        marked = torch.cat((torch.zeros(2), differ.float(), numbers))
        return found | {
            "shown": shown, "n_shown": kept.sum(), "values": torch.where(shown > 0, values, torch.nan),
            "low": low, "high": high, "ticks": torch.where((ticks >= low) & (ticks <= high), ticks, torch.nan),
            "chosen": chosen, "sizes": 4.0 + 4 * (chosen > 0), "n_differences": differ.sum(),
            "first_hue": marked, "second_hue": 2 * marked,
        }  # fmt: skip

    def marks(self):
        height, ys = 20 * len(self.rows), list(range(len(self.rows)))
        columns = {"norm": 0.0, "positions": 0.36, "feed-forward": 0.66}
        designs = m.plot(
            *(m.words([x], ys, f"{name.replace('-', '_')}[shown]", hue="@hues[chosen]", anchor="start")
              for name, x in columns.items()),
            y=m.axis(labels="names[shown]"), title="{n_shown} of {n} models",
            hint="norm, positions, feed-forward", height=height,
        )  # fmt: skip
        numbers = m.plot(
            m.dots("values", ys, hue="@hues[chosen]", size="sizes"),
            x=m.axis("low", "high", ticks="ticks", log=True), y=m.axis(labels="names[shown]"),
            title="{sort#||Parameters, in billions|Parameters, in billions|Cache of a token, in kB|FLOPs of a token, "
            "in billions|Price of the training, in million dollars}",
            height=height + 36,
        )  # fmt: skip
        rows = list(range(len(ROWS)))
        compared = m.plot(
            m.words([0.0], rows, "compared[first]", hue="@hues[first_hue]", anchor="start"),
            m.words([0.52], rows, "compared[second]", hue="@hues[second_hue]", anchor="start"),
            y=m.axis(labels="labels"), title="Two models", hint="designs that differ are coloured",
            height=20 * len(ROWS) + 12,
        )  # fmt: skip
        spent = {
            f"{{titles[{which}]}}: {name}": f"{{priced_{which}|unknown|{words}}}".replace("@", which)
            for which in ("first", "second")
            for name, words in {"processor hours": _HOURS, "dollars": _DOLLARS}.items()
        }
        filters = m.row("norm_kind", "position_kind"), m.row("feedforward_kind", "attention_kind")
        return [
            "sort", *filters, m.row(designs, numbers), "first", "second", compared, "hardware",
            m.row("utilization", "price"), m.facts(**spent),
        ]  # fmt: skip
