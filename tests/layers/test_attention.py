"""Attention against PyTorch's own, and the properties that the lectures state."""

import math
import shutil
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from randomness import randomize
from torch import nn

from llm_anatomy.layers.attention import CrossAttention, MultiHeadAttention, SelfAttention
from llm_anatomy.layers.functional import attention_weights, scaled_dot_product_attention
from llm_anatomy.layers.masks import CausalMask, Mask, SlidingWindowMask
from llm_anatomy.layers.normalization import AcrossHeads
from llm_anatomy.layers.positions.base import PositionContext, PositionScheme
from llm_anatomy.layers.positions.rotary import HalfSplitRotary
from llm_anatomy.layers.softcapping import Softcapping

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, HEADS, QUERIES, KEYS, D_HEAD, D_VALUE = 3, 4, 5, 7, 6, 9
TOLERANCE = {torch.float32: dict(rtol=1e-5, atol=1e-6), torch.bfloat16: dict(rtol=2e-2, atol=2e-2)}


def inputs(seed=0, kv_heads=HEADS, dtype=torch.float32, device="cpu", **sizes):
    g = torch.Generator().manual_seed(seed)
    n_queries, n_keys = sizes.get("queries", QUERIES), sizes.get("keys", KEYS)
    shapes = (HEADS, n_queries, D_HEAD), (kv_heads, n_keys, D_HEAD), (kv_heads, n_keys, D_VALUE)
    return [torch.randn(BATCH, *shape, generator=g).to(device, dtype) for shape in shapes]


