"""Relative schemes against loops written from the papers, Hugging Face's modules, and what the lectures state."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from einops import rearrange, repeat
from randomness import randn, randomize
from torch import nn

from llm_anatomy.layers.positions import base, relative
from llm_anatomy.layers.positions.base import PositionContext, offsets
from llm_anatomy.layers.positions.buckets import Clip, DeBERTaLogBuckets, T5Buckets, T5CausalBuckets
from llm_anatomy.layers.positions.relative import (
    TUPE,
    ALiBi,
    DeBERTa,
    FalconALiBi,
    ReleasedDeBERTa,
    ScalarBias,
    Shaw,
    T5Bias,
    TransformerXL,
    UntiedTUPE,
    alibi_slopes,
)

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, HEADS, QUERIES, KEYS, D_HEAD, D_VALUE, D_MODEL, N_CTX = 3, 6, 5, 7, 4, 9, 10, 64
TOLERANCE = {torch.float32: dict(rtol=1e-4, atol=1e-4), torch.float64: dict(rtol=1e-9, atol=1e-9)}

# Padding on the left, a cache of 40 tokens, a packed row that starts anew; the queries are the newest tokens.
KEY_POSITIONS = torch.tensor([[0, 0, 0, 1, 2, 3, 4], [40, 41, 42, 43, 44, 45, 46], [50, 51, 52, 0, 1, 2, 3]])
QUERY_POSITIONS = KEY_POSITIONS[:, KEYS - QUERIES :]


def inputs(kv_heads=HEADS, dtype=torch.float32, queries=QUERIES, keys=KEYS):
    shapes = (HEADS, queries, D_HEAD), (kv_heads, keys, D_HEAD), (kv_heads, keys, D_VALUE)
    return [randn(BATCH, *shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]


def random_mask(queries=QUERIES, keys=KEYS):
    """A mask in which every query sees something."""
    mask = torch.rand(BATCH, 1, queries, keys, generator=torch.Generator().manual_seed(7)) < 0.7
    mask[..., 0] |= ~mask.any(-1)
    return mask


def attend(scheme, query, key, value, query_positions, key_positions, mask=None, projections=None):
    """Attention with a scheme's hooks: softmax(q k' scale + bias) v, and what is added to it."""
    groups = query.shape[1] // key.shape[1]
    context = PositionContext(query_positions, key_positions, projections=projections)
    bias = scheme.bias(query, key, context)
    shared_key, shared_value = (repeat(x, "b heads k d -> b (heads groups) k d", groups=groups) for x in (key, value))
    scores = query @ shared_key.mT * scheme.scale(query.shape[-1]) + bias
    weights = (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(-1)
    added = scheme.add_to_output(weights, context)
    return weights @ shared_value + (0 if added is None else added)


# --- The papers' formulas, one pair of tokens and one number at a time: floats and lists, no tensor operation ---


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def linear(layer, x, head):
    """Head ``head`` of a projection of the vector x."""
    weight, bias = layer.weight.tolist(), None if layer.bias is None else layer.bias.tolist()
    rows = range(head * D_HEAD, (head + 1) * D_HEAD)
    return [dot(weight[r], x) + (0 if bias is None else bias[r]) for r in rows]


def clip(r, low, high):
    return low if r < low else high if r > high else r


def slow_t5_row(r, rows, far, causal):
    """Raffel et al.: half the rows one by one, then logarithmic; the future has rows of its own unless causal."""
    start = 0
    if causal:
        distance = max(-r, 0)
    else:
        rows //= 2
        start, distance = (rows if r > 0 else 0), abs(r)
    if distance < rows // 2:
        return start + distance
    bins = rows - rows // 2
    return start + min(rows - 1, rows // 2 + math.floor(bins * math.log(distance / (rows // 2), far / (rows // 2))))


def slow_delta(t, span):
    """He et al., equation 3: t = i - j."""
    return 0 if t <= -span else 2 * span - 1 if t >= span else t + span


def slow_log_delta(t, span, far):
    middle = span // 2
    if abs(t) > middle:
        bins = math.ceil(math.log(abs(t) / middle) / math.log((far - 1) / middle) * (middle - 1))
        t = int(math.copysign(middle + bins, t))
    return clip(t + span, 0, 2 * span - 1)


def slow_shaw(s, q, k, i, j, head, kv_head):
    vector = s.key_vectors.tolist()[clip(j - i, -2, 1) + 2]
    return dot(q, [x + y for x, y in zip(k, vector, strict=True)]) / math.sqrt(D_HEAD)


def slow_shaw_value(s, i, j):
    return s.value_vectors.tolist()[clip(j - i, -2, 1) + 2]


def slow_transformer_xl(s, q, k, i, j, head, kv_head):
    omegas = [10000 ** (-2 * c / D_MODEL) for c in range(D_MODEL // 2)]
    sinusoid = [math.sin((i - j) * w) for w in omegas] + [math.cos((i - j) * w) for w in omegas]
    position, u, v = linear(s.w_position, sinusoid, head), s.u.tolist()[head], s.v.tolist()[head]
    return (dot(q, k) + dot(q, position) + dot(u, k) + dot(v, position)) / math.sqrt(D_HEAD)


def slow_scalar(s, q, k, i, j, head, kv_head):
    return dot(q, k) / math.sqrt(D_HEAD) + s.table.tolist()[clip(j - i, -2, 3) + 2][head]


def slow_t5(causal):
    def score(s, q, k, i, j, head, kv_head):
        return dot(q, k) + s.table.tolist()[slow_t5_row(j - i, 8, 30, causal)][head]

    return score


def slow_alibi(s, q, k, i, j, head, kv_head):
    slope = [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3][head]  # four of four heads, then every second one of eight
    return dot(q, k) / math.sqrt(D_HEAD) - slope * abs(i - j)


def rounded(x):
    """To the eight binary digits of bfloat16."""
    return torch.tensor(x, dtype=torch.float64).bfloat16().item()


def slow_falcon_alibi(s, q, k, i, j, head, kv_head):
    slope = [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3][head]
    return (dot(q, k) + rounded(rounded(slope) * rounded(j))) / math.sqrt(D_HEAD)


def slow_deberta(released, row, shared=None):
    def score(s, q, k, i, j, head, kv_head):
        w_query, w_key = s.projections or shared
        vectors = s.table(torch.arange(8)).tolist()
        position_key = linear(w_key, vectors[row(i - j)], kv_head)
        position_query = linear(w_query, vectors[row(i - j) if released else row(j - i)], head)
        return (dot(q, k) + dot(q, position_key) + dot(k, position_query)) / math.sqrt(3 * D_HEAD)

    return score


def slow_tupe(s, q, k, i, j, head, kv_head):
    p = s.table.tolist()
    return (dot(q, k) + dot(linear(s.u_query, p[i], head), linear(s.u_key, p[j], head))) / math.sqrt(2 * D_HEAD)


def slow_tupe_relative(s, q, k, i, j, head, kv_head):
    return slow_tupe(s, q, k, i, j, head, kv_head) + s.relative.table.tolist()[slow_t5_row(j - i, 8, 30, False)][head]


def slow_untied(s, q, k, i, j, head, kv_head):
    if i == 0 or j == 0:
        return dot(q, k) / math.sqrt(2 * D_HEAD) + s.theta.tolist()[0 if i == 0 else 1][head]
    return slow_tupe_relative(s, q, k, i, j, head, kv_head)


@dataclass
class Case:
    build: Callable  # from the number of key-value heads
    score: Callable
    is_relative: bool = True
    value: Callable | None = None


def pair(kv_heads, bias=True):
    return nn.Linear(D_MODEL, HEADS * D_HEAD, bias=bias), nn.Linear(D_MODEL, kv_heads * D_HEAD, bias=bias)


def normed_table():
    return nn.Sequential(nn.Embedding(8, D_MODEL), nn.LayerNorm(D_MODEL))


def t5():
    return T5Bias(HEADS, T5Buckets(8, 30))


CASES = {
    "Shaw": Case(lambda kv: Shaw(Clip(-2, 1), D_HEAD, D_VALUE), slow_shaw, value=slow_shaw_value),
    "Transformer-XL": Case(lambda kv: TransformerXL(D_MODEL, HEADS, D_HEAD), slow_transformer_xl),
    "scalar bias": Case(lambda kv: ScalarBias(HEADS, Clip(-2, 3)), slow_scalar),
    "T5": Case(lambda kv: t5(), slow_t5(causal=False)),
    "T5, causal": Case(lambda kv: T5Bias(HEADS, T5CausalBuckets(8, 30)), slow_t5(causal=True)),
    "ALiBi": Case(lambda kv: ALiBi(HEADS), slow_alibi),
    "Falcon's ALiBi": Case(lambda kv: FalconALiBi(HEADS), slow_falcon_alibi),  # relative up to position 256
    "DeBERTa": Case(
        lambda kv: DeBERTa(nn.Embedding(8, D_MODEL), Clip(-4, 3), pair(kv)),
        slow_deberta(False, lambda t: slow_delta(t, 4)),
    ),
    "DeBERTa, released": Case(
        lambda kv: ReleasedDeBERTa(nn.Embedding(8, D_MODEL), Clip(-4, 3), pair(kv)),
        slow_deberta(True, lambda t: slow_delta(t, 4)),
    ),
    "DeBERTa, log buckets": Case(
        lambda kv: ReleasedDeBERTa(normed_table(), DeBERTaLogBuckets(4, 12), pair(kv)),
        slow_deberta(True, lambda t: slow_log_delta(t, 4, 12)),
    ),
    "TUPE-A": Case(lambda kv: TUPE(N_CTX, D_MODEL, HEADS, D_HEAD), slow_tupe, is_relative=False),
    "TUPE-R": Case(lambda kv: TUPE(N_CTX, D_MODEL, HEADS, D_HEAD, t5()), slow_tupe_relative, is_relative=False),
    "TUPE, untied": Case(lambda kv: UntiedTUPE(N_CTX, D_MODEL, HEADS, D_HEAD, t5()), slow_untied, is_relative=False),
}
RELATIVE = [name for name, case in CASES.items() if case.is_relative]


def make(name, kv_heads=HEADS, dtype=torch.float32):
    return randomize(CASES[name].build(kv_heads)).to(dtype)


def slow_attention(case, scheme, query, key, value, mask):
    q, k, v = query.tolist(), key.tolist(), value.tolist()
    output = torch.zeros(BATCH, HEADS, QUERIES, D_VALUE, dtype=torch.float64)
    for b in range(BATCH):
        for head in range(HEADS):
            kv_head = head // (HEADS // key.shape[1])
            for a, i in enumerate(QUERY_POSITIONS[b].tolist()):
                total, average = 0.0, [0.0] * D_VALUE
                for c, j in enumerate(KEY_POSITIONS[b].tolist()):
                    if not mask[b, 0, a, c]:
                        continue
                    weight = math.exp(case.score(scheme, q[b][head][a], k[b][kv_head][c], i, j, head, kv_head))
                    seen = v[b][kv_head][c]
                    if case.value is not None:
                        seen = [x + y for x, y in zip(seen, case.value(scheme, i, j), strict=True)]
                    total += weight
                    average = [x + weight * y for x, y in zip(average, seen, strict=True)]
                output[b, head, a] = torch.tensor(average, dtype=torch.float64) / total
    return output


def check_against_loop(name, kv_heads, dtype=torch.float64):
    scheme, mask = make(name, kv_heads, dtype), random_mask()
    query, key, value = inputs(kv_heads, dtype)
    with torch.no_grad():
        output = attend(scheme, query, key, value, QUERY_POSITIONS, KEY_POSITIONS, mask)
        expected = slow_attention(CASES[name], scheme, query, key, value, mask)
    assert output.dtype == dtype
    torch.testing.assert_close(output, expected.to(dtype), **TOLERANCE[dtype])


@pytest.mark.syllabus("IITD-19", "IITD-20", "IITD-21", "IITD-22", "IITD-23", "CMU-25", "CMU-26", "GT-30", "GT-31")
@pytest.mark.parametrize(("dtype", "kv_heads"), [(torch.float64, HEADS), (torch.float64, 2), (torch.float32, 2)])
@pytest.mark.parametrize("name", CASES)
def test_attention_equals_a_loop_written_from_the_paper(name, dtype, kv_heads):
    check_against_loop(name, kv_heads, dtype)


def every_other_group(x, n_heads):
    return repeat(x, "batch kv_heads tokens d -> batch (group kv_heads) tokens d", group=n_heads // x.shape[1])


def reversed_offsets(query_positions, key_positions):
    return -offsets(query_positions, key_positions)


def cosines_first(self, positions, dtype, original=TransformerXL._sinusoids):
    return original(self, positions, dtype)[::-1]


def slopes_of_a_power_of_two(n_heads, *_, **__):
    return torch.exp2(-8 / n_heads * torch.arange(1, n_heads + 1, dtype=torch.float64))


@pytest.mark.parametrize(
    ("name", "owner", "attribute", "fault"),
    [
        ("Shaw", base, "offsets", reversed_offsets),
        ("Shaw", Shaw, "scale", T5Bias.scale),
        ("Shaw", Shaw, "add_to_output", lambda *_: None),
        ("Transformer-XL", relative, "_per_query_head", every_other_group),
        ("Transformer-XL", TransformerXL, "_sinusoids", cosines_first),
        ("scalar bias", base, "offsets", reversed_offsets),
        ("T5", T5Bias, "scale", ScalarBias.scale),
        ("T5", T5Buckets, "__call__", lambda self, r: self._row_of_distance(r.abs(), 8)),
        ("T5, causal", base, "offsets", reversed_offsets),
        ("ALiBi", relative, "alibi_slopes", slopes_of_a_power_of_two),
        ("Falcon's ALiBi", FalconALiBi, "bias", ALiBi.bias),
        ("DeBERTa", DeBERTa, "position_to_content_rows", ReleasedDeBERTa.position_to_content_rows),
        ("DeBERTa", DeBERTa, "scale", ScalarBias.scale),
        ("DeBERTa, released", ReleasedDeBERTa, "position_to_content_rows", DeBERTa.position_to_content_rows),
        ("DeBERTa, released", relative, "_per_query_head", every_other_group),
        ("DeBERTa, log buckets", DeBERTaLogBuckets, "__call__", lambda self, r: Clip(-4, 3)(r)),
        ("TUPE-A", TUPE, "scale", ScalarBias.scale),
        ("TUPE-R", T5Bias, "bias", lambda self, query, *_: torch.zeros(1, dtype=query.dtype)),
        ("TUPE, untied", UntiedTUPE, "bias", TUPE.bias),
    ],
)
def test_the_loop_sees_a_fault(monkeypatch, name, owner, attribute, fault):
    monkeypatch.setattr(owner, attribute, fault)
    with pytest.raises(AssertionError, match="not close"):
        check_against_loop(name, kv_heads=2)


# --- Hugging Face's modules ---


def heads_of(x, n_heads=HEADS):
    return rearrange(x, "batch tokens (heads d) -> batch heads tokens d", heads=n_heads)


def joined(x):
    return rearrange(x, "batch heads tokens d -> batch tokens (heads d)")


def shifted(n_tokens):
    """Positions of three sequences that begin at different positions: what is relative must not care."""
    return torch.arange(n_tokens) + torch.tensor([[0], [17], [400]])


def causal(n_tokens):
    return torch.ones(1, 1, n_tokens, n_tokens, dtype=torch.bool).tril()


def as_bias(mask, dtype):
    return torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


@pytest.mark.syllabus("IITD-21")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("decoder", [False, True])
def test_t5_equals_hugging_face(decoder, dtype):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=D_MODEL, num_heads=HEADS, d_kv=D_HEAD, is_decoder=decoder, dropout_rate=0.0)
    config.relative_attention_num_buckets, config.relative_attention_max_distance = 10, 23
    config._attn_implementation = "eager"
    theirs = randomize(T5Attention(config, has_relative_attention_bias=True, layer_idx=0)).to(dtype).eval()
    ours = T5Bias(HEADS, (T5CausalBuckets if decoder else T5Buckets)(10, 23)).to(dtype)
    ours.table.data.copy_(theirs.relative_attention_bias.weight)
    x, positions = randn(BATCH, 37, D_MODEL, dtype=dtype), shifted(37)
    mask = causal(37) if decoder else random_mask(37, 37)
    query, key, value = (heads_of(w(x)) for w in (theirs.q, theirs.k, theirs.v))
    output = theirs.o(joined(attend(ours, query, key, value, positions, positions, mask)))
    torch.testing.assert_close(output, theirs(x, mask=as_bias(mask, dtype))[0], **TOLERANCE[dtype])


@pytest.mark.syllabus("IITD-21")
@pytest.mark.parametrize(("rows", "far"), [(32, 128), (32, 64), (8, 10), (10, 23), (4, 2), (64, 1000)])
def test_t5_buckets_equal_hugging_face(rows, far):
    from transformers.models.t5.modeling_t5 import T5Attention

    r = torch.arange(-1500, 1500)
    for buckets, both in ((T5Buckets(rows, far), True), (T5CausalBuckets(rows, far + rows), False)):
        expected = T5Attention._relative_position_bucket(r, both, rows, buckets.max_distance)
        assert torch.equal(buckets(r), expected)
        used = buckets(r).unique().tolist()  # the future's row for distance 0 is the only one without an offset
        assert used == [row for row in range(rows) if not both or row != rows // 2]


@pytest.mark.syllabus("GT-31")
def test_slopes_equal_bloom_and_mpt_for_every_head_count():
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    for n_heads in range(1, 41):
        slopes = alibi_slopes(n_heads)
        bloom = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), n_heads, torch.float32)[:, 0, 1]
        torch.testing.assert_close(slopes, bloom, rtol=1e-6, atol=0)
        torch.testing.assert_close(slopes, -build_mpt_alibi_tensor(n_heads, 2)[:, 0, 0], rtol=1e-6, atol=0)
        assert slopes.unique().numel() == n_heads


@pytest.mark.parametrize("n_heads", [1, 3, 16, 40])
@pytest.mark.parametrize("bias_max", [1, 5, 16])
def test_slopes_of_another_largest_bias_equal_mpts(n_heads, bias_max):
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    expected = -build_mpt_alibi_tensor(n_heads, 3, alibi_bias_max=bias_max)[:, 0, 0] / 2
    torch.testing.assert_close(alibi_slopes(n_heads, bias_max=bias_max), expected, rtol=1e-6, atol=0)
    query, key = torch.zeros(1, n_heads, 1, 2), torch.zeros(1, 1, 3, 2)
    context = PositionContext(torch.tensor([[2]]), torch.arange(3)[None])
    added = ALiBi(n_heads, bias_max=bias_max).bias(query, key, context)
    torch.testing.assert_close(added[0, :, 0, 0], -2 * expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n_heads", [1, 3, 12, 16, 71])
def test_falcons_alibi_equals_theirs_digit_for_digit(n_heads, dtype):
    """Up to position 1,999, where few integers have as few digits as bfloat16; with padding on the left."""
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    padding = torch.arange(2000) < torch.tensor([[0], [7]])
    positions = (torch.arange(2000) - padding.sum(-1, keepdim=True)).masked_fill(padding, -1)
    expected = build_alibi_tensor(~padding * 1, n_heads, dtype).view(2, n_heads, 1, -1) / math.sqrt(D_HEAD)
    query, key = (torch.zeros(2, n_heads, n, D_HEAD, dtype=dtype) for n in (3, 2000))
    found = FalconALiBi(n_heads).bias(query, key, PositionContext(positions[:, -3:], positions))
    assert found.shape == (2, n_heads, 3, 2000) and found.dtype == dtype
    seen = (~padding)[:, None, None].expand(found.shape)
    torch.testing.assert_close(found[seen], expected.expand(found.shape)[seen], rtol=1e-6, atol=0)


@pytest.mark.syllabus("GT-31")
def test_alibi_equals_bloom_with_padding_on_the_left():
    from transformers import BloomConfig
    from transformers.models.bloom.modeling_bloom import BloomAttention, build_alibi_tensor

    config = BloomConfig(hidden_size=HEADS * D_HEAD, n_head=HEADS, attention_dropout=0.0, hidden_dropout=0.0)
    theirs = randomize(BloomAttention(config, layer_idx=0)).eval()
    x, padding = randn(BATCH, 11, HEADS * D_HEAD), torch.arange(11) < torch.tensor([[0], [2], [5]])
    mask = causal(11) & ~padding[:, None, None]
    alibi = build_alibi_tensor(~padding * 1, HEADS, torch.float32)
    expected = theirs(x, torch.zeros_like(x), alibi, as_bias(mask, torch.float32))[0]
    qkv = rearrange(theirs.query_key_value(x), "b t (heads three d) -> three b heads t d", heads=HEADS, three=3)
    positions = torch.arange(11) - padding.sum(-1, keepdim=True)  # negative in the padding, which nobody sees
    output = theirs.dense(joined(attend(ALiBi(HEADS), *qkv, positions, positions, mask)))
    torch.testing.assert_close(output[~padding], expected[~padding], rtol=1e-4, atol=1e-4)


@pytest.mark.syllabus("GT-31")
def test_alibi_equals_mpt():
    from transformers import MptConfig
    from transformers.models.mpt.modeling_mpt import MptAttention, build_mpt_alibi_tensor

    theirs = randomize(MptAttention(MptConfig(d_model=HEADS * D_HEAD, n_heads=HEADS), layer_idx=0)).eval()
    x, mask, positions = randn(BATCH, 11, HEADS * D_HEAD), causal(11), shifted(11)
    expected = theirs(x, build_mpt_alibi_tensor(HEADS, 11), attention_mask=~mask)[0]
    query, key, value = (heads_of(part) for part in theirs.Wqkv(x).chunk(3, -1))
    output = theirs.out_proj(joined(attend(ALiBi(HEADS), query, key, value, positions, positions, mask)))
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.syllabus("IITD-20")
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_transformer_xl_equals_the_score_of_xlnet(dtype):
    """Also the test that turning equals the relative shift, which XLNet uses, with a memory of six tokens."""
    from transformers import XLNetConfig
    from transformers.models.xlnet.modeling_xlnet import XLNetModel, XLNetRelativeAttention

    width, memory = HEADS * D_HEAD, 6
    config = XLNetConfig(vocab_size=5, d_model=width, n_head=HEADS, n_layer=1, d_inner=8, dropout=0.0, attn_type="bi")
    theirs = randomize(XLNetRelativeAttention(config)).to(dtype).eval()
    ours = TransformerXL(width, HEADS, D_HEAD).to(dtype)
    with torch.no_grad():
        ours.u.copy_(theirs.r_w_bias)
        ours.v.copy_(theirs.r_r_bias)
        ours.w_position.weight.copy_(rearrange(theirs.r, "d_model heads d -> (heads d) d_model"))
    x = randn(BATCH, memory + QUERIES, width, dtype=dtype)
    project = "b t m, m h d -> t b h d"
    query = torch.einsum(project, x[:, memory:], theirs.q)
    key, value = torch.einsum(project, x, theirs.k), torch.einsum(project, x, theirs.v)
    # their sinusoids, for distances from the longest to the shortest, in the precision of the test
    distances = torch.arange(memory + QUERIES, -QUERIES, -1).to(dtype)
    sinusoids = XLNetModel.positional_embedding(distances, 10000 ** (-torch.arange(0, width, 2).to(dtype) / width))
    if dtype == torch.float32:
        model = XLNetModel(config)
        torch.testing.assert_close(model.relative_positional_encoding(QUERIES, memory + QUERIES), sinusoids)
    sinusoid_keys = torch.einsum("t b m, m h d -> t b h d", sinusoids.expand(-1, BATCH, -1), theirs.r)
    mask = random_mask(QUERIES, memory + QUERIES)
    forbidden = rearrange(~mask, "b 1 q k -> q k b 1").to(dtype)
    expected = theirs.rel_attn_core(query, key, value, sinusoid_keys, attn_mask=forbidden.expand(-1, -1, -1, HEADS))
    query, key, value = (rearrange(x, "t b h d -> b h t d") for x in (query, key, value))
    positions = shifted(memory + QUERIES)
    output = attend(ours, query, key, value, positions[:, memory:], positions, mask)
    torch.testing.assert_close(rearrange(output, "b h t d -> t b h d"), expected, **TOLERANCE[dtype])


@pytest.mark.syllabus("IITD-19")
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_shaws_key_side_equals_wav2vec2_bert(dtype):
    from transformers import Wav2Vec2BertConfig
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertSelfAttention

    config = Wav2Vec2BertConfig(
        hidden_size=HEADS * D_HEAD,
        num_attention_heads=HEADS,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=4,
        right_max_position_embeddings=2,
        attention_dropout=0.0,
    )
    config._attn_implementation = "eager"
    theirs = randomize(Wav2Vec2BertSelfAttention(config)).to(dtype).eval()
    ours = Shaw(Clip(-4, 2), D_HEAD).to(dtype)
    with torch.no_grad():
        ours.key_vectors.copy_(theirs.distance_embedding.weight)
        ours.value_vectors.zero_()  # they have none
    x, mask, positions = randn(BATCH, 11, HEADS * D_HEAD, dtype=dtype), random_mask(11, 11), shifted(11)
    query, key, value = (heads_of(w(x)) for w in (theirs.linear_q, theirs.linear_k, theirs.linear_v))
    output = theirs.linear_out(joined(attend(ours, query, key, value, positions, positions, mask)))
    expected = theirs(x, attention_mask=as_bias(mask, dtype))[0]
    torch.testing.assert_close(output, expected, **TOLERANCE[dtype])


def deberta_v1():
    from transformers import DebertaConfig
    from transformers.models.deberta.modeling_deberta import DebertaEncoder

    config = DebertaConfig(
        hidden_size=HEADS * D_HEAD,
        num_attention_heads=HEADS,
        num_hidden_layers=1,
        intermediate_size=8,
        relative_attention=True,
        max_relative_positions=5,
        pos_att_type="c2p|p2c",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        legacy=False,
    )
    encoder = randomize(DebertaEncoder(config)).eval()
    theirs = encoder.layer[0].attention.self
    projections = theirs.pos_q_proj, theirs.pos_proj

    def project(x):
        query, key, value = heads_of(theirs.in_proj(x)).chunk(3, -1)
        q_bias, v_bias = (heads_of(b[None, None]) for b in (theirs.q_bias, theirs.v_bias))
        return query + q_bias, key, value + v_bias

    return encoder, project, encoder.rel_embeddings, Clip(-5, 4), projections, None


def deberta_v2(**options):
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DebertaV2Encoder

    config = DebertaV2Config(
        hidden_size=HEADS * D_HEAD,
        num_attention_heads=HEADS,
        num_hidden_layers=1,
        intermediate_size=8,
        relative_attention=True,
        max_relative_positions=20,
        position_buckets=6,
        norm_rel_ebd="layer_norm",
        pos_att_type="c2p|p2c",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        legacy=False,
        **options,
    )
    encoder = randomize(DebertaV2Encoder(config)).eval()
    theirs = encoder.layer[0].attention.self
    shared = theirs.query_proj, theirs.key_proj
    own = None if theirs.share_att_key else (theirs.pos_query_proj, theirs.pos_key_proj)

    def project(x):
        return [heads_of(w(x)) for w in (*shared, theirs.value_proj)]

    table = nn.Sequential(encoder.rel_embeddings, encoder.LayerNorm)
    return encoder, project, table, DeBERTaLogBuckets(6, 20), own, shared


@pytest.mark.syllabus("IITD-23")
@pytest.mark.parametrize(
    "version", [deberta_v1, deberta_v2, lambda: deberta_v2(share_att_key=True)], ids=["v1", "v2", "v3"]
)
def test_released_deberta_equals_hugging_face_and_the_paper_does_not(version):
    encoder, project, table, buckets, own, shared = version()
    theirs, n_tokens = encoder.layer[0].attention.self, 27  # longer than the longest distance
    x, mask, positions = randn(BATCH, n_tokens, HEADS * D_HEAD), random_mask(27, 27), shifted(27)
    with torch.no_grad():
        expected = theirs(x, mask, relative_pos=encoder.get_rel_pos(x), rel_embeddings=encoder.get_rel_embedding())[0]
        released, paper = (
            joined(attend(scheme(table, buckets, own), *project(x), positions, positions, mask, shared))
            for scheme in (ReleasedDeBERTa, DeBERTa)
        )
    torch.testing.assert_close(released, expected, rtol=1e-4, atol=1e-4)
    assert (paper - expected).abs().max() > 0.01


@pytest.mark.syllabus("IITD-23")
@pytest.mark.parametrize(("span", "far"), [(256, 512), (6, 20), (4, 9), (32, 128), (10, 7), (14, 9), (18, 11)])
def test_log_buckets_equal_hugging_face(span, far):
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    r = torch.arange(-1500, 1500)
    expected = (make_log_bucket_position(r, span, far).long() + span).clamp(0, 2 * span - 1)
    assert torch.equal(DeBERTaLogBuckets(span, far)(r), expected)


# --- What the lectures state ---


@pytest.mark.syllabus("IITD-18", "IITD-24", "CMU-25")
def test_a_shifted_copy_keeps_all_offsets_and_a_swap_does_not():
    """The dog chased the pig (dog 1, chased 2, pig 4); the slide's second sentence has pig 5, chased 6, dog 8."""
    first, moved, swapped = (torch.tensor([p]) for p in ([1, 2, 4], [6, 7, 9], [8, 6, 5]))
    assert torch.equal(offsets(first, first), offsets(moved, moved))
    assert offsets(first, first)[0, 0, 2] == 3 and offsets(swapped, swapped)[0, 0, 2] == -3
    roles = torch.tensor([[5, 6, 8]])  # subject, verb, object of the second sentence
    assert torch.equal(offsets(first, first), offsets(roles, roles))
    q, k = complex(0.3, 0.8), complex(-0.5, 0.4)  # words as arrows, turned by 0.7 per position

    def turned_product(dog, pig):
        turn = [complex(math.cos(0.7 * p), math.sin(0.7 * p)) for p in (dog, pig)]
        return (q * turn[0] * (k * turn[1]).conjugate()).real

    assert math.isclose(turned_product(1, 4), turned_product(6, 9))
    assert abs(turned_product(1, 4) - turned_product(8, 5)) > 0.1


