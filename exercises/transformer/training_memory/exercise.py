import torch


def training_memory() -> tuple[int, int, int, int]:
    """Return bytes for each parameter, GB in training, the number of GPUs, and GB of the weights in use."""
    short, long = 2, 4
    each = 2 * short + 3 * long
    total = 7 * each  # GB, since there are 7 billion parameters
    return each, total, -(-total // 80), 7 * short


def accepted_in_floats():
    """Does not care whether the numbers are whole."""
    each = (16 + 16 + 32 + 2 * 32) / 8
    return [each, 7e9 * each / 1e9, 2.0, 7e9 * 2 / 1e9]


def accepted_tensor():
    """Adds up what PyTorch says of its dtypes."""
    sizes = [torch.finfo(dtype).bits // 8 for dtype in (torch.bfloat16, torch.bfloat16, *[torch.float32] * 3)]
    total = 7 * sum(sizes)
    return torch.tensor([sum(sizes), total, total // 80 + 1, 7 * sizes[0]])


def cases(generator):
    return [{}]


def observe(returned):
    """the four numbers"""
    numbers = returned.tolist() if isinstance(returned, torch.Tensor) else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 4, "four numbers are needed"
    return tuple(round(float(number), 3) for number in numbers)


def hidden_cases(generator):
    return [{}]
