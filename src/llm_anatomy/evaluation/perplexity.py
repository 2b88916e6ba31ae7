"""Perplexity and its logarithm, the mean loss of next-token prediction in nats."""

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.shapes import Int, Tensor


@torch.no_grad()
def next_token_loss(
    model: nn.Module, windows: Int[Tensor, "windows window"], *, last: int | None = None, batch_size: int = 32
) -> float:
    r"""Mean loss of predicting each token of the windows from the tokens before it, in nats.

    .. math:: L = -\frac{1}{|S|} \sum_{t \in S} \log p_\theta(w_{t+1} \mid w_1, \dots, w_t), \quad
        \mathrm{perplexity} = e^L

    Args:
        model: maps ids (batch, tokens) to logits (batch, tokens, n_vocab).
        windows: token ids, each window one token longer than the model's input.
        last: number of tokens at the end of each window whose loss counts; by default all targets.
        batch_size: number of windows in a forward pass.

    Raises:
        ValueError: if there are no windows, or ``last`` is not from 1 to the number of targets in a window.

    Source: Shannon (1951), section 2; UCL-03.

    >>> class Coin(nn.Module):
    ...     def forward(self, ids):
    ...         return torch.zeros(*ids.shape, 2)
    >>> round(next_token_loss(Coin(), torch.tensor([[0, 1, 1, 0]])), 4)  # ln 2
    0.6931
    """
    n_targets = windows.shape[1] - 1
    last = n_targets if last is None else last
    if not len(windows):
        raise ValueError("windows is empty; there must be at least one window")
    if not 1 <= last <= n_targets:
        raise ValueError(f"{last=} must be from 1 to {n_targets}, the number of targets in a window")
    device, total = next((p.device for p in model.parameters()), windows.device), 0.0
    for some in windows.to(device).split(batch_size):
        logits = model(some[:, :-1])[:, -last:]
        total += F.cross_entropy(logits.flatten(0, 1).float(), some[:, -last:].flatten(), reduction="sum").item()
    return total / (len(windows) * last)
