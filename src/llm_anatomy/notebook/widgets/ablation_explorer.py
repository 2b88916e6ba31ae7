"""The ablation explorer: the losses of all rows of the ablation lab, at equal steps, time or FLOPs."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from llm_anatomy.data import table
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider, Tick

BASELINE = "baseline"
MATCHED = {"steps": "", "time": "time_", "FLOPs": "flops_"}
"""What rows are compared at, and how its columns begin."""
VERDICTS = ("better", "worse", "within noise", "unstable", BASELINE)
HUES = ("value", "key", "none", "position", "residual")
TITLES = {
    "rezero": "ReZero", "rezero_layernorm": "ReZero + LayerNorm", "rezero_rmsnorm": "ReZero + RMSNorm",
    "rmsnorm": "RMSNorm", "depth_24": "24 layers", "depth_18": "18 layers", "depth_8": "8 layers",
    "depth_6": "6 layers", "block_sharing_factorized": "Sharing, fact.",
    "block_sharing_factorized_shared": "Sharing, fact. tied", "encoder_sharing": "Encoder sharing",
    "decoder_sharing": "Decoder sharing", "factorized_embedding": "Factorized",
    "factorized_shared_embedding": "Factorized, tied", "tied_inputs": "Tied inputs", "tied_decoder": "Tied in decoder",
    "untied": "Untied", "adaptive_input": "Adaptive input", "adaptive_softmax": "Adaptive softmax",
    "adaptive_softmax_without_projection": "Ad. softmax, no pr.", "mixture_of_softmaxes": "Mix. of softmaxes",
    "transparent_attention": "Transparent att.", "dynamic_convolution": "Dynamic conv.",
    "lightweight_convolution": "Lightweight conv.", "evolved_transformer": "Evolved",
    "synthesizer_dense": "Dense synth.", "synthesizer_dense_plus": "Dense +",
    "synthesizer_dense_plus_alpha": "Dense + α", "synthesizer_factorized": "Factorized synth.",
    "synthesizer_random": "Random synth.",
    "synthesizer_random_plus": "Random +", "synthesizer_random_plus_alpha": "Random + α",
    "universal_transformer": "Universal", "mixture_of_experts": "Experts", "switch_transformer": "Switch",
    "funnel_transformer": "Funnel", "weighted_transformer": "Weighted", "product_key_memory": "Product keys",
}  # fmt: skip
"""What is too long in the paper's table for a label."""
REACHES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


def compared_rows(results: Sequence[Mapping] | None) -> list[dict]:
    """The rows of the table of results with their title and group, the baseline first.

    Args:
        results: as in the table ``ablation_results``, which is taken where there are none.

    Raises:
        ValueError: without a row of the baseline and another one, and for an unknown row or verdict.
    """
    paper = {row["row"]: row for row in table("narang2021")}
    rows = sorted((dict(row) for row in (table("ablation_results") if results is None else results)), key=_number_of)
    if not rows or rows[0]["name"] != BASELINE or len(rows) < 2:
        raise ValueError(f"results must have the row {BASELINE!r} and another one")
    for row in rows:
        if row["row"] not in paper:
            raise ValueError(f"row={row['row']!r}; it must be a number of the table narang2021, from 1 to {len(paper)}")
        for prefix in MATCHED.values():
            if row[f"{prefix}verdict"] not in VERDICTS:
                raise ValueError(f"verdict={row[f'{prefix}verdict']!r}; it must be one of {', '.join(VERDICTS)}")
        own = paper[row["row"]]
        row |= {"title": TITLES.get(row["name"], own["variant"]), "group": own["group"], "paper": own}
    rows[0]["title"] = "Baseline"
    return rows


def _number_of(row: Mapping) -> int:
    return row["row"]


def by_number(rows: Sequence[Mapping], words: Sequence[str]) -> list[str]:
    """A list in which the number of a row finds its word; the words of rows that are missing are empty."""
    found = dict(zip((row["row"] for row in rows), words, strict=True))
    return [found.get(number, "") for number in range(1 + max(found))]


def column(rows: Sequence[Mapping], name: str) -> Tensor:
    """A number of each row for each measure of :data:`MATCHED`: (3, rows); NaN where there is no finite one."""
    found = [[row.get(f"{prefix}{name}") for row in rows] for prefix in MATCHED.values()]
    numbers = torch.tensor([[float("nan") if x is None else float(x) for x in of_measure] for of_measure in found])
    return torch.where(numbers.isfinite(), numbers, torch.nan)


