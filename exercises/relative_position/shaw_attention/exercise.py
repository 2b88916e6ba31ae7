import math

import torch

from llm_anatomy.shapes import Bool, Float, Int, Tensor


def shaw_attention(
    query: Float[Tensor, "batch n_heads n_queries d_head"],
    key: Float[Tensor, "batch n_heads n_keys d_head"],
    value: Float[Tensor, "batch n_heads n_keys d_value"],
    key_vectors: Float[Tensor, "n_offsets d_head"],
    value_vectors: Float[Tensor, "n_offsets d_value"],
    query_positions: Int[Tensor, "batch n_queries"],
    key_positions: Int[Tensor, "batch n_keys"],
    mask: Bool[Tensor, "batch n_queries n_keys"],
) -> Float[Tensor, "batch n_heads n_queries d_value"]:
    """Attention in which each clipped offset adds one vector to the keys and another to the values."""
    r_max = len(key_vectors) // 2
    offset = key_positions[:, None, :] - query_positions[:, :, None]
    rows = offset.clamp(-r_max, r_max) + r_max  # (batch, n_queries, n_keys)
    by_position = torch.einsum("bhqd,bqkd->bhqk", query, key_vectors[rows])
    scores = (query @ key.mT + by_position) / math.sqrt(query.shape[-1])
    weights = torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), dim=-1)
    return weights @ value + torch.einsum("bhqk,bqkd->bhqd", weights, value_vectors[rows])


def _rows(query_positions, key_positions, n_offsets):
    r_max = n_offsets // 2
    return (key_positions[:, None, :] - query_positions[:, :, None]).clamp(-r_max, r_max) + r_max


def accepted_changed_keys_and_values(
    query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask
):
    """Adds the vectors first, so that each pair of tokens has its own key and value."""
    rows = _rows(query_positions, key_positions, len(key_vectors))
    keys = key[:, :, None] + key_vectors[rows][:, None]  # (batch, n_heads, n_queries, n_keys, d_head)
    values = value[:, :, None] + value_vectors[rows][:, None]
    scores = (keys @ query[..., None]).squeeze(-1) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask[:, None], -math.inf).softmax(-1)
    return (weights[..., None, :] @ values).squeeze(-2)


