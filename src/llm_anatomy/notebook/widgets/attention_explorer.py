"""The attention explorer: the attention weights of each token of a sentence, per head, with and without the mask."""

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import list_of_strings
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Tick

MASK = "mask: no looking ahead"


class AttentionExplorer(Widget):
    """Show what each token of a sentence attends to.

    It opens on the inner token whose weights the mask changes most. What the mask forbids is hatched in the map.

    Args:
        tokens: the tokens of the sentence.
        attend: called as ``attend(tokens, masked)``; returns weights of shape (heads, queries, keys).
        heads: a name for each head; "head 1", "head 2" … by default.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for tokens that are not strings, weights of another shape or outside [0, 1], or a number of names
            that is not the number of heads.

    Source: Vaswani et al. (2017), section 3.2; UCL-20, UCL-21.

    >>> AttentionExplorer(["a", "dog"], lambda tokens, masked: torch.tensor([[[1.0, 0.0], [0.3, 0.7]]]))
    Query 1, a, in head 1 with the mask: weight 1.00 on a, weight 0.00 on dog.
    """

    sentence = (
        "Query {query#}, {query}, in {head} {masked|without|with} the mask: [[weight {weights:.2f} on {tokens}]]."
    )

    def __init__(self, tokens, attend, *, heads=None, caption: str = ""):
        tokens = list_of_strings("tokens", tokens)
        if not callable(attend):
            raise ValueError(f"{attend=}; it must be a function of (tokens, masked)")
        without, masked = (_checked(attend(list(tokens), masked), len(tokens)) for masked in (False, True))
        heads = list_of_strings("heads", heads or [f"head {n + 1}" for n in range(len(masked))])
        if not len(without) == len(masked) == len(heads):
            raise ValueError(f"{heads=}; attend returned weights of {len(masked)} heads")
        self.table = torch.stack([without, masked])
        inner = (masked - without)[0, 1:-1].abs().sum(-1)
        start = 1 + int(inner.argmax()) if len(inner) else 0
        query, mask = Choice(tokens, start, by_index=True, hover=True, spread=True, hue="query"), Tick(True, label=MASK)
        controls = {"query": query} | ({"head": Choice(heads)} if len(heads) > 1 else {}) | {"masked": mask}
        centres = [(i + 0.5) / len(tokens) for i in range(len(tokens))]
        data = {"tokens": tokens, "head": heads[0], "centres": centres}
        super().__init__(caption=caption, data=data, **controls)

    def compute(self, query, masked, head=None):
        whole = self.table[masked.long(), 0 if head is None else head]
        centres, row = torch.tensor(self.data["centres"]), query[None]
        forbidden = masked & (whole == 0) & torch.ones_like(whole, dtype=torch.bool).triu(1)
        shown = {"whole": whole.masked_fill(forbidden, -torch.inf), "weights": whole.index_select(0, row)[0]}
        return shown | {"row": query, "place": centres.index_select(0, row)[0]}

    def marks(self):
        arcs = m.plot(
            m.arcs("place", "centres", "weights", y=0.34),
            m.words("centres", 0.22, "tokens", hue="key"),
            m.words("centres", 0.06, "weights", hue="weights"),
            height=200,
        )
        whole = m.plot(
            m.cells("whole", hue="weights", frame="row"),
            x=m.axis(labels="tokens", hue="key"), y=m.axis(labels="tokens", hue="query"),
            pick={"y": "query"}, hover=True, aspect=1, widest=44 * len(self.data["tokens"]),
            title="All weights", hint="a row for each query, a column for each key",
        )  # fmt: skip
        return [m.row(m.row("query", arcs, shares=[1]), whole, shares=[3, 2])]


def _checked(weights, n: int) -> torch.Tensor:
    """Return weights of shape (heads, n, n), to three digits: the same on every machine."""
    weights = torch.as_tensor(weights).detach().double()
    if weights.ndim != 3 or weights.shape[1:] != (n, n):
        raise ValueError(f"attend returned weights of shape {tuple(weights.shape)}; it must be (heads, {n}, {n})")
    if not ((weights > -1e-6) & (weights < 1 + 1e-6)).all():
        low, high = weights.min().item(), weights.max().item()
        raise ValueError(f"attend returned weights from {low:.4g} to {high:.4g}; they must stay within [0, 1]")
    return weights.round(decimals=3).float()
