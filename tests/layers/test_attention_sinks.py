"""Attention sinks against a loop over keys and gpt-oss's attention; both paths agree, and faults are seen."""

import math

import pytest
import torch
from randomness import randn, randomize
from transformers import GptOssConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention

from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.attention_sinks import AttentionSinks, softmax_with_sinks
from llm_anatomy.layers.functional import _attend
from llm_anatomy.layers.masks import CausalMask, SlidingWindowMask
from llm_anatomy.layers.positions.rotary import HalfSplitRotary

BATCH, HEADS, KV_HEADS, TOKENS, D_MODEL, D_HEAD, D_VALUE = 3, 4, 2, 7, 24, 10, 5
MASK = CausalMask() & SlidingWindowMask(3)
DTYPES = {torch.float32: 1e-5, torch.float64: 1e-10}


def slow_attention(query, key, value, allowed, sinks):
    """From the formula, one query at a time."""
    output = torch.zeros(*query.shape[:3], value.shape[3], dtype=torch.float64)
    query, key, value = (x.double() for x in (query, key, value))
    for b, h, i in torch.cartesian_prod(*map(torch.arange, query.shape[:3])).tolist():
        shared = h * key.shape[1] // query.shape[1]
        keys = [j for j in range(key.shape[2]) if allowed[i, j]]
        powers = {j: math.exp(query[b, h, i] @ key[b, shared, j] / math.sqrt(query.shape[3])) for j in keys}
        total = math.exp(sinks[h].item()) + sum(powers.values())
        for j, power in powers.items():
            output[b, h, i] += power / total * value[b, shared, j]
    return output


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("n_queries", [TOKENS, 1])
def test_both_paths_equal_a_loop(dtype, explicit, n_queries):
    query = randn(BATCH, HEADS, n_queries, D_HEAD, dtype=dtype)
    key, value = (randn(BATCH, KV_HEADS, TOKENS, d, dtype=dtype, seed=d) for d in (D_HEAD, D_VALUE))
    sinks = randn(HEADS, dtype=dtype, seed=9)
    for mask in (None, MASK, MASK.as_tensor(n_queries, TOKENS)):
        allowed = torch.ones(n_queries, TOKENS, dtype=torch.bool) if mask is None else MASK.as_tensor(n_queries, TOKENS)
        expected = slow_attention(query, key, value, allowed, sinks).to(dtype)
        found, weights = _attend(query, key, value, mask, sinks=sinks, explicit=explicit)
        torch.testing.assert_close(found, expected, rtol=DTYPES[dtype], atol=DTYPES[dtype])
        assert (weights is None) == (not explicit)


def test_a_bias_and_a_mask_and_a_query_without_keys():
    """A query that may attend to no key gives its whole share to the sink: its output is zero on both paths."""
    query, sinks = randn(BATCH, HEADS, TOKENS, D_HEAD), randn(HEADS)
    bias, mask = randn(1, HEADS, TOKENS, TOKENS, seed=1), MASK.as_tensor(TOKENS).clone()
    mask[2] = False
    for added in (None, bias):
        fused, _ = _attend(query, query, query, mask, bias=added, sinks=sinks)
        explicit, weights = _attend(query, query, query, mask, bias=added, sinks=sinks, explicit=True)
        torch.testing.assert_close(fused, explicit, rtol=1e-5, atol=1e-5)
        assert not fused[:, :, 2].any() and not weights[:, :, 2].any() and (weights.sum(-1) < 1).all()


def test_gradients_of_both_paths_agree_with_finite_differences():
    query, sinks = randn(1, 2, 3, 4, dtype=torch.float64), randn(2, dtype=torch.float64)
    for explicit in (True, False):

        def output(query, sinks, explicit=explicit):
            return _attend(query, query, query, CausalMask(), sinks=sinks, explicit=explicit)[0]

        assert torch.autograd.gradcheck(output, (query.requires_grad_(), sinks.requires_grad_()))


def test_without_a_sink_it_is_the_softmax():
    scores = randn(BATCH, HEADS, 5, TOKENS)
    torch.testing.assert_close(softmax_with_sinks(scores, torch.full((HEADS,), -math.inf)), scores.softmax(-1))
    halves = softmax_with_sinks(torch.zeros(1, 1, 1), torch.zeros(1))
    assert halves.item() == 0.5


@pytest.mark.parametrize("fused", [True, False])
def test_equal_to_gpt_oss(fused):
    config = GptOssConfig(
        hidden_size=D_MODEL, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=D_HEAD,
        attn_implementation="eager", num_hidden_layers=1,
    )  # fmt: skip
    theirs = randomize(GptOssAttention(config, 0)).eval()
    ours = SelfAttention(
        D_MODEL, HEADS, n_kv_heads=KV_HEADS, d_head=D_HEAD, bias=True, sinks=AttentionSinks(HEADS),
        position=HalfSplitRotary(D_HEAD, 500.0),
    )  # fmt: skip
    names = {"q_proj": "w_query", "k_proj": "w_key", "v_proj": "w_value", "o_proj": "w_output"}
    state = {"sinks.logits": theirs.sinks.detach()}
    for hf, name in names.items():
        state |= {f"{name}.{kind}": tensor for kind, tensor in getattr(theirs, hf).state_dict().items()}
    ours.load_state_dict(state)
    x, positions = randn(BATCH, TOKENS, D_MODEL), torch.arange(TOKENS)[None]
    angles = positions[..., None] * ours.position.frequencies
    added = torch.zeros(1, 1, TOKENS, TOKENS).masked_fill(~MASK.as_tensor(TOKENS), -1e30)
    expected, _ = theirs(x, (angles.cos(), angles.sin()), added)
    torch.testing.assert_close(ours(x, MASK, fused=fused), expected, rtol=1e-4, atol=1e-4)
    ours.sinks = None
    assert (ours(x, MASK) - expected).abs().max() > 0.01  # the planted fault is seen


def test_token_by_token_equals_all_at_once():
    attention = randomize(SelfAttention(D_MODEL, HEADS, sinks=AttentionSinks(HEADS))).eval()
    x, cache = randn(BATCH, TOKENS, D_MODEL), attention.new_cache(BATCH, TOKENS)
    with torch.inference_mode():
        steps = [attention(x[:, t : t + 1], CausalMask(), cache=cache) for t in range(TOKENS)]
        torch.testing.assert_close(torch.cat(steps, 1), attention(x, CausalMask()), rtol=1e-5, atol=1e-5)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="n_heads=0 must be at least 1"):
        AttentionSinks(0)
