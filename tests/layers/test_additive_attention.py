"""Additive attention against the formula, one score at a time."""

import math

import pytest
import torch
from randomness import randomize

from llm_anatomy.layers.additive_attention import AdditiveAttention
from llm_anatomy.layers.masks import CausalMask

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, QUERIES, KEYS, D_QUERY, D_KEY, D_HIDDEN, D_VALUE = 3, 5, 7, 4, 6, 8, 9


def make(bias=True, dtype=torch.float32, device="cpu"):
    return randomize(AdditiveAttention(D_QUERY, D_KEY, D_HIDDEN, bias=bias), scale=1.0).to(device, dtype)


def inputs(dtype=torch.float32, device="cpu"):
    g = torch.Generator().manual_seed(1)
    shapes = (QUERIES, D_QUERY), (KEYS, D_KEY), (KEYS, D_VALUE)
    return [torch.randn(BATCH, *shape, generator=g).to(device, dtype) for shape in shapes]


def random_mask(shape=(BATCH, QUERIES, KEYS)):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(2)) < 0.6
    mask[..., 0] |= ~mask.any(-1)
    return mask


def written_out(module, query, key, value, mask):
    """v·tanh(W q + U k + b), a softmax and an average, in Python floats."""
    w, u, v = (m.weight.tolist() for m in (module.w_query, module.w_key, module.v))
    b = [0.0] * D_HIDDEN if module.w_query.bias is None else module.w_query.bias.tolist()
    allowed = torch.ones(BATCH, QUERIES, KEYS) if mask is None else mask.expand(BATCH, QUERIES, KEYS)
    weights, output = torch.zeros(BATCH, QUERIES, KEYS), torch.zeros(BATCH, QUERIES, value.shape[-1])
    for n in range(BATCH):
        for i, q in enumerate(query[n].tolist()):
            exponentials = []
            for j, k in enumerate(key[n].tolist()):
                score = 0.0
                for h in range(D_HIDDEN):
                    inner = b[h] + sum(x * y for x, y in zip(w[h], q, strict=True))
                    inner += sum(x * y for x, y in zip(u[h], k, strict=True))
                    score += v[0][h] * math.tanh(inner)
                exponentials.append(math.exp(score) if allowed[n, i, j] else 0.0)
            for j, e in enumerate(exponentials):
                if e:
                    weights[n, i, j] = e / sum(exponentials)
                    output[n, i] += weights[n, i, j] * value[n, j]
    return output, weights


