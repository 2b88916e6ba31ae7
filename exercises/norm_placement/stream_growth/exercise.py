import torch


def stream_growth() -> tuple[float, int, float, float, int]:
    """Return the RMS after 12 blocks, the blocks to an RMS of 7, the share of a branch, and two more RMS."""
    rms = (1 + 2 * 12) ** 0.5
    return rms, (7**2 - 1) // 2, 1 / rms, 1.0, 1 + 2 * 12


def accepted_on_paper():
    """Whole numbers where there are any, in a list."""
    return [5, 24, 0.2, 1, 25]


def accepted_measured():
    """Adds up orthogonal vectors, and returns a tensor."""
    vectors = 7 * torch.eye(49)  # each has an RMS of 1
    sizes = vectors.cumsum(0).square().mean(1).sqrt()
    blocks = (sizes > 6.99).nonzero()[0, 0] / 2
    return torch.stack([sizes[24], blocks, 1 / sizes[24], torch.tensor(1.0), (25 * vectors[0]).square().mean().sqrt()])


def cases(generator):
    return [{}]


def observe(returned):
    """the five numbers, to two decimals, and the third one to three"""
    numbers = returned.tolist() if isinstance(returned, torch.Tensor) else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 5, "five numbers are needed"
    return tuple(round(float(number), 3 if i == 2 else 2) + 0.0 for i, number in enumerate(numbers))


def hidden_cases(generator):
    return [{}]