def random_mask(seed=1, shape=(BATCH, HEADS, QUERIES, KEYS)):
    """A mask in which every query sees something."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6
    mask[..., 0] |= ~mask.any(-1)
    return mask


@pytest.mark.syllabus("UCL-19", "UCL-20")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kv_heads", [HEADS, 2, 1])
@pytest.mark.parametrize("shape", [None, (QUERIES, KEYS), (BATCH, 1, 1, KEYS), (BATCH, HEADS, QUERIES, KEYS)])
def test_explicit_path_equals_the_fused_one(device, dtype, kv_heads, shape):
    query, key, value = inputs(kv_heads=kv_heads, dtype=dtype, device=device)
    mask = None if shape is None else random_mask(shape=shape).to(device)
    fused = scaled_dot_product_attention(query, key, value, mask, scale=0.37)
    explicit, weights = scaled_dot_product_attention(query, key, value, mask, scale=0.37, return_weights=True)
    torch.testing.assert_close(explicit, fused, **TOLERANCE[dtype])
    assert weights.dtype == dtype and weights.shape == (BATCH, HEADS, QUERIES, KEYS)
    sums = weights.float().sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-5 if dtype == torch.float32 else 2e-2)


@pytest.mark.syllabus("UCL-18", "UCL-19")
def test_both_paths_equal_a_sum_written_out():
    """An independent reference: Python floats, one query at a time."""
    query, key, value = inputs()
    output, weights = scaled_dot_product_attention(query, key, value, return_weights=True)
    fused, alone = scaled_dot_product_attention(query, key, value), attention_weights(query, key)
    for b, h, i in [(0, 0, 0), (1, 3, 4), (2, 1, 2)]:
        scores = [sum((query[b, h, i] * key[b, h, j]).tolist()) / math.sqrt(D_HEAD) for j in range(KEYS)]
        exponentials = [math.exp(s) for s in scores]
        expected = [e / sum(exponentials) for e in exponentials]
        average = sum(w * value[b, h, j] for j, w in enumerate(expected))
        torch.testing.assert_close(weights[b, h, i], torch.tensor(expected))
        torch.testing.assert_close(alone[b, h, i], torch.tensor(expected))
        torch.testing.assert_close(output[b, h, i], average)
        torch.testing.assert_close(fused[b, h, i], average)


@pytest.mark.syllabus("UCL-18")
def test_numbers_of_the_slide():
    query, key = torch.tensor([[[[0.8, 0.2]]]]), torch.eye(2)[None, None]
    value = torch.tensor([[[[1.0, 1.0], [-1.0, 1.0]]]])
    output, weights = scaled_dot_product_attention(query, key, value, scale=1.0, return_weights=True)
    torch.testing.assert_close(weights.flatten(), torch.tensor([0.6456563, 0.3543437]), rtol=0, atol=1e-6)
    torch.testing.assert_close(output.flatten(), torch.tensor([0.2913126, 1.0]), rtol=0, atol=1e-6)
    hard = scaled_dot_product_attention(100 * query, key, value, scale=1.0)
    torch.testing.assert_close(hard.flatten(), torch.tensor([1.0, 1.0]))


@pytest.mark.parametrize("return_weights", [False, True])
def test_a_query_that_may_attend_to_nothing_gets_zeros_and_finite_gradients(return_weights):
    query, key, value = (x.requires_grad_() for x in inputs())
    mask = random_mask()
    mask[1, 2, 3] = False
    result = scaled_dot_product_attention(query, key, value, mask, return_weights=return_weights)
    output = result[0] if return_weights else result
    if return_weights:
        assert result[1][1, 2, 3].eq(0).all()
    assert output[1, 2, 3].eq(0).all() and output[1, 2, 2].ne(0).all()
    output.square().sum().backward()
    for x in (query, key, value):
        assert x.grad.isfinite().all() and x.grad.abs().sum() > 0
    assert query.grad[1, 2, 3].eq(0).all()


def test_gradients_of_the_two_paths_agree():
    grads = []
    for return_weights in (False, True):
        leaves = [x.requires_grad_() for x in inputs(kv_heads=2)]
        result = scaled_dot_product_attention(*leaves, random_mask(), return_weights=return_weights)
        (result[0] if return_weights else result).square().sum().backward()
        grads.append([x.grad for x in leaves])
    for fused, explicit in zip(*grads, strict=True):
        torch.testing.assert_close(explicit, fused, rtol=1e-4, atol=1e-5)


@pytest.mark.syllabus("UCL-19")
def test_columns_of_uclouvain_are_the_transpose():
    query, key, value = (x[0, 0] for x in inputs())
    columns = value.T @ torch.softmax(key @ query.T / math.sqrt(D_HEAD), dim=0)  # V softmax(K'Q/√d), tokens as columns
    rows = scaled_dot_product_attention(*(x[None, None] for x in (query, key, value)))[0, 0]
    torch.testing.assert_close(columns.T, rows)


@pytest.mark.syllabus("UCL-20")
@pytest.mark.parametrize("return_weights", [False, True])
def test_the_future_has_no_influence_under_a_causal_mask(return_weights):
    query, key, value = inputs(queries=KEYS)
    before = scaled_dot_product_attention(
        query, key, value, CausalMask().as_tensor(KEYS), return_weights=return_weights
    )
    key, value = key.clone(), value.clone()
    key[:, :, 4:], value[:, :, 4:] = 50.0, -50.0
    after = scaled_dot_product_attention(query, key, value, CausalMask().as_tensor(KEYS), return_weights=return_weights)
    before, after = (x[0] if return_weights else x for x in (before, after))
    torch.testing.assert_close(after[:, :, :4], before[:, :, :4])
    assert not torch.allclose(after[:, :, 4:], before[:, :, 4:])


@pytest.mark.syllabus("UCL-20")
def test_causal_mask():
    assert CausalMask().as_tensor(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert CausalMask().as_tensor(1, 4).all()  # one new token over a cache sees all of it
    assert CausalMask().as_tensor(2, 4).tolist() == [[True, True, True, False], [True] * 4]
    query, key, value = inputs(queries=KEYS)
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(scaled_dot_product_attention(query, key, value, CausalMask().as_tensor(KEYS)), expected)
    with pytest.raises(ValueError, match="n_queries=4 must not exceed n_keys=3"):
        CausalMask().as_tensor(4, 3)


# Shapes are checked by jaxtyping before the function's own sentences where the annotation can say it;
# what users without jaxtyping read is tested through the undecorated function.
bare_attention = getattr(scaled_dot_product_attention, "__wrapped__", scaled_dot_product_attention)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (dict(query=torch.zeros(6)), ValueError, r"query has shape \(6,\); it must be \(..., tokens, width\)"),
        (dict(query=torch.zeros(5, 6)), ValueError, r"query \(5, 6\), key .* must have equally many dimensions"),
        (dict(key=torch.zeros(3, 4, 7, 5)), ValueError, "query is 6 wide and key 5"),
        (dict(key=torch.zeros(2, 4, 7, 6)), ValueError, "agree in batch"),
        (dict(value=torch.zeros(3, 4, 8, 9)), ValueError, "agree in batch"),
        (dict(key=torch.zeros(3, 0, 7, 6), value=torch.zeros(3, 0, 7, 9)), ValueError, "4 query heads cannot share 0"),
        (  # without heads, sequences are not shared as heads are
            dict(query=torch.zeros(4, 5, 6), key=torch.zeros(2, 7, 6), value=torch.zeros(2, 7, 9)),
            ValueError,
            r"query \(4, 5, 6\), key \(2, 7, 6\) and value \(2, 7, 9\) must have equally many dimensions and agree",
        ),
        (
            dict(key=torch.zeros(3, 3, 7, 6), value=torch.zeros(3, 3, 7, 9)),
            ValueError,
            "4 query heads cannot share 3",
        ),
        (  # the sentence shows the shapes that were given
            dict(zip(("query", "key", "value"), (x[:, 0] for x in inputs()), strict=True))
            | dict(mask=torch.ones(2, 5, 7, dtype=torch.bool)),
            ValueError,
            r"mask has shape \(2, 5, 7\); it must broadcast to the scores \(3, 5, 7\)",
        ),
        (dict(mask=torch.zeros(5, 7)), TypeError, "torch.float32; it must be torch.bool"),
        (dict(mask=torch.ones(7, 5, dtype=torch.bool)), ValueError, r"mask has shape \(7, 5\)"),
        (dict(mask=torch.ones(1, 3, 4, 5, 7, dtype=torch.bool)), ValueError, "must broadcast"),
        (dict(bias=torch.zeros(3, 2, 5, 7)), ValueError, r"bias has shape \(3, 2, 5, 7\); it must broadcast"),
    ],
)
def test_misfits_are_refused_in_one_sentence(change, error, sentence):
    arguments = dict(zip(("query", "key", "value"), inputs(), strict=True)) | change
    with pytest.raises(error, match=sentence):
        bare_attention(**arguments)


LEADING = [(), (3,), (3, 4), (2, 3, 4), (2, 1, 3, 4)]


def with_leading(leading, kv_leading=None, queries=QUERIES, keys=KEYS, seed=6):
    g = torch.Generator().manual_seed(seed)
    kv_leading = leading if kv_leading is None else kv_leading
    shapes = (*leading, queries, D_HEAD), (*kv_leading, keys, D_HEAD), (*kv_leading, keys, D_VALUE)
    return [torch.randn(shape, generator=g, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("kind", ["bool", "bias", "both"])
@pytest.mark.parametrize(("leading", "n_own"), [(leading, n) for leading in LEADING for n in range(len(leading) + 1)])
def test_any_leading_dimensions_equal_pytorch(leading, n_own, kind):
    """PyTorch takes any leading dimensions itself; mask and bias may lack some of them, or be 1 in some."""
    own = leading[len(leading) - n_own :]
    for shape in {own, (1, *own[1:])[:n_own], (*own[:-1], 1)[:n_own]}:
        mask = random_mask(shape=(*shape, QUERIES, KEYS)) if kind != "bias" else None
        g = torch.Generator().manual_seed(7)
        bias = torch.randn(*shape, QUERIES, KEYS, generator=g, dtype=torch.float64) if kind != "bool" else None
        added = bias if mask is None else (0 if bias is None else bias) + mask.double().log()
        leaves, twins = with_leading(leading), with_leading(leading)
        expected = F.scaled_dot_product_attention(*twins, attn_mask=added)
        expected.square().sum().backward()
        output = scaled_dot_product_attention(*leaves, mask, bias=bias)
        explicit, weights = scaled_dot_product_attention(*leaves, mask, bias=bias, return_weights=True)
        torch.testing.assert_close(output, expected)
        torch.testing.assert_close(explicit, expected)
        torch.testing.assert_close(weights @ leaves[2], expected)
        torch.testing.assert_close(attention_weights(*leaves[:2], mask, bias=bias), weights)
        for result in (output, explicit):
            grads = torch.autograd.grad(result.square().sum(), leaves)
            for grad, twin in zip(grads, twins, strict=True):
                torch.testing.assert_close(grad, twin.grad)


@pytest.mark.parametrize("rule", [CausalMask(), CausalMask() & SlidingWindowMask(3)])
@pytest.mark.parametrize("leading", LEADING, ids=len)
def test_a_rule_masks_any_leading_dimensions(leading, rule):
    for n_queries in (KEYS, QUERIES, 1):
        leaves = with_leading(leading, queries=n_queries)
        expected = F.scaled_dot_product_attention(*leaves, attn_mask=rule.as_tensor(n_queries, KEYS))
        torch.testing.assert_close(scaled_dot_product_attention(*leaves, rule), expected)
        torch.testing.assert_close(scaled_dot_product_attention(*leaves, rule, return_weights=True)[0], expected)


@pytest.mark.parametrize("leading", LEADING[1:], ids=len)
def test_positions_of_each_sequence_mask_any_leading_dimensions(leading):
    """All leading dimensions but the heads are the batch of the positions."""
    batch = leading if len(leading) == 1 else leading[:-1]
    n = math.prod(batch)
    positions = torch.arange(KEYS).expand(n, -1) - torch.arange(n)[:, None]  # padding on the left, more in each
    context = PositionContext(positions.clamp(min=-1))
    leaves = with_leading(leading, queries=KEYS)
    heads = (1,) * (len(leading) - len(batch))
    mask = CausalMask()(context.query_positions, context.key_positions).view(*batch, *heads, KEYS, KEYS)
    expected = attention_weights(*leaves[:2], mask) @ leaves[2]
    for return_weights in (False, True):
        result = scaled_dot_product_attention(
            *leaves, CausalMask(), position_context=context, return_weights=return_weights
        )
        torch.testing.assert_close(result[0] if return_weights else result, expected)


@pytest.mark.parametrize("leading", LEADING[2:], ids=len)
@pytest.mark.parametrize("kv_heads", [2, 1])
def test_heads_are_shared_under_any_leading_dimensions(leading, kv_heads):
    for n_queries in (QUERIES, 1):
        leaves = with_leading(leading, (*leading[:-1], kv_heads), queries=n_queries)
        mask = random_mask(shape=(*leading, n_queries, KEYS))
        repeated = [x.repeat_interleave(leading[-1] // kv_heads, -3) for x in leaves[1:]]
        expected = F.scaled_dot_product_attention(leaves[0], *repeated, attn_mask=mask)
        torch.testing.assert_close(scaled_dot_product_attention(*leaves, mask), expected)
        torch.testing.assert_close(scaled_dot_product_attention(*leaves, mask, return_weights=True)[0], expected)


@pytest.mark.parametrize("leading", LEADING, ids=len)
def test_a_score_mod_is_told_batch_and_head_whatever_the_leading_dimensions(leading):
    def slanted(score, batch, head, q_idx, kv_idx):
        return score + (0.3 * batch - 0.2 * head + 0.5 * q_idx) * kv_idx

    leaves = with_leading(leading)
    batch = leading if len(leading) < 2 else leading[:-1]
    numbers = torch.arange(math.prod(leading)).view(leading)
    n_heads = 1 if len(leading) < 2 else leading[-1]
    batch, head = (numbers // n_heads)[..., None, None], (numbers % n_heads)[..., None, None]
    scores = leaves[0] @ leaves[1].mT / math.sqrt(D_HEAD)
    expected = slanted(scores, batch, head, torch.arange(QUERIES)[:, None], torch.arange(KEYS)).softmax(-1)
    output, weights = scaled_dot_product_attention(*leaves, score_mod=slanted, return_weights=True)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(output, expected @ leaves[2])
    torch.testing.assert_close(attention_weights(*leaves[:2], score_mod=slanted), expected)


@pytest.mark.parametrize("rule", [None, CausalMask(), SlidingWindowMask(2), "bool"])
@pytest.mark.parametrize("leading", [(), (0,), (3,), (0, 4), (3, 0), (2, 0, 4)])
def test_empty_inputs_give_empty_outputs_zeros_and_gradients_of_zero(leading, rule):
    for n_queries, n_keys in ((QUERIES, KEYS), (0, KEYS), (0, 0), (QUERIES, 0)):
        if math.prod(leading) and n_queries and n_keys or n_queries > n_keys and isinstance(rule, Mask):
            continue
        leaves = with_leading(leading, queries=n_queries, keys=n_keys)
        mask = torch.ones(n_queries, n_keys, dtype=torch.bool) if rule == "bool" else rule
        expected = F.scaled_dot_product_attention(*leaves)
        for return_weights in (False, True):
            result = scaled_dot_product_attention(*leaves, mask, return_weights=return_weights)
            output, weights = result if return_weights else (result, None)
            assert output.shape == expected.shape == (*leading, n_queries, D_VALUE)
            assert output.eq(0).all() and expected.eq(0).all()
            assert weights is None or weights.shape == (*leading, n_queries, n_keys)
            for grad, leaf in zip(torch.autograd.grad(output.sum(), leaves), leaves, strict=True):
                assert grad.shape == leaf.shape and grad.eq(0).all()


def torch_twin(ours: MultiHeadAttention, d_model, d_context) -> nn.MultiheadAttention:
    """PyTorch's module with our weights (it wants as many key-value heads and value width = head width)."""
    twin = nn.MultiheadAttention(d_model, ours.n_heads, kdim=d_context, vdim=d_context, batch_first=True)
    with torch.no_grad():
        if twin.in_proj_weight is None:
            twin.q_proj_weight.copy_(ours.w_query.weight)
            twin.k_proj_weight.copy_(ours.w_key.weight)
            twin.v_proj_weight.copy_(ours.w_value.weight)
        else:
            twin.in_proj_weight.copy_(torch.cat([ours.w_query.weight, ours.w_key.weight, ours.w_value.weight]))
        twin.in_proj_bias.copy_(torch.cat([ours.w_query.bias, ours.w_key.bias, ours.w_value.bias]))
        twin.out_proj.load_state_dict(ours.w_output.state_dict())
    return twin