@pytest.mark.syllabus("UCL-18")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [None, (QUERIES, KEYS), (BATCH, 1, KEYS), (BATCH, QUERIES, KEYS)])
def test_equals_the_formula_written_out(shape, bias, device):
    module, given = make(bias), inputs()
    mask = None if shape is None else random_mask(shape)
    expected, expected_weights = written_out(module, *given, mask)
    module, given = module.to(device), [x.to(device) for x in given]
    mask = None if mask is None else mask.to(device)
    output, weights = module(*given, mask, return_weights=True)
    torch.testing.assert_close(weights.cpu(), expected_weights, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(output.cpu(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module(*given, mask), output)


@pytest.mark.parametrize(
    "plant",
    [
        lambda m: m.w_key.weight.neg_(),
        lambda m: m.w_query.bias.zero_(),
        lambda m: m.v.weight.mul_(1 / math.sqrt(D_HIDDEN)),  # a scale that additive scores do not have
    ],
)
def test_a_planted_fault_is_seen(plant):
    expected, _ = written_out(make(), *inputs(), None)
    faulty = make()
    with torch.no_grad():
        plant(faulty)
    assert not torch.allclose(faulty(*inputs()), expected, atol=1e-2)


@pytest.mark.syllabus("UCL-18", "UCL-19")
def test_scores_are_additive_and_bounded_where_dot_products_are_neither():
    module, (query, key, _) = make(), inputs()
    bound = module.v.weight.abs().sum()
    assert (module.scores(1e3 * query, 1e3 * key).abs() <= bound * 1.001).all()
    assert (query[:, :, None] * key[:, None, :, :D_QUERY]).sum(-1).mul(1e6).abs().max() > bound
    # what W takes from the query may as well come from the key: only the sum inside tanh matters
    module = randomize(AdditiveAttention(4, 4, 5), scale=1.0)
    module.w_key.load_state_dict(module.w_query.state_dict())
    x, y, shift = torch.randn(3, BATCH, QUERIES, 4, generator=torch.Generator().manual_seed(3)).unbind()
    shift = shift[:, :1]
    torch.testing.assert_close(module.scores(x + shift, y), module.scores(x, y + shift), rtol=1e-4, atol=1e-5)


def test_keys_are_the_values_by_default():
    module, (query, key, _) = make(), inputs()
    torch.testing.assert_close(module(query, key), module(query, key, key))
    output = module(query, key, mask=random_mask())
    torch.testing.assert_close(output, module(query, key, key, random_mask()))


@pytest.mark.syllabus("UCL-20")
def test_causal_mask_and_a_query_that_may_attend_to_nothing():
    module, (_, key, value) = randomize(AdditiveAttention(D_KEY, D_KEY), scale=1.0), inputs()
    mask = CausalMask().as_tensor(KEYS)
    before, weights = module(key, key, value, mask, return_weights=True)
    assert weights.triu(1).eq(0).all()
    changed = value.clone()
    changed[:, 4:] = 50.0
    after = module(key, key, changed, mask)
    torch.testing.assert_close(after[:, :4], before[:, :4])
    assert not torch.allclose(after[:, 4:], before[:, 4:])
    mask = mask.expand(BATCH, KEYS, KEYS).clone()
    mask[1, 3] = False
    key.requires_grad_()
    output, weights = module(key, key, value, mask, return_weights=True)
    assert output[1, 3].eq(0).all() and weights[1, 3].eq(0).all() and output[1, 2].ne(0).all()
    output.square().sum().backward()
    assert key.grad.isfinite().all() and module.v.weight.grad.isfinite().all()


def test_gradients():
    module = make(dtype=torch.float64)
    given = [x[:1, :3].requires_grad_() for x in inputs(torch.float64)]
    mask = torch.tensor([[True, False, True], [True, True, True], [False, False, False]])
    assert torch.autograd.gradcheck(lambda *x: module(*x, mask), given)


@pytest.mark.parametrize("device", DEVICES)
def test_bfloat16_is_close_to_float32(device):
    given, mask = inputs(device=device), random_mask().to(device)
    expected = make(device=device)(*given, mask)
    found = make(dtype=torch.bfloat16, device=device)(*(x.bfloat16() for x in given), mask)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=0.1, atol=0.1)


def test_state_dict_meta_and_default_width():
    module, (query, key, value) = make(), inputs()
    with torch.device("meta"):
        late = AdditiveAttention(D_QUERY, D_KEY, D_HIDDEN, bias=True)
    assert late(query.to("meta"), key.to("meta")).shape == (BATCH, QUERIES, D_KEY)
    late = late.to_empty(device="cpu")
    late.load_state_dict(module.state_dict())
    torch.testing.assert_close(late(query, key, value), module(query, key, value))
    assert AdditiveAttention(4, 6).v.weight.shape == (1, 4)


@pytest.mark.slow
def test_compiles_without_a_graph_break(run_without_shape_checks):
    code = (
        "import torch; from llm_anatomy.layers.additive_attention import AdditiveAttention\n"
        "m = AdditiveAttention(4, 6, 5); f = torch.compile(m, fullgraph=True, backend='eager')\n"
        "q, k, mask = torch.randn(2, 3, 4), torch.randn(2, 7, 6), torch.rand(3, 7) < 0.5\n"
        "torch.testing.assert_close(f(q, k), m(q, k))\n"
        "for a, b in zip(f(q, k, k, mask, return_weights=True), m(q, k, k, mask, return_weights=True)):\n"
        "    torch.testing.assert_close(a, b)"
    )
    run_without_shape_checks(code)


bare_forward = getattr(AdditiveAttention.forward, "__wrapped__", AdditiveAttention.forward)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (dict(query=torch.zeros(3, 5, 6)), ValueError, r"query has shape \(3, 5, 6\); it must be \(batch, tokens, 4\)"),
        (dict(key=torch.zeros(7, 6)), ValueError, r"key has shape \(7, 6\); it must be \(batch, tokens, 6\)"),
        (dict(key=torch.zeros(2, 7, 6)), ValueError, "must agree in batch"),
        (dict(value=torch.zeros(3, 8, 9)), ValueError, "key and value in tokens"),
        (dict(mask=torch.zeros(5, 7)), TypeError, "torch.float32; it must be torch.bool"),
        (dict(mask=torch.ones(7, 5).bool()), ValueError, r"mask has shape \(7, 5\); it must broadcast"),
    ],
)
def test_misfits_are_refused_in_one_sentence(change, error, sentence):
    given = dict(zip(("query", "key", "value"), inputs(), strict=True)) | change
    with pytest.raises(error, match=sentence):
        bare_forward(make(), **given)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="d_key=0 must be at least 1"):
        AdditiveAttention(4, 0)
