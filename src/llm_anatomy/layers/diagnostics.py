"""Probes: what can be measured on a stack of layers without changing it."""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import NamedTuple

import torch
from torch import nn

from llm_anatomy.shapes import Tensor


class GradientNorms(NamedTuple):
    """Euclidean norms of gradients, one number a layer, in the order of the layers.

    ``parameters`` holds that of all parameters of the layer together, ``states`` that of the hidden state entering it.

    Source: Xiong et al. (2020), figure 3; CMU-18.

    >>> GradientNorms(parameters=[0.5, 2.0], states=[1.0, 1.0]).parameters[-1]
    2.0
    """

    parameters: list[float]
    states: list[float]


def gradient_norms(
    layers: Iterable[nn.Module],
    x: Tensor,
    loss: Callable[[Tensor], Tensor],
    run: Callable[[Tensor], Tensor] | None = None,
) -> GradientNorms:
    r"""How strongly a loss pulls at each layer of a stack: at its parameters, and at the state that enters it.

    .. math:: \left\| \frac{\partial \mathcal L}{\partial \theta_l} \right\|_2, \quad
        \left\| \frac{\partial \mathcal L}{\partial x_l} \right\|_2

    The stack stays as it was: stored gradients are not touched, buffers (running statistics) are put back, and the
    hooks are gone afterwards, after an error too.

    Args:
        layers: the layers to watch, as ``nn.Sequential``, ``nn.ModuleList`` or any list. Each takes its state as first
            positional argument and runs once.
        x: what goes in.
        loss: makes one number of what comes out; for a direction v, ``lambda y: (y * v).sum()``.
        run: makes of ``x`` what comes out, a model that contains the layers; the layers one after the other by default.

    Returns:
        Two lists, a number for each layer. A parameter that is frozen, or that the loss does not reach, counts as zero.

    Raises:
        ValueError: if a layer does not run, or runs twice; then there is no single state that enters it.

    Source: Xiong et al. (2020), section 3 and figure 3; IITD-33, CMU-18, CMU-19, GT-13, GT-15.

    >>> layers = [nn.Linear(1, 1, bias=False) for _ in range(3)]
    >>> for layer, weight in zip(layers, (2.0, 3.0, 5.0)):
    ...     _ = nn.init.constant_(layer.weight, weight)
    >>> gradient_norms(layers, torch.ones(1, 1), torch.sum)  # y = 2 * 3 * 5 * x
    GradientNorms(parameters=[15.0, 10.0, 6.0], states=[30.0, 15.0, 5.0])
    """
    layers = list(layers)
    states: dict[nn.Module, Tensor] = {}

    def watch(layer, inputs):
        if layer in states:
            raise ValueError(f"layer {layers.index(layer)} runs more than once; each must run once")
        state, *rest = inputs
        states[layer] = state if state.requires_grad else state.detach().requires_grad_()
        return states[layer], *rest

    buffers = {b: b.clone() for module in (*layers, run) if isinstance(module, nn.Module) for b in module.buffers()}
    hooks = [layer.register_forward_pre_hook(watch) for layer in layers]
    try:
        with torch.enable_grad():
            value = loss(reduce(lambda state, layer: layer(state), layers, x) if run is None else run(x))
        idle = [i for i, layer in enumerate(layers) if layer not in states]
        if idle:
            raise ValueError(f"layers {idle} did not run; each must run once")
        of_layers = [[p for p in layer.parameters() if p.requires_grad] for layer in layers]
        of_states = [states[layer] for layer in layers]
        wanted = list(dict.fromkeys([*of_states, *(p for parameters in of_layers for p in parameters)]))
        found = torch.autograd.grad(value, wanted, allow_unused=True)
    finally:
        for hook in hooks:
            hook.remove()
        with torch.no_grad():
            for buffer, before in buffers.items():
                buffer.copy_(before)
    square = {t: 0.0 if g is None else g.float().square().sum().item() for t, g in zip(wanted, found, strict=True)}
    return GradientNorms(
        parameters=[sum(square[p] for p in parameters) ** 0.5 for parameters in of_layers],
        states=[square[state] ** 0.5 for state in of_states],
    )
