"""Diagnostics of a training step: gradients, updates and activations, for each part of a model."""

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate

from llm_anatomy.shapes import Tensor


class Measurements(NamedTuple):
    """What was measured in a step, for each part of the model by its name.

    Source: GT-03; Zhang et al. (2022), "OPT", section 2.5, whose log watches these numbers.

    >>> Measurements({"0": 0.5}, {"0": 0.001}, {"0": 3.0, "1": 4.0}, 4.0).as_metrics()["update_ratio/0"]
    0.001
    """

    gradient_norms: dict[str, float]
    """The Euclidean norm of the gradients of a part's parameters."""

    update_ratios: dict[str, float]
    """The norm of the change of a part's parameters, divided by their norm before; empty before the step is taken."""

    activation_maxima: dict[str, float]
    """The largest absolute value in the output of a part."""

    logits_maximum: float
    """The largest absolute value in the output of the model."""

    @property
    def gradient_norm(self) -> float:
        """The norm of all gradients together."""
        return math.hypot(*self.gradient_norms.values())

    def as_metrics(self) -> dict[str, float]:
        """Return all numbers under one name each, such as ``update_ratio/stack.blocks.0``."""
        groups = {
            "gradient_norm": self.gradient_norms,
            "update_ratio": self.update_ratios,
            "activation_maximum": self.activation_maxima,
        }
        numbers = {f"{name}/{part}": value for name, group in groups.items() for part, value in group.items()}
        return numbers | {"logits_maximum": self.logits_maximum}


class Diagnostics:
    r"""Measure the steps of a training loop, part by part, without changing them.

    .. math:: \lVert g_p \rVert_2, \quad \frac{\lVert \Delta \theta_p \rVert_2}{\lVert \theta_p \rVert_2}, \quad
        \max |x_p|

    In this context, hooks of the model and of its optimizer measure each step. The parts are the blocks and the other
    modules around them: the items of each ``nn.ModuleList``, and otherwise the children of the modules that contain
    one. Parameters that are frozen, or have no gradient, are left out. Activations are measured where gradients are
    enabled, so that an evaluation between two steps does not count, and over all micro-batches of a step. Sharded
    parameters (FSDP2) are measured where they lie; all ranks then have the same numbers.

    Gradients are those that the optimizer sees. A loop that clips them can call ``record_gradients`` before it does so;
    if it scales the loss (fp16), it should unscale the gradients first. Measured steps keep a copy of the parameters
    while the optimizer runs.

    Args:
        model: the model, after it has been sharded, or the module that wraps it, such as ``DistributedDataParallel``.
        optimizer: of the model; any ``torch.optim.Optimizer``.
        every: number of steps from one measured step to the next, at least 1; the first step is measured.

    Raises:
        ValueError: if ``every`` is below 1.

    Source: GT-03; Zhang et al. (2022), "OPT", section 2.5, for gradient norms and activations; Wortsman et al. (2023),
    "Small-scale proxies for large-scale Transformer training instabilities", for logits and updates.

    >>> model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
    >>> for layer in model:
    ...     _ = nn.init.ones_(layer.weight)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    >>> with Diagnostics(model, optimizer) as diagnostics:
    ...     model(torch.tensor([[3.0, 4.0]])).sum().backward()
    ...     optimizer.step()
    >>> measured = diagnostics.measurements
    >>> {part: round(ratio, 3) for part, ratio in measured.update_ratios.items()}, measured.activation_maxima
    ({'0': 0.035, '1': 0.07}, {'0': 7.0, '1': 14.0})
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, *, every: int = 1):
        if every < 1:
            raise ValueError(f"{every=} must be at least 1")
        self.model, self.optimizer, self.every = model, optimizer, every
        self._parts = {_readable(name): module for name, module in _parts(model)}
        part_of: dict[Tensor, str] = {}  # a parameter that two parts share belongs to the first
        for part, module in [*self._parts.items(), ("other", model)]:
            part_of = {p: part for p in module.parameters()} | part_of
        self._part_of: dict[Tensor, str] = {p: part_of[p] for p in model.parameters()}
        self._handles: list = []
        self._n_steps, self._is_taken = 0, True
        self._before: dict[Tensor, Tensor] = {}
        self._start()

    def __enter__(self) -> "Diagnostics":
        for part, module in [*self._parts.items(), (_MODEL, self.model)]:
            hook = partial(self._after_forward, part)
            self._handles.append(module.register_forward_hook(hook))
        self._handles.append(self.optimizer.register_step_pre_hook(self._before_step))
        self._handles.append(self.optimizer.register_step_post_hook(self._after_step))
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @property
    def is_measuring(self) -> bool:
        """Whether the next step of the optimizer is measured."""
        return self._n_steps % self.every == 0

    @property
    def measurements(self) -> Measurements:
        """The numbers of the last measured step or, before it is taken, what is known of it. Reading them waits for the
        device."""
        maxima = _floats(self._maxima)
        logits = maxima.pop(_MODEL, math.nan)
        return Measurements(_floats(self._gradients), _floats(self._updates), maxima, logits)

    def record_gradients(self) -> None:
        """Measure the gradients now, and not when the optimizer runs. All ranks must call it."""
        if self.is_measuring:
            self._start()
            self._gradients = _norms(self._by_part({p: p.grad for p in self._part_of if p.grad is not None}))

    def discard(self) -> None:
        """Forget what was measured since the last step, for a step that is skipped."""
        self._is_taken = True

    def _start(self) -> None:
        """Begin with a new step, if the last one has been taken."""
        if self._is_taken:
            self._maxima: dict[str, Tensor] = {}
            self._gradients: dict[str, Tensor] = {}
            self._updates: dict[str, Tensor] = {}
            self._is_taken = False

    def _by_part(self, values: dict[Tensor, Tensor]) -> dict[str, list[Tensor]]:
        parts: dict[str, list[Tensor]] = {}
        for parameter, value in values.items():
            parts.setdefault(self._part_of[parameter], []).append(value.detach())
        return parts

    def _after_forward(self, part: str, module: nn.Module, inputs: tuple, output: object) -> None:
        x = _first_tensor(output)
        if not self.is_measuring or not torch.is_grad_enabled() or x is None or not x.numel():
            return
        if inputs and x is inputs[0]:  # a part without effect, such as positions that belong to attention
            return
        self._start()
        maximum = torch.linalg.vector_norm(x.detach(), ord=math.inf).float()
        maximum = maximum.full_tensor() if isinstance(maximum, DTensor) else maximum
        self._maxima[part] = torch.maximum(maximum, self._maxima.get(part, maximum))

    def _before_step(self, *_: object) -> None:
        if self.is_measuring:
            if self._is_taken or not self._gradients:
                self.record_gradients()
            self._before = {p: p.detach().clone() for p in self._part_of if p.grad is not None}

    def _after_step(self, *_: object) -> None:
        if self.is_measuring:
            changes = _norms(self._by_part({p: p.detach() - before for p, before in self._before.items()}))
            sizes = _norms(self._by_part(self._before))
            self._updates = {part: changes[part] / sizes[part] for part in changes}
            self._before = {}
            if dist.is_available() and dist.is_initialized() and self._maxima:  # each rank has seen its own batches
                maxima = torch.stack([*self._maxima.values()])
                dist.all_reduce(maxima, dist.ReduceOp.MAX)
                self._maxima = dict(zip(self._maxima, maxima, strict=True))
            self._is_taken = True
        self._n_steps += 1


_MODEL = ""
"""The name of the model itself among its parts."""


def _parts(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The items of lists of modules, and the children of the modules that contain such lists."""
    for name, child in module.named_children():
        if not isinstance(module, nn.ModuleList) and any(isinstance(m, nn.ModuleList) for m in child.modules()):
            yield from _parts(child, f"{prefix}{name}.")
        elif not isinstance(child, nn.Identity):
            yield f"{prefix}{name}", child


