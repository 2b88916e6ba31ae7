import math

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def biased_weights(
    query: Float[Tensor, "n_heads n_queries d_head"],
    key: Float[Tensor, "n_heads n_keys d_head"],
    table: Float[Tensor, "n_heads n_offsets"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
) -> Float[Tensor, "n_heads n_queries n_keys"]:
    """Attention weights of scaled scores to which each head adds a learned bias for the clipped offset."""
    r_max = table.shape[-1] // 2
    columns = (key_positions - query_positions[:, None]).clamp(-r_max, r_max) + r_max  # (n_queries, n_keys)
    scores = query @ key.mT / math.sqrt(query.shape[-1]) + table[:, columns]
    return torch.softmax(scores, dim=-1)


def accepted_gathered(query, key, table, query_positions, key_positions):
    """Gathers the bias of each pair from the row of its head."""
    n_heads, n_offsets = table.shape
    r_max = n_offsets // 2
    columns = (key_positions - query_positions[:, None]).clamp(-r_max, r_max) + r_max
    bias = table[:, None, :].expand(-1, len(query_positions), -1).gather(2, columns.expand(n_heads, -1, -1))
    return torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]) + bias, dim=-1)


def accepted_one_offset_at_a_time(query, key, table, query_positions, key_positions):
    """Loops over the columns of the table and adds each bias to the pairs that have this offset."""
    r_max = (table.shape[1] - 1) // 2
    offsets = (key_positions - query_positions[:, None]).clamp(-r_max, r_max)
    scores = torch.einsum("hqd, hkd -> hqk", query, key) / math.sqrt(query.shape[-1])
    for offset, numbers in zip(range(-r_max, r_max + 1), table.T, strict=True):
        scores = scores + numbers[:, None, None] * (offsets == offset)
    return scores.softmax(-1)


def accepted_one_query_at_a_time(query, key, table, query_positions, key_positions):
    """Computes the weights of one query at a time, for all heads at once."""
    r_max = table.shape[1] // 2
    rows = []
    for i, position in enumerate(query_positions):
        columns = torch.clamp(key_positions - position + r_max, 0, 2 * r_max)
        scores = (key @ query[:, i, :, None]).squeeze(-1) / math.sqrt(query.shape[-1])
        rows.append(torch.softmax(scores + table[:, columns], dim=-1))
    return torch.stack(rows, dim=1)


def cases(generator):
    def drawn(n_heads, d_head, r_max, query_positions, key_positions):
        shapes = {
            "query": (n_heads, len(query_positions), d_head),
            "key": (n_heads, len(key_positions), d_head),
            "table": (n_heads, 2 * r_max + 1),
        }
        tensors = {name: torch.randn(*s, generator=generator).round(decimals=1) for name, s in shapes.items()}
        return tensors | {"query_positions": query_positions, "key_positions": key_positions}

    def single(query, key, table, query_position, key_positions):
        tensors = {"query": [[query]], "key": [key], "table": [table]}
        tensors = {name: torch.tensor(value, dtype=torch.float32) for name, value in tensors.items()}
        positions = {"query_positions": [query_position], "key_positions": key_positions}
        return tensors | {name: torch.tensor(value) for name, value in positions.items()}

    five = torch.arange(5)  # T = 5 tokens and 2T - 1 numbers for each head, as on CMU's slide
    return [
        single([1], [[0], [1]], [0, 1, 2], 5, [4, 8]),
        single([3, 0], [[1, 0], [0, 0]], [3, 0, 1, 4, 2], 7, [4, 6]),  # the past alone
        drawn(2, 3, 4, five, five.clone()),
        drawn(3, 4, 2, torch.tensor([11, 12]), torch.arange(8, 13)),  # the newest two of five tokens
        drawn(2, 5, 1, torch.tensor([3, 4, 6]), torch.tensor([3, 5])),  # more queries than keys
    ]


def drawn(generator):
    """Five tokens, two heads of width 3, and a table for offsets from -2 to 2."""
    return [torch.randn(*shape, generator=generator) for shape in ((2, 5, 3), (2, 5, 3), (2, 5))]


FIVE = torch.arange(5)


def close(a, b):
    return torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True)


def property_weights_add_up(answer, generator):
    assert close(answer(*drawn(generator), FIVE, FIVE).sum(-1), torch.ones(2, 5)), (
        "The weights of a query do not sum to one."
    )


def property_moving_all(answer, generator):
    parts = drawn(generator)
    assert close(answer(*parts, FIVE, FIVE), answer(*parts, FIVE + 30, FIVE + 30)), (
        "When all tokens move by 30 positions, your weights change. They should depend only on the offsets."
    )


def property_column_of_an_offset(answer, generator):
    query, key, table = drawn(generator)
    table[:, 3] = 100.0  # of offsets -2, -1, 0, 1, 2
    assert (answer(query, key, table, FIVE + 6, FIVE + 6).diagonal(1, 1, 2) > 0.99).all(), (
        "If only the bias of offset 1 is very large, every token should attend to the token after it."
    )


def property_same_number_everywhere(answer, generator):
    query, key, table = drawn(generator)
    with_same = answer(query, key, torch.full_like(table, 7.0), FIVE, FIVE)
    assert close(with_same, answer(query, key, torch.zeros_like(table), FIVE, FIVE)), (
        "Your weights change if all entries of the table have the same value. The same bias on every score should not "
        "change the softmax."
    )


def property_far_is_far(answer, generator):
    parts = drawn(generator)
    near, far = answer(*parts, FIVE[:5], FIVE + 2), answer(*parts, FIVE[:5], FIVE + 200)
    assert close(near[:, 0], far[:, 0]), (
        "If the table ends at offset 2, the first query should treat keys at offsets 2 to 6 and keys at offsets 200 "
        "to 204 alike: they all share one bias."
    )


def property_gradient(answer, generator):
    query, key, table = drawn(generator)
    table.requires_grad_()
    total = answer(query, key, table, FIVE, FIVE).sum()
    assert total.requires_grad and torch.autograd.grad(total, table, allow_unused=True)[0] is not None, (
        "No gradient reaches the table from your weights, so the table could not be trained. Use tensor operations "
        "throughout."
    )


def hidden_cases(generator):
    def drawn(n_heads, d_head, r_max, n_queries, n_keys):
        shapes = {
            "query": (n_heads, n_queries, d_head),
            "key": (n_heads, n_keys, d_head),
            "table": (n_heads, 2 * r_max + 1),
        }
        tensors = {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
        positions = torch.randint(0, 25, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return tensors | dict(zip(("query_positions", "key_positions"), positions, strict=True))

    return [drawn(5, 2, 6, 3, 8), drawn(2, 7, 1, 6, 4), drawn(3, 1, 12, 1, 9), drawn(4, 6, 3, 8, 5)]


def probe_moved_text(answer, query, key, table, query_positions, key_positions):
    """When all queries and keys move by the same number of positions, no weight changes: only the offsets matter."""
    return answer(query, key, table, query_positions + 23, key_positions + 23)
