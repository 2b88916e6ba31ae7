import torch


def cases(generator):
    def drawn(n_heads, d_head, r_max, query_positions, key_positions, dtype=torch.float32):
        shapes = {
            "query": (n_heads, len(query_positions), d_head),
            "key": (n_heads, len(key_positions), d_head),
            "table": (n_heads, 2 * r_max + 1),
        }
        tensors = {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        return tensors | {"query_positions": query_positions, "key_positions": key_positions}

    five = torch.arange(5)  # T = 5 tokens and 2T - 1 numbers for each head, as on CMU's slide
    return [
        drawn(2, 3, 4, five, five.clone()),
        drawn(3, 4, 2, torch.tensor([11, 12]), torch.arange(6, 13)),  # the newest two of seven tokens
        drawn(1, 5, 3, torch.tensor([9, 3, 5, 0]), torch.tensor([2, 8, 4, 1, 7, 0])),
        drawn(4, 2, 1, torch.arange(20, 26), torch.arange(18, 23), torch.float64),
    ]


def drawn(generator):
    """Five tokens, two heads of width 3, and a table for offsets from -2 to 2."""
    return [torch.randn(*shape, generator=generator) for shape in ((2, 5, 3), (2, 5, 3), (2, 5))]


FIVE = torch.arange(5)


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def property_weights_add_up(answer, generator):
    assert close(answer(*drawn(generator), FIVE, FIVE).sum(-1), torch.ones(2, 5)), (
        "The weights of a query do not add up to one."
    )


def property_moving_all(answer, generator):
    parts = drawn(generator)
    assert close(answer(*parts, FIVE, FIVE), answer(*parts, FIVE + 30, FIVE + 30)), (
        "When all tokens move on by 30 positions, your weights change. Only the offsets should count."
    )


def property_column_of_an_offset(answer, generator):
    query, key, table = drawn(generator)
    table[:, 3] = 100.0  # of offsets -2, -1, 0, 1, 2
    assert (answer(query, key, table, FIVE + 6, FIVE + 6).diagonal(1, 1, 2) > 0.99).all(), (
        "With a very large number for offset 1 alone, every token should attend to the token after it."
    )


def property_same_number_everywhere(answer, generator):
    query, key, table = drawn(generator)
    with_same = answer(query, key, torch.full_like(table, 7.0), FIVE, FIVE)
    assert close(with_same, answer(query, key, torch.zeros_like(table), FIVE, FIVE)), (
        "A table with the same number everywhere changes your weights. The softmax should not notice it."
    )


def property_far_is_far(answer, generator):
    parts = drawn(generator)
    near, far = answer(*parts, FIVE[:5], FIVE + 2), answer(*parts, FIVE[:5], FIVE + 200)
    assert close(near[:, 0], far[:, 0]), (
        "For a table up to offset 2, keys at 2 to 6 positions and keys at 200 to 204 positions should get the same "
        "number."
    )


def property_gradient(answer, generator):
    query, key, table = drawn(generator)
    table.requires_grad_()
    assert answer(query, key, table, FIVE, FIVE).requires_grad, (
        "PyTorch cannot follow your weights back to the table, so it could not be trained. Stay with tensors."
    )
