"""One example of each widget, as a chapter uses it; the browser test drives all of them."""

import torch

from llm_anatomy.models.stored import stored
from llm_anatomy.notebook import widgets
from llm_anatomy.tokenizers.bpe import BPE, CharacterBPE
from llm_anatomy.tokenizers.simple import ByteTokenizer, CharacterTokenizer, WordTokenizer
from llm_anatomy.tokenizers.unigram import Unigram

TOKENS = ["the", "teacher", "praised", "the", "pupil"]


def _attend(tokens, masked):
    scores = torch.randn(2, len(tokens), len(tokens), generator=torch.Generator().manual_seed(0))
    if masked:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1)


def _flow(ids):
    x = torch.tensor([[1.0, -2.0], [0.0, 2.0], [3.0, 0.5], [-1.0, 1.5]])[ids]
    weights = (x @ x.mT).masked_fill(torch.ones(3, 3, dtype=torch.bool).triu(1), -torch.inf).softmax(-1)
    return {"embedding": x, "scores": torch.stack([x @ x.mT, 2 * x @ x.mT]), "weights": weights, "mixed": weights @ x}


def _terms():
    drawn = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(1))
    return dict(zip(["content", "position", "both"], drawn, strict=True))


def _tokenizers():
    texts = ["The teacher praised the pupil, and the pupil thanked the teacher for the praise. 2 + 2 is 4."]
    return {
        "letters": CharacterTokenizer.train(texts),
        "words": WordTokenizer.train(texts, 20),
        "bytes": ByteTokenizer(),
        "BPE": BPE.train(texts, 280),
        "character BPE": CharacterBPE.train(texts, 300),
        "Unigram": Unigram.train(texts, 300),
    }


def _translated():
    drawn = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(2)).mul(2).softmax(-1)
    dogs = {"source": ["two", "dogs", "will", "see", "him", "tomorrow"], "target": ["mon", "kavon", "duon", "vidun"]}
    tree = {"source": ["the", "big", "tree"], "target": ["wodo", "grano", "lo"]}
    links = [(0, 2), (1, 1), (2, 3), (3, 3), (5, 0)], [(0, 2), (1, 1), (2, 0)]
    weights = drawn, drawn[:, :3, :3] / drawn[:, :3, :3].sum(-1, keepdim=True)
    both = zip((dogs, tree), weights, links, strict=True)
    return [words | {"weights": w, "alignment": alignment} for words, w, alignment in both]


def _models():
    gpt2 = dict(d_model=768, n_layers=12, n_heads=12, n_kv_heads=12, d_ff=3072, gated=False, n_vocab=50257, tied=True)
    llama = dict(d_model=4096, n_layers=32, n_heads=32, n_kv_heads=8, d_ff=14336, gated=True, n_vocab=128256)
    return {"GPT-2": gpt2 | dict(n_ctx=1024), "Llama 3 8B": llama | dict(tied=False, n_ctx=8192)}


def _stories():
    (learned, metadata), (rope, _) = stored("story_learned"), stored("story_rope")
    words = "Once there was a girl called Mia. Mia had a red kite. One day Mia"
    models = {"learned": learned, "RoPE": rope}
    return widgets.TransformerExplorer(models, metadata["tokenizer"], words, caption="Look at the next token.")


def _gradients():
    noise = 0.2 * torch.randn(2, 3, 3, 12, generator=torch.Generator().manual_seed(3))
    layers, depths = torch.arange(1.0, 13), torch.tensor([3.0, 6, 12])
    means = torch.stack([1.9 + 0 * layers + 0 * depths[:, None], 6 / (layers + depths[:, None])])[:, :, None]
    known = (means * noise.exp()).masked_fill(layers > depths[:, None, None], torch.nan)
    return widgets.GradientByLayer(["post", "pre"], [3, 6, 12], known, caption="Look at the last layer.")


def _stability():
    generator, rates, depths = torch.Generator().manual_seed(4), [0.0005, 0.001, 0.004, 0.016, 0.064], [2, 4, 6, 12]
    hard = (
        torch.tensor(rates)[:, None]
        * torch.tensor(depths)[:, None, None]
        * torch.tensor([40.0, 10, 2, 2]).view(2, 2, 1, 1, 1)
    )
    losses = 2.4 + 0.7 * (hard + 0.1 * torch.randn(2, 2, 4, 5, 3, generator=generator)).clamp(0, 1)
    losses[0, 0, 3, 4, 1], losses[1, :, 3, 0] = torch.inf, torch.nan
    return widgets.StabilityMap(["post", "pre"], rates, depths, losses, 3.03, caption="Look at the edge.")


