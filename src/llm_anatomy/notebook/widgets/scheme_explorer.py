"""The scheme explorer: what each position scheme does to the matrix of scores."""

import torch
from torch import nn

from llm_anatomy.data import table
from llm_anatomy.layers.positions import absolute, relative
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.layers.positions.buckets import Clip
from llm_anatomy.layers.positions.metrics import score_matrix
from llm_anatomy.layers.positions.rotary import InterleavedRotary
from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider, Tick
from llm_anatomy.notebook.widgets.term_mixer import HOW, matrix, matrix_and_row

CLIPPED = [  # offsets -3 to 3 of each head, made up
    [-0.5, 0.5, 2, 1, 0, -1, -1.5], [1.5, 0.5, -0.5, -1, -0.5, 0.5, 1.5],
    [-2, -1, 0, 1, 2, 0, 0], [-1, -1, -1, 2, 0, 0, 0],
]  # fmt: skip
SCHEMES = {  # what the second control chooses, the formula (_(…) is an index), and what is shown
    "none": ("", "0",
        "Nothing is added. The score of two tokens does not depend on their positions."),
    "sinusoidal": ("", "p_(i)·p_(j) / √d",
        "Sinusoids are added to the embeddings. You see their own dot products, for width 64 and without projections."),
    "learned": ("", "cos(p_(i), p_(j))",
        "Trained vectors are added to the embeddings. You see the cosines between those of a small model."),
    "clipped bias": ("head", "b_(clip(j − i, −3, 3))",
        "A number per offset is added to the scores; offsets beyond three share the last. All are invented."),
    "T5": ("head", "b_(row(j − i))",
        "A number per bucket is added to the scores. It was trained under the mask; the whole future is in bucket 0."),
    "ALiBi": ("head", "−m·|j − i|",
        "A line is added to the scores, and nothing is trained. The slopes m are 1/4, 1/16, 1/64 and 1/256."),
    "Shaw": ("head", "q·a_(clip(j − i, −3, 3)) / √d",
        "A vector per offset is added to the keys and multiplied by the query. Vectors and query are invented."),
    "Transformer-XL": ("head", "(q + v)·W R_(i − j) / √d",
        "Sinusoids of the distance are multiplied by the query and by a shared vector. All vectors are invented."),
    "TUPE": ("head", "U p_(i)·V p_(j) / √(2d)",
        "A product of two absolute positions is added to the scores. Vectors and projections are invented."),
    "DeBERTa": ("head", "(q·W p_(i − j) + k·U p_(j − i)) / √(3d)",
        "The query is multiplied by a vector of the offset, the key by one of the reverse offset. All are invented."),
    "RoPE": ("", "q·R_(j − i) k / √d",
        "Queries and keys are rotated. You see the score of q = k = (1, …, 1), width 8: a sum of a cosine per plane."),
    "RoPE by plane": ("plane", "q·R_(j − i) k / √d",
        "Queries and keys are rotated. You see what one plane contributes to the score of q = k = (1, …, 1)."),
}  # fmt: skip


