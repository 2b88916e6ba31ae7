import torch

from llm_anatomy.shapes import Float, Int, Tensor


def alibi_bias(
    n_heads: int, query_positions: Int[Tensor, "n_queries"], key_positions: Int[Tensor, "n_keys"]
) -> Float[Tensor, "n_heads n_queries n_keys"]:
    """The bias that ALiBi adds to the scores of each head: minus its slope times the distance."""
    power = 2 ** (n_heads - 1).bit_length()
    slopes = torch.exp2(-8 / power * torch.arange(1, power + 1))
    if power != n_heads:
        slopes = torch.cat((slopes[1::2], slopes[::2]))[:n_heads]
    distance = (key_positions - query_positions[:, None]).abs()
    return -slopes[:, None, None] * distance
