import torch


def digits_of(positions, n_digits):
    """Written digit by digit, the last one first."""
    columns = []
    for _ in range(n_digits):
        columns.insert(0, positions % 2)
        positions = positions // 2
    return torch.stack(columns, -1)


def cases(generator):
    slide = torch.arange(16)
    return [
        {"digits": digits_of(slide, 4)},
        {"digits": digits_of(torch.tensor([6, 1, 5, 3, 0]), 3)},
        {"digits": digits_of(torch.randint(0, 128, (9,), generator=generator), 7)},
    ]


def property_the_last_digit_is_worth_one(answer, generator):
    even = digits_of(torch.arange(0, 32, 2), 5)
    odd = even + torch.tensor([0, 0, 0, 0, 1])
    assert torch.equal(answer(odd), answer(even) + 1), (
        "Turning the last digit to 1 should make the position one higher."
    )


def property_all_positions_differ(answer, generator):
    positions = answer(digits_of(torch.arange(64), 6))
    assert len(positions.unique()) == 64, (
        "Two rows of digits that differ should never be the same position. Yours can be."
    )
