import torch

from llm_anatomy.shapes import Float, Int, Tensor


def first_rise(proximity: Float[Tensor, "n_positions n_positions"]) -> Int[Tensor, "n_positions"]:
    """For each query, the first distance at which proximity to a later key rises; −1 where it never does."""
    rises = (proximity[:, 1:] > proximity[:, :-1]).triu()  # column j compares key j + 1 with key j
    key = rises.int().argmax(-1) + 1
    return torch.where(rises.any(-1), key - torch.arange(len(proximity)), -1)
