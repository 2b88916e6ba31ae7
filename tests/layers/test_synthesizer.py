"""Synthesizers against loops over heads, queries and keys, and mixtures against attention with a bias."""

import pytest
import torch
from randomness import randn, randomize

from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.masks import BidirectionalMask, CausalMask
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.layers.positions.buckets import Clip
from llm_anatomy.layers.positions.relative import T5Bias
from llm_anatomy.layers.synthesizer import (
    DenseScores,
    FactorizedRandomScores,
    RandomScores,
    Synthesizer,
    SynthesizerPlus,
    SynthesizerPlusAlpha,
    SyntheticScores,
)

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, TOKENS, D_MODEL, HEADS, D_HEAD, MAX_LENGTH, RANK = 2, 7, 10, 3, 4, 11, 2
SCORES = {
    "random": lambda: RandomScores(HEADS, MAX_LENGTH),
    "factorized": lambda: FactorizedRandomScores(HEADS, MAX_LENGTH, RANK),
    "dense": lambda: DenseScores(D_HEAD, MAX_LENGTH),
}
KINDS = [Synthesizer, SynthesizerPlus, SynthesizerPlusAlpha]
scores = pytest.mark.parametrize("scores", SCORES)
kinds = pytest.mark.parametrize("kind", KINDS)
masks = pytest.mark.parametrize("mask", [None, CausalMask(), BidirectionalMask()], ids=["none", "causal", "padding"])


def make(kind, scores, position=True, **options):
    position = T5Bias(HEADS, Clip(-3, 3)) if position else None
    layer = kind(D_MODEL, HEADS, SCORES[scores](), d_head=D_HEAD, position=position, **options)
    return randomize(layer, scale=0.5).double()


def x_and_positions():
    """The second text has padding on its left, the first has none."""
    return randn(BATCH, TOKENS, D_MODEL, dtype=torch.float64), torch.tensor([[*range(7)], [-1, -1, -1, 0, 1, 2, 3]])


def synthetic_by_formula(scores, h, i, j, query):
    """One score, between the positions i and j."""
    match scores:
        case RandomScores():
            return scores.table[i, j, h]
        case FactorizedRandomScores():
            return sum(scores.rows[i, h, k] * scores.columns[j, h, k] for k in range(RANK))
        case DenseScores():
            return sum(max(query[d], 0) * scores.table[j, d] for d in range(D_HEAD))


def by_loops(layer, x, positions, mask):
    heads = torch.zeros(*x.shape[:2], HEADS, D_HEAD, dtype=x.dtype)

    def project(linear, b, t, h):
        return linear.weight[h * D_HEAD : (h + 1) * D_HEAD] @ x[b, t]

    for b in range(BATCH):
        for h in range(HEADS):
            for q in range(TOKENS):
                i = positions[b, q].item()
                query = project(layer.w_query, b, q, h) if hasattr(layer, "w_query") else None
                exps = torch.zeros(TOKENS, dtype=x.dtype)
                for k in range(TOKENS):
                    j = positions[b, k].item()
                    if mask is not None and (j < 0 or isinstance(mask, CausalMask) and j > i):
                        continue
                    score = synthetic_by_formula(layer.synthetic, h, max(i, 0), max(j, 0), query)
                    if isinstance(layer, SynthesizerPlus):
                        product = layer.scale * query @ project(layer.w_key, b, k, h)
                        a = 1 / (1 + torch.exp(-layer.alpha)) if isinstance(layer, SynthesizerPlusAlpha) else None
                        score = product + score if a is None else (1 - a) * product + a * score
                    exps[k] = (score + layer.position.table[min(max(j - i, -3), 3) + 3, h]).exp()
                weights = exps / exps.sum() if exps.sum() > 0 else exps
                heads[b, q, h] = sum(weights[k] * project(layer.w_value, b, k, h) for k in range(TOKENS))
    return heads.flatten(2) @ layer.w_output.weight.T


@kinds
@scores
@masks
@torch.no_grad()
def test_equals_loops_over_heads_queries_and_keys(kind, scores, mask):
    layer, (x, positions) = make(kind, scores), x_and_positions()
    positions = positions[:1].expand(BATCH, -1) if mask is None else positions  # only a mask hides padding
    expected = by_loops(layer, x, positions, mask)
    found, weights = layer(x, mask, positions=positions, return_weights=True)
    seen = positions >= 0  # what padding itself reads is of no account
    torch.testing.assert_close(found[seen], expected[seen])
    torch.testing.assert_close(weights.sum(-1)[:, :, -1], torch.ones(BATCH, HEADS, dtype=torch.float64))
    torch.testing.assert_close(layer(x, mask, positions=positions)[seen], expected[seen])  # fused, where there is a way


