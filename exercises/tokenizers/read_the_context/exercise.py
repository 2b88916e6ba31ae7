import torch


def read_the_context() -> tuple[float, float, float]:
    """Return bytes per token, bytes in the context, and how many times fewer pairs attention compares."""
    bytes_per_token = 2.88
    return bytes_per_token, 2048 * bytes_per_token, bytes_per_token**2


def accepted_read_roughly():
    """Reads one decimal off the axis and rounds the other numbers."""
    return 2.9, round(2048 * 2.9), round(2.9 * 2.9, 1)


def accepted_as_a_tensor():
    """Reads a little low, and returns a tensor."""
    return torch.tensor([2.8, 2048 * 2.8, 2.8 * 2.8])


def cases(generator):
    return [{}]


def observe(returned):
    """whether your bytes per token are right, with a margin, and whether the other two numbers follow from them"""
    assert isinstance(returned, tuple | list | torch.Tensor) and len(returned) == 3, "return three numbers"
    assert not any(isinstance(each, str) for each in returned), "return numbers, without quotes"
    length, held, fewer = map(float, returned)
    assert length > 0, "a token holds more than 0 bytes"

    def near(value, wanted, margin):
        return abs(value / wanted - 1) <= margin

    known = {"right": 2.88, "that of 512": 2.294, "that of 1024": 3.36, "that of 256": 1.0, "1 divided by it": 1 / 2.88}
    first = next((name for name, value in known.items() if near(length, value, 0.07)), None)
    first = first or ("too small" if length < 2.88 else "too large")
    seconds = {"follows": 2048 * length, "divided": 2048 / length, "the vocabulary": 768 * length, "tokens": 2048}
    second = next((name for name, value in seconds.items() if near(held, value, 0.04)), "does not follow")
    thirds = {"follows": length**2, "not squared": length, "inverted": length**-2, "cubed": length**3}
    thirds |= {"doubled": 2 * length, "pairs": (2048 * length) ** 2, "per cent": 100 * length**2}
    third = next((name for name, value in thirds.items() if near(fewer, value, 0.08)), "does not follow")
    return f"first {first}; second {second}; third {third}"


def hidden_cases(generator):
    return [{}]