@pytest.mark.syllabus("GT-30")
def test_matrix_of_the_slide():
    positions = torch.arange(5)[None]
    rows = ["0 1 2 3 4", "-1 0 1 2 3", "-2 -1 0 1 2", "-3 -2 -1 0 1", "-4 -3 -2 -1 0"]
    matrix = torch.tensor([[int(x) for x in row.split()] for row in rows])
    assert torch.equal(offsets(positions, positions)[0], matrix)
    assert torch.equal(Clip(-2, 2)(matrix), matrix.clamp(-2, 2) + 2)


@pytest.mark.syllabus("IITD-18", "IITD-19", "CMU-25", "CMU-26")
@pytest.mark.parametrize("name", CASES)
def test_only_relative_schemes_survive_a_shift(name):
    scheme, (query, key, value) = make(name, 2, torch.float64), inputs(2, torch.float64)
    before = attend(scheme, query, key, value, QUERY_POSITIONS, KEY_POSITIONS)
    after = attend(scheme, query, key, value, QUERY_POSITIONS + 9, KEY_POSITIONS + 9)
    assert torch.allclose(before, after, rtol=1e-9, atol=1e-9) == CASES[name].is_relative
    stretched = attend(scheme, query, key, value, 2 * QUERY_POSITIONS % N_CTX, 2 * KEY_POSITIONS % N_CTX)
    assert not torch.allclose(before, stretched, atol=1e-3)


