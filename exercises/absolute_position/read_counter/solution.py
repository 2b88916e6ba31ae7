import torch

from llm_anatomy.shapes import Int, Tensor


def read_counter(digits: Int[Tensor, "n_positions n_digits"]) -> Int[Tensor, "n_positions"]:
    """The positions whose binary digits stand in the rows, the fastest digit last."""
    powers = 2 ** torch.arange(digits.shape[-1]).flip(0)  # 1 at the right
    return (digits * powers).sum(-1)
