"""The rank comparison: the ranks of the modifications in the paper's table beside those of our runs."""

from collections.abc import Mapping, Sequence

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.ablation_explorer import (
    HUES,
    MATCHED,
    VERDICTS,
    by_number,
    column,
    compared_rows,
    verdicts,
)
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

PAPER = {"final loss": "final_loss", "early loss": "early_loss_mean"}
"""The paper's losses by which rows are ranked: after all steps, and after an eighth of them."""


class RankComparison(Widget):
    r"""Show the rank of each modification in the paper's table beside its rank in our runs.

    Each line is a row of the table, from its rank in the paper on the left to ours on the right; rank 1 is the lowest
    loss. At equal steps, ours are ranks of the losses, and at equal time or FLOPs those of the differences from the
    baseline. Rows whose loss is not finite come last. Of the pairs of rows that are shown, C are in the same order and
    D in the opposite one, and Kendall's

    .. math:: \tau_b = \frac{C - D}{\sqrt{n_\mathrm{paper}\, n_\mathrm{ours}}}

    divides by the numbers of pairs that are no ties.

    Args:
        results: rows of the table ``ablation_results``; that table where they are not given.
        row: name of the row that is marked, by default the last.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for an unknown row, and without the baseline.

    Source: Narang et al. (2021), table 1; GT-19, GT-51.

    >>> names = {"baseline": (1, 2.0, "baseline"), "geglu": (6, 1.9, "better"), "elu": (4, 2.2, "worse")}
    >>> results = [
    ...     {"row": row, "name": name, "loss": loss, "time_difference": loss, "flops_difference": loss}
    ...     | {f"{kind}verdict": verdict for kind in ("", "time_", "flops_")}
    ...     for name, (row, loss, verdict) in names.items()
    ... ]
    >>> RankComparison(results)  # doctest: +NORMALIZE_WHITESPACE
    3 rows of the group all, by the paper's final loss and ours at equal steps: Kendall's tau is 1.00. GeGLU has rank 1
    in the paper and rank 1 in our runs: better.
    """

    sentence = (
        "{n_shown:.0f} rows of the group {group}, by the paper's {paper} and ours at equal {matched}: Kendall's tau is "
        "{defined|unknown|{tau:.2f}}. {titles[row]} {member|is not among them|has rank {own_paper:.0f} in the paper "
        "and rank {own_ours:.0f} in our runs}: {verdicts[own_verdict]}."
    )

    def __init__(self, results: Sequence[Mapping] | None = None, row: str | None = None, *, caption: str = ""):
        rows = compared_rows(results)
        names = [found["name"] for found in rows]
        if row is not None and row not in names:
            raise ValueError(f"{row=}; it must be one of {', '.join(names)}")
        losses = torch.tensor([[float(found["loss"]) for found in rows]])
        ours = torch.cat((losses, column(rows, "difference")[1:]))
        self.ours = torch.where(ours.isfinite(), ours, 1e6)  # (3, rows)
        self.numbers = torch.tensor([found["row"] for found in rows])
        self.theirs = torch.tensor([[float(found["paper"][name]) for found in rows] for name in PAPER.values()])
        self.verdicts = verdicts(rows)
        groups = list(dict.fromkeys(found["group"] for found in rows[1:]))
        self.groups = torch.tensor([-1, *(groups.index(found["group"]) for found in rows[1:])])
        super().__init__(
            caption=caption,
            data={
                "titles": by_number(rows, [found["title"] for found in rows]),
                "verdicts": list(VERDICTS),
                "hues": list(HUES),
            },
            group=Choice(["all", *groups]),
            paper=Choice(PAPER, label="the paper's"),
            matched=Choice(MATCHED, label="ours at equal"),
            row=Slider(rows[-1 if row is None else names.index(row)]["row"], values=self.numbers.tolist(), label="row"),
        )

    def compute(self, group, paper, matched, row):
        theirs = self.theirs.index_select(0, paper[None])[0]
        ours = self.ours.index_select(0, matched[None])[0]
        verdict = self.verdicts.index_select(0, matched[None])[0]
        kept = (group == 0) | (self.groups == group - 1) | (self.groups < 0)  # the baseline is in every group
        pairs = kept[:, None] & kept
        orders = [(x[:, None] - x).sign() * pairs for x in (theirs, ours)]
        untied = [order.abs().sum() for order in orders]
        tau = (orders[0] * orders[1]).sum() / (untied[0] * untied[1]).clamp(min=1).sqrt()
        ranks = [1 + ((x[:, None] > x) & pairs).sum(1) for x in (theirs, ours)]  # equal losses have equal ranks
        count = torch.arange(len(kept))
        sides = [torch.where(kept, x, 1e9).sort(stable=True).indices for x in (theirs, ours)]
        there = count < kept.sum()
        positions = [(side[:, None] == count).int().argmax(0) for side in sides]  # of each row, on each side
        at = (self.numbers == row).int().argmax()[None]
        member = kept.index_select(0, at)[0]
        return {
            "left": torch.where(there, self.numbers.index_select(0, sides[0]).float(), torch.nan),
            "right": torch.where(there, self.numbers.index_select(0, sides[1]).float(), torch.nan),
            "y_paper": torch.where(kept, positions[0], torch.nan), "y_ours": torch.where(kept, positions[1], torch.nan),
            "ys_right": torch.where(there, count, torch.nan), "hue": verdict,
            "widths": 1.5 + 3.5 * (self.numbers == row),
            "right_hue": verdict.index_select(0, sides[1]), "n_shown": kept.sum(),
            "tau": tau, "defined": (untied[0] > 0) & (untied[1] > 0), "member": member,
            "own_paper": ranks[0].index_select(0, at)[0], "own_ours": ranks[1].index_select(0, at)[0],
            "own_verdict": verdict.index_select(0, at)[0],
        }  # fmt: skip

    def marks(self):
        n = len(self.groups)
        ranks = m.plot(
            m.arrows([1] * n, "y_ours", x0=[0] * n, y0="y_paper", hue="@hues[hue]", head=False, width="widths"),
            m.words([1.05] * n, "ys_right", "titles[right]", hue="@hues[right_hue]", anchor="start"),
            x=m.axis(0, 2.4, ticks=[]), y=m.axis(labels="titles[left]"),
            title="The paper's rank (left) and ours (right)",
            hint="from the lowest loss down; green: better; orange: worse; grey: within noise; brown: unstable",
            height=19 * n + 30,
        )  # fmt: skip
        facts = {
            "rows": "{n_shown:.0f}", "Kendall's tau": "{defined|unknown|{tau:.2f}}",
            "{titles[row]}: rank in the paper": "{member|–|{own_paper:.0f}}",
            "{titles[row]}: rank in our runs": "{member|–|{own_ours:.0f}}",
            "{titles[row]}: verdict": "{verdicts[own_verdict]}",
        }  # fmt: skip
        return ["group", m.row("paper", "matched"), "row", m.facts(**facts), ranks]
