"""Convolutions along the tokens against loops over tokens, channels and windows, and against PyTorch's."""

import pytest
import torch
import torch.nn.functional as F
from randomness import randn, randomize
from torch import nn

from llm_anatomy.layers.convolution import (
    DynamicConvolution,
    LightweightConvolution,
    SeparableConvolution,
    TokenConvolution,
)
from llm_anatomy.layers.kv_cache import KVCache, context_of_new_tokens
from llm_anatomy.layers.masks import BidirectionalMask, CausalMask, DocumentMask

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, TOKENS, D_MODEL, HEADS = 2, 9, 12, 3
KINDS = [LightweightConvolution, DynamicConvolution]
kinds = pytest.mark.parametrize("kind", KINDS)
causality = pytest.mark.parametrize("causal", [True, False], ids=["causal", "centred"])
widths = pytest.mark.parametrize("width", [1, 4, 5, 20])


def x_and_positions(padding=0, side="right", dtype=torch.float64):
    x = randn(BATCH, TOKENS + padding, D_MODEL, dtype=dtype)
    attention_mask = torch.ones(BATCH, TOKENS + padding, dtype=torch.bool)
    if padding:
        attention_mask[1, slice(-padding, None) if side == "right" else slice(0, padding)] = False
    return x, (attention_mask.cumsum(1) - 1).masked_fill(~attention_mask, -1)


def first_neighbour(width, causal):
    return 1 - width if causal else -(width // 2)


def by_loops(layer, x, positions):
    """Lightweight and dynamic convolution, token by token, as in the paper's equations (4) and (5)."""
    value, gate = layer.w_input(x).chunk(2, -1)
    u = value / (1 + torch.exp(-gate))
    averages = torch.zeros_like(u)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            for c in range(D_MODEL):
                head = c * layer.n_heads // D_MODEL  # the paper's ceil(c H / d), counted from 0
                if isinstance(layer, DynamicConvolution):
                    rows = slice(head * layer.width, (head + 1) * layer.width)
                    scores = layer.w_kernel.weight[rows] @ u[b, t] + layer.w_kernel.bias[rows]
                    scores = scores if positions[b, t] >= 0 else layer.w_kernel.bias[rows]
                else:
                    scores = layer.kernel[head]
                weights = scores.exp() / scores.exp().sum()
                for j in range(layer.width):
                    s = t + j + first_neighbour(layer.width, layer.causal)
                    if 0 <= s < x.shape[1] and positions[b, s] >= 0:
                        averages[b, t, c] += weights[j] * u[b, s, c]
    return layer.w_output(averages)


@kinds
@causality
@widths
@torch.no_grad()
def test_equals_loops_over_tokens_with_padding(kind, causal, width):
    layer = randomize(kind(D_MODEL, HEADS, width, causal=causal)).double()
    x, positions = x_and_positions(padding=3)
    found, expected = layer(x, positions=positions), by_loops(layer, x, positions)
    torch.testing.assert_close(found[positions >= 0], expected[positions >= 0])


@kinds
@pytest.mark.parametrize("n_heads", [1, D_MODEL])
@torch.no_grad()
def test_equals_loops_with_one_kernel_and_with_one_for_each_channel(kind, n_heads):
    layer = randomize(kind(D_MODEL, n_heads, width=3, causal=True)).double()
    x, positions = x_and_positions()
    torch.testing.assert_close(layer(x), by_loops(layer, x, positions))


@causality
@widths
@torch.no_grad()
def test_token_convolution_equals_pytorchs(causal, width):
    layer = randomize(TokenConvolution(D_MODEL, 8, width, causal=causal, groups=4)).double()
    x, _ = x_and_positions()
    reference = nn.Conv1d(D_MODEL, 8, width, groups=4, bias=False).double()
    reference.weight.copy_(layer.weight)
    before = -first_neighbour(width, causal)
    expected = reference(F.pad(x.mT, (before, width - 1 - before))).mT
    torch.testing.assert_close(layer(x), expected)


@causality
@torch.no_grad()
def test_separable_convolution_equals_loops(causal):
    layer = randomize(SeparableConvolution(D_MODEL, 5, width=4, causal=causal)).double()
    x, positions = x_and_positions(padding=2, side="left")
    attention_mask, mixed = positions >= 0, torch.zeros_like(x)
    for t in range(x.shape[1]):
        for j in range(4):
            s = t + j + first_neighbour(4, causal)
            if 0 <= s < x.shape[1]:
                mixed[:, t] += layer.depthwise.weight[:, 0, j] * x[:, s] * attention_mask[:, s, None]
    expected = mixed @ layer.pointwise.weight.T + layer.pointwise.bias
    torch.testing.assert_close(layer(x, attention_mask), expected)


@kinds
@causality
@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_padding_changes_nothing(kind, causal, side):
    layer = randomize(kind(D_MODEL, HEADS, width=5, causal=causal)).double()
    x, positions = x_and_positions(padding=3, side=side)
    short = x[1, positions[1] >= 0][None]
    found = layer(x, positions=positions)[1, positions[1] >= 0]
    torch.testing.assert_close(found, layer(short)[0])


@kinds
@torch.no_grad()
def test_a_causal_window_ends_at_the_token_and_begins_width_tokens_before(kind):
    layer, (x, _) = randomize(kind(D_MODEL, HEADS, width=4, causal=True)).double(), x_and_positions()
    other = x.clone()
    other[:, 3] += 1
    changed = (layer(other) - layer(x)).abs().amax((0, 2)) > 1e-9
    assert changed.tolist() == [t in range(3, 7) for t in range(TOKENS)]


@kinds
@torch.no_grad()
def test_equal_tokens_are_averaged_to_themselves(kind):
    """The weights of a window sum to one: away from the ends, an average of equal vectors is that vector."""
    layer = randomize(kind(D_MODEL, HEADS, width=3, causal=True, w_output=nn.Identity())).double()
    x = randn(1, 1, D_MODEL, dtype=torch.float64).expand(1, 6, -1)
    torch.testing.assert_close(layer(x)[:, 2:], F.glu(layer.w_input(x))[:, 2:])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@kinds
def test_dtypes_devices_and_gradients(kind, dtype, device):
    layer = randomize(kind(D_MODEL, HEADS, width=4, causal=False)).to(device, dtype)
    x = x_and_positions(dtype=dtype)[0].to(device)
    output = layer(x)
    assert output.dtype == dtype and output.shape == x.shape
    exact = randomize(kind(D_MODEL, HEADS, width=4, causal=False)).double()(x.cpu().double())
    tolerance = 1e-5 if dtype == torch.float32 else 5e-2
    torch.testing.assert_close(output.cpu().double(), exact, rtol=tolerance, atol=tolerance)
    output.float().square().sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in layer.parameters())