@scores
@torch.no_grad()
def test_plus_without_synthetic_scores_is_self_attention(scores):
    layer, (x, _) = make(SynthesizerPlus, scores), x_and_positions()
    plain = SelfAttention(D_MODEL, HEADS, d_head=D_HEAD, position=layer.position).double()
    plain.load_state_dict({name: tensor for name, tensor in layer.state_dict().items() if "synthetic" not in name})
    assert not torch.allclose(layer(x, CausalMask()), plain(x, CausalMask()))
    for parameter in layer.synthetic.parameters():
        parameter.zero_()
    torch.testing.assert_close(layer(x, CausalMask()), plain(x, CausalMask()))


@scores
@torch.no_grad()
def test_alpha_leads_from_attention_to_the_synthesizer_alone(scores):
    layer, (x, _) = make(SynthesizerPlusAlpha, scores), x_and_positions()
    alone, plus = make(Synthesizer, scores), make(SynthesizerPlus, scores)
    for other in (alone, plus):
        other.load_state_dict(layer.state_dict(), strict=False)
    layer.alpha.fill_(40.0)
    torch.testing.assert_close(layer(x, CausalMask()), alone(x, CausalMask()))
    for parameter in plus.synthetic.parameters():
        parameter.zero_()
    layer.alpha.fill_(-40.0)
    torch.testing.assert_close(layer(x, CausalMask()), plus(x, CausalMask()))


@torch.no_grad()
def test_random_weights_are_the_same_for_all_texts_and_dense_ones_are_not():
    x = randn(BATCH, TOKENS, D_MODEL, dtype=torch.float64)
    for scores, same in {"random": True, "factorized": True, "dense": False}.items():
        _, weights = make(Synthesizer, scores)(x, CausalMask(), return_weights=True)
        assert torch.equal(weights[0], weights[1]) == same


@kinds
@scores
@torch.no_grad()
def test_a_cache_gives_the_same_output(kind, scores):
    layer, (x, positions) = make(kind, scores), x_and_positions()
    cache = layer.new_cache(BATCH, TOKENS)
    cut = [4, 1, 2]
    pieces = [
        layer(x_piece, CausalMask(), positions=positions_piece, cache=cache)
        for x_piece, positions_piece in zip(x.split(cut, 1), positions.split(cut, 1), strict=True)
    ]
    seen = positions >= 0
    torch.testing.assert_close(torch.cat(pieces, 1)[seen], layer(x, CausalMask(), positions=positions)[seen])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@kinds
@scores
def test_dtypes_devices_and_gradients(kind, scores, dtype, device):
    layer, (x, _) = make(kind, scores), x_and_positions()
    exact = layer(x, CausalMask()).detach()
    layer = layer.to(device, dtype)
    output = layer(x.to(device, dtype), CausalMask())
    assert output.dtype == dtype
    tolerance = 1e-4 if dtype == torch.float32 else 8e-2
    torch.testing.assert_close(output.cpu().double(), exact, rtol=tolerance, atol=tolerance)
    output.float().square().sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in layer.parameters())


@scores
def test_refuses_positions_beyond_the_longest_text(scores):
    layer = make(Synthesizer, scores)
    x = randn(1, MAX_LENGTH + 1, D_MODEL, dtype=torch.float64)
    layer(x[:, 1:], CausalMask())
    with pytest.raises(ValueError, match="positions hold 11; they must be below max_length=11"):
        layer(x, CausalMask())


def test_refuses_wrong_sizes():
    with pytest.raises(ValueError, match="n_heads=3 must divide d_model=10 unless d_head is given"):
        Synthesizer(D_MODEL, HEADS, SCORES["random"]())
    for wrong in (lambda: RandomScores(0, 2), lambda: DenseScores(2, 0), lambda: FactorizedRandomScores(2, 2, 0)):
        with pytest.raises(ValueError, match="must be at least 1"):
            wrong()
    with pytest.raises(ValueError, match="query must be given"):
        SCORES["dense"]()(PositionContext(torch.tensor([[0]])))
    with pytest.raises(NotImplementedError, match="SyntheticScores must implement forward"):
        SyntheticScores(3)(PositionContext(torch.tensor([[0]])))
