import torch

from llm_anatomy.shapes import Float, Tensor


def broken(
    gates: Float[Tensor, "batch n_gates"], c: Float[Tensor, "batch d_hidden"]
) -> tuple[Float[Tensor, "batch d_hidden"], Float[Tensor, "batch d_hidden"]]:
    """Return the output and the state of an LSTM after one more token."""
    i, f, g, o = gates.chunk(4, dim=-1)
    h = torch.sigmoid(o) * torch.tanh(c)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return h, c


def late_output(
    gates: Float[Tensor, "batch n_gates"], c: Float[Tensor, "batch d_hidden"]
) -> tuple[Float[Tensor, "batch d_hidden"], Float[Tensor, "batch d_hidden"]]:
    """Return the output and the state of an LSTM after one more token."""
    i, f, g, o = gates.chunk(4, dim=-1)
    c_new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c_new), c_new


def accepted_library(gates, c):
    """Gives the gates to PyTorch's cell as its input, with an identity for weights."""
    cell = torch.nn.LSTMCell(gates.shape[1], c.shape[1], bias=False)
    cell.weight_ih.data = torch.eye(gates.shape[1])
    cell.weight_hh.data.zero_()
    return cell(gates, (torch.zeros_like(c), c))


def accepted_new_name(gates, c):
    """Gives the new state a name of its own, and returns a list."""
    parts = gates.unflatten(1, (4, c.shape[1])).unbind(1)
    written = parts[0].sigmoid() * parts[2].tanh()
    new = parts[1].sigmoid() * c + written
    return [parts[3].sigmoid() * new.tanh(), new]


def cases(generator):
    small = {"gates": torch.tensor([[0.0, 1.0, 2.0, 0.5]]), "c": torch.tensor([[1.0]])}
    first = {"gates": torch.tensor([[1.0, 0.0, -1.0, 2.0]]), "c": torch.tensor([[0.0]])}

    def drawn(batch, d_hidden):
        gates = (10 * torch.randn(batch, 4 * d_hidden, generator=generator)).round() / 10
        return {"gates": gates, "c": (10 * torch.randn(batch, d_hidden, generator=generator)).round() / 10}

    return [small, first, drawn(2, 3), drawn(3, 4)]


def property_output_reads_the_new_state(answer, generator):
    gates, c = torch.randn(5, 12, generator=generator), torch.randn(5, 3, generator=generator)
    h, new = answer(gates, c)
    assert torch.allclose(h, torch.sigmoid(gates[:, 9:]) * torch.tanh(new), atol=1e-5), (
        "Your output is not σ(o) · tanh(c′) for the state c′ that you return."
    )


def hidden_cases(generator):
    def drawn(batch, d_hidden):
        gates = torch.randn(batch, 4 * d_hidden, generator=generator)
        return {"gates": gates, "c": torch.randn(batch, d_hidden, generator=generator)}

    return [drawn(3, 5), drawn(1, 2), drawn(6, 3)]
