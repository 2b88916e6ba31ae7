"""Latent attention against DeepSeek-V2 and V3 in Hugging Face, and absorbed against expanded."""

import pytest
import torch
from randomness import randomize
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as v3

from llm_anatomy.layers.kv_cache import RollingKVCache
from llm_anatomy.layers.latent_attention import LatentAttention
from llm_anatomy.layers.masks import CausalMask, PaddingMask, SlidingWindowMask
from llm_anatomy.layers.positions.rotary import HalfSplitRotary, InterleavedRotary, YaRNScaling

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, TOKENS, D_MODEL, HEADS, D_LATENT, D_HEAD, D_ROTARY, D_VALUE, D_QUERY = 3, 7, 20, 5, 11, 6, 4, 9, 13


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def through_a_latent():
    return nn.Sequential(
        nn.Linear(D_MODEL, D_QUERY, bias=False),
        nn.RMSNorm(D_QUERY, eps=1e-6),
        nn.Linear(D_QUERY, HEADS * (D_HEAD + D_ROTARY), bias=False),
    )


def latent_attention(position=None, query_latent=False, bias=False, norm=True):
    return randomize(
        LatentAttention(
            D_MODEL,
            HEADS,
            d_latent=D_LATENT,
            d_head=D_HEAD,
            d_value=D_VALUE,
            position=position or InterleavedRotary(D_ROTARY),
            latent_norm=nn.RMSNorm(D_LATENT, eps=1e-6) if norm else None,
            w_query=through_a_latent() if query_latent else None,
            bias=bias,
        )
    ).double()


def hugging_face(ours, module, config, **more):
    """The family's module with our weights, and what it makes of tokens at given positions."""
    sizes = dict(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        kv_lora_rank=D_LATENT,
        q_lora_rank=None,
        qk_rope_head_dim=D_ROTARY,
        qk_nope_head_dim=D_HEAD,
        v_head_dim=D_VALUE,
        attn_implementation="sdpa",
    )
    config = config(**(sizes | more))
    twin = module(config, layer_idx=0).double()
    with torch.no_grad():
        if config.q_lora_rank is None:
            twin.q_proj.weight.copy_(ours.w_query.weight)
        else:
            twin.q_a_proj.weight.copy_(ours.w_query[0].weight)
            twin.q_a_layernorm = ours.w_query[1]  # PyTorch's: theirs computes in float32 whatever it is given
            twin.q_b_proj.weight.copy_(ours.w_query[2].weight)
        twin.kv_a_proj_with_mqa.load_state_dict(ours.w_down.state_dict())
        twin.kv_a_layernorm = ours.latent_norm
        # per head: first what makes the key, then what makes the value
        key, value = (up.weight.view(HEADS, -1, D_LATENT) for up in (ours.w_up_key, ours.w_up_value))
        twin.kv_b_proj.weight.copy_(torch.cat((key, value), 1).flatten(0, 1))
        twin.o_proj.load_state_dict(ours.w_output.state_dict())
    return twin, config


POSITIONS = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [30, 31, 32, 33, 34, 35, 36], [0, 0, 0, 1, 2, 3, 4]])
HIDDEN = torch.tensor([[0] * 7, [0] * 7, [1, 1, 0, 0, 0, 0, 0]]).bool()


def as_hugging_face(twin, embeddings, x):
    mask = (CausalMask().as_tensor(TOKENS) & ~HIDDEN[:, None, None]).double().log()
    return twin(x, position_embeddings=embeddings, attention_mask=mask)[0]


