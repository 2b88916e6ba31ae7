"""The blocks of the Evolved Transformer against the figure of the paper, written out with PyTorch's functions.

What the whole row must do is tested with the other rows in ``test_attention``.
"""

import pytest
import torch
import torch.nn.functional as F
from randomness import randn, randomize

from llm_anatomy.layers.kv_cache import KVCache
from llm_anatomy.layers.masks import BidirectionalMask, CausalMask
from llm_anatomy.layers.positions.base import PositionContext
from llm_anatomy.models import parts
from llm_anatomy.models.block import EncoderOutput
from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.modifications.base import baseline
from llm_anatomy.models.modifications.evolved import EvolvedDecoderBlock, EvolvedEncoderBlock

BATCH, TOKENS, SOURCE, D_MODEL, HEADS, D_HEAD, D_FF = 2, 14, 5, 12, 3, 4, 20
CONFIG = baseline(31, d_model=D_MODEL, n_layers=2, n_heads=HEADS, d_ff=D_FF)


def norm(x, layer):
    return F.layer_norm(x, x.shape[-1:], layer.weight, layer.bias)


def convolve(x, layer, before, after, groups=1):
    return F.conv1d(F.pad(x.mT, (before, after)), layer.weight, groups=groups).mT


def separable(x, layer, before, after):
    mixed = convolve(x, layer.depthwise, before, after, groups=x.shape[-1])
    return mixed @ layer.pointwise.weight.T + layer.pointwise.bias


def attend(x, context, attention, n_heads, bias=0.0, causal=False):
    """T5's attention: no factor of the scores."""
    query, key, value = (
        (t @ w.weight.T).unflatten(-1, (n_heads, D_HEAD)).transpose(1, 2)
        for t, w in ((x, attention.w_query), (context, attention.w_key), (context, attention.w_value))
    )
    scores = query @ key.mT + bias
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2) @ attention.w_output.weight.T


def bias(attention, causal):
    scheme = attention.position
    offsets = torch.arange(TOKENS) - torch.arange(TOKENS)[:, None]
    return scheme.table[scheme.buckets(offsets)].permute(2, 0, 1)


def append_zeros(x, width):
    return torch.cat((x, x.new_zeros(*x.shape[:2], width - x.shape[-1])), -1)


@torch.no_grad()
def test_the_encoder_block_is_that_of_the_figure():
    (position, *_), x = parts.attention_positions(CONFIG, 1, False), randn(BATCH, TOKENS, D_MODEL, dtype=torch.float64)
    block = randomize(EvolvedEncoderBlock(CONFIG, position)).double()
    found, record = block(x, mask=BidirectionalMask(), return_weights=True)
    normed = norm(x, block.gate_residual.norm)
    value, gate = (normed @ block.gate[0].weight.T).chunk(2, -1)
    x = x + value * gate.sigmoid()
    normed, branches = norm(x, block.branches_residual.norm), block.branches
    left, right = (normed @ branches.left.weight.T).relu(), convolve(normed, branches.right, 1, 1).relu()
    assert left.shape[-1] == 4 * D_MODEL and right.shape[-1] == D_MODEL // 2
    hidden = norm(left + append_zeros(right, 4 * D_MODEL), branches.norm)
    x = x + append_zeros(separable(hidden, branches.output, 4, 4), D_MODEL)
    normed = norm(x, block.attention_residual.norm)
    x = x + attend(normed, normed, block.attention, HEADS, bias(block.attention, causal=False))
    normed = norm(x, block.feedforward_residual.norm)
    x = x + (normed @ block.feedforward.w_up.weight.T).relu() @ block.feedforward.w_down.weight.T
    torch.testing.assert_close(found, x)
    assert record.attention_weights.shape == (BATCH, HEADS, TOKENS, TOKENS)


@torch.no_grad()
def test_the_decoder_block_is_that_of_the_figure():
    x, source = randn(BATCH, TOKENS, D_MODEL, dtype=torch.float64), randn(BATCH, SOURCE, D_MODEL, dtype=torch.float64)
    (position, *_), config = parts.attention_positions(CONFIG, 1, True), dict(n_heads=2 * HEADS)
    (first, *_) = parts.attention_positions(baseline(31, d_model=D_MODEL, **config, d_ff=D_FF), 1, True)
    block = randomize(EvolvedDecoderBlock(CONFIG, first, position)).double()
    found, record = block(
        x,
        mask=CausalMask(),
        encoder_output=EncoderOutput(source),
        cross_position_context=PositionContext(torch.arange(TOKENS)[None], torch.arange(SOURCE)[None]),
        return_weights=True,
    )
    normed, wide = norm(x, block.first_residual.norm), bias(block.first_attention, causal=True)
    x = (
        x
        + attend(normed, normed, block.first_attention, 2 * HEADS, wide, causal=True)
        + attend(normed, source, block.first_cross_attention, HEADS)
    )
    normed, branches = norm(x, block.branches_residual.norm), block.branches
    left, right = separable(normed, branches.left, 10, 0).relu(), separable(normed, branches.right, 6, 0)
    assert left.shape[-1] == 2 * D_MODEL and right.shape[-1] == D_MODEL // 2
    hidden = norm(left + append_zeros(right, 2 * D_MODEL), branches.norm)
    x = x + separable(hidden, branches.output, 6, 0)
    normed = norm(x, block.attention_residual.norm)
    x = x + attend(normed, normed, block.attention, HEADS, bias(block.attention, causal=True), causal=True)
    x = x + attend(norm(x, block.cross_attention_residual.norm), source, block.cross_attention, HEADS)
    normed = norm(x, block.feedforward_residual.norm)
    x = x + F.silu(normed @ block.feedforward.w_up.weight.T) @ block.feedforward.w_down.weight.T
    torch.testing.assert_close(found, x)
    assert record.attention_weights.shape == (BATCH, HEADS, TOKENS, TOKENS)
    assert record.cross_attention_weights.shape == (BATCH, HEADS, TOKENS, SOURCE)


def test_one_block_replaces_two_and_layers_share_their_positions():
    model = MODIFICATIONS["evolved_transformer"].build(baseline(31, d_model=24, n_layers=6, n_heads=3, d_ff=36))
    assert len(model.encoder.blocks) == len(model.stack.blocks) == model.config.n_layers == 3
    first, second = model.stack.blocks[:2]
    assert first.attention.position is second.attention.position
    assert first.first_attention.position is second.first_attention.position
    tables = [name for name in model.state_dict() if name.endswith("position.table")]
    assert len(tables) == 3  # of the encoder, and of the two kinds of self-attention in the decoder


def test_a_cache_is_refused():
    (position, *_) = parts.attention_positions(CONFIG, 1, False)
    block, x = EvolvedEncoderBlock(CONFIG, position), torch.zeros(1, 2, D_MODEL)
    with pytest.raises(ValueError, match="cache must be None: a block with convolutions has none"):
        block(x, mask=BidirectionalMask(), cache=KVCache(1, 2, [(1, 1)]))