@pytest.mark.syllabus("CMU-09", "UCL-21", "UCL-22")
@pytest.mark.parametrize("d_context", [None, 10])
@pytest.mark.parametrize("return_weights", [False, True])
def test_multi_head_attention_equals_pytorch_with_copied_weights(d_context, return_weights):
    ours = randomize(CrossAttention(24, 3, d_context=d_context, bias=True))
    twin = torch_twin(ours, 24, d_context or 24)
    x = torch.randn(BATCH, QUERIES, 24, generator=torch.Generator().manual_seed(2))
    context = torch.randn(BATCH, KEYS, d_context or 24, generator=torch.Generator().manual_seed(3))
    mask = random_mask(shape=(QUERIES, KEYS))
    expected, expected_weights = twin(x, context, context, attn_mask=~mask, average_attn_weights=False)
    result = ours(x, context, mask, return_weights=return_weights)
    torch.testing.assert_close(result[0] if return_weights else result, expected, rtol=1e-4, atol=1e-5)
    if return_weights:
        torch.testing.assert_close(result[1], expected_weights)


@pytest.mark.syllabus("UCL-21")
def test_every_size_of_its_own():
    """Head width apart from d_model / n_heads, values wider than keys, fewer key-value heads, another context width."""
    module = randomize(
        CrossAttention(20, 6, n_kv_heads=2, d_head=5, d_value=7, d_context=11, bias=True).to(torch.float64)
    )
    linears = [module.w_query, module.w_key, module.w_value, module.w_output]
    assert [tuple(linear.weight.shape) for linear in linears] == [(30, 20), (10, 11), (14, 11), (20, 42)]
    g = torch.Generator().manual_seed(4)
    x = torch.randn(BATCH, QUERIES, 20, generator=g, dtype=torch.float64)
    context = torch.randn(BATCH, KEYS, 11, generator=g, dtype=torch.float64)
    # MultiHead = sum over heads of weights_j (C W_j^V) W_j^O, one head at a time
    expected = module.w_output.bias.expand(BATCH, QUERIES, 20).clone()
    q, k, v = module.w_query(x), module.w_key(context), module.w_value(context)
    for j in range(6):
        kv = j // 3
        q_j, k_j, v_j = q[..., 5 * j : 5 * j + 5], k[..., 5 * kv : 5 * kv + 5], v[..., 7 * kv : 7 * kv + 7]
        weights = torch.softmax(q_j @ k_j.mT / math.sqrt(5), -1)
        expected += weights @ v_j @ module.w_output.weight[:, 7 * j : 7 * j + 7].T
    torch.testing.assert_close(module(x, context), expected)
    torch.testing.assert_close(module(x, context, return_weights=True)[0], expected)