def check_both_forms(ours, expected, x, tolerance=1e-9):
    mask = CausalMask() & PaddingMask(~HIDDEN)
    for absorbed in (False, True):
        found = ours(x, mask, positions=POSITIONS, absorbed=absorbed)
        torch.testing.assert_close(found[:2], expected[:2], rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(found[2, 2:], expected[2, 2:], rtol=tolerance, atol=tolerance)


@pytest.mark.syllabus("CMU-13")
def test_equals_deepseek_v2():
    ours, x = latent_attention(bias=True, query_latent=False), randn(BATCH, TOKENS, D_MODEL)
    with torch.no_grad():
        ours.w_query.bias.zero_()  # V2 and V3 have none here
    twin, config = hugging_face(ours, v2.DeepseekV2Attention, v2.DeepseekV2Config, attention_bias=True)
    embeddings = v2.DeepseekV2RotaryEmbedding(config)(x, POSITIONS)
    check_both_forms(ours, as_hugging_face(twin, embeddings, x), x, tolerance=1e-5)  # it turns in float32


@pytest.mark.syllabus("CMU-13")
@pytest.mark.parametrize("interleave", [True, False])
def test_equals_deepseek_v3_with_queries_through_a_latent(interleave):
    position = (InterleavedRotary if interleave else HalfSplitRotary)(D_ROTARY)
    ours, x = latent_attention(position, query_latent=True), randn(BATCH, TOKENS, D_MODEL)
    more = dict(q_lora_rank=D_QUERY, rope_interleave=interleave, head_dim=D_ROTARY)
    twin, _ = hugging_face(ours, v3.DeepseekV3Attention, v3.DeepseekV3Config, **more)
    frequencies = torch.tensor([1.0, 0.01])  # 10000 ** -(0 / 4), 10000 ** -(2 / 4), kept in float32 by both
    angles = POSITIONS[..., None].double() * frequencies.double()
    embeddings = [torch.cat((t, t), -1) for t in (angles.cos(), angles.sin())]
    expected = as_hugging_face(twin, embeddings, x)
    check_both_forms(ours, expected, x)
    wrong = latent_attention(HalfSplitRotary(D_ROTARY, base=1e3), query_latent=True)  # a planted fault
    with pytest.raises(AssertionError, match="not close"):
        check_both_forms(wrong, expected, x, tolerance=1e-3)


@pytest.mark.syllabus("CMU-13")
def test_folded_scores_equal_those_of_recovered_keys():
    """The lecture's identity, one pair of tokens and one head: q · (W^UK c) = (W^UK' q) · c."""
    ours = latent_attention()
    query, latent = randn(D_HEAD, seed=1), randn(D_LATENT, seed=2)
    for i in range(HEADS):
        w_up_key = ours.w_up_key.weight[i * D_HEAD : (i + 1) * D_HEAD]
        torch.testing.assert_close(query @ (w_up_key @ latent), (w_up_key.T @ query) @ latent, rtol=0, atol=1e-5)


def test_weights_of_the_two_forms_agree():
    ours, x = latent_attention(), randn(BATCH, TOKENS, D_MODEL)
    results = [ours(x, CausalMask(), absorbed=absorbed, return_weights=True) for absorbed in (False, True)]
    for expanded, absorbed in zip(*results, strict=True):
        torch.testing.assert_close(absorbed, expanded, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(ours(x, CausalMask()), results[0][0], rtol=1e-9, atol=1e-9)
    assert results[0][1].shape == (BATCH, HEADS, TOKENS, TOKENS)


def test_rotation_between_the_two_matrices_forbids_folding():
    """E-43: were the recovered key turned, as in other attention, folding would give other scores."""
    rotary, query, latent = InterleavedRotary(D_HEAD), randn(1, 1, 1, D_HEAD), randn(D_LATENT, seed=1)
    w_up_key = latent_attention().w_up_key.weight[:D_HEAD]
    here, there = torch.tensor([[5]]), torch.tensor([[2]])
    rotated_key = rotary.rotate((w_up_key @ latent)[None, None, None], there)
    score = (rotary.rotate(query, here) * rotated_key).sum()
    folded = (rotary.rotate(query, here).flatten() @ w_up_key) @ latent
    assert (score - folded).abs() > 1e-2


@pytest.mark.syllabus("CMU-10", "CMU-13")
@pytest.mark.parametrize("blocks", [[1] * TOKENS, [3, 1, 2, 1], [TOKENS]], ids=["one by one", "blocks", "at once"])
@pytest.mark.parametrize("absorbed", [None, False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_cached_equals_uncached(blocks, absorbed, padded):
    ours, x = latent_attention(query_latent=True), randn(BATCH, TOKENS, D_MODEL)
    positions = torch.tensor([[-1, -1, 0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5, 6], [-1, 0, 1, 2, 3, 4, 5]])
    positions = positions if padded else None
    expected = ours(x, CausalMask(), positions=positions)
    cache, found, start = ours.new_cache(BATCH, TOKENS), [], 0
    with torch.no_grad():
        for n in blocks:
            here = slice(start, start + n)
            these = None if positions is None else positions[:, here]
            found.append(ours(x[:, here], CausalMask(), positions=these, cache=cache, absorbed=absorbed))
            start += n
    torch.testing.assert_close(torch.cat(found, 1), expected, rtol=1e-9, atol=1e-9)
    assert cache.n_bytes == BATCH * TOKENS * (D_LATENT + D_ROTARY) * 8


def test_padding_on_the_left_changes_nothing_of_the_tokens():
    ours, x, noise = latent_attention(), randn(1, 5, D_MODEL), randn(1, 2, D_MODEL, seed=1)
    positions = torch.tensor([[-1, -1, 0, 1, 2, 3, 4]])
    for absorbed in (False, True):
        padded = ours(torch.cat((noise, x), 1), CausalMask(), positions=positions, absorbed=absorbed)
        torch.testing.assert_close(padded[:, 2:], ours(x, CausalMask()), rtol=1e-9, atol=1e-9)


def test_a_sliding_window_over_latents():
    ours, x, mask = latent_attention(), randn(2, TOKENS, D_MODEL), CausalMask() & SlidingWindowMask(3)
    cache = ours.new_cache(2, 3, RollingKVCache)
    with torch.no_grad():
        found = torch.cat([ours(tokens, mask, cache=cache) for tokens in x.split([2, 1, 3, 1], 1)], 1)
    torch.testing.assert_close(found, ours(x, mask), rtol=1e-9, atol=1e-9)


def test_decoding_reads_the_latents_and_never_forms_keys_and_values():
    ours, x = latent_attention(), randn(1, TOKENS, D_MODEL)
    cache, formed = ours.new_cache(1, TOKENS), []
    for up in (ours.w_up_key, ours.w_up_value):
        up.register_forward_hook(lambda *_: formed.append(1))
    with torch.no_grad():
        ours(x[:, :-1], CausalMask(), cache=cache)
        assert len(formed) == 2  # a whole text at once: expanded
        ours(x[:, -1:], CausalMask(), cache=cache)
    assert len(formed) == 2  # one token over it: absorbed


@pytest.mark.parametrize(
    "n_new, n_keys", [(1, 1), (1, 2), (9, 9), (9, 14), (9, 15), (9, 22), (9, 23), (10, 30), (16, 40)]
)
def test_the_form_that_is_chosen_executes_fewer_operations(n_new, n_keys):
    """The average over the rotated keys is computed and dropped. A rule that left it out would choose the absorbed form
    for 9 tokens over 15 already."""
    ours, x, counted = latent_attention(), randn(1, n_keys, D_MODEL), {}
    for absorbed in (False, True, None):
        cache = ours.new_cache(1, n_keys)
        with torch.no_grad():
            if n_keys > n_new:
                ours(x[:, :-n_new], cache=cache)
            with FlopCounterMode(display=False) as counter:
                ours(x[:, -n_new:], cache=cache, absorbed=absorbed, return_weights=True)
        counted[absorbed] = counter.get_total_flops()
    expanded_is_best = (n_new, n_keys) in [(1, 1), (9, 9), (9, 14), (9, 15), (9, 22), (10, 30), (16, 40)]
    assert counted[None] == min(counted.values()) and (counted[None] == counted[False]) == expanded_is_best


def test_the_future_has_no_influence_and_positions_only_relatively():
    ours, x = latent_attention(), randn(BATCH, TOKENS, D_MODEL)
    changed = x.clone()
    changed[:, 4:] = 9.0
    before, after = ours(x, CausalMask()), ours(changed, CausalMask())
    torch.testing.assert_close(after[:, :4], before[:, :4])
    assert not torch.allclose(after[:, 4:], before[:, 4:])
    shifted = ours(x, CausalMask(), positions=torch.arange(50, 50 + TOKENS)[None])
    torch.testing.assert_close(shifted, before, rtol=1e-8, atol=1e-8)
    assert not torch.allclose(ours(x.flip(1), None), ours(x, None).flip(1))


def test_without_positions_it_is_the_lectures_plain_form():
    """No turned part: keys and values of the latent alone, written out for one head at a time."""
    ours = randomize(LatentAttention(D_MODEL, HEADS, d_latent=D_LATENT, d_head=D_HEAD, bias=True)).double()
    x = randn(BATCH, TOKENS, D_MODEL)
    latent, expected = ours.w_down(x), ours.w_output.bias.expand(BATCH, TOKENS, D_MODEL).clone()
    assert latent.shape[-1] == D_LATENT
    for i in range(HEADS):
        rows = slice(i * D_HEAD, (i + 1) * D_HEAD)
        query, key, value = ours.w_query(x)[..., rows], latent @ ours.w_up_key.weight[rows].T, None
        value = latent @ ours.w_up_value.weight[rows].T
        weights = (query @ key.mT / D_HEAD**0.5).softmax(-1)
        expected += weights @ value @ ours.w_output.weight[:, rows].T
    for absorbed in (False, True):
        torch.testing.assert_close(ours(x, absorbed=absorbed), expected, rtol=1e-9, atol=1e-9)


def test_gradients():
    ours, x = latent_attention(query_latent=True), randn(1, 3, D_MODEL).requires_grad_()
    for absorbed in (False, True):
        assert torch.autograd.gradcheck(lambda x, a=absorbed: ours(x, CausalMask(), absorbed=a), x)
        ours.zero_grad()
        ours(x, CausalMask(), absorbed=absorbed).square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in ours.parameters())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("absorbed", [False, True])
def test_bfloat16_is_close_and_state_goes_round(device, absorbed):
    ours, x = latent_attention().to(device), randn(BATCH, TOKENS, D_MODEL).to(device)
    expected = ours(x, CausalMask())
    twin = latent_attention(norm=True).to(device, torch.bfloat16)
    twin.load_state_dict(ours.state_dict())
    found = twin(x.to(torch.bfloat16), CausalMask(), absorbed=absorbed)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), expected, rtol=0.05, atol=0.15)


def test_on_the_meta_device_and_with_a_scale_of_its_own():
    with torch.device("meta"):
        ours = LatentAttention(D_MODEL, HEADS, d_latent=D_LATENT, d_head=D_HEAD, position=InterleavedRotary(D_ROTARY))
        assert ours(torch.empty(2, 4, D_MODEL)).shape == (2, 4, D_MODEL)
    scaled = latent_attention(
        InterleavedRotary(D_ROTARY, frequencies=YaRNScaling(2.0, original_max_position_embeddings=20))
    )
    x, before = randn(BATCH, TOKENS, D_MODEL), None
    before = scaled(x)
    scaled.scale *= 2
    assert not torch.allclose(scaled(x), before)


def test_sizes_below_one_are_refused():
    for name in ("d_model", "n_heads", "d_latent", "d_head", "d_value"):
        sizes = dict(d_model=4, n_heads=2, d_latent=3, d_head=5, d_value=6) | {name: 0}
        with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
            LatentAttention(**sizes)
