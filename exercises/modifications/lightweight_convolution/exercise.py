import numpy as np
import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def lightweight_convolution(
    u: Float[Tensor, "n_tokens d_model"], kernel: Float[Tensor, "n_heads width"]
) -> Float[Tensor, "n_tokens d_model"]:
    """Return the weighted sum of each token and the tokens before it."""
    n_tokens, d_model = u.shape
    n_heads, width = kernel.shape
    weights = kernel.softmax(-1).repeat_interleave(d_model // n_heads, dim=0)
    padded = F.pad(u, (0, 0, width - 1, 0))
    return sum(weights[:, j] * padded[j : j + n_tokens] for j in range(width))


def accepted_conv1d(u, kernel):
    """Uses PyTorch's convolution with as many groups as channels."""
    d_model, (n_heads, width) = u.shape[1], kernel.shape
    weights = torch.softmax(kernel, dim=1).repeat_interleave(d_model // n_heads, 0)[:, None]
    return F.conv1d(u.T[None], weights, padding=width - 1, groups=d_model)[0].T[: len(u)]


def accepted_loop(u, kernel):
    """Goes through tokens and heads, with NumPy."""
    u, kernel = u.numpy(), kernel.numpy()
    weights, size = np.exp(kernel) / np.exp(kernel).sum(-1, keepdims=True), u.shape[1] // len(kernel)
    out = np.zeros_like(u)
    for t in range(len(u)):
        for h in range(len(kernel)):
            for back in range(min(t + 1, kernel.shape[1])):
                channels = slice(h * size, (h + 1) * size)
                out[t, channels] += weights[h, -1 - back] * u[t - back, channels]
    return out


def accepted_matrix(u, kernel):
    """Builds the matrix of each head, as attention would."""
    n, width = len(u), kernel.shape[1]
    back = torch.arange(n)[:, None] - torch.arange(n)
    inside = (back >= 0) & (back < width)
    weights = kernel.softmax(1)[:, (width - 1 - back).clamp(0, width - 1)] * inside
    return torch.einsum("hts, shc -> thc", weights, u.unflatten(1, (len(kernel), -1))).flatten(1)


NAMES = ("u", "kernel")


def cases(generator):
    def drawn(n_tokens, d_model, n_heads, width):
        u = (10 * torch.randn(n_tokens, d_model, generator=generator)).round() / 10
        return dict(zip(NAMES, (u, (10 * torch.randn(n_heads, width, generator=generator)).round() / 10), strict=True))

    small = dict(zip(NAMES, (torch.tensor([[1.0, 3.0], [5.0, 7.0]]), torch.tensor([[0.0, 0.0]])), strict=True))
    return [drawn(5, 6, 2, 3), small, drawn(2, 8, 2, 4), drawn(7, 9, 3, 2), drawn(4, 3, 1, 6)]


def property_no_later_token(answer, generator):
    u, kernel = torch.randn(6, 4, generator=generator), torch.randn(2, 3, generator=generator)
    changed = u.clone()
    changed[4] += 3
    one, other = torch.as_tensor(answer(u, kernel)), torch.as_tensor(answer(changed, kernel))
    assert torch.allclose(one[:4], other[:4], atol=1e-4), (
        "When we change the fifth token, the first four outputs should stay. Yours change."
    )


def property_steady_text(answer, generator):
    u, kernel = torch.ones(6, 4), torch.randn(2, 3, generator=generator)
    found = torch.as_tensor(answer(u, kernel))
    assert torch.allclose(found[2:], torch.ones(4, 4), atol=1e-4), (
        "If all tokens are ones, every output with a whole window should be one, because the weights of a window sum "
        "to one. Yours are not."
    )


def hidden_cases(generator):
    def drawn(n_tokens, d_model, n_heads, width):
        return dict(
            zip(
                NAMES,
                (
                    torch.randn(n_tokens, d_model, generator=generator),
                    torch.randn(n_heads, width, generator=generator),
                ),
                strict=True,
            )
        )

    return [drawn(8, 10, 2, 3), drawn(5, 12, 3, 7), drawn(9, 4, 2, 5), drawn(6, 15, 5, 2)]