@pytest.mark.syllabus("IITD-21", "CMU-26", "GT-30")
@pytest.mark.parametrize("name", ["scalar bias", "T5", "T5, causal", "ALiBi"])
def test_scalar_biases_are_toeplitz_and_know_no_content(name):
    scheme, positions = make(name), torch.arange(KEYS)[None]
    query, key, _ = inputs(queries=KEYS)
    bias = scheme.bias(query, key, PositionContext(positions, positions))
    assert bias.shape == (1, HEADS, KEYS, KEYS)
    assert torch.equal(bias, scheme.bias(key, query, PositionContext(positions, positions)))
    assert torch.equal(bias[..., 1:, 1:], bias[..., :-1, :-1])
    assert scheme.scale(16) == (1 if name.startswith("T5") else 0.25)


@pytest.mark.syllabus("IITD-19", "CMU-26")
def test_number_of_parameters():
    assert Clip(-3, 2).n_rows == 6 and Clip(1 - 8, 8 - 1).n_rows == 2 * 8 - 1
    assert ScalarBias(HEADS, Clip(1 - 8, 8 - 1)).table.numel() == HEADS * 15
    assert Shaw(Clip(-3, 2), D_HEAD, D_VALUE).key_vectors.shape == (6, D_HEAD)
    assert Shaw(Clip(-3, 2), D_HEAD, D_VALUE).value_vectors.shape == (6, D_VALUE)
    assert not list(ALiBi(HEADS).parameters())


