"""Data-flow drawings: boxes, arrows with shapes, and links to the sections that explain the boxes."""

import html
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from llm_anatomy.notebook.figures import PALETTE
from llm_anatomy.notebook.front_end import DARK

WIDTH = 344  # CSS pixels: what a phone of 390 has between its margins
MARGIN, PAD = 4, 9  # beside a box; above and below its text
LINE = 17  # height of a line of text
TAIL, HEAD = 6, 14  # of an arrow, above and below its label
NAME, SHAPE = 8.4, 7.6  # widest usual letter of a bold sans at 14 px, of a monospaced face at 12.5 px

STYLE = f"""
.la-flow{{margin:1.25em 0;font-family:var(--pst-font-family-base,sans-serif)}}
.la-flow figcaption{{margin:0 0 .75em;font-weight:600;font-style:normal;text-align:left}}
.la-flow svg{{display:block;width:100%;max-width:{round(WIDTH * 1.16)}px;height:auto;overflow:visible}}
.la-flow text{{fill:currentColor;text-anchor:middle;font-size:14px}}
.la-flow .la-shape{{font:12.5px var(--pst-font-family-monospace,ui-monospace,Menlo,Consolas,monospace)}}
.la-flow path{{fill:none;stroke:currentColor;opacity:.7}}
.la-flow path.la-head{{fill:currentColor;stroke:none}}
.la-flow rect{{fill:var(--c);fill-opacity:.1;stroke:var(--c);stroke-width:1.5}}
.la-flow .la-name{{font-weight:600;text-decoration:underline;text-decoration-thickness:1px;text-underline-offset:3px}}
.la-flow a{{color:inherit;text-decoration:none!important;outline-offset:3px}}
.la-flow a:is(:hover,:focus-visible) rect{{fill-opacity:.25;stroke-width:3}}
"""