def _readable(name: str) -> str:
    """The name without the words of wrappers: those of DistributedDataParallel and torch.compile."""
    words = name.split(".")
    return ".".join(word for i, word in enumerate(words) if word != "_orig_mod" and (i, word) != (0, "module"))


def _first_tensor(output: object) -> Tensor | None:
    """The tensor in what a module returns: a tensor, a tuple that begins with one, or an object with logits."""
    output = getattr(output, "logits", output)
    if isinstance(output, Tensor):
        return output
    return _first_tensor(output[0]) if isinstance(output, tuple | list) and output else None


def _norms(parts: dict[str, list[Tensor]]) -> dict[str, Tensor]:
    """The norm of the tensors of each part. The squares of shards are summed over each mesh in one step."""
    meshes = {_mesh(t) for tensors in parts.values() for t in tensors}
    total = torch.zeros(len(parts))
    for mesh in sorted(meshes, key=str):  # in the same order on all ranks
        here = [[_square(t) for t in tensors if _mesh(t) == mesh] for tensors in parts.values()]
        device = next(square.device for squares in here for square in squares)
        squares = torch.stack([sum(squares, torch.zeros((), device=device)) for squares in here])
        if mesh is not None:
            squares = DTensor.from_local(squares, mesh, [Partial()] * mesh.ndim).full_tensor()
        total = total.to(device) + squares
    return dict(zip(parts, total.sqrt(), strict=True))


def _mesh(tensor: Tensor) -> DeviceMesh | None:
    return tensor.device_mesh if isinstance(tensor, DTensor) else None


def _square(tensor: Tensor) -> Tensor:
    """The sum of squares of what this rank has of a tensor, divided by the number of ranks that have the same."""
    n_copies = 1
    if isinstance(tensor, DTensor):
        sizes = zip(tensor.placements, tensor.device_mesh.shape, strict=True)
        n_copies = math.prod(size for placement, size in sizes if isinstance(placement, Replicate))
        tensor = tensor.to_local()
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    return torch.linalg.vector_norm(tensor, dtype=dtype).square() / n_copies


def _floats(values: dict[str, Tensor]) -> dict[str, float]:
    """The numbers of all tensors, which are copied from the device at once."""
    return dict(zip(values, torch.stack([*values.values()]).tolist(), strict=True)) if values else {}