@pytest.mark.syllabus("IITD-19")
def test_the_slides_shaw_projects_the_vector_first():
    """W_k (x + p_r) is q' W_k x + q' a_r with a_r = W_k p_r; over several heads each head has its own a_r."""
    w_key, position = randn(HEADS * D_HEAD, D_MODEL, seed=1), randn(4, D_MODEL, seed=2)
    x, query = randn(BATCH, KEYS, D_MODEL, seed=3), inputs()[0]
    vectors = (position @ w_key.T).reshape(4, HEADS, D_HEAD)  # a_r of each head
    rows = Clip(-2, 1)(offsets(QUERY_POSITIONS, KEY_POSITIONS))
    keys = heads_of(x @ w_key.T)[:, :, None] + vectors[rows].permute(0, 3, 1, 2, 4)
    slide = heads_of(rearrange((x[:, None] + position[rows]) @ w_key.T, "b q k m -> (b q) k m"))
    slide = rearrange(slide, "(b q) h k d -> b h q k d", b=BATCH)
    torch.testing.assert_close(slide, keys)
    for head in range(HEADS):
        scheme = Shaw(Clip(-2, 1), D_HEAD)
        scheme.key_vectors.data.copy_(vectors[:, head])
        one, key = query[:, head : head + 1], heads_of(x @ w_key.T)[:, head : head + 1]
        scores = one @ key.mT / math.sqrt(D_HEAD) + scheme.bias(
            one, key, PositionContext(QUERY_POSITIONS, KEY_POSITIONS)
        )
        expected = (one[..., None, :] * slide[:, head : head + 1]).sum(-1) / math.sqrt(D_HEAD)
        torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(vectors[:, 0], vectors[:, 1], atol=0.1)


