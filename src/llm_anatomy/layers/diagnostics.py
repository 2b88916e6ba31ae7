"""Diagnostics: measurements on a stack of layers, which they leave unchanged."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import NamedTuple

import torch
from torch import nn

from llm_anatomy.layers.attention import MultiHeadAttention
from llm_anatomy.shapes import Float, Tensor


class GradientNorms(NamedTuple):
    """Euclidean norms of gradients, one number for each layer, in the order of the layers.

    ``parameters`` holds the norm over all parameters of a layer together, and ``states`` the norm for the hidden state
    that enters the layer.

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
    r"""Compute the norms of the gradients of a loss for each layer of a stack: for its parameters and for its input.

    .. math:: \left\| \frac{\partial \mathcal L}{\partial \theta_l} \right\|_2, \quad
        \left\| \frac{\partial \mathcal L}{\partial x_l} \right\|_2

    The stack is left unchanged: stored gradients are not touched, buffers such as running statistics are restored, and
    the hooks are removed, even after an error.

    Args:
        layers: the layers to measure, in an ``nn.Sequential``, an ``nn.ModuleList`` or any list. Each layer takes its
            state as the first positional argument and runs exactly once.
        x: the input of the stack.
        loss: computes one number from the output; for a direction v, ``lambda y: (y * v).sum()``.
        run: computes the output from ``x``, such as a model that contains the layers. By default, the layers are
            applied one after the other.

    Returns:
        Two lists with a number for each layer. A parameter that is frozen, or that the loss does not depend on, counts
        as zero.

    Raises:
        ValueError: if a layer does not run, or runs twice: then there is no single state that enters it.

    Source: Xiong et al. (2020), section 3 and figure 3; IITD-33, CMU-18, CMU-19, GT-13, GT-15.

    >>> layers = [nn.Linear(1, 1, bias=False) for _ in range(3)]
    >>> for layer, weight in zip(layers, (2.0, 3.0, 5.0)):
    ...     _ = nn.init.constant_(layer.weight, weight)
    >>> gradient_norms(layers, torch.ones(1, 1), torch.sum)  # y = 2 * 3 * 5 * x
    GradientNorms(parameters=[15.0, 10.0, 6.0], states=[30.0, 15.0, 5.0])
    """
    layers = list(layers)
    states: dict[nn.Module, Tensor] = {}

    def record(layer, inputs):
        if layer in states:
            raise ValueError(f"layer {layers.index(layer)} runs more than once; each must run once")
        state, *rest = inputs
        states[layer] = state if state.requires_grad else state.detach().requires_grad_()
        return states[layer], *rest

    buffers = {b: b.clone() for module in (*layers, run) if isinstance(module, nn.Module) for b in module.buffers()}
    hooks = [layer.register_forward_pre_hook(record) for layer in layers]
    try:
        with torch.enable_grad():
            value = loss(reduce(lambda state, layer: layer(state), layers, x) if run is None else run(x))
        idle = [i for i, layer in enumerate(layers) if layer not in states]
        if idle:
            raise ValueError(f"layers {idle} did not run; each must run once")
        parameters = [[p for p in layer.parameters() if p.requires_grad] for layer in layers]
        of_states = [states[layer] for layer in layers]
        inputs = list(dict.fromkeys([*of_states, *(p for group in parameters for p in group)]))
        gradients = torch.autograd.grad(value, inputs, allow_unused=True)
    finally:
        for hook in hooks:
            hook.remove()
        with torch.no_grad():
            for buffer, before in buffers.items():
                buffer.copy_(before)
    square = {t: 0.0 if g is None else g.float().square().sum().item() for t, g in zip(inputs, gradients, strict=True)}
    return GradientNorms(
        parameters=[sum(square[p] for p in group) ** 0.5 for group in parameters],
        states=[square[state] ** 0.5 for state in of_states],
    )


@contextmanager
def recorded_states(layers: Iterable[nn.Module]) -> Iterator[list[Tensor]]:
    r"""Record the residual stream of a stack: the state that enters its first layer, and the one after each layer.

    .. math:: x_0, \; x_1 = \mathrm{Layer}_1(x_0), \; \dots, \; x_N = \mathrm{Layer}_N(x_{N-1})

    The list is filled when the stack runs in this context, and filled anew if it runs again. The hooks are removed
    afterwards, even after an error.

    Args:
        layers: at least one layer, such as the blocks of a model. Each takes its state as the first positional argument
            and returns the next state, alone or first in a tuple.

    Source: Elhage et al. (2021), "A mathematical framework for Transformer circuits", on the residual stream; UCL-24.

    >>> layers = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    >>> with recorded_states(layers) as states:
    ...     y = layers(torch.ones(2, 3))
    >>> len(states), torch.equal(states[0], torch.ones(2, 3)), states[-1] is y
    (3, True, True)
    """
    layers, states = list(layers), list[Tensor]()

    def entering(_, inputs):
        states[:] = inputs[:1]

    def leaving(_, inputs, output):
        states.append(output[0] if isinstance(output, tuple) else output)

    hooks = [layers[0].register_forward_pre_hook(entering), *(one.register_forward_hook(leaving) for one in layers)]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def head_mask(attention: MultiHeadAttention, mask: Float[Tensor, "heads"]) -> Iterator[None]:
    r"""Multiply the output of each head by a number, before the output projection: 0 switches the head off.

    .. math:: \mathrm{Concat}(\xi_1\, \mathrm{head}_1, \dots, \xi_h\, \mathrm{head}_h)\, W^O

    The weights of attention stay as they are. The hook is removed afterwards, even after an error.

    Args:
        attention: the layer whose heads are masked in this context.
        mask: the number of each head.

    Raises:
        ValueError: if there is not one number for each head.

    Source: Michel et al. (2019), "Are sixteen heads really better than one?", section 2.2.

    >>> from llm_anatomy.layers.attention import SelfAttention
    >>> attention = SelfAttention(d_model=12, n_heads=3)
    >>> with head_mask(attention, torch.zeros(3)):
    ...     attention(torch.ones(1, 5, 12)).abs().sum().item()
    0.0
    """
    if mask.shape != (attention.n_heads,):
        raise ValueError(
            f"mask has the shape {tuple(mask.shape)}; it must be ({attention.n_heads},), one for each head"
        )
    of_columns = mask[:, None].expand(-1, attention.d_value).flatten()
    hook = attention.w_output.register_forward_pre_hook(lambda _, inputs: (inputs[0] * of_columns,))
    try:
        yield
    finally:
        hook.remove()