class DataFlow:
    """A drawing of what flows where through a component: boxes, and arrows downwards that carry shapes.

    It is one SVG, without a script, for light and dark pages and for phones; its plain text is the alternative text.
    The layout is written as in matplotlib's ``subplot_mosaic``: one letter for each column of each row,
    equal neighbours for a wide box, a dot for an empty cell. An arrow runs straight down a column that both of its
    boxes share and in which no box lies between them.

    Args:
        title: the question that the drawing answers.
        mosaic: rows of letters, of equal length, one above the other; separated by blanks or line ends.
        boxes: by letter, (text, colour, link): the name, which may be followed by further lines; a name of the palette,
            such as "query"; the anchor of a section of the page, such as "#sec-mask".
        arrows: (letter, letter, label): from, to, and a shape such as ``x.shape``, or a text of one or more lines.
        alt: alternative text: what flows where, in words.

    Raises:
        ValueError: for an empty title or alt, a mosaic that does not hold each box once, an unknown colour, a link
            that is no anchor, an arrow between boxes that are not there or not above each other, or a text that is
            too wide for its box or column.

    >>> DataFlow(
    ...     "How do two numbers become one?",
    ...     "ab cc",
    ...     {"a": ("query", "query", "#q"), "b": ("key", "key", "#k"), "c": ("score\\nq · k", "weights", "#s")},
    ...     [("a", "c", (4,)), ("b", "c", (4,))],
    ...     alt="Query and key, each of 4 numbers, flow into the score.",
    ... )
    Query and key, each of 4 numbers, flow into the score.
    """

    def __init__(
        self,
        title: str,
        mosaic: str,
        boxes: Mapping[str, tuple[str, str, str]],
        arrows: Iterable[tuple[str, str, str | Sequence[int]]],
        *,
        alt: str,
    ):
        for name, text in {"title": title, "alt": alt}.items():
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"{name}={text!r}; it must be a sentence that says what the drawing shows")
        self.title, self.alt, self.boxes = title, " ".join(alt.split()), dict(boxes)
        self._rows = mosaic.split()
        self._cells = self._find_cells(mosaic)
        self._column = WIDTH / len(self._rows[0])
        for letter, (text, colour, link) in self.boxes.items():
            if colour not in PALETTE:
                raise ValueError(f"box {letter!r} has the colour {colour!r}; it must be one of {', '.join(PALETTE)}")
            if not link.startswith("#") or len(link) < 2:
                raise ValueError(f'box {letter!r} has the link {link!r}; it must be an anchor such as "#sec-mask"')
            self._demand_room(text, NAME, len(self._cells[letter][1]) * self._column - 2 * MARGIN)
        self._arrows = [self._route(*arrow) for arrow in arrows]

    def _find_cells(self, mosaic: str) -> dict[str, tuple[int, range]]:
        """Return the row and the columns of each box."""
        if len({len(row) for row in self._rows}) != 1 or not all(row.strip(".") for row in self._rows):
            raise ValueError(f"mosaic={mosaic!r}; its rows must be equally long, one letter or dot for each column")
        cells = {}
        for letter in dict.fromkeys([*self.boxes, *"".join(self._rows).replace(".", "")]):
            at = [(row, letters.find(letter), letters.count(letter)) for row, letters in enumerate(self._rows)]
            at = [(row, range(first, first + count)) for row, first, count in at if count]
            if letter not in self.boxes or len(at) != 1 or self._rows[at[0][0]].find(letter * len(at[0][1])) < 0:
                raise ValueError(f"mosaic={mosaic!r}; box {letter!r} must be in boxes, and in one row without a gap")
            cells[letter] = at[0]
        return cells

    def _route(self, start: str, end: str, label: str | Sequence[int]) -> tuple[int, int, float, list[str]]:
        """Return rows of start and end, the middle of the free columns between them, and the label's lines."""
        for letter in (start, end):
            if letter not in self.boxes:
                raise ValueError(f"the arrow {start!r} to {end!r} names an unknown box {letter!r}")
        (top, above), (bottom, below) = self._cells[start], self._cells[end]
        between = self._rows[top + 1 : bottom]
        free = [c for c in above if c in below and all(row[c] == "." for row in between)]
        if top >= bottom or not free:
            raise ValueError(f"the arrow {start!r} to {end!r} must run down a column that no other box stands in")
        width = next((n for n, (a, b) in enumerate(pairwise(free), 1) if b != a + 1), len(free))
        text = label if isinstance(label, str) else str(tuple(label))
        self._demand_room(text, SHAPE, width * self._column)
        return top, bottom, (free[0] + width / 2) * self._column, text.split("\n")

    def _demand_room(self, text: str, letter: float, room: float) -> None:
        longest = max(text.split("\n"), key=len)
        if not text.strip() or len(longest) * letter > room:
            raise ValueError(f"{longest!r} must have 1 to {int(room / letter)} letters there; begin a new line by \\n")

    def html(self) -> str:
        """Return the drawing as one HTML element, for any page."""
        tops, bottoms, y = [], [], MARGIN
        for row in range(len(self._rows)):
            lines = max(self.boxes[box][0].count("\n") + 1 for box, cell in self._cells.items() if cell[0] == row)
            labels = max((len(label) for top, _, _, label in self._arrows if top == row), default=0)
            tops.append(y)
            bottoms.append(y + lines * LINE + 2 * PAD)
            y = bottoms[-1] + TAIL + labels * LINE + HEAD
        arrows = [self._arrow(bottoms[start], tops[end], x, label) for start, end, x, label in self._arrows]
        boxes = [self._box(letter, tops[row], bottoms[row]) for letter, (row, _) in self._cells.items()]
        used = dict.fromkeys(colour for _, colour, _ in self.boxes.values())
        shades = {"light": "", "dark": f":is({DARK}) "}
        colours = "".join(
            f"{where}.la-flow .la-{name}{{--c:var(--la-{name},{PALETTE[name][shade]})}}\n"
            for shade, where in shades.items()
            for name in used
        )
        return f"""<figure class="la-flow">
<style>{STYLE}{colours}</style>
<figcaption>{html.escape(self.title)}</figcaption>
<svg viewBox="0 0 {WIDTH} {bottoms[-1] + MARGIN}" role="group" aria-label="{html.escape(self.alt)}">
<g aria-hidden="true">
{chr(10).join(arrows)}
</g>
{chr(10).join(boxes)}
</svg>
</figure>"""

    def _arrow(self, start: int, end: int, x: float, label: list[str]) -> str:
        """The label interrupts the line, so that nothing need be painted behind it."""
        text, after = start + TAIL, start + TAIL + len(label) * LINE
        lines = [f'<text class="la-shape" {_at(x, text, i)}>{html.escape(line)}</text>' for i, line in enumerate(label)]
        shaft = f'<path d="M{x:g} {start}V{text}M{x:g} {after}V{end - 6}"/>'
        head = f'<path class="la-head" d="M{x:g} {end - 1}l-4.5 -8h9z"/>'
        return "".join([shaft, head, *lines])

    def _box(self, letter: str, top: int, bottom: int) -> str:
        text, colour, link = self.boxes[letter]
        columns, lines = self._cells[letter][1], text.split("\n")
        x, width = columns[0] * self._column + MARGIN, len(columns) * self._column - 2 * MARGIN
        first = (top + bottom - len(lines) * LINE) / 2
        words = "".join(
            f'<text class="la-{"line" if i else "name"}" {_at(x + width / 2, first, i)}>{html.escape(line)}</text>'
            for i, line in enumerate(lines)
        )
        rect = f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{bottom - top}" rx="6"/>'
        return f'<a class="la-{colour}" href="{html.escape(link)}">{rect}{words}</a>'

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.alt, "text/html": self.html()}


def _at(x: float, top: float | int, line: int) -> str:
    return f'x="{x:.1f}" y="{top + line * LINE + 12.5:.1f}"'
