import torch

from llm_anatomy.shapes import Float, Tensor


def rms_norm(
    x: Float[Tensor, "*batch d_model"], weight: Float[Tensor, "d_model"], eps: float
) -> Float[Tensor, "*batch d_model"]:
    """Return x divided by the root mean square of each token and multiplied by the weight, computed in float32."""
    wide = x.float()
    rms = (wide.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return (wide / rms * weight.float()).to(x.dtype)


def accepted_norm(x, weight, eps):
    """Takes the length of each token, in float32."""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    return (x.to(torch.float32) * torch.rsqrt(length**2 / x.shape[-1] + eps) * weight).type_as(x)


def accepted_float64(x, weight, eps):
    """Computes in float64, token by token."""
    tokens = x.double().reshape(-1, x.shape[-1])
    rows = [token / (token.pow(2).sum() / len(token) + eps) ** 0.5 * weight.double() for token in tokens]
    return torch.stack(rows).view(x.shape).to(x.dtype)


def accepted_einsum(x, weight, eps):
    """Lets einsum add up the squares, and multiplies by the weight first."""
    x32 = x.to(torch.float)
    mean_square = torch.einsum("...d, ...d -> ...", x32, x32)[..., None] / x.size(-1)
    return (weight.to(torch.float) * x32 / torch.sqrt(mean_square + eps)).to(dtype=x.dtype)


def tokens(generator, *shape, dtype=torch.float32, weight_dtype=torch.float32, size=1.0, eps=1e-6):
    x = (size * torch.randn(*shape, generator=generator)).to(dtype)
    weight = (0.3 + 2 * torch.rand(shape[-1], generator=generator)).to(weight_dtype)
    return {"x": x, "weight": weight, "eps": eps}


def cases(generator):
    lecture = torch.tensor([[1.0, 3.0, 5.0, 7.0], [3.0, 4.0, 6.0, 2.0], [8.0, 3.0, 2.0, 1.0]])
    small = {"x": torch.tensor([1.0, 7.0]), "weight": torch.tensor([2.0, -3.0]), "eps": 39.0}  # one gain is negative
    half = {"dtype": torch.float16, "size": 400.0}  # squares beyond float16
    return [
        {"x": lecture, "weight": torch.ones(4), "eps": 1e-5},
        small,
        tokens(generator, 2, 3, 4, eps=0.1),
        tokens(generator, 2, 6, **half),
        tokens(generator, 3, 5, weight_dtype=torch.float16, **half),
    ]


def property_the_norm_of_a_token_does_not_matter(answer, generator):
    x = torch.randn(3, 5, generator=generator)
    assert torch.allclose(answer(x, torch.ones(5), 1e-9), answer(50 * x, torch.ones(5), 1e-9), atol=1e-4), (
        "With a tiny epsilon, your result changes when we make x fifty times as large. It should not."
    )


def property_mean_square_1(answer, generator):
    x = 2 + torch.randn(4, 6, generator=generator)
    mean_square = answer(x, torch.ones(6), 1e-9).square().mean(-1)
    assert torch.allclose(mean_square, torch.ones(4), atol=1e-4), (
        "With a weight of 1, the squares of each token should have mean 1. Yours do not."
    )


def property_tokens_do_not_meet(answer, generator):
    x = torch.randn(2, 3, 4, generator=generator)
    changed = x.clone()
    changed[1, 2] = torch.tensor([9.0, -3.0, 5.0, 0.0])
    assert torch.allclose(answer(x, torch.ones(4), 0.01)[0], answer(changed, torch.ones(4), 0.01)[0], atol=1e-5), (
        "Your outputs for the first sequence change when we change a token of the second. Each token is on its own."
    )


def property_rounded_once(answer, generator):
    for size, eps in ((1.0, 1e-6), (2e-3, 1e-5)):
        case = tokens(generator, 8, 32, dtype=torch.float16, weight_dtype=torch.float16, size=size, eps=eps)
        x, weight = case["x"].double(), case["weight"].double()
        expected = (x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight).half()
        found = answer(*case.values())
        assert found.shape == expected.shape and not found.isnan().any(), (
            "With a token in float16 you return NaN, or another shape."
        )
        off = (found.double() - expected.double()).abs() > 2e-4 * expected.double().abs()
        assert off.double().mean() < 0.02, (
            f"With float16, {off.double().mean():.0%} of your numbers are not the ones that are nearest to the exact "
            "result. Is every step computed in float32, with the weight too, and is rounding the very last step?"
        )


def hidden_cases(generator):
    half = torch.float16  # and not bfloat16, which NumPy does not have
    return [
        tokens(generator, 3, 5, 4, eps=0.05),
        tokens(generator, 9, size=3.0, eps=1e-3),
        tokens(generator, 4, 24, dtype=half, weight_dtype=half),
        tokens(generator, 3, 7, dtype=half, size=2e-3),
        tokens(generator, 2, 2, 8, dtype=half, size=600.0),
        tokens(generator, 5, 5, eps=0.2),
    ]
