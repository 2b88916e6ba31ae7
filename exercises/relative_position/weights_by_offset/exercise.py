import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Int, Tensor


def weights_by_offset(
    weights: Float[Tensor, "n_heads n_queries n_keys"],
    query_positions: Int[Tensor, "n_queries"],
    key_positions: Int[Tensor, "n_keys"],
    r_max: int,
) -> Float[Tensor, "n_heads n_queries n_offsets"]:
    """The weight that each query puts on each clipped offset, from -r_max to r_max."""
    columns = (key_positions - query_positions[:, None]).clamp(-r_max, r_max) + r_max  # (n_queries, n_keys)
    empty = weights.new_zeros(*weights.shape[:2], 2 * r_max + 1)
    return empty.scatter_add(-1, columns.expand_as(weights), weights)


def accepted_one_hot_product(weights, query_positions, key_positions, r_max):
    """Writes the column of each pair as a one-hot vector and sums over the keys with einsum."""
    columns = (key_positions - query_positions[:, None]).clamp(-r_max, r_max) + r_max
    one_hot = F.one_hot(columns, 2 * r_max + 1).to(weights.dtype)
    return torch.einsum("hqk, qkc -> hqc", weights, one_hot)


def accepted_one_offset_at_a_time(weights, query_positions, key_positions, r_max):
    """Loops over the few offsets and sums the weights of the keys that have each of them."""
    offsets = (key_positions[None, :] - query_positions[:, None]).clamp(-r_max, r_max)
    sums = [(weights * (offsets == offset)).sum(-1) for offset in range(-r_max, r_max + 1)]
    return torch.stack(sums, dim=-1)


def accepted_flat_table(weights, query_positions, key_positions, r_max):
    """Numbers the entries of the result and adds every weight to the entry with its number."""
    n_heads, n_queries, _ = weights.shape
    n_offsets = 2 * r_max + 1
    columns = (key_positions - query_positions[:, None] + r_max).clamp(0, 2 * r_max)
    cells = columns + n_offsets * torch.arange(n_queries)[:, None]
    totals = weights.new_zeros(n_heads, n_queries * n_offsets)
    totals.index_add_(1, cells.flatten(), weights.flatten(1))
    return totals.view(n_heads, n_queries, n_offsets)


def cases(generator):
    def drawn(n_heads, r_max, query_positions, key_positions):
        weights = torch.rand(n_heads, len(query_positions), len(key_positions), generator=generator)
        weights = (weights / weights.sum(-1, keepdim=True)).round(decimals=2)
        positions = {"query_positions": query_positions, "key_positions": key_positions}
        return {"weights": weights} | positions | {"r_max": r_max}

    def single(weights, query_position, key_positions, r_max):
        positions = {"query_positions": torch.tensor([query_position]), "key_positions": torch.tensor(key_positions)}
        return {"weights": torch.tensor([[weights]])} | positions | {"r_max": r_max}

    five = torch.arange(5)  # Georgia Tech's matrix of offsets
    return [
        single([0.1, 0.3, 0.6], 5, [1, 4, 8], 1),
        single([0.2, 0.3, 0.5], 5, [3, 1, 2], 3),  # the past alone
        single([0.4, 0.6], 5, [5, 6], 2),  # nothing before the query
        drawn(2, 1, five, five.clone()),
        drawn(3, 2, torch.tensor([11, 12]), torch.arange(7, 13)),  # the newest two of six tokens
    ]


def drawn(generator):
    """Weights of two heads and five tokens."""
    return torch.randn(2, 5, 5, generator=generator).softmax(-1)


FIVE = torch.arange(5)


def close(a, b):
    return torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True)


def property_nothing_is_lost(answer, generator):
    weights = drawn(generator)
    for r_max in (1, 2, 6):
        assert close(answer(weights, FIVE, FIVE, r_max).sum(-1), torch.ones(2, 5)), (
            f"With r_max = {r_max}, the weights of a query no longer sum to one. Some are lost or counted twice."
        )


def property_moving_all(answer, generator):
    weights = drawn(generator)
    assert close(answer(weights, FIVE, FIVE, 2), answer(weights, FIVE + 30, FIVE + 30, 2)), (
        "When all tokens move by 30 positions, your numbers change. They should depend only on the offsets."
    )


def property_previous_token_head(answer, generator):
    looking_back = torch.eye(6)[None, :5]  # query i, at position i + 1, attends to key i
    found = answer(looking_back, FIVE + 1, torch.arange(6), 2)
    assert close(found, torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0]).expand(1, 5, 5)), (
        "If a head attends only to the previous token, all its weight should be on offset -1."
    )


def property_order_of_keys(answer, generator):
    weights, order = drawn(generator), torch.tensor([3, 0, 4, 2, 1])
    assert close(answer(weights, FIVE, FIVE, 1), answer(weights[:, :, order], FIVE, FIVE[order], 1)), (
        "When the keys are shuffled together with their weights and positions, your numbers change. The order of the "
        "keys should not matter."
    )


def hidden_cases(generator):
    def drawn(n_heads, n_queries, n_keys, r_max):
        weights = torch.randn(n_heads, n_queries, n_keys, generator=generator).softmax(-1)
        positions = torch.randint(0, 15, (n_queries + n_keys,), generator=generator).split((n_queries, n_keys))
        return {"weights": weights, "query_positions": positions[0], "key_positions": positions[1], "r_max": r_max}

    return [drawn(3, 1, 9, 2), drawn(2, 6, 4, 9), drawn(5, 4, 8, 1), drawn(4, 7, 12, 3)]
