"""Linear attention against sums written out, and random features against the softmax that they estimate."""

import inspect
import math
import types

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from llm_anatomy.layers import linear_attention as ours
from llm_anatomy.layers.functional import scaled_dot_product_attention
from llm_anatomy.layers.linear_attention import (
    EluPlusOne,
    FeatureMap,
    LinearAttentionState,
    PositiveRandomFeatures,
    causal_linear_attention,
    linear_attention,
    orthogonal_directions,
)
from llm_anatomy.layers.masks import CausalMask
from llm_anatomy.layers.positions.rotary import HalfSplitRotary, InterleavedRotary

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, HEADS, TOKENS, KEYS, D_HEAD, D_VALUE, FEATURES = 3, 4, 11, 7, 6, 9, 16
POSITIONS = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], list(range(11)), [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5]])


def generator(seed):
    return torch.Generator().manual_seed(seed)


def inputs(seed=0, kv_heads=HEADS, keys=TOKENS, dtype=torch.float32, device="cpu"):
    g = generator(seed)
    shapes = (HEADS, TOKENS, D_HEAD), (kv_heads, keys, D_HEAD), (kv_heads, keys, D_VALUE)
    return [torch.randn(BATCH, *shape, generator=g).to(device, dtype) for shape in shapes]


def make_map(name):
    return EluPlusOne() if name == "elu" else PositiveRandomFeatures(D_HEAD, FEATURES, generator=generator(5))


def phi(x, feature_map):
    """Features of one vector, in Python floats, from the formulas of the papers."""
    x = x.tolist()
    if isinstance(feature_map, EluPlusOne):
        return [1 + v if v > 0 else math.exp(v) for v in x]
    x = [v / math.sqrt(math.sqrt(D_HEAD)) for v in x]
    half_square, m = sum(v * v for v in x) / 2, len(feature_map.directions)
    rows = feature_map.directions.tolist()
    return [math.exp(sum(w * v for w, v in zip(row, x, strict=True)) - half_square) / math.sqrt(m) for row in rows]


def turn(features, position, at):
    if position is None:
        return torch.tensor(features, dtype=torch.float64)
    return position.rotate(torch.tensor(features, dtype=torch.float64)[None, None, None], torch.tensor([[at]])).view(-1)


