import torch


def two_weights() -> list[float]:
    """Return x2 after one and two steps of SGD and two with momentum, both after one of Adam, and the largest rate."""
    first = 1 - 0.06 * 20
    second = first - 0.06 * 20 * first
    with_momentum = first - 0.06 * (0.9 * 20 + 20 * first)
    return [first, second, with_momentum, 10 - 0.06, 1 - 0.06, 2 / 20]


def accepted_rounded():
    """The numbers, as they stand on paper."""
    return -0.2, 0.04, -1.04, 9.94, 0.94, 0.1


def accepted_library():
    """Lets PyTorch run, and knows the bound."""

    def after(n_steps, method, **options):
        x = torch.tensor([10.0, 1.0], dtype=torch.float64, requires_grad=True)
        optimizer = method([x], lr=0.06, **options)
        for _ in range(n_steps):
            optimizer.zero_grad()
            (0.5 * (x[0] ** 2 + 20 * x[1] ** 2)).backward()
            optimizer.step()
        return x.detach()

    sgd, adam = torch.optim.SGD, torch.optim.Adam
    steps = [after(1, sgd)[1], after(2, sgd)[1], after(2, sgd, momentum=0.9)[1], *after(1, adam)]
    return torch.stack([*steps, torch.tensor(0.1, dtype=torch.float64)])


def cases(generator):
    return [{}]


def observe(returned):
    """the six numbers to three decimals"""
    numbers = returned.flatten().tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 6, "six numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    return tuple(round(float(number), 3) + 0.0 for number in numbers)


def hidden_cases(generator):
    return [{}]
