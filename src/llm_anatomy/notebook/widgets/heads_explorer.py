"""The heads explorer: how the columns of one projection become heads, and heads become columns again."""

import torch
from einops import rearrange

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider, Tick

MOST_TOKENS, WIDEST = 12, 24
PLAIN, DEEP, FLAT = (
    "plain reshape to (heads, tokens, d_head) instead",
    "[{head}, {row}, {i}]",
    "[{token}, {own}·{d_head} + {j}]",
)
ADDRESS = (
    f"{{at|x{FLAT} ↔ heads{DEEP}|attended{DEEP} = Σₛ α[{{head}}, {{row}}, s] · heads[{{head}}, s, {{i}}]"
    f"|attended{DEEP} ↔ joined{FLAT}}}"
)
MEANING = (
    "{wrong|{at|The same number, in head {head}, and still in the row of token {token}."
    "|It mixes column {column} of the tokens: a head mixes rows, and stays within its columns."
    "|Row {token} is token {token} again, its heads laid end to end.}"
    "|{at|The reshape puts it into head {head}, row {row}. {astray|This one is where it belongs."
    "|It belongs to head {own}, row {token}.} Of {count} numbers, {elsewhere} are elsewhere."
    "|It should mix column {column} of every token. The reshape gives it [[x[{from_token}, {from_column}||], ]]]."
    "|A reshape puts it back and the shapes betray nothing, but its head mixed the wrong numbers.}}"
)


class HeadsExplorer(Widget):
    """Show where a number of a projection ends up when the columns are read as heads.

    ``x[t, h·d_head + i]`` is ``heads[h, t, i]``. A plain reshape to (heads, tokens, d_head) has the same shape and
    mixes the tokens.

    Args:
        n_tokens: rows of the projection, 1 to 12.
        n_heads: number of heads.
        d_head: width of a head; the projection is n_heads · d_head wide, at most 24.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a size that is not an integer, below 1, or too large to be shown.

    Source: Vaswani et al. (2017), section 3.2.2; CMU-09, UCL-21.

    >>> HeadsExplorer(5, 3, 2)  # doctest: +NORMALIZE_WHITESPACE
    5 tokens, 3 heads of width 2: x[1, 1·2 + 1] ↔ heads[1, 1, 1]. The same number, in head 1, and still in the row of
    token 1.
    """

    sentence = f"{{tokens}} tokens, {{heads}} heads of width {{d_head}}: {ADDRESS}. {MEANING}"
    step = Choice(["2 split", "3 attend", "4 join"])

    def __init__(self, n_tokens=5, n_heads=3, d_head=2, *, caption: str = ""):
        whole("n_tokens", n_tokens, 1, MOST_TOKENS)
        self.width = width = whole("n_heads", n_heads, 1, WIDEST) * whole("d_head", d_head, 1, WIDEST)
        if width > WIDEST:
            raise ValueError(f"{n_heads=} of {d_head=} are {width} columns; more than {WIDEST} cannot be shown")
        self.numbers = torch.arange(n_tokens * width).view(n_tokens, width)
        rows, columns = ([str(i) for i in range(n)] for n in (n_tokens, width))
        cells, names = [f"{t},{c}" for t in rows for c in columns], [f"h={h}" for h in columns]
        data = {"tokens": n_tokens, "width": width, "rows": rows, "columns": columns, "cells": cells, "names": names}
        heads = Choice([n for n in range(1, width + 1) if width % n == 0], n_heads, fixed=True)
        token, column = Slider(min(1, n_tokens - 1), 0, n_tokens - 1), Slider(min(d_head + 1, width - 1), 0, width - 1)
        controls = {"heads": heads, "plain": Tick(label=PLAIN), "token": token, "column": column}
        super().__init__(caption=caption, data=data | {"count": len(cells)}, **controls)

    def compute(self, step, heads, plain, token, column):
        x, w, d, joined = self.numbers, self.width, self.width // heads, step == 2
        split = rearrange(x, "tokens (heads d_head) -> heads tokens d_head", heads=heads)
        apart = rearrange(
            torch.where(plain, x.reshape(split.shape), split), "heads tokens d_head -> tokens (heads d_head)"
        )
        spot = (apart == token * w + column).flatten().int().argmax()
        row, across = spot // w, spot % w
        sources = apart.index_select(1, across[None])[:, 0]  # the numbers that its head mixes
        mixed, shown = (x[..., None] == sources).any(-1) & (step > 0), torch.where(joined, x, apart)
        wrong = torch.where(step > 0, (sources % w != column).any(), plain)
        words = {
            "at": step,
            "d_head": torch.tensor(d),
            "head": across // d,
            "row": row,
            "i": across % d,
            "wrong": wrong,
        }
        words |= {"own": column // d, "j": column % d, "from_token": sources // w, "from_column": sources % w}
        words |= {"astray": (row != token) | (across != column), "elsewhere": (apart != x).sum()}
        before = {"number": x, "hue": x % w // d, "tint": 0.25 + 0.3 * mixed, "last": torch.tensor(len(x) - 0.5)}
        after = {"shown": shown, "shown_hue": shown % w // d, "pale": torch.full(x.shape, 0.25)}
        after |= {"at_row": torch.where(joined, token, row), "at_column": torch.where(joined, column, across)}
        starts = torch.arange(0, w, d)
        return (
            words
            | before
            | after
            | {"middle": starts + (d - 1) / 2, "gap": torch.where(joined, torch.nan, starts - 0.5)}
        )

    def marks(self):
        deep, flat = (
            "(heads, tokens, d_head) = ({heads}, {tokens}, {d_head})",
            "(tokens, columns) = ({tokens}, {width})",
        )
        axes = {"x": m.axis(-0.5, self.width - 0.5, ticks=[]), "y": m.axis(labels="rows", name="t")}
        axes |= {"height": 90 + 34 * len(self.numbers)}
        x = m.plot(
            m.cells("tint", hue="@hue", text="{cells[number]}", frame="token", column="column"),
            m.words(list(range(self.width)), -0.85, "columns"),
            title="1 project: x", hint=flat,
            pick={"x": "column", "y": "token"}, hover=True, **axes,
        )  # fmt: skip
        after = m.plot(
            m.cells("pale", hue="@shown_hue", text="{cells[shown]}", frame="at_row", column="at_column"),
            m.arrows("gap", "last", x0="gap", y0=-0.5, hue="ground", width=5, head=False),
            m.words("middle", -0.85, "names"),
            title="{step}: {at|heads|attended|joined}", hint=f"{{at|{deep}|{deep}|{flat}}}", **axes,
        )  # fmt: skip
        grids = m.row(x, after, shares=[1] if self.width > 12 else None)
        return [m.row("step", "heads", "plain", shares=[1]), grids, m.note(ADDRESS, code=True), m.note(MEANING)]
