r"""Gradients through time: the norm of dh_T / dh_t of a recurrent network, for each token t."""

from collections.abc import Callable

import torch
from einops import rearrange

from llm_anatomy.shapes import Float, Tensor


def scale_to_spectral_radius(matrix: Float[Tensor, "d d"], radius: float) -> Float[Tensor, "d d"]:
    r"""Scale a matrix, so that its largest eigenvalue has the given absolute value.

    .. math:: \frac{\mathrm{radius}}{\max_i |\lambda_i|}\, W

    Args:
        matrix: square, with an eigenvalue other than zero.
        radius: at least 0.

    Raises:
        ValueError: for a negative radius, a matrix that is not square, or one whose eigenvalues are all zero.

    Source: Pascanu et al. (2013), section 2.1; UCL-15.

    >>> scale_to_spectral_radius(torch.tensor([[0.0, 4.0], [1.0, 0.0]]), 0.5).round(decimals=4).tolist()
    [[0.0, 1.0], [0.25, 0.0]]
    """
    if not radius >= 0:
        raise ValueError(f"{radius=} must be at least 0")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix has shape {tuple(matrix.shape)}; it must be square")
    largest = torch.linalg.eigvals(matrix).abs().max()
    if largest == 0:
        raise ValueError("matrix has no eigenvalue other than zero; no factor gives it a spectral radius")
    return matrix * (radius / largest)


def gradient_through_time(
    step: Callable, x: Float[Tensor, "batch tokens d_input"], state: tuple[Float[Tensor, "batch d_hidden"], ...]
) -> Float[Tensor, "batch times"]:
    r"""Compute how strongly the last hidden state depends on each earlier state.

    Entry t is

    .. math:: \left\| \frac{\partial h_T}{\partial s_t} \right\|_2, \quad
        \frac{\partial h_T}{\partial h_t} = \prod_{k=t+1}^{T} \mathrm{diag}(1 - h_k^2)\, W
        \text{ for a tanh network}

    with the later factors on the left. :math:`s_t` is the whole state: h, or h and c concatenated. The norm is the
    spectral norm, the largest factor by which a small change can grow. As in the power method, it tends to grow or
    shrink like the spectral radius to the power T - t (hence erratum E-98: a gradient may grow or shrink with depth).

    Args:
        step: called as ``step(x_t, state)``, returns the next state: a cell of ``layers.recurrent``, or any other.
        x: the tokens.
        state: the state before the first token, a tuple of tensors with h first.

    Returns:
        T + 1 norms for each sequence, from t = 0 (before the first token) to t = T, whose norm is one. In float32,
        norms below about 1e-45 become zero; float64 reaches much further.

    Source: Pascanu et al. (2013), equations 4 and 5; UCL-15, erratum E-98.

    >>> def linear(x, state, w=torch.tensor([[0.5]])):
    ...     return (state[0] @ w.T + x,)
    >>> gradient_through_time(linear, torch.zeros(1, 3, 1), (torch.zeros(1, 1),)).tolist()
    [[0.125, 0.25, 0.5, 1.0]]
    """
    with torch.enable_grad():
        states = [tuple(part.detach().requires_grad_() for part in state)]
        for x_t in x.detach().unbind(1):
            # copies, since h_t is computed from c_t, and this path must not count in the gradient of c_t
            states.append(tuple(part.clone() for part in step(x_t, states[-1])))
        last = states[-1][0]  # (batch, d_hidden)
        directions = torch.eye(last.shape[1], dtype=last.dtype, device=last.device)
        directions = directions[:, None].expand(-1, *last.shape)  # (d_hidden, batch, d_hidden)
        parts = [part for state in states for part in state]
        rows = torch.autograd.grad(last, parts, directions, is_grads_batched=True, allow_unused=True)
    rows = [torch.zeros_like(directions) if row is None else row for row in rows]  # h_T does not depend on c_T
    jacobians = rearrange(torch.stack(rows), "(times parts) out batch d -> batch times out (parts d)", parts=len(state))
    return torch.linalg.matrix_norm(jacobians, ord=2)
