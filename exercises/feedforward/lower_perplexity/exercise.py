import math

import torch


def lower_perplexity() -> list[float]:
    """Return the two perplexities, by how much GEGLU is lower, ReLU higher, and how much the same gap is elsewhere."""
    relu, geglu = math.exp(1.677), math.exp(1.633)
    return [relu, geglu, 100 * (1 - geglu / relu), 100 * (relu / geglu - 1), 100 * (1 - math.exp(2.633 - 2.677))]


def accepted_rounded():
    """Rounds the perplexities first."""
    return 5.35, 5.12, (5.35 - 5.12) / 5.35 * 100, (5.35 - 5.12) / 5.12 * 100, (14.54 - 13.92) / 14.54 * 100


def accepted_tensor():
    """Returns a tensor."""
    logs = torch.tensor([1.677, 1.633], dtype=torch.float64)
    gap = (logs[0] - logs[1]).item()
    lower = -100 * math.expm1(-gap)
    return torch.cat((logs.exp(), torch.tensor([lower, 100 * math.expm1(gap), lower])))


def cases(generator):
    return [{}]


def observe(returned):
    """the two perplexities to two decimals and the three percentages to one"""
    numbers = returned.flatten().tolist() if isinstance(returned, torch.Tensor) else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 5, "five numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes and without %"
    return tuple(round(float(number), digits) + 0.0 for number, digits in zip(numbers, (2, 2, 1, 1, 1), strict=True))


def hidden_cases(generator):
    return [{}]
