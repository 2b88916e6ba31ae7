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
    assert not any(each != each for each in (length, held, fewer)), "one of the three is NaN, which is not a number"
    assert length > 0, "a token holds more than 0 bytes"

    def near(value, wanted, margin):
        return abs(value / wanted - 1) <= margin

    def said(value, right, margin, others):
        if near(value, right, margin):
            return "right"
        named = [name for name, other in others.items() if near(value, other, margin)]
        return ": ".join(["too small" if value < right else "too large", *named[:1]])

    first = said(length, 2.88, 0.07, {"at 512": 2.294, "at 1024": 3.36, "at 256": 1.0, "1 divided by it": 1 / 2.88})

    def following(value, power, factor, margin, others):
        """What is said of a number that follows from the first, or that is right although the first is not."""
        if first != "right" and near(value, factor * 2.88**power, margin):
            return "right"
        way, _, named = said(value, factor * length**power, margin, others).partition(": ")
        return way if way == "right" else f"{way} for your first number" + (f": {named}" if named else "")

    texts = {"divided": 2048 / length, "the vocabulary": 768 * length, "tokens": 2048}
    ratios = {"not squared": length, "inverted": length**-2, "cubed": length**3, "doubled": 2 * length}
    return {
        "number of bytes in a token": first,
        "number of bytes in the context": following(held, 1, 2048, 0.04, texts),
        "ratio of the pairs": following(fewer, 2, 1, 0.08, ratios | {"pairs": (2048 * length) ** 2}),
    }


def hidden_cases(generator):
    return [{}]