class SchemeExplorer(Widget):
    r"""Show what a position scheme adds to the scores, or does to them, for each of its heads.

    For query i and key j the matrix shows: zero; :math:`p_i \cdot p_j / \sqrt d` of the sinusoids, d = 64; the cosine
    of two trained vectors; :math:`b_{\mathrm{clip}(j - i)}`; T5's trained :math:`b_{\mathrm{row}(j - i)}`; ALiBi's
    :math:`-m_h |j - i|`; what Shaw, Transformer-XL, TUPE and DeBERTa add for one query and one key; and RoPE's
    :math:`q^\top R_{j - i} k / \sqrt d` for :math:`q = k = \mathbf 1`, d = 8, or the share of one plane. Numbers that
    are neither fixed nor trained are invented.

    Args:
        n_positions: number of positions, 2 to 24.
        scheme: the initial scheme: "none", "sinusoidal", "learned", "clipped bias", "T5", "ALiBi", "Shaw",
            "Transformer-XL", "TUPE", "DeBERTa", "RoPE" or "RoPE by plane".
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a number of positions that is not an integer within these bounds, or another scheme.

    Source: Vaswani et al. (2017), section 3.5; Shaw et al. (2018), section 3; Dai et al. (2019), section 3.3; Raffel et
    al. (2020), section 2.1; Ke et al. (2021), section 3.1; He et al. (2021), section 3.1; Press et al. (2022), section
    3; Su et al. (2021), section 3.2; IITD-16, IITD-19, IITD-20, IITD-21, IITD-22, IITD-23, CMU-26, GT-30.

    >>> SchemeExplorer(3, scheme="ALiBi")
    ALiBi, head 1, query 2, without the mask, scores: −0.50 at key 0, −0.25 at key 1, 0.00 at key 2.
    """

    part = Choice(["1", "2", "3", "4"], label="head or plane")
    masked = Tick(label="causal mask: no looking ahead")
    soft = Tick(label="softmax: weights if the content scores are equal")
    sentence = "{scheme}{which[scheme]}, query {query}, " + HOW + "[[{row:.2f} at key {tokens}]]."

    def __init__(self, n_positions=12, *, scheme: str = "ALiBi", caption: str = ""):
        if scheme not in SCHEMES:
            raise ValueError(f"{scheme=}; it must be one of {', '.join(SCHEMES)}")
        n = whole("n_positions", n_positions, 2, 24)
        self.matrices = torch.stack([_matrices(name, n) for name in SCHEMES])  # (schemes, parts, queries, keys)
        data = {"tokens": [str(position) for position in range(n)], "which": [], "formulas": [], "notes": []}
        for kind, formula, note in SCHEMES.values():
            data["which"].append(f", {kind} {{part}}" if kind else "")
            data["formulas"].append(formula)
            data["notes"].append(note if kind else f"{note} All heads see the same.")
        start = Slider(2 * n // 3, 0, n - 1, hue="query")  # a query with keys on both sides
        super().__init__(caption=caption, data=data, scheme=Choice(SCHEMES, scheme), query=start)

    def compute(self, scheme, part, query, masked, soft):
        parts = self.matrices[scheme]
        return matrix(parts[part], query, masked, soft, parts.min().clamp(max=0), parts.max().clamp(min=0))

    def marks(self):
        words = m.note("{formulas[scheme]}", code=True), m.note("{notes[scheme]}")
        return ["scheme", "part", *words, matrix_and_row("{scheme}{which[scheme]}"), "query"]


def _matrices(name: str, n: int) -> torch.Tensor:
    """Return the matrices (4 parts, queries, keys) of a scheme, from the package's hooks or from trained numbers."""
    if name == "learned":
        trained = [[row[str(key)] for key in range(n)] for row in table("learned_positions")[:n]]
        return torch.tensor(trained).expand(4, n, n)
    with torch.random.fork_rng(devices=[]):  # what is made up leaves the notebook's random numbers alone
        torch.manual_seed(0)
        zeros, content = torch.zeros(4, 8), torch.randn(4, 8)
        turned = torch.stack((-content[:, 1::2], content[:, ::2]), -1).flatten(1)  # at right angles: q·k = 0
        planes = (torch.arange(8) // 2 == torch.arange(4)[:, None]).float()
        disentangled = nn.Embedding(12, 8), Clip(-6, 5), (nn.Linear(8, 32, False), nn.Linear(8, 32, False))
        hooks, query, key = {
            "none": lambda: (PositionScheme(), zeros, zeros),
            "sinusoidal": lambda: (absolute.Sinusoidal(64), *torch.zeros(2, 4, 64)),
            "clipped bias": lambda: (relative.ScalarBias(4, Clip(-3, 3)), zeros, zeros),
            "T5": lambda: (relative.ScalarBias(4, Clip(-63, 0)), zeros, zeros),
            "ALiBi": lambda: (relative.ALiBi(4), zeros, zeros),
            "Shaw": lambda: (relative.Shaw(Clip(-3, 3), 8), content, zeros),
            "Transformer-XL": lambda: (relative.TransformerXL(16, 4, 8), content, zeros),
            "TUPE": lambda: (relative.TUPE(n, 8, 4, 8), zeros, zeros),
            "DeBERTa": lambda: (relative.DeBERTa(*disentangled), content, turned),
            "RoPE": lambda: (InterleavedRotary(8), zeros + 1, zeros + 1),
            "RoPE by plane": lambda: (InterleavedRotary(8), planes, planes),
        }[name]()
        for parameter in hooks.parameters():
            nn.init.normal_(parameter, std=0.6)
    if name == "clipped bias":
        hooks.table.data = torch.tensor(CLIPPED).T
    elif name == "T5":  # trained, by distance
        hooks.table.data = torch.tensor([row["bias"] for row in table("t5_biases")]).view(4, -1).flip(-1).T
    scores = score_matrix(hooks.double(), query.double(), key.double(), n)
    return scores.detach().round(decimals=4).float()  # the same on every machine
