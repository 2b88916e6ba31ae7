"""Figures of the book: one palette, one helper, two colour maps, and what a chapter shows of the package.

Each figure answers one question, which is its title, on a white ground, and carries its alternative text.
"""

import ast
import inspect
import io
import itertools
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files

import matplotlib
import matplotlib.style
import numpy as np
import torch
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from PIL import Image

PALETTE: dict[str, dict[str, str]] = json.loads(files(__package__).joinpath("palette.json").read_text("utf-8"))
"""Colour of each notion, ``{"query": {"light": "#…", "dark": "#…"}, …}``, after Okabe and Ito."""

colours = {name: shades["light"] for name, shades in PALETTE.items()}
"""The colours for figures, which stand on white: ``colours["key"]``."""

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
    "lines.linewidth": 2,
    "text.color": "#16181c",
    "xtick.color": "#50555c",
    "ytick.color": "#50555c",
}
DPI = 144
CSS_PIXELS_PER_INCH = 96

# Björn Ottosson's OKLab, in which equal steps look equal.
_TO_CONES = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
    + [[0.0883024619, 0.2817188376, 0.6299787005]]
)
_TO_LAB = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099]]
    + [[0.0259040371, 0.7827717662, -0.8086757660]]
)


def _to_oklab(rgb: np.ndarray) -> np.ndarray:
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ _TO_CONES.T) @ _TO_LAB.T


def _from_oklab(lab: np.ndarray) -> np.ndarray:
    linear = ((lab @ np.linalg.inv(_TO_LAB).T) ** 3 @ np.linalg.inv(_TO_CONES).T).clip(0, 1)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055).clip(0, 1)


def _even_map(name: str, *stops: str) -> LinearSegmentedColormap:
    """A colour map in even steps between the stops, as the eye sees them."""
    lab = _to_oklab(np.array([to_rgb(stop) for stop in stops]))
    positions, fine = np.linspace(0, 1, len(stops)), np.linspace(0, 1, 257)
    path = np.stack([np.interp(fine, positions, channel) for channel in lab.T], axis=-1)
    return LinearSegmentedColormap.from_list(name, _from_oklab(path), N=257)


weights_map = _even_map("weights", "#ffffff", colours["weights"])
"""White to purple: attention weights, from 0 to 1."""

signed_map = _even_map("signed", colours["negative"], "#ffffff", colours["positive"])
"""Brown, white, teal: signed quantities, with zero at white (``vmin=-m, vmax=m``)."""


def show_png(png: bytes, alt: str, css_width: int) -> None:
    """Display a picture whose plain text is its alternative text."""
    display({"image/png": png, "text/plain": alt}, raw=True, metadata={"image/png": {"width": css_width}})


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
    show: Callable[[bytes, str, int], None] = show_png,
) -> Iterator[Axes | np.ndarray]:
    """Draw in the book's style and display one picture when the block ends.

    Args:
        title: the question that the figure answers.
        alt: what it shows, in words, for those who do not see it.
        width, height: in inches.
        nrows, ncols, sharex, sharey: a grid of axes, as in matplotlib's ``subplots``.
        show: takes the PNG, its alternative text and its width in CSS pixels, in place of displaying it.

    Yields:
        The axes: one, or an array of them.

    Raises:
        ValueError: for an empty title or alt, or an axis with data and no label.

    >>> with figure("Where does the line end?", alt="A line from (0, 1) to (2, 3).") as ax:  # doctest: +SKIP
    ...     ax.plot([0, 2], [1, 3])
    ...     ax.set(xlabel="time / s", ylabel="height / m")
    """
    for name, text in {"title": title, "alt": alt}.items():
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{name}={text!r}; it must say {_MEANT[name]}")
    if alt.lstrip().startswith("<"):
        raise ValueError(f"alt={alt!r} starts with '<'; it must be words, not markup")
    with matplotlib.style.context(STYLE, after_reset=True):
        # A Figure of its own, not pyplot's: nothing is registered, so nothing has to be closed.
        canvas = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
        axes = canvas.subplots(nrows, ncols, sharex=sharex, sharey=sharey)
        canvas.suptitle(textwrap.fill(title, int(width * 10)), x=0.01, ha="left")
        yield axes
        _demand_labels(canvas, title)
        png = _lean(canvas)
    show(png, " ".join(alt.split()), round(width * CSS_PIXELS_PER_INCH))


