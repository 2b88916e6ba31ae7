import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def broken(
    x: Float[Tensor, "n_tokens d_model"],
    w_query: Float[Tensor, "d_model d_head"],
    w_key: Float[Tensor, "d_model d_head"],
    w_value: Float[Tensor, "d_model d_head"],
    w_output: Float[Tensor, "d_head d_model"],
    w_1: Float[Tensor, "d_model d_ff"],
    w_2: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "n_tokens d_model"]:
    """Return the residual stream after a pre-norm block."""
    x = torch.rms_norm(x, x.shape[-1:])
    scores = (x @ w_query) @ (x @ w_key).T / w_key.shape[1] ** 0.5
    x = x + torch.softmax(scores, dim=-1) @ (x @ w_value) @ w_output
    x = torch.rms_norm(x, x.shape[-1:])
    x = x + (x @ w_1).relu() @ w_2
    return x


def residual_block(
    x: Float[Tensor, "n_tokens d_model"],
    w_query: Float[Tensor, "d_model d_head"],
    w_key: Float[Tensor, "d_model d_head"],
    w_value: Float[Tensor, "d_model d_head"],
    w_output: Float[Tensor, "d_head d_model"],
    w_1: Float[Tensor, "d_model d_ff"],
    w_2: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "n_tokens d_model"]:
    """Return the residual stream after a pre-norm block."""
    normed = torch.rms_norm(x, x.shape[-1:])
    scores = (normed @ w_query) @ (normed @ w_key).T / w_key.shape[1] ** 0.5
    x = x + torch.softmax(scores, dim=-1) @ (normed @ w_value) @ w_output
    normed = torch.rms_norm(x, x.shape[-1:])
    return x + (normed @ w_1).relu() @ w_2


def accepted_stream_kept(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """Leaves the code as it is and remembers the stream under another name."""
    stream = x
    x = F.rms_norm(stream, x.shape[-1:])
    scores = (x @ w_query) @ (x @ w_key).T / w_key.shape[1] ** 0.5
    stream = stream + torch.softmax(scores, dim=-1) @ (x @ w_value) @ w_output
    x = F.rms_norm(stream, x.shape[-1:])
    return stream + (x @ w_1).relu() @ w_2


def accepted_two_functions(x, w_query, w_key, w_value, w_output, w_1, w_2):
    """Each part normalizes what it reads, and is a function of the stream."""

    def norm(x):
        return x / (x.pow(2).mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).sqrt()

    def attention(x):
        q, k, v = (norm(x) @ w for w in (w_query, w_key, w_value))
        return F.scaled_dot_product_attention(q[None], k[None], v[None])[0] @ w_output

    def feedforward(x):
        return F.relu(norm(x) @ w_1) @ w_2

    after = x + attention(x)
    return after + feedforward(after)


def cases(generator):
    def drawn(n_tokens, d_model, d_head, d_ff):
        shapes = {"x": (n_tokens, d_model), "w_query": (d_model, d_head), "w_key": (d_model, d_head)}
        shapes |= {"w_value": (d_model, d_head), "w_output": (d_head, d_model)}
        shapes |= {"w_1": (d_model, d_ff), "w_2": (d_ff, d_model)}
        return {name: (10 * torch.randn(*s, generator=generator)).round() / 10 for name, s in shapes.items()}

    def silent(case):
        return case | {name: torch.zeros_like(case[name]) for name in ("w_output", "w_2")}

    small, large = drawn(2, 2, 1, 1), drawn(4, 5, 3, 6)
    return [silent(small), large | {"x": 3 * large["x"]}, drawn(3, 4, 2, 5)]


def property_silent_parts(answer, generator):
    x, matrices = torch.randn(3, 4, generator=generator), [torch.randn(4, 2, generator=generator) for _ in range(3)]
    zeros = torch.zeros(2, 4), torch.randn(4, 5, generator=generator), torch.zeros(5, 4)
    assert torch.allclose(answer(x, *matrices, *zeros), x, atol=1e-5), (
        "If w_output and w_2 are all zeros, the block should return x itself. Yours returns something else, so "
        "something still stands on the way from the input to the output."
    )


def property_gradient(answer, generator):
    x = torch.randn(3, 4, generator=generator, requires_grad=True)
    shapes = [(4, 2)] * 3 + [(2, 4), (4, 5), (5, 4)]
    total = answer(x, *(torch.randn(*shape, generator=generator) for shape in shapes)).sum()
    assert total.requires_grad and torch.autograd.grad(total, x, allow_unused=True)[0] is not None, (
        "PyTorch cannot follow your output back to x. A block has to let the gradient pass."
    )


def hidden_cases(generator):
    def drawn(n_tokens, d_model, d_head, d_ff):
        shapes = {"x": (n_tokens, d_model), "w_query": (d_model, d_head), "w_key": (d_model, d_head)}
        shapes |= {"w_value": (d_model, d_head), "w_output": (d_head, d_model)}
        shapes |= {"w_1": (d_model, d_ff), "w_2": (d_ff, d_model)}
        return {name: 0.7 * torch.randn(*s, generator=generator) for name, s in shapes.items()}

    return [drawn(5, 7, 3, 4), drawn(2, 6, 4, 9), drawn(6, 3, 5, 2)]
