"""Masks against the rule written out pair by pair, and the kernel's own modes against the tensor."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from llm_anatomy.layers.attention import CrossAttention, SelfAttention
from llm_anatomy.layers.functional import scaled_dot_product_attention
from llm_anatomy.layers.masks import CausalMask, DocumentMask, Mask, PaddingMask, SlidingWindowMask
from llm_anatomy.layers.softcapping import Softcapping

# Padding on the left, a cache, a packed row that starts anew, and a position of a cache that is empty.
KEYS = torch.tensor([[-1, -1, 0, 1, 2, 3, 4], [40, 41, 42, 43, 44, 45, -1], [50, 51, 52, 0, 1, 2, 3]])
QUERIES = KEYS[:, 2:]
DOCUMENTS = torch.tensor([[0, 0, 0, 0, 1, 1, 2], [5, 5, 5, 5, 5, 5, 5], [0, 0, 0, 1, 1, 1, 1]])
IS_TOKEN = torch.tensor([[1, 1, 1, 0, 1, 1, 1], [1, 0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 0]]).bool()


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


RULES = {
    "causal": (CausalMask(), lambda b, p, q, j, i: p <= q),
    "window": (SlidingWindowMask(3), lambda b, p, q, j, i: -3 < p - q < 3),
    "padding": (PaddingMask(IS_TOKEN), lambda b, p, q, j, i: bool(IS_TOKEN[b, j])),
    "documents": (DocumentMask(DOCUMENTS), lambda b, p, q, j, i: bool(DOCUMENTS[b, j] == DOCUMENTS[b, i + 2])),
    "causal & window": (CausalMask() & SlidingWindowMask(3), lambda b, p, q, j, i: q - 3 < p <= q),
    "all three": (
        PaddingMask(IS_TOKEN) & CausalMask() & SlidingWindowMask(2),
        lambda b, p, q, j, i: q - 2 < p <= q and bool(IS_TOKEN[b, j]),
    ),
}


@pytest.mark.syllabus("UCL-20")
@pytest.mark.parametrize("name", RULES)
def test_each_rule_says_of_every_pair_what_its_formula_says(name):
    mask, rule = RULES[name]
    found = mask(QUERIES, KEYS)
    assert found.shape == (3, 1, 5, 7) or (name == "padding" and found.shape == (3, 1, 1, 7))
    for b in range(3):
        for i, q in enumerate(QUERIES[b].tolist()):
            for j, p in enumerate(KEYS[b].tolist()):
                expected = p >= 0 and rule(b, p, q, j, i)
                assert found.expand(3, 1, 5, 7)[b, 0, i, j].item() == expected, (b, i, j)


def test_rules_compose_in_any_order_and_with_rules_alone():
    a, b = CausalMask(), SlidingWindowMask(2)
    assert torch.equal((a & b)(QUERIES, KEYS), (b & a)(QUERIES, KEYS))
    with pytest.raises(TypeError):
        a & CausalMask().as_tensor(3)


@pytest.mark.parametrize(("n_queries", "n_keys"), [(5, 5), (1, 5), (3, 5)])
@pytest.mark.parametrize(
    "mask",
    [
        CausalMask(),
        SlidingWindowMask(2),
        SlidingWindowMask(5),
        SlidingWindowMask(9) & CausalMask(),
        CausalMask() & SlidingWindowMask(2),
        CausalMask() & CausalMask(),
        PaddingMask(torch.tensor([[1, 0, 1, 1, 1]]).bool()),
        DocumentMask(torch.tensor([[0, 0, 0, 1, 1]])) & CausalMask(),
    ],
    ids=repr,
)
def test_a_mode_of_the_kernel_hides_what_the_tensor_hides(mask, n_queries, n_keys):
    """Where the queries are the newest: as the explicit path, which always takes the tensor."""
    query, key, value = randn(1, 4, n_queries, 6), randn(1, 2, n_keys, 6, seed=1), randn(1, 2, n_keys, 3, seed=2)
    positions = torch.arange(n_keys)[None]
    tensor = mask(positions[:, n_keys - n_queries :], positions)
    expected, _ = scaled_dot_product_attention(query, key, value, tensor, return_weights=True)
    explicit, _ = scaled_dot_product_attention(query, key, value, mask, return_weights=True)
    torch.testing.assert_close(explicit, expected)
    torch.testing.assert_close(scaled_dot_product_attention(query, key, value, mask), expected)
    bias = randn(1, 4, n_queries, n_keys, seed=3)
    expected, _ = scaled_dot_product_attention(query, key, value, tensor, bias=bias, return_weights=True)
    torch.testing.assert_close(scaled_dot_product_attention(query, key, value, mask, bias=bias), expected)


@pytest.fixture
def asked(monkeypatch):
    """What the kernel is asked for: (is_causal, whether it gets a mask)."""
    calls, original = [], F.scaled_dot_product_attention

    def record(*args, **kwargs):
        calls.append((kwargs["is_causal"], kwargs["attn_mask"] is not None))
        return original(*args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", record)
    return calls


def test_the_kernels_own_causal_mode_is_used_where_the_corners_align_and_only_there(asked):
    attention, x = SelfAttention(12, 3), randn(2, 5, 12)
    causal, window = CausalMask(), SlidingWindowMask(3)
    for mask, given, expected in [
        (causal, {}, (True, False)),
        (causal & SlidingWindowMask(5), {}, (True, False)),
        (causal & window, {}, (False, True)),
        (window, {}, (False, True)),
        (causal, dict(positions=torch.arange(5)[None]), (False, True)),  # a position may say anything
        (None, {}, (False, False)),
    ]:
        attention(x, mask=mask, **given)
        assert asked.pop() == expected, (mask, given)
    CrossAttention(12, 3)(x, x, mask=causal)  # a context may have any positions
    assert asked.pop() == (False, True)
    cache = attention.new_cache(2, 9)
    with torch.no_grad():
        for tokens, expected in [(x[:, :3], (True, False)), (x[:, 3:4], (False, False)), (x[:, 3:], (False, True))]:
            attention(tokens, mask=causal, cache=cache)
            assert asked.pop() == expected


def test_a_single_query_over_a_cache_is_not_aligned_to_the_first_key():
    """The trap of PyTorch's is_causal, shown: it lets one new token see key 0 alone."""
    query, key, value = randn(1, 2, 1, 4), randn(1, 2, 6, 4, seed=1), randn(1, 2, 6, 4, seed=2)
    trap = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(trap, value[:, :, :1])
    ours = scaled_dot_product_attention(query, key, value, CausalMask())
    torch.testing.assert_close(ours, F.scaled_dot_product_attention(query, key, value))


