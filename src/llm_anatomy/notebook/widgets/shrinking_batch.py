"""The shrinking batch: what BatchNorm and LayerNorm make of one sample, in batches drawn anew and ever smaller."""

import torch

from llm_anatomy.layers.normalization import LayerNorm, standardize
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Slider

EPS, SIZES, N_BATCHES = 1e-5, [1, 2, 4, 8, 16, 32, 64], 60
SAMPLE, MEAN, DEVIATION = [3.0, 4.0, 6.0, 2.0], 4.0, 3.0  # the second row of the lecture's batch; its first feature
N_OTHERS = N_BATCHES * (SIZES[-1] - 1)
SEED = 29  # of forty, the one with the draws whose spreads are closest to those of 100,000 batches
STEPS = [1, 611, 971, 1259]  # have no factor in common with N_OTHERS
SAID = [
    "BatchNorm refuses a batch of one in training: the variance of one number is zero, and nothing of the sample would "
    "be left. LayerNorm does not notice.",
    "Of two numbers, BatchNorm makes −1 and +1, whatever they are: it keeps which of the two is larger, and no more.",
    "The mean of {size} numbers has a standard error of σ/√{size}, and the estimate of σ has an error, too. So "
    "BatchNorm's value of the same sample moves from batch to batch. LayerNorm's does not.",
]


class ShrinkingBatch(Widget):
    r"""Show the first feature of one sample, normalized in 60 drawn batches, by BatchNorm and by LayerNorm.

    The other samples of a batch are drawn from a normal distribution with mean 4 and standard deviation 3. BatchNorm's
    value of the sample, :math:`(3 - \mu_b) / \sigma_b`, depends on them: for a sample z standard deviations from the
    mean, its spread in large batches approaches :math:`\sqrt{(1 + z^2/2)/B}`, here 1.03 times :math:`1/\sqrt B`, the
    standard error of the mean in units of the standard deviation. A smaller batch is the beginning of a larger one;
    another draw deals the same 3,780 other samples anew.

    Args:
        size: the initial size of a batch: 1, 2, 4, 8, 16, 32 or 64.
        draw: the initial draw, from 1 to 4.
        caption: one sentence that says what to look for.

    Source: Wu and He (2018), section 1; IITD-39, IITD-41, UCL-25 (erratum E-97).

    >>> ShrinkingBatch(1)  # doctest: +NORMALIZE_WHITESPACE
    Batch size 1, draw 1: BatchNorm refuses a batch of one in training: the variance of one number is zero, and nothing
    of the sample would be left. LayerNorm does not notice. LayerNorm gives −0.51 in every batch.
    """

    sentence = (
        "Batch size {size}, draw {draw}: {some||in 60 batches, BatchNorm's values of one sample lie from {low:.2f} to "
        "{high:.2f}; their spread is {spread:.2f}, and 1/√{size} is {law:.2f}. }{said[case]} LayerNorm gives "
        "{layer:.2f} in every batch."
    )

    def __init__(self, size: int = 8, draw: int = 1, *, caption: str = ""):
        z = torch.randn(N_OTHERS, generator=torch.Generator().manual_seed(SEED))
        self.twentieths = 2 * (10 * (MEAN + DEVIATION * z)).round().long() + 1  # odd: none is equal to the sample's
        self.layer_norm = LayerNorm(len(SAMPLE), eps=EPS)
        super().__init__(
            caption=caption,
            data={"said": SAID, "sizes": SIZES},
            size=Slider(size, values=SIZES, label="batch size"),
            draw=Slider(draw, 1, len(STEPS)),
        )

    def batches(self, draw):
        """Return the first feature of each sample, (batches, samples); the sample of interest comes first."""
        deal = (torch.arange(N_OTHERS) * torch.tensor(STEPS)[draw - 1] + 17 * draw) % N_OTHERS
        others = self.twentieths[deal].view(N_BATCHES, -1) / 20
        return torch.cat((torch.full((N_BATCHES, 1), SAMPLE[0]), others), 1)

    def compute(self, size, draw):
        batches, sizes = self.batches(draw), torch.tensor(SIZES)
        refused = torch.full((N_BATCHES,), torch.nan)
        by_size = [refused, *(standardize(batches[:, :size], 1, EPS)[:, 0] for size in SIZES[1:])]
        at, laws, values = (sizes == size).int().argmax(), sizes.rsqrt(), torch.stack(by_size)  # (sizes, batches)
        spreads = (values - values.mean(1, keepdim=True)).square().mean(1).sqrt()
        layer, now = self.layer_norm(torch.tensor(SAMPLE))[0], values[at]
        return {
            "batch": now, "layer": layer, "layers": layer.expand(N_BATCHES), "spreads": spreads, "spread": spreads[at],
            "laws": laws, "law": laws[at], "low": now.min(), "high": now.max(),
            "refusal": torch.where(size > 1, torch.nan, 1.04), "some": size > 1, "case": (size > 1).int() + (size > 2),
        }  # fmt: skip

    def marks(self):
        numbers = list(range(1, N_BATCHES + 1))
        values = m.plot(
            m.line("layers", numbers, hue="query", width=4),
            m.dots(numbers, "batch", hue="key", size=4),
            m.words([0.6] * 2, [2.75, 2.3], ["BatchNorm", "LayerNorm"], hue=["key", "query"], anchor="start"),
            x=m.axis(0, N_BATCHES + 1, "batch", ticks=[1, 20, 40, 60]), y=m.axis(-3, 3, ticks=list(range(-3, 4))),
            title="One sample in 60 batches of {size}", hint="its first feature, normalized", height=300,
        )  # fmt: skip
        spread = m.plot(
            m.line("laws", "sizes", dashed=True, width=1.5),
            m.line("spreads", "sizes", hue="key"),
            m.line([0, 0], [1, SIZES[-1]], hue="query"),
            m.dots("size", "spread", hue="key", size=7),
            m.dots("size", 0, hue="query", size=7),
            m.words(1.1, "refusal", ["refused"], hue="key", anchor="start"),
            x=m.axis(1, SIZES[-1], "batch size B", ticks=SIZES, log=True), y=m.axis(0, 1.1, ticks=[0, 0.5, 1]),
            title="Spread over the batches", hint="dashed: 1/√B", height=300, pick={"x": "size"},
        )  # fmt: skip
        facts = {"1/√{size}": "{law:.2f}", "spread of LayerNorm's": "0.00"}
        facts = {"spread of BatchNorm's values": "{some|refused|{spread:.2f}}"} | facts
        return [m.row(values, spread), "size", "draw", m.facts(**facts), m.note("{said[case]}")]