def _load():
    """Shares of 5 experts: all tokens end up with one of them, or the shares stay even."""
    drawn = torch.randn(2, 3, 1, 5, generator=torch.Generator().manual_seed(3))
    return (drawn * torch.tensor([[0.5, 2.0, 8.0, 16.0], [0.5, 0.3, 0.2, 0.1]])[:, None, :, None]).softmax(-1)


EXAMPLES = {
    "ActivationExplorer": lambda: widgets.ActivationExplorer(caption="Look at the filled area."),
    "AttentionExplorer": lambda: widgets.AttentionExplorer(TOKENS, _attend, caption="Look at the arcs."),
    "BucketExplorer": lambda: widgets.BucketExplorer(caption="Look at the steps."),
    "CacheCalculator": lambda: widgets.CacheCalculator(caption="Look at the crossing."),
    "CostCalculator": lambda: widgets.CostCalculator(_models(), caption="Look at the crossover."),
    "CounterAndSinusoids": lambda: widgets.CounterAndSinusoids(caption="Look at the hands."),
    "CrossAttentionExplorer": lambda: widgets.CrossAttentionExplorer(_translated(), caption="Look at the circles."),
    "DecayExplorer": lambda: widgets.DecayExplorer(caption="Look at the product."),
    "DecodingTimeline": lambda: widgets.DecodingTimeline(caption="Look at the grey."),
    "EmbeddingPlane": lambda: widgets.EmbeddingPlane(caption="Look at the neighbours."),
    "EncodingExplorer": lambda: widgets.EncodingExplorer(caption="Look at the curve."),
    "ExpertLoad": lambda: widgets.ExpertLoad(
        _load(), [0, 50, 200, 400], ["without balance loss", "with balance loss"], caption="Look at the bars."
    ),
    "GateSurface": lambda: widgets.GateSurface(caption="Look at the stripes."),
    "GradientByLayer": _gradients,
    "GradientThroughTime": lambda: widgets.GradientThroughTime(caption="Look at the slopes."),
    "FlowExplorer": lambda: widgets.FlowExplorer(
        _flow,
        TOKENS[:3] + TOKENS[4:],
        TOKENS[:3],
        dict(embedding="residual", scores="weights", weights="weights", mixed="value"),
        caption="Look at the frames.",
    ),
    "HeadSharing": lambda: widgets.HeadSharing(caption="Look at the lines."),
    "HeadsExplorer": lambda: widgets.HeadsExplorer(caption="Look at the rows."),
    "MergeStepper": lambda: widgets.MergeStepper("aaabdaaabac", 6, caption="Look at the length."),
    "LSTMGates": lambda: widgets.LSTMGates(caption="Look at the cell."),
    "NormalizedAxes": lambda: widgets.NormalizedAxes(caption="Look at the colons."),
    "NormalizedVector": lambda: widgets.NormalizedVector(caption="Look at the circle."),
    "Roofline": lambda: widgets.Roofline(caption="Look at the ridge."),
    "RotorExplorer": lambda: widgets.RotorExplorer(caption="Look at the sum."),
    "ScalingExplorer": lambda: widgets.ScalingExplorer(
        {d: d**0.5 * torch.randn(6, 8, generator=torch.Generator().manual_seed(d)) for d in (4, 8, 16, 32)},
        caption="Look at the gradient.",
    ),
    "SchemeExplorer": lambda: widgets.SchemeExplorer(caption="Look at the diagonals."),
    "ShrinkingBatch": lambda: widgets.ShrinkingBatch(caption="Look at the scatter."),
    "SlopesExplorer": lambda: widgets.SlopesExplorer(caption="Look at the first head."),
    "SoftDictionary": lambda: widgets.SoftDictionary(
        [[1, 0], [0, 1]], [[1, 1], [-1, 1]], caption="Look at the output."
    ),
    "StabilityMap": _stability,
    "TermMixer": lambda: widgets.TermMixer(_terms(), TOKENS, caption="Look at the sum."),
    "TokenizerComparison": lambda: widgets.TokenizerComparison(
        _tokenizers(), "The pupil's naïve teacher 🙂", caption="Look at the numbers of tokens."
    ),
    "VocabularyTradeOff": lambda: widgets.VocabularyTradeOff(
        {256: 1.0, 512: 2.3, 1024: 3.4, 1792: 4.2}, caption="Look at the ring."
    ),
    "TransformerExplorer": _stories,
}