@pytest.mark.syllabus("UCL-22", "IITD-03")
def test_unmasked_attention_is_equivariant_to_order():
    module = randomize(SelfAttention(12, 3, bias=True))
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(5))
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(module(x[:, order]), module(x)[:, order])
    mask = CausalMask().as_tensor(5)
    assert not torch.allclose(module(x[:, order], mask=mask), module(x, mask=mask)[:, order])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (dict(d_model=10, n_heads=3), "n_heads=3 must divide d_model=10 unless d_head"),
        (dict(d_model=12, n_heads=4, n_kv_heads=3), "n_kv_heads=3 must divide n_heads=4"),
        (dict(d_model=12, n_heads=0), "n_heads=0"),
        (dict(d_model=12, n_heads=3, d_value=0), "d_value=0"),
        (dict(d_model=12, n_heads=3, clip_qkv=0.0), "clip_qkv=0.0 must be above 0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        SelfAttention(**arguments)


class Everywhere(PositionScheme):
    """Uses every hook in a way that can be written out: positions turn signs, shift scores and add to the output."""

    explicit_only = "it adds to the output"

    def rotate(self, x, positions, tables=None):
        return x * (1 + positions)[:, None, :, None].to(x.dtype)

    def scale(self, d_head):
        return 1 / d_head

    def bias(self, query, key, context):
        assert context.projections[0].weight.shape == (6, 8) and query.shape[1] == 3 and key.shape[1] == 1
        return context.offsets[:, None].to(query.dtype) / 7

    def add_to_output(self, weights, context):
        return (weights * context.offsets[:, None]).sum(-1, keepdim=True).expand(-1, -1, -1, 2)


def test_attention_calls_each_hook_of_a_position_scheme_in_its_place():
    module = randomize(CrossAttention(8, 3, n_kv_heads=1, d_head=2, d_context=5, position=Everywhere(), bias=True))
    g = torch.Generator().manual_seed(6)
    x, context = torch.randn(3, 4, 8, generator=g), torch.randn(3, 6, 5, generator=g)
    positions = torch.tensor([[5, 6, 7, 8], [2, 3, 4, 5], [0, 1, 2, 9]])
    context_positions = torch.arange(6)[None] * 2
    mask = random_mask(shape=(3, 1, 4, 6))
    query = module.w_query(x).view(3, 4, 3, 2) * (1 + positions)[:, :, None, None]
    key = module.w_key(context) * (1 + context_positions)[:, :, None]
    away = context_positions[:, None] - positions[:, :, None]  # (batch, queries, keys)
    scores = torch.einsum("bqhd,bkd->bhqk", query, key) / 2 + away[:, None] / 7
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    heads = weights @ module.w_value(context)[:, None] + (weights * away[:, None]).sum(-1, keepdim=True)
    expected = module.w_output(heads.transpose(1, 2).flatten(2))
    given = dict(positions=positions, context_positions=context_positions)
    output, found = module(x, context, mask, **given, return_weights=True)
    torch.testing.assert_close(found, weights)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(module(x, context, mask, **given), expected)  # what is possible: the explicit path
    with pytest.raises(ValueError, match="fused=True is not possible here.*it adds to the output"):
        module(x, context, mask, **given, fused=True)


def test_positions_count_from_zero_by_default_and_context_has_its_own():
    module = randomize(SelfAttention(8, 3, n_kv_heads=1, d_head=2, position=Everywhere()))
    cross = CrossAttention(8, 3, n_kv_heads=1, d_head=2, position=Everywhere())
    cross.load_state_dict(module.state_dict())
    x, context = torch.randn(2, 4, 8), torch.randn(2, 6, 8)
    positions = torch.arange(4)[None]
    torch.testing.assert_close(module(x), module(x, positions=positions))
    torch.testing.assert_close(
        module(x, positions=positions + 3), cross(x, x, positions=positions + 3, context_positions=positions + 3)
    )
    torch.testing.assert_close(cross(x, context), cross(x, context, context_positions=torch.arange(6)[None]))


def test_fused_and_explicit_are_chosen_by_one_flag(monkeypatch):
    module, x = SelfAttention(8, 2), torch.randn(2, 4, 8)
    taken = []
    original = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: taken.append(1) or original(*a, **k))
    for fused, calls in ((None, 1), (True, 1), (False, 0)):
        taken.clear()
        module(x, fused=fused)
        assert len(taken) == calls
    with pytest.raises(ValueError, match="fused=True is not possible here.*return_weights=True"):
        module(x, fused=True, return_weights=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_bias_and_a_mask_together_on_both_paths(dtype):
    query, key, value = inputs(kv_heads=2, dtype=dtype)
    mask = random_mask()
    mask[1, 2, 3] = False
    bias = torch.randn(1, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(8))
    for given in (mask, None):
        fused = scaled_dot_product_attention(query, key, value, given, bias=bias)
        explicit, _ = scaled_dot_product_attention(query, key, value, given, bias=bias, return_weights=True)
        torch.testing.assert_close(explicit, fused, **TOLERANCE[dtype])
    without = scaled_dot_product_attention(query, key, value)
    assert not torch.allclose(fused, without, atol=0.05)


def test_compiles_without_a_graph_break(run_without_shape_checks):
    code = (
        "import torch; from llm_anatomy.layers.attention import SelfAttention\n"
        "from llm_anatomy.layers.masks import CausalMask\n"
        "m = SelfAttention(12, 3, n_kv_heads=1).eval(); x = torch.randn(2, 5, 12)\n"
        "f = torch.compile(m, fullgraph=True, backend='eager')\n"
        "for w in (False, True):\n"
        "    a, b = (g(x, mask=CausalMask().as_tensor(5), return_weights=w) for g in (f, m))\n"
        "    torch.testing.assert_close(a, b)"
    )
    run_without_shape_checks(code)


# --- Hooks of queries, keys and scores, against the models that have them ---


def hugging_face_twin(ours, module, config):
    twin = module(config, layer_idx=0).double()
    with torch.no_grad():
        for theirs, linear in zip(
            (twin.q_proj, twin.k_proj, twin.v_proj, twin.o_proj),
            (ours.w_query, ours.w_key, ours.w_value, ours.w_output),
            strict=True,
        ):
            theirs.load_state_dict(linear.state_dict())
    return twin


def half_split_tables(positions, d_head, base):
    frequencies = 1 / base ** (torch.arange(0, d_head, 2) / d_head)  # in float32, as all keep them
    angles = positions[..., None].double() * frequencies.double()
    return [torch.cat((t, t), -1) for t in (angles.cos(), angles.sin())]


def test_norms_of_queries_and_keys_equal_qwen3s():
    """Per head, before the rotation; grouped queries, heads wider than d_model / n_heads."""
    from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3Config

    norms = dict(query_norm=nn.RMSNorm(8, eps=1e-6), key_norm=nn.RMSNorm(8, eps=1e-6))
    ours = SelfAttention(20, 6, n_kv_heads=2, d_head=8, position=HalfSplitRotary(8, base=500.0), **norms)
    randomize(ours.double())
    config = Qwen3Config(
        hidden_size=20, num_attention_heads=6, num_key_value_heads=2, head_dim=8, attn_implementation="sdpa"
    )
    twin = hugging_face_twin(ours, Qwen3Attention, config)
    twin.q_norm, twin.k_norm = ours.query_norm, ours.key_norm  # PyTorch's: theirs computes in float32
    x, positions = torch.randn(3, 7, 20, dtype=torch.float64), torch.arange(4, 11)[None]
    mask = CausalMask().as_tensor(7).double().log()[None, None]
    expected, _ = twin(x, half_split_tables(positions, 8, 500.0), mask)
    for fused in (True, False):
        found = ours(x, mask=CausalMask(), positions=positions, fused=fused)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    ours.query_norm, ours.key_norm = ours.key_norm, ours.query_norm  # a planted fault
    assert not torch.allclose(ours(x, mask=CausalMask(), positions=positions), expected, atol=1e-3)


def test_norms_across_heads_equal_olmo_2s():
    from transformers.models.olmo2.modeling_olmo2 import Olmo2Attention, Olmo2Config

    norms = dict(query_norm=AcrossHeads(nn.RMSNorm(24)), key_norm=AcrossHeads(nn.RMSNorm(8)))
    ours = SelfAttention(24, 6, n_kv_heads=2, position=HalfSplitRotary(4), **norms)
    randomize(ours.double())
    config = Olmo2Config(hidden_size=24, num_attention_heads=6, num_key_value_heads=2, attn_implementation="sdpa")
    twin = hugging_face_twin(ours, Olmo2Attention, config)
    twin.q_norm, twin.k_norm = ours.query_norm.norm, ours.key_norm.norm  # PyTorch's: theirs computes in float32
    x, positions = torch.randn(3, 7, 24, dtype=torch.float64), torch.arange(7)[None]
    tables = [table.float() for table in half_split_tables(positions, 4, 10000.0)]  # theirs turns in float32
    expected, _ = twin(x, tables, CausalMask().as_tensor(7).double().log()[None, None])
    torch.testing.assert_close(ours(x, mask=CausalMask()), expected, rtol=1e-5, atol=1e-5)
    ours.query_norm = ours.query_norm.norm.__class__(4).double()  # a planted fault: per head
    assert not torch.allclose(ours(x, mask=CausalMask()), expected, atol=1e-3)


@pytest.mark.parametrize("bound", [0.3, 1.5, None])
def test_clipped_queries_keys_and_values_equal_olmos(bound):
    """Clipped as they are projected, before the rotation; grouped queries and biases."""
    from transformers.models.olmo.modeling_olmo import OlmoAttention, OlmoConfig

    rotary = HalfSplitRotary(4, base=500.0)
    ours = SelfAttention(24, 6, n_kv_heads=2, position=rotary, bias=True, clip_qkv=bound)
    randomize(ours.double())
    config = OlmoConfig(hidden_size=24, num_attention_heads=6, num_key_value_heads=2, clip_qkv=bound)
    config.attention_bias, config._attn_implementation = True, "sdpa"
    twin = hugging_face_twin(ours, OlmoAttention, config)
    x, positions = torch.randn(3, 7, 24, dtype=torch.float64), torch.arange(4, 11)[None]
    mask = CausalMask().as_tensor(7).double().log()[None, None]
    expected, _ = twin(x, half_split_tables(positions, 4, 500.0), mask)
    for fused in (True, False):
        found = ours(x, mask=CausalMask(), positions=positions, fused=fused)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)  # theirs turns in float32
    ours.clip_qkv = 0.31  # a planted fault
    assert not torch.allclose(ours(x, mask=CausalMask(), positions=positions), expected, atol=1e-3)


