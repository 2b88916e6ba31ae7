import torch


def bloom_numbers() -> list[float]:
    """Return a ratio of rows, a percentage, GB of code, a ratio of the Chinese texts, and two sizes."""
    shares = [16.2, 10.8, 4.9, 4.6, 4.4, 0.05, 0.03]
    table = 250_880 * 14_336
    model = 70 * 12 * 14_336**2 + table
    return [250_880 / 32_000, 100 - sum(shares), 1600 * 0.108, 16.2 / 0.05, table / 1e9, model / 1e9]


def accepted_rounded():
    """The numbers, as they stand on paper."""
    return 7.8, 59.02, 172.8, 324, 3.6, 176


def accepted_exact():
    """Takes the exact number of parameters, and returns a tensor."""
    return torch.tensor([7.84, 59.02, 172.8, 324, 3.59661568, 176.247271424], dtype=torch.float64)


def cases(generator):
    return [{}]


def observe(returned):
    """the six numbers, as precise as the statement asks"""
    numbers = returned.flatten().tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 6, "six numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes and without %"
    digits = (1, 2, 1, 0, 2, 0)
    rounded = [round(float(number) + 1e-9, n) + 0.0 for number, n in zip(numbers, digits, strict=True)]
    return tuple(rounded)


def hidden_cases(generator):
    return [{}]
