import torch

from llm_anatomy.shapes import Float, Tensor


def look_back(n_back: int, d_head: int, base: int) -> tuple[Float[Tensor, "d_head"], Float[Tensor, "d_head"]]:
    """The query and the key, the same for all words, of a head that attends n_back positions back."""
    angles = -n_back * base ** (-torch.arange(0, d_head, 2) / d_head)
    turned_back = torch.stack((angles.cos(), angles.sin()), -1).flatten()  # (1, 0) in each plane, turned
    key = torch.tensor([1.0, 0.0]).repeat(d_head // 2)
    return 1000 * d_head * turned_back, key
