import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def without_centring(
    w: Float[Tensor, "d_model d_in"], b: Float[Tensor, "d_model"]
) -> tuple[Float[Tensor, "d_model d_in"], Float[Tensor, "d_model"]]:
    """Return the weight and the bias of the linear layer whose outputs are those of the given one, centred."""
    return w - w.mean(dim=0), b - b.mean()


def accepted_matrix(w, b):
    """Multiplies by the matrix that centres."""
    d = len(b)
    centring = torch.eye(d) - torch.full((d, d), 1 / d)
    return [centring @ w, centring @ b]


def accepted_row_by_row(w, b):
    """Works with lists of numbers."""
    columns = [[v - sum(column) / len(column) for v in column] for column in w.T.tolist()]
    values = b.tolist()
    return torch.tensor(columns).T, torch.tensor([v - sum(values) / len(values) for v in values])


def accepted_by_trying(w, b):
    """Centres the outputs for zero and for unit vectors."""

    def centred(x):
        z = F.linear(x, w, b)
        return z - z.mean(-1, keepdim=True)

    bias = centred(torch.zeros(w.shape[1]))
    return (centred(torch.eye(w.shape[1])) - bias).mT, bias


def cases(generator):
    def drawn(d_model, d_in):
        w, b = torch.randn(d_model, d_in, generator=generator), torch.randn(d_model, generator=generator)
        return {"w": (10 * w).round() / 10, "b": (10 * b).round() / 10}

    return [
        {"w": torch.tensor([[1.0, 2.0], [5.0, 0.0]]), "b": torch.tensor([3.0, 7.0])},
        drawn(4, 3),
        drawn(3, 5),
        drawn(3, 3),
    ]


def property_the_two_norms_agree(answer, generator):
    w, b = torch.randn(5, 3, generator=generator), torch.randn(5, generator=generator)
    x = torch.randn(4, 3, generator=generator)
    new_w, new_b = answer(w, b)
    z, right = F.linear(x, new_w, new_b), F.layer_norm(F.linear(x, w, b), (5,), eps=0.5)
    assert torch.allclose(z / (z.square().mean(-1, keepdim=True) + 0.5).sqrt(), right, atol=1e-4), (
        "RMSNorm after your layer is not the layer norm after the given layer."
    )


def property_once_is_enough(answer, generator):
    once = answer(torch.randn(4, 6, generator=generator), torch.randn(4, generator=generator))
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(answer(*once), once, strict=True)), (
        "What is centred already should not change when it is centred again. Your result changes."
    )


def hidden_cases(generator):
    return [
        {"w": 1 + torch.randn(d, d_in, generator=generator), "b": 2 + torch.randn(d, generator=generator)}
        for d, d_in in ((5, 3), (2, 6), (8, 4), (4, 4))
    ]
