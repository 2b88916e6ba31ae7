import torch
import torch.nn.functional as F


def one_batch() -> tuple[float, float, float, float, float]:
    """Return the output in training, the two running averages, and the two outputs in evaluation."""
    gamma, beta, mean, biased, unbiased = 2.0, 1.0, 3.0, 4.0, 8.0
    training, evaluation = ((5 - mean) / variance**0.5 for variance in (biased, unbiased))
    averages = 0.9 * 0 + 0.1 * mean, 0.9 * 1 + 0.1 * unbiased
    return gamma * training + beta, *averages, gamma * evaluation + beta, beta


def accepted_library():
    """Asks PyTorch, with many steps, and returns a tensor."""
    mean, var, gamma, beta = torch.zeros(1), torch.ones(1), torch.full((1,), 2.0), torch.ones(1)
    batch = torch.tensor([[1.0], [5.0]])
    output = F.batch_norm(batch, mean, var, gamma, beta, training=True)[1, 0]
    found = [output, mean.item(), var.item()]
    for _ in range(200):
        F.batch_norm(batch, mean, var, gamma, beta, training=True)
    last = F.batch_norm(torch.tensor([[5.0], [3.0]]), mean, var, gamma, beta)
    return torch.tensor([*found, *last.flatten().tolist()])


def accepted_on_paper():
    """Two decimals, in a list."""
    return [3, 0.3, 1.7, 2.41, 1]


def cases(generator):
    return [{}]


def observe(returned):
    """the five numbers, to two decimals"""
    numbers = returned.tolist() if isinstance(returned, torch.Tensor) else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 5, "five numbers are needed"
    return tuple(round(float(number), 2) + 0.0 for number in numbers)


def hidden_cases(generator):
    return [{}]
