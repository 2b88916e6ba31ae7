"""The normalized axes: which numbers of a batch share their mean and standard deviation, for each kind of norm."""

import torch
from einops import rearrange

from llm_anatomy.layers.normalization import LayerNorm, RMSNorm, standardize
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider

EPS = 1e-5
BATCH = [  # 3 samples of 5 tokens with 4 features; the first tokens are the three rows of the lecture's batch
    [[1, 3, 5, 7], [2, 6, 4, 9], [0, 3, 8, 5], [4, 1, 7, 6], [3, 2, 6, 8]],
    [[3, 4, 6, 2], [5, 0, 4, 3], [2, 4, 9, 1], [6, 5, 7, 0], [4, 2, 5, 4]],
    [[8, 3, 2, 1], [9, 5, 1, 4], [7, 6, 0, 2], [8, 2, 3, 6], [6, 4, 3, 0]],
]
SAMPLES, TOKENS, FEATURES = len(BATCH), len(BATCH[0]), len(BATCH[0][0])
GROUP = 2
"""Features of a group."""
OVER = {  # the statistics are those over the axes with a colon
    "BatchNorm": "x[:, :, {feature}]",
    "LayerNorm": "x[{sample}, {token}, :]",
    "InstanceNorm": "x[{sample}, :, {feature}]",
    "GroupNorm": "x[{sample}, :, {first}:{last}]",
    "RMSNorm": "x[{sample}, {token}, :]",
}
FORMULA = "{rms|({value} − {mean:.2f}) / {deviation:.2f}|{value} / {root:.2f}} = {normalized:.2f}"


