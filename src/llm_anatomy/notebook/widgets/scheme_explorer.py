"""The scheme explorer: what each way of telling positions does to the matrix of scores."""

import torch

from llm_anatomy.data import table
from llm_anatomy.layers.positions.absolute import Sinusoidal
from llm_anatomy.layers.positions.base import PositionScheme
from llm_anatomy.layers.positions.buckets import Clip
from llm_anatomy.layers.positions.metrics import score_matrix
from llm_anatomy.layers.positions.relative import ALiBi, ScalarBias, alibi_slopes
from llm_anatomy.layers.positions.rotary import InterleavedRotary
from llm_anatomy.notebook.figures import figure
from llm_anatomy.notebook.widgets.base import PageWidget, whole
from llm_anatomy.notebook.widgets.score_map import bars_of_row, hide_future, map_of_scores, written

MOST_PLACES = 24
D_MODEL, D_HEAD, N_HEADS, BASE = 64, 8, 4, 10000.0
CLIPPED = [[-0.5, 0.5, 2.0, 1.0, 0.0, -1.0, -1.5], [1.5, 0.5, -0.5, -1.0, -0.5, 0.5, 1.5]]  # offsets -3 to 3, made up

HEADS = [f"{h}" for h in range(1, N_HEADS + 1)]
SCHEMES = {  # name: what it has several of, their names, the formula ({…} is an index), what is shown
    "none": (
        "head",
        ["1"],
        "0",
        "Nothing is added. What two words say to each other does not depend on where they stand.",
    ),
    "sinusoidal": (
        "head",
        ["1"],
        "p{i}·p{j} / √d",
        f"Added to the embeddings. Shown is what two positions say to each other where the projections leave them as "
        f"they are, {D_MODEL} wide: then only the distance counts.",
    ),
    "learned": (
        "head",
        ["1"],
        "cos(p{i}, p{j})",
        "Added to the embeddings. Shown are the cosines between the vectors of positions of a small trained model.",
    ),
    "clipped bias": (
        "head",
        ["1", "2"],
        "b{clip(j − i, −3, 3)}",
        "Added to the scores: a number per offset, the last one for all beyond three. The numbers are made up.",
    ),
    "T5": (
        "head",
        [],
        "b{row(j − i)}",
        "Added to the scores: a number per bucket of offsets, trained in a small model under the mask. There, all of "
        "the future falls into the bucket of offset 0.",
    ),
    "ALiBi": (
        "head",
        HEADS,
        "−m·|j − i|",
        "Added to the scores, and nothing is trained: the slopes m of four heads are 1/4, 1/16, 1/64 and 1/256.",
    ),
    "RoPE": (
        "plane",
        ["all", *HEADS],
        "q·R{j − i} k / √d",
        f"Adds nothing: it turns queries and keys. Shown is the score of q = k = (1, …, 1), {D_HEAD} wide: a cosine "
        f"for each of its {D_HEAD // 2} planes.",
    ),
}


