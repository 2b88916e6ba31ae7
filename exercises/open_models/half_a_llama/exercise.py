import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def broken(
    x: Float[Tensor, "n_tokens d_model"],
    w_o: Float[Tensor, "d_model d_model"],
    w_gate: Float[Tensor, "d_model d_ff"],
    w_up: Float[Tensor, "d_model d_ff"],
    w_down: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "n_tokens d_model"]:
    """Return what a block of LLaMA makes of the tokens."""

    def norm(z):
        return z / (z.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    def attention(z):
        weights = torch.ones(len(z), len(z)).tril()
        return weights / weights.sum(-1, keepdim=True) @ z @ w_o

    def feed_forward(z):
        return (F.silu(z @ w_gate) * (z @ w_up)) @ w_down

    x = x + attention(norm(x))
    x = norm(x)
    return x + feed_forward(x)


def half_a_llama(
    x: Float[Tensor, "n_tokens d_model"],
    w_o: Float[Tensor, "d_model d_model"],
    w_gate: Float[Tensor, "d_model d_ff"],
    w_up: Float[Tensor, "d_model d_ff"],
    w_down: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "n_tokens d_model"]:
    """Return what a block of LLaMA makes of the tokens."""

    def norm(z):
        return z / (z.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    def attention(z):
        weights = torch.ones(len(z), len(z)).tril()
        return weights / weights.sum(-1, keepdim=True) @ z @ w_o

    def feed_forward(z):
        return (F.silu(z @ w_gate) * (z @ w_up)) @ w_down

    x = x + attention(norm(x))
    return x + feed_forward(norm(x))


def accepted_library(x, w_o, w_gate, w_up, w_down):
    """Uses PyTorch's RMSNorm, and a cumulative mean."""
    counts = torch.arange(1.0, len(x) + 1)[:, None]
    x = x + F.rms_norm(x, x.shape[-1:], eps=1e-5).cumsum(0) / counts @ w_o
    z = F.rms_norm(x, x.shape[-1:], eps=1e-5)
    return x + F.silu(z @ w_gate).mul(z @ w_up) @ w_down


def accepted_second_name(x, w_o, w_gate, w_up, w_down):
    """Keeps the sum under another name, token by token."""
    rows, seen = [], torch.zeros_like(x[0])
    for t, token in enumerate(x, 1):
        seen = seen + token / (token.square().mean() + 1e-5).sqrt()
        stream = token + seen / t @ w_o
        read = stream / (stream.square().mean() + 1e-5).sqrt()
        gate = read @ w_gate
        rows.append(stream + gate * gate.sigmoid() * (read @ w_up) @ w_down)
    return torch.stack(rows)


NAMES = ("x", "w_o", "w_gate", "w_up", "w_down")


def cases(generator):
    def drawn(n, d, f, size):
        shapes = ((n, d), (d, d), (d, f), (d, f), (f, d))
        tensors = [(8 * torch.randn(*shape, generator=generator)).round() / 8 for shape in shapes]
        return dict(zip(NAMES, (size * tensors[0], *tensors[1:]), strict=True))

    return [drawn(2, 3, 4, 2.0), drawn(5, 4, 7, 0.5), drawn(3, 6, 2, 3.0)]


def property_zero_sublayers(answer, generator):
    x, w_gate, w_up = (torch.randn(*shape, generator=generator) for shape in ((5, 4), (4, 7), (4, 7)))
    found = answer(3 * x, torch.zeros(4, 4), w_gate, w_up, torch.zeros(7, 4))
    assert torch.allclose(torch.as_tensor(found).float(), 3 * x, atol=1e-4), (
        "If `w_o` and `w_down` are zero, the block should return its input. Yours does not."
    )


def property_no_later_token(answer, generator):
    x, w_o, w_gate, w_up, w_down = (
        torch.randn(*shape, generator=generator) for shape in ((4, 3), (3, 3), (3, 5), (3, 5), (5, 3))
    )
    changed = x.clone()
    changed[-1] += 1
    one, two = (torch.as_tensor(answer(each, w_o, w_gate, w_up, w_down)) for each in (x, changed))
    assert torch.allclose(one[:-1], two[:-1], atol=1e-4), "A later token should not change an earlier one. Now it does."


def hidden_cases(generator):
    def drawn(n, d, f, size):
        shapes = ((n, d), (d, d), (d, f), (d, f), (f, d))
        tensors = [torch.randn(*shape, generator=generator) for shape in shapes]
        return dict(zip(NAMES, (size * tensors[0], *tensors[1:]), strict=True))

    return [drawn(4, 5, 8, 2.0), drawn(6, 3, 5, 0.4), drawn(2, 7, 4, 3.0)]
