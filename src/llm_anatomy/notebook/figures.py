"""Figures of the book: the palette, the plotting helpers, two colour maps, and the display of source code.

Each figure answers one question, which is its title, has the page's own ground, and carries its alternative text.
"""

import ast
import base64
import html
import inspect
import io
import itertools
import re
import textwrap
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib
import matplotlib.style
import numpy as np
import torch
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from llm_anatomy.notebook.palette import ON_DEEP, ON_MIDDLE, ON_PALE, PALETTE, colours, signed_map, weights_map
from llm_anatomy.notebook.svg import CSS_PIXELS_PER_INCH, drawing

__all__ = ["PALETTE", "attention_map", "colours", "figure", "glue", "signed_map", "source", "weights_map"]

STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#6b7078",
    "axes.grid": False,
    "axes.labelcolor": "#30343a",
    "axes.linewidth": 0.8,
    "axes.prop_cycle": matplotlib.cycler(color=[colours[n] for n in ("query", "key", "value", "weights", "position")]),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.facecolor": "white",
    "figure.titlesize": 12.5,
    "figure.titleweight": "bold",
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "legend.frameon": False,
    "image.interpolation": "none",
    "lines.linewidth": 2,
    "svg.fonttype": "none",
    "svg.hashsalt": "llm_anatomy",
    "text.color": "#16181c",
    "xtick.color": "#50555c",
    "ytick.color": "#50555c",
}
DPI = 144


def show_drawing(svg: str, alt: str, css_width: int) -> None:
    """Display a drawing as an image, whose plain text is its alternative text; the book's page has it inline."""
    image = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
    style = "max-width:100%;height:auto"
    shown = f'<img class="la-figure" src="{image}" alt="{html.escape(alt)}" width="{css_width}" style="{style}">'
    display({"text/html": shown, "text/plain": alt}, raw=True)


@contextmanager
def figure(
    title: str,
    *,
    alt: str,
    width: float | int = 6,
    height: float | int = 3.4,
    nrows: int = 1,
    ncols: int = 1,
    sharex: bool = False,
    sharey: bool = False,
) -> Iterator[Axes | np.ndarray]:
    """Draw in the book's style and display one picture when the block ends.

    Args:
        title: the question that the figure answers.
        alt: alternative text: what the figure shows, in words, for readers who cannot see it.
        width, height: size in inches.
        nrows, ncols, sharex, sharey: a grid of axes, as in matplotlib's ``subplots``.

    Yields:
        The axes: one, or an array of them.

    Raises:
        ValueError: for an empty title or alt, or an axis with data but without a label.

    >>> with figure("Where does the line end?", alt="A line from (0, 1) to (2, 3).") as ax:  # doctest: +SKIP
    ...     ax.plot([0, 2], [1, 3])
    ...     ax.set(xlabel="time / s", ylabel="height / m")
    """
    for name, text in {"title": title, "alt": alt}.items():
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{name}={text!r}; it must say {_MEANT[name]}")
    if alt.lstrip().startswith("<"):
        raise ValueError(f"alt={alt!r} starts with '<'; it must be plain text, not markup")
    with matplotlib.style.context(STYLE, after_reset=True):
        # A Figure without pyplot: nothing is registered, so nothing has to be closed.
        canvas = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
        axes = canvas.subplots(nrows, ncols, sharex=sharex, sharey=sharey)
        canvas.suptitle(textwrap.fill(title, int(width * 10)), x=0.01, ha="left")
        yield axes
        _demand_labels(canvas, title)
        alt = " ".join(alt.split())
        try:
            picture = drawing(canvas, alt)
        except ValueError as error:
            raise ValueError(f'figure "{title}": {error}') from None
    show_drawing(picture, alt, round(width * CSS_PIXELS_PER_INCH))


_MEANT = {"title": "which question the figure answers", "alt": "what the figure shows, in words"}


def _demand_labels(canvas: Figure, title: str) -> None:
    for ax in canvas.axes:
        if not ax.axison or not ax.has_data() or hasattr(ax, "_colorbar"):
            continue
        for axis, siblings in {"x": ax.get_shared_x_axes(), "y": ax.get_shared_y_axes()}.items():
            family = [ax, *siblings.get_siblings(ax)]
            if not any(getattr(member, f"get_{axis}label")() for member in family):
                raise ValueError(f'figure "{title}": the {axis} axis has no label; add ax.set_{axis}label("… / unit")')


