import torch
import torch.nn.functional as F

from llm_anatomy.shapes import Float, Tensor


def broken(
    x: Float[Tensor, "n_tokens d_model"],
    w_gate_value: Float[Tensor, "d_model twice_d_ff"],
    w_2: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "n_tokens d_model"]:
    """Return the output of a SwiGLU layer without biases."""
    gate, value = (x @ w_gate_value).chunk(2, dim=-1)
    activated = gate * torch.sigmoid(value)
    return (activated * value) @ w_2


def slipped_argument(
    x: Float[Tensor, "n_tokens d_model"],
    w_gate_value: Float[Tensor, "d_model twice_d_ff"],
    w_2: Float[Tensor, "d_ff d_model"],
) -> Float[Tensor, "n_tokens d_model"]:
    """Return the output of a SwiGLU layer without biases."""
    gate, value = (x @ w_gate_value).chunk(2, dim=-1)
    activated = gate * torch.sigmoid(gate)
    return (activated * value) @ w_2


def accepted_library(x, w_gate_value, w_2):
    """Leaves Swish to PyTorch."""
    gate, value = (x @ w_gate_value).chunk(2, dim=-1)
    return (F.silu(gate) * value) @ w_2


def accepted_two_matrices(x, w_gate_value, w_2):
    """Cuts the matrix before the product."""
    d_ff = len(w_2)
    w, v = w_gate_value[:, :d_ff], w_gate_value[:, d_ff:]
    gate = x @ w
    return (gate / (1 + torch.exp(-gate)) * (x @ v)) @ w_2


def accepted_glu_of_pytorch(x, w_gate_value, w_2):
    """Exchanges the halves, since PyTorch's glu puts the sigmoid on the second, and multiplies by the gate again."""
    both = x @ w_gate_value
    gate, value = both.tensor_split(2, dim=1)
    return F.linear(gate * F.glu(torch.cat((value, gate), dim=1), dim=1), w_2.T)


def accepted_halves_exchanged(x, w_gate_value, w_2):
    """Leaves the line as it is, and exchanges the names of the halves before it."""
    value, gate = (x @ w_gate_value).chunk(2, dim=-1)
    activated = gate * torch.sigmoid(value)
    return (activated * value) @ w_2


def cases(generator):
    def tenths(*shape):
        return (10 * torch.randn(*shape, generator=generator)).round() / 10

    def drawn(n_tokens, d_model, d_ff):
        return {"x": tenths(n_tokens, d_model), "w_gate_value": tenths(d_model, 2 * d_ff), "w_2": tenths(d_ff, d_model)}

    small = {"x": torch.tensor([[1.0]]), "w_gate_value": torch.tensor([[2.0, 3.0]]), "w_2": torch.tensor([[1.0]])}
    return [small, drawn(2, 3, 4), drawn(4, 3, 2), drawn(3, 5, 3)]


def property_linear_in_v(answer, generator):
    x, w, v, w_2 = (torch.randn(*shape, generator=generator) for shape in ((3, 4), (4, 5), (4, 5), (5, 4)))
    before, after = (answer(x, torch.cat((w, each), 1), w_2) for each in (v, -v))
    assert torch.allclose(after, -before, atol=1e-4), (
        "When we multiply V by −1, your output should be multiplied by −1, too. It is not yet."
    )


def property_equal_halves(answer, generator):
    x, w, w_2 = (torch.randn(*shape, generator=generator) for shape in ((3, 4), (4, 5), (5, 4)))
    z = x @ w
    right = (z * z / (1 + torch.exp(-z))) @ w_2
    assert torch.allclose(answer(x, torch.cat((w, w), 1), w_2), right, atol=1e-4), (
        "If W and V are equal, the old output was right. Yours is not any more."
    )


def hidden_cases(generator):
    def drawn(n_tokens, d_model, d_ff):
        shapes = {"x": (n_tokens, d_model), "w_gate_value": (d_model, 2 * d_ff), "w_2": (d_ff, d_model)}
        return {name: torch.randn(*shape, generator=generator) for name, shape in shapes.items()}

    return [drawn(4, 3, 5), drawn(1, 6, 2), drawn(5, 4, 4), drawn(2, 2, 7)]
