import torch

from llm_anatomy.shapes import Float, Tensor


def hard_lookup(
    queries: Float[Tensor, "n_queries d_head"],
    keys: Float[Tensor, "n_keys d_head"],
    values: Float[Tensor, "n_keys d_value"],
) -> Float[Tensor, "n_queries d_value"]:
    """Return, for each query, the value whose key has the largest scalar product with it."""
    scores = queries @ keys.T  # (n_queries, n_keys)
    return values[scores.argmax(dim=-1)]


def accepted_table_of_scores(queries, keys, values):
    """Computes all scores in one product and takes the row numbers from argmax."""
    return values[torch.argmax(queries @ keys.T, dim=1)]


def accepted_stable_sort(queries, keys, values):
    """Ranks the keys of each query; a stable sort leaves the first of equal scores in front."""
    scores = torch.einsum("qd, kd -> qk", queries, keys)
    ranking = scores.sort(dim=1, descending=True, stable=True).indices
    return values.index_select(0, ranking[:, 0])


def accepted_one_hot_weights(queries, keys, values):
    """A running count marks the first maximum of each row; the marks are weights that average the values."""
    scores = (queries[:, None] * keys).sum(-1)
    is_largest = scores == scores.amax(1, keepdim=True)
    is_first = is_largest & (is_largest.cumsum(1) == 1)
    return is_first.to(values.dtype) @ values


def cases(generator):
    lecture = {
        "queries": torch.tensor([[1.0, 0.0], [0.8, 0.2]]),
        "keys": torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
        "values": torch.tensor([[1.0, 1.0], [-1.0, 1.0]]),
    }
    equal_fit = {  # the first and the last key score 4; there are as many keys as numbers in each key
        "queries": torch.tensor([[1.0, 0.0, 2.0]]),
        "keys": torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 3.0, 2.0]]),
        "values": torch.tensor([[5.0], [6.0], [7.0]]),
    }
    opposite = {  # the largest product in size is negative
        "queries": torch.tensor([[1.0, 2.0], [2.0, -1.0]]),
        "keys": torch.tensor([[-3.0, 1.0], [1.0, 1.0], [0.0, 3.0]]),
        "values": torch.tensor([[5.0, 1.0], [6.0, 2.0], [7.0, 9.0]]),  # as wide as the keys
    }

    def drawn(n_queries, n_keys, d_head, d_value):
        def tenths(*shape):
            return (10 * torch.randn(*shape, generator=generator)).round() / 10

        lengths = torch.arange(1.0, n_keys + 1).unsqueeze(1)  # no two keys equally long
        return {
            "queries": tenths(n_queries, d_head),
            "keys": tenths(n_keys, d_head) * lengths,
            "values": tenths(n_keys, d_value),
        }

    return [lecture, equal_fit, opposite, drawn(3, 7, 5, 4)]


def drawn(generator):
    """Six queries and a dictionary of five entries, with different widths of keys and values."""
    return [torch.randn(*shape, generator=generator) for shape in ((6, 4), (5, 4), (5, 3))]


def property_order_of_entries(answer, generator):
    queries, keys, values = drawn(generator)
    order = torch.tensor([3, 0, 4, 2, 1])
    assert torch.allclose(answer(queries, keys, values), answer(queries, keys[order], values[order])), (
        "Your answer changes when we shuffle the entries, each key together with its value. Their order should not "
        "matter."
    )


def property_length_of_query(answer, generator):
    queries, keys, values = drawn(generator)
    assert torch.allclose(answer(queries, keys, values), answer(3 * queries, keys, values)), (
        "A query gets another value from you when it becomes three times as long. All its scores grow by the same "
        "factor, so the same key should win."
    )


def property_queries_alone(answer, generator):
    queries, keys, values = drawn(generator)
    assert torch.allclose(answer(queries, keys, values)[2:3], answer(queries[2:3], keys, values)), (
        "Your answer to a query depends on the other queries. Each query should be looked up on its own."
    )


def hidden_cases(generator):
    def drawn(n_queries, n_keys, d_head, d_value):
        return {
            "queries": torch.randn(n_queries, d_head, generator=generator),
            "keys": torch.randn(n_keys, d_head, generator=generator) * 4,
            "values": torch.randn(n_keys, d_value, generator=generator),
        }

    # Every score is below zero, two scores of the last query are equal, and the last key has the smallest angle.
    negative = {
        "queries": torch.tensor([[-1.0, -2.0], [-2.0, -1.0], [-3.0, -3.0]]),
        "keys": torch.tensor([[5.0, 4.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.0], [9.0, 1.0]]),
        "values": torch.arange(20.0).reshape(5, 4),
    }
    return [negative, drawn(1, 6, 4, 3), drawn(9, 2, 3, 5), drawn(7, 11, 2, 6)]