@torch.no_grad()
def test_a_clipped_key_stays_clipped_in_the_cache():
    ours = randomize(SelfAttention(12, 3, n_kv_heads=1, clip_qkv=0.4))
    x, cache = torch.randn(2, 5, 12), ours.new_cache(2, 5)
    whole = ours(x, mask=CausalMask())
    steps = [ours(x[:, i : i + 1], mask=CausalMask(), cache=cache) for i in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-5, atol=1e-5)
    assert all(kept.abs().max() <= 0.4 for kept in cache.read()[:2])


def test_soft_capped_scores_and_their_scale_equal_gemma_2s():
    from transformers.models.gemma2.modeling_gemma2 import Gemma2Attention, Gemma2Config

    class Scaled(HalfSplitRotary):
        def scale(self, d_head):
            return 1 / math.sqrt(3)

    ours = SelfAttention(24, 6, n_kv_heads=2, d_head=8, position=Scaled(8), score_mod=Softcapping(0.9))
    randomize(ours.double())
    config = Gemma2Config(
        hidden_size=24,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=8,
        query_pre_attn_scalar=3,
        attn_logit_softcapping=0.9,
        attn_implementation="eager",
    )
    twin = hugging_face_twin(ours, Gemma2Attention, config)
    x, positions = torch.randn(3, 7, 24, dtype=torch.float64), torch.arange(7)[None]
    mask = CausalMask().as_tensor(7).double().log()[None, None]
    expected, weights = twin(x, half_split_tables(positions, 8, 10000.0), mask)
    found, ours_weights = ours(x, mask=CausalMask(), return_weights=True)
    # theirs takes the softmax in float32
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours_weights, weights, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours(x, mask=CausalMask()), found)  # what is possible: the explicit path
    with pytest.raises(ValueError, match=r"fused=True is not possible here.*Softcapping\(0.9\) changes the scores"):
        ours(x, mask=CausalMask(), fused=True)
    ours.score_mod = None  # a planted fault
    assert not torch.allclose(ours(x, mask=CausalMask()), expected, atol=1e-3)


