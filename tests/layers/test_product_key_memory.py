"""Product-key memory against a search of all keys and the formula in loops."""

import math

import pytest
import torch
from randomness import randn, randomize

from llm_anatomy.layers.product_key_memory import ProductKeyMemory, product_key_top_k

BATCH, TOKENS, D_MODEL, N_KEYS, HEADS, K, D_QUERY = 3, 7, 10, 6, 2, 4, 8


@pytest.fixture
def memory():
    return randomize(ProductKeyMemory(D_MODEL, N_KEYS, n_heads=HEADS, k=K, d_query=D_QUERY), scale=1.0)


def search_of_all_keys(memory, row, head):
    """From the paper: the whole query against each key that two sub-keys make; the best first."""
    halves = memory.w_query(row).view(HEADS, 2, D_QUERY // 2)[head]
    query = torch.cat([memory.query_norm(half) for half in halves])
    first, second = memory.sub_keys[head]
    scores = [(torch.cat([a, b]) @ query).item() for a in first for b in second]
    return sorted(((score, i) for i, score in enumerate(scores)), reverse=True)[:K]


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("k", range(1, N_KEYS + 1))
def test_the_best_pairs_are_those_of_all_pairs(k):
    scores = randn(500, 2, N_KEYS)
    best, indices = product_key_top_k(scores, k)
    pairs = (scores[:, 0, :, None] + scores[:, 1, None, :]).flatten(1)
    expected, expected_indices = pairs.topk(k)
    assert torch.equal(best, expected) and torch.equal(indices, expected_indices)


def test_the_best_pairs_have_the_best_scores_where_scores_are_equal():
    scores = randn(500, 2, N_KEYS).round()
    best, indices = product_key_top_k(scores, K)
    pairs = (scores[:, 0, :, None] + scores[:, 1, None, :]).flatten(1)
    assert torch.equal(best, pairs.topk(K).values) and torch.equal(pairs.gather(1, indices), best)
    assert all(len(set(row)) == K for row in indices.tolist())


@pytest.mark.syllabus("GT-19")
def test_each_token_reads_the_values_of_its_best_keys(memory):
    x = randn(BATCH, TOKENS, D_MODEL)
    output = memory(x)
    for batch in range(BATCH):
        for token in range(TOKENS):
            expected = torch.zeros(D_MODEL)
            for head in range(HEADS):
                found = search_of_all_keys(memory, x[batch, token], head)
                total = sum(math.exp(score) for score, _ in found)
                expected += sum(math.exp(score) / total * memory.values[i] for score, i in found)
            torch.testing.assert_close(output[batch, token], expected, rtol=1e-4, atol=1e-4)


def test_a_token_reads_as_many_different_values_as_it_should(memory):
    _, indices = memory.search(randn(BATCH, TOKENS, D_MODEL))
    assert indices.shape == (BATCH, TOKENS, HEADS, K) and indices.min() >= 0 and indices.max() < N_KEYS**2
    assert (indices.sort(-1).values.diff(dim=-1) > 0).all()


def test_every_parameter_learns_and_only_values_that_were_read(memory):
    x = randn(BATCH, TOKENS, D_MODEL)
    memory(x).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in memory.parameters())
    unread = set(range(N_KEYS**2)) - set(memory.search(x)[1].flatten().tolist())
    assert unread and not memory.values.grad[sorted(unread)].any()


def test_gradients_are_those_of_the_function(memory):
    memory = memory.double()
    x = randn(1, 2, D_MODEL, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: memory(x), x)


def test_it_takes_no_numbers_on_the_meta_device_and_runs_in_bfloat16(memory):
    with torch.device("meta"):
        sizes = ProductKeyMemory(D_MODEL, N_KEYS, n_heads=HEADS, k=K, d_query=D_QUERY)(torch.randn(2, 3, D_MODEL))
    assert sizes.shape == (2, 3, D_MODEL)
    x = randn(BATCH, TOKENS, D_MODEL, dtype=torch.bfloat16)
    assert memory.bfloat16()(x).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(k=N_KEYS + 1), "k=7 must be at most n_keys=6"),
        (dict(d_query=7), "d_query=7 must be even"),
        (dict(n_heads=0), "n_heads=0"),
    ],
)
def test_sizes_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ProductKeyMemory(D_MODEL, N_KEYS, **dict(k=K) | options)


@pytest.mark.parametrize("k", [0, N_KEYS + 1])
def test_a_search_for_too_few_or_too_many_is_refused(k):
    with pytest.raises(ValueError, match=f"k={k} must be from 1 to n_keys=6"):
        product_key_top_k(torch.zeros(2, N_KEYS), k)