def verdicts(rows: Sequence[Mapping]) -> Tensor:
    """The verdict of each row for each measure, as an index of ``VERDICTS``: (3, rows)."""
    return torch.tensor([[VERDICTS.index(row[f"{prefix}verdict"]) for row in rows] for prefix in MATCHED.values()])


class AblationExplorer(Widget):
    r"""Compare the rows of the ablation lab with the baseline, at equal steps, equal time or equal FLOPs.

    The curves are means over the seeds, moved so that they end at the loss on all test stories. At equal time, a row
    whose step takes c times the baseline's has made s / c steps where the baseline has made s:

    .. math:: \mathrm{loss}(s) = \mathrm{curve}(s / c)

    The intervals are those of the paired tests at 95 %, and the verdicts are corrected for the number of rows.

    Args:
        results, curves, speeds: rows of the tables ``ablation_results``, ``ablation_curves`` and ``ablation_speed``;
            these tables where they are not given. A row without a speed has the baseline's.
        first, second: names of the rows that are marked, by default the best two at equal steps.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for an unknown row, and where the baseline or a curve is missing.

    Source: Narang et al. (2021), table 1; GT-19, CMU-21.

    >>> names = {"baseline": (1, 0.0, "baseline"), "geglu": (6, -0.1, "better"), "elu": (4, 0.2, "worse")}
    >>> numbers = [f"{kind}{field}" for kind in ("", "time_", "flops_") for field in ("difference", "low", "high")]
    >>> results = [
    ...     {"row": row, "name": name, "loss": 2 + d, "rank": 1, "paper_rank": 1} | dict.fromkeys(numbers, d)
    ...     | {f"{kind}verdict": verdict for kind in ("", "time_", "flops_")}
    ...     for name, (row, d, verdict) in names.items()
    ... ]
    >>> curves = [{"name": name, "step": step, "loss": 4 - step} for name in names for step in (1, 2)]
    >>> AblationExplorer(results, curves, [])  # doctest: +NORMALIZE_WHITESPACE
    At equal steps, group all: 1 better, 1 worse, 0 within noise, 0 unstable. GeGLU: difference −0.100, from −0.100 to
    −0.100, better. ELU: difference 0.200, from 0.200 to 0.200, worse.
    """

    sentence = (
        "At equal {matched}, group {group}: [[{counts:.0f} {kinds}]]. "
        "{titles[first]}: {known[0]|no interval is known|difference {own[0]:.3f}, from {own_low[0]:.3f} to "
        "{own_high[0]:.3f}}, {verdicts[own_first]}. "
        "{titles[second]}: {known[1]|no interval is known|difference {own[1]:.3f}, from {own_low[1]:.3f} to "
        "{own_high[1]:.3f}}, {verdicts[own_second]}."
    )

    def __init__(
        self,
        results: Sequence[Mapping] | None = None,
        curves: Sequence[Mapping] | None = None,
        speeds: Sequence[Mapping] | None = None,
        first: str | None = None,
        second: str | None = None,
        *,
        caption: str = "",
    ):
        rows = compared_rows(results)
        names = [row["name"] for row in rows]
        by_loss = sorted((row["loss"], row["name"]) for row in rows[1:])
        marked = [by_loss[0][1] if first is None else first, by_loss[min(1, len(by_loss) - 1)][1]]
        marked[1] = marked[1] if second is None else second
        for name, given in zip(("first", "second"), marked, strict=True):
            if given not in names[1:]:
                raise ValueError(f"{name}={given!r}; it must be one of {', '.join(names[1:])}")
        points = {name: {} for name in names}
        for row in table("ablation_curves") if curves is None else curves:
            if row["name"] in points:
                points[row["name"]][row["step"]] = float(row["loss"])
        steps = sorted(points[BASELINE])
        if len(steps) < 2 or [steps[0] * n for n in range(1, len(steps) + 1)] != steps:
            raise ValueError(f"the curve of the baseline has the steps {steps}; they must be at equal distances from 0")
        if missing := [name for name in names if not points[name]]:
            raise ValueError(f"there is no curve of {missing[0]}")
        nan = float("nan")
        self.curves = torch.tensor([[points[name].get(step, nan) for step in steps] for name in names])
        ends = torch.tensor([float(row["loss"]) for row in rows])
        moved = ends - self.curves[:, -1]
        self.curves = self.curves + torch.where(moved.isfinite(), moved, 0)[:, None]
        known = {row["name"]: row for row in (table("ablation_speed") if speeds is None else speeds)}
        ratios = [
            [float(known[name][key]) if name in known and name != BASELINE else 1.0 for name in names]
            for key in ("time_ratio", "flops_ratio")
        ]
        self.ratios = torch.tensor([[1.0] * len(rows), *ratios])  # (3, rows)
        self.differences, self.lows, self.highs = (column(rows, name) for name in ("difference", "low", "high"))
        self.verdicts = verdicts(rows)
        self.steps = torch.tensor(steps).float()
        self.numbers = torch.tensor([row["row"] for row in rows])
        groups = list(dict.fromkeys(row["group"] for row in rows[1:]))
        self.groups = torch.tensor([-1, *(groups.index(row["group"]) for row in rows[1:])])
        self.reach = [float(self.curves.nan_to_num(9e9).amin()) - 0.1, float(self.curves[0, 1])]
        numbers = [rows[names.index(name)]["row"] for name in marked]
        super().__init__(
            caption=caption,
            data={
                "titles": by_number(rows, [row["title"] for row in rows]),
                "names": by_number(rows, [f"{row['row']} {row['title']}" for row in rows]),
                "parameters": by_number(
                    rows, [f"{known[name]['parameters']:,}" if name in known else "unknown" for name in names]
                ),
                "verdicts": list(VERDICTS),
                "kinds": list(VERDICTS[:4]),
                "hues": list(HUES),
            },
            matched=Choice(MATCHED, label="equal"),
            group=Choice(["all", *groups]),
            relative=Tick(label="curves: difference from the baseline"),
            zoom=Slider(0.2, values=list(REACHES), digits=2, label="frame in nats"),
            first=Slider(numbers[0], values=self.numbers[1:].tolist(), label="first row", hue="query"),
            second=Slider(numbers[1], values=self.numbers[1:].tolist(), label="second row", hue="weights"),
        )

    def _at(self, steps: Tensor) -> Tensor:
        """The losses of all rows after so many steps of their own, (rows, points); NaN outside the curve."""
        n = len(self.steps)
        at = (steps / self.steps[0] - 1).clamp(-1, n)
        before = at.floor().clamp(0, n - 2).long()
        left, right = self.curves.gather(1, before), self.curves.gather(1, before + 1)
        found = left + (at - before) * (right - left)
        return torch.where((at > -1e-4) & (at < n - 1 + 1e-4), found, torch.nan)

    def compute(self, matched, group, relative, zoom, first, second):
        def own(values):
            return values.index_select(0, matched[None])[0]

        ratios, differences, lows, highs, verdict = map(
            own, (self.ratios, self.differences, self.lows, self.highs, self.verdicts)
        )
        first, second = ((self.numbers == row).int().argmax() for row in (first, second))
        kept = ((group == 0) | (self.groups == group - 1)) & (self.groups >= 0)
        losses = self._at(self.steps / ratios[:, None])
        drawn = torch.where(relative, losses - self.curves[0], losses)
        low = torch.where(relative, -zoom, self.reach[0])
        high = torch.where(relative, zoom, self.reach[1])
        drawn = torch.where((drawn >= low) & (drawn <= high), drawn, torch.nan)
        both = torch.stack((first, second))
        chosen = differences.index_select(0, both), lows.index_select(0, both), highs.index_select(0, both)
        sooner = self.steps[-1] * ratios.index_select(0, both).clamp(max=1)  # the end of the cheaper run of the two
        shift = torch.where(relative, 0, self._base_at(sooner))
        ends = [torch.where((x + shift >= low) & (x + shift <= high), x + shift, torch.nan) for x in chosen]
        count = torch.arange(len(verdict))
        order = torch.where(kept & ~differences.isnan(), differences, torch.where(kept, 1e8, 1e9)).sort(stable=True)
        shown = torch.where(count < kept.sum(), self.numbers.index_select(0, order.indices).float(), torch.nan)
        sorted_ = [x.index_select(0, order.indices) for x in (differences, lows, highs)]
        inside = torch.where(shown >= 0, sorted_[0].clamp(-zoom, zoom), torch.nan)
        marked = 2.0 * ((order.indices == first) | (order.indices == second))
        return {
            "drawn": torch.where(kept[:, None], drawn, torch.nan), "base": drawn[0],
            "curve_first": drawn.index_select(0, first[None])[0],
            "curve_second": drawn.index_select(0, second[None])[0],
            "low": low, "high": high, "where": sooner,
            "end": ends[0], "end_low": ends[1], "end_high": ends[2],
            "shown": shown, "n_shown": kept.sum(), "differences": inside,
            "outside": sorted_[0].abs() > zoom, "sizes": 4.0 + marked,
            "left": torch.where(shown >= 0, sorted_[1].clamp(-zoom, zoom), torch.nan),
            "right": torch.where(shown >= 0, sorted_[2].clamp(-zoom, zoom), torch.nan),
            "verdict_hue": verdict.index_select(0, order.indices),
            "counts": ((torch.arange(4)[:, None] == verdict) & kept).sum(1),
            "own": chosen[0].nan_to_num(), "own_low": chosen[1].nan_to_num(), "own_high": chosen[2].nan_to_num(),
            "known": ~(chosen[0] + chosen[1] + chosen[2]).isnan(),
            "own_first": verdict.index_select(0, first[None])[0],
            "own_second": verdict.index_select(0, second[None])[0],
            "times": self.ratios[1].index_select(0, both), "flops": self.ratios[2].index_select(0, both),
            "left_end": -zoom,
        }  # fmt: skip

    def _base_at(self, steps: Tensor) -> Tensor:
        """The loss of the baseline after so many steps, one for each entry."""
        at = (steps / self.steps[0] - 1).clamp(0, len(self.steps) - 1)
        before = at.floor().clamp(0, len(self.steps) - 2).long()
        left, right = (self.curves[0].index_select(0, before + n) for n in (0, 1))
        return left + (at - before) * (right - left)

    def marks(self):
        last, ys = float(self.steps[-1]), list(range(len(self.groups)))
        curves = m.plot(
            m.line("drawn", self.steps.tolist(), hue="none", width=1, faint=True),
            m.line("base", self.steps.tolist(), hue="residual", width=3),
            m.line("curve_first", self.steps.tolist(), hue="query", width=3),
            m.line("curve_second", self.steps.tolist(), hue="weights", width=3),
            m.arrows("where", "end_high", x0="where", y0="end_low", hue=["query", "weights"], head=False, width=4),
            x=m.axis(0, 1.02 * last, "steps of the baseline", ticks=[last * n / 4 for n in range(5)]),
            y=m.axis("low", "high"), height=300,
            title="{relative|Test loss|Test loss above the baseline's}, in nats, at equal {matched}",
            hint="{relative|thick: baseline|zero: baseline}; upright: intervals of the difference at the end",
        )  # fmt: skip
        intervals = m.plot(
            m.rule(x=0),
            m.arrows("right", ys, x0="left", y0=ys, hue="@hues[verdict_hue]", head=False, width=3),
            m.dots("differences", ys, hue="@hues[verdict_hue]", size="sizes", hollow="outside"),
            x=m.axis("left_end", "zoom", "nats"), y=m.axis(labels="names[shown]"),
            title="Difference from the baseline at equal {matched}",
            hint="green: better; orange: worse; grey: within noise; brown: unstable; hollow: outside the frame",
            height=19 * len(ys) + 40,
        )  # fmt: skip
        facts = {}
        for i, name in enumerate(("first", "second")):
            difference = f"{{known[{i}]|unknown|{{own[{i}]:.3f}} ({{own_low[{i}]:.3f}} to {{own_high[{i}]:.3f}})}}"
            facts |= {f"{{titles[{name}]}}: difference": difference}
            facts |= {f"{{titles[{name}]}}: verdict": f"{{verdicts[own_{name}]}}"}
        costs = "; ".join(
            f"{{titles[{name}]}}: {{parameters[{name}]}} parameters, {{times[{i}]:.2f}} times the baseline's time and "
            f"{{flops[{i}]:.2f}} times its FLOPs for a step"
            for i, name in enumerate(("first", "second"))
        )
        return [
            "matched", "group", "first", "second", curves, "relative", m.facts(**facts), m.note(f"{costs}."), "zoom",
            intervals,
        ]  # fmt: skip
