import torch

from llm_anatomy.shapes import Int, Tensor


def read_counter(digits: Int[Tensor, "n_positions n_digits"]) -> Int[Tensor, "n_positions"]:
    """Return the position of each row of binary digits; the fastest digit comes last."""
    powers = 2 ** torch.arange(digits.shape[-1]).flip(0)  # 1 at the right
    return (digits * powers).sum(-1)


def accepted_shifted_bits(digits):
    """Shifts each digit by the number of its bit and adds up each row."""
    bits = torch.arange(digits.shape[1]).flip(0)
    return (digits.long() << bits).sum(1)


def accepted_doubling(digits):
    """Uses Horner's rule: goes from left to right, doubles the number so far and adds the next digit."""
    positions = torch.zeros(len(digits), dtype=torch.int64)
    for digit in digits.T:
        positions = 2 * positions + digit
    return positions


def accepted_text(digits):
    """Writes each row as a text of zeros and ones, which Python reads in base 2."""
    texts = ["".join(map(str, row)) for row in digits.tolist()]
    return torch.tensor([int(text, 2) for text in texts])


def digits_of(positions, n_digits):
    """The binary digits of positions, computed from the last to the first."""
    columns = []
    for _ in range(n_digits):
        columns.insert(0, positions % 2)
        positions = positions // 2
    return torch.stack(columns, -1)


def cases(generator):
    given = [([6, 1], 3), ([11, 4, 13, 0, 2], 4), ([6, 1, 5, 3, 0], 3), ([77, 40, 126, 19], 7)]
    given.append(([2**25 + 1, 2**24 + 3], 26))  # more digits than a float32 can hold
    return [{"digits": digits_of(torch.tensor(positions), n_digits)} for positions, n_digits in given]


def property_the_last_digit_is_worth_one(answer, generator):
    even = digits_of(torch.arange(0, 32, 2), 5)
    odd = even + torch.tensor([0, 0, 0, 0, 1])
    assert torch.equal(answer(odd), answer(even) + 1), (
        "If the last digit changes from 0 to 1, the position should grow by one. Yours does not."
    )


def property_all_positions_differ(answer, generator):
    positions = answer(digits_of(torch.arange(64), 6))
    assert len(positions.unique()) == 64, (
        "Two different rows of digits should always give two different positions. Yours can be equal."
    )


def hidden_cases(generator):
    def drawn(n_positions, n_digits):
        return {"digits": torch.randint(0, 2, (n_positions, n_digits), generator=generator)}

    return [drawn(12, 5), drawn(7, 10), drawn(30, 2), drawn(3, 20), drawn(4, 30), {"digits": torch.tensor([[1], [0]])}]
