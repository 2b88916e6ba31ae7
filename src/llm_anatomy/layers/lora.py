"""LoRA: fine-tuning with a small trained matrix product beside each frozen matrix."""

import math
from collections.abc import Iterable
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.shapes import Float, Tensor


class LoRALinear(nn.Linear):
    r"""A linear layer whose weight is frozen, and to which the product of two narrow matrices is added.

    .. math:: y = W x + b + \frac{\alpha}{r}\, B A\, x, \quad A \in \mathbb{R}^{r \times d_\mathrm{in}},\;
        B \in \mathbb{R}^{d_\mathrm{out} \times r}

    :math:`A` begins with random numbers and :math:`B` with zeros, so that the layer begins as the one without. Only the
    two are trained, ``lora_a`` and ``lora_b``; beside weights in 16 bits they are in float32, since the steps of an
    optimizer would be lost in 16. The attribute ``weight`` is the sum :math:`W + \frac{\alpha}{r} B A`, so that code
    that reads it, and does not call the layer, sees the layer as it is. In the state dict, ``weight`` is :math:`W`.

    Args:
        in_features, out_features, bias, device, dtype: as in ``torch.nn.Linear``.
        rank: :math:`r`, at least 1.
        alpha: :math:`\alpha`, mostly of the size of the rank.

    Raises:
        ValueError: if the rank is below 1.

    Source: Hu et al. (2022), "LoRA", section 4.1.

    >>> layer = LoRALinear(12, 20, rank=2, alpha=4)
    >>> {name: tuple(parameter.shape) for name, parameter in layer.named_parameters() if parameter.requires_grad}
    {'lora_a': (2, 12), 'lora_b': (20, 2)}
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        rank: int,
        alpha: int | float,
    ):
        super().__init__(in_features, out_features, bias, device, dtype)
        self._add(rank, alpha)

    @classmethod
    def adapt_(cls, linear: nn.Linear, rank: int, alpha: int | float) -> None:
        """Make a LoRA layer of a linear one, in place: whoever refers to it has the LoRA layer.

        Args:
            linear: the layer; its class must be ``torch.nn.Linear`` itself.
            rank, alpha: as above.

        Raises:
            TypeError: if the layer is of another class.
            ValueError: if the rank is below 1.
        """
        if type(linear) is not nn.Linear:
            raise TypeError(f"linear must be a torch.nn.Linear, not a {type(linear).__name__}")
        _check_rank(rank)
        linear.__class__ = cls
        cast(LoRALinear, linear)._add(rank, alpha)

    def _add(self, rank: int, alpha: int | float) -> None:
        _check_rank(rank)
        weight = self.frozen_weight
        device, dtype = weight.device, torch.promote_types(weight.dtype, torch.float32)
        self.rank, self.scale = rank, alpha / rank
        self.lora_a = nn.Parameter(torch.empty(rank, self.in_features, device=device, dtype=dtype))
        self.lora_b = nn.Parameter(torch.zeros(self.out_features, rank, device=device, dtype=dtype))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        for parameter in (weight, self.bias):
            if parameter is not None:
                parameter.requires_grad_(False)

    @property
    def frozen_weight(self) -> Tensor:
        """The weight without the product."""
        weight = self._parameters["weight"]
        assert weight is not None
        return weight

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The weight with the product."""
        product = self.scale * (self.lora_b @ self.lora_a)
        return (self.frozen_weight + product).to(self.frozen_weight.dtype)

    def forward(self, input: Float[Tensor, "*tokens d_in"]) -> Float[Tensor, "*tokens d_out"]:
        output = F.linear(input, self.frozen_weight, self.bias)
        narrow = F.linear(input.to(self.lora_a.dtype), self.lora_a)
        return (output + self.scale * F.linear(narrow, self.lora_b)).to(output.dtype)

    def merge_(self) -> None:
        """Add the product to the weight, and make this a plain linear layer again, in place."""
        with torch.no_grad():
            self.frozen_weight.copy_(self.weight)
        del self.lora_a, self.lora_b, self.rank, self.scale
        self.__class__ = nn.Linear  # type: ignore[assignment]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rank={self.rank}, alpha={self.scale * self.rank:g}"


def _check_rank(rank: int) -> None:
    if rank < 1:
        raise ValueError(f"{rank=} must be at least 1")


def add_lora(
    model: nn.Module,
    rank: int,
    alpha: int | float,
    targets: Iterable[str] = ("w_query", "w_key", "w_value", "w_output"),
) -> list[str]:
    """Freeze a model, and adapt some of its linear layers, in place.

    Args:
        model: the model.
        rank, alpha: of each :class:`LoRALinear`.
        targets: which layers to adapt: the last words of their names, such as ``w_query`` for those of all blocks, or
            ``blocks.0.attention.w_query``. By default, these are the projections of attention.

    Returns:
        The names of the adapted layers.

    Raises:
        ValueError: if the rank is below 1, no linear layer has the name of a target, or the model has LoRA layers
            already. The model is then as it was.

    Source: Hu et al. (2022), "LoRA", sections 4.2 and 7.1; with instruction data: GT-46.

    >>> model = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> add_lora(model, rank=1, alpha=2, targets=["2"])
    ['2']
    >>> [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    ['2.lora_a', '2.lora_b']
    """
    _check_rank(rank)
    if any(isinstance(module, LoRALinear) for module in model.modules()):
        raise ValueError("the model has LoRA layers already; merge_lora makes plain layers of them")
    targets = [targets] if isinstance(targets, str) else list(targets)
    linear = {name: module for name, module in model.named_modules() if type(module) is nn.Linear}
    for target in targets:
        if not any(f".{name}".endswith(f".{target}") for name in linear):
            last = sorted({name.rpartition(".")[2] for name in linear})
            raise ValueError(f"no linear layer has the name {target!r}; their names end in {', '.join(last)}")
    model.requires_grad_(False)
    adapted = [name for name in linear if any(f".{name}".endswith(f".{target}") for target in targets)]
    for name in adapted:
        LoRALinear.adapt_(linear[name], rank, alpha)
    return adapted


def merge_lora(model: nn.Module) -> None:
    """Make plain linear layers of all LoRA layers of a model, in place, which compute the same.

    The parameters stay frozen; ``model.requires_grad_()`` makes them trainable.

    Args:
        model: the model.

    Source: Hu et al. (2022), "LoRA", section 4.1, "No additional inference latency".

    >>> model = nn.Sequential(LoRALinear(5, 3, rank=1, alpha=2))
    >>> merge_lora(model)
    >>> model
    Sequential(
      (0): Linear(in_features=5, out_features=3, bias=True)
    )
    """
    for module in list(model.modules()):
        if isinstance(module, LoRALinear):
            module.merge_()
