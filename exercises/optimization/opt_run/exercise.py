import torch


def opt_run() -> list[float]:
    """Return GPUs, tokens of an update, billions in the run and at the checkpoint, rate, and update frequency."""
    n_nodes = sum(last - first + 1 for first, last in ((1, 38), (40, 89), (91, 94), (96, 119), (121, 128)))
    tokens = n_nodes * 8 * 2048
    return [8.0 * n_nodes, float(tokens), 143_052 * tokens / 1e9, 13_250 * tokens / 1e9, 1.2e-4 * 500 / 2000, 2.0]


def accepted_rounded():
    """The numbers, as they stand on paper."""
    return 992, 2_031_616, 290.6, 26.9, 0.00003, 2


def accepted_tensor():
    """Counts the nodes that are left out, and returns a tensor."""
    n_nodes = torch.tensor(128 - 4, dtype=torch.float64)
    per_update = n_nodes * 2**14
    runs = per_update * torch.tensor([143_052, 13_250]) / 10**9
    rest = torch.tensor([12e-5 / 4, 2], dtype=torch.float64)
    return torch.cat((torch.stack((n_nodes * 8, per_update)), runs, rest))


def cases(generator):
    return [{}]


def observe(returned):
    """the six numbers, the third and the fourth to one decimal"""
    numbers = returned.flatten().tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 6, "six numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    gpus, tokens, whole, seen, rate, frequency = (float(number) for number in numbers)
    assert gpus.is_integer(), f"the number of GPUs is a whole number, and {gpus:,.10g} is not"
    assert tokens.is_integer(), f"the number of tokens in an update is a whole number, and {tokens:,.10g} is not"
    rate = float(f"{rate:.3g}")
    return int(gpus), int(tokens), round(whole, 1) + 0.0, round(seen, 1) + 0.0, 1e5 * rate, round(frequency, 3) + 0.0


def hidden_cases(generator):
    return [{}]