def test_a_score_mod_is_told_the_batch_head_query_and_key_of_each_score():
    """One score at a time, with plain numbers in FlexAttention's order; no two indices can be exchanged unseen."""

    def slanted(score, batch, head, q_idx, kv_idx):
        return score + (0.3 * batch - 0.2 * head + 0.5 * q_idx) * kv_idx

    query, key, value = inputs(kv_heads=2)
    scores = query @ key.repeat_interleave(2, 1).mT / math.sqrt(D_HEAD)
    for at in product(*map(range, scores.shape)):
        scores[at] = slanted(scores[at], *at)
    output, weights = scaled_dot_product_attention(query, key, value, score_mod=slanted, return_weights=True)
    torch.testing.assert_close(weights, scores.softmax(-1))
    torch.testing.assert_close(output, weights @ value.repeat_interleave(2, 1))
    torch.testing.assert_close(scaled_dot_product_attention(query, key, value, score_mod=slanted), output)


def test_a_soft_cap_bounds_and_its_gradient_is_right():
    cap, scores = Softcapping(3.0), torch.linspace(-50, 50, 11, dtype=torch.float64, requires_grad=True)
    assert cap(scores).abs().max() <= 3 and torch.autograd.gradcheck(cap, scores)
    torch.testing.assert_close(Softcapping(1e6)(scores), scores)
    with pytest.raises(ValueError, match="cap=0.0 must be above 0"):
        Softcapping(0.0)
    with pytest.raises(ValueError, match="cap=nan must be above 0"):
        Softcapping(math.nan)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("d_value", [3, 6, 11])
