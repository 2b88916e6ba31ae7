"""A bound on scores and logits."""

import torch
from torch import nn

from llm_anatomy.shapes import Float, Tensor


class Softcapping(nn.Module):
    r"""Squeeze scores smoothly between -cap and cap, so that a softmax of them cannot saturate.

    .. math:: s' = \mathrm{cap} \cdot \tanh(s / \mathrm{cap})

    Args:
        cap: the bound, above 0. Gemma 2 has 50 for the scores of attention and 30 for the logits.

    Raises:
        ValueError: for a cap that is not above 0.

    Source: Gemma Team (2024), "Gemma 2", section 2; Bello et al. (2016), section 5.1.

    >>> [round(s, 2) for s in Softcapping(5.0)(torch.tensor([0.1, 5.0, 500.0])).tolist()]
    [0.1, 3.81, 5.0]
    """

    def __init__(self, cap: float):
        super().__init__()
        if not cap > 0:
            raise ValueError(f"cap={cap} must be above 0")
        self.cap = cap

    def forward(self, scores: Float[Tensor, "*scores"], *indices: Tensor) -> Float[Tensor, "*scores"]:
        """Cap the scores. As a ``score_mod`` it also receives the indices of batch, head, query and key."""
        return self.cap * torch.tanh(scores / self.cap)

    def extra_repr(self) -> str:
        return f"{self.cap}"
