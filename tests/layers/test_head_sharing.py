"""Sharing of key-value heads: what must not change, and what the shared heads are."""

import copy
import math

import pytest
import torch
from randomness import randomize

from llm_anatomy.layers.attention import CrossAttention
from llm_anatomy.layers.head_sharing import RandomHead, first_head, mean_head, share_heads
from llm_anatomy.layers.masks import CausalMask
from llm_anatomy.layers.positions.relative import ALiBi
from llm_anatomy.layers.positions.rotary import HalfSplitRotary

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
HEADS, D_MODEL, D_HEAD, D_VALUE, D_CONTEXT = 6, 20, 4, 7, 11


def make(n_kv_heads=HEADS, **options):
    sizes = dict(d_head=D_HEAD, d_value=D_VALUE, d_context=D_CONTEXT, bias=True)
    return randomize(CrossAttention(D_MODEL, HEADS, n_kv_heads=n_kv_heads, **sizes | options))


def inputs():
    g = torch.Generator().manual_seed(1)
    return torch.randn(3, 5, D_MODEL, generator=g), torch.randn(3, 8, D_CONTEXT, generator=g)


def make_equal(attention, n_kv_heads):
    """Give all heads of a group the weights of its last."""
    group = attention.n_kv_heads // n_kv_heads
    with torch.no_grad():
        for projection, width in ((attention.w_key, D_HEAD), (attention.w_value, D_VALUE)):
            for parameter in projection.parameters():
                for head in range(attention.n_kv_heads):
                    last = (head // group + 1) * group - 1
                    source = parameter[last * width : (last + 1) * width].clone()
                    parameter[head * width : (head + 1) * width] = source
    return attention


@pytest.mark.syllabus("CMU-11", "CMU-12", "CMU-15")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pool", [mean_head, first_head])
@pytest.mark.parametrize(("before", "after"), [(6, 3), (6, 2), (6, 1), (3, 1), (2, 1)])
@pytest.mark.parametrize("position", [None, HalfSplitRotary(4), ALiBi(HEADS)])
def test_equal_heads_lose_nothing(before, after, pool, position, device):
    attention = make_equal(make(before, position=copy.deepcopy(position)), after).to(device)
    x, context = (y.to(device) for y in inputs())
    shared = share_heads(attention, after, pool)
    assert shared.w_key.weight.shape == (after * D_HEAD, D_CONTEXT)
    assert shared.w_value.weight.shape == (after * D_VALUE, D_CONTEXT) and shared.w_value.out_features == after * 7
    output, weights = shared(x, context, return_weights=True)
    expected, expected_weights = attention(x, context, return_weights=True)
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weights, expected_weights, rtol=1e-4, atol=1e-5)


@pytest.mark.syllabus("CMU-15")
@pytest.mark.parametrize(("before", "after"), [(6, 2), (6, 1), (3, 1)])
def test_the_shared_head_is_the_mean_of_its_group(before, after):
    attention = make(before)
    shared, group = share_heads(attention, after), before // after
    for name, width in (("w_key", D_HEAD), ("w_value", D_VALUE)):
        old, new = getattr(attention, name), getattr(shared, name)
        for head in range(after):
            for row in range(width):
                rows = [(head * group + i) * width + row for i in range(group)]
                for column in range(D_CONTEXT):
                    mean = sum(old.weight[r, column].item() for r in rows) / group
                    assert math.isclose(new.weight[head * width + row, column].item(), mean, abs_tol=1e-6)
                mean = sum(old.bias[r].item() for r in rows) / group
                assert math.isclose(new.bias[head * width + row].item(), mean, abs_tol=1e-6)


@pytest.mark.syllabus("CMU-15")
def test_the_first_head_of_each_group():
    attention = make()
    shared = share_heads(attention, 2, first_head)
    torch.testing.assert_close(shared.w_key.weight, attention.w_key.weight.view(6, 4, -1)[[0, 3]].flatten(0, 1))
    torch.testing.assert_close(shared.w_value.bias, attention.w_value.bias.view(6, 7)[[0, 3]].flatten())


@pytest.mark.syllabus("CMU-11", "CMU-15")
def test_the_wrong_grouping_is_seen():
    """Heads that take turns (0, 2, 4 and 1, 3, 5) are another grouping than attention's: equal heads then change."""
    attention, (x, context) = make_equal(make(), 2), inputs()
    taking_turns = share_heads(attention, 2)
    for projection in (taking_turns.w_key, taking_turns.w_value):
        old = getattr(attention, "w_key" if projection is taking_turns.w_key else "w_value").weight
        projection.weight.data = old.view(3, 2, -1, D_CONTEXT).mean(0).flatten(0, 1).detach()
    assert not torch.allclose(taking_turns(x, context), attention(x, context), atol=1e-2)