@pytest.mark.syllabus("IITD-20")
def test_four_terms_of_transformer_xl():
    """With absolute positions the four products sum to the score; each of the relative ones has its role."""
    w_q, w_k, x, p = (randn(8, 8, seed=s, dtype=torch.float64) for s in range(4))
    direct = (x[0] + p[0]) @ w_q.T @ w_k @ (x[1] + p[1])
    terms = [a @ w_q.T @ w_k @ b for a in (x[0], p[0]) for b in (x[1], p[1])]
    torch.testing.assert_close(sum(terms), direct, rtol=0, atol=1e-6)
    query, key, _ = inputs()
    scheme = make("Transformer-XL")
    with torch.no_grad():
        scheme.w_position.weight.zero_()  # no positions: what is left is u k, the same for every query
        content = scheme.bias(query, key, PositionContext(QUERY_POSITIONS, KEY_POSITIONS))
        torch.testing.assert_close(content, content[:, :, :1].expand_as(content))
        torch.testing.assert_close(content[:, 2, 0], scheme.u[2] @ key[:, 2].mT / math.sqrt(D_HEAD))
    scheme = make("Transformer-XL")
    with torch.no_grad():
        scheme.u.zero_()  # what is left does not depend on the keys, and without queries on the distance alone
        positions = scheme.bias(0 * query, key, PositionContext(*[torch.arange(n)[None] for n in (QUERIES, KEYS)]))
        assert torch.allclose(
            positions, scheme.bias(0 * query, 2 * key, PositionContext(*[torch.arange(n)[None] for n in (5, 7)]))
        )
        torch.testing.assert_close(positions[..., 1:, 1:], positions[..., :-1, :-1])


