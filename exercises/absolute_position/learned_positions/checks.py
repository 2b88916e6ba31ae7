import torch


def cases(generator):
    words = [[0.42, 0.31, 0.73, 0.36, 0.99], [0.87, -0.64, 0.81, 0.26, -0.35], [0.02, 0.01, -0.24, -0.07, 0.0]]
    slide = {
        "x": torch.tensor([words + words[2:]]),
        "positions": torch.tensor([[0, 1, 2, 3]]),
        "table": torch.arange(30.0).reshape(5, 6) / 10,
    }

    def drawn(positions, d_model, n_ctx, dtype=torch.float32):
        positions = torch.tensor(positions)
        return {
            "x": torch.randn(*positions.shape, d_model, generator=generator).to(dtype),
            "positions": positions,
            "table": torch.randn(d_model, n_ctx, generator=generator).to(dtype),
        }

    return [
        slide,
        drawn([[-1, -1, 0, 1], [3, 4, 5, 6]], 3, 7),  # padding at the left; a later piece of a text
        drawn([[2, 0], [-1, 8], [5, 5]], 4, 9, torch.float64),
    ]


def refusal(answer, positions):
    try:
        answer(torch.zeros(1, len(positions), 4), torch.tensor([positions]), torch.ones(4, 6))
    except Exception as e:
        return e.__cause__ or e
    return None


def property_a_position_beyond_the_table_is_refused(answer, generator):
    error = refusal(answer, [4, 5, 6])
    assert error is not None, (
        "A table for 6 positions, 0 to 5, was asked for position 6, and you answered. There is no vector for it: "
        "refuse."
    )
    assert isinstance(error, ValueError), (
        f"Position 6 of a table for 6 ends in {type(error).__name__}. Raise a ValueError yourself, before you look up."
    )
    assert "6" in str(error), "Your refusal does not name the position that has no vector."


def property_a_position_below_padding_is_refused(answer, generator):
    assert isinstance(refusal(answer, [-2, 0, 1]), ValueError), (
        "Position −2 is neither padding nor a position. It should be refused with a ValueError, too."
    )


def property_the_last_position_is_not_refused(answer, generator):
    assert refusal(answer, [5, -1]) is None, "A table for 6 positions has a vector for position 5, and −1 is padding."


def property_one_hot_times_the_table(answer, generator):
    table = torch.randn(3, 5, generator=generator)
    found = answer(torch.zeros(1, 5, 3), torch.arange(5)[None], table)[0]
    assert torch.allclose(found, (table @ torch.eye(5)).T, atol=1e-6), (
        "With embeddings of zero, token i should be the table times the one-hot vector of position i. Yours is not."
    )


def property_the_table_can_learn(answer, generator):
    table = torch.randn(3, 5, generator=generator, requires_grad=True)
    assert answer(torch.zeros(1, 2, 3), torch.tensor([[1, 4]]), table).requires_grad, (
        "PyTorch cannot follow your output back to the table, so nothing could be learned. Stay with tensors: "
        "no .item(), .tolist(), .numpy() or .detach() on the way."
    )
