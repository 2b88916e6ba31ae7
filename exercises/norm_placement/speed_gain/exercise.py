import torch


def speed_gain() -> tuple[float, float, float, int, float]:
    """Return the two gains in percent, the hours, the ratio of the times and the bound in percent."""
    before, after = 3.50, 3.68
    hours = 524288 / 3600 * (1 / before - 1 / after)
    ratio = (25.5 / 0.17) / (61.0 / 99.80)
    return 100 * (after / before - 1), 100 * (1 - before / after), hours, round(ratio), 100 * (1 / 0.745 - 1)


def accepted_rounded():
    """The numbers as the statement asks for them, in a list."""
    return [5.14, 4.89, 2.0, 245, 34.2]


def accepted_step_by_step():
    """Rounds the parts a little on the way, and returns a tensor."""
    first = (3.68 - 3.5) / 3.5 * 100
    second = (0.285714 - 0.271739) / 0.285714 * 100
    third = 41.61 - 39.57
    return torch.tensor([first, second, third, 150 / 0.611, 25.5 / 74.5 * 100])


def cases(generator):
    return [{}]


def observe(returned):
    """the five numbers, rounded as the statement asks"""
    numbers = returned.tolist() if isinstance(returned, torch.Tensor) else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 5, "five numbers are needed"
    first, second, third, fourth, fifth = map(float, numbers)
    fourth = 245.0 if 244.4 <= fourth <= 246.1 else fourth  # parts may be rounded on the way
    return tuple(round(x, n) for x, n in zip((first, second, third, fourth, fifth), (2, 2, 1, 0, 1), strict=True))


def hidden_cases(generator):
    return [{}]
