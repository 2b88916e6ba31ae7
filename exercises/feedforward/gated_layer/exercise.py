import torch
import torch.nn.functional as F
from torch import nn

from llm_anatomy.shapes import Float, Tensor


def gated_layer(
    x: Float[Tensor, "*tokens d_model"],
    w: Float[Tensor, "d_model d_ff"],
    v: Float[Tensor, "d_model d_ff"],
    w_2: Float[Tensor, "d_ff d_model"],
    kind: str,
) -> Float[Tensor, "*tokens d_model"]:
    """Return the output of a gated feed-forward layer without biases; the kind says how the gate is activated."""
    f = {"bilinear": lambda z: z, "glu": torch.sigmoid, "reglu": F.relu, "geglu": F.gelu, "swiglu": F.silu}[kind]
    return (f(x @ w) * (x @ v)) @ w_2


def accepted_one_product(x, w, v, w_2, kind):
    """Joins the two matrices, as implementations do, and cuts the result."""
    gate, value = (x @ torch.cat((w, v), dim=1)).split(w.shape[1], dim=-1)
    modules = {"bilinear": nn.Identity, "glu": nn.Sigmoid, "reglu": nn.ReLU, "geglu": nn.GELU, "swiglu": nn.SiLU}
    return F.linear(modules[kind]()(gate) * value, w_2.T)


def accepted_by_formula(x, w, v, w_2, kind):
    """Sees four of the kinds as the bilinear one, with a factor for each hidden unit."""
    z, value = torch.einsum("...d, df -> ...f", x, w), torch.einsum("...d, df -> ...f", x, v)
    factor = torch.ones_like(z)
    if kind in ("glu", "swiglu"):
        factor = 1 / (1 + torch.exp(-z))
    elif kind == "reglu":
        factor = (z > 0).to(z.dtype)
    elif kind == "geglu":
        factor = 0.5 + 0.5 * torch.erf(z * 0.5**0.5)
    return torch.einsum("...f, fd -> ...d", factor * (1 if kind == "glu" else z) * value, w_2)


def accepted_unit_by_unit(x, w, v, w_2, kind):
    """Adds up what each hidden unit contributes."""
    y = torch.zeros_like(x)
    for gate, value, out in zip(w.T, v.T, w_2, strict=True):
        a, b = (x * gate).sum(-1, keepdim=True), (x * value).sum(-1, keepdim=True)
        if kind == "glu":
            a = a.sigmoid()
        elif kind == "reglu":
            a = a.clamp(min=0)
        elif kind == "geglu":
            a = a * torch.special.ndtr(a)
        elif kind == "swiglu":
            a = a * a.sigmoid()
        y = y + a * b * out
    return y


KINDS = ("bilinear", "glu", "reglu", "geglu", "swiglu")


def cases(generator):
    def tenths(*shape):
        return (10 * torch.randn(*shape, generator=generator)).round() / 10

    def drawn(*shape, d_ff, kind):
        d_model = shape[-1]
        matrices = {"w": tenths(d_model, d_ff), "v": tenths(d_model, d_ff), "w_2": tenths(d_ff, d_model)}
        return {"x": tenths(*shape)} | matrices | {"kind": kind}

    small = {"x": torch.tensor([2.0]), "w": torch.tensor([[1.0]]), "v": torch.tensor([[3.0]])}
    small |= {"w_2": torch.tensor([[0.5]])}
    return [
        *(small | {"kind": kind} for kind in ("bilinear", "swiglu")),
        *(drawn(2, 3, d_ff=4, kind=kind) for kind in KINDS),
        *(drawn(2, 4, 3, d_ff=5, kind=kind) for kind in KINDS),
        drawn(3, d_ff=3, kind="reglu"),
    ]


def _drawn(generator):
    return [torch.randn(*shape, generator=generator) for shape in ((2, 3, 4), (4, 5), (4, 5), (5, 4))]


def property_linear_in_v(answer, generator):
    x, w, v, w_2 = _drawn(generator)
    for kind in KINDS:
        assert torch.allclose(answer(x, w, -2 * v, w_2, kind), -2 * answer(x, w, v, w_2, kind), atol=1e-3), (
            f"With {kind}, −2 times V should give −2 times the output, because no activation acts on xV. Yours does "
            "not."
        )


def property_gate_without_weights(answer, generator):
    x, w, v, w_2 = _drawn(generator)
    assert torch.allclose(answer(x, 0 * w, v, w_2, "glu"), x @ v @ w_2 / 2, atol=1e-3), (
        "With W = 0, the gates of GLU should be at one half, and the output should be half of xVW₂. Yours is not."
    )
    for kind in ("bilinear", "reglu", "geglu", "swiglu"):
        assert answer(x, 0 * w, v, w_2, kind).abs().max() < 1e-5, (
            f"With W = 0, the gates of {kind} should be closed, and the output should be 0. Yours is not."
        )


def property_twice_the_token(answer, generator):
    x, w, v, w_2 = _drawn(generator)
    for kind in ("bilinear", "reglu"):
        assert torch.allclose(answer(2 * x, w, v, w_2, kind), 4 * answer(x, w, v, w_2, kind), atol=1e-3), (
            f"With {kind}, the token enters twice, so twice the token should give four times the output. Yours does "
            "not."
        )


def hidden_cases(generator):
    def drawn(*shape, d_ff, kind):
        d_model = shape[-1]
        shapes = {"x": shape, "w": (d_model, d_ff), "v": (d_model, d_ff), "w_2": (d_ff, d_model)}
        return {name: torch.randn(*each, generator=generator) for name, each in shapes.items()} | {"kind": kind}

    return [
        *(drawn(3, 4, d_ff=6, kind=kind) for kind in KINDS),
        *(drawn(2, 3, 4, d_ff=4, kind=kind) for kind in KINDS),
        drawn(5, d_ff=3, kind="geglu"),
    ]
