import torch


def context_vector() -> tuple[float, float, int]:
    """Return the two lengths at which half of the words are right, and the number of entries of the dashed curve."""
    solid, dashed = 10.0, 40.0
    return solid, dashed, round(64 * dashed / solid)


def accepted_read_roughly():
    """Reads between the marks of the axis, and does not round."""
    solid, dashed = 9.5, 41
    return [solid, dashed, dashed / solid * 64]


def accepted_power_of_two():
    """Takes the number that a designer would have chosen."""
    return torch.tensor([10, 38, 256])


def cases(generator):
    return [{}]


def observe(returned):
    """whether each of the three numbers is right, with a margin"""
    numbers = returned.tolist() if isinstance(returned, torch.Tensor) else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 3, "three numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    solid, dashed, entries = map(float, numbers)
    assert not (0 <= solid <= 1 and 0 <= dashed <= 1), "the first two numbers should be lengths, in words, not shares"

    def said(value, right, others):
        if abs(value / right - 1) <= 0.2:
            return "right"
        near = [name for name, other in others.items() if abs(value / other - 1) <= 0.2]
        return ": ".join(["too small" if value < right else "too large", *near[:1]])

    widths = {"the root": 128, "the same": 64, "the square": 1024, "divided": 16, "the factor": 4}
    return {
        "length for the solid curve": said(solid, 10, {"the other curve": 40, "at three quarters": 6}),
        "length for the dashed curve": said(dashed, 40, {"the other curve": 10, "at three quarters": 24}),
        "number of entries": said(entries, 256, widths),
    }


def hidden_cases(generator):
    return [{}]
