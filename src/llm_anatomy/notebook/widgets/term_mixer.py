"""The term mixer: a score that is a sum, its terms apart and in any combination."""

from collections.abc import Mapping

import torch

from llm_anatomy.notebook.figures import figure
from llm_anatomy.notebook.widgets.base import PageWidget, list_of_words
from llm_anatomy.notebook.widgets.score_map import bars_of_row, hide_future, map_of_scores, written

MOST_WORDS, MOST_TERMS = 16, 6


class TermMixer(PageWidget):
    r"""Tick the terms of a score, and see their sum, its softmax, and the row of a query.

    .. math:: s_{ij} = \sum_t [t \text{ is ticked}]\; s^{(t)}_{ij}

    Args:
        terms: by name, a matrix of scores (queries, keys) as it enters the sum, scale included; 1 to 6, rounded to
            three decimals.
        words: one for each token, which asks and is asked, 2 to 16.
        causal: whether later keys are hidden at first.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for terms or words that are none or too many, a matrix of another shape, or one that is not finite.

    Source: Dai et al. (2019), section 3.3, and He et al. (2021), section 3.1, whose scores are such sums; IITD-20,
    IITD-23.

    >>> content, position = torch.tensor([[1.0, 0.5], [0.25, 2.0]]), torch.tensor([[0.0, -1.0], [-1.0, 0.0]])
    >>> TermMixer({"content": content, "position": position}, ["a", "dog"])
    content + position, query 2, dog, without the mask, scores: −0.75 on a, 2.00 on dog.
    """

    tools = ("choice", "matrix")

    def __init__(self, terms, words, *, causal: bool = False, caption: str = ""):
        super().__init__(caption)
        self.words = list_of_words("words", words)
        if not 2 <= len(self.words) <= MOST_WORDS:
            raise ValueError(f"{words=}; it must be a list of 2 to {MOST_WORDS} words")
        if not isinstance(terms, Mapping) or not 1 <= len(terms) <= MOST_TERMS:
            raise ValueError(f"{terms=}; it must hold 1 to {MOST_TERMS} matrices by name")
        self.terms = {str(name): _matrix(f"terms[{name!r}]", term, len(self.words)) for name, term in terms.items()}
        self.causal = bool(causal)

    def mix(self, chosen) -> list[list[float]]:
        """The sum of the chosen terms (queries, keys); zeros if there are none."""
        n = len(self.words)
        total = torch.zeros(n, n, dtype=torch.float64)
        for name in chosen:
            total = total + torch.tensor(self.terms[name], dtype=torch.float64)
        return total.tolist()

    def data(self) -> dict:
        terms = list(self.terms.values())
        return {"words": self.words, "names": list(self.terms), "terms": terms, "causal": self.causal}

    def text(self) -> str:
        return self._sentence(list(self.terms), len(self.words) - 1, self.causal, False)

    def live(self):
        import ipywidgets as w

        style = {"description_width": "initial"}
        controls = {f"term {t}": w.Checkbox(True, description=name, style=style) for t, name in enumerate(self.terms)}
        n = len(self.words)
        controls |= {
            "query": w.IntSlider(n, min=1, max=n, description="query"),
            "masked": w.Checkbox(self.causal, description="causal mask"),
            "soft": w.Checkbox(False, description="softmax"),
        }
        return self.panel(controls, self._picture)

    def _picture(self, show, query, masked, soft, **ticked):
        chosen = [name for t, name in enumerate(self.terms) if ticked[f"term {t}"]]
        rows, ends = hide_future(self.mix(chosen), masked, soft), self._ends()
        with figure(
            f"What do the terms make of the query {self.words[query - 1]}?",
            alt=self._sentence(chosen, query - 1, masked, soft),
            width=7.5,
            height=4.4,
            ncols=2,
            show=show,
        ) as (whole, bars):
            map_of_scores(whole, rows, self.words, query - 1, max(-ends[0], ends[1]), soft)
            bars_of_row(bars, rows[query - 1], self.words, ends, soft)

    def _ends(self) -> tuple[float, float]:
        """How far below and above zero a sum of terms can be."""
        terms = torch.tensor(list(self.terms.values()), dtype=torch.float64)
        return terms.clamp(max=0).sum(0).min().item(), terms.clamp(min=0).sum(0).max().item()

    def _sentence(self, chosen, query, masked, soft) -> str:
        row = hide_future(self.mix(chosen), masked, soft)[query]
        each = ", ".join(f"{written(score)} on {word}" for score, word in zip(row, self.words, strict=True))
        how = f"{'with' if masked else 'without'} the mask, {'weights' if soft else 'scores'}"
        return f"{' + '.join(chosen) or 'no term'}, query {query + 1}, {self.words[query]}, {how}: {each}."


def _matrix(name: str, term, n: int) -> list[list[float]]:
    try:
        term = torch.as_tensor(term).detach().double()
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name}={term!r}; it must be a matrix of numbers") from None
    if term.shape != (n, n):
        raise ValueError(f"{name} has shape {tuple(term.shape)}; for {n} words it must be ({n}, {n})")
    if not term.isfinite().all():
        raise ValueError(f"{name} holds {term[~term.isfinite()][0].item()}; its scores must be finite numbers")
    return [[round(score, 3) for score in row] for row in term.tolist()]
