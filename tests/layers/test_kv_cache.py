"""Caches: what is kept is what was given, and attention over a cache is attention without one."""

import pytest
import torch
from randomness import randn, randomize
from torch import nn

from llm_anatomy.layers.attention import CrossAttention, SelfAttention
from llm_anatomy.layers.kv_cache import KVCache, RollingKVCache, context_of_new_tokens
from llm_anatomy.layers.latent_attention import LatentAttention
from llm_anatomy.layers.masks import CausalMask, PaddingMask, SlidingWindowMask
from llm_anatomy.layers.positions.absolute import (
    BinaryCounter,
    IntegerIndex,
    Learned,
    LengthScaledIndex,
    SingleSine,
    Sinusoidal,
)
from llm_anatomy.layers.positions.base import PositionContext, PositionScheme
from llm_anatomy.layers.positions.buckets import Clip, DeBERTaLogBuckets, T5CausalBuckets
from llm_anatomy.layers.positions.relative import (
    TUPE,
    ALiBi,
    DeBERTa,
    ReleasedDeBERTa,
    ScalarBias,
    Shaw,
    T5Bias,
    TransformerXL,
    UntiedTUPE,
)
from llm_anatomy.layers.positions.rotary import (
    HalfSplitRotary,
    InterleavedRotary,
    LinearScaling,
    Llama3Scaling,
    NTKScaling,
    YaRNScaling,
)
from llm_anatomy.layers.softcapping import Softcapping

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, TOKENS, D_MODEL, HEADS, D_HEAD, D_VALUE, N_CTX = 3, 9, 10, 6, 4, 7, 32

SCHEMES = {
    "none": PositionScheme,
    "integer": lambda: IntegerIndex(D_MODEL),
    "binary": lambda: BinaryCounter(D_MODEL),
    "single sine": lambda: SingleSine(D_MODEL, 11.0),
    "sinusoidal": lambda: Sinusoidal(D_MODEL),
    "learned": lambda: Learned(N_CTX, D_MODEL),
    "scalar": lambda: ScalarBias(HEADS, Clip(-4, 2)),
    "T5": lambda: T5Bias(HEADS, T5CausalBuckets(8, 20)),
    "ALiBi": lambda: ALiBi(HEADS),
    "Shaw": lambda: Shaw(Clip(-3, 1), D_HEAD, D_VALUE),
    "Transformer-XL": lambda: TransformerXL(D_MODEL, HEADS, D_HEAD),
    "DeBERTa": lambda: DeBERTa(nn.Embedding(8, D_MODEL), Clip(-4, 3)),
    "released DeBERTa": lambda: ReleasedDeBERTa(nn.Embedding(8, D_MODEL), DeBERTaLogBuckets(4, 9)),
    "TUPE": lambda: TUPE(N_CTX, D_MODEL, HEADS, D_HEAD, relative=T5Bias(HEADS, T5CausalBuckets(8, 20))),
    "untied TUPE": lambda: UntiedTUPE(N_CTX, D_MODEL, HEADS, D_HEAD),
    "RoPE": lambda: InterleavedRotary(D_HEAD),
    "partial RoPE": lambda: HalfSplitRotary(2, base=50.0),
    "linear RoPE": lambda: HalfSplitRotary(D_HEAD, frequencies=LinearScaling(3.0)),
    "NTK RoPE": lambda: HalfSplitRotary(D_HEAD, frequencies=NTKScaling(3.0)),
    "YaRN": lambda: InterleavedRotary(
        D_HEAD, base=100.0, frequencies=YaRNScaling(3.0, original_max_position_embeddings=20)
    ),
    "Llama 3 RoPE": lambda: HalfSplitRotary(
        D_HEAD, frequencies=Llama3Scaling(3.0, original_max_position_embeddings=20)
    ),
}


def attention_with(scheme, n_kv_heads=2, kind=SelfAttention):
    n_kv_heads = HEADS if isinstance(scheme, DeBERTa) else n_kv_heads
    return randomize(
        kind(
            D_MODEL,
            HEADS,
            n_kv_heads=n_kv_heads,
            d_head=D_HEAD,
            d_value=D_VALUE,
            position=scheme,
            query_norm=nn.RMSNorm(D_HEAD),
            key_norm=nn.RMSNorm(D_HEAD),
            bias=True,
        )
    ).double()