def test_causal_mask_as_a_rule_equals_a_lower_triangle():
    positions = torch.arange(7)[None]
    triangle = torch.ones(5, 7, dtype=torch.bool).tril(2)
    assert torch.equal(CausalMask()(positions[:, 2:], positions)[0, 0], triangle)
    assert torch.equal(CausalMask().as_tensor(5, 7), triangle)


def test_a_query_in_the_padding_gets_zeros_on_both_paths():
    query, key, value = randn(3, 2, 5, 4), randn(3, 2, 7, 4, seed=1), randn(3, 2, 7, 4, seed=2)
    mask = CausalMask() & PaddingMask(torch.tensor([[0, 0, 0, 1, 1, 1, 1]]).bool().expand(3, -1))
    fused = scaled_dot_product_attention(query, key, value, mask)
    explicit, weights = scaled_dot_product_attention(query, key, value, mask, return_weights=True)
    assert fused[:, :, 0].eq(0).all() and weights[:, :, 0].eq(0).all() and fused[:, :, 1].ne(0).all()
    torch.testing.assert_close(explicit, fused)


def test_a_mask_reaches_soft_capped_scores():
    query, key, value = randn(2, 3, 5, 4), randn(2, 3, 5, 4, seed=1), randn(2, 3, 5, 4, seed=2)
    for mask in (CausalMask(), CausalMask().as_tensor(5)):
        output = scaled_dot_product_attention(query, key, value, mask, score_mod=Softcapping(0.5))
        torch.testing.assert_close(output[:, :, 0], value[:, :, 0])


def bare_padding(attention_mask):
    """Past jaxtyping, which would refuse first."""
    return PaddingMask.__post_init__(SimpleNamespace(attention_mask=attention_mask))


def bare_documents(documents):
    return DocumentMask.__post_init__(SimpleNamespace(documents=documents))


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: SlidingWindowMask(0), ValueError, "width=0 must be at least 1"),
        (
            lambda: bare_padding(torch.ones(2, 3)),
            TypeError,
            "attention_mask has dtype torch.float32; it must be torch.bool",
        ),
        (lambda: bare_padding(torch.ones(3).bool()), ValueError, r"attention_mask has shape \(3,\)"),
        (
            lambda: scaled_dot_product_attention(
                randn(2, 1, 3, 4), randn(2, 1, 5, 4), randn(2, 1, 5, 4), PaddingMask(torch.ones(2, 4).bool())
            ),
            ValueError,
            "attention_mask has 4 keys, but attention has 5",
        ),
        (
            lambda: scaled_dot_product_attention(
                randn(2, 1, 3, 4), randn(2, 1, 5, 4), randn(2, 1, 5, 4), PaddingMask(torch.ones(3, 5).bool())
            ),
            ValueError,
            r"mask has shape \(3, 1, 1, 5\); it must broadcast to the scores \(2, 1, 3, 5\)",
        ),
        (
            lambda: scaled_dot_product_attention(randn(2, 1, 5, 4), randn(2, 1, 3, 4), randn(2, 1, 3, 4), CausalMask()),
            ValueError,
            "n_queries=5 must not exceed n_keys=3",
        ),
        (lambda: DocumentMask(DOCUMENTS)(QUERIES, QUERIES), ValueError, "documents has 7 keys, but attention has 5"),
        (lambda: bare_documents(DOCUMENTS.float()), TypeError, "documents have dtype torch.float32"),
        (lambda: bare_documents(DOCUMENTS[0]), ValueError, r"documents has shape \(7,\); it must be \(batch, keys\)"),
        (lambda: Mask()(KEYS, KEYS), NotImplementedError, "Mask must implement allows"),
    ],
)
def test_bad_masks_are_refused(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()
