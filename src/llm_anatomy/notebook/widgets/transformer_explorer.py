"""The Transformer explorer: a trained decoder that reads the reader's own words, and shows what happens in it."""

from collections.abc import Mapping
from contextlib import ExitStack

import torch
from torch import nn

from llm_anatomy.layers.diagnostics import head_mask, recorded_states
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider, Text
from llm_anatomy.notebook.widgets.text import Encoder

N_SHOWN, N_NEXT, LONGEST = 16, 8, 1000
NOTE = (
    "{prompt_n|Type a few words, so that there is something to continue.|}"
    "{full||The model reads the last {n_ctx} tokens.}"
)


class TransformerExplorer(Widget):
    """Run a decoder on the reader's words: tokens, attention, residual stream, and the distribution of the next token.

    The maps show the last 16 tokens. A text with more tokens than the model can read is read from the last ones.

    Args:
        models: decoders by the name of their position scheme, with the same vocabulary and the same numbers of layers
            and heads, such as :class:`~llm_anatomy.models.transformer.Transformer`.
        tokenizer: the tokenizer of all models.
        text: the initial text.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: if the models differ in these numbers, or do not fit the tokenizer.

    Source: Vaswani et al. (2017), figure 1; Elhage et al. (2021); UCL-24, UCL-26, UCL-27, IITD-43, IITD-46.

    >>> from llm_anatomy.models.stored import stored
    >>> model, metadata = stored("story_rope")
    >>> TransformerExplorer({"RoPE": model}, metadata["tokenizer"], "Once there was")  # doctest: +ELLIPSIS
    The model with RoPE has read 6 tokens. The next one is probably: ␣a (...
    """

    sentence = (
        "The model with {scheme} has read {prompt_n} tokens{off#|||, without head {off}}. The next one is probably: "
        "[[{prompt_vocabulary[next]} ({probability:.2f})]]."
    )

    def __init__(self, models: Mapping[str, nn.Module], tokenizer, text: str, *, caption: str = ""):
        self.models = dict(models)
        sizes = {name: _sizes(model) for name, model in self.models.items()}
        (n_layers, n_heads, n_ctx, n_vocab), *others = sizes.values()
        if any(other != (n_layers, n_heads, n_ctx, n_vocab) for other in others):
            raise ValueError(f"models have {sizes}; layers, heads, n_ctx and n_vocab must be the same")
        if tokenizer.n_vocab != n_vocab:
            raise ValueError(f"{tokenizer.n_vocab=} must be the models' n_vocab={n_vocab}")
        layers = [f"{layer + 1}" for layer in range(n_layers)]
        heads = [f"{layer}.{head + 1}" for layer in layers for head in range(n_heads)]
        controls = {
            "prompt": Text(text, longest=LONGEST, encoder=Encoder(tokenizer, n_ctx), label="your words"),
            "temperature": Slider(1.0, 0.1, 2.0, step=0.1, digits=1, ends=("sharper", "flatter")),
            "layer": Choice(layers),
            "token": Slider(N_SHOWN - 1, 0, N_SHOWN - 1, label="query", ends=("earlier", "last"), hue="query"),
            "off": Choice(["none", *heads], label="head off"),
            "scheme": Choice(list(self.models), label="positions", fixed=True),
        }
        data = {"heads": [f"head {head + 1}" for head in range(n_heads)], "n_ctx": n_ctx}
        data["stages"] = ["embedding", *(f"block {layer}" for layer in layers)]
        super().__init__(caption=caption, data=data, **controls)

    def compute(self, prompt_ids, prompt_n, temperature, layer, token, off, scheme):
        model = self.models[scheme]
        blocks = list(model.stack.blocks)
        n_heads = blocks[0].attention.n_heads
        with ExitStack() as hooks:
            on = (torch.arange(len(blocks) * n_heads) != off - 1).float().view(len(blocks), n_heads)
            for block, mask in zip(blocks, on, strict=True):
                hooks.enter_context(head_mask(block.attention, mask))
            states = hooks.enter_context(recorded_states(blocks))
            hidden, records = model.hidden_states(prompt_ids[None], return_weights=True)
        last = (prompt_n - 1).clamp(min=0)
        logits = model.logits(hidden.index_select(1, last[None]))[0, 0]
        scores, order = logits.sort(descending=True, stable=True)
        probabilities = (scores / temperature).softmax(-1)
        column = prompt_n - N_SHOWN + torch.arange(N_SHOWN)
        at, empty = column.clamp(min=0), column < 0
        maps = torch.cat([record.attention_weights for record in records])  # (layers, heads, queries, keys)
        maps = maps.index_select(0, layer[None])[0].index_select(1, at).index_select(2, at)
        nothing = empty[:, None] | (column > column[:, None])
        maps = maps.masked_fill(nothing | empty, torch.nan)
        norms = torch.stack(states)[:, 0].norm(dim=-1).index_select(1, at).masked_fill(empty, torch.nan)
        return {
            "logits": logits, "next": order[:N_NEXT], "probability": probabilities[:N_NEXT], "score": scores[:N_NEXT],
            "rest": probabilities[N_NEXT:].sum(), "full": prompt_n == len(prompt_ids),
            "shown": torch.where(empty, -1, prompt_ids.index_select(0, at)), "maps": maps, "norms": norms,
            "largest": norms.nan_to_num().max(), "row": maps.index_select(1, token[None])[:, 0],
            "left": token - 0.5, "right": token + 0.5,
        }  # fmt: skip

    def marks(self):
        tokens, of_query = m.axis(labels="prompt_vocabulary[shown]"), m.band("left", "right", hue="query")
        pick = {"pick": {"x": "token"}, "hover": True}
        maps = m.plot(
            m.cells("maps", hue="weights", frame="token"),
            repeat="heads", aspect=1, y=m.axis(N_SHOWN - 0.5, -0.5, ticks=[]),
            title="Attention in layer {layer}", hint="a row for each query, a column for each key; the last 16 tokens",
            pick={"y": "token"}, hover=True,
        )  # fmt: skip
        row = m.plot(
            m.cells("row", hue="weights"), of_query, x=tokens, y=m.axis(labels="heads"), height=210,
            title="What the query attends to", **pick,
        )  # fmt: skip
        norms = m.plot(
            m.cells("norms", reach="largest", hue="residual", scale=True), of_query, x=tokens,
            y=m.axis(labels="stages"), height=190, title="Norm of the residual stream", **pick,
        )  # fmt: skip
        return [
            "prompt",
            m.chips("{prompt_tokens}", below="{prompt_ids}", title="Tokens", hint="{prompt_n}, with their ids"),
            m.note(NOTE),
            m.continuations(
                "prompt", "next", "probability", words="{probability:.3f}, logit {score:.1f}", title="The next token",
                hint="with its probability; press one to continue the text; all others together have {rest:.3f}",
            ),
            "temperature",
            "scheme", "layer", "off", maps, row, "token", norms,
        ]  # fmt: skip


def _sizes(model: nn.Module) -> tuple[int, int, int, int]:
    """Numbers of layers and heads, n_ctx and n_vocab."""
    return len(model.stack.blocks), model.stack.blocks[0].attention.n_heads, model.config.n_ctx, model.config.n_vocab
