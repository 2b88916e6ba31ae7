import torch


def cases(generator):
    lecture = {
        "queries": torch.tensor([[1.0, 0.0], [0.8, 0.2]]),
        "keys": torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
        "values": torch.tensor([[1.0, 1.0], [-1.0, 1.0]]),
    }
    equal_fit = {  # three keys score 4
        "queries": torch.tensor([[1.0, 0.0, 2.0]]),
        "keys": torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 1.0], [0.0, 3.0, 2.0], [4.0, 1.0, 0.0]]),
        "values": torch.arange(8.0).reshape(4, 2),
    }

    def drawn(n_queries, n_keys, d_head, d_value, dtype=torch.float32):
        lengths = torch.arange(1.0, n_keys + 1).unsqueeze(1)  # no two keys equally long
        return {
            "queries": torch.randn(n_queries, d_head, generator=generator).to(dtype),
            "keys": (torch.randn(n_keys, d_head, generator=generator) * lengths).to(dtype),
            "values": torch.randn(n_keys, d_value, generator=generator).to(dtype),
        }

    return [lecture, equal_fit, drawn(3, 7, 5, 4), drawn(6, 4, 3, 2, torch.float64)]


def drawn(generator):
    """Six queries and a dictionary of five entries: five times the width of a query is not the width of a value."""
    return [torch.randn(*shape, generator=generator) for shape in ((6, 4), (5, 4), (5, 3))]


def property_order_of_entries(answer, generator):
    queries, keys, values = drawn(generator)
    order = torch.tensor([3, 0, 4, 2, 1])
    assert torch.allclose(answer(queries, keys, values), answer(queries, keys[order], values[order])), (
        "Shuffling the entries, each key together with its value, changes your answer. It should not matter."
    )


def property_length_of_query(answer, generator):
    queries, keys, values = drawn(generator)
    assert torch.allclose(answer(queries, keys, values), answer(3 * queries, keys, values)), (
        "A query three times as long gets another value from you. All its scores grow alike, so the winner stays."
    )


def property_queries_alone(answer, generator):
    queries, keys, values = drawn(generator)
    assert torch.allclose(answer(queries, keys, values)[2:3], answer(queries[2:3], keys, values)), (
        "Your answer to a query depends on the other queries. Each should be answered by itself."
    )
