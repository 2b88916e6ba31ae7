"""The expert load: which share of the tokens a router sends to each expert, over the steps of training."""

import math

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import list_of_strings, whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

IDLE = 0.1
"""An expert with less than this part of an even share gets almost nothing."""


class ExpertLoad(Widget):
    r"""Show the shares of the tokens that go to each expert, at one step and over training, for several runs.

    With :math:`f_e` as the share of expert e among n experts, an even load is :math:`f_e = 1/n`. An expert with less
    than a tenth of this gets almost nothing.

    Args:
        load: shares from 0 to 1 of shape (arms, seeds, steps, experts), each row with a sum of at most 1: tokens may be
            dropped.
        steps: the steps at which they were counted, in increasing order.
        arms: a name for each arm, such as "without balance loss".
        arm: the initial arm, by name; the first one if it is not given.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for shares outside these bounds, or numbers of arms or steps that do not fit them.

    Source: Shazeer et al. (2017), section 4; Fedus et al. (2022), section 2.2; GT-19.

    >>> load = [[[[0.5, 0.5, 0, 0], [0.99, 0.01, 0, 0]]], [[[0.5, 0.2, 0.2, 0.1], [0.3, 0.3, 0.2, 0.2]]]]
    >>> ExpertLoad(load, [0, 100], ["without balance loss", "with balance loss"])  # doctest: +NORMALIZE_WHITESPACE
    Step 100, without balance loss, seed 1: expert 1 gets the largest share of the tokens, 99.0%; an even share would be
    25.0%. Of 4 experts, 3 get almost nothing, less than 2.5%.
    """

    sentence = (
        "Step {step}, {arm}, seed {seed}: expert {most} gets the largest share of the tokens, {largest:.1f}%; an even "
        "share would be {even:.1f}%. Of {experts} experts, {idle} {idle|get|gets|get} almost nothing, less than "
        "{little:.1f}%."
    )

    def __init__(self, load, steps, arms, *, arm: str | None = None, caption: str = ""):
        shares = _shares(load)
        names = list_of_strings("arms", arms)
        if len(set(names)) < len(names) or len(names) != len(shares):
            raise ValueError(f"arms={names!r}; there must be {len(shares)} different names, as load has so many arms")
        given = steps.tolist() if hasattr(steps, "tolist") else list(steps)
        counted = [whole("a step", step, 0, 10**9) for step in given]
        if counted != sorted(set(counted)) or len(counted) != shares.shape[2]:
            raise ValueError(f"steps={counted}; there must be {shares.shape[2]} in increasing order, as in load")
        _, seeds, _, experts = shares.shape
        self.percent, self.steps = (100 * shares).round(decimals=2).float(), torch.tensor(counted)
        self.top = 10 * math.ceil(self.percent.max().item() / 10)
        super().__init__(
            caption=caption,
            data={"steps": counted, "experts": experts, "even": 100 / experts, "little": 100 * IDLE / experts},
            arm=Choice(names, arm, label="training"),
            seed=Choice(list(range(1, seeds + 1))),
            step=Slider(counted[-1], values=counted),
        )

    def compute(self, arm, seed, step):
        history = self.percent[arm, seed]  # (steps, experts)
        at = (self.steps == step).int().argmax()
        now = history.index_select(0, at[None])[0]
        most = now.argmax()
        return {
            "now": now, "history": history.T, "most": most + 1, "largest": now[most], "best": history.T[most],
            "hues": 2 * (torch.arange(len(now)) == most).int(), "idle": (now < self.data["little"]).sum(),
        }  # fmt: skip

    def marks(self):
        experts, steps, up = self.data["experts"], self.data["steps"], m.axis(0, self.top, "% of the tokens")
        numbers = list(range(1, experts + 1))
        even = m.rule(y="even")
        now = m.plot(
            m.bars("now", numbers, hue="@hues", text="{value:.0f}"), even,
            x=m.axis(0.4, experts + 0.6, "expert", ticks=numbers[:: math.ceil(experts / 8)]), y=up,
            title="Step {step}", hint="dashed: an even share",
        )  # fmt: skip
        history = m.plot(
            m.rule(x="step"), even,
            m.line("history", "steps", hue="feedforward", width=1.5),
            m.line("best", "steps", hue="weights", width=3),
            m.dots("step", "largest", hue="weights", label="expert {most}"),
            x=m.axis(steps[0], steps[-1], "training step"), y=up,
            title="Over training", hint="a line for each expert", pick={"x": "step"},
        )  # fmt: skip
        facts = {
            "largest share": "{largest:.1f}%",
            "even share": "{even:.1f}%",
            "experts with less than a tenth of that": "{idle} of {experts}",
        }
        return ["arm", "seed", m.row(now, history), "step", m.facts(**facts)]


def _shares(load) -> torch.Tensor:
    """Return the shares as float64; raise a ValueError for what cannot be shares of tokens."""
    try:
        shares = torch.as_tensor(load).double()
    except (TypeError, ValueError) as error:
        raise ValueError("load must be numbers of shape (arms, seeds, steps, experts)") from error
    if shares.ndim != 4 or min(shares.shape[:2]) < 1 or min(shares.shape[2:]) < 2:
        raise ValueError(
            f"load has the shape {tuple(shares.shape)}; it must be (arms, seeds, steps, experts), with two steps and "
            "two experts or more"
        )
    if not bool(((shares >= 0) & (shares.sum(-1, keepdim=True) <= 1.01)).all()):
        raise ValueError("load must be shares from 0 to 1, which sum over the experts to at most 1")
    return shares
