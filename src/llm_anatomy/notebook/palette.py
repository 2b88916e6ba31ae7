"""The book's colours: the palette, and two colour maps made of it."""

import json
from importlib.resources import files

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from llm_anatomy.notebook.front_end import PAPER

PALETTE: dict[str, dict[str, str]] = json.loads(files(__package__).joinpath("palette.json").read_text("utf-8"))
"""Colours by name, ``{"query": {"light": "#…", "dark": "#…"}, …}``, after Okabe and Ito."""

colours = {name: shades["light"] for name, shades in PALETTE.items()}
"""The colours for figures, by their light variants; a dark page shows the dark ones: ``colours["key"]``."""

WHITE, DARK_GROUND = PAPER.values()
"""The ground of the light and of the dark page, where the variants of the maps begin."""

ON_PALE, ON_MIDDLE, ON_DEEP = "#000000", "#fffffd", "#fffffe"
"""Inks for text on a map: black, white and white, which are white, white and black on the dark page."""

# Björn Ottosson's OKLab, in which equal steps look equal.
_TO_CONES = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
    + [[0.0883024619, 0.2817188376, 0.6299787005]]
)
_TO_LAB = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099]]
    + [[0.0259040371, 0.7827717662, -0.8086757660]]
)


def to_oklab(rgb: np.ndarray) -> np.ndarray:
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ _TO_CONES.T) @ _TO_LAB.T


def _from_oklab(lab: np.ndarray) -> np.ndarray:
    linear = ((lab @ np.linalg.inv(_TO_LAB).T) ** 3 @ np.linalg.inv(_TO_CONES).T).clip(0, 1)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055).clip(0, 1)


def _even_map(name: str, *stops: str) -> LinearSegmentedColormap:
    """Make a perceptually uniform colour map between the stops."""
    lab = to_oklab(np.array([to_rgb(stop) for stop in stops]))
    positions, fine = np.linspace(0, 1, len(stops)), np.linspace(0, 1, 257)
    path = np.stack([np.interp(fine, positions, channel) for channel in lab.T], axis=-1)
    return LinearSegmentedColormap.from_list(name, _from_oklab(path), N=257)


weights_map = _even_map("weights", WHITE, colours["weights"])
"""From the page's ground, white, to purple, for attention weights from 0 to 1."""

signed_map = _even_map("signed", colours["negative"], WHITE, colours["positive"])
"""Brown, ground, teal, for signed quantities, with zero at the ground (``vmin=-m, vmax=m``)."""


class Steps:
    """The steps of a map on the light and on the dark page.

    Args:
        ends: names of the palette: one, for a map that begins at the ground, or two, for one with the ground between.
    """

    def __init__(self, *ends: str):
        self.ends = ends
        self.light, self.dark = self._rgb("light", WHITE), self._rgb("dark", DARK_GROUND)

    def _rgb(self, shade: str, ground: str) -> np.ndarray:
        *before, last = (PALETTE[name][shade] for name in self.ends)
        return _even_map("steps", *before, ground, last)(np.arange(257))[:, :3]

    def find(self, rgb) -> int | None:
        """Return the step that has this colour on the light page, up to how it is rounded to bytes, if there is one."""
        off = abs(self.light - rgb).max(axis=1)
        return int(off.argmin()) if off.min() < 1.01 / 255 else None

    def share(self, step: int) -> tuple[str, float]:
        """Return the name of the end that a step is mixed from, and its share from 0, the ground, to 1."""
        if len(self.ends) == 1:
            return self.ends[0], step / 256
        return self.ends[step > 128], abs(step / 128 - 1)


MAPS = (Steps("weights"), Steps("negative", "positive"))
