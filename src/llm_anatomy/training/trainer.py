"""The training loop: batch, loss, gradient, optimizer step."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn
from tqdm import tqdm

from llm_anatomy.shapes import Int, Tensor
from llm_anatomy.training.optimizers import parameter_groups
from llm_anatomy.training.schedules import warmup_then_cosine

Batch = TypeVar("Batch")


def next_token_cross_entropy(model: nn.Module, window: Int[Tensor, "batch window"]) -> Tensor:
    """Compute the mean loss of predicting each token of the windows from those before it.

    Args:
        model: maps ids (batch, tokens) to logits (batch, tokens, n_vocab).
        window: token ids, one token longer than the model's input; it is moved to the device of the model.

    Source: UCL-03, GT-37.

    >>> bool(next_token_cross_entropy(nn.Embedding(3, 3), torch.tensor([[0, 1, 2]])) > 0)
    True
    """
    window = window.to(next(model.parameters()).device)
    logits = model(window[:, :-1])
    return F.cross_entropy(rearrange(logits, "batch tokens n_vocab -> (batch tokens) n_vocab"), window[:, 1:].flatten())


def _check_windows(batch: Any) -> None:
    if not isinstance(batch, Tensor) or batch.ndim != 2 or batch.is_floating_point():
        what = f"{batch.dtype} {tuple(batch.shape)}" if isinstance(batch, Tensor) else f"a {type(batch).__name__}"
        raise ValueError(
            f"batches yielded {what}; a batch must be ids (batch, tokens + 1), such as those of "
            "llm_anatomy.training.data.windows.random_windows"
        )


def train(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    batch_loss: Callable[[nn.Module, Batch], Tensor] = next_token_cross_entropy,
    n_steps: int,
    max_lr: float = 3e-3,
    warmup_steps: int = 0,
    weight_decay: float = 0.1,
    max_grad_norm: float = 1.0,
    after_step: Callable[[int], None] | None = None,
) -> list[float]:
    r"""Train a model to predict the next token at each position of a window.

    .. math:: L = -\frac{1}{B\,T} \sum_{b,t} \log p_\theta(w_{b,t+1} \mid w_{b,1}, \dots, w_{b,t})

    The optimizer is AdamW with linear warm-up and cosine decay of the learning rate. Weight decay applies to matrices
    and embedding tables, not to gains, biases and other vectors. Batches are moved to the device of the model. In a
    terminal, a bar shows the progress.

    Args:
        model: maps ids (batch, tokens) to logits (batch, tokens, n_vocab).
        batches: at least ``n_steps`` batches, by default of windows, each one token longer than the model's input.
        batch_loss: the loss of the model on a batch; by default that of next-token prediction.
        n_steps: number of steps, at least 1.
        max_lr: the maximum learning rate.
        warmup_steps: number of warm-up steps, fewer than ``n_steps``.
        weight_decay: weight decay of AdamW.
        max_grad_norm: gradients with a larger norm are clipped to it.
        after_step: called with the number of each step, from 1, after the step; it may evaluate the model.

    Returns:
        The loss of each batch before its step, in nats per token.

    Raises:
        ValueError: if ``n_steps`` is below 1, or there are too few batches.
        FloatingPointError: if a loss is not finite, before its step.

    Source: Loshchilov and Hutter (2019); Radford et al. (2018), section 4.1; UCL-03, GT-37.

    >>> from llm_anatomy.training.data.windows import random_windows
    >>> model = nn.Sequential(nn.Embedding(3, 8), nn.Linear(8, 3))
    >>> batches = random_windows(torch.arange(60) % 3, 5, 4, torch.Generator().manual_seed(0))  # 0 1 2 0 1 2 …
    >>> train(model, batches, n_steps=100, max_lr=0.1)[-1] < 0.1
    True
    """
    if n_steps < 1:
        raise ValueError(f"{n_steps=} must be at least 1")
    optimizer = torch.optim.AdamW(parameter_groups(model, weight_decay), lr=max_lr)
    losses, batches = [], iter(batches)
    for step in tqdm(range(1, n_steps + 1), desc="training", disable=None, leave=False):
        for group in optimizer.param_groups:
            group["lr"] = max_lr * warmup_then_cosine(step, n_steps, warmup_steps)
        batch = next(batches, None)
        if batch is None:
            raise ValueError(f"batches ended after {step - 1}; there must be at least n_steps={n_steps}")
        if batch_loss is next_token_cross_entropy:
            _check_windows(batch)
        loss = batch_loss(model, batch)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            raise FloatingPointError(
                f"the loss of step {step} is {losses[-1]}, not finite; max_lr={max_lr} may be too high"
            )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
        optimizer.step()
        if after_step is not None:
            after_step(step)
    return losses