def step(attention, x, positions, **kwargs):
    """A layer as a model has it: the embeddings are changed first, padding standing at 0."""
    embedded = attention.position.embed(x, positions.clamp(min=0))
    return attention(embedded, mask=CausalMask(), positions=positions, **kwargs)


LEFT_PADDED = torch.tensor([[-1, -1, 0, 1, 2, 3, 4, 5, 6], list(range(9)), [-1, 0, 1, 2, 3, 4, 5, 6, 7]])


BLOCKS = {"one by one": [1] * TOKENS, "in blocks": [4, 1, 3, 1], "at once": [TOKENS]}
IN_EVERY_WAY = {"none", "learned", "T5", "released DeBERTa", "RoPE"}  # other schemes are read in two
EACH_WAY = [
    pytest.param(name, padded, blocks, marks=[pytest.mark.slow] * (name not in IN_EVERY_WAY and not chosen))
    for name in SCHEMES
    for padded in (False, True)
    for blocks in BLOCKS
    for chosen in [blocks == ("in blocks" if padded else "one by one")]
]


@pytest.mark.syllabus("CMU-10", "GT-32")
@pytest.mark.parametrize("name, padded, blocks", EACH_WAY)
def test_cached_equals_uncached_for_every_scheme(name, padded, blocks):
    positions, blocks = LEFT_PADDED if padded else torch.arange(TOKENS)[None], BLOCKS[blocks]
    attention, x = attention_with(SCHEMES[name]()), randn(BATCH, TOKENS, D_MODEL, seed=1, dtype=torch.float64)
    expected = step(attention, x, positions)
    cache = attention.new_cache(BATCH, TOKENS + 2)
    with torch.no_grad():
        found = [
            step(attention, tokens, here, cache=cache)
            for tokens, here in zip(x.split(blocks, 1), positions.split(blocks, 1), strict=True)
        ]
    torch.testing.assert_close(torch.cat(found, 1), expected, rtol=1e-9, atol=1e-9)
    assert cache.length == TOKENS


@pytest.mark.parametrize("name", ["none", "ALiBi", "Shaw", "TUPE", "RoPE"])
def test_by_default_a_cache_goes_on_where_it_stands(name):
    """With no positions given, and, after left padding, from each sequence's own last token."""
    attention, x = attention_with(SCHEMES[name]()), randn(BATCH, TOKENS, D_MODEL, seed=1, dtype=torch.float64)
    for positions, first in ((None, {}), (LEFT_PADDED, dict(positions=LEFT_PADDED[:, :4]))):
        expected = attention(x, mask=CausalMask(), positions=positions)
        cache = attention.new_cache(BATCH, TOKENS)
        with torch.inference_mode():
            found = [attention(x[:, :4], mask=CausalMask(), cache=cache, **first)]
            found += [attention(t, mask=CausalMask(), cache=cache) for t in x[:, 4:].split(1, 1)]
        torch.testing.assert_close(torch.cat(found, 1), expected, rtol=1e-9, atol=1e-9)


def test_padding_on_the_left_changes_nothing_of_the_tokens():
    attention, x = attention_with(SCHEMES["RoPE"]()), randn(1, 6, D_MODEL, seed=2, dtype=torch.float64)
    noise = randn(1, 3, D_MODEL, seed=3, dtype=torch.float64)
    positions = torch.tensor([[-1, -1, -1, 0, 1, 2, 3, 4, 5]])
    padded = attention(torch.cat((noise, x), 1), mask=CausalMask(), positions=positions)
    torch.testing.assert_close(padded[:, 3:], attention(x, mask=CausalMask()), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "blocks", [[1] * 12, [5, 1, 1, 4, 1], [2, 2, 7, 1]], ids=["one by one", "blocks", "long block"]
)
@pytest.mark.parametrize("name", ["none", "ALiBi", "Shaw", "Transformer-XL", "RoPE"])
def test_a_rolling_cache_equals_a_sliding_window(name, blocks):
    attention, x = attention_with(SCHEMES[name]()), randn(2, 12, D_MODEL, seed=1, dtype=torch.float64)
    mask = CausalMask() & SlidingWindowMask(4)
    expected = attention(x, mask=mask)
    cache = attention.new_cache(2, 4, RollingKVCache)
    with torch.no_grad():
        found = [attention(tokens, mask=mask, cache=cache) for tokens in x.split(blocks, 1)]
    torch.testing.assert_close(torch.cat(found, 1), expected, rtol=1e-9, atol=1e-9)
    assert cache.length == 12 and cache.read()[0].shape[2] == 4
    assert sorted(cache.read()[-1][0].tolist()) == [8, 9, 10, 11]
    full = attention(x, mask=CausalMask())
    assert (full - expected).abs().max() > 1e-3  # the window hides something


