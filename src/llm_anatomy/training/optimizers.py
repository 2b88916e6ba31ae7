r"""Optimizers: SGD with momentum, Adam and AdamW, and which parameters decay.

The classes are written for readers. They do in a few lines what their namesakes in ``torch.optim`` do, which train
faster, as these go through the parameters one by one.
"""

from typing import Any

import torch
from torch import nn

from llm_anatomy.shapes import Tensor

CONVENTIONS = ("library", "paper")
"""By what :class:`AdamW` multiplies its decay: the learning rate, or the multiplier of the schedule alone."""


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Group the parameters of a model for an optimizer: those that decay, and those that do not.

    Matrices and embedding tables decay; gains, biases and other vectors do not. A decay towards zero would turn off a
    layer whose gain is 1, and vectors are too few to fit noise with. A module whose parameters of two dimensions are
    vectors too, such as the gains of several heads, names them in its attribute ``no_weight_decay``. Frozen parameters
    are in neither group.

    Args:
        model: any module.
        weight_decay: weight decay of the first group.

    Returns:
        Two groups, as the optimizers of ``torch.optim`` take them.

    Source: Radford et al. (2018), section 4.1, for what does not decay; GT-39.

    >>> groups = parameter_groups(nn.Linear(3, 2), weight_decay=0.1)
    >>> [(group["weight_decay"], [tuple(p.shape) for p in group["params"]]) for group in groups]
    [(0.1, [(2, 3)]), (0.0, [(2,)])]
    """
    vectors = {getattr(module, name) for module in model.modules() for name in getattr(module, "no_weight_decay", ())}
    decaying, others = [], []
    for p in model.parameters():
        if p.requires_grad:
            (decaying if p.ndim >= 2 and p not in vectors else others).append(p)
    return [{"params": decaying, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


class _Optimizer(torch.optim.Optimizer):
    """An optimizer that treats each parameter alike. A subclass says how one parameter changes."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Make a step with the gradients of all parameters.

        Args:
            closure: computes the loss and the gradients once more, if given; its result is returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, p.grad, self.state[p], group)
        return loss

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Change one parameter.

        Args:
            p: the parameter; it is changed in place.
            g: its gradient.
            state: what the optimizer remembers of the parameter from step to step; it is empty before the first.
            group: the settings of the parameter's group, such as ``group["lr"]``.
        """
        raise NotImplementedError


class SGD(_Optimizer):
    r"""Gradient descent with momentum: a step along the decaying sum of the gradients.

    .. math:: b_t = \mu\, b_{t-1} + g_t, \qquad x_t = x_{t-1} - \alpha\, b_t

    Args:
        params: parameters, or groups of them.
        lr: the learning rate :math:`\alpha`.
        momentum: :math:`\mu`, from 0, which is plain gradient descent, to below 1.

    Raises:
        ValueError: if ``lr`` is negative, or ``momentum`` is not from 0 to below 1.

    Source: Polyak (1964); IITD-36, GT-39.

    >>> x = nn.Parameter(torch.tensor([1.0]))
    >>> optimizer, x.grad = SGD([x], lr=0.5, momentum=0.5), torch.tensor([1.0])
    >>> for _ in range(3):  # the gradient stays 1, so the steps grow: 0.5, 0.75, 0.875
    ...     optimizer.step()
    >>> x.item()
    -1.125
    """

    def __init__(self, params: Any, lr: float = 1e-3, momentum: float = 0.0):
        _check(lr=lr)
        _check_shares(momentum=momentum)
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        b = state.setdefault("b", torch.zeros_like(p))
        b.mul_(group["momentum"]).add_(g)
        p.add_(b, alpha=-group["lr"])


class Adam(_Optimizer):
    r"""Adam: the mean of the gradients, divided by the root of the mean of their squares. L2 enters the gradient.

    .. math:: \begin{aligned}
        g_t &= \nabla f_t(x_{t-1}) + w\, x_{t-1} \\
        m_t &= \beta_1 m_{t-1} + (1 - \beta_1)\, g_t, & \hat m_t &= m_t / (1 - \beta_1^t) \\
        v_t &= \beta_2 v_{t-1} + (1 - \beta_2)\, g_t^2, & \hat v_t &= v_t / (1 - \beta_2^t) \\
        x_t &= x_{t-1} - \alpha\, \hat m_t / (\sqrt{\hat v_t} + \epsilon) \end{aligned}

    The L2 penalty :math:`\tfrac w2 \lVert x \rVert^2` is divided by :math:`\sqrt{\hat v_t}` as the rest of the
    gradient is, so parameters with large gradients decay less. :class:`AdamW` repairs this.

    Args:
        params: parameters, or groups of them.
        lr: the learning rate :math:`\alpha`.
        betas: :math:`\beta_1` and :math:`\beta_2`, from 0 to below 1.
        eps: :math:`\epsilon`.
        l2: the weight :math:`w` of the penalty; the argument ``weight_decay`` of ``torch.optim.Adam``.

    Raises:
        ValueError: if ``lr``, ``eps`` or ``l2`` is negative, or a beta is not from 0 to below 1.

    Source: Kingma and Ba (2015), algorithm 1; with L2, Loshchilov and Hutter (2019), algorithm 2; GT-38.

    >>> x = nn.Parameter(torch.tensor([1.0, 1.0]))
    >>> optimizer, x.grad = Adam([x], lr=0.1), torch.tensor([100.0, 0.01])
    >>> optimizer.step()
    >>> x.detach()  # the size of the first step does not depend on that of the gradient
    tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        l2: float = 0.0,
    ):
        _check(lr=lr, eps=eps, l2=l2)
        _check_shares(beta1=betas[0], beta2=betas[1])
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "l2": l2})

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        g = g + group["l2"] * p
        p.add_(_adam_direction(g, state, group["betas"], group["eps"]), alpha=-group["lr"])


