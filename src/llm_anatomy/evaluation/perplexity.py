"""Perplexity and its logarithm, the loss of next-token prediction in nats, for each token and on average."""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from llm_anatomy.shapes import Float, Int, Tensor


@torch.no_grad()
def token_losses(
    model: nn.Module, windows: Int[Tensor, "windows window"], *, batch_size: int = 32
) -> Float[Tensor, "windows tokens"]:
    r"""Loss of predicting each token of the windows from the tokens before it, in nats.

    .. math:: L_t = -\log p_\theta(w_{t+1} \mid w_1, \dots, w_t)

    Args:
        model: maps ids (batch, tokens) to logits (batch, tokens, n_vocab).
        windows: token ids, each window one token longer than the model's input.
        batch_size: number of windows in a forward pass.

    Raises:
        ValueError: if there are no windows.

    Source: Shannon (1951), section 2; UCL-03.

    >>> class Coin(nn.Module):
    ...     def forward(self, ids):
    ...         return torch.zeros(*ids.shape, 2)
    >>> token_losses(Coin(), torch.tensor([[0, 1, 1, 0]])).exp()
    tensor([[2., 2., 2.]])
    """
    if not len(windows):
        raise ValueError("windows is empty; there must be at least one window")
    device = next((p.device for p in model.parameters()), windows.device)
    losses = []
    for some in windows.to(device).split(batch_size):
        logits = rearrange(model(some[:, :-1]).float(), "batch tokens n_vocab -> batch n_vocab tokens")
        losses.append(F.cross_entropy(logits, some[:, 1:], reduction="none"))
    return torch.cat(losses)


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
    if not 1 <= last <= n_targets:
        raise ValueError(f"{last=} must be from 1 to {n_targets}, the number of targets in a window")
    losses = token_losses(model, windows, batch_size=batch_size)[:, -last:]
    return losses.cpu().double().mean().item()  # some devices have no double precision
