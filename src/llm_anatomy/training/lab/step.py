"""One step of a run: the gradients of a batch, over micro-batches and ranks, and the update that follows from them."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from llm_anatomy.shapes import Tensor
from llm_anatomy.training.data.batches import Batch
from llm_anatomy.training.lab.config import TrainConfig
from llm_anatomy.training.lab.objective import NextTokenLoss
from llm_anatomy.training.lab.parallel import Ranks
from llm_anatomy.training.optimizers import parameter_groups
from llm_anatomy.training.schedules import SCHEDULES


class Gradients(NamedTuple):
    """What is known of a step before its update.

    Source: GT-37.

    >>> Gradients(loss=2.0, norm=math.inf).overflowed(scaled=True)
    True
    """

    loss: float
    """Mean loss of the targets of the whole batch."""

    norm: float
    """Norm of the gradients of all parameters, before clipping."""

    def overflowed(self, scaled: bool) -> bool:
        """Whether a scaled loss was too large for float16 although the loss is not, so that the step is left out."""
        return scaled and math.isfinite(self.loss) and not math.isfinite(self.norm)


class Stepper:
    """Computes the steps of a run on this rank.

    The loss is the sum over all targets of the batch, whichever micro-batch and rank they are in, divided by their
    number. So a batch gives the same step in one piece or in many.

    Args:
        config: of the run.
        ranks: this process among the others.
        model: on the device of the rank.

    Source: Loshchilov and Hutter (2019), AdamW; Micikevicius et al. (2018), section 3.2, loss scaling; GT-37, GT-39.

    >>> from llm_anatomy.config import ModelConfig
    >>> from llm_anatomy.models.transformer import Transformer
    >>> data = {"path": "shards", "n_tokens": 4, "batch_size": 2}
    >>> config = TrainConfig.of({"out": "run", "n_steps": 9, "model": "gpt-2", "data": data})
    >>> model = Transformer(ModelConfig(d_model=6, n_layers=1, n_heads=2, d_ff=9, n_vocab=5))
    >>> stepper = Stepper(config, Ranks(config.parallel), model)
    >>> gradients = stepper.gradients(Batch(torch.tensor([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]])))
    >>> stepper.update(step=1)
    >>> round(gradients.loss, 1), stepper.learning_rate(9)
    (1.6, 0.0)
    """

    def __init__(self, config: TrainConfig, ranks: Ranks, model: nn.Module):
        self.config, self.ranks = config, ranks
        cast_by_shards = ranks.is_sharded and config.parallel.precision == "bfloat16"
        self.objective = NextTokenLoss(model, "float32" if cast_by_shards else config.parallel.precision)
        self.module = ranks.distribute(self.objective)
        options = config.optimizer
        self.optimizer = torch.optim.AdamW(
            parameter_groups(model, options.weight_decay),
            lr=options.max_lr,
            betas=(options.beta1, options.beta2),
            eps=options.eps,
            fused=True,
        )
        self.scaler = torch.amp.GradScaler(ranks.device.type, enabled=config.parallel.precision == "float16")

    def gradients(self, batch: Batch) -> Gradients:
        """Compute the gradients of a batch, and clip them.

        Args:
            batch: this rank's rows.
        """
        batch = self._to_device(batch)
        n_targets = self._n_targets(batch)
        pieces = self._pieces(batch)
        total = torch.zeros((), device=self.ranks.device)
        for i, piece in enumerate(pieces):
            with self.ranks.accumulating(self.module, is_last=i == len(pieces) - 1):
                loss = self.module(*piece) / n_targets
                self.scaler.scale(loss * self.ranks.world_size).backward()  # ranks average their gradients
            total += loss.detach()
        self.scaler.unscale_(self.optimizer)
        largest = self.config.optimizer.max_grad_norm
        trained = [p for group in self.optimizer.param_groups for p in group["params"]]
        norm = nn.utils.clip_grad_norm_(trained, math.inf if largest is None else largest)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        return Gradients(self.ranks.sum(total.item())[0], norm.item())

    def update(self, step: int) -> None:
        """Change the parameters.

        Args:
            step: number of the step, from 1.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(step)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def discard(self) -> None:
        """Forget the gradients."""
        if self.scaler.is_enabled():
            self.scaler.update()
        self.optimizer.zero_grad()

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step, counted from 1."""
        schedule = self.config.schedule
        factor = SCHEDULES[schedule.name](step, self.config.n_steps, **schedule.options())
        return self.config.optimizer.max_lr * factor

    @torch.no_grad()
    def loss(self, batch: Batch) -> tuple[float, int]:
        """The summed loss of this rank's rows and the number of their targets, without gradients."""
        batch = self._to_device(batch)
        self.objective.eval()
        total = sum(self.objective(*piece).item() for piece in self._pieces(batch))
        self.objective.train()
        self.ranks.release(self.objective)
        return total, batch.ids[:, 1:].numel() if batch.targets is None else int(batch.targets.sum())

    def _to_device(self, batch: Batch) -> Batch:
        return _changed(batch, lambda part: part.to(self.ranks.device, non_blocking=True))

    def _pieces(self, batch: Batch) -> list[Batch]:
        size = self.config.data.micro_batch_size or len(batch.ids)
        starts = range(0, len(batch.ids), size)
        return [_changed(batch, lambda part, start=start: part[start : start + size]) for start in starts]

    def _n_targets(self, batch: Batch) -> float:
        """The number of targets of the batch over all ranks."""
        if batch.targets is None:
            return float(batch.ids[:, 1:].numel() * self.ranks.world_size)
        return max(1.0, self.ranks.sum(float(batch.targets.sum()))[0])


def _changed(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    """The batch with each of its tensors changed."""
    targets, documents = (None if part is None else change(part) for part in (batch.targets, batch.documents))
    return Batch(change(batch.ids), targets, documents)