@pytest.mark.parametrize("kv_heads", [HEADS, 2, 1])
@pytest.mark.parametrize("n_queries", [1, QUERIES])
def test_the_kernel_is_asked_so_that_nothing_but_speed_changes(n_queries, kv_heads, d_value, dtype):
    """Values wider and narrower than keys; one query, whose heads may ask together; masks and biases of every shape."""
    g = torch.Generator().manual_seed(11)
    query = torch.randn(BATCH, HEADS, n_queries, D_HEAD, generator=g).to(dtype)
    key, value = (torch.randn(BATCH, kv_heads, KEYS, d, generator=g).to(dtype) for d in (D_HEAD, d_value))
    masks = [
        None,
        (KEYS,),
        (n_queries, KEYS),
        (BATCH, 1, 1, KEYS),
        (BATCH, HEADS, n_queries, KEYS),
        (BATCH, 1, n_queries, 1),
    ]
    biases = [None, (1, HEADS, n_queries, KEYS), (BATCH, 1, n_queries, KEYS)]
    for mask_shape in masks:
        mask = None if mask_shape is None else torch.rand(mask_shape, generator=g) < 0.7
        for bias_shape in biases:
            bias = None if bias_shape is None else torch.randn(bias_shape, generator=g).to(dtype)
            fused = scaled_dot_product_attention(query, key, value, mask, bias=bias)
            explicit, _ = scaled_dot_product_attention(query, key, value, mask, bias=bias, return_weights=True)
            torch.testing.assert_close(fused, explicit, **TOLERANCE[dtype])


