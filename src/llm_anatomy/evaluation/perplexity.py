"""Perplexity and its logarithm, the loss of next-token prediction in nats, for each token and on average."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from llm_anatomy.evaluation._arrays import Array
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


def bits_per_byte(losses: Array, n_bytes: int) -> float:
    r"""Loss of a text in bits for each of its bytes, which compares models whatever their tokenizers are.

    .. math:: \mathrm{BPB} = \frac{\sum_t L_t}{n_\text{bytes} \ln 2}

    A perplexity counts per token, so a tokenizer with longer tokens makes it larger for the same text. The number of
    bytes does not depend on the tokenizer.

    Args:
        losses: the loss of each token of the text in nats, of any shape.
        n_bytes: number of bytes of the text that these tokens spell, in UTF-8.

    Raises:
        ValueError: if ``n_bytes`` is not positive.

    Source: Gao et al. (2020), "The Pile: an 800GB dataset of diverse text for language modeling", section 3.1; UCL-03.

    >>> text = "six by six"
    >>> round(bits_per_byte([math.log(8)] * 3, n_bytes=len(text.encode())), 3)  # three tokens of three bits
    0.9
    """
    if n_bytes < 1:
        raise ValueError(f"{n_bytes=} must be positive")
    return torch.as_tensor(losses, dtype=torch.float64).sum().item() / (n_bytes * math.log(2))
