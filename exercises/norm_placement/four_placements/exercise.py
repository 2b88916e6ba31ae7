import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def four_placements(
    x: Float[Tensor, "n_tokens d_model"],
    w_1: Float[Tensor, "d_model d_ff"],
    w_2: Float[Tensor, "d_ff d_model"],
    placement: str,
) -> Float[Tensor, "n_tokens d_model"]:
    """Return the residual stream after the sublayer, with the norm in the given position."""

    def norm(z):
        return F.rms_norm(z, z.shape[-1:])

    def sublayer(z):
        return torch.tanh(z @ w_1) @ w_2

    match placement:
        case "post":
            return norm(x + sublayer(x))
        case "pre":
            return x + sublayer(norm(x))
        case "post-sublayer":
            return x + norm(sublayer(x))
        case _:
            return x + norm(sublayer(norm(x)))


def accepted_steps(x, w_1, w_2, placement):
    """Goes through the steps in their order, each with a norm or without."""
    size = x.shape[-1:]
    z = F.rms_norm(x, size) if placement in ("pre", "sandwich") else x
    branch = torch.einsum("tf, fd -> td", (z @ w_1).tanh(), w_2)
    if placement.endswith("sublayer") or placement == "sandwich":
        branch = F.rms_norm(branch, size)
    total = torch.add(x, branch)
    return F.rms_norm(total, size) if placement == "post" else total


def accepted_table(x, w_1, w_2, placement):
    """Looks the position up in a table, and writes the norm itself."""

    def norm(z):
        return z / (z.pow(2).mean(-1, keepdim=True) + torch.finfo(z.dtype).eps).sqrt()

    def f(z):
        return torch.matmul(torch.matmul(z, w_1).tanh(), w_2)

    table = {"post": lambda: norm(x + f(x)), "pre": lambda: f(norm(x)) + x}
    table |= {"post-sublayer": lambda: norm(f(x)) + x, "sandwich": lambda: norm(f(norm(x))) + x}
    return table[placement]()


def accepted_token_by_token(x, w_1, w_2, placement):
    """Takes one token at a time, with a module for the norm."""
    norm, same = torch.nn.RMSNorm(x.shape[1], elementwise_affine=False), torch.nn.Identity()
    before = norm if placement in ("pre", "sandwich") else same
    after = norm if placement in ("post-sublayer", "sandwich") else same
    last = norm if placement == "post" else same
    return torch.stack([last(token + after((before(token) @ w_1).tanh() @ w_2)) for token in x])


PLACEMENTS = ("post", "pre", "post-sublayer", "sandwich")


def cases(generator):
    def drawn(n_tokens, d_model, d_ff, placement):
        shapes = {"x": (n_tokens, d_model), "w_1": (d_model, d_ff), "w_2": (d_ff, d_model)}
        drawn = {name: (10 * torch.randn(*s, generator=generator)).round() / 10 for name, s in shapes.items()}
        return drawn | {"x": 3 * drawn["x"], "placement": placement}

    small = {"x": torch.tensor([[1.0, 7.0]]), "w_1": torch.tensor([[-1.0], [0.5]]), "w_2": torch.tensor([[3.0, 4.0]])}
    few = [small | {"placement": placement} for placement in PLACEMENTS]
    return few + [drawn(3, 4, 5, placement) for placement in PLACEMENTS]


def _drawn(generator):
    return [torch.randn(*shape, generator=generator) for shape in ((3, 4), (4, 6), (6, 4))]


def property_post_normalizes_the_result(answer, generator):
    size = answer(*_drawn(generator), "post").square().mean(-1).sqrt()
    assert torch.allclose(size, torch.ones(3), atol=1e-3), (
        'With "post", the norm comes last, so each token of your result should have an RMS of 1. Yours does not.'
    )


def property_pre_lets_the_stream_pass(answer, generator):
    x, w_1, w_2 = _drawn(generator)
    assert torch.allclose(answer(x, w_1, 0 * w_2, "pre"), x, atol=1e-5), (
        'If `w_2` is all zeros, the sublayer adds nothing, and with "pre" your result should be x itself. It is not.'
    )


def property_size_of_what_is_read(answer, generator):
    x, w_1, w_2 = _drawn(generator)
    for placement in ("pre", "sandwich"):
        added, other = (answer(scale * x, w_1, w_2, placement) - scale * x for scale in (1, 8))
        assert torch.allclose(added, other, atol=1e-3), (
            f'With "{placement}", the sublayer reads the norm of the stream, so it should add the same to a stream '
            "that is 8 times as large. Yours adds something else."
        )


def property_size_of_what_is_added(answer, generator):
    x, w_1, w_2 = _drawn(generator)
    for placement in ("post-sublayer", "sandwich"):
        one, other = (answer(x, w_1, scale * w_2, placement) for scale in (1, 8))
        assert torch.allclose(one, other, atol=1e-3), (
            f'With "{placement}", the output of the sublayer is normalized before it is added, so a `w_2` that is 8 '
            "times as large should make no difference. It does."
        )


def hidden_cases(generator):
    def drawn(n_tokens, d_model, d_ff, placement):
        x, w_1, w_2 = (
            torch.randn(*s, generator=generator) for s in ((n_tokens, d_model), (d_model, d_ff), (d_ff, d_model))
        )
        return {"x": 2 * x, "w_1": w_1, "w_2": w_2, "placement": placement}

    sizes = (4, 6, 3), (2, 5, 7), (5, 3, 8), (6, 8, 2)
    return [drawn(*size, placement) for size, placement in zip(sizes, PLACEMENTS, strict=True)]
