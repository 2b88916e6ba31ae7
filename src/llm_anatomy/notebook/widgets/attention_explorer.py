"""The attention explorer: where each word of a sentence looks, head by head, with and without the mask."""

import torch

from llm_anatomy.notebook.figures import attention_map, colours, figure
from llm_anatomy.notebook.widgets.base import PageWidget, fixed, list_of_words


class AttentionExplorer(PageWidget):
    """Go through the words of a sentence and see where each looks.

    The page carries the weights of this sentence; with a kernel, the reader types another one of the same length.

    Args:
        tokens: the words.
        attend: called as ``attend(tokens, masked)``; returns weights of shape (heads, queries, keys).
        vocabulary: the words that another sentence may be made of; without it there is no other sentence.
        heads: a name for each head; "head 1", "head 2" … by default.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for tokens that are no words or not in the vocabulary, weights of another shape or outside [0, 1],
            or names that differ in number from the heads.

    Source: Vaswani et al. (2017), section 3.2; UCL-20, UCL-21.

    >>> AttentionExplorer(["a", "dog"], lambda tokens, masked: torch.tensor([[[1.0, 0.0], [0.3, 0.7]]]))
    Query 2, dog, in head 1 with the mask: weight 0.30 on a, weight 0.70 on dog.
    """

    tools = ("choice",)

    def __init__(
        self,
        tokens,
        attend,
        *,
        vocabulary=None,
        heads=None,
        caption: str = "",
    ):
        super().__init__(caption)
        if not callable(attend):
            raise ValueError(f"{attend=}; it must be a function of (tokens, masked)")
        self.attend = attend
        self.vocabulary = None if vocabulary is None else list_of_words("vocabulary", vocabulary)
        self.tokens = self._known(list_of_words("tokens", tokens))
        self.weights = [self.look(self.tokens, masked) for masked in (False, True)]
        names = [f"head {n + 1}" for n in range(len(self.weights[0]))] if heads is None else heads
        self.heads = list_of_words("heads", names)
        for weights in self.weights:
            if len(weights) != len(self.heads):
                raise ValueError(f"heads={self.heads}; attend returned weights of {len(weights)} heads")

    def look(self, tokens: list[str], masked: bool) -> list[list[list[float]]]:
        """Weights (heads, queries, keys) of a sentence, to four digits."""
        weights, n = torch.as_tensor(self.attend(list(tokens), masked)).double(), len(tokens)
        if weights.ndim != 3 or weights.shape[1:] != (n, n):
            raise ValueError(f"attend returned weights of shape {tuple(weights.shape)}; it must be (heads, {n}, {n})")
        if not ((weights > -1e-6) & (weights < 1 + 1e-6)).all():
            low, high = weights.min().item(), weights.max().item()
            raise ValueError(f"attend returned weights from {low:.4g} to {high:.4g}; they must stay within [0, 1]")
        return [[[round(weight, 3) for weight in row] for row in head] for head in weights.tolist()]

    def data(self) -> dict:
        return {"tokens": self.tokens, "heads": self.heads, "weights": self.weights}

    def text(self) -> str:
        return self._sentence(self.tokens, self.weights[True], len(self.tokens) - 1, 0, True)

    def live(self):
        import ipywidgets as w

        n = len(self.tokens)
        controls = {
            "query": w.IntSlider(n, min=1, max=n, description="query"),
            "head": w.ToggleButtons(options=[(name, i) for i, name in enumerate(self.heads)], description="head"),
            "masked": w.Checkbox(True, description="mask: no looking ahead"),
        }
        if self.vocabulary:
            sentence = w.Text(" ".join(self.tokens), description="sentence", continuous_update=False)
            controls = {"sentence": sentence} | controls
        return self.panel(controls, self._picture)

    def _picture(self, show, query, head, masked, sentence=None):
        tokens = self.tokens if sentence is None else self._known(sentence.split())
        if len(tokens) != len(self.tokens):
            raise ValueError(f"sentence={sentence!r} has {len(tokens)} words; it must have {len(self.tokens)}")
        weights = self.look(tokens, masked)
        row = weights[head][query - 1]
        with figure(
            f"Where does the word {query}, {tokens[query - 1]}, look?",
            alt=self._sentence(tokens, weights, query - 1, head, masked),
            width=7.5,
            height=1.5 + 0.4 * len(tokens),
            ncols=2,
            show=show,
        ) as (bars, whole):
            bars.barh(range(len(tokens)), row, color=colours["weights"])
            for position, weight in enumerate(row):
                bars.text(weight + 0.02, position, fixed(weight, 2), va="center")
            bars.set_yticks(range(len(tokens)), tokens, color=colours["key"])
            bars.set(xlim=(0, 1.2), xticks=[0, 0.5, 1], xlabel="weight", ylabel="key")
            bars.invert_yaxis()
            attention_map(whole, weights[head], tokens, tokens)
            whole.axhspan(query - 1.47, query - 0.53, facecolor="none", edgecolor=colours["query"], linewidth=2.5)

    def _known(self, tokens: list[str]) -> list[str]:
        for token in tokens if self.vocabulary else []:
            if token not in self.vocabulary:
                raise ValueError(f"{token!r} is not in the vocabulary; its words are {', '.join(self.vocabulary)}")
        return tokens

    def _sentence(self, tokens, weights, query, head, masked) -> str:
        each = ", ".join(
            f"weight {fixed(weight, 2)} on {token}" for token, weight in zip(tokens, weights[head][query], strict=True)
        )
        mask = "with" if masked else "without"
        return f"Query {query + 1}, {tokens[query]}, in {self.heads[head]} {mask} the mask: {each}."