def written_out(
    query, key, value, feature_map, causal=False, attention_mask=None, position=None, positions=(None, None)
):
    """Sums over pairs, one output at a time."""
    group, output = HEADS // key.shape[1], torch.zeros(BATCH, HEADS, query.shape[2], D_VALUE, dtype=torch.float64)
    for b in range(BATCH):
        for h in range(HEADS):
            key_features = [phi(k, feature_map) for k in key[b, h // group]]
            for i in range(query.shape[2]):
                q = phi(query[b, h, i], feature_map)
                above, below = torch.zeros(D_VALUE, dtype=torch.float64), 0.0
                for j, k in enumerate(key_features[: i + 1] if causal else key_features):
                    if attention_mask is None or attention_mask[b, j]:
                        below += sum(a * c for a, c in zip(q, k, strict=True))
                        m, n = (0, 0) if position is None else (int(positions[0][b, i]), int(positions[1][b, j]))
                        similarity = turn(q, position, m) @ turn(k, position, n)
                        above += similarity * value[b, h // group, j].double()
                if below:
                    output[b, h, i] = above / below
    return output


def close(result, expected, tolerance=1e-9):
    torch.testing.assert_close(result.double(), expected.double(), rtol=tolerance, atol=tolerance)


PADDING = torch.tensor([[True] * 11, [False] * 4 + [True] * 7, [True, False, True] * 3 + [False] * 2])


@pytest.mark.syllabus("IITD-31")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kv_heads", [HEADS, 2, 1])
@pytest.mark.parametrize("name", ["elu", "random"])
def test_equals_the_sums_written_out(name, kv_heads, device):
    for attention_mask in (None, PADDING):
        query, key, value = inputs(kv_heads=kv_heads, dtype=torch.float64)
        feature_map = make_map(name).double()
        keys = slice(0, KEYS)  # queries and keys of different numbers
        pad = None if attention_mask is None else attention_mask[:, keys]
        given = [x.to(device) for x in (query, key, value)]
        on_device, moved = feature_map.to(device), None if attention_mask is None else attention_mask.to(device)
        expected = written_out(query, key[:, :, keys], value[:, :, keys], feature_map, attention_mask=pad)
        short = (x[:, :, keys] for x in given[1:])
        found = linear_attention(given[0], *short, on_device, attention_mask=None if moved is None else moved[:, keys])
        close(found.cpu(), expected)
        expected = written_out(query, key, value, feature_map, causal=True, attention_mask=attention_mask)
        for block_size in (1, 4, 64):
            found, _ = causal_linear_attention(*given, on_device, attention_mask=moved, block_size=block_size)
            close(found.cpu(), expected)
        if attention_mask is not None:
            assert found[1, :, :4].eq(0).all() and found[1, :, 4:].ne(0).all()  # nothing to read: zero
    in_float32 = [x.float() for x in (query, key, value)]
    found, _ = causal_linear_attention(*(x.to(device) for x in in_float32), on_device.float(), block_size=4)
    close(found.cpu(), written_out(*in_float32, feature_map.cpu(), causal=True), 1e-4)


@pytest.mark.syllabus("GT-52", "IITD-31")
@pytest.mark.parametrize("name", ["elu", pytest.param("random", marks=pytest.mark.slow)])
def test_rotary_positions_turn_the_numerator_only(name):
    query, key, value = inputs(kv_heads=2, dtype=torch.float64)
    feature_map, position = make_map(name).double(), InterleavedRotary(6, base=50.0)
    key_positions = POSITIONS[:, :KEYS] * 2
    expected = written_out(
        query,
        key[:, :, :KEYS],
        value[:, :, :KEYS],
        feature_map,
        position=position,
        positions=(POSITIONS, key_positions),
    )
    found = linear_attention(
        query,
        key[:, :, :KEYS],
        value[:, :, :KEYS],
        feature_map,
        position=position,
        query_positions=POSITIONS,
        key_positions=key_positions,
    )
    close(found, expected, 1e-6)  # the tables of the rotation are float32
    expected = written_out(
        query, key, value, feature_map, causal=True, position=position, positions=(POSITIONS, POSITIONS)
    )
    given = dict(position=position, positions=POSITIONS)
    found, _ = causal_linear_attention(query, key, value, feature_map, **given, block_size=4)
    close(found, expected, 1e-6)
    shifted, _ = causal_linear_attention(
        query, key, value, feature_map, position=position, positions=POSITIONS + 30, block_size=4
    )
    close(shifted, found, 1e-4)  # only differences of positions matter
    default, _ = causal_linear_attention(query, key, value, feature_map, position=position)
    close(default[1], found[1], 1e-9)  # the second sequence stands at 0, 1, 2, …


FAULTS = {
    "the block itself is forgotten": ("output = weights @ value + before", "output = before"),
    "the past is forgotten": ("+ before * (query @ state.normalizer)", ""),
    "the past keeps its old scale": ("kept * state.sums", "state.sums"),
    "new keys keep theirs": ("(added * rotated_key)", "(rotated_key)"),
    "the future is read": ("device=key.device).triu(1)", "device=key.device).triu(2)"),
    "keys are taken for equally large": (" * within\n    normalizer", " * ~later\n    normalizer"),
    "no square of the length": (" - x.square().sum(-1, keepdim=True) / 2", ""),
    "scaled twice": ("d_head**0.25", "d_head**0.5"),
    "another slope": ("x.relu().log1p()", "x.relu()"),
    "other heads share": ("(kv_heads group) keys", "(group kv_heads) keys"),
    "padding the wrong way round": ("~attention_mask[:", "attention_mask[:"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault):
    source, (right, wrong) = inspect.getsource(ours), FAULTS[fault]
    assert source.count(right) == 1
    planted = types.ModuleType("planted")
    exec(source.replace(right, wrong), planted.__dict__)
    query, key, value = inputs(kv_heads=2, dtype=torch.float64)
    seen = 0
    for feature_map in (EluPlusOne(), make_map("random").double()):
        copied = getattr(planted, type(feature_map).__name__)
        copied = copied() if isinstance(feature_map, EluPlusOne) else copied(D_HEAD, FEATURES, generator=generator(5))
        found, _ = planted.causal_linear_attention(
            query, key, value, copied.double(), attention_mask=PADDING, block_size=4
        )
        expected = written_out(query, key, value, feature_map, causal=True, attention_mask=PADDING)
        seen += not torch.allclose(found, expected, rtol=1e-3, atol=1e-3)
    assert seen


# --- The softmax, estimated ---


@pytest.mark.syllabus("IITD-31")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_products_of_random_features_are_the_exponentials_on_average(seed):
    query, key = (torch.randn(5, D_HEAD, generator=generator(s), dtype=torch.float64) * 0.7 for s in (1, 2))
    exact = (query @ key.T / math.sqrt(D_HEAD)).exp()
    square = (query[:, None] + key).square().sum(-1) / math.sqrt(D_HEAD)
    for n_features in (500, 120_000):
        feature_map = PositiveRandomFeatures(D_HEAD, n_features, generator=generator(seed)).double()
        spread = (square.expm1() / n_features).sqrt()  # relative, of independent directions; orthogonal ones do better
        assert ((feature_map(query) @ feature_map(key).T / exact - 1).abs() < 4.5 * spread).all()
    assert spread.min() < 0.01  # which no wrong scale can pass


@pytest.mark.syllabus("IITD-31")
@pytest.mark.parametrize("causal", [False, True])
def test_the_more_features_the_closer_to_softmax_attention(causal):
    query, key, value = inputs(seed=3, dtype=torch.float64)
    query, key = query / 2, key / 2  # the variance grows with the exponential of the squared lengths
    exact = scaled_dot_product_attention(query, key, value, CausalMask().as_tensor(TOKENS) if causal else None)
    errors = []
    for n_features in (16, 128, 1024, 8192):
        error = 0.0
        for seed in range(4):
            feature_map = PositiveRandomFeatures(D_HEAD, n_features, generator=generator(seed)).double()
            attend = causal_linear_attention if causal else linear_attention
            found = attend(query, key, value, feature_map)
            error += ((found[0] if causal else found) - exact).square().mean().item() / 4
        errors.append(math.sqrt(error))
    assert all(more < 0.6 * fewer for fewer, more in zip(errors, errors[1:], strict=False))  # about 1/sqrt(8) each
    assert errors[-1] < 0.01 < 0.05 < errors[0]


def test_directions_are_orthogonal_in_blocks_and_as_long_as_normal_vectors():
    rows = orthogonal_directions(15, 6, generator=generator(0))
    assert rows.shape == (15, 6) and torch.linalg.matrix_rank(rows) == 6
    for block in rows.split(6):
        products = block @ block.T
        close(products - products.diag().diag(), torch.zeros_like(products), 1e-5)
    squares = orthogonal_directions(6000, 6, generator=generator(1)).square().sum(-1)  # chi-square of 6: 6 and 12
    assert abs(squares.mean() - 6) < 0.2 and abs(squares.var() - 12) < 1.5
    entries = orthogonal_directions(6000, 6, generator=generator(2))
    assert (entries.mean(0).abs() < 0.08).all() and ((entries.T @ entries / 6000 - torch.eye(6)).abs() < 0.1).all()
    assert torch.equal(rows, orthogonal_directions(15, 6, generator=generator(0)))


def test_orthogonal_directions_lower_the_error():
    n_blocks, feature_map = 40_000, PositiveRandomFeatures(D_HEAD, 1)
    query, key = (torch.randn(D_HEAD, generator=generator(s)) for s in (1, 2))
    length = (query + key).norm() / D_HEAD**0.25  # scaled to one, where the gain is large beside the noise
    query, key = query / length, key / length
    exact, errors = (query @ key / math.sqrt(D_HEAD)).exp(), []
    for directions in (
        orthogonal_directions(n_blocks * D_HEAD, D_HEAD, generator=generator(0)),
        torch.randn(n_blocks * D_HEAD, D_HEAD, generator=generator(0)),
    ):
        feature_map.directions = directions
        products = feature_map(query) * feature_map(key) * len(directions)
        errors.append((products.view(n_blocks, D_HEAD).mean(-1) - exact).square().mean())
    assert errors[0] < 0.95 * errors[1]


# --- Properties ---


@pytest.mark.parametrize("name", ["elu", "random"])
def test_the_future_has_no_influence_however_large(name):
    query, key, value = inputs()
    before, _ = causal_linear_attention(query, key, value, make_map(name), block_size=4)
    for factor in (50.0, 1e-3):
        later_key, later_value = key.clone(), value.clone()
        later_key[:, :, 6:], later_value[:, :, 6:] = factor * key[:, :, 6:], -50.0
        after, _ = causal_linear_attention(query, later_key, later_value, make_map(name), block_size=4)
        assert torch.equal(after[:, :, :6], before[:, :, :6])
        assert not torch.allclose(after[:, :, 6:], before[:, :, 6:])


@pytest.mark.parametrize("name", ["elu", "random"])
@pytest.mark.parametrize("block_size", [1, 4, 64])
def test_features_that_float32_cannot_hold(name, block_size):
    """A first key so long that its features underflow, as trained models have them: its own query still reads it."""
    query, key, value = inputs()
    key[:, :, 0] = 60.0 * key[:, :, 0].sign() if name == "random" else -200.0
    feature_map = make_map(name)
    assert feature_map(key[:, :, 0]).eq(0).any() and feature_map(key[:, :, 0]).min() == 0
    found, _ = causal_linear_attention(query, key, value, feature_map, block_size=block_size)
    assert found.isfinite().all()
    expected, _ = causal_linear_attention(query.double(), key.double(), value.double(), feature_map.double())
    close(found, expected, 1e-3)
    close(found[:, :, 0], value[:, :, 0], 1e-4)
    close(
        linear_attention(query, key, value, feature_map.float()), expected_bidirectional(query, key, value, name), 1e-3
    )


def expected_bidirectional(query, key, value, name):
    return linear_attention(query.double(), key.double(), value.double(), make_map(name).double())


@pytest.mark.parametrize("name", ["elu", "random"])
@pytest.mark.parametrize("position", [None, HalfSplitRotary(4)])
@pytest.mark.parametrize("steps", [[1] * 11, [5, 1, 1, 4], [3, 8]])
def test_in_parts_equals_the_whole(name, position, steps):
    """Token by token and in parts, with padding on the left."""
    query, key, value = inputs(kv_heads=2, dtype=torch.float64)
    feature_map = make_map(name).double()
    positions = POSITIONS if position is not None else None
    whole, last = causal_linear_attention(
        query, key, value, feature_map, attention_mask=PADDING, position=position, positions=positions, block_size=4
    )
    state, parts, start = None, [], 0
    for step in steps:
        here = slice(start, start + step)
        output, state = causal_linear_attention(
            *(x[:, :, here] for x in (query, key, value)),
            feature_map,
            state,
            attention_mask=PADDING[:, here],
            position=position,
            positions=None if positions is None else positions[:, here],
        )
        parts.append(output)
        start += step
    close(torch.cat(parts, 2), whole)
    for found, expected in zip(state, last, strict=True):
        close(found, expected)
    assert state.sums.shape == (BATCH, HEADS, feature_map(query).shape[-1], D_VALUE)


class LargestTensor(TorchDispatchMode):
    """Notes how many entries the largest tensor has that any operation makes."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else [result]:
            if isinstance(x, torch.Tensor):
                self.entries = max(self.entries, x.numel())
        return result


def test_no_tensor_grows_with_the_square_of_the_tokens():
    def largest(attend, n_tokens):
        leaves = [x.requires_grad_() for x in torch.randn(3, 1, 2, n_tokens, 8, generator=generator(0)).unbind()]
        with LargestTensor() as seen:
            result = attend(*leaves)
            (result[0] if isinstance(result, tuple) else result).sum().backward()
        return seen.entries

    for attend in (
        lambda q, k, v: linear_attention(q, k, v, EluPlusOne()),
        lambda q, k, v: causal_linear_attention(q, k, v, EluPlusOne(), block_size=16),
    ):
        assert largest(attend, 256) == 2 * 256 * 8 and largest(attend, 1024) == 2 * 1024 * 8
    explicit = largest(lambda q, k, v: scaled_dot_product_attention(q, k, v, return_weights=True), 256)
    assert explicit == 2 * 256 * 256  # what the test would see


@pytest.mark.parametrize("name", ["elu", "random"])
def test_gradients(name):
    g, feature_map = generator(7), make_map(name).double()
    query = torch.randn(1, 2, 5, D_HEAD, generator=g, dtype=torch.float64).requires_grad_()
    key = torch.randn(1, 1, 5, D_HEAD, generator=g, dtype=torch.float64).requires_grad_()
    value = torch.randn(1, 1, 5, 2, generator=g, dtype=torch.float64).requires_grad_()
    attention_mask = torch.tensor([[False, True, True, False, True]])
    rotary = HalfSplitRotary(4)
    assert torch.autograd.gradcheck(
        lambda *x: linear_attention(*x, feature_map, attention_mask=attention_mask), (query, key, value)
    )
    assert torch.autograd.gradcheck(
        lambda *x: causal_linear_attention(
            *x, feature_map, attention_mask=attention_mask, position=rotary, block_size=2
        )[0],
        (query, key, value),
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["elu", "random"])
def test_bfloat16_is_float32_rounded_at_both_ends(name, device):
    """Sums of many tokens need more than the 8 bits of bfloat16, so nothing between input and output is rounded."""
    halves = inputs(kv_heads=2, dtype=torch.bfloat16, device=device)
    feature_map = make_map(name).to(device)
    for attend in (linear_attention, lambda *x: causal_linear_attention(*x, block_size=4)[0]):
        expected, found = attend(*(x.float() for x in halves), feature_map), attend(*halves, feature_map)
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found.float(), expected, rtol=2**-8, atol=1e-6)
    _, state = causal_linear_attention(*halves, feature_map)
    assert {x.dtype for x in state} == {torch.float32}
    rounded = make_map(name).to(device, torch.bfloat16)  # a model moved as a whole: its directions are rounded too
    exact = linear_attention(*(x.float() for x in halves), feature_map)
    torch.testing.assert_close(linear_attention(*halves, rounded).float(), exact, rtol=3e-2, atol=3e-2)


def test_one_feature_map_of_ones_own_is_enough():
    class Exponential(FeatureMap):
        def log_features(self, x):
            return x

    query, key, value = inputs(dtype=torch.float64)
    weights = query.exp() @ key.exp().mT
    close(linear_attention(query, key, value, Exponential()), weights @ value / weights.sum(-1, keepdim=True))
    with pytest.raises(NotImplementedError, match="FeatureMap must implement log_features"):
        linear_attention(query, key, value, FeatureMap())


def test_the_slope_of_elu_plus_one_at_zero_is_one():
    x = torch.zeros(3, requires_grad=True)
    EluPlusOne()(x).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


def test_directions_belong_to_the_checkpoint_and_to_meta():
    first, second = (PositiveRandomFeatures(D_HEAD, FEATURES, generator=generator(s)) for s in (1, 2))
    assert list(first.state_dict()) == ["directions"] and not list(first.parameters())
    x = torch.randn(5, D_HEAD)
    assert not torch.allclose(first(x), second(x))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(x), second(x))
    given = [x.to("meta") for x in inputs(kv_heads=2)]
    for feature_map in (first.to("meta"), EluPlusOne()):
        assert linear_attention(*given, feature_map).shape == (BATCH, HEADS, TOKENS, D_VALUE)
        output, state = causal_linear_attention(*given, feature_map, block_size=4)
        assert output.device.type == state.sums.device.type == "meta"


@pytest.mark.slow
def test_compiles_without_a_graph_break(run_without_shape_checks):
    code = (
        "import torch; from llm_anatomy.layers.linear_attention import *\n"
        "q, k, v = torch.randn(3, 2, 4, 7, 6).unbind(); given = dict(attention_mask=torch.rand(2, 7) < 0.7)\n"
        "for m in (EluPlusOne(), PositiveRandomFeatures(6, 16)):\n"
        "    for attend in (linear_attention, causal_linear_attention):\n"
        "        torch._dynamo.reset()\n"
        "        f = torch.compile(attend, fullgraph=True, backend='eager')\n"
        "        torch.testing.assert_close(f(q, k, v, m, **given), attend(q, k, v, m, **given))\n"
        "    _, state = f(q, k, v, m)\n"
        "    token = [x[:, :, :1] for x in (q, k, v)]\n"
        "    torch.testing.assert_close(f(*token, m, state), causal_linear_attention(*token, m, state))"
    )
    run_without_shape_checks(code)


bare_linear = getattr(linear_attention, "__wrapped__", linear_attention)
bare_causal = getattr(causal_linear_attention, "__wrapped__", causal_linear_attention)
WRONG_STATE = LinearAttentionState(torch.zeros(3, 4, 5, 9), torch.zeros(3, 4, 5, 1), torch.zeros(3, 4, 1, 1))


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (dict(query=torch.zeros(11, 6)), ValueError, r"query has shape \(11, 6\)"),
        (
            dict(key=torch.zeros(3, 3, 11, 6), value=torch.zeros(3, 3, 11, 9)),
            ValueError,
            "4 query heads cannot share 3",
        ),
        (dict(key=torch.zeros(3, 4, 5, 6), value=torch.zeros(3, 4, 5, 9)), ValueError, "query has 11 tokens and key 5"),
        (dict(block_size=0), ValueError, "block_size=0 must be at least 1"),
        (
            dict(attention_mask=torch.ones(3, 11)),
            TypeError,
            "attention_mask has dtype torch.float32; it must be torch.bool",
        ),
        (
            dict(attention_mask=torch.ones(11, 3).bool()),
            ValueError,
            r"attention_mask has shape \(11, 3\); it must be \(3, 11\)",
        ),
        (dict(state=WRONG_STATE), ValueError, r"state has sums of shape \(3, 4, 5, 9\); they must be \(3, 4, 6, 9\)"),
        (dict(state=WRONG_STATE, position=HalfSplitRotary(4)), ValueError, "positions=None must be given"),
        (dict(position=HalfSplitRotary(8)), ValueError, "at least d_rotary=8"),
        (dict(feature_map=PositiveRandomFeatures(5, 3)), ValueError, "x is 6 wide; it must be d_head=5 wide"),
    ],
)
def test_misfits_are_refused_in_one_sentence(change, error, sentence, monkeypatch):
    for cls, name in ((PositiveRandomFeatures, "log_features"), (HalfSplitRotary, "rotate")):  # without shape checks
        method = getattr(cls, name)
        monkeypatch.setattr(cls, name, getattr(method, "__wrapped__", method))
    given = dict(zip(("query", "key", "value"), inputs(), strict=True)) | dict(feature_map=EluPlusOne()) | change
    with pytest.raises(error, match=sentence):
        bare_causal(**given)
    if not {"state", "block_size", "position"} & set(change) and "query has 11 tokens" not in sentence:
        with pytest.raises(error, match=sentence):
            bare_linear(**given)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="n_features=0 must be at least 1"):
        PositiveRandomFeatures(6, 0)