@pytest.mark.syllabus("CMU-15")
def test_random_heads_are_new_as_large_and_of_the_generator():
    attention = make()
    one, again, other = (
        share_heads(attention, 2, RandomHead(torch.Generator().manual_seed(seed))) for seed in (0, 0, 1)
    )
    assert torch.equal(one.w_key.weight, again.w_key.weight) and torch.equal(one.w_value.bias, again.w_value.bias)
    assert not torch.allclose(one.w_key.weight, other.w_key.weight, atol=1e-2)
    large = RandomHead(torch.Generator().manual_seed(0))(3 * torch.randn(2, 3, 50, 40))
    assert large.shape == (2, 50, 40) and 2.8 < large.std() < 3.2
    assert RandomHead(torch.Generator().manual_seed(0))(torch.zeros(2, 3, 5)).eq(0).all()  # biases that were zero


@pytest.mark.syllabus("CMU-11")
@pytest.mark.parametrize("pool", [mean_head, first_head])
@pytest.mark.parametrize("n_kv_heads", [6, 3, 1])
def test_as_many_heads_as_before_is_the_identity(pool, n_kv_heads):
    attention, (x, context) = make(n_kv_heads), inputs()
    same = share_heads(attention, n_kv_heads, pool)
    for name, tensor in attention.state_dict().items():
        assert torch.equal(same.state_dict()[name], tensor)
    torch.testing.assert_close(same(x, context), attention(x, context))


def test_the_original_is_left_as_it_was_and_shares_no_memory():
    attention = make(position=ALiBi(HEADS)).to(torch.float64)
    attention.w_value.weight.requires_grad_(False)
    attention.train(False)
    before = {name: tensor.clone() for name, tensor in attention.state_dict().items()}
    generator_state = torch.get_rng_state()
    for n_kv_heads in (6, 2, 1):
        shared = share_heads(attention, n_kv_heads, first_head)
        assert isinstance(shared, CrossAttention) and (shared.n_heads, shared.n_kv_heads) == (6, n_kv_heads)
        assert not shared.training and {p.dtype for p in shared.parameters()} == {torch.float64}
        assert [p.requires_grad for p in shared.parameters()] == [p.requires_grad for p in attention.parameters()]
        assert list(shared.state_dict()) == list(before)
        for parameter in shared.parameters():
            parameter.data.fill_(9.0)
        assert all(torch.equal(attention.state_dict()[name], tensor) for name, tensor in before.items())
        for parameter in (shared.w_key.weight, shared.w_value.bias):  # nor does it keep the larger tensor alive
            assert parameter.untyped_storage().nbytes() == parameter.numel() * 8
    assert torch.equal(torch.get_rng_state(), generator_state)


@pytest.mark.syllabus("CMU-11", "CMU-12")
def test_the_copy_is_an_attention_as_built_with_fewer_heads():
    shared = share_heads(make(bias=False), 2)
    built = CrossAttention(D_MODEL, HEADS, n_kv_heads=2, d_head=D_HEAD, d_value=D_VALUE, d_context=D_CONTEXT)
    built.load_state_dict(shared.state_dict())
    x, context = inputs()
    torch.testing.assert_close(built(x, context), shared(x, context))
    shared(x, context).square().sum().backward()
    assert shared.w_key.weight.grad.abs().sum() > 0  # it can be trained on
    attention = make(d_context=D_MODEL)
    torch.testing.assert_close(
        share_heads(share_heads(attention, 2), 1)(x, x, mask=CausalMask().as_tensor(5)),
        share_heads(attention, 1)(x, x, mask=CausalMask().as_tensor(5)),  # the mean of means of equally many
        rtol=1e-4,
        atol=1e-5,
    )


def test_on_meta_and_in_bfloat16():
    assert share_heads(make().to("meta"), 3).w_key.weight.device.type == "meta"
    half = share_heads(make().bfloat16(), 2, RandomHead(torch.Generator()))
    assert half.w_key.weight.dtype == torch.bfloat16
    mean = share_heads(make().bfloat16(), 2).w_key.weight
    torch.testing.assert_close(mean.float(), share_heads(make(), 2).w_key.weight, rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize(("before", "after"), [(6, 4), (6, 0), (6, 12), (2, 3), (6, -1)])
def test_counts_that_do_not_divide_are_refused(before, after):
    with pytest.raises(ValueError, match=f"n_kv_heads={after} must be >= 1 and divide the {before} key-value heads"):
        share_heads(make(before), after)
