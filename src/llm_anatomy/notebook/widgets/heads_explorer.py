"""The heads explorer: how the columns of one projection become heads, and heads become columns again."""

import torch
from einops import rearrange
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from llm_anatomy.notebook.figures import colours, figure
from llm_anatomy.notebook.widgets.base import PageWidget, whole

MOST_TOKENS, WIDEST = 12, 24
TINTS = ("feedforward", "position", "weights", "normalization")  # tell neighbours apart; numbers say which head


class HeadsExplorer(PageWidget):
    """Pick a number of a projection, and see where it stands when the columns are read as heads.

    ``x[t, h·d_head + i]`` is ``heads[h, t, i]``. A plain reshape to (heads, tokens, d_head) has the same shape and
    mixes the tokens.

    Args:
        n_tokens: rows of the projection, 1 to 12.
        n_heads: how many heads.
        d_head: width of a head; the projection is n_heads · d_head wide, at most 24, and at most 12 for a phone.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a size that is no whole number, below 1, or too large to be shown.

    Source: Vaswani et al. (2017), section 3.2.2; CMU-09, UCL-21.

    >>> HeadsExplorer(5, 3, 2).index(2, 3), HeadsExplorer(5, 3, 2).index(2, 3, plain=True)
    ((1, 2, 1), (1, 2, 1))
    >>> HeadsExplorer(5, 3, 2).index(0, 3), HeadsExplorer(5, 3, 2).index(0, 3, plain=True)
    ((1, 0, 1), (0, 1, 1))
    """

    tools = ("choice",)

    def __init__(self, n_tokens=5, n_heads=3, d_head=2, *, caption: str = ""):
        super().__init__(caption)
        self.n_tokens = whole("n_tokens", n_tokens, 1, MOST_TOKENS)
        self.n_heads, self.d_head = whole("n_heads", n_heads, 1, WIDEST), whole("d_head", d_head, 1, WIDEST)
        if self.width > WIDEST:
            raise ValueError(f"{n_heads=} of {d_head=} are {self.width} columns; more than {WIDEST} cannot be shown")

    @property
    def width(self) -> int:
        return self.n_heads * self.d_head

    def split(self, x: torch.Tensor, plain: bool = False) -> torch.Tensor:
        """(tokens, n_heads · d_head) → (heads, tokens, d_head), or the plain reshape to that shape."""
        if plain:
            return x.reshape(self.n_heads, self.n_tokens, self.d_head)
        return rearrange(x, "tokens (heads d_head) -> heads tokens d_head", heads=self.n_heads)

    def index(self, token: int, column: int, plain: bool = False) -> tuple[int, int, int]:
        """Where ``x[token, column]`` stands after the split, as (head, token, i)."""
        marked = torch.zeros(self.n_tokens, self.width)
        marked[token, column] = 1
        return tuple(self.split(marked, plain).nonzero()[0].tolist())

    def data(self) -> dict:
        return {"tokens": self.n_tokens, "width": self.width, "heads": self.n_heads, "start": self._start}

    def text(self) -> str:
        return self._sentence(*self._start, plain=False)

    @property
    def _start(self) -> list[int]:
        """A number of the second token and the second head, if there are two."""
        return [min(1, self.n_tokens - 1), min(self.d_head + 1, self.width - 1)]

    def live(self):
        import ipywidgets as w

        token, column = self._start
        controls = {
            "n_tokens": w.BoundedIntText(self.n_tokens, min=1, max=MOST_TOKENS, description="n_tokens"),
            "n_heads": w.BoundedIntText(self.n_heads, min=1, max=WIDEST, description="n_heads"),
            "d_head": w.BoundedIntText(self.d_head, min=1, max=WIDEST, description="d_head"),
            "token": w.BoundedIntText(token, min=0, max=MOST_TOKENS - 1, description="token"),
            "column": w.BoundedIntText(column, min=0, max=WIDEST - 1, description="column"),
            "plain": w.Checkbox(False, description="plain reshape instead"),
        }
        return self.panel(controls, self._picture)

    def _picture(self, show, n_tokens, n_heads, d_head, token, column, plain):
        asked = HeadsExplorer(n_tokens, n_heads, d_head)
        for name, value, size in (("token", token, n_tokens), ("column", column, asked.width)):
            if value >= size:
                raise ValueError(f"{name}={value}; it must be below {size}")
        asked._draw(show, token, column, plain)

    def _draw(self, show, token, column, plain):
        numbers = torch.arange(self.n_tokens * self.width).view(self.n_tokens, self.width)
        apart = rearrange(self.split(numbers, plain), "heads tokens d_head -> tokens (heads d_head)")
        with figure(
            "Where does each number of x stand in the heads?",
            alt=self._sentence(token, column, plain),
            width=max(6, 1.5 + 0.34 * self.width),
            height=2 * (1 + 0.34 * self.n_tokens),
            nrows=2,
            show=show,
        ) as axes:
            for ax, rows, gap, name in ((axes[0], numbers, 0, "x"), (axes[1], apart, 0.4, "heads")):
                for row, line in enumerate(rows.tolist()):
                    for at, number in enumerate(line):
                        t, c = divmod(number, self.width)
                        left, same = at + gap * (at // self.d_head), (t, c) == (token, column)
                        tint = "black" if same else to_rgba(colours[TINTS[c // self.d_head % len(TINTS)]], 0.3)
                        ax.add_patch(Rectangle((left, row), 1, 1, facecolor=tint, edgecolor="white"))
                        ink = {"color": "white" if same else "black", "fontsize": 8, "ha": "center", "va": "center"}
                        ax.text(left + 0.5, row + 0.5, f"{t},{c}", **ink)
                for head in range(self.n_heads):
                    left = head * (self.d_head + gap)
                    ax.text(left + self.d_head / 2, -0.2, f"h={head}", ha="center", fontsize=9)
                ax.set(xlim=(0, self.width + 0.4 * self.n_heads), ylim=(self.n_tokens, -0.6), aspect="equal", xticks=[])
                ax.set_yticks([row + 0.5 for row in range(self.n_tokens)], range(self.n_tokens))
                ax.set(xlabel="each cell: its token and column in x", ylabel=f"{name}: row t")
                ax.spines[:].set_visible(False)
                ax.tick_params(length=0)

    def _sentence(self, token, column, plain) -> str:
        head, row, i = self.index(token, column, plain)
        own, index = divmod(column, self.d_head)
        address = f"x[{token}, {own}·{self.d_head} + {index}] ↔ heads[{head}, {row}, {i}]"
        meaning = f"The same number, in head {head}, and still in the row of token {token}."
        if plain:
            meaning = f"The reshape puts it into head {head}, row {row}. {self._verdict(token, column)}"
        return f"{self.n_tokens} tokens, {self.n_heads} heads of width {self.d_head}: {address}. {meaning}"

    def _verdict(self, token, column) -> str:
        numbers = torch.arange(self.n_tokens * self.width).view(self.n_tokens, self.width)
        astray = self.split(numbers) != self.split(numbers, plain=True)
        right = self.index(token, column)
        one = "This one stands where it belongs."
        if self.index(token, column, plain=True) != right:
            one = f"It belongs to head {right[0]}, row {right[1]}."
        return f"{one} Of {numbers.numel()} numbers, {astray.sum()} stand elsewhere."