def _lean(canvas: Figure) -> bytes:
    """The figure as a PNG of a third of the usual size: 256 colours, which the eye does not tell from all."""
    whole, lean = io.BytesIO(), io.BytesIO()
    canvas.savefig(whole, format="png")
    with Image.open(whole) as picture:
        few = picture.convert("RGB").quantize(method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE, kmeans=1)
    few.save(lean, "PNG", optimize=True)
    return lean.getvalue()


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
    """Heat map of attention weights: one row per query, one column per key, white for 0 and purple for 1.

    Args:
        ax: from :func:`figure`.
        weights: (queries, keys), a tensor or array of numbers in [0, 1]; printed in the cells up to 8 x 8.
        queries, keys: a word for each row and each column.

    Raises:
        ValueError: if words and weights differ in number, or weights lie outside [0, 1].
    """
    weights = torch.as_tensor(weights).detach().cpu().double().numpy()
    if weights.shape != (len(queries), len(keys)):
        raise ValueError(f"weights has shape {weights.shape}; the words call for {(len(queries), len(keys))}")
    if not ((weights > -1e-6) & (weights < 1 + 1e-6)).all():
        raise ValueError(f"weights runs from {weights.min():.4g} to {weights.max():.4g}; it must stay within [0, 1]")
    ax.imshow(weights, cmap=weights_map, vmin=0, vmax=1, aspect="equal")
    ax.set_xticks(range(len(keys)), keys)
    if _crowded(ax, keys, len(queries)):
        ax.tick_params("x", rotation=45)
        for word in ax.get_xticklabels():
            word.set(ha="left", rotation_mode="anchor")
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
            ink = "white" if weight > 0.665 else "black"
            ax.text(column, row, f"{weight:.2f}", ha="center", va="center", color=ink, fontsize=9)


def _crowded(ax: Axes, words: Sequence[str], n_rows: int) -> bool:
    """Whether words on neighbouring columns would touch: a letter takes about a tenth of an inch, margins included."""
    share, (width, height) = ax.get_position(), ax.figure.get_size_inches()
    letters = 10 * min(width * share.width / len(words), height * share.height / n_rows)
    return any((len(a) + len(b)) / 2 + 0.5 > letters for a, b in itertools.pairwise(words))


_DOCUMENTED = ast.FunctionDef | ast.ClassDef


def source(obj) -> None:
    """Show the code of a function or class of the package, as it stands there, without its docstrings."""
    if not (inspect.isfunction(obj) or inspect.isclass(obj)) or not obj.__module__.startswith("llm_anatomy."):
        raise ValueError(f"obj={obj!r}; it must be a function or class of llm_anatomy")
    lines = textwrap.dedent(inspect.getsource(obj)).rstrip().splitlines()
    documented = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, _DOCUMENTED)]
    docstrings = [node.body[0] for node in documented if ast.get_docstring(node) is not None]
    for docstring in sorted(docstrings, key=lambda node: -node.lineno):  # from below, so that line numbers hold
        end = docstring.end_lineno
        while end < len(lines) and not lines[end].strip():
            end += 1
        del lines[docstring.lineno - 1 : end]
    code = "\n".join(lines)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    display({"text/markdown": f"{fence}python\n{code}\n{fence}", "text/plain": code}, raw=True)


_GLUE = "application/papermill.record/"


def glue(name: str, text) -> None:
    """Keep a text of this run under a name, for the prose to quote: ``{glue:text}`name```.

    The output has the form that MyST-NB reads, and shows nothing where it stands.
    """
    if not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(f"name={name!r}; it must consist of letters, digits, '_', '-' and '.'")
    if not isinstance(text, str):
        raise ValueError(f'text={text!r}; it must be a string, rounded as it is to be read, such as f"{{x:.4f}}"')
    # The representation, since MyST-NB reads it as a literal: "1.0000" stays as it is written.
    display({f"{_GLUE}text/plain": repr(text)}, raw=True, metadata={"scrapbook": {"name": name, "mime_prefix": _GLUE}})
