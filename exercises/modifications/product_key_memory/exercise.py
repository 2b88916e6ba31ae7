import torch

from llm_anatomy.shapes import Float, Tensor


def product_key_memory(
    q: Float[Tensor, "n_queries d_query"],
    first: Float[Tensor, "n d_half"],
    second: Float[Tensor, "n d_half"],
    values: Float[Tensor, "n_values d_model"],
    k: int,
) -> Float[Tensor, "n_queries d_model"]:
    """Return the weighted sum of the k values that match each query best."""
    n, d_half = first.shape
    a, i = (q[:, :d_half] @ first.T).topk(k)
    b, j = (q[:, d_half:] @ second.T).topk(k)
    sums = (a[:, :, None] + b[:, None, :]).flatten(1)
    indices = (n * i[:, :, None] + j[:, None, :]).flatten(1)
    best, chosen = sums.topk(k)
    return torch.einsum("qk, qkd -> qd", best.softmax(-1), values[indices.gather(1, chosen)])


def accepted_all_scores(q, first, second, values, k):
    """Computes every score, and hides all but the best from the softmax."""
    one, two = q.chunk(2, dim=-1)
    scores = (one @ first.T).repeat_interleave(len(second), dim=1) + (two @ second.T).repeat(1, len(first))
    smallest = scores.sort(dim=-1, descending=True).values[:, k - 1 : k]
    return scores.masked_fill(scores < smallest, -torch.inf).softmax(-1) @ values


def accepted_whole_keys(q, first, second, values, k):
    """Makes the list of all keys, and goes through the queries."""
    keys = torch.stack([torch.cat((a, b)) for a in first for b in second])
    outputs = []
    for query in q:
        best = torch.topk(keys @ query, k)
        weights = torch.exp(best.values - best.values.max())
        outputs.append((weights / weights.sum()) @ values[best.indices])
    return torch.stack(outputs)


NAMES = ("q", "first", "second", "values", "k")


def cases(generator):
    def drawn(n_queries, d_half, n, d_model, k):
        shapes = ((n_queries, 2 * d_half), (n, d_half), (n, d_half), (n * n, d_model))
        return dict(zip(NAMES, (*(torch.randn(*s, generator=generator) for s in shapes), k), strict=True))

    small = (
        torch.tensor([[1.0, 1.0]]),
        torch.tensor([[0.0], [2.0]]),
        torch.tensor([[0.0], [5.0]]),
        torch.tensor([[10.0], [20.0], [30.0], [40.0]]),
        1,
    )
    return [drawn(3, 2, 7, 5, 4), dict(zip(NAMES, small, strict=True)), drawn(2, 3, 5, 4, 5), drawn(6, 1, 4, 2, 2)]


def property_weights_sum_to_one(answer, generator):
    q, first, second = (torch.randn(*s, generator=generator) for s in ((3, 4), (5, 2), (5, 2)))
    found = torch.as_tensor(answer(q, first, second, torch.ones(25, 6), 3))
    assert torch.allclose(found, torch.ones(3, 6), atol=1e-4), (
        "If all values are ones, every output should be one, because the weights sum to one. Yours is not."
    )


def hidden_cases(generator):
    def drawn(n_queries, d_half, n, d_model, k):
        shapes = ((n_queries, 2 * d_half), (n, d_half), (n, d_half), (n * n, d_model))
        return dict(zip(NAMES, (*(torch.randn(*s, generator=generator) for s in shapes), k), strict=True))

    return [drawn(4, 3, 6, 7, 3), drawn(5, 2, 9, 3, 6), drawn(2, 4, 8, 5, 8), drawn(7, 2, 5, 4, 2)]