def attention_map(ax: Axes, weights, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Draw a heat map of attention weights: one row per query, one column per key, white for 0 and purple for 1.

    Args:
        ax: from :func:`figure`.
        weights: (queries, keys), a tensor or array of numbers in [0, 1]; printed in the cells up to 8 x 8.
        queries, keys: a token for each row and each column.

    Raises:
        ValueError: if the numbers of tokens do not match the shape of the weights, or weights lie outside [0, 1].
    """
    weights = torch.as_tensor(weights).detach().cpu().double().numpy()
    if weights.shape != (len(queries), len(keys)):
        raise ValueError(f"weights has shape {weights.shape}; for these tokens it must be {(len(queries), len(keys))}")
    if not ((weights > -1e-6) & (weights < 1 + 1e-6)).all():
        raise ValueError(f"weights runs from {weights.min():.4g} to {weights.max():.4g}; it must stay within [0, 1]")
    ax.imshow(weights, cmap=weights_map, vmin=0, vmax=1, aspect="equal")
    ax.set_xticks(range(len(keys)), keys)
    if _crowded(ax, keys, len(queries)):
        ax.tick_params("x", rotation=45)
        for label in ax.get_xticklabels():
            label.set(ha="left", rotation_mode="anchor")
    ax.set_yticks(range(len(queries)), queries)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("key", color=colours["key"])
    ax.set_ylabel("query", color=colours["query"])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xticks(np.arange(1, len(keys)) - 0.5, minor=True)
    ax.set_yticks(np.arange(1, len(queries)) - 0.5, minor=True)
    ax.grid(which="minor", color="#e3e5e8", linewidth=1)
    ax.tick_params(which="minor", length=0)
    if max(weights.shape) <= 8:
        for (row, column), weight in np.ndenumerate(weights):
            ink = ON_PALE if weight < 0.667 else ON_MIDDLE if weight < 0.71 else ON_DEEP
            ax.text(column, row, f"{weight:.2f}", ha="center", va="center", color=ink, fontsize=9)


def _crowded(ax: Axes, labels: Sequence[str], n_rows: int) -> bool:
    """Return whether labels of neighbouring columns would touch: a letter takes about a tenth of an inch."""
    share, (width, height) = ax.get_position(), ax.figure.get_size_inches()
    letters = 10 * min(width * share.width / len(labels), height * share.height / n_rows)
    return any((len(a) + len(b)) / 2 + 0.5 > letters for a, b in itertools.pairwise(labels))


_DOCUMENTED = ast.FunctionDef | ast.ClassDef
_WIDEST = 72  # characters of a line of code: what the column of the page holds


def source(obj, without: tuple[str, ...] = ()) -> None:
    """Display the source code of a function or class of the package, in lines that a page can hold.

    Of each docstring the first line is left; the API reference has the rest.

    Args:
        obj: a function or class.
        without: methods and attributes of the class that are left out.

    Raises:
        ValueError: for anything else than a function or class of the package.
    """
    if not (inspect.isfunction(obj) or inspect.isclass(obj)) or not obj.__module__.startswith("llm_anatomy."):
        raise ValueError(f"obj={obj!r}; it must be a function or class of llm_anatomy")
    lines = _without(textwrap.dedent(inspect.getsource(obj)).rstrip().splitlines(), without)
    documented = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, _DOCUMENTED)]
    docstrings = [node.body[0] for node in documented if ast.get_docstring(node) is not None]
    for docstring in sorted(docstrings, key=lambda node: -node.lineno):  # from below, so that line numbers stay valid
        opening, first = re.fullmatch(r'(\s*r?""")(.*?)(?:""")?', lines[docstring.lineno - 1]).groups()
        kept = textwrap.wrap(f'{opening}{first}"""', _WIDEST, subsequent_indent=" " * docstring.col_offset)
        lines[docstring.lineno - 1 : docstring.end_lineno] = kept
    starts = dict.fromkeys(range(1, len(lines) + 1), 0)  # of each line, how many brackets are open there
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        step = (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        starts |= {row: starts[row] + step for row in range(token.end[0] + 1, len(lines) + 1)} if step else {}
    code = "\n".join(part for row, line in enumerate(lines, 1) for part in _narrow(line, starts[row] > 0))
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    display({"text/markdown": f"{fence}python\n{code}\n{fence}", "text/plain": code}, raw=True)


def _without(lines: list[str], names: tuple[str, ...]) -> list[str]:
    """The lines of a class, without those of some of its methods and attributes."""
    body, kept = ast.parse("\n".join(lines)).body[0].body, dict(enumerate(lines, 1))
    for node, following in zip(body, [*body[1:], None], strict=True):
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        if {getattr(node, "name", None), *(getattr(target, "id", None) for target in targets)} & {*names}:
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
            last = following if isinstance(following, ast.Expr) else node  # a string explains the attribute above it
            for row in range(first, last.end_lineno + 1):
                del kept[row]
    found = [line for line, before in zip(kept.values(), ["", *kept.values()], strict=False) if line or before]
    return found[: -1 if not found[-1] else None]


def _narrow(line: str, inside: bool = False) -> list[str]:
    """Break a line that is too long as formatters do: what its longest brackets hold goes on lines of its own.

    Args:
        line: of code.
        inside: whether it stands within brackets, so that it can be broken after its commas.
    """
    indent = " " * (len(line) - len(line.lstrip()))
    if len(line) <= _WIDEST:
        return [line]
    if line[len(indent)] == "#":
        return textwrap.wrap(line.strip(), _WIDEST, initial_indent=indent, subsequent_indent=f"{indent}# ")
    code, mark, comment = line.rpartition("  # ")
    if mark:
        return [*_narrow(f"{indent}# {comment}"), *_narrow(code)]
    if inside and len(parts := _at_commas(line)) > 1:
        return [part for item in parts for part in _narrow(f"{indent}{item},")]
    first, last = max(_outermost(line)[0], key=lambda pair: pair[1] - pair[0], default=(0, 0))
    body = line[first + 1 : last]
    if not body:
        return [line]
    inner = f"{indent}    {body}"
    if len(inner) > _WIDEST:
        items = _at_commas(body)
        split = [part for item in items for part in _narrow(f"{indent}    {item},")] if items[1:] else _narrow(inner)
    else:
        split = [inner]
    return [line[: first + 1], *split, f"{indent}{line[last:]}"]


def _at_commas(code: str) -> list[str]:
    """Return what stands between the commas outside of all brackets: one part where the code is a comprehension."""
    ends = [] if " for " in code else _outermost(code)[1]
    parts = (code[start:end].strip() for start, end in zip([0, *(end + 1 for end in ends)], [*ends, None], strict=True))
    return [part for part in parts if part]


def _outermost(code: str) -> tuple[list[tuple[int, int]], list[int]]:
    """Return where the outermost brackets open and close, and where commas stand outside of all brackets."""
    pairs, commas, opened = [], [], []
    for found in re.finditer(r"""("|').*?(?<!\\)\1|[][(){},]""", code):
        if found[0] in "([{":
            opened.append(found.start())
        elif found[0] in ")]}" and opened:
            first = opened.pop()
            if not opened:
                pairs.append((first, found.start()))
        elif found[0] == "," and not opened:
            commas.append(found.start())
    return pairs, commas


_GLUE = "application/papermill.record/"


def glue(name: str, text) -> None:
    """Store a text of this run under a name, so that the prose can quote it: ``{glue:text}`name```.

    The output has the form that MyST-NB reads, and displays nothing in the notebook.
    """
    if not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(f"name={name!r}; it must consist of letters, digits, '_', '-' and '.'")
    if not isinstance(text, str):
        raise ValueError(f'text={text!r}; it must be a string, rounded as it is to be read, such as f"{{x:.4f}}"')
    # The representation, since MyST-NB reads it as a literal: "1.0000" stays as it is written.
    display({f"{_GLUE}text/plain": repr(text)}, raw=True, metadata={"scrapbook": {"name": name, "mime_prefix": _GLUE}})