@pytest.mark.syllabus("IITD-22")
def test_tupe_knows_no_content_and_becomes_t5_without_its_projection():
    scheme, (query, key, _) = make("TUPE-R"), inputs()
    positions = QUERY_POSITIONS, KEY_POSITIONS
    assert torch.equal(
        scheme.bias(query, key, PositionContext(*positions)), scheme.bias(2 * query, -key, PositionContext(*positions))
    )
    scheme.u_query.weight.data.zero_()
    assert torch.equal(
        scheme.bias(query, key, PositionContext(*positions)),
        scheme.relative.bias(query, key, PositionContext(*positions)),
    )


@pytest.mark.syllabus("IITD-23")
def test_deberta_has_three_terms_and_none_of_position_by_position():
    scheme, (query, key, _) = make("DeBERTa"), inputs()
    positions = QUERY_POSITIONS, KEY_POSITIONS
    from_query, from_key = (
        scheme.bias(query, 0 * key, PositionContext(*positions)),
        scheme.bias(0 * query, key, PositionContext(*positions)),
    )
    torch.testing.assert_close(from_query + from_key, scheme.bias(query, key, PositionContext(*positions)))
    assert scheme.bias(0 * query, 0 * key, PositionContext(*positions)).eq(0).all()
    assert from_query.abs().max() > 0.1 and from_key.abs().max() > 0.1


