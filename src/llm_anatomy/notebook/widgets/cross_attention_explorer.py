"""The cross-attention explorer: which words of the source a decoder reads for each word of its translation."""

from collections.abc import Mapping, Sequence

import torch

from llm_anatomy.notebook.widgets import marks as m
from llm_anatomy.notebook.widgets.arguments import list_of_strings
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.controls import Choice, Slider


class CrossAttentionExplorer(Widget):
    """Show the cross-attention of each head for a chosen word of a translation, beside the known word alignment.

    It opens with the head whose largest weights agree best with the alignment.

    Args:
        sentences: translated sentences. Each is a mapping with ``source`` and ``target``, the words; ``weights``, of
            shape (heads, target words, source words), where row t belongs to the prediction of target word t; and
            ``alignment``, pairs (index in the source, index in the target).
        heads: a name for each head; "head 1", "head 2" … by default.
        caption: one sentence that says what to look for.

    Raises:
        ValueError: for no sentences, words that are not strings, weights of another shape or outside [0, 1], an
            alignment that lies outside a sentence, or a number of names that is not the number of heads.

    Source: Vaswani et al. (2017), section 3.2.3; Bahdanau et al. (2015), figure 3; UCL-31, IITD-45.

    >>> weights = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]])
    >>> dogs = dict(source=["dogs", "see"], target=["kavon", "viden"], weights=weights, alignment=[(0, 0), (1, 1)])
    >>> CrossAttentionExplorer([dogs])  # doctest: +NORMALIZE_WHITESPACE
    "kavon": head 1 gives its largest weight, 0.90, to "dogs", and the known counterpart is "dogs". Its largest weight
    lies on a counterpart for 2 of the 2 words.
    """

    sentence = (
        '"{words[target]}": {head} gives its largest weight, {largest:.2f}, to "{words[read]}", and the known '
        'counterpart is {linked|nothing|"{words[counterpart]}"|"{words[counterpart]}", the last word of {linked}}. '
        "Its largest weight lies on a counterpart for {right} of the {count} words."
    )

    def __init__(self, sentences: Sequence[Mapping], *, heads: Sequence[str] | None = None, caption: str = ""):
        if not isinstance(sentences, list | tuple) or not sentences:
            raise ValueError(f"sentences={sentences!r:.40}; it must be a list of at least one sentence")
        sides = [[list_of_strings(side, sentence[side]) for side in ("source", "target")] for sentence in sentences]
        self.weights = [_weights(s["weights"], *map(len, words)) for s, words in zip(sentences, sides, strict=True)]
        self.links = [_links(s["alignment"], *map(len, words)) for s, words in zip(sentences, sides, strict=True)]
        heads = list_of_strings("heads", heads or [f"head {n + 1}" for n in range(len(self.weights[0]))])
        if {len(weights) for weights in self.weights} != {len(heads)}:
            raise ValueError(f"{heads=}; there are weights of {[len(weights) for weights in self.weights]} heads")
        words, self.starts = [], []  # all words in one list, and where those of each sentence begin
        for source, target in sides:
            self.starts.append((len(words), len(words) + len(source)))
            words += source + target
        best = sum(_right(*both).sum(-1) for both in zip(self.weights, self.links, strict=True)).argmax()
        longest = max(len(source) for source, _ in sides)
        data = {"words": words, "sources": [source for source, _ in sides], "targets": [target for _, target in sides]}
        data |= {"columns": ["known", *heads], "hues": [["position", *["weights"] * len(heads)]] * longest}
        many = {"shown": Choice([str(n + 1) for n in range(len(sides))], fixed=True, label="sentence")}
        word = Slider(0, 0, max(len(target) for _, target in sides) - 1, label="target word", hue="query")
        super().__init__(
            caption=caption,
            data=data,
            **(many if len(sides) > 1 else {}),
            word=word,
            head=Choice(heads, heads[int(best)]),
        )

    def compute(self, word, head, shown="1"):
        weights, links, (source, target) = (given[int(shown) - 1] for given in (self.weights, self.links, self.starts))
        row = word.clamp(max=len(links) - 1)[None]
        of_head, linked = weights.index_select(0, head[None])[0], links.index_select(0, row)[0]
        here, order = of_head.index_select(0, row)[0], torch.arange(1, 1 + len(linked))
        words = {"target": target + row[0], "read": source + here.argmax()}
        words |= {"counterpart": source + (linked * order).argmax(), "linked": linked.sum(), "largest": here.amax()}
        words |= {"right": _right(of_head, links).sum(), "count": torch.tensor(len(links))}
        known = torch.cat((linked[None], weights.index_select(1, row)[:, 0]))  # what is known, and each head
        across, down = torch.arange(links.shape[1]).expand(links.shape), torch.arange(len(links))[:, None]
        circles = {"across": across.flatten(), "down": torch.where(links > 0, down, torch.nan).flatten()}
        return words | circles | {"of_head": of_head, "row": row[0], "of_word": known.T}

    def marks(self):
        which = "shown" if "shown" in self.controls else "0"
        source, target = (m.axis(labels=f"{side}[{which}]", hue=hue) for side, hue in _HUES)
        height = 110 + 26 * max(max(links.shape) for links in self.links)
        whole = m.plot(
            m.cells("of_head", hue="weights", frame="row"),
            m.dots("across", "down", hue="position", hollow=True, size=6),
            x=source, y=target, pick={"y": "word"}, hover=True, height=height,
            title="{head}: a row for each target word", hint="circles: the known alignment",
        )  # fmt: skip
        each = m.plot(
            m.cells("of_word", hue="@hues"),
            x=m.axis(labels="columns"), y=source, height=height,
            title="{words[target]}: all heads", hint="beside the known alignment",
        )  # fmt: skip
        return [*(["shown"] if which == "shown" else []), m.row(whole, each), "word", "head"]


_HUES = (("sources", "key"), ("targets", "query"))


def _right(weights: torch.Tensor, links: torch.Tensor) -> torch.Tensor:
    """Whether the largest weight of each row lies on a link."""
    picked = torch.nn.functional.one_hot(weights.argmax(-1), links.shape[-1])
    return (picked * links).sum(-1)


def _weights(weights, n_source: int, n_target: int) -> torch.Tensor:
    """Return weights of shape (heads, target words, source words), to three digits: the same on every machine."""
    weights = torch.as_tensor(weights).detach().double()
    if weights.ndim != 3 or weights.shape[1:] != (n_target, n_source):
        raise ValueError(f"weights have shape {tuple(weights.shape)}; it must be (heads, {n_target}, {n_source})")
    if not ((weights > -1e-6) & (weights < 1 + 1e-6)).all():
        low, high = weights.min().item(), weights.max().item()
        raise ValueError(f"weights are from {low:.4g} to {high:.4g}; they must stay within [0, 1]")
    return weights.round(decimals=3).float()


def _links(alignment, n_source: int, n_target: int) -> torch.Tensor:
    """Return the alignment as a matrix of ones and zeros, (target words, source words)."""
    links = torch.zeros(n_target, n_source)
    for i, j in alignment:
        if not (0 <= i < n_source and 0 <= j < n_target):
            raise ValueError(f"alignment holds {(i, j)}; indices must be below {n_source} and {n_target}")
        links[j, i] = 1
    return links
