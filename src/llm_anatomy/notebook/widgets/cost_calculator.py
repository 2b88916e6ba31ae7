"""The cost calculator: parameters, operations, memory and time of a decoder from its sizes, by closed formulas."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from llm_anatomy.data import table
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider, Tick

PARTS = ("token embedding", "attention projections", "scores and mixing", "feed-forward", "logits")
MEMORY = ("weights", "gradients", "optimizer", "activations", "KV cache")
VALUES = {
    "d_model": [64, 128, 256, 512, 768, 1024, 2048, 4096, 8192, 16384],
    "n_layers": [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128],
    "n_heads": [1, 2, 4, 8, 12, 16, 32, 64, 128],
    "n_kv_heads": [1, 2, 4, 8, 12, 16, 32, 64, 128],
    "d_ff": [64, 256, 1024, 2048, 3072, 4096, 8192, 16384, 32768, 65536],
    "n_vocab": [256, 1000, 10000, 32000, 50257, 100000, 256000],
    "n_ctx": [2**n for n in range(7, 21)],
    "batch": [2**n for n in range(13)],
}
"""The values of the sliders, to which those of the models are added."""
SIZES = ("d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "gated", "n_vocab", "tied", "n_ctx")
_TOTAL, _EACH, _HELD, _SPEED = (
    f"{{{name}:.1f}} {{{name}_unit||k|M|G|T|P|E}}" for name in ("total", "each", "held", "speed")
)
_TIME = "{time:.1f} {time_unit|µs|ms|s|ks|Ms}"
SCALES = [64 * 2 ** (n / 4) for n in range(57)]
"""The lengths of the curve, up to a million tokens."""


def decoder_costs(
    *, d_model, n_layers, n_heads, n_kv_heads, d_ff, gated, n_vocab, tied, n_ctx, batch, bytes_per_number, training
) -> dict[str, Any]:
    r"""Compute the costs of a decoder with pre-norm blocks, from its sizes alone.

    Let :math:`d_\mathrm{kv}` be the width of all keys of a token, and g 3 for a gated feed-forward layer and 2 for a
    plain one. A block has :math:`2 d^2 + 2 d\, d_\mathrm{kv}` parameters in the projections of attention and
    :math:`g\, d\, d_\mathrm{ff}` in the feed-forward layer; a token takes two operations for each of them, and
    :math:`4 d\, n_\mathrm{ctx}` for scores and mixing, where it meets every key, masked or not. The backward pass takes
    twice as many operations as the forward pass.

    Biases, norms and position tables are left out, and the widths of all heads together must be that of the model.
    Training keeps what each product, norm and activation reads, if attention forms no scores. The optimizer is AdamW,
    with two moments in float32; with weights in 16 bits, it also keeps a copy of them in float32.

    Args:
        d_model, n_layers, n_heads, n_kv_heads, d_ff, n_vocab, n_ctx, batch: sizes: integers, or tensors.
        gated, tied: whether the feed-forward layer is gated, and the logits use the table of the embeddings; 0 or 1.
        bytes_per_number: of weights, gradients, activations and cache: 2 or 4.
        training: 1 for a training step on ``batch`` texts of ``n_ctx`` tokens; 0 for generating the last token of such
            texts, with a cache.

    Returns:
        ``parameters`` and ``flops``, for each of ``PARTS``, the latter per token in the forward pass; ``memory``, in
        bytes, for each of ``MEMORY``; ``step_flops`` and ``step_bytes``, all operations of a step and the bytes that it
        must at least read; and ``crossover``, the length at which scores and mixing take as many operations as the
        matrices of the blocks.

    Source: UCL-29; Kaplan et al. (2020), section 2.1; Rajbhandari et al. (2020), "ZeRO", section 3.1, for the
    optimizer. A test compares the results with the counts of :mod:`llm_anatomy.models.costs`.

    >>> gpt2 = dict(d_model=768, n_layers=12, n_heads=12, n_kv_heads=12, d_ff=3072, gated=0, n_vocab=50257, tied=1)
    >>> found = decoder_costs(**gpt2, n_ctx=1024, batch=8, bytes_per_number=2, training=1)
    >>> sum(found["parameters"]), found["crossover"], sum(found["memory"][:3]) // sum(found["parameters"])
    (123532032, 4608.0, 16)
    """
    d_kv = d_model * n_kv_heads // n_heads
    attention, feedforward = 2 * d_model * d_model + 2 * d_model * d_kv, (2 + gated) * d_model * d_ff
    vocab = n_vocab * d_model
    parameters = (vocab, n_layers * attention, 0 * d_model, n_layers * feedforward, (1 - tied) * vocab)
    scores = 4 * n_layers * d_model * n_ctx
    flops = (0 * d_model, 2 * n_layers * attention, scores, 2 * n_layers * feedforward, 2 * vocab)
    n_parameters, per_token = sum(parameters), sum(flops)
    n_tokens = batch * (n_ctx * training + (1 - training))
    kept = n_layers * (6 * d_model + 2 * d_kv + (2 + 2 * gated) * d_ff) + 2 * d_model + n_vocab
    cached = (1 - training) * 2 * n_layers * d_kv * n_ctx * batch
    moments = 8 + 4 * (bytes_per_number < 4)
    memory = (
        bytes_per_number * n_parameters,
        training * bytes_per_number * n_parameters,
        training * moments * n_parameters,
        training * bytes_per_number * kept * n_tokens,
        bytes_per_number * cached,
    )
    looked_up = n_tokens - (n_tokens > n_vocab) * (n_tokens - n_vocab)  # no more rows than there are
    n_read = n_layers * (attention + feedforward) + vocab + looked_up * d_model
    return {
        "parameters": parameters,
        "flops": flops,
        "memory": memory,
        "step_flops": (1 + 2 * training) * per_token * n_tokens,
        "step_bytes": bytes_per_number * (n_read + cached),
        "crossover": (attention + feedforward) / (2 * d_model),
    }


class CostCalculator(Widget):
    """Show what a decoder costs: its parameters, operations, memory, and the time of a step on a processor.

    A choice of model sets the sizes, from which the reader may go on. The formulas are those of :func:`decoder_costs`;
    a model has no more heads of keys and values than heads. The time is the larger of two: that of all operations, at
    the chosen utilization of the processor's peak, and that of reading weights and cache from memory once.

    Args:
        models: by name, the values of d_model, n_layers, n_heads, n_kv_heads, d_ff, gated, n_vocab, tied and n_ctx.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for no models, or a model with other fields.

    Source: UCL-29; the processors and their peaks are those of the table ``hardware``.

    >>> gpt2 = dict(d_model=768, n_layers=12, n_heads=12, n_kv_heads=12, d_ff=3072, gated=False, n_vocab=50257)
    >>> CostCalculator({"GPT-2": gpt2 | dict(tied=True, n_ctx=1024)})  # doctest: +NORMALIZE_WHITESPACE
    A decoder with d_model 768, 12 layers and a context of 1024 tokens: 123.5 M parameters, 284.8 MFLOP per token in the
    forward pass, of which scores and mixing take 13 %; in a block, they take half at 4608 tokens. Training with batch 8
    takes 5.2 GB and 56.1 ms for each step; the memory of one A100 is large enough.
    """

    sentence = (
        f"A decoder with d_model {{d_model}}, {{n_layers}} layers and a context of {{n_ctx:.0f}} tokens: {_TOTAL} "
        f"parameters, {_EACH}FLOP per token in the forward pass, of which scores and mixing take {{share:.0f}} %; in a "
        f"block, they take half at {{crossover:.0f}} tokens. {{task#||Training|Generating a token}} with batch "
        f"{{batch}} takes {_HELD}B and {_TIME} for each step; the memory of one "
        "{hardware} is {devices||large enough|too small}."
    )

    def __init__(self, models: Mapping[str, Mapping[str, int | bool]], *, caption: str = ""):
        if not isinstance(models, Mapping) or not models:
            raise ValueError(f"{models=}; it must give the sizes of at least one model by its name")
        for name, sizes in models.items():
            if set(sizes) != set(SIZES):
                raise ValueError(f"the model {name!r} has the fields {sorted(sizes)}; they must be {', '.join(SIZES)}")
        start = next(iter(models.values()))

        def slider(size: str, number: int, label: str = "") -> Slider:
            known = {int(sizes[size]) for sizes in models.values()} if size in SIZES else set()
            return Slider(number, values=sorted({*VALUES[size], *known}), label=label or size)

        self.hardware = table("hardware")
        self.processors = torch.tensor([[float(row[column]) for column in _COLUMNS] for row in self.hardware])
        controls = {"model": Choice(models, sets=models, label="start from")}
        controls |= {size: slider(size, int(start[size])) for size in SIZES if size not in ("gated", "tied")}
        controls["gated"] = Tick(bool(start["gated"]), label="gated feed-forward layer")
        controls["tied"] = Tick(bool(start["tied"]), label="logits use the table of the embeddings")
        controls |= {"batch": slider("batch", 8), "task": Choice(["training", "generation"])}
        controls["number"] = Choice(["bfloat16", "float32"], label="numbers")
        controls["hardware"] = Choice([row["name"] for row in self.hardware], "A100", label="processor")
        controls["utilization"] = Slider(40, 5, 100, step=5, label="utilization, %")
        data = {"parts": ["embedding", "attention", "scores", "feed-forward", "logits"], "kinds": list(MEMORY)}
        super().__init__(caption=caption, data=data | {"lengths": SCALES}, **controls)

    def compute(self, model, gated, tied, task, number, hardware, utilization, **sizes):
        sizes = {name: size.float() for name, size in sizes.items()}
        sizes["n_kv_heads"] = torch.minimum(sizes["n_kv_heads"], sizes["n_heads"])
        bytes_per_number, training = 2.0 + 2 * number, 1.0 - task
        known = {"gated": gated.float(), "tied": tied.float(), "training": training}
        costs = decoder_costs(**sizes, **known, bytes_per_number=bytes_per_number)
        processor = self.processors.index_select(0, hardware[None])[0]
        peak = torch.where(number == 0, processor[0], processor[1]) * utilization / 100
        seconds = torch.maximum(costs["step_flops"] / peak, costs["step_bytes"] / processor[2])
        parameters, flops, memory = (torch.stack(list(costs[name])) for name in ("parameters", "flops", "memory"))
        in_blocks = torch.tensor(SCALES) / (torch.tensor(SCALES) + costs["crossover"])
        found = {"share": 100 * flops[2] / flops.sum(), "shares": in_blocks, "crossover": costs["crossover"]}
        found |= {"here": sizes["n_ctx"] / (sizes["n_ctx"] + costs["crossover"])}
        found |= {"devices": torch.ceil(memory.sum() / processor[3])}
        for name, parts in (("total", parameters), ("each", flops), ("held", memory)):
            found |= _readable(name, parts.sum())
            scaled = parts / 1000 ** found[f"{name}_unit"]
            found |= {f"{name}_parts": scaled, f"{name}_high": 1.35 * scaled.amax()}
        n_tokens = sizes["batch"] * torch.where(task == 0, sizes["n_ctx"], 1.0)
        return found | _readable("time", 1e6 * seconds) | _readable("speed", n_tokens / seconds)

    def marks(self):
        def bars(name: str, labels: str, title: str, hue):
            layer = m.bars(f"{name}_parts", across=True, text="{value:.1f}", hue=hue)
            axes = {"x": m.axis(0, f"{name}_high", ticks=[]), "y": m.axis(labels=labels)}
            return m.plot(layer, title=title, height=190, **axes)

        parts = ["residual", "query", "weights", "feedforward", "normalization"]
        ends = SCALES[0], SCALES[-1]
        share = m.plot(
            m.rule(x="crossover", label="{crossover:.0f}"),
            m.line("shares", "lengths", hue="weights"),
            m.dots("n_ctx", "here", hue="weights"),
            x=m.axis(*ends, "n_ctx", log=True, ticks=[100, 1000, 10000, 100000]),
            y=m.axis(0, 1, ticks=[0, 0.5, 1]), height=220,
            title="Share of scores and mixing", hint="of the FLOP of a block",
        )  # fmt: skip
        facts = {"parameters": _TOTAL, "FLOP per token": _EACH, "memory": f"{_HELD}B", "time of a step": _TIME}
        facts |= {"tokens per second": _SPEED, "processors to hold it": "{devices:.0f}"}
        return [
            "model",
            m.facts(**facts),
            m.row(
                bars("total", "parts", "Parameters: " + _TOTAL, parts),
                bars("each", "parts", "FLOP per token, forward: " + _EACH, parts),
            ),
            m.row(bars("held", "kinds", f"Memory: {_HELD}B", None), share),
            *(m.row(*pair) for pair in (("d_model", "n_layers"), ("n_heads", "n_kv_heads"), ("d_ff", "n_vocab"))),
            m.row("n_ctx", "batch"),
            m.row("gated", "tied"),
            m.row("task", "number"),
            m.row("hardware", "utilization"),
        ]


_COLUMNS = ("flops_bfloat16", "flops_float32", "bandwidth", "memory")


def _readable(name: str, number: torch.Tensor) -> dict[str, torch.Tensor]:
    """A number below 1,000 and the number of its prefix, from none to E."""
    unit = torch.floor(torch.log(number.clamp(min=1)) / math.log(1000) + 1e-6).clamp(max=6)
    return {name: number / 1000**unit, f"{name}_unit": unit}