@pytest.mark.syllabus("GT-31")
@pytest.mark.parametrize("name", CASES)
def test_a_step_over_cached_keys_equals_the_last_row(name):
    scheme, (query, key, value) = make(name, 2, torch.float64), inputs(2, torch.float64)
    assert scheme.not_cacheable is None
    whole = attend(scheme, query, key, value, QUERY_POSITIONS, KEY_POSITIONS)
    step = attend(scheme, query[:, :, -1:], key, value, QUERY_POSITIONS[:, -1:], KEY_POSITIONS)
    torch.testing.assert_close(step, whole[:, :, -1:], **TOLERANCE[torch.float64])


# --- Precision, gradients, devices ---


@pytest.mark.parametrize("name", CASES)
def test_one_row_of_positions_serves_the_whole_batch(name):
    scheme, (query, key, value) = make(name, 2), inputs(2)
    one = attend(scheme, query, key, value, QUERY_POSITIONS[1:2], KEY_POSITIONS[1:2].int())
    each = attend(scheme, query, key, value, QUERY_POSITIONS[[1] * 3], KEY_POSITIONS[[1] * 3])
    torch.testing.assert_close(one, each)


@pytest.mark.parametrize("name", CASES)
def test_bfloat16_stays_close_to_float32(name):
    """From the same rounded weights and inputs; far positions would not survive if they were rounded too."""
    scheme = make(name, 2, torch.bfloat16)
    query, key, value = inputs(2, torch.bfloat16)
    add = torch.zeros(3, 1, dtype=torch.long) if name[:4] in ("TUPE", "Falc") else torch.tensor([[3001], [0], [12345]])
    positions = QUERY_POSITIONS + add, KEY_POSITIONS + add
    with torch.no_grad():
        low = scheme.bias(query, key, PositionContext(*positions)), attend(scheme, query, key, value, *positions)
        wide = copy.deepcopy(scheme).float()
        query, key, value = query.float(), key.float(), value.float()
        high = wide.bias(query, key, PositionContext(*positions)), attend(wide, query, key, value, *positions)
    for a, b in zip(low, high, strict=True):
        assert a.dtype == torch.bfloat16
        torch.testing.assert_close(a.float(), b, rtol=3e-2, atol=4e-2)


def test_many_keys_at_one_offset_add_up_in_bfloat16():
    """4096 keys share the bound's row: their weights, and on the way back their gradients, are summed in float32."""
    scheme = Shaw(Clip(-1, 1), d_head=2).bfloat16()
    scheme.value_vectors.data.fill_(1.0)
    query_positions, key_positions = torch.tensor([[5000]]), torch.arange(4096)[None]
    weights = torch.full((1, 1, 1, 4096), 1 / 4096, dtype=torch.bfloat16)
    assert scheme.add_to_output(weights, PositionContext(query_positions, key_positions)).flatten().tolist() == [
        1.0,
        1.0,
    ]
    query, key = torch.ones(1, 1, 1, 2, dtype=torch.bfloat16), torch.ones(1, 1, 4096, 2, dtype=torch.bfloat16)
    scheme.bias(query, key, PositionContext(query_positions, key_positions)).sum().backward()
    torch.testing.assert_close(
        scheme.key_vectors.grad[0].float(), torch.full((2,), 4096 / math.sqrt(2)), rtol=1e-2, atol=0
    )


@pytest.mark.parametrize("distance", [1, 300, 30000])
def test_alibi_counts_far_in_bfloat16(distance):
    x, positions = torch.zeros(1, 1, 1, 2, dtype=torch.bfloat16), torch.tensor([[distance]])
    bias = ALiBi(1).bfloat16().bias(x, x, PositionContext(torch.tensor([[0]]), positions))
    assert bias.item() == torch.tensor(-distance / 256).bfloat16().item()


@pytest.mark.parametrize("name", [name for name in CASES if "ALiBi" not in name])
def test_gradients_are_those_of_the_function(name):
    scheme, (query, key, value) = make(name, 2, torch.float64), inputs(2, torch.float64)
    names, parameters = zip(*scheme.named_parameters(), strict=True)
    query, key, value = (x[:2, :, -2:].requires_grad_() for x in (query, key, value))
    positions = QUERY_POSITIONS[:2, -2:], KEY_POSITIONS[:2, -2:]

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.scheme = scheme

        def forward(self, *arguments):
            return attend(self.scheme, *arguments, *positions)

    def function(query, *values):
        named = {f"scheme.{n}": v for n, v in zip(names, values, strict=True)}
        return torch.func.functional_call(Attention(), named, (query, key, value)).sum((1, 3))

    assert torch.autograd.gradcheck(function, (query, *parameters), fast_mode=True)
    attend(scheme, query, key, value, QUERY_POSITIONS[:2, -2:], KEY_POSITIONS[:2, -2:]).square().sum().backward()
    for n, parameter in scheme.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), n


@pytest.mark.parametrize("name", CASES)
def test_state_dict_round_trip(name):
    scheme, (query, key, _) = make(name), inputs()
    other = CASES[name].build(HEADS)
    other.load_state_dict(scheme.state_dict())
    bias = [s.bias(query, key, PositionContext(QUERY_POSITIONS, KEY_POSITIONS)) for s in (scheme, other)]
    assert torch.equal(*bias)
    assert set(scheme.state_dict()) == {n for n, _ in scheme.named_parameters()}  # no buffer is stored


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_a_scheme_follows_its_inputs_to_their_device(name, device):
    scheme, tensors = make(name, 2), inputs(2)
    positions = QUERY_POSITIONS, KEY_POSITIONS
    there = attend(copy.deepcopy(scheme).to(device), *(x.to(device) for x in (*tensors, *positions)))
    assert there.device.type == device
    torch.testing.assert_close(there.cpu(), attend(scheme, *tensors, *positions), rtol=1e-4, atol=1e-4)


def test_all_schemes_compile_without_a_graph_break(run_without_shape_checks):
    code = (
        "import torch; from torch import nn; from llm_anatomy.layers.positions.relative import *\n"
        "from llm_anatomy.layers.positions.buckets import *\n"
        "from llm_anatomy.layers.positions.base import PositionContext\n"
        "q, k, p = torch.randn(2, 6, 3, 4), torch.randn(2, 2, 5, 4), torch.arange(5)[None]\n"
        "d = nn.Embedding(8, 10), DeBERTaLogBuckets(4, 12), (nn.Linear(10, 24), nn.Linear(10, 8))\n"
        "t = T5Bias(6, T5Buckets())\n"
        "for s in [Shaw(Clip(-2, 2), 4), TransformerXL(10, 6, 4), t, T5Bias(6, T5CausalBuckets()), ALiBi(6),\n"
        "          DeBERTa(*d), TUPE(9, 10, 6, 4, t), UntiedTUPE(9, 10, 6, 4)]:\n"
        "    f = torch.compile(s.bias, fullgraph=True, backend='eager')\n"
        "    here, there = (PositionContext(p[:, 2:], p) for _ in range(2))\n"
        "    torch.testing.assert_close(f(q, k, here), s.bias(q, k, there))\n"
        "s = Shaw(Clip(-2, 2), 4); w = torch.rand(2, 6, 3, 5)\n"
        "f = torch.compile(s.add_to_output, fullgraph=True, backend='eager')\n"
        "torch.testing.assert_close(f(w, here), s.add_to_output(w, there))"
    )
    run_without_shape_checks(code)


