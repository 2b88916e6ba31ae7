"""The gradient by layer: how large the gradient is in each layer, for two placements of the norms and each seed."""

import math

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import list_of_strings, whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice

HUES = "query", "negative"  # of the first and of the second placement
COMPARED = [
    "the seeds of {placement} and {other} overlap",
    "every seed of {placement} is above every seed of {other}",
    "every seed of {placement} is below every seed of {other}",
    "there is nothing to compare",
]


class GradientByLayer(Widget):
    r"""Show the norm of the gradient in each layer of a model, for two placements of the norms and each seed.

    A dot is the norm :math:`\lVert \partial \mathcal L / \partial \theta_l \rVert_2` in layer l for one seed; the line
    is the arithmetic mean over the seeds. The axis is logarithmic and the same for all placements and depths. A norm of
    zero, or one that is not finite, has no dot, and a mean over it is not drawn.

    Args:
        placements: names of at least two placements.
        depths: numbers of layers.
        gradients: the norms, of shape (placements, depths, seeds, layers), where a model with fewer layers than the
            deepest one is padded with NaN at the end.
        of: what the gradient is taken with respect to.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for fewer than two placements, equal names, depths that do not increase, gradients of another shape,
            negative ones, or gradients of which none is positive and finite.

    Source: Xiong et al. (2020), section 3.3 and figure 3; CMU-18, CMU-19, GT-13.

    >>> seeds = [[[1.0, 2.0], [1.2, 2.4]]], [[[0.5, 0.4], [0.7, 0.6]]]
    >>> GradientByLayer(["post", "pre"], [2], seeds)  # doctest: +NORMALIZE_WHITESPACE
    2 layers, norm of the gradient with respect to the second matrix of each feed-forward layer, mean over 2 seeds:
    with post, 1.1 in layer 1 and 2.2 in layer 2; with pre, 0.6 and 0.5. In layer 1, every seed of post is above every
    seed of pre; in layer 2, every seed of post is above every seed of pre.
    """

    sentence = (
        "{depth} {several|layer|layers}, norm of the gradient with respect to {of}, mean over {n_seeds} seeds: with "
        "{placement}, {found[0]|no number|{mean[0]}} in layer 1 and {found[1]|no number|{mean[1]}} in layer {depth}; "
        "with {other}, {found[2]|no number|{mean[2]}} and {found[3]|no number|{mean[3]}}. "
        "In layer 1, {compared[first]}; in layer {depth}, {compared[last]}."
    )

    def __init__(
        self,
        placements,
        depths,
        gradients,
        *,
        of: str = "the second matrix of each feed-forward layer",
        caption: str = "",
    ):
        names = list_of_strings("placements", placements)
        if len(names) < 2 or len({*names}) < len(names):
            raise ValueError(f"{placements=}; they must be at least two, with different names")
        depths = increasing("depths", [whole("depth", depth, 1, 1000) for depth in depths])
        gradients = torch.as_tensor(gradients, dtype=torch.float32)
        expected = f"({len(names)}, {len(depths)}, seeds, {depths[-1]})"
        if gradients.ndim != 4 or gradients.shape[::3] != (len(names), depths[-1]) or gradients.shape[1] != len(depths):
            raise ValueError(f"gradients of shape {tuple(gradients.shape)}; it must be {expected}")
        if (gradients < 0).any():
            raise ValueError("gradients has negative entries; it must be norms")
        numbers = torch.arange(1, depths[-1] + 1)
        known = (gradients > 0) & gradients.isfinite() & (numbers <= torch.tensor(depths)[:, None, None])
        if not known.any():
            raise ValueError("gradients has no entry that is positive and finite; a logarithmic axis needs one")
        self.gradients, self.depths = gradients.masked_fill(~known, torch.nan), torch.tensor(depths)
        self.layers = numbers.expand(gradients.shape[2:])
        self.ends = gradients[known].min().item() / 1.3, gradients[known].max().item() * 1.3
        data = {"of": of, "n_seeds": gradients.shape[2], "compared": COMPARED, "layers": numbers.tolist()}
        data |= {"left": [1 - 0.05 * depth for depth in depths], "right": [1.05 * depth for depth in depths]}
        super().__init__(
            caption=caption,
            data=data | {"ticks": [_ticks_of_layers(depth) for depth in depths]},
            placement=Choice(names, hue=HUES[0]),
            other=Choice(names, names[1], hue=HUES[1], label="compare with"),
            depth=Choice(depths, depths[-1], label="layers"),
        )

    def compute(self, placement, other, depth):
        n, pair = self.depths[depth], torch.stack((placement, other))
        norms = self.gradients.index_select(0, pair).index_select(1, depth[None])[:, 0]  # (placements, seeds, layers)
        ends = norms.index_select(2, torch.stack((0 * n, n - 1))).mT.flatten(0, 1)  # (placements x ends, seeds)
        low, high, mean = ends.amin(1), ends.amax(1), ends.mean(1)
        above, below = low[:2] > high[2:], high[:2] < low[2:]
        nothing = (mean[:2] + mean[2:]).isnan() | (placement == other)
        first, last = torch.where(nothing, 3, above + 2 * below).unbind()
        return {
            "at": (self.layers + 0.012 * n * torch.tensor([[[-1]], [[1]]])).flatten(1), "norms": norms.flatten(1),
            "means": norms.mean(1), "mean": _rounded(mean), "low": _rounded(low), "high": _rounded(high),
            "found": ~mean.isnan(), "first": first, "last": last, "several": n > 1,
        }  # fmt: skip

    def marks(self):
        drawn = [m.line(f"means[{i}]", "layers", hue=hue) for i, hue in enumerate(HUES)]
        drawn += [m.dots(f"at[{i}]", f"norms[{i}]", hue=hue, size=4) for i, hue in enumerate(HUES)]
        plot = m.plot(
            *drawn,
            x=m.axis("left[depth]", "right[depth]", "layer", ticks="ticks[depth]"),
            y=m.axis(*self.ends, ticks=_ticks_of_norms(*self.ends), log=True),
            title="Gradient norm by layer", hint="for {of}; dots: seeds, line: their mean", height=320,
        )  # fmt: skip
        facts = {
            f"{{{name}}}, layer {layer}": f"{{found[{i}]|no number|{{mean[{i}]}} ({{low[{i}]}}–{{high[{i}]}})}}"
            for i, (name, layer) in enumerate((n, at) for n in ("placement", "other") for at in ("1", "{depth}"))
        }
        note = m.note("In layer 1, {compared[first]}; in layer {depth}, {compared[last]}.")
        return [plot, "placement", "other", "depth", m.facts(**facts), note]


def increasing(name: str, numbers: list) -> list:
    """Return the numbers; raise a ValueError if there are none or one is not larger than the one before."""
    if not numbers or any(b <= a for a, b in zip(numbers, numbers[1:], strict=False)):
        raise ValueError(f"{name}={numbers!r}; it must be a list of increasing numbers")
    return numbers


def _rounded(x: torch.Tensor) -> torch.Tensor:
    """Round to three significant digits."""
    scale = 10.0 ** (2 - torch.floor(torch.log(x) / math.log(10) + 1e-6))
    return torch.round(x * scale) / scale


def _ticks_of_layers(depth: int) -> list[int]:
    step = 1 if depth <= 8 else math.ceil(depth / 4)
    return [1, *range(max(step, 2), depth + 1, step)]


def _ticks_of_norms(low: float, high: float) -> list[float]:
    """Return powers of ten, not too many, and multiples of them where there are fewer than three."""
    decades = math.log10(high / low)
    steps = (1,) if decades > 2.5 else (1, 2, 5)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1, math.ceil(decades / 7))
    return [tick for e in exponents for step in steps if low <= (tick := float(f"{step}e{e}")) <= high]
