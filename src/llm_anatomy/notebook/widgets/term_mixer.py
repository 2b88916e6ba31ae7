"""The term mixer: the terms of a score, separately and in any combination."""

from collections.abc import Mapping

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import list_of_strings, whole
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Tick

CHOSEN = "{empty||no term}[[{chosen|}{names}|| + ]]"
HOW = "{masked|without|with} the mask, {soft|scores|weights}: "


class TermMixer(Widget):
    r"""Show the sum of the chosen terms of a score, its softmax, and the row of a query.

    .. math:: s_{ij} = \sum_t [t \text{ is chosen}]\; s^{(t)}_{ij}

    Args:
        terms: matrices of scores (queries, keys) by name, as they enter the sum, scale included; 1 to 6, rounded to
            three decimals.
        tokens: the tokens, which are queries and keys, 2 to 16.
        query: the index of the initial query, by default the last.
        causal: whether later keys are initially hidden.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for no terms or tokens or too many, a matrix of another shape or one that is not finite, or a query
            that is no token.

    Source: Dai et al. (2019), section 3.3, and He et al. (2021), section 3.1, whose scores are such sums; IITD-20,
    IITD-23.

    >>> content, position = torch.tensor([[1.0, 0.5], [0.25, 2.0]]), torch.tensor([[0.0, -1.0], [-1.0, 0.0]])
    >>> TermMixer({"content": content, "position": position}, ["a", "dog"])
    content + position, query 2, dog, without the mask, scores: −0.75 on a, 2.00 on dog.
    """

    sentence = f"{CHOSEN}, query {{query#}}, {{query}}, {HOW}[[{{row:.2f}} on {{tokens}}]]."

    def __init__(self, terms, tokens, *, query: int | None = None, causal: bool = False, caption: str = ""):
        n = len(list_of_strings("tokens", tokens))
        if not 2 <= n <= 16:
            raise ValueError(f"{tokens=}; it must be a list of 2 to 16 tokens")
        if not isinstance(terms, Mapping) or not 1 <= len(terms) <= 6:
            raise ValueError(f"{terms=}; it must hold 1 to 6 matrices by name")
        self.terms = torch.stack([_matrix(f"terms[{name!r}]", term, n) for name, term in terms.items()])
        self.ends = self.terms.clamp(max=0).sum(0).min(), self.terms.clamp(min=0).sum(0).max()  # of any sum
        names, start = [str(name) for name in terms], n - 1 if query is None else whole("query", query, 0, n - 1)
        controls: dict = {f"term_{t}": Tick(True, label=name) for t, name in enumerate(names)}
        controls["query"] = Choice(tokens, start, by_index=True, hover=True, hue="query")
        controls["masked"] = Tick(bool(causal), label="causal mask: no looking ahead")
        controls["soft"] = Tick(label="softmax: weights")
        super().__init__(caption=caption, data={"names": names, "tokens": list(tokens)}, **controls)

    def compute(self, query, masked, soft, **ticks):
        on = torch.stack([ticks[f"term_{t}"] for t in range(len(self.terms))])
        terms = self.terms.where(on[:, None, None], torch.nan)  # a term that is not chosen is blank
        sums = {"terms": terms, "chosen": torch.where(on, 1.0, torch.nan), "empty": ~on.any()}
        return sums | matrix(terms.nan_to_num().sum(0), query, masked, soft, *self.ends)

    def marks(self):
        cells = m.cells("terms", reach="reach", frame="at")  # all on the scale of the sum
        terms = m.plot(cells, repeat="names", aspect=1, pick={"y": "query"}, hover=True)
        return [terms, m.row(*(name for name in self.controls if name[:5] == "term_")), matrix_and_row(CHOSEN), "query"]


def matrix(scores, query, masked, soft, low, high) -> dict:
    """Return what :func:`matrix_and_row` shows of scores (queries, keys) between ``low``, at most 0, and ``high``."""
    scores = scores.masked_fill(masked & torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    reach, weights = torch.maximum(-low, high), scores.softmax(-1)
    room = 0.3 * (high - low) + (reach == 0)  # for the numbers at the bars
    shown = {"scores": scores.where(~soft, torch.nan), "weights": weights.where(soft, torch.nan)}
    shown |= {"low": torch.where(soft, 0, low - room * (low < 0)), "high": torch.where(soft, 1.3, high + room)}
    rows = {"score_row": shown["scores"][query], "weight_row": shown["weights"][query]}
    return shown | rows | {"row": torch.where(soft, weights, scores)[query], "at": query + 0, "reach": reach}


def matrix_and_row(title: str) -> dict:
    """Return a map of the scores or weights, in which a row can be picked, beside the bars of this row."""
    keys, queries = m.axis(labels="tokens", hue="key", name="key"), m.axis(labels="tokens", hue="query", name="query")
    layers = [m.cells("scores", reach="reach", frame="at", scale=True)]
    layers += [m.cells("weights", hue="weights", frame="at", scale=True)]
    bars = [
        m.bars("score_row", hue="signed", text="{value:.2f}"),
        m.bars("weight_row", hue="weights", text="{value:.2f}"),
    ]
    whole = m.plot(*layers, x=keys, y=queries, title=title, aspect=1, pick={"y": "query"}, hover=True)
    title = "{soft|Scores|Weights} of the query {query}"
    return m.row(whole, m.plot(*bars, x=keys, y=m.axis("low", "high"), title=title, height=300))


def _matrix(name: str, term, n: int) -> torch.Tensor:
    try:
        term = torch.as_tensor(term).detach().double()
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name}={term!r}; it must be a matrix of numbers") from None
    if term.shape != (n, n):
        raise ValueError(f"{name} has shape {tuple(term.shape)}; for {n} tokens it must be ({n}, {n})")
    if not term.isfinite().all():
        raise ValueError(f"{name} holds {term[~term.isfinite()][0].item()}; its scores must be finite numbers")
    return term.round(decimals=3).float()