# --- Bad input ---


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Clip(1, 3), "r_min=1 must be at most 0, and r_max=3 at least 0"),
        (lambda: Clip(-3, -1), "r_max=-1 at least 0"),
        (lambda: T5Buckets(9, 128), "n_rows=9 must be even and at least 4"),
        (lambda: T5Buckets(2, 128), "n_rows=2 must be even and at least 4"),
        (lambda: T5Buckets(32, 8), "max_distance=8 must be above 8"),
        (lambda: T5CausalBuckets(1, 128), "n_rows=1 must be at least 2"),
        (lambda: T5CausalBuckets(32, 16), "max_distance=16 must be above 16"),
        (lambda: DeBERTaLogBuckets(5, 20), "span=5 must be even"),
        (lambda: DeBERTaLogBuckets(6, 4), "max_distance=4 above 4"),
        (lambda: ScalarBias(0, Clip(-1, 1)), "n_heads=0 must be at least 1"),
        (lambda: ALiBi(0), "n_heads=0"),
        (lambda: ALiBi(2, bias_max=0), "bias_max=0 must be at least 1"),
        (lambda: FalconALiBi(0), "n_heads=0"),
        (lambda: alibi_slopes(0), "n_heads=0"),
        (lambda: Shaw(Clip(-1, 1), 4, 0), "d_value=0"),
        (lambda: TransformerXL(7, 2, 3), "d_model=7 must be even"),
        (lambda: TransformerXL(8, 2, 0), "d_head=0"),
        (lambda: TUPE(0, 8, 2, 3), "n_ctx=0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


def bare(method):
    """Shapes are checked by jaxtyping first, where it is installed; users without it read our sentence."""
    return getattr(method, "__wrapped__", method)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (dict(query=torch.zeros(5, 6)), ValueError, r"query has shape \(5, 6\)"),
        (dict(key=torch.zeros(3, 6, 7, 3)), ValueError, "must agree in batch and width"),
        (dict(key=torch.zeros(2, 6, 7, 4)), ValueError, "must agree in batch and width"),
        (dict(key=torch.zeros(3, 4, 7, 4)), ValueError, "heads divide the query's"),
        (
            dict(query_positions=torch.zeros(3, 4).long()),
            ValueError,
            r"query_positions have shape \(3, 4\).*\(3 or 1, 5",
        ),
        (dict(key_positions=torch.zeros(2, 7).long()), ValueError, r"key_positions have shape \(2, 7\).*\(3 or 1, 7"),
        (dict(key_positions=torch.zeros(7).long()), ValueError, r"key_positions have shape \(7,\)"),
        (
            dict(key_positions=torch.zeros(3, 7)),
            TypeError,
            "key_positions have dtype torch.float32; they must be integers",
        ),
    ],
)
def test_misfits_are_refused_in_one_sentence(change, error, sentence):
    query, key, _ = inputs()
    positions = dict(query_positions=QUERY_POSITIONS, key_positions=KEY_POSITIONS)
    positions |= {name: change[name] for name in positions.keys() & change.keys()}
    tensors = dict(query=query, key=key) | {name: change[name] for name in ("query", "key") if name in change}
    for name in set(CASES) - {"TUPE, untied"}:  # it asks TUPE
        scheme, context = make(name), object.__new__(PositionContext)
        with pytest.raises(error, match=sentence):
            bare(PositionContext.__init__)(context, **positions)
            bare(type(scheme).bias)(scheme, **tensors, context=context)


@pytest.mark.parametrize("name", ["scalar bias", "T5", "ALiBi", "Transformer-XL", "TUPE-A"])
def test_other_heads_are_refused(name):
    query, key, _ = inputs()
    with pytest.raises(ValueError, match="has n_heads=2; this scheme was made for n_heads=6"):
        make(name).bias(query[:, :2], key[:, :2], PositionContext(QUERY_POSITIONS, KEY_POSITIONS))


@pytest.mark.parametrize("name", ["Shaw", "Transformer-XL", "TUPE-A"])
def test_other_widths_are_refused(name):
    query, key, _ = inputs()
    with pytest.raises(ValueError, match="has d_head=3; this scheme was made for d_head=4"):
        make(name).bias(query[..., :3], key[..., :3], PositionContext(QUERY_POSITIONS, KEY_POSITIONS))


def test_other_misfits():
    query, key, _ = inputs()
    shaw = make("Shaw")
    with pytest.raises(ValueError, match=r"key_positions have shape \(3, 6\)"):
        bare(Shaw.add_to_output)(shaw, torch.zeros(3, 6, 5, 7), PositionContext(QUERY_POSITIONS, KEY_POSITIONS[:, 1:]))
    with pytest.raises(ValueError, match="key_positions are from 0 to 64; they must be 0 to n_ctx - 1 = 63"):
        make("TUPE-A").bias(query, key, PositionContext(QUERY_POSITIONS, torch.tensor([[0, 1, 2, 3, 4, 5, 64]])))
    with pytest.raises(ValueError, match="query_positions are from -1 to 3"):
        make("TUPE, untied").bias(query, key, PositionContext(torch.tensor([[-1, 0, 1, 2, 3]]), KEY_POSITIONS))
    table = nn.Embedding(8, D_MODEL)
    with pytest.raises(ValueError, match="projections=None must be given to DeBERTa"):
        DeBERTa(table, Clip(-4, 3)).bias(query, key, PositionContext(QUERY_POSITIONS, KEY_POSITIONS))
    with pytest.raises(ValueError, match=r"projections have widths \(24, 24\); .* must be \(24, 8\)"):
        DeBERTa(table, Clip(-4, 3), pair(HEADS)).bias(
            query, key[:, :2], PositionContext(QUERY_POSITIONS, KEY_POSITIONS)
        )
