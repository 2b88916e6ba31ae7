import torch


def two_bills() -> list[float]:
    """Return operations and percent of the speed of LLaMA-13B and of Llama 2 70B, days, and millions of dollars."""
    numbers = []
    for n_parameters, n_tokens, hours in ((13.0e9, 1.0e12, 135_168), (69.0e9, 2.0e12, 1_720_320)):
        operations = 6 * n_parameters * n_tokens
        numbers += [operations / 1e22, 100 * operations / (hours * 3600 * 312e12)]
    return [*numbers, 1_720_320 / 2048 / 24, 2 * 1_720_320 / 1e6]


def accepted_rounded():
    """The numbers, as they stand on paper."""
    return 7.8, 51, 82.8, 43, 35, 3.4


def accepted_tensor():
    """Returns a tensor, and takes the exact number of parameters."""
    operations = 6 * torch.tensor([13_015_864_320e12, 68_976_648_192 * 2e12], dtype=torch.float64)
    possible = torch.tensor([135_168, 1_720_320]) * 3600 * 312e12
    bill = torch.stack((operations / 1e22, operations / possible * 100))
    return torch.cat((bill.T.flatten(), torch.tensor([35.0, 3.44064])))


def cases(generator):
    return [{}]


def observe(returned):
    """the six numbers, as precise as the statement asks"""
    numbers = returned.flatten().tolist() if hasattr(returned, "tolist") else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 6, "six numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes, commas and units"
    digits = (1, 0, 1, 0, 1, 1)
    return tuple(round(float(number) + 1e-9, n) + 0.0 for number, n in zip(numbers, digits, strict=True))


def hidden_cases(generator):
    return [{}]
