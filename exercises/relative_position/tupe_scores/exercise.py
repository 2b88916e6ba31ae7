import math

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def tupe_scores(
    query: Float[Tensor, "n_heads n_queries d_head"],
    key: Float[Tensor, "n_heads n_keys d_head"],
    position_table: Float[Tensor, "n_ctx d_model"],
    u_query: Float[Tensor, "n_heads d_model d_head"],
    u_key: Float[Tensor, "n_heads d_model d_head"],
    bias: Float[Tensor, "n_heads n_queries n_keys"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
) -> Float[Tensor, "n_heads n_queries n_keys"]:
    """Scores that compare content with content and positions with positions, plus a bias."""
    position_query = position_table[query_positions] @ u_query  # (n_heads, n_queries, d_head)
    position_key = position_table[key_positions] @ u_key
    products = query @ key.mT + position_query @ position_key.mT
    return products / math.sqrt(2 * query.shape[-1]) + bias


def accepted_two_products(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Looks up the positions, projects them for all heads at once, and adds the two products."""
    position_queries = position_table[query_positions] @ u_query
    position_keys = position_table[key_positions] @ u_key
    products = query @ key.mT + position_queries @ position_keys.mT
    return products / math.sqrt(2 * query.shape[-1]) + bias


def accepted_side_by_side(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Concatenates content and positions in heads of twice the width, so that one product with the usual scale is
    enough."""
    position_queries = torch.einsum("qm, hmd -> hqd", position_table[query_positions], u_query)
    position_keys = torch.einsum("km, hmd -> hkd", position_table[key_positions], u_key)
    queries, keys = torch.cat((query, position_queries), -1), torch.cat((key, position_keys), -1)
    return torch.baddbmm(bias, queries, keys.mT, alpha=queries.shape[-1] ** -0.5)


def accepted_table_of_positions(query, key, position_table, u_query, u_key, bias, query_positions, key_positions):
    """Multiplies all positions of the table by each other, head by head, and looks up the products that it needs."""
    scale = 1 / math.sqrt(2 * query.shape[-1])
    scores = []
    for q, k, w_query, w_key, b in zip(query, key, u_query, u_key, bias, strict=True):
        of_positions = position_table @ (w_query @ w_key.T) @ position_table.T  # (n_ctx, n_ctx)
        scores.append((q @ k.T + of_positions[query_positions][:, key_positions]) * scale + b)
    return torch.stack(scores)


def shapes_of(n_heads, n_queries, n_keys, d_head, d_model, n_ctx):
    return {
        "query": (n_heads, n_queries, d_head),
        "key": (n_heads, n_keys, d_head),
        "position_table": (n_ctx, d_model),
        "u_query": (n_heads, d_model, d_head),
        "u_key": (n_heads, d_model, d_head),
        "bias": (n_heads, n_queries, n_keys),
    }


def cases(generator):
    def drawn(n_heads, d_head, d_model, n_ctx, query_positions, key_positions):
        shapes = shapes_of(n_heads, len(query_positions), len(key_positions), d_head, d_model, n_ctx)
        tensors = {name: torch.randn(*s, generator=generator).round(decimals=1) for name, s in shapes.items()}
        return tensors | {"query_positions": query_positions, "key_positions": key_positions}

    three = torch.arange(3)  # the dog chased
    return [
        drawn(1, 2, 2, 4, torch.tensor([1]), torch.tensor([3, 0])),  # heads as wide as the model
        drawn(2, 3, 4, 5, three, three.clone()),
        drawn(3, 2, 5, 6, torch.tensor([4, 5]), torch.arange(2, 6)),  # the newest two of four tokens
    ]


def drawn(generator):
    """Four queries, five keys, two heads of width 3, ten positions of width 6."""
    shapes = (2, 4, 3), (2, 5, 3), (10, 6), (2, 6, 3), (2, 6, 3), (2, 4, 5)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


QUERIES, KEYS = torch.tensor([2, 3, 4, 5]), torch.tensor([1, 2, 3, 4, 5])


def close(a, b):
    return torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-4, equal_nan=True)


def property_words_do_not_meet_positions(answer, generator):
    query, key, position_table, *rest = drawn(generator)
    both = answer(query, key, position_table, *rest, QUERIES, KEYS)
    words = answer(query, key, 0 * position_table, *rest, QUERIES, KEYS)
    here = answer(0 * query, key, position_table, *rest, QUERIES, KEYS)
    nothing = answer(0 * query, key, 0 * position_table, *rest, QUERIES, KEYS)
    assert close(both - words, here - nothing), (
        "The amount that positions add to your scores depends on the queries or keys. Leave out the two products that "
        "mix content with positions."
    )


def property_u_query_of_zero(answer, generator):
    query, key, position_table, u_query, u_key, bias = drawn(generator)
    one = answer(query, key, position_table, 0 * u_query, u_key, bias, QUERIES, KEYS)
    assert close(one, answer(query, key, 3 * position_table, 0 * u_query, u_key, bias, QUERIES, KEYS)), (
        "If u_query is zero, the table of positions should have no influence, and only a bias should be left, as in T5."
    )


def property_bias_as_it_is(answer, generator):
    *parts, bias = drawn(generator)
    assert close(answer(*parts, bias + 1, QUERIES, KEYS), answer(*parts, bias, QUERIES, KEYS) + 1), (
        "If you add 1 to the bias, every score should increase by 1."
    )


def property_doubling(answer, generator):
    query, key, position_table, u_query, u_key, bias = drawn(generator)
    once = answer(2 * query, key, position_table, u_query, u_key, bias, QUERIES, KEYS) - bias
    twice = answer(2 * query, key, position_table, 2 * u_query, u_key, bias, QUERIES, KEYS) - bias
    assert close(2 * (answer(query, key, position_table, u_query, u_key, bias, QUERIES, KEYS) - bias), twice), (
        "If you double the queries and u_query, every score without its bias should double."
    )
    assert not close(once, twice), "Doubling u_query does not change your scores. It should."


def hidden_cases(generator):
    def drawn(n_heads, n_queries, n_keys, d_head, d_model, n_ctx):
        shapes = shapes_of(n_heads, n_queries, n_keys, d_head, d_model, n_ctx)
        tensors = {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}
        positions = torch.randint(0, n_ctx, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return tensors | dict(zip(("query_positions", "key_positions"), positions, strict=True))

    return [
        drawn(2, 1, 7, 5, 6, 12),
        drawn(4, 6, 3, 2, 5, 40),
        drawn(1, 5, 8, 4, 3, 9),
        drawn(3, 4, 9, 6, 8, 20),
    ]