def test_the_weights_of_a_window_depend_on_the_token_alone_at_first():
    assert not DynamicConvolution(D_MODEL, HEADS, width=3, causal=True).w_kernel.bias.any()


@kinds
def test_refuses_what_it_cannot_do(kind):
    layer, (x, _) = kind(D_MODEL, HEADS, width=3, causal=True), x_and_positions(dtype=torch.float32)
    context = context_of_new_tokens(TOKENS)
    documents = CausalMask() & DocumentMask(torch.zeros(1, TOKENS, dtype=torch.long))
    for mask in (documents, BidirectionalMask()):
        with pytest.raises(ValueError, match="is not possible with causal=True"):
            layer(x, mask, position_context=context)
    with pytest.raises(ValueError, match="has no cache"):
        layer(x, CausalMask(), position_context=context, cache=KVCache(1, 2, [(1, 1)]))
    with pytest.raises(ValueError, match="has no cache"):
        layer.new_cache(1, 2)
    with pytest.raises(ValueError, match="n_heads=5 must divide d_model=12"):
        kind(D_MODEL, 5, width=3, causal=True)
    with pytest.raises(ValueError, match="width=0 must be at least 1"):
        kind(D_MODEL, HEADS, width=0, causal=True)
    with pytest.raises(ValueError, match="groups=5 must divide d_in=12 and d_out=10"):
        TokenConvolution(D_MODEL, 10, width=3, causal=True, groups=5)
