"""Ranks: the processes that torchrun starts, and how they divide a model and its batches among them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from llm_anatomy.models.block import Stack
from llm_anatomy.training.lab.config import ParallelConfig
from llm_anatomy.training.lab.objective import NextTokenLoss


class Ranks:
    """This process among all processes of a run, from the variables of the environment that torchrun sets.

    Args:
        config: device and strategy.

    Raises:
        ValueError: if the device is not there.

    Source: the documentation of PyTorch, "torchrun", "Distributed Data Parallel" and "fully_shard"; GT-37.

    >>> ranks = Ranks(ParallelConfig(device="cpu"))
    >>> ranks.rank, ranks.world_size, ranks.sum(2.0, 3.0)
    (0, 1, [2.0, 3.0])
    >>> ranks.close()
    """

    def __init__(self, config: ParallelConfig):
        self.config = config
        self.rank, self.world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.device = _device(config.device, int(os.environ.get("LOCAL_RANK", 0)))
        self._is_own_group = self.world_size > 1 and not dist.is_initialized()
        if self._is_own_group:
            dist.init_process_group("cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo")

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes for all."""
        return self.rank == 0

    @property
    def is_sharded(self) -> bool:
        """Whether each rank keeps a part of the parameters only."""
        return self.world_size > 1 and self.config.strategy == "fsdp"

    def close(self) -> None:
        """Leave the group of processes, unless the caller had made it."""
        if self._is_own_group and dist.is_initialized():
            dist.destroy_process_group()

    def sum(self, *numbers: float) -> list[float]:
        """The sums of numbers over all ranks, the same on each."""
        if self.world_size == 1:
            return list(numbers)
        sums = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return sums.tolist()

    def barrier(self) -> None:
        """Wait for all ranks."""
        if self.world_size > 1:
            self.sum(0.0)

    def distribute(self, objective: NextTokenLoss) -> nn.Module:
        """Prepare a model for training on all ranks, in place: checkpointing of activations, compilation, and shards.

        Args:
            objective: holds the model, on the device.

        Returns:
            The module to call in a step: the objective, or what wraps it.
        """
        config, model = self.config, objective.model
        blocks = [block for stack in model.modules() if isinstance(stack, Stack) for block in stack.blocks]
        if config.activation_checkpointing:
            for block in blocks:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
        if config.compile:
            for part in blocks if self.is_sharded else [objective]:
                part.compile()
        if self.is_sharded:
            mesh = init_device_mesh(self.device.type, (self.world_size,))
            in_bfloat16 = config.precision == "bfloat16"
            policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if in_bfloat16 else MixedPrecisionPolicy()
            for part in [*blocks, model]:
                fully_shard(part, mesh=mesh, mp_policy=policy)
            return objective
        if self.world_size > 1:
            device_ids = [self.device.index] if self.device.type == "cuda" else None
            may_miss = getattr(model.config, "moe", None) is not None  # an expert that no token was sent to
            return DistributedDataParallel(
                objective,
                device_ids=device_ids,
                forward_sync_buffers=False,
                gradient_as_bucket_view=True,
                find_unused_parameters=may_miss,
            )
        return objective

    @contextmanager
    def accumulating(self, module: nn.Module, is_last: bool) -> Iterator[None]:
        """Exchange gradients after the last backward pass of a step only."""
        if isinstance(module, DistributedDataParallel) and not is_last:
            with module.no_sync():
                yield
        else:
            for part in _shards(module):
                part.set_requires_gradient_sync(is_last, recurse=False)
            yield

    def release(self, module: nn.Module) -> None:
        """Let go of parameters that a forward pass without a backward pass has gathered. Otherwise the next pass would
        compute with them, whatever has become of the shards meanwhile."""
        for part in _shards(module):
            part.reshard()


def _shards(module: nn.Module) -> list[FSDPModule]:
    return [part for part in module.modules() if isinstance(part, FSDPModule)]


def _device(name: str | None, local_rank: int) -> torch.device:
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ValueError(f"parallel.device={name!r:.60} must be cpu or cuda, or null for cuda where there is one")
    if name == "cpu":
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        raise ValueError(
            f"parallel.device='cuda' must be there for each rank: this machine has {torch.cuda.device_count()} GPUs, "
            f"and rank {local_rank} of it needs its own"
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)
