"""The flow explorer: the tensors that flow through a Transformer, step by step, with their shapes."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F

from llm_anatomy.notebook.palette import PALETTE
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import list_of_strings
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

WIDEST = 16
STREAM, BRANCH = 0.3, 0.7


class FlowExplorer(Widget):
    """Show the tensor after each step of a model, and which of its rows depend on the last token.

    Tensors with heads are laid out with the heads side by side, and a gap between them.

    Args:
        run: called with the ids of the tokens, an int64 tensor; returns the tensor after each step by the name of the
            step, (tokens, width) or (heads, tokens, width). It uses no value to decide a shape.
        tokens: the vocabulary: a name for each id.
        start: the tokens with which the widget opens, at least two; the reader changes the last one.
        hues: for each step a name of the palette; "residual" marks the steps on the residual stream.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for tokens that are not in the vocabulary, a step without a hue, and a tensor that has another shape
            or is too wide.

    Source: Vaswani et al. (2017), figure 1; IITD-02, IITD-42, IITD-44, IITD-46, CMU-02.

    >>> table = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    >>> FlowExplorer(lambda ids: {"embedding": table[ids]}, ["a", "dog"], ["a", "dog"], {"embedding": "residual"})
    Step 1, embedding, of shape (2, 2), for a dog: the largest number is 2.00, and 0 of 2 rows have changed.
    """

    sentence = (
        "Step {number}, {steps[step]}, of shape {shapes[step]}, for {before} {last}: the largest number is "
        "{largest:.2f}, and {count} of {n_tokens} rows have changed."
    )

    def __init__(
        self,
        run: Callable[[torch.Tensor], Mapping[str, torch.Tensor]],
        tokens,
        start,
        hues: Mapping[str, str],
        *,
        caption: str = "",
    ):
        tokens, start = list_of_strings("tokens", tokens), list_of_strings("start", start)
        if len(start) < 2 or not {*start} <= {*tokens}:
            raise ValueError(f"{start=}; it must be two or more of the tokens {', '.join(tokens)}")
        self.run, self.start = run, torch.tensor([tokens.index(token) for token in start])
        found = run(self.start)
        for name, tensor in found.items():
            if hues.get(name) not in PALETTE:
                raise ValueError(f"hues[{name!r}]={hues.get(name)!r}; it must be one of {', '.join(PALETTE)}")
            if tensor.ndim not in (2, 3) or tensor.shape[-2] != len(start) or _flat(tensor).shape[-1] > WIDEST:
                raise ValueError(
                    f"run returned {name!r} of shape {tuple(tensor.shape)}; it must be (tokens, width) or (heads, "
                    f"tokens, width) for {len(start)} tokens, and at most {WIDEST} wide with a gap between heads"
                )
        self.width = max(_flat(tensor).shape[-1] for tensor in found.values())
        names, last = list(found), Choice(tokens, tokens.index(start[-1]), by_index=True, label="last token")
        on_stream = [STREAM if hues[name] == "residual" else BRANCH for name in names]
        data = {
            "steps": names,
            "shapes": [str(tuple(tensor.shape)) for tensor in found.values()],
            "hues": [hues[name] for name in names],
            "across": on_stream,
            "rows": [*start[:-1], "(last)"],
            "before": " ".join(start[:-1]),
            "n_tokens": len(start),
        }
        super().__init__(caption=caption, data=data, step=Slider(0, 0, len(names) - 1), last=last)

    def compute(self, step, last):
        before = self._steps(self.start).index_select(0, step[None])[0]
        now = self._steps(torch.cat([self.start[:-1], last[None]])).index_select(0, step[None])[0]
        changed = ((now - before).nan_to_num(posinf=0, neginf=0).abs() > 1e-6).any(-1)
        size = now.nan_to_num(nan=0, posinf=0, neginf=0).abs().max()
        steps, rows = torch.arange(len(self.data["steps"])), torch.arange(len(self.start))
        return {
            "shown": now,
            "reach": size.clamp(min=1e-6),
            "largest": size,
            "changed": torch.where(changed, rows, torch.nan),
            "count": changed.sum(),
            "number": step + 1,
            "sizes": torch.where(steps == step, 9.0, 5.0),
        }

    def _steps(self, ids):
        """The tensors of all steps, (steps, tokens, width), with NaN where there is nothing."""
        flat = [_flat(tensor) for tensor in self.run(ids).values()]
        return torch.stack([F.pad(tensor, (0, self.width - tensor.shape[-1]), value=torch.nan) for tensor in flat])

    def marks(self):
        n = len(self.data["steps"])
        drawing = m.plot(
            m.line([0, n - 1], [STREAM, STREAM], hue="residual", width=4),
            m.line(list(range(n)), "across", hue="normalization", width=1.5),
            m.dots("across", list(range(n)), hue="@hues", size="sizes"),
            x=m.axis(0, 1, ticks=[]), y=m.axis(labels="steps"),
            height=24 * n, pick={"y": "step"}, hover=True,
        )  # fmt: skip
        numbers = m.plot(
            m.cells("shown", reach="reach", frame="changed", text="{shown:.1f}"),
            x=m.axis(-0.5, self.width - 0.5, ticks=[]), y=m.axis(labels="rows", hue="residual"),
            title="{number} {steps[step]}", hint="{shapes[step]}", height=60 + 44 * len(self.start),
        )  # fmt: skip
        facts = m.facts(**{"shape": "{shapes[step]}", "rows that have changed": "{count} of {n_tokens}"})
        return [m.row(drawing, m.row("last", numbers, facts, "step", shares=[1]), shares=[2, 3])]


def _flat(tensor):
    """Heads side by side, with a column of NaN between them."""
    if tensor.ndim == 2:
        return tensor
    gap = tensor.new_full((tensor.shape[-2], 1), torch.nan)
    parts = [part for head in tensor.unbind() for part in (head, gap)]
    return torch.cat(parts[:-1], dim=-1)