def accepted_gather_and_scatter(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Multiplies by whole tables, gathers the scores and scatters the weights, without a vector for each pair."""
    n_offsets = len(key_vectors)
    rows = _rows(query_positions, key_positions, n_offsets)[:, None].expand(-1, query.shape[1], -1, -1)
    scores = query @ key.mT + (query @ key_vectors.T).gather(-1, rows)
    scores = torch.where(mask[:, None], scores / math.sqrt(query.shape[-1]), -math.inf)
    weights = torch.softmax(scores, dim=-1)
    by_offset = weights.new_zeros(*weights.shape[:-1], n_offsets).scatter_add(-1, rows, weights)
    return weights @ value + by_offset @ value_vectors


def accepted_one_head_at_a_time(query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Loops over sequences and heads, so that einsum needs only three letters."""
    all_rows = _rows(query_positions, key_positions, len(key_vectors))
    output = torch.empty(*query.shape[:-1], value.shape[-1])
    for b, (rows, visible) in enumerate(zip(all_rows, mask, strict=True)):
        added_keys, added_values = key_vectors[rows], value_vectors[rows]
        for h in range(query.shape[1]):
            scores = query[b, h] @ key[b, h].T + torch.einsum("qd, qkd -> qk", query[b, h], added_keys)
            scores[~visible] = -math.inf
            weights = torch.softmax(scores / math.sqrt(query.shape[-1]), -1)
            output[b, h] = weights @ value[b, h] + torch.einsum("qk, qkv -> qv", weights, added_values)
    return output


def cases(generator):
    def drawn(n_heads, d_head, d_value, r_max, query_positions, key_positions, mask):
        batch = len(query_positions)
        shapes = {
            "query": (batch, n_heads, query_positions.shape[1], d_head),
            "key": (batch, n_heads, key_positions.shape[1], d_head),
            "value": (batch, n_heads, key_positions.shape[1], d_value),
            "key_vectors": (2 * r_max + 1, d_head),
            "value_vectors": (2 * r_max + 1, d_value),
        }
        tensors = {name: torch.randn(*s, generator=generator).round(decimals=1) for name, s in shapes.items()}
        return tensors | {"query_positions": query_positions, "key_positions": key_positions, "mask": mask}

    def causal(query_positions, key_positions):
        return key_positions.unsqueeze(1) <= query_positions.unsqueeze(2)

    three = torch.arange(3)[None]  # the dog chased: nothing hidden, nothing far
    far = torch.tensor([[7]]), torch.tensor([[1, 3, 5]])
    ahead = torch.tensor([[2]]), torch.tensor([[1, 3, 8]])  # a key far in the future that is not hidden
    newest = torch.tensor([[10, 11, 12], [28, 30, 31]])
    cached = torch.tensor([[8, 9, 10, 11, 12], [24, 27, 28, 30, 31]])  # 25, 26, 29 are dropped
    padded = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 1], [0, 0, 1, 2]])  # by 0, 2 and 1 on the left
    seen = torch.ones(3, 4, 4, dtype=torch.bool).tril()
    for row, n_padded in enumerate((0, 2, 1)):
        seen[row, :, :n_padded] = False
        seen[row, :n_padded, :n_padded] = torch.eye(n_padded, dtype=torch.bool)  # padding may attend only to itself
    return [
        drawn(1, 2, 1, 2, *far, torch.ones(1, 1, 3, dtype=torch.bool)),
        drawn(2, 3, 2, 2, three, three.clone(), torch.ones(1, 3, 3, dtype=torch.bool)),
        drawn(1, 3, 3, 3, newest, cached, causal(newest, cached)),  # values as wide as keys
        drawn(2, 4, 3, 1, padded, padded.clone(), seen),
        drawn(1, 2, 1, 2, *ahead, torch.ones(1, 1, 3, dtype=torch.bool)),
    ]


def drawn(generator):
    """Two sequences of five tokens, three heads of width 4, values of width 2, vectors for offsets from -2 to 2."""
    shapes = (2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 2), (5, 4), (5, 2)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


POSITIONS = torch.arange(5).expand(2, -1)


CAUSAL = torch.ones(2, 5, 5, dtype=torch.bool).tril()


ALL = torch.ones(2, 5, 5, dtype=torch.bool)


def close(a, b):
    return torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True)


def property_moving_all(answer, generator):
    parts, moved = drawn(generator), POSITIONS + torch.tensor([[3], [70]])
    assert close(answer(*parts, POSITIONS, POSITIONS, CAUSAL), answer(*parts, moved, moved, CAUSAL)), (
        "When all tokens of a sequence move by the same number of positions, your output changes. It should not."
    )


def property_no_looking_ahead(answer, generator):
    query, key, value, *vectors = drawn(generator)
    other_key, other_value = key.clone(), value.clone()
    other_key[:, :, 4] += 1
    other_value[:, :, 4] += 1
    before = answer(query, key, value, *vectors, POSITIONS, POSITIONS, CAUSAL)[:, :, :4]
    assert close(before, answer(query, other_key, other_value, *vectors, POSITIONS, POSITIONS, CAUSAL)[:, :, :4]), (
        "Under a causal mask, changing the last token changes the output of an earlier one. It should not."
    )


def property_vectors_of_zero(answer, generator):
    query, key, value, key_vectors, value_vectors = drawn(generator)
    plain = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    nothing = torch.zeros_like(key_vectors), torch.zeros_like(value_vectors)
    assert close(answer(query, key, value, *nothing, POSITIONS, POSITIONS, ALL), plain), (
        "If all vectors are zero, the result should be plain scaled dot-product attention."
    )


