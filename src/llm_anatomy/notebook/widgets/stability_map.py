"""The stability map: which learning rates and depths a placement of the norms trains at, seed by seed."""

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import finite, list_of_strings, whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Tick
from llm_anatomy.notebook.widgets.gradient_by_layer import increasing

WHO = "{placement} {warmup|without|with} warm-up"


class StabilityMap(Widget):
    r"""Show how many seeds trained at each learning rate and depth, and the losses of the seeds of one cell.

    A run has trained if its loss at the end is at most ``failed_above``. A cell of the map counts the seeds that
    trained. A click on it, or the controls, show the losses of its seeds, among those of the other learning rates.

    Args:
        placements: names of the placements of the norms.
        rates: maximum learning rates, the columns.
        depths: numbers of layers, the rows.
        losses: the losses at the end, of shape (placements, 2, depths, rates, seeds), without warm-up and with it;
            infinite for a run that diverged, NaN where there was no run.
        failed_above: the largest loss of a run that trained.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for equal placements, rates or depths that do not increase, rates that are not positive, losses of
            another shape or without a finite number, and for a bound that is not finite.

    Source: Xiong et al. (2020), section 4; Nguyen and Salazar (2019); CMU-18, CMU-19, GT-13, GT-15.

    >>> losses = [[[[[2.5, 2.6], [3.1, 2.9]]], [[[2.4, 2.5], [2.3, 2.3]]]]]
    >>> StabilityMap(["post"], [0.001, 0.004], [6], losses, 3.0)  # doctest: +NORMALIZE_WHITESPACE
    post without warm-up, 6 layers, maximum learning rate 0.004: 1 of 2 seeds trained; the losses are 3.10 (failed),
    2.90 (trained). On the whole map, 3 of 4 runs trained.
    """

    warmup = Tick(label="warm-up")
    sentence = (
        f"{WHO}, {{depth}} {{several|layer|layers}}, maximum learning rate {{rate}}: {{runs|there is no run|"
        "{trained} of {runs} seeds trained; the losses are [[{losses:.2f} ({failed|trained|failed})]]}. "
        "On the whole map, {all_trained} of {all_runs} runs trained."
    )

    def __init__(self, placements, rates, depths, losses, failed_above: float, *, caption: str = ""):
        names = list_of_strings("placements", placements)
        if len({*names}) < len(names):
            raise ValueError(f"{placements=}; the names must differ")
        rates = increasing("rates", [finite("rate", rate) for rate in rates])
        if rates[0] <= 0:
            raise ValueError(f"{rates=}; learning rates must be positive")
        depths = increasing("depths", [whole("depth", depth, 1, 1000) for depth in depths])
        self.failed_above = finite("failed_above", failed_above)
        self.losses = torch.as_tensor(losses, dtype=torch.float32)
        expected = (len(names), 2, len(depths), len(rates))
        if self.losses.ndim != 5 or self.losses.shape[:4] != expected:
            shape = f"({', '.join(map(str, expected))}, seeds)"
            raise ValueError(f"losses of shape {tuple(self.losses.shape)}; it must be {shape}")
        if not (known := self.losses[self.losses.isfinite()]).numel():
            raise ValueError("losses has no finite entry; there would be nothing to draw")
        low, high = min(known.min().item(), self.failed_above), max(known.max().item(), self.failed_above)
        self.depths = torch.tensor(depths)
        self.step = (high - low or 1) / 12
        self.low, self.high = low - self.step, high + self.step  # a run that diverged is drawn a step higher
        shift = torch.linspace(-0.25, 0.25, self.losses.shape[-1])
        data = {"depths": [str(depth) for depth in depths], "rates": [f"{rate:g}" for rate in rates]}
        data |= {"at": (torch.arange(len(rates))[:, None] + shift).flatten().double().round(decimals=3).tolist()}
        data |= {"hues": ["positive", "negative"]}
        super().__init__(
            caption=caption,
            data=data,
            placement=Choice(names),
            depth=Choice(data["depths"], data["depths"][-1], label="layers"),
            rate=Choice(data["rates"], data["rates"][len(rates) // 2], label="learning rate"),
        )

    def compute(self, warmup, placement, depth, rate):
        losses = self.losses[placement, warmup.long()]  # (depths, rates, seeds)
        ran, trained = ~losses.isnan(), losses <= self.failed_above
        row = losses[depth]
        return {
            "counts": torch.where(ran.any(-1), trained.sum(-1), torch.nan),
            "losses": row[rate], "failed": ~trained[depth, rate], "trained": trained[depth, rate].sum(),
            "runs": ran[depth, rate].sum(), "all_trained": trained.sum(), "all_runs": ran.sum(),
            "row": row.clamp(max=self.high).flatten(), "row_failed": (~trained[depth]).flatten(),
            "down": depth, "across": rate, "from": rate - 0.5, "to": rate + 0.5,
            "several": self.depths[depth] > 1,
        }  # fmt: skip

    def marks(self):
        counts = m.plot(
            m.cells("counts", hue="positive", reach=2 * self.losses.shape[-1], text="{value}", frame="down",
                    column="across"),
            x=m.axis(labels="rates", name="maximum learning rate"), y=m.axis(labels="depths", name="layers"),
            title="Seeds that trained", hint=f"of {self.losses.shape[-1]}; " + WHO, height=300,
            pick={"x": "rate", "y": "depth"},
        )  # fmt: skip
        losses = m.plot(
            m.band("from", "to", hue="query"),
            m.rule(y=self.failed_above),
            m.dots("at", "row", hue="@hues[row_failed]", size=5),
            x=m.axis(labels="rates", name="maximum learning rate"), y=m.axis(self.low, self.high + self.step),
            title="Final loss, {depth} {several|layer|layers}", hint="above the dashed line: failed",
            height=300, pick={"x": "rate"},
        )  # fmt: skip
        facts = {"seeds that trained in this cell": "{runs|no run|{trained} of {runs}}"}
        facts |= {"their losses": "[[{losses:.2f}]]", "runs that trained on the map": "{all_trained} of {all_runs}"}
        return [m.row(counts, losses), "placement", "warmup", "depth", "rate", m.facts(**facts)]
