"""How well a model predicts text: its loss in nats per token, whose exponential is the perplexity."""

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.shapes import Int, Tensor


@torch.no_grad()
def next_token_loss(
    model: nn.Module, windows: Int[Tensor, "windows window"], *, last: int | None = None, batch: int = 32
) -> float:
    r"""The mean loss of predicting each token of the windows from those before it, in nats.

    .. math:: L = -\frac{1}{|S|} \sum_{t \in S} \log p_\theta(w_{t+1} \mid w_1, \dots, w_t), \quad
        \mathrm{perplexity} = e^L

    Args:
        model: from ids (batch, n_tokens) to logits (batch, n_tokens, n_vocab).
        windows: ids, one token longer than the model reads.
        last: only that many last tokens of a window count, all by default.
        batch: how many windows the model reads at once.

    Raises:
        ValueError: for windows without a target, or fewer targets than ``last``.

    Source: Shannon (1951), section 2; UCL-03.

    >>> class Coin(nn.Module):
    ...     def forward(self, ids):
    ...         return torch.zeros(*ids.shape, 2)
    >>> round(next_token_loss(Coin(), torch.tensor([[0, 1, 1, 0]])), 4)  # ln 2
    0.6931
    """
    n_targets = windows.shape[1] - 1
    last = n_targets if last is None else last
    if not 1 <= last <= n_targets or not len(windows):
        raise ValueError(
            f"{last=} must be from 1 to the {n_targets} targets of a window, of which there are {len(windows)}"
        )
    device, total = next((p.device for p in model.parameters()), windows.device), 0.0
    for some in windows.to(device).split(batch):
        logits = model(some[:, :-1])[:, -last:]
        total += F.cross_entropy(logits.flatten(0, 1).float(), some[:, -last:].flatten(), reduction="sum").item()
    return total / (len(windows) * last)
