import torch


def cases(generator):
    five = torch.arange(5)  # Georgia Tech's matrix of offsets, and the paper's eight heads
    return [
        {"n_heads": 8, "query_positions": five, "key_positions": five.clone()},
        {"n_heads": 6, "query_positions": torch.tensor([11, 12]), "key_positions": torch.arange(6, 13)},
        {"n_heads": 1, "query_positions": torch.tensor([9, 3, 5]), "key_positions": torch.tensor([2, 8, 4, 1])},
        {
            "n_heads": 12,
            "query_positions": torch.tensor([40, 7], dtype=torch.int32),
            "key_positions": torch.tensor([3, 77, 41], dtype=torch.int32),
        },
    ]


def slopes(answer, n_heads):
    return -answer(n_heads, torch.tensor([0]), torch.tensor([1]))[:, 0, 0]


def property_nothing_for_itself(answer, generator):
    positions = torch.randint(0, 50, (6,), generator=generator)
    assert (answer(5, positions, positions).diagonal(dim1=1, dim2=2) == 0).all(), (
        "A token pays a penalty for looking at its own position. It should pay none."
    )


def property_never_a_reward(answer, generator):
    queries, keys = torch.randint(0, 50, (2, 6), generator=generator)
    assert (answer(5, queries, keys) <= 0).all(), "A key gets more for being far away. Distance is a penalty."


def property_moving_all(answer, generator):
    queries, keys = torch.randint(0, 50, (2, 6), generator=generator)
    assert torch.allclose(answer(3, queries, keys), answer(3, queries + 100, keys + 100)), (
        "When all tokens move on by 100 positions, what you add changes. It should depend on distances alone."
    )


def property_a_line(answer, generator):
    query, keys = torch.tensor([20]), torch.tensor([21, 22, 24, 28])
    penalties = answer(4, query, keys)
    assert torch.allclose(penalties, penalties[:, :, :1] * torch.tensor([1.0, 2.0, 4.0, 8.0])), (
        "Twice the distance should cost twice as much, in every head."
    )


def property_all_slopes_differ(answer, generator):
    for n_heads in (7, 8, 12, 20):
        assert len(slopes(answer, n_heads).unique()) == n_heads, f"Of {n_heads} heads two have the same slope."


def property_lower_power_first(answer, generator):
    assert torch.allclose(slopes(answer, 6)[:4], slopes(answer, 4)), (
        "The first four of six heads should have the slopes of four heads."
    )
