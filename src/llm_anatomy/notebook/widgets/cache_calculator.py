"""The cache calculator: what the KV cache of a published model takes, and what reading it costs at each step."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from llm_anatomy.data import table
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider
from llm_anatomy.notebook.widgets.cost_calculator import _COLUMNS, _readable

CONTEXTS = [2**n for n in range(7, 18)]
BATCHES = [2**n for n in range(11)]
TICKS = [10.0**n for n in range(-3, 7)]
"""The values of the sliders, the points of the curves, and the ticks in gigabytes."""
_EACH, _OF_TEXT, _CACHE, _WEIGHTS = (
    f"{{{name}:.1f}} {{{name}_unit||k|M|G|T|P}}B" for name in ("each", "text", "cache", "weights")
)


@dataclass(frozen=True)
class DecodingCounts:
    r"""What a decoding step of a model takes: numbers from which those of any batch and any context follow.

    In B sequences of T tokens, the new one included, N layers of which M have the window w keep

    .. math:: B\, c \left( (N - M)\, T + M \min(T, w) \right)

    numbers, where c is :math:`n_\mathrm{kv\,heads} (d_\mathrm{head} + d_\mathrm{value})`, or
    :math:`d_\mathrm{latent} + d_\mathrm{rotary}` in latent attention. A step reads the cache and the weights once; of
    the embedding only B rows, and of the experts no more than B tokens can select.

    Args:
        n_parameters: all parameters.
        n_read: weights that every step reads.
        n_vocab, d_model: rows of the embedding, and their width.
        n_experts, n_selected: parameters of all experts, and of those that a token selects.
        n_cached: numbers in the cache for each token and layer.
        n_layers, n_windowed, window: the layers, those with a window, and the window, 0 if there is none.
        flops, flops_per_key: operations of a token without context, and for each key that it meets in a layer.

    Source: CMU-10; Pope et al. (2022), section 2. The table ``decoding_counts`` has the numbers of six models, as
    :func:`llm_anatomy.models.costs.costs` counts them.

    >>> _, llama, *_ = table("decoding_counts")
    >>> counts = DecodingCounts(**{field.name: llama[field.name] for field in fields(DecodingCounts)})
    >>> 2 * counts.cached(1, context=1), 2 * counts.cached(16, context=4096)
    (327680, 21474836480)
    """

    n_parameters: int | Tensor
    n_read: int | Tensor
    n_vocab: int | Tensor
    d_model: int | Tensor
    n_experts: int | Tensor
    n_selected: int | Tensor
    n_cached: int | Tensor
    n_layers: int | Tensor
    n_windowed: int | Tensor
    window: int | Tensor
    flops: int | Tensor
    flops_per_key: int | Tensor

    def keys(self, context):
        """Return the number of keys that a token meets, over all layers."""
        in_window = _at_most(context, self.window)
        return (self.n_layers - self.n_windowed) * context + self.n_windowed * in_window

    def cached(self, batch, context):
        """Return how many numbers are in the cache; integers or tensors."""
        return batch * self.n_cached * self.keys(context)

    def read(self, batch):
        """Return how many weights a step reads."""
        rows, selected = _at_most(batch, self.n_vocab), _at_most(batch * self.n_selected, self.n_experts)
        return self.n_read + rows * self.d_model + selected

    def step_flops(self, batch, context):
        """Return the operations of a step."""
        return batch * (self.flops + self.flops_per_key * self.keys(context))


def _at_most(number, most):
    """The smaller of two integers, or of two tensors entry by entry."""
    return number - (number > most) * (number - most)


class CacheCalculator(Widget):
    """Show how large the KV cache of a published model is, and how many tokens a processor can yield with it at most.

    The cache grows with the number of sequences and with their length; the weights do not. A decoding step yields one
    token for each sequence. It takes at least as long as reading the weights and the whole cache once, and at least as
    long as its operations at the processor's peak. With several processors, each reads its part. The numbers are those
    of :class:`DecodingCounts`. A layer with a window keeps no more than its window, and latent attention keeps its
    latents. A context may be longer than the one of the published model; the widget then says so.

    Args:
        model: the initial model: llama-65b, llama-2-70b, llama-3-8b, mistral-7b, gemma-2-9b or deepseek-v2.
        batch: the initial number of sequences: a power of two up to 1,024.
        context: the initial number of tokens of each sequence: a power of two from 128 to 131,072.
        caption: one sentence that says what to look for.

    Source: CMU-10, CMU-11, CMU-13; Pope et al. (2022), section 2; the processors are those of the table ``hardware``.

    >>> CacheCalculator("llama-2-70b", batch=16, context=4096)  # doctest: +NORMALIZE_WHITESPACE
    Llama 2 70B in bfloat16: 327.7 kB of cache for each token. 16 sequences of 4096 tokens take 21.5 GB of cache, and
    the weights take 138.0 GB: 2 A100 are needed. A step takes at least as long as reading weights and cache; each
    processor yields at most 205 tokens per second. The cache is smaller than the weights.
    """

    sentence = (
        f"{{titles[model]}} in {{number}}: {_EACH} of cache for each token. {{batch}} {{several|sequence|sequences}} "
        f"of {{context}} tokens {{several|takes|take}} {_CACHE} of cache, and the weights take {_WEIGHTS}: "
        "{devices:.0f} {hardware} {many|is|are} needed. A step takes at least as long as "
        "{bound|reading weights and cache|its operations}; each processor yields at most {speed:.0f} tokens per "
        "second. {over|{larger|The cache is smaller than the weights.|The cache is larger than the weights.}|The "
        "context is longer than the {n_ctx} tokens of the model.}"
    )

    def __init__(self, model: str = "llama-2-70b", batch: int = 16, context: int = 4096, *, caption: str = ""):
        models = table("decoding_counts")
        counts = [[float(row[field.name]) for field in fields(DecodingCounts)] for row in models]
        self.counts = torch.tensor(counts)  # (models, numbers of DecodingCounts)
        self.lengths = torch.tensor([float(row["n_ctx"]) for row in models])
        hardware = table("hardware")
        self.processors = torch.tensor([[float(row[column]) for column in _COLUMNS] for row in hardware])
        super().__init__(
            caption=caption,
            data={
                "titles": [row["title"] for row in models],
                "names": [row["model"] for row in models],
                "contexts": CONTEXTS,
                "batches": BATCHES,
                "hues": ["none", "key"],
            },
            model=Choice([row["model"] for row in models], model),
            batch=Slider(batch, values=BATCHES, label="sequences"),
            context=Slider(context, values=CONTEXTS, label="tokens of each"),
            number=Choice(["bfloat16", "float32"], label="numbers"),
            hardware=Choice([row["name"] for row in hardware], "A100", label="processor"),
        )

    def compute(self, model, batch, context, number, hardware):
        size, batch, context = 2.0 + 2 * number, batch.float(), context.float()
        flops_16, flops_32, bandwidth, memory = self.processors.index_select(0, hardware[None])[0].unbind()
        peak = torch.where(number == 0, flops_16, flops_32)
        every = DecodingCounts(*self.counts.unbind(1))
        own = DecodingCounts(*self.counts.index_select(0, model[None])[0].unbind())

        def seconds(n):
            moved = size * (own.read(n) + own.cached(n, context))
            return moved / bandwidth, own.step_flops(n, context) / peak

        weights, cache = size * own.n_parameters, size * own.cached(batch, context)
        n_devices = torch.ceil((weights + cache) / memory)
        batches, contexts = torch.tensor(BATCHES).float(), torch.tensor(CONTEXTS).float()
        reading, computing = seconds(batch)
        n_ctx = self.lengths.index_select(0, model[None])[0]
        texts = size * every.cached(1.0, context)
        found = _readable("each", size * own.n_cached * own.n_layers) | _readable("cache", cache)
        found |= _readable("weights", weights) | _readable("text", texts.amax())
        grown, ticks = size * own.cached(batch, contexts) / 1e9, torch.tensor(TICKS)
        all_lines = torch.cat((grown, torch.stack((weights, memory)) / 1e9))
        low, high = all_lines.amin() / 2, 1.3 * all_lines.amax()
        texts, speeds = texts / 1000 ** found["text_unit"], batches / torch.maximum(*seconds(batches))
        return found | {
            "bytes": size * own.n_cached * own.n_layers, "devices": n_devices, "many": n_devices > 1,
            "speed": batch / torch.maximum(reading, computing), "speeds": speeds,
            "bound": computing > reading, "larger": cache > weights, "several": batch > 1,
            "speed_high": 1.1 * speeds.amax(), "text_high": 1.35 * texts.amax(),
            "grown": grown, "low": low, "high": high, "here": cache / 1e9, "fixed": weights / 1e9,
            "gigabytes": torch.where((ticks >= low) & (ticks <= high), ticks, torch.nan),
            "memory": memory / 1e9, "texts": texts,
            "text_hue": (torch.arange(len(texts)) == model).int(), "over": context > n_ctx, "n_ctx": n_ctx,
            "windowed": own.n_windowed, "window": own.window, "layers": own.n_layers, "numbers": own.n_cached,
        }  # fmt: skip

    def marks(self):
        texts = m.plot(
            m.bars("texts", across=True, hue="@hues[text_hue]", text="{value:.2f}"),
            x=m.axis(0, "text_high", ticks=[]), y=m.axis(labels="names"),
            title="Cache of one sequence, {text_unit||k|M|G|T|P}B", hint="{context} tokens, {number}", height=240,
        )  # fmt: skip
        grown = m.plot(
            m.rule(y="fixed"),
            m.rule(y="memory", hue="position"),
            m.line("grown", "contexts", hue="key"),
            m.dots("context", "here", hue="key"),
            m.dots(CONTEXTS[:1], "fixed", size=0, label="weights"),
            m.dots(CONTEXTS[:1], "memory", hue="position", size=0, label="one {hardware}"),
            x=m.axis(CONTEXTS[0], CONTEXTS[-1], "tokens of each", ticks=[128, 1024, 8192, 65536], log=True),
            y=m.axis("low", "high", "GB", ticks="gigabytes", log=True),
            title="Cache of {batch} {several|sequence|sequences}", height=240, pick={"x": "context"},
        )  # fmt: skip
        speed = m.plot(
            m.line("speeds", "batches", hue="query"),
            m.dots("batch", "speed", hue="query"),
            x=m.axis(BATCHES[0], BATCHES[-1], "sequences", ticks=[1, 4, 16, 64, 256, 1024], log=True),
            y=m.axis(0, "speed_high"), title="Tokens per second of each processor, at most",
            hint="limited by {bound|memory|arithmetic}", height=220, pick={"x": "batch"},
        )  # fmt: skip
        facts = {
            "cache for each token": _EACH, "cache": _CACHE, "weights": _WEIGHTS,
            "processors to hold both": "{devices:.0f}", "tokens per second of each, at most": "{speed:.0f}",
        }  # fmt: skip
        note = (
            "A layer caches {numbers:.0f} numbers for each token; there are {layers:.0f} layers, so a token takes "
            "{bytes:.0f} bytes. {windowed||{windowed:.0f} of the layers keep no more than the last {window:.0f} tokens."
            "} {over||The context is longer than the {n_ctx} tokens of the model.}"
        )
        controls = m.row("batch", "context"), m.row("number", "hardware")
        return ["model", m.row(texts, grown), *controls, m.facts(**facts), m.note(note), speed]
