"""One example of each widget, as a chapter uses it; the browser test drives all of them."""

import torch

from llm_anatomy.notebook import widgets

TOKENS = ["the", "teacher", "praised", "the", "pupil"]


def _attend(tokens, masked):
    scores = torch.randn(2, len(tokens), len(tokens), generator=torch.Generator().manual_seed(0))
    if masked:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1)


def _terms():
    drawn = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(1))
    return dict(zip(["content", "position", "both"], drawn, strict=True))


EXAMPLES = {
    "AttentionExplorer": lambda: widgets.AttentionExplorer(TOKENS, _attend, caption="Look at the arcs."),
    "BucketExplorer": lambda: widgets.BucketExplorer(caption="Look at the steps."),
    "CounterAndSinusoids": lambda: widgets.CounterAndSinusoids(caption="Look at the hands."),
    "DecayExplorer": lambda: widgets.DecayExplorer(caption="Look at the product."),
    "EncodingExplorer": lambda: widgets.EncodingExplorer(caption="Look at the curve."),
    "HeadsExplorer": lambda: widgets.HeadsExplorer(caption="Look at the rows."),
    "RotorExplorer": lambda: widgets.RotorExplorer(caption="Look at the sum."),
    "ScalingExplorer": lambda: widgets.ScalingExplorer(
        {d: d**0.5 * torch.randn(6, 8, generator=torch.Generator().manual_seed(d)) for d in (4, 8, 16, 32)},
        caption="Look at the gradient.",
    ),
    "SchemeExplorer": lambda: widgets.SchemeExplorer(caption="Look at the diagonals."),
    "SlopesExplorer": lambda: widgets.SlopesExplorer(caption="Look at the first head."),
    "SoftDictionary": lambda: widgets.SoftDictionary(
        [[1, 0], [0, 1]], [[1, 1], [-1, 1]], caption="Look at the output."
    ),
    "TermMixer": lambda: widgets.TermMixer(_terms(), TOKENS, caption="Look at the sum."),
}