def property_row_of_an_offset(answer, generator):
    query, key, value, key_vectors, value_vectors = drawn(generator)
    key_vectors, value_vectors = torch.zeros_like(key_vectors), torch.zeros_like(value_vectors)
    key_vectors[1] = 100.0  # of offsets -2, -1, 0, 1, 2
    found = answer(torch.ones_like(query), key, value, key_vectors, value_vectors, POSITIONS + 6, POSITIONS + 6, ALL)
    assert close(found[:, :, 1:], value[:, :, :-1]), (
        "If only the key vector of offset -1 has a large product with the queries, every token should receive the "
        "value of the token before it."
    )


def property_same_value_vector_everywhere(answer, generator):
    *parts, value_vectors = drawn(generator)
    one = torch.tensor([2.0, -3.0]).expand_as(value_vectors)
    without = answer(*parts, torch.zeros_like(value_vectors), POSITIONS, POSITIONS, CAUSAL)
    assert close(answer(*parts, one, POSITIONS, POSITIONS, CAUSAL), without + one[0]), (
        "If every offset has the same value vector, exactly this vector should be added to each output, because the "
        "weights sum to one."
    )


def property_same_key_vector_everywhere(answer, generator):
    query, key, value, key_vectors, value_vectors = drawn(generator)
    one = torch.ones_like(key_vectors)
    without = answer(query, key, value, torch.zeros_like(one), value_vectors, POSITIONS, POSITIONS, CAUSAL)
    assert close(answer(query, key, value, one, value_vectors, POSITIONS, POSITIONS, CAUSAL), without), (
        "If every offset has the same key vector, all scores of a query change by the same amount, so the output "
        "should stay the same."
    )


def property_gradient(answer, generator):
    query, key, value, key_vectors, value_vectors = drawn(generator)
    for name, vectors in (("key", key_vectors), ("value", value_vectors)):
        vectors.requires_grad_()
        total = answer(query, key, value, key_vectors, value_vectors, POSITIONS, POSITIONS, ALL).sum()
        assert total.requires_grad and torch.autograd.grad(total, vectors, allow_unused=True)[0] is not None, (
            f"No gradient reaches the {name} vectors from your output, so they could not be trained. Use tensor "
            "operations throughout."
        )
        vectors.requires_grad_(False)


def hidden_cases(generator):
    def drawn(batch, n_heads, n_queries, n_keys, d_head, d_value, r_max):
        shapes = {
            "query": (batch, n_heads, n_queries, d_head),
            "key": (batch, n_heads, n_keys, d_head),
            "value": (batch, n_heads, n_keys, d_value),
            "key_vectors": (2 * r_max + 1, d_head),
            "value_vectors": (2 * r_max + 1, d_value),
        }
        tensors = {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
        first = torch.randint(0, 50, (batch, 1), generator=generator)
        tensors["query_positions"] = first + n_keys - n_queries + torch.arange(n_queries)
        tensors["key_positions"] = first + torch.arange(n_keys)
        if n_keys > 2:  # two of the sequences' keys are out of order: packed texts
            tensors["key_positions"][0, 1] += 4
        mask = torch.rand(batch, n_queries, n_keys, generator=generator) < 0.6
        mask[:, :, 0] = True
        return tensors | {"mask": mask}

    return [
        drawn(3, 2, 4, 9, 5, 6, 3),
        drawn(1, 5, 1, 8, 3, 2, 2),
        drawn(2, 1, 7, 7, 4, 4, 1),
        drawn(4, 3, 6, 5, 2, 7, 9),
    ]


def probe_moved_text(answer, query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """When all queries and keys of a sequence move by the same number of positions, no output changes: only the offsets
    matter."""
    return answer(query, key, value, key_vectors, value_vectors, query_positions + 23, key_positions + 23, mask)


def probe_hidden_keys(answer, query, key, value, key_vectors, value_vectors, query_positions, key_positions, mask):
    """Keys that a query may not attend to have no influence on its output, and neither have their values and
    positions."""
    hidden = ~mask[:, 0]  # from the first query of each sequence
    key, value = key - 3 * hidden[:, None, :, None], value + 5 * hidden[:, None, :, None]
    positions = key_positions + 2 * hidden
    return answer(query, key, value, key_vectors, value_vectors, query_positions, positions, mask)[:, :, 0]
