import math

import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def gate_at_zero() -> Float[Tensor, "six"]:
    """Return the outputs of GLU and SwiGLU with b = 0, their derivatives, and their outputs with b = 20."""
    value, half, open_gate = 6.0, 0.5, 1 / (1 + math.exp(-20))
    outputs, slopes = [value * half, value * 0.0 * half], [value * half * (1 - half), value * half]
    return torch.tensor([*outputs, *slopes, value * open_gate, value * 20 * open_gate])


def accepted_autograd():
    """Lets PyTorch compute outputs and derivatives."""
    numbers = []
    for start in (0.0, 20.0):
        b = torch.full((2,), start, requires_grad=True)
        outputs = 6 * torch.stack((torch.sigmoid(b[0]), F.silu(b[1])))
        numbers += outputs.tolist()
        if start == 0:
            numbers += torch.autograd.grad(outputs.sum(), b)[0].tolist()
    return numbers


def accepted_on_paper():
    """Whole numbers and a fraction, in a tuple."""
    return 3, 0, 3 / 2, 3, 6, 120


def cases(generator):
    return [{}]


def observe(returned):
    """the six numbers, to two decimals"""
    numbers = returned.flatten().tolist() if isinstance(returned, torch.Tensor) else returned
    assert isinstance(numbers, tuple | list) and len(numbers) == 6, "six numbers are needed"
    assert not any(isinstance(each, str) for each in numbers), "return numbers, without quotes"
    return tuple(round(float(number), 2) + 0.0 for number in numbers)


def hidden_cases(generator):
    return [{}]
