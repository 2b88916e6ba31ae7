r"""Selective state spaces (Mamba): a linear recurrence whose coefficients depend on the token.

Shapes: ``batch``, ``tokens``, ``d_model``, ``d_inner`` (number of channels, each with its own state),
``d_state`` (width of the state of one channel, N in the paper). All functions take a state and return one, so that a
sequence may be given in one call, in parts, or token by token.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.layers._checks import _check_at_least_one
from llm_anatomy.layers._precision import _wide
from llm_anatomy.shapes import Bool, Float, Tensor

# --- From continuous to discrete time: functions of x, delta, A, B that return a and b of h' = a h + b ---


def zero_order_hold(
    x: Float[Tensor, "batch tokens d_inner"],
    delta: Float[Tensor, "batch tokens d_inner"],
    A: Float[Tensor, "d_inner d_state"],
    B: Float[Tensor, "batch tokens d_state"],
) -> tuple[Float[Tensor, "batch tokens d_inner d_state"], Float[Tensor, "batch tokens d_inner d_state"]]:
    r"""Solve the differential equation :math:`h' = A h + B x` over a time :math:`\Delta` in which x is constant.

    .. math:: \bar A = \exp(\Delta A), \quad \bar B x = (\Delta A)^{-1} (\exp(\Delta A) - 1) \cdot \Delta B\, x

    This is the formula of the paper. A is diagonal, so that all operations are elementwise.

    Args:
        x: the input of each channel.
        delta: the duration of each token in each channel, above 0.
        A: the rates, other than zero; a negative rate makes the past decay.
        B: the weights of the input in the state.

    Returns:
        :math:`\bar A` and :math:`\bar B x` for each token.

    Source: Gu and Dao (2023), equation 4; UCL-16.

    >>> one = torch.ones(1, 1, 1)
    >>> a, b = zero_order_hold(one, one, -torch.ones(1, 1), one)
    >>> round(a.item(), 4), round(b.item(), 4)
    (0.3679, 0.6321)
    """
    exponent = delta[..., None] * A  # (batch, tokens, d_inner, d_state)
    return exponent.exp(), exponent.expm1() / A * (x[..., None] * B[..., None, :])


def simplified_hold(
    x: Float[Tensor, "batch tokens d_inner"],
    delta: Float[Tensor, "batch tokens d_inner"],
    A: Float[Tensor, "d_inner d_state"],
    B: Float[Tensor, "batch tokens d_state"],
) -> tuple[Float[Tensor, "batch tokens d_inner d_state"], Float[Tensor, "batch tokens d_inner d_state"]]:
    r"""Solve as :func:`zero_order_hold`, with B to first order, as in the paper's code and in trained models.

    .. math:: \bar A = \exp(\Delta A), \quad \bar B x = \Delta B\, x

    Args:
        x, delta, A, B: as in :func:`zero_order_hold`.

    Source: Gu and Dao (2023), the code of ``selective_scan``; UCL-16.

    >>> one = torch.ones(1, 1, 1)
    >>> a, b = simplified_hold(one, one, -torch.ones(1, 1), one)
    >>> round(a.item(), 4), round(b.item(), 4)
    (0.3679, 1.0)
    """
    return (delta[..., None] * A).exp(), (delta * x)[..., None] * B[..., None, :]


# --- The scan: token by token, and in parallel ---


def selective_scan_sequential(
    x: Float[Tensor, "batch tokens d_inner"],
    delta: Float[Tensor, "batch tokens d_inner"],
    A: Float[Tensor, "d_inner d_state"],
    B: Float[Tensor, "batch tokens d_state"],
    C: Float[Tensor, "batch tokens d_state"],
    state: Float[Tensor, "batch d_inner d_state"] | None = None,
    *,
    discretize: Callable = simplified_hold,
) -> tuple[Float[Tensor, "batch tokens d_inner"], Float[Tensor, "batch d_inner d_state"]]:
    r"""Compute the recurrence token by token.

    .. math:: h_t = \bar A_t \odot h_{t-1} + \bar B_t x_t, \quad y_t = C_t h_t

    Without gradients, memory holds one state, whatever the number of tokens. The state has at least float32.

    Args:
        x: the input of each channel.
        delta: the duration of each token in each channel, above 0.
        A: the rates; a negative rate makes the past decay.
        B, C: the weights of the input in the state, and of the state in the output, for each token.
        state: the state before the first token, zeros by default.
        discretize: :func:`simplified_hold` or :func:`zero_order_hold`.

    Returns:
        y in the dtype of x, and the state after the last token.

    Raises:
        ValueError: if shapes do not fit.

    Source: Gu and Dao (2023), equations 2a and 2b, algorithm 2; UCL-16.

    >>> x, delta, A, B = torch.ones(1, 3, 1), torch.ones(1, 3, 1), -torch.ones(1, 1) * math.log(2), torch.ones(1, 3, 1)
    >>> y, state = selective_scan_sequential(x, delta, A, B, C=B)
    >>> [round(v, 4) for v in y.flatten().tolist()], round(state.item(), 4)
    ([1.0, 1.5, 1.75], 1.75)
    """
    dtype, (x, delta, A, B, C, state) = x.dtype, _prepare(x, delta, A, B, C, state)
    outputs = []
    for x_t, delta_t, B_t, C_t in zip(*(tensor.split(1, 1) for tensor in (x, delta, B, C)), strict=True):
        a, b = discretize(x_t, delta_t, A, B_t)  # (batch, 1, d_inner, d_state) each
        # h_t = a h_{t-1} + b
        state = torch.addcmul(b[:, 0], a[:, 0], state)
        outputs.append(state @ C_t.mT)  # y_t = C_t h_t: (batch, d_inner, 1)
    return torch.cat(outputs, -1).mT.to(dtype), state


def selective_scan_parallel(
    x: Float[Tensor, "batch tokens d_inner"],
    delta: Float[Tensor, "batch tokens d_inner"],
    A: Float[Tensor, "d_inner d_state"],
    B: Float[Tensor, "batch tokens d_state"],
    C: Float[Tensor, "batch tokens d_state"],
    state: Float[Tensor, "batch d_inner d_state"] | None = None,
    *,
    discretize: Callable = simplified_hold,
    block_size: int = 64,
) -> tuple[Float[Tensor, "batch tokens d_inner"], Float[Tensor, "batch d_inner d_state"]]:
    r"""Compute the recurrence of :func:`selective_scan_sequential` in blocks of tokens.

    Within a block, the number of steps of :func:`linear_recurrence` grows with the logarithm of the block size. Without
    gradients, memory holds the states of one block. With gradients, it holds :math:`\bar A` and h of all tokens,
    2 x batch x tokens x d_inner x d_state numbers. If a single token already keeps the processor busy (on one CPU core,
    with batch x d_inner x d_state above some ten thousand), this form is not faster than the sequential one.

    Args:
        x, delta, A, B, C, state, discretize: as in :func:`selective_scan_sequential`.
        block_size: number of tokens in a block, at least 1.

    Returns:
        y in the dtype of x, and the state after the last token.

    Raises:
        ValueError: if shapes do not fit, or for a block size below 1.

    Source: Gu and Dao (2023), section 3.3.2; Smith et al. (2023), "S5", section 2.2; UCL-16.

    >>> x, delta, A, B = torch.randn(2, 9, 3), torch.rand(2, 9, 3), -torch.rand(3, 4), torch.randn(2, 9, 4)
    >>> y, state = selective_scan_parallel(x, delta, A, B, C=B)
    >>> torch.allclose(y, selective_scan_sequential(x, delta, A, B, C=B)[0], atol=1e-5)
    True
    """
    _check_at_least_one(block_size=block_size)
    dtype, (x, delta, A, B, C, state) = x.dtype, _prepare(x, delta, A, B, C, state)
    outputs = []
    for x_k, delta_k, B_k, C_k in zip(*(tensor.split(block_size, 1) for tensor in (x, delta, B, C)), strict=True):
        a, b = discretize(x_k, delta_k, A, B_k)  # (batch, block, d_inner, d_state) each
        states = linear_recurrence(a, b, state)
        state = states[:, -1]
        outputs.append((states @ C_k[..., None]).squeeze(-1))  # (batch, block, d_inner)
    return torch.cat(outputs, 1).to(dtype), state


def linear_recurrence(
    a: Float[Tensor, "batch tokens *width"],
    b: Float[Tensor, "batch tokens *width"],
    state: Float[Tensor, "batch *width"],
) -> Float[Tensor, "batch tokens *width"]:
    r"""Compute all states of a linear recurrence by an associative scan.

    .. math:: h_t = a_t h_{t-1} + b_t, \quad (a, b) \circ (a', b') = (a' a,\; a' b + b')

    Two successive steps are again such a step, with the composed pair. Composition is associative, so that pairs may be
    grouped in any way. The up-sweep composes neighbours, then neighbouring groups, and so on. The down-sweep combines
    the remaining positions with the states before them. This takes 2 log2(tokens) steps and about twice the operations
    of the loop.

    Args:
        a: the factors.
        b: the summands.
        state: the state before the first token.

    Source: Blelloch (1990), section 1.4; Brent and Kung (1982) for the two sweeps; UCL-16.

    >>> half, one = torch.full((1, 3), 0.5), torch.ones(1, 3)
    >>> linear_recurrence(half, one, torch.zeros(1)).tolist()
    [[1.0, 1.5, 1.75]]
    """
    return _LinearRecurrence.apply(a, b, state)


class _LinearRecurrence(torch.autograd.Function):
    """The scan with a backward of its own: it works in place, and its gradient is a linear recurrence in reverse."""

    @staticmethod
    def forward(ctx, a, b, state):
        h, product = b.clone(), a.clone()
        h[:, 0].addcmul_(a[:, 0], state)
        n_tokens, reach = a.shape[1], 1
        while reach < n_tokens:  # up: in each group of 2 reach tokens, the last one is combined with the first half
            left, right = slice(reach - 1, n_tokens - reach, 2 * reach), slice(2 * reach - 1, None, 2 * reach)
            h[:, right].addcmul_(product[:, right], h[:, left])
            product[:, right].mul_(product[:, left])
            reach *= 2
        while reach > 2:  # down: every reach-th state is final; the token half way to the next is combined with it
            reach //= 2
            half = reach // 2
            left, right = slice(reach - 1, n_tokens - half, reach), slice(reach + half - 1, None, reach)
            h[:, right].addcmul_(product[:, right], h[:, left])
        ctx.save_for_backward(a, state, h)
        return h

    @staticmethod
    def backward(ctx, grad):
        a, state, h = ctx.saved_tensors
        # dL/db_t = dL/dh_t + a_{t+1} dL/db_{t+1}
        following = a.roll(-1, 1).flip(1)
        grad_b = _LinearRecurrence.apply(following, grad.flip(1), torch.zeros_like(state)).flip(1)
        before = torch.cat((state[:, None], h[:, :-1]), 1)
        return grad_b * before, grad_b, grad_b[:, 0] * a[:, 0]


def _prepare(
    x: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Check the inputs of a scan and convert them to at least float32. Without a state, it is zero."""
    batch, n_tokens, d_inner = x.shape
    d_state, wide = A.shape[-1], _wide(x.dtype)
    state = x.new_zeros((batch, d_inner, d_state), dtype=wide) if state is None else state
    for name, tensor, shape in (
        ("delta", delta, (batch, n_tokens, d_inner)),
        ("A", A, (d_inner, d_state)),
        ("B", B, (batch, n_tokens, d_state)),
        ("C", C, (batch, n_tokens, d_state)),
        ("state", state, (batch, d_inner, d_state)),
    ):
        if tensor.shape != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must be {shape}")
    if n_tokens < 1:
        raise ValueError("x has no tokens; it must have at least one")
    return x.to(wide), delta.to(wide), A.to(wide), B.to(wide), C.to(wide), state.to(wide)


class MambaBlock(nn.Module):
    r"""Layer of Mamba: a short causal convolution, a selective scan, and a gate.

    .. math::
        u, z &= W_\mathrm{in} x, \quad u \leftarrow \mathrm{SiLU}(\mathrm{conv}(u)), \quad
        \delta, B, C = W_x u, \quad \Delta = \mathrm{softplus}(W_\Delta \delta + b_\Delta) \\
        y &= \mathrm{scan}(u, \Delta, -e^{A_\mathrm{log}}, B, C) + D \odot u, \quad
        \mathrm{output} = W_\mathrm{out} (y \odot \mathrm{SiLU}(z))

    The scan is selective: :math:`\Delta`, B and C depend on the token. The state that is passed on has a fixed size:
    the last ``d_conv - 1`` inputs of the convolution, and h.

    Args:
        d_model: width of the tokens.
        d_inner: number of channels, ``2 * d_model`` by default.
        d_state: width of the state of one channel.
        d_conv: width of the convolution, in tokens.
        dt_rank: width of :math:`\delta`, ``d_model / 16`` rounded up by default.
        scan: :func:`selective_scan_parallel` or :func:`selective_scan_sequential`.

    Raises:
        ValueError: for sizes below one.

    Source: Gu and Dao (2023), section 3.4, figure 3, initialisation in section 3.6; UCL-16.

    >>> block = MambaBlock(d_model=6)
    >>> x = torch.randn(2, 5, 6)
    >>> whole, _ = block(x)
    >>> first, state = block(x[:, :3])
    >>> rest, state = block(x[:, 3:], state)
    >>> torch.allclose(torch.cat((first, rest), 1), whole, atol=1e-5)
    True
    """

    no_weight_decay = ("A_log",)
    """The rates, a vector for each channel; the authors' code marks them likewise."""

    def __init__(
        self,
        d_model: int,
        *,
        d_inner: int | None = None,
        d_state: int = 16,
        d_conv: int = 4,
        dt_rank: int | None = None,
        scan: Callable = selective_scan_parallel,
    ):
        super().__init__()
        d_inner = 2 * d_model if d_inner is None else d_inner
        dt_rank = math.ceil(d_model / 16) if dt_rank is None else dt_rank
        _check_at_least_one(d_model=d_model, d_inner=d_inner, d_state=d_state, d_conv=d_conv, dt_rank=dt_rank)
        self.scan = scan
        self.in_proj = nn.Linear(d_model, 2 * d_inner, bias=False)
        self.conv1d = nn.Conv1d(d_inner, d_inner, d_conv, groups=d_inner)
        self.x_proj = nn.Linear(d_inner, dt_rank + 2 * d_state, bias=False)
        self.dt_proj = nn.Linear(dt_rank, d_inner)
        self.A_log = nn.Parameter(torch.arange(1.0, d_state + 1).log().repeat(d_inner, 1))  # A = -1, -2, ..., -N
        self.D = nn.Parameter(torch.ones(d_inner))
        self.out_proj = nn.Linear(d_inner, d_model, bias=False)
        nn.init.uniform_(self.dt_proj.weight, -(dt_rank**-0.5), dt_rank**-0.5)
        with torch.no_grad():  # the logarithm of softplus(bias) is uniform between those of 0.001 and 0.1
            delta = torch.empty(d_inner).uniform_(math.log(0.001), math.log(0.1)).exp()
            self.dt_proj.bias.copy_(delta.expm1().log())

    def forward(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        state: tuple[Float[Tensor, "batch d_inner window"], Float[Tensor, "batch d_inner d_state"]] | None = None,
        mask: Bool[Tensor, "batch tokens"] | None = None,
    ) -> tuple[
        Float[Tensor, "batch tokens d_model"],
        tuple[Float[Tensor, "batch d_inner window"], Float[Tensor, "batch d_inner d_state"]],
    ]:
        """Run the layer over ``x``, which follows the tokens of ``state``.

        Args:
            x: the tokens, at least one.
            state: the state that an earlier call returned; without it, ``x`` begins the sequence.
            mask: True = a token, False = padding, which must come before the tokens of its sequence and does not change
                their outputs; by default, there is no padding.

        Returns:
            The output, and the state: the last ``d_conv - 1`` inputs of the convolution, and h.

        Raises:
            ValueError: if shapes do not fit.
        """
        d_inner, dt_rank, d_state = self.conv1d.in_channels, self.dt_proj.in_features, self.A_log.shape[1]
        if x.ndim != 3 or x.shape[1] < 1 or x.shape[2] != self.in_proj.in_features:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; it must be (batch, tokens >= 1, d_model={self.in_proj.in_features})"
            )
        window_shape = (x.shape[0], d_inner, self.conv1d.kernel_size[0] - 1)
        window, h = (x.new_zeros(window_shape), None) if state is None else state
        if window.shape != window_shape:
            raise ValueError(f"state[0] has shape {tuple(window.shape)}; it must be {window_shape}")
        u, z = self.in_proj(x).chunk(2, -1)  # (batch, tokens, d_inner) each
        u = u if mask is None else u * mask[..., None]
        conv_inputs = torch.cat((window, u.mT), -1)  # (batch, d_inner, d_conv - 1 + tokens)
        u = F.silu(self.conv1d(conv_inputs)).mT
        u = u if mask is None else u * mask[..., None]  # the bias of the convolution is not zero at padding
        delta, B, C = self.x_proj(u).split((dt_rank, d_state, d_state), -1)
        wide = _wide(x.dtype)  # for the exponentials
        # Δ = softplus(W_Δ δ + b_Δ), A = -exp(A_log)
        y, h = self.scan(u, F.softplus(self.dt_proj(delta).to(wide)), -self.A_log.to(wide).exp(), B, C, h)
        return self.out_proj((y + self.D * u) * F.silu(z)), (conv_inputs[..., x.shape[1] :], h)