@pytest.mark.parametrize("n_kv_heads", [HEADS, 2, 1])
def test_a_context_is_projected_once_and_read_from_the_cache_after(n_kv_heads, monkeypatch):
    attention = attention_with(PositionScheme(), n_kv_heads, CrossAttention)
    x, context = randn(2, 4, D_MODEL, dtype=torch.float64), randn(2, 5, D_MODEL, seed=1, dtype=torch.float64)
    padding = PaddingMask(torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool())
    expected = attention(x, context, padding)
    cache, projected = attention.new_cache(2, 5), []
    attention.w_key.register_forward_hook(lambda *_: projected.append(1))
    with torch.no_grad():
        found = [attention(token, context, padding, cache=cache) for token in x.split(1, 1)]
    torch.testing.assert_close(torch.cat(found, 1), expected, rtol=1e-9, atol=1e-9)
    assert len(projected) == 1 and cache.length == 5


@pytest.mark.parametrize("capped", [False, True])
def test_weights_and_soft_caps_over_a_cache(capped):
    attention, x = attention_with(PositionScheme()), randn(2, 5, D_MODEL, dtype=torch.float64)
    attention.score_mod = Softcapping(0.7) if capped else None
    expected, weights = attention(x, mask=CausalMask(), return_weights=True)
    cache = attention.new_cache(2, 5)
    with torch.no_grad():
        attention(x[:, :4], mask=CausalMask(), cache=cache)
        found, last = attention(x[:, 4:], mask=CausalMask(), cache=cache, return_weights=True)
    torch.testing.assert_close(found, expected[:, 4:], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(last, weights[:, :, 4:], rtol=1e-9, atol=1e-9)


@pytest.mark.syllabus("CMU-10", "CMU-11", "CMU-12", "CMU-13", "CMU-16")
def test_bytes_are_those_of_the_formula():
    """The lecture's LLaMA-65B and LLaMA-2-70B shapes, one layer of 80, 16 bits, one token: E-33's widths, too."""

    def bytes_per_token(attention, n_slots=3):
        return attention.to(torch.bfloat16).new_cache(1, n_slots).n_bytes / n_slots

    with torch.device("meta"):
        heads_64 = SelfAttention(8192, 64)
        heads_8 = SelfAttention(8192, 64, n_kv_heads=8)
        one_head = SelfAttention(8192, 64, n_kv_heads=1)
        latent = LatentAttention(5120, 128, d_latent=512, d_head=128, position=InterleavedRotary(64))
    assert 80 * bytes_per_token(heads_64) == 2_621_440
    assert 80 * bytes_per_token(heads_8) == 327_680
    assert bytes_per_token(heads_64) == 64 * bytes_per_token(one_head)
    assert bytes_per_token(latent) == 2 * (512 + 64)
    cache = KVCache(3, 5, [(2, 7), (2, 11)], dtype=torch.float64)
    assert cache.n_bytes == 3 * 5 * 2 * (7 + 11) * 8


def test_a_cache_is_filled_in_place_and_gives_views_of_its_buffers():
    cache = KVCache(2, 6, [(3, 4), (1, 5)])
    first = [randn(2, 3, 2, 4), randn(2, 1, 2, 5, seed=1)]
    second = [randn(2, 3, 3, 4, seed=2), randn(2, 1, 3, 5, seed=3)]
    keys, values, positions = cache.append(*first)
    address = keys.data_ptr()
    more_keys, more_values, more_positions = cache.append(*second, positions=torch.tensor([[4, 5, 6], [-1, 9, 8]]))
    assert more_keys.data_ptr() == address and cache.length == 5 and not cache.contiguous
    torch.testing.assert_close(more_keys, torch.cat((first[0], second[0]), 2))
    torch.testing.assert_close(more_values, torch.cat((first[1], second[1]), 2))
    assert positions.tolist() == [[0, 1]] * 2 and more_positions.tolist() == [[0, 1, 4, 5, 6], [0, 1, -1, 9, 8]]
    assert cache.next_positions(1).tolist() == [[7], [10]]
    for read, appended in zip(cache.read(), (more_keys, more_values, more_positions), strict=True):
        assert torch.equal(read, appended)


def test_an_overflow_is_refused_and_loses_nothing():
    attention, x = attention_with(PositionScheme()), randn(2, 5, D_MODEL, dtype=torch.float64)
    cache = attention.new_cache(2, 4)
    with torch.no_grad():
        attention(x[:, :3], cache=cache)
        before = [kept.clone() for kept in cache.read()]
        with pytest.raises(ValueError, match="2 more tokens do not fit: 3 of n_slots=4 are taken"):
            attention(x[:, 3:], cache=cache)
        assert cache.length == 3 and cache.contiguous
        for now, then in zip(cache.read(), before, strict=True):
            assert torch.equal(now, then)
        attention(x[:, 3:4], cache=cache)
    assert cache.length == 4


def test_what_does_not_fit_a_cache_is_refused():
    cache = KVCache(2, 6, [(3, 4), (1, 5)])
    good = [torch.zeros(2, 3, 2, 4), torch.zeros(2, 1, 2, 5)]
    with pytest.raises(
        ValueError, match=r"new tensors have shapes .*\(2, 1, 2, 6\)\]; they must have .*\(2, 1, 2, 5\)"
    ):
        cache.append(good[0], torch.zeros(2, 1, 2, 6))
    with pytest.raises(ValueError, match="new tensors have shapes"):
        cache.append(good[0])
    with pytest.raises(TypeError, match="a new tensor is torch.float64 on cpu; this cache stores torch.float32 on cpu"):
        cache.append(good[0], good[1].double())
    with pytest.raises(ValueError, match="a cache stores no gradients"):
        cache.append(good[0].requires_grad_(), good[1])
    assert cache.length == 0
    for sizes in ((0, 6, [(1, 1)]), (2, 0, [(1, 1)]), (2, 6, []), (2, 6, [(0, 1)]), (2, 6, [(1, 0)])):
        with pytest.raises(ValueError, match="=0 must be at least 1"):
            KVCache(*sizes)


class Restless(PositionScheme):
    not_cacheable = "everything moves with each new token"


@pytest.mark.parametrize("scheme", [Restless, lambda: LengthScaledIndex(D_MODEL)])
def test_a_scheme_that_cannot_be_cached_says_so(scheme):
    attention, x = attention_with(scheme()), randn(2, 3, D_MODEL, dtype=torch.float64)
    attention(x)
    with pytest.raises(ValueError, match="(Restless|LengthScaledIndex) cannot be cached: (everything moves|each new)"):
        attention(x, cache=KVCache(2, 4, [(2, D_HEAD), (2, D_VALUE)], dtype=torch.float64))
    cross = attention_with(scheme(), kind=CrossAttention)
    with pytest.raises(ValueError, match="(Restless|LengthScaledIndex) cannot be cached"):
        cross(x, x, cache=cross.new_cache(2, 4))


def test_new_tokens_go_on_where_the_cache_ends():
    context = context_of_new_tokens(3)
    assert context.query_positions.tolist() == [[0, 1, 2]] and context.contiguous and context.new_positions is None
    positions = torch.tensor([[5, 6, 7]])
    given = context_of_new_tokens(3, positions)
    assert given.new_positions is positions and not given.contiguous
    cache = KVCache(2, 9, [(1, 4)])
    cache.append(randn(2, 1, 2, 4))
    context = context_of_new_tokens(3, cache=cache)
    assert context.query_positions.tolist() == [[2, 3, 4]] and context.contiguous
    cache.append(randn(2, 1, 2, 4), positions=torch.tensor([[-1, 2], [2, 3]]))
    context = context_of_new_tokens(1, cache=cache)
    assert context.query_positions.tolist() == [[3], [4]] and not context.contiguous


def test_layers_whose_caches_have_one_layout_share_offsets_and_masks():
    context, mask = PositionContext(torch.tensor([[3, 4]])), CausalMask()
    first = context.with_keys(torch.tensor([[1, 2, 3, 4]]), "KVCache of 9 slots")
    assert context.with_keys(torch.tensor([[1, 2, 3, 4]]), "KVCache of 9 slots") is first
    window = context.with_keys(torch.tensor([[3, 4]]), "RollingKVCache of 2 slots")
    assert first.offsets.shape == (1, 2, 4) and window.offsets.shape == (1, 2, 2)
    assert first.mask(mask) is first.mask(mask) and first.mask(CausalMask()) is not first.mask(mask)
    assert torch.equal(first.mask(mask), mask(torch.tensor([[3, 4]]), torch.tensor([[1, 2, 3, 4]])))


@pytest.mark.parametrize("device", DEVICES)
def test_a_cache_is_where_its_attention_is(device):
    attention = attention_with(SCHEMES["RoPE"]()).to(device, torch.bfloat16)
    cache = attention.new_cache(2, 4)
    with torch.no_grad():
        attention(randn(2, 3, D_MODEL).to(device, torch.bfloat16), mask=CausalMask(), cache=cache)
    assert all(kept.device.type == device for kept in cache.read())
    assert cache.read()[0].dtype == torch.bfloat16 and cache.read()[-1].dtype == torch.int64


def test_cached_steps_compile_without_a_graph_break(run_without_shape_checks):
    code = """
import torch
from llm_anatomy.layers.attention import CrossAttention, SelfAttention
from llm_anatomy.layers.kv_cache import KVCache, RollingKVCache
from llm_anatomy.layers.latent_attention import LatentAttention
from llm_anatomy.layers.masks import CausalMask, SlidingWindowMask
from llm_anatomy.layers.positions.rotary import HalfSplitRotary
x = torch.randn(2, 7, 12)
for attention, kind, mask in [
    (SelfAttention(12, 4, n_kv_heads=2, d_head=6, position=HalfSplitRotary(4)), KVCache, CausalMask()),
    (SelfAttention(12, 4), RollingKVCache, CausalMask() & SlidingWindowMask(3)),
    (LatentAttention(12, 4, d_latent=5, d_head=3, position=HalfSplitRotary(4)), KVCache, CausalMask()),
]:
    step = torch.compile(attention, fullgraph=True, backend="eager")
    cache = attention.new_cache(2, 3 if kind is RollingKVCache else 8, kind)
    with torch.no_grad():
        expected = attention(x, mask=mask)
        found = [step(tokens, mask=mask, cache=cache) for tokens in x.split([3, 1, 1, 1, 1], 1)]
    torch.testing.assert_close(torch.cat(found, 1), expected)
"""
    run_without_shape_checks(code)


@pytest.mark.parametrize("kind", [KVCache, RollingKVCache])
def test_reordered_sequences_go_on_from_what_another_held(kind):
    """As beams do: some go on twice, some not at all; here three become four, each with a padding of its own."""
    n_slots, rows = 5 if kind is RollingKVCache else TOKENS + 1, [2, 0, 2, 1]
    attention = attention_with(HalfSplitRotary(D_HEAD))
    mask, x, cut = CausalMask() & SlidingWindowMask(5), randn(BATCH, TOKENS, D_MODEL, dtype=torch.float64), 6
    expected = attention(x[rows], mask=mask, positions=LEFT_PADDED[rows])
    cache = attention.new_cache(BATCH, n_slots, kind)
    with torch.inference_mode():
        attention(x[:, :cut], mask=mask, positions=LEFT_PADDED[:, :cut], cache=cache)
        cache.reorder(torch.tensor(rows))
        found = [attention(x[rows, i : i + 1], mask=mask, cache=cache) for i in range(cut, TOKENS)]
    torch.testing.assert_close(torch.cat(found, 1), expected[:, cut:])
    with torch.no_grad():  # reordered in inference mode, it can be filled outside
        attention(x[rows, :1], mask=mask, cache=cache)
