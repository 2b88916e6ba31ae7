import torch


def cases(generator):
    def drawn(n_heads, r_max, query_positions, key_positions, dtype=torch.float32):
        scores = torch.randn(n_heads, len(query_positions), len(key_positions), generator=generator)
        positions = {"query_positions": query_positions, "key_positions": key_positions}
        return {"weights": scores.softmax(-1).to(dtype)} | positions | {"r_max": r_max}

    five = torch.arange(5)  # Georgia Tech's matrix of offsets
    return [
        drawn(2, 1, five, five.clone()),
        drawn(3, 2, torch.tensor([11, 12]), torch.arange(6, 13)),  # the newest two of seven tokens
        drawn(1, 3, torch.tensor([9, 3, 5, 0]), torch.tensor([2, 8, 4, 1, 7, 0])),
        drawn(4, 5, torch.arange(20, 23), torch.arange(18, 23), torch.float64),
    ]


def drawn(generator):
    """Weights of two heads and five tokens."""
    return torch.randn(2, 5, 5, generator=generator).softmax(-1)


FIVE = torch.arange(5)


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def property_nothing_is_lost(answer, generator):
    weights = drawn(generator)
    for r_max in (0, 2, 6):
        assert close(answer(weights, FIVE, FIVE, r_max).sum(-1), torch.ones(2, 5)), (
            f"With r_max = {r_max} the weights of a query no longer add up to one: some are lost or counted twice."
        )


def property_moving_all(answer, generator):
    weights = drawn(generator)
    assert close(answer(weights, FIVE, FIVE, 2), answer(weights, FIVE + 30, FIVE + 30, 2)), (
        "When all tokens move on by 30 positions, your numbers change. Only offsets should count."
    )


def property_previous_token_head(answer, generator):
    looking_back = torch.eye(6)[None, :5]  # query i, at position i + 1, attends to key i
    found = answer(looking_back, FIVE + 1, torch.arange(6), 2)
    assert close(found, torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0]).expand(1, 5, 5)), (
        "For a head that looks one token back, all the weight should lie on offset -1."
    )


def property_order_of_keys(answer, generator):
    weights, order = drawn(generator), torch.tensor([3, 0, 4, 2, 1])
    assert close(answer(weights, FIVE, FIVE, 1), answer(weights[:, :, order], FIVE, FIVE[order], 1)), (
        "Shuffling the keys, each with its weights and its position, changes your numbers. It should not matter."
    )


def property_gradient(answer, generator):
    weights = drawn(generator).requires_grad_()
    assert answer(weights, FIVE, FIVE, 2).requires_grad, (
        "PyTorch cannot follow your numbers back to the weights, so nothing could be learned. Stay with tensors."
    )