@pytest.mark.parametrize("device", DEVICES)
def test_state_meta_and_gradients_with_every_hook(device):
    norms = dict(query_norm=nn.RMSNorm(4), key_norm=nn.RMSNorm(4))
    sizes = dict(n_kv_heads=2, d_head=4, d_value=3, position=HalfSplitRotary(4), score_mod=Softcapping(2.0), bias=True)
    ours = randomize(SelfAttention(10, 6, **sizes, **norms)).to(device).double()
    twin = SelfAttention(10, 6, **sizes, query_norm=nn.RMSNorm(4), key_norm=nn.RMSNorm(4)).to(device).double()
    twin.load_state_dict(ours.state_dict())
    x = torch.randn(1, 4, 10, dtype=torch.float64, device=device, requires_grad=True)
    torch.testing.assert_close(twin(x, mask=CausalMask()), ours(x, mask=CausalMask()))
    assert torch.autograd.gradcheck(lambda x: ours(x, mask=CausalMask()), x)
    ours(x, mask=CausalMask()).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in ours.parameters())
    meta = ours.to("meta")
    assert meta(torch.empty(2, 5, 10, dtype=torch.float64, device="meta"), mask=CausalMask()).shape == (2, 5, 10)


NEEDS_COMPILER = pytest.mark.skipif(not shutil.which("c++"), reason="the default backend needs a compiler")


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=[pytest.mark.slow, NEEDS_COMPILER])])
def test_compiles_with_its_gradients(backend, run_without_shape_checks):
    run_without_shape_checks(f"""
import torch
from llm_anatomy.layers.attention import SelfAttention
from llm_anatomy.layers.masks import CausalMask, Mask, SlidingWindowMask
from llm_anatomy.layers.positions.rotary import HalfSplitRotary
norm = torch.nn.RMSNorm(6)
attention = SelfAttention(12, 4, n_kv_heads=2, d_head=6, position=HalfSplitRotary(4), query_norm=norm)
x, mask = torch.randn(3, 7, 12, requires_grad=True), CausalMask()
compiled = torch.compile(attention, fullgraph=True, backend={backend!r})
torch.testing.assert_close(compiled(x, mask=mask), attention(x, mask=mask))
gradients = [torch.autograd.grad(f(x, mask=mask).square().sum(), x)[0] for f in (compiled, attention)]
torch.testing.assert_close(*gradients)
""")