class NormalizedAxes(Widget):
    r"""Show which numbers of a batch share their statistics with one of them, and what the norm makes of that one.

    The batch has 3 samples of 5 tokens with 4 features. BatchNorm takes the statistics over samples and tokens,
    InstanceNorm over the tokens of a sample, GroupNorm over the tokens of a sample and two features, LayerNorm over the
    features of a token. RMSNorm divides by the root of the mean square of the same numbers as LayerNorm, and does not
    subtract their mean. Wu and He draw images, and their layer norm also runs over the positions; in a Transformer,
    each token is normalized by itself.

    Args:
        norm: the initial norm: BatchNorm, LayerNorm, InstanceNorm, GroupNorm or RMSNorm.
        caption: one sentence that says what to look for.

    Source: Wu and He (2018), figure 2; Ba et al. (2016), section 3; IITD-37, IITD-40, IITD-41, CMU-20, UCL-25.

    >>> NormalizedAxes("LayerNorm")  # doctest: +NORMALIZE_WHITESPACE
    LayerNorm at sample 1, token 0, feature 2: the statistics are those of x[1, 0, :], 4 numbers with mean 3.75,
    standard deviation 1.48 and root mean square 4.03. The normalized value is (6 − 3.75) / 1.48 = 1.52.
    """

    sentence = (
        "{norm} at sample {sample}, token {token}, feature {feature}: the statistics are those of {over[norm]}, "
        "{count} numbers with mean {mean:.2f}, standard deviation {deviation:.2f} and root mean square {root:.2f}. "
        f"The normalized value is {FORMULA}."
    )

    def __init__(self, norm: str = "BatchNorm", *, caption: str = ""):
        self.batch = torch.tensor(BATCH, dtype=torch.float32)
        s, t, f = torch.meshgrid(*(torch.arange(n) for n in self.batch.shape), indexing="ij")
        sets = [f, TOKENS * s + t, FEATURES * s + f, FEATURES * s + f // GROUP, TOKENS * s + t]
        self.sets = torch.stack(sets).flatten(1)  # (norms, cells): the cells of a set share their statistics
        self.layer_norm, self.rms_norm = LayerNorm(FEATURES, eps=EPS), RMSNorm(FEATURES, eps=EPS)
        numbers = {"over": list(OVER.values()), "numbers": [str(v) for v in self.batch.int().flatten().tolist()]}
        super().__init__(
            caption=caption,
            data=numbers | _drawing(s.flatten(), t.flatten(), f.flatten()),
            norm=Choice(list(OVER), norm),
            sample=Slider(1, 0, SAMPLES - 1),
            token=Slider(0, 0, TOKENS - 1),
            feature=Slider(2, 0, FEATURES - 1),
        )

    def compute(self, norm, sample, token, feature):
        x = self.batch
        groups = standardize(rearrange(x, "s t (g f) -> s g (t f)", f=GROUP), -1, EPS)
        normalized = [
            standardize(x.flatten(0, 1), 0, EPS).view_as(x),
            self.layer_norm(x),
            standardize(x, 1, EPS),
            rearrange(groups, "s g (t f) -> s t (g f)", f=GROUP),
            self.rms_norm(x),
        ]
        cell = (sample * TOKENS + token) * FEATURES + feature
        sets, numbers, first = self.sets.index_select(0, norm[None])[0], x.flatten(), feature // GROUP * GROUP
        shared = (sets == sets[cell]).float()
        mean, square = ((shared * power).sum() / shared.sum() for power in (numbers, numbers.square()))
        return {
            "shared": SHADE * shared, "cell": cell, "count": shared.sum(), "mean": mean, "root": square.sqrt(),
            "deviation": (square - mean.square()).sqrt(), "first": first, "last": first + GROUP,
            "value": numbers[cell], "normalized": torch.stack(normalized).flatten(1)[norm, cell],
            "rms": norm == list(OVER).index("RMSNorm"),
        }  # fmt: skip

    def marks(self):
        thin = {"hue": "normalization", "width": 1, "faint": True}
        stack = m.plot(
            m.arrows("edge_x", "edge_y", x0="edge_x", y0="edge_y0", dashed=True, head=False, **thin),
            m.area("x", "y", hue="normalization", share="shared", text="numbers"),
            m.line("sheet_y", "sheet_x", **thin),
            m.line("y[cell]", "x[cell]", hue="query", width=3),
            m.words("token_x", "token_y", "tokens", anchor="end"),
            m.words(-0.6, "sample_y", "samples", anchor="start"),
            m.words("feature_x", -0.5, "features"),
            x=m.axis(-0.6, FEATURES + LEAN * TOKENS, ticks=[]), y=m.axis(SAMPLES * (TOKENS + GAP) - GAP, -1, ticks=[]),
            title="{norm}: {over[norm]}", hint="share their statistics", height=450,
        )  # fmt: skip
        facts = {
            "numbers that share their statistics": "{count}",
            "mean": "{mean:.2f}",
            "standard deviation": "{deviation:.2f}",
            "root mean square": "{root:.2f}",
            "normalized value": "{normalized:.2f}",
        }
        right = m.row("sample", "token", "feature", m.facts(**facts), m.note(FORMULA, code=True), shares=[1])
        return ["norm", m.row(stack, right)]


LEAN, GAP, SHADE = 0.3, 1, 0.45


def _drawing(s, t, f) -> dict:
    """Return the lines and words of a stack: a sheet for each sample, whose rows, the tokens, lean to the right."""

    def project(name, across, down, sample):
        x, y = across + LEAN * (TOKENS - down), (TOKENS + GAP) * sample + down
        return {f"{name}x": x.tolist(), f"{name}y": y.tolist()}

    right, low = torch.tensor([0, 1, 1, 0, 0]), torch.tensor([0, 0, 1, 1, 0])  # the corners of a cell or a sheet
    sheets = torch.arange(SAMPLES)
    found = project("", f[:, None] + right, t[:, None] + low, s[:, None])  # (cells, corners)
    found |= project("sheet_", FEATURES * right, TOKENS * low, sheets[:, None])
    found |= project("edge_", FEATURES * right[:4], TOKENS * low[:4], SAMPLES - 1)
    first = f == 0
    found |= project("token_", -0.1 + 0 * t[first], t[first] + 0.5, s[first])
    found |= project("feature_", torch.arange(FEATURES) + 0.5, 0 * torch.arange(FEATURES), 0)
    found |= project("sample_", 0 * sheets, -0.5 + 0 * sheets, sheets)
    found |= {"tokens": [str(i) if i else "token 0" for i in range(TOKENS)] * SAMPLES}
    found |= {"features": [str(i) if i else "feature 0" for i in range(FEATURES)]}
    return found | {"samples": [f"sample {i}" for i in range(SAMPLES)], "edge_y0": (TOKENS * low[:4]).tolist()}