class AdamW(_Optimizer):
    r"""AdamW: Adam on the gradient alone, and a decay of the parameters beside it.

    .. math:: x_t = x_{t-1} - \eta_t \left(\alpha\, \hat m_t / (\sqrt{\hat v_t} + \epsilon) + w\, x_{t-1}\right)

    with the moments of :class:`Adam` without L2, and the multiplier :math:`\eta_t` of the schedule. So a step takes
    the share :math:`\eta_t w` of each parameter away, whatever its gradient is. PyTorch's class multiplies the decay by
    the whole learning rate: the share is :math:`\eta_t \alpha w`, and depends on :math:`\alpha`. The two agree if the
    paper's decay is :math:`\alpha` times the library's.

    Args:
        params: parameters, or groups of them.
        lr: the learning rate :math:`\alpha` of the first step without a schedule. A schedule sets ``group["lr"]`` to
            :math:`\eta_t \alpha`, as the schedulers of ``torch.optim`` do.
        betas, eps: as in :class:`Adam`.
        weight_decay: the decay :math:`w`.
        convention: ``"library"`` multiplies the decay by the learning rate, as ``torch.optim.AdamW`` does;
            ``"paper"`` by the schedule's multiplier alone.

    Raises:
        ValueError: if ``lr``, ``eps`` or ``weight_decay`` is negative, a beta is not from 0 to below 1, the convention
            is neither of the two, or it is the paper's and a learning rate is 0, of which there is no multiple.

    Source: Loshchilov and Hutter (2019), algorithm 2; GT-39.

    >>> for convention in ("paper", "library"):
    ...     x = nn.Parameter(torch.tensor([100.0]))
    ...     optimizer, x.grad = AdamW([x], lr=0.5, weight_decay=0.01, convention=convention), torch.tensor([3.0])
    ...     optimizer.step()
    ...     print(x.item())  # 100 - 0.5 - 0.01 · 100, and 100 - 0.5 - 0.5 · 0.01 · 100
    98.5
    99.0
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        convention: str = "library",
    ):
        _check(lr=lr, eps=eps, weight_decay=weight_decay)
        _check_shares(beta1=betas[0], beta2=betas[1])
        if convention not in CONVENTIONS:
            raise ValueError(f"{convention=} must be one of {', '.join(CONVENTIONS)}")
        self.convention = convention
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        for group in self.param_groups:
            group.setdefault("initial_lr", group["lr"])  # PyTorch's schedulers use the same name
            if convention == "paper" and not group["initial_lr"]:
                raise ValueError("lr is 0; the paper's convention needs a learning rate above 0")

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        direction = _adam_direction(g, state, group["betas"], group["eps"])
        scale = group["lr"] if self.convention == "library" else group["lr"] / group["initial_lr"]
        p.sub_(group["lr"] * direction + scale * group["weight_decay"] * p)


def _adam_direction(g: Tensor, state: dict[str, Any], betas: tuple[float, float], eps: float) -> Tensor:
    beta1, beta2 = betas
    if not state:
        state.update(t=0, m=torch.zeros_like(g), v=torch.zeros_like(g))
    state["t"] += 1
    state["m"].lerp_(g, 1 - beta1)  # m = beta1 · m + (1 - beta1) · g
    state["v"].lerp_(g.square(), 1 - beta2)
    m_hat = state["m"] / (1 - beta1 ** state["t"])
    v_hat = state["v"] / (1 - beta2 ** state["t"])
    return m_hat / (v_hat.sqrt() + eps)


def _check(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise ValueError(f"{name}={value} must be at least 0")


def _check_shares(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < 1:
            raise ValueError(f"{name}={value} must be from 0 to below 1")
