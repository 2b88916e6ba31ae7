import torch


def rezero_first_step() -> tuple[float, float, float, float, float]:
    """Return three gradients of the first step, the output after it, and a gradient of the second step."""
    x, w_1, w_2 = 2.0, 3.0, 5.0
    at_y = x - 1  # y = x at first
    a_1, a_2 = -0.01 * at_y * w_1 * x, -0.01 * at_y * w_2 * x
    y = x * (1 + a_1 * w_1) * (1 + a_2 * w_2)
    return at_y * w_1 * x, 0.0, at_y, y, (y - 1) * (1 + a_2 * w_2) * a_1 * x


def accepted_on_paper():
    """The numbers, in a list."""
    return [6, 0, 1, 0.82, 0.0108]


def accepted_autograd():
    """Asks PyTorch for all gradients, and returns a tensor."""
    values = torch.tensor([0.0, 0.0, 3.0, 5.0, 2.0], requires_grad=True)  # both alphas, both weights, x

    def output(v):
        h = v[4] + v[0] * v[2] * v[4]
        return h + v[1] * v[3] * h

    (first,) = torch.autograd.grad((output(values) - 1) ** 2 / 2, values)
    after = values - 0.01 * first * torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0])
    (second,) = torch.autograd.grad((output(after) - 1) ** 2 / 2, after)
    return torch.stack([first[0], first[2], first[4], output(after), second[2]])


def cases(generator):
    return [{}]


def observe(returned):
    """the five numbers, to four decimals"""
    numbers = returned.tolist() if isinstance(returned, torch.Tensor) else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 5, "five numbers are needed"
    right = (6, 0, 1, 0.82, 0.0108)
    plain = [float(x.detach() if isinstance(x, torch.Tensor) else x) for x in numbers]
    pairs = zip(plain, right, strict=True)
    return tuple(float(r) if abs(x - r) <= 1.0001e-4 else round(x, 4) for x, r in pairs)


def hidden_cases(generator):
    return [{}]
