import math

import torch

from llm_anatomy.shapes import Bool, Float, Tensor


def masked_attention(
    queries: Float[Tensor, "n_queries d_head"],
    keys: Float[Tensor, "n_keys d_head"],
    values: Float[Tensor, "n_keys d_value"],
    mask: Bool[Tensor, "n_queries n_keys"],
) -> Float[Tensor, "n_queries d_value"]:
    """Return scaled dot-product attention; query i may attend to key j where mask[i, j] is True."""
    scores = queries @ keys.T / math.sqrt(keys.shape[-1])  # (n_queries, n_keys)
    weights = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1)
    return weights @ values


def accepted_logarithm_of_the_mask(queries, keys, values, mask):
    """Adds the matrix M of the formula, which is the logarithm of the mask as ones and zeros."""
    scores = torch.einsum("qd, kd -> qk", queries, keys) / math.sqrt(queries.shape[1])
    weights = torch.softmax(scores + mask.to(scores.dtype).log(), dim=-1)
    return torch.einsum("qk, kv -> qv", weights, values)


def accepted_visible_keys_only(queries, keys, values, mask):
    """Takes one query at a time and leaves out the keys that it may not attend to, so that nothing is infinite."""
    outputs = []
    for query, visible in zip(queries, mask, strict=True):
        weights = torch.softmax(keys[visible] @ query / len(query) ** 0.5, dim=0)
        outputs.append(weights @ values[visible])
    return torch.stack(outputs)


def accepted_tokens_as_columns(queries, keys, values, mask):
    """Computes everything transposed, with the softmax down the columns; the result is not contiguous."""
    scaled = queries.T * queries.shape[1] ** -0.5
    scores = torch.where(mask.T, keys @ scaled, -math.inf)
    return (values.T @ torch.softmax(scores, dim=0)).T


def cases(generator):
    lecture = {  # the soft dictionary of the chapter, with a third entry out of sight, and a second query
        "queries": torch.tensor([[0.8, 0.2], [1.0, 0.0]]),
        "keys": torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]]),
        "values": torch.tensor([[1.0, 1.0], [-1.0, 1.0], [9.0, -9.0]]),
        "mask": torch.tensor([[True, True, False], [False, True, True]]),
    }

    large = {  # the visible score of the first query is far below the hidden one
        "queries": torch.tensor([[-10.0], [10.0]]),
        "keys": torch.tensor([[200.0], [0.0]]),
        "values": torch.tensor([[1.0], [9.0]]),
        "mask": torch.tensor([[True, False], [True, True]]),
    }

    def drawn(mask, d_head, d_value):
        def tenths(*shape):
            return (10 * torch.randn(*shape, generator=generator)).round() / 10

        n_queries, n_keys = mask.shape
        queries, keys, values = tenths(n_queries, d_head), tenths(n_keys, d_head), tenths(n_keys, d_value)
        return {"queries": queries, "keys": keys, "values": values, "mask": mask}

    # In each mask but one, every key is seen by a query, so that mistakes too give finite numbers that tell them apart.
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    causal[1:, 0] = False  # the first token is padding, which only it may attend to
    window = torch.ones(4, 6, dtype=torch.bool).tril(2).triu()
    one_for_nobody = torch.tensor([[True, False, True, False], [True, True, False, False]])
    return [lecture, large, drawn(causal, 3, 2), drawn(window, 5, 3), drawn(one_for_nobody, 3, 5)]


def drawn(generator):
    queries, keys, values = (torch.randn(*shape, generator=generator) for shape in ((3, 4), (5, 4), (5, 2)))
    return queries, keys, values, torch.ones(3, 5, dtype=torch.bool).tril(1)


def property_weights_add_up_to_one(answer, generator):
    queries, keys, values, mask = drawn(generator)
    assert torch.allclose(answer(queries, keys, torch.ones_like(values), mask), torch.ones(3, 2), atol=1e-5), (
        "With all values equal to one, the output should be one for any scores. Yours is not: your weights do not "
        "add up to one."
    )


def property_hidden_keys_have_no_influence(answer, generator):
    queries, keys, values, mask = drawn(generator)
    changed_keys, changed_values = keys.clone(), values.clone()
    changed_keys[4], changed_values[4] = 7.0, -50.0  # hidden from all three queries
    before, after = answer(queries, keys, values, mask), answer(queries, changed_keys, changed_values, mask)
    assert torch.allclose(before, after, atol=1e-5), (
        "Your output changes when we change an entry that is hidden from all queries. It should have no influence at "
        "all."
    )


def property_large_scores(answer, generator):
    queries, keys, values, mask = drawn(generator)
    assert answer(1000 * queries, keys, values, mask).isfinite().all(), (
        "With scores of several thousand, your output is not finite. Let torch.softmax take the exponentials."
    )


def property_order_of_entries(answer, generator):
    queries, keys, values, mask = drawn(generator)
    order = torch.tensor([3, 0, 4, 2, 1])
    shuffled = answer(queries, keys[order], values[order], mask[:, order])
    assert torch.allclose(answer(queries, keys, values, mask), shuffled, atol=1e-5), (
        "Your output changes when we shuffle the keys, the values and the columns of the mask together. Their order "
        "should not matter."
    )


def property_gradient(answer, generator):
    queries, keys, values, mask = drawn(generator)
    queries.requires_grad_()
    total = answer(queries, keys, values, mask).sum()
    assert total.requires_grad and torch.autograd.grad(total, queries, allow_unused=True)[0] is not None, (
        "PyTorch cannot follow your output back to the queries, so nothing could be learned. Do you use them only in "
        "an argmax or not at all, or is there an .item(), .tolist(), .numpy() or .detach() on the way?"
    )


def hidden_cases(generator):
    def drawn(mask, d_head, d_value, size=1.0):
        n_queries, n_keys = mask.shape
        return {
            "queries": torch.randn(n_queries, d_head, generator=generator) * size,
            "keys": torch.randn(n_keys, d_head, generator=generator),
            "values": torch.randn(n_keys, d_value, generator=generator),
            "mask": mask,
        }

    some = torch.rand(6, 9, generator=generator) < 0.5
    some[:, 3], some[:, 5] = True, False
    only_itself = torch.eye(4, dtype=torch.bool)
    low = drawn(some, 3, 2)  # every score is below -100
    low |= {"queries": 100 + 50 * low["queries"].abs(), "keys": -1 - low["keys"].abs()}
    far = drawn(only_itself, 1, 6)  # the one visible score of a row is far below others
    far |= {"queries": 100 + 9 * far["queries"].abs(), "keys": far["keys"].abs() / 9 + 3 * torch.arange(4.0)[:, None]}
    return [
        drawn(some, 8, 3),
        drawn(some[:, :7], 2, 5),
        drawn(torch.ones(3, 7, dtype=torch.bool), 5, 2),
        drawn(only_itself, 3, 6),
        drawn(some[:1], 16, 4, size=40.0),
        low,
        far,
    ]


def probe_hidden_keys(answer, queries, keys, values, mask):
    """A query's output does not depend on the keys that it may not attend to, nor on their values."""
    hidden = ~mask[0, :, None]  # from the first query
    return answer(queries, keys - 3 * hidden, values + 5 * hidden, mask)[0]
