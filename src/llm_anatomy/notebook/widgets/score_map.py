"""What the widgets that show a matrix of scores share where there is a kernel: mask, softmax, map and bars."""

import math

import torch

from llm_anatomy.notebook.figures import colours, signed_map, weights_map
from llm_anatomy.notebook.widgets.base import fixed


def hide_future(scores, masked: bool, soft: bool) -> list[list[float]]:
    """Scores (queries, keys) of the past and the present alone, if ``masked``; as weights, if ``soft``."""
    rows = torch.tensor(scores, dtype=torch.float64)
    if masked:
        rows = rows.masked_fill(torch.ones_like(rows, dtype=torch.bool).triu(1), -math.inf)
    return (rows.softmax(-1) if soft else rows).tolist()


def written(score: float) -> str:
    """To two digits, as the page writes it."""
    return "\N{MINUS SIGN}∞" if score == -math.inf else fixed(score, 2)


def map_of_scores(ax, rows, words, query: int, reach: float | int, soft: bool) -> None:
    """One row per query, one column per key, grey where nothing is seen; the chosen row in a frame."""
    shades = weights_map if soft else signed_map.with_extremes(bad="#e3e5e8")
    rows = torch.tensor(rows, dtype=torch.float64)
    limits = {"vmin": 0, "vmax": 1} if soft else {"vmin": -(reach or 1), "vmax": reach or 1}
    image = ax.imshow(rows.masked_fill(rows.isinf(), math.nan).numpy(), cmap=shades, **limits)
    ax.figure.colorbar(image, ax=ax, orientation="horizontal", shrink=0.8, label="weight" if soft else "score")
    long = max(map(len, words)) > 2
    ax.set_xticks(range(len(words)), words, rotation=90 if long else 0, fontsize=9)
    ax.set_yticks(range(len(words)), words, fontsize=9)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("key", color=colours["key"])
    ax.set_ylabel("query", color=colours["query"])
    ax.axhspan(query - 0.48, query + 0.48, facecolor="none", edgecolor=colours["query"], linewidth=2.5)
    ax.tick_params(length=0)


def bars_of_row(ax, row, words, ends: tuple[float | int, float | int], soft: bool) -> None:
    """The chosen row, a bar per key, with its number."""
    heights = [0 if score == -math.inf else score for score in row]
    signs = [colours["weights"] if soft else colours["positive" if score >= 0 else "negative"] for score in heights]
    ax.bar(range(len(row)), heights, color=signs)
    low, high = (0, 1) if soft else ends if ends[0] < ends[1] else (-1, 1)
    room = 0.3 * (high - low)
    for key, score in enumerate(row):
        below = heights[key] < 0
        position = {"rotation": 90, "ha": "center", "va": "top" if below else "bottom", "fontsize": 8.5}
        ax.text(key, heights[key] + (-room if below else room) / 12, written(score), **position)
    ax.axhline(0, color="#6b7078", linewidth=0.8)
    ax.set_xticks(range(len(words)), words, rotation=90 if max(map(len, words)) > 2 else 0, fontsize=9)
    ax.set(ylim=(low - room * (low < 0), high + room), xlabel="key", ylabel="weight" if soft else "score")
