"""The spike replay: runs whose loss spikes, and what becomes of them after a rewind."""

import math
from collections.abc import Mapping, Sequence

import torch

from llm_anatomy.data import table
from llm_anatomy.layers.quantization import dequantize_rows, quantize_rows
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider, Tick
from llm_anatomy.notebook.widgets.gradient_by_layer import _ticks_of_norms

COLUMNS = {
    "loss": "loss",
    "gradient_norm": "gradient norm",
    "update_ratio": "update ratio in %",
    "activation_maximum": "largest activation",
}
CAUSES = {"rate": "learning rate too high", "data": "bad data", "fp16": "fp16 overflow"}
REPAIRS = {
    "rate": "After the rewind, the learning rate is the planned one. No batch is skipped.",
    "data": "Bad batches are not repaired. They can only be skipped.",
    "fp16": "After the rewind, a step whose gradient overflows is left out, and halves the loss scale. No batch is "
    "skipped.",
}
LAST, LN10 = 10, math.log(10)
"""The steps over which the loss at the end is averaged; the natural logarithm of 10."""


class SpikeReplay(Widget):
    """Replay a run with a loss spike: choose the checkpoint to go back to, and how many batches to skip then.

    All runs were trained before; the widget looks them up, and rounds their numbers to 8 bits. Up to the checkpoint,
    a run is the one without a rewind. What is zero, infinite or not a number is not drawn, and neither are the steps
    before half of the first checkpoint.

    Args:
        rows: the runs, as in the table ``optimization_spikes``: dictionaries with the ``cause`` of the spike (rate,
            data or fp16; none for the run without a spike), the step of the checkpoint to which the run was ``rewound``
            (None if it was not), the number of batches ``skipped``, the ``step``, and four numbers of the step:
            ``loss``, ``gradient_norm``, ``update_ratio`` and ``activation_maximum``. Each cause has a run for each
            checkpoint and each number of batches; the causes "rate repaired" and "fp16 repaired" have one without
            skipped batches for each checkpoint. The table itself if it is not given.
        cause: the initial cause: rate, data or fp16; the first one if it is not given.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: if a run or a step is missing, or the run without a spike has a number that is not finite or a
            loss that is not positive.

    Source: Zhang et al. (2022), section 2.5; Chowdhery et al. (2022), section 5.1; GT-03.

    >>> replay = SpikeReplay(cause="data")
    >>> replay.rewound, replay.skipped = "120", 20
    >>> replay  # doctest: +NORMALIZE_WHITESPACE
    bad data, rewound to step 120, with 20 batches skipped. At step 129: loss 3.3, gradient norm 0.52, update ratio in %
    0.91, largest activation 24. The mean loss of the last 10 steps shown is 2.89; without the spike it is 2.90.
    """

    sentence = (
        "{names[cause]}, {back|without a rewind|rewound to step {rewound}, {mended|with {skipped} batches skipped|and "
        "repaired}}. At step {step}: [[{titles} {found|not finite|{now}}]]. The mean loss of the last 10 steps shown "
        "is {ended|not finite|{end:.2f}}; without the spike it is {sound:.2f}."
    )

    def __init__(self, rows: Sequence[Mapping] | None = None, cause: str | None = None, *, caption: str = ""):
        runs = _runs(table("optimization_spikes") if rows is None else rows)
        causes = [name for name in CAUSES if (name, None, None) in runs]
        rewinds, skips = (sorted({key[i] for key in runs if key[i] is not None}) for i in (1, 2))
        keys = [("none", None, None)]
        for name in causes:
            repaired = name if name == "data" else f"{name} repaired"
            keys += [(name, None, None)]
            keys += [key for at in rewinds for key in (*((name, at, n) for n in skips), (repaired, at, skips[0]))]
        missing = [key for key in keys if key not in runs]
        if missing or len(keys) < 2:
            raise ValueError(f"the rows lack the runs {missing} of (cause, rewound, skipped)")
        steps = sorted(step for step in runs[keys[0]] if step >= rewinds[0] / 2)
        complete = [runs[name.removesuffix(" repaired"), None, None] | runs[name, at, n] for name, at, n in keys]
        if any(step not in run for run in complete for step in steps):
            raise ValueError("the rows lack a step; each run must have the steps of the run without a spike")
        numbers = torch.tensor([[run[step] for step in steps] for run in complete]).mT  # (runs, columns, steps)
        if not numbers[0].isfinite().all() or (numbers[0, 0] <= 0).any():
            raise ValueError("the run without a spike has a number that is not finite, or a loss that is not positive")
        self.known = (numbers > 0) & numbers.isfinite()
        self.end_losses = numbers[:, 0, -LAST:].mean(1)
        values = torch.where(self.known, numbers, numbers[0]).clamp(min=1e-9)
        self.normal, changes = values[0], _encoded(values) - _encoded(values[0])
        self.changes = dequantize_rows(*quantize_rows(changes.flatten(0, 1)))  # on a page, 8 bits each
        drawn = [numbers[:, i][self.known[:, i]] for i in range(len(COLUMNS))]
        self.ends = [(column.min().item() / 1.3, column.max().item() * 1.3) for column in drawn]
        self.steps, self.rewinds, self.skips = map(torch.tensor, (steps, [-1, *rewinds], skips))
        self.reparable = torch.tensor([name != "data" for name in causes])
        super().__init__(
            caption=caption,
            data={
                "names": [CAUSES[name] for name in causes],
                "repairs": [REPAIRS[name] for name in causes],
                "titles": list(COLUMNS.values()),
                "steps": steps,
            },
            cause=Choice(causes, cause, label="cause of the spike"),
            rewound=Choice(["no", *map(str, rewinds)], label="rewind to step"),
            skipped=Slider(skips[0], values=skips, label="batches to skip"),
            repaired=Tick(label="repair the cause"),
            step=Slider(steps[len(steps) // 2], values=steps),
        )

    def compute(self, cause, rewound, skipped, repaired, step):
        n_skips, back, mended = len(self.skips), rewound > 0, repaired & self.reparable[cause]
        option = torch.where(mended, n_skips, (self.skips == skipped).int().argmax())
        base = 1 + cause * (1 + (len(self.rewinds) - 1) * (n_skips + 1))  # after the run without a spike
        at = torch.where(back, base + 1 + (rewound - 1) * (n_skips + 1) + option, base)
        rows = torch.stack((base, at))[:, None] * len(COLUMNS) + torch.arange(len(COLUMNS))
        changes = self.changes.index_select(0, rows.flatten()).view(2, len(COLUMNS), -1)
        known = self.known.index_select(0, torch.stack((base, at)))
        encoded = _encoded(self.normal) + changes
        runs = torch.where(known, torch.cat((encoded[:, :1].clamp(min=1e-3), encoded[:, 1:].exp()), 1), torch.nan)
        own = runs[1]
        now = own.index_select(1, (self.steps == step).int().argmax()[None])[:, 0]
        found, end = ~now.isnan(), self.end_losses.index_select(0, at[None])[0]
        size = torch.where(found, now, 1)
        unit = 10.0 ** ((size.log() / LN10 + 1e-6).floor() - 1)  # for two digits, or one decimal of a small loss
        unit = unit.maximum(torch.tensor([0.1, 0, 0, 0]))
        return {
            "normal": torch.where(self.known[0], self.normal, torch.nan), "base": runs[0], "own": own,
            "dot": now, "now": torch.where(found, (size / unit).round() * unit, 0), "found": found,
            "back": back, "mended": mended, "checkpoint": torch.where(back, self.rewinds[rewound], torch.nan),
            "end": torch.where(end.isnan(), 0, end), "ended": ~end.isnan(), "sound": self.end_losses[0],
        }  # fmt: skip

    def marks(self):
        steps, titles = self.data["steps"], self.data["titles"]
        axes = [m.axis(low, high, ticks=_ticks_of_norms(low, high), log=True) for low, high in self.ends]
        axes[0] = m.axis(0, self.ends[0][1])
        panels = [
            m.plot(
                m.rule(x="checkpoint"),
                m.line(f"normal[{i}]", "steps", hue="none", width=1.5),
                m.line(f"base[{i}]", "steps", hue="key", width=1.5),
                m.line(f"own[{i}]", "steps", hue="query", width=2.5),
                m.dots("step", f"dot[{i}]", hue="query", size=5),
                x=m.axis(steps[0], steps[-1], "step"), y=axis, pick={"x": "step"},
                title=title[0].upper() + title[1:], height=190,
            )
            for i, (title, axis) in enumerate(zip(titles, axes, strict=True))
        ]  # fmt: skip
        facts = {f"{title} at step {{step}}": f"{{found[{i}]|not finite|{{now[{i}]}}}}"
                 for i, title in enumerate(titles)}  # fmt: skip
        facts |= {"mean loss of the last 10 steps shown": "{ended|not finite|{end:.2f}}"}
        facts |= {"the same without the spike": "{sound:.2f}"}
        words = "Blue: this run; orange: without a rewind; grey: without the spike; dashed: the checkpoint. "
        notes = m.note(words + "{back|{repaired|| A repair needs a rewind.}|{repaired||{repairs[cause]}}}")
        controls = "step", m.row("rewound", "skipped"), "repaired"
        return ["cause", m.row(*panels[:2]), m.row(*panels[2:]), *controls, m.facts(**facts), notes]


def _encoded(values: torch.Tensor) -> torch.Tensor:
    """Take the logarithms of all columns but the first, the loss: (…, columns, steps)."""
    return torch.cat((values[..., :1, :], values[..., 1:, :].log()), -2)


def _runs(rows: Sequence[Mapping]) -> dict[tuple, dict[int, list[float]]]:
    """Return the numbers of each step of each run, by (cause, rewound, skipped)."""
    runs: dict[tuple, dict[int, list[float]]] = {}
    for row in rows:
        run = runs.setdefault((row["cause"], row["rewound"], row["skipped"]), {})
        run[row["step"]] = [row[name] * (100 if name == "update_ratio" else 1) for name in COLUMNS]
    return runs
