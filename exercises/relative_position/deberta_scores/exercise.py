import math

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def deberta_scores(
    query: Float[Tensor, "n_heads n_queries d_head"],
    key: Float[Tensor, "n_heads n_keys d_head"],
    position_query: Float[Tensor, "n_heads n_rows d_head"],
    position_key: Float[Tensor, "n_heads n_rows d_head"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
) -> Float[Tensor, "n_heads n_queries n_keys"]:
    """Disentangled attention as in the paper: content with content, content with position, position with content."""
    span = position_key.shape[1] // 2
    distance = query_positions[:, None] - key_positions
    from_query = distance.clamp(-span, span - 1) + span  # (n_queries, n_keys)
    from_key = (-distance).clamp(-span, span - 1) + span
    asks_for_position = torch.einsum("hqd,hqkd->hqk", query, position_key[:, from_query])
    asked_by_position = torch.einsum("hkd,hqkd->hqk", key, position_query[:, from_key])
    return (query @ key.mT + asks_for_position + asked_by_position) / math.sqrt(3 * query.shape[-1])


def accepted_vector_for_each_pair(query, key, position_query, position_key, query_positions, key_positions):
    """Makes both vectors of each pair of tokens, as in the hints, and writes every product with einsum."""
    k = position_key.shape[1] // 2
    distance = query_positions[:, None] - key_positions
    from_query = position_key[:, distance.clamp(-k, k - 1) + k]  # (n_heads, n_queries, n_keys, d_head)
    from_key = position_query[:, (-distance).clamp(-k, k - 1) + k]
    scores = (
        torch.einsum("hqd, hkd -> hqk", query, key)
        + torch.einsum("hqd, hqkd -> hqk", query, from_query)
        + torch.einsum("hkd, hqkd -> hqk", key, from_key)
    )
    return scores / math.sqrt(3 * query.shape[-1])


def accepted_gathered(query, key, position_query, position_key, query_positions, key_positions):
    """Multiplies by whole tables and gathers. The third term is the second with the roles exchanged and transposed."""
    k = position_key.shape[1] // 2

    def with_positions(vectors, table, own_positions, other_positions):
        rows = (own_positions[:, None] - other_positions).clamp(-k, k - 1) + k
        return (vectors @ table.mT).gather(-1, rows.expand(len(vectors), -1, -1))

    words = query @ key.mT
    of_queries = with_positions(query, position_key, query_positions, key_positions)
    of_keys = with_positions(key, position_query, key_positions, query_positions)
    return (words + of_queries + of_keys.mT) * (3 * query.shape[-1]) ** -0.5


def accepted_one_pair_at_a_time(query, key, position_query, position_key, query_positions, key_positions):
    """Loops over the pairs of tokens and computes each row number with Python integers."""
    span = position_key.shape[1] // 2

    def row(a, b):
        return min(max(a - b, -span), span - 1) + span

    scores = torch.empty(len(query), query.shape[1], key.shape[1])
    for i, m in enumerate(query_positions.tolist()):
        for j, n in enumerate(key_positions.tolist()):
            q, k = query[:, i], key[:, j]
            scores[:, i, j] = (q * k + q * position_key[:, row(m, n)] + k * position_query[:, row(n, m)]).sum(-1)
    return scores / math.sqrt(3 * query.shape[-1])


def cases(generator):
    def drawn(n_heads, d_head, span, query_positions, key_positions):
        shapes = {
            "query": (n_heads, len(query_positions), d_head),
            "key": (n_heads, len(key_positions), d_head),
            "position_query": (n_heads, 2 * span, d_head),
            "position_key": (n_heads, 2 * span, d_head),
        }
        tensors = {name: torch.randn(*s, generator=generator).round(decimals=1) for name, s in shapes.items()}
        return tensors | {"query_positions": query_positions, "key_positions": key_positions}

    three = torch.arange(3)  # the dog chased: no two words are too far apart for the table
    return [
        drawn(1, 2, 2, torch.tensor([7]), torch.tensor([4, 5, 6])),  # the past alone
        drawn(2, 3, 3, three, three.clone()),
        drawn(3, 2, 2, torch.tensor([11, 12]), torch.arange(8, 13)),  # the newest two of five tokens
        drawn(1, 2, 4, torch.tensor([9, 3, 5]), torch.tensor([2, 8, 4, 1, 15])),
    ]


def drawn(generator):
    """Five tokens, two heads of width 3, tables with span 2."""
    return [torch.randn(*shape, generator=generator) for shape in ((2, 5, 3), (2, 5, 3), (2, 4, 3), (2, 4, 3))]


FIVE = torch.arange(5)


def close(a, b):
    return torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True)


def property_moving_all(answer, generator):
    parts = drawn(generator)
    assert close(answer(*parts, FIVE, FIVE), answer(*parts, FIVE + 30, FIVE + 30)), (
        "When all tokens move by 30 positions, your scores change. They should depend only on the distances."
    )


def property_sides_exchanged(answer, generator):
    query, key, position_query, position_key = drawn(generator)
    exchanged = answer(key, query, position_key, position_query, FIVE, FIVE)
    assert close(answer(query, key, position_query, position_key, FIVE, FIVE), exchanged.mT), (
        "If queries and keys exchange their roles, and their tables too, the scores should only be transposed. For "
        "this, the third term must treat the key as the second term treats the query."
    )


def property_no_position_with_position(answer, generator):
    query, key, *positions = drawn(generator)
    assert close(answer(0 * query, 0 * key, *positions, FIVE, FIVE), torch.zeros(2, 5, 5)), (
        "If queries and keys are zero, all scores should be zero. Yours contain a product of positions with positions."
    )


def property_positions_of_zero(answer, generator):
    query, key, *positions = drawn(generator)
    alone = answer(query, key, *(0 * p for p in positions), FIVE, FIVE)
    assert close(3 * alone, query @ key.mT), (
        "If both tables are zero, only the product of queries and keys should be left, divided by the root of three "
        "times the width of a head, which is 3 here."
    )


def hidden_cases(generator):
    def drawn(n_heads, n_queries, n_keys, d_head, span):
        shapes = {
            "query": (n_heads, n_queries, d_head),
            "key": (n_heads, n_keys, d_head),
            "position_query": (n_heads, 2 * span, d_head),
            "position_key": (n_heads, 2 * span, d_head),
        }
        tensors = {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
        positions = torch.randint(0, 30, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return tensors | dict(zip(("query_positions", "key_positions"), positions, strict=True))

    return [drawn(2, 1, 7, 5, 6), drawn(4, 6, 3, 2, 1), drawn(1, 5, 8, 4, 12), drawn(3, 4, 9, 6, 5)]