class SchemeExplorer(PageWidget):
    r"""Choose a scheme of positions and a head, and see what it adds to the scores, or makes of them.

    What is shown, for query i and key j: nothing; :math:`p_i \cdot p_j / \sqrt d` of the sinusoids, d = 64; the cosine
    of two trained vectors; :math:`b_{\mathrm{clip}(j - i)}`, numbers made up; T5's trained
    :math:`b_{\mathrm{row}(j - i)}`; ALiBi's :math:`-m_h |j - i|` of four heads; RoPE's
    :math:`q^\top R_{j - i} k / \sqrt d` for :math:`q = k = \mathbf 1`, d = 8, or the share of one plane.

    Args:
        n_positions: how many, 2 to 24.
        scheme: the one shown at first: "none", "sinusoidal", "learned", "clipped bias", "T5", "ALiBi" or "RoPE".
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for a number of positions that is no whole number or outside these bounds, or another scheme.

    Source: Vaswani et al. (2017), section 3.5; Shaw et al. (2018), section 3.2, for the clipping; Raffel et al. (2020),
    section 2.1; Press et al. (2022), section 3; Su et al. (2021), section 3.2; IITD-16, IITD-21, CMU-26, GT-30.

    >>> SchemeExplorer(3, scheme="ALiBi")
    ALiBi, head 1, query 2, without the mask, scores: −0.50 at key 0, −0.25 at key 1, 0.00 at key 2.
    """

    tools = ("choice", "matrix")

    def __init__(self, n_positions=12, *, scheme: str = "ALiBi", caption: str = ""):
        super().__init__(caption)
        if scheme not in SCHEMES:
            raise ValueError(f"{scheme=}; it must be one of {', '.join(SCHEMES)}")
        self.n_positions, self.scheme = whole("n_positions", n_positions, 2, MOST_PLACES), scheme
        biases = table("t5_biases")
        heads = sorted({row["head"] for row in biases})
        at = {(row["head"], row["distance"]): row["bias"] for row in biases}
        # what was trained, to two digits: the same on every machine
        self.t5 = [[round(at[head, distance], 2) for distance in range(n_positions)] for head in heads]
        cosines = table("learned_positions")[:n_positions]
        self.learned = [[round(row[str(position)], 2) for position in range(n_positions)] for row in cosines]

    def parts(self, scheme: str) -> list[str]:
        """Names of the scheme's heads, or planes."""
        return [f"{head}" for head in range(1, len(self.t5) + 1)] if scheme == "T5" else SCHEMES[scheme][1]

    def scores(self, scheme: str, part: int = 0) -> list[list[float]]:
        """(queries, keys): what the scheme adds, or makes, by the package's own hooks and the trained tables."""
        positions = torch.arange(self.n_positions)
        if scheme == "learned":
            return self.learned
        if scheme == "T5":
            back = (positions[:, None] - positions).clamp(min=0)
            return torch.tensor(self.t5[part], dtype=torch.float64)[back].tolist()
        query = key = torch.zeros(N_HEADS, D_HEAD, dtype=torch.float64)
        hooks: PositionScheme = PositionScheme()
        if scheme == "sinusoidal":
            hooks, query = Sinusoidal(D_MODEL, BASE), torch.zeros(1, D_MODEL, dtype=torch.float64)
            key = query
        elif scheme == "clipped bias":
            hooks = ScalarBias(len(CLIPPED), Clip(-3, 3))
            hooks.table.data = torch.tensor(CLIPPED, dtype=torch.float64).T
            query = key = query[: len(CLIPPED)]
        elif scheme == "ALiBi":
            hooks = ALiBi(N_HEADS)
        elif scheme == "RoPE":
            hooks, query = InterleavedRotary(D_HEAD, BASE), torch.ones(1, D_HEAD, dtype=torch.float64)
            if part:
                query = query * (torch.arange(D_HEAD) // 2 == part - 1)
            key, part = query, 0
        return score_matrix(hooks, query, key, self.n_positions)[part].detach().tolist()

    def data(self) -> dict:
        return {
            "n": self.n_positions,
            "start": list(SCHEMES).index(self.scheme),
            "query": self._query,
            "schemes": [
                {"name": name, "kind": kind, "parts": self.parts(name), "formula": formula, "note": note}
                for name, (kind, _, formula, note) in SCHEMES.items()
            ],
            "width": D_MODEL,
            "rotary": D_HEAD,
            "base": BASE,
            "slopes": alibi_slopes(N_HEADS).tolist(),
            "clipped": CLIPPED,
            "t5": self.t5,
            "learned": self.learned,
        }

    def text(self) -> str:
        return self._sentence(self.scheme, 0, self._query, False, False)

    @property
    def _query(self) -> int:
        """At first one with keys on both sides."""
        return 2 * self.n_positions // 3

    def live(self):
        import ipywidgets as w

        def parts(scheme):
            return [(name, i) for i, name in enumerate(self.parts(scheme))]

        scheme = w.Dropdown(options=list(SCHEMES), value=self.scheme, description="scheme")
        part = w.Dropdown(options=parts(self.scheme), value=0, description="head or plane")
        scheme.observe(lambda change: setattr(part, "options", parts(change["new"])), "value")
        controls = {
            "scheme": scheme,
            "part": part,
            "query": w.IntSlider(self._query, min=0, max=self.n_positions - 1, description="query"),
            "masked": w.Checkbox(False, description="causal mask"),
            "soft": w.Checkbox(False, description="softmax"),
        }
        return self.panel(controls, self._picture)

    def _picture(self, show, scheme, part, query, masked, soft):
        part = min(part or 0, len(self.parts(scheme)) - 1)
        everywhere = [score for p in range(len(self.parts(scheme))) for row in self.scores(scheme, p) for score in row]
        rows, names = self._shown(scheme, part, masked, soft), [str(position) for position in range(self.n_positions)]
        with figure(
            f"What does {scheme} make of the scores?" if scheme != "none" else "What do scores know without a scheme?",
            alt=self._sentence(scheme, part, query, masked, soft),
            width=7.5,
            height=4,
            ncols=2,
            show=show,
        ) as (whole, bars):
            map_of_scores(whole, rows, names, query, max(map(abs, everywhere)), soft)
            bars_of_row(bars, rows[query], names, (min(0, *everywhere), max(0, *everywhere)), soft)

    def _shown(self, scheme, part, masked, soft) -> list[list[float]]:
        return hide_future(self.scores(scheme, part), masked, soft)

    def _sentence(self, scheme, part, query, masked, soft) -> str:
        names, kind = self.parts(scheme), SCHEMES[scheme][0]
        which = f"{scheme}, {kind} {names[part]}" if len(names) > 1 else scheme
        row = self._shown(scheme, part, masked, soft)[query]
        each = ", ".join(f"{written(score)} at key {key}" for key, score in enumerate(row))
        how = f"{'with' if masked else 'without'} the mask, {'weights' if soft else 'scores'}"
        return f"{which}, query {query}, {how}: {each}."
