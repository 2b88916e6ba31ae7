import torch

from llm_anatomy.shapes import Float, Tensor


def jacobian_product(
    states: Float[Tensor, "n_steps d_hidden"], w: Float[Tensor, "d_hidden d_hidden"]
) -> Float[Tensor, "d_hidden d_hidden"]:
    """Return the derivative of the last state with respect to the state before the first step."""
    product = torch.eye(len(w))
    for h in states:
        product = (1 - h**2)[:, None] * (w @ product)
    return product


def accepted_multi_dot(states, w):
    """Makes all factors at once, and multiplies them from the last to the first."""
    factors = (1 - states.square()).unsqueeze(-1) * w  # (n_steps, d_hidden, d_hidden)
    result = factors[-1]
    for t in range(len(states) - 2, -1, -1):
        result = result @ factors[t]
    return result


def accepted_autograd(states, w):
    """Builds a network that has these states, and lets autograd differentiate it."""

    def last(h):
        before = torch.zeros(len(w))  # any start: the input makes up for it
        for state in states:
            wanted = torch.atanh(state.double().clamp(-1 + 1e-12, 1 - 1e-12)).float()
            h = torch.tanh(w @ h + wanted - w @ before)
            before = state
        return h

    return torch.autograd.functional.jacobian(last, torch.zeros(len(w)))


def accepted_row_by_row(states, w):
    """Carries each row of the derivative back through time, as backpropagation does, in float64."""
    rows = torch.eye(len(w), dtype=torch.float64)
    for h in states.double().flip(0):
        rows = rows @ torch.diag(1 - h * h) @ w.double()
    return rows


def cases(generator):
    one = {"states": torch.tensor([[0.5, 0.0]]), "w": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}
    two = {"states": torch.tensor([[0.0, 0.5], [0.5, 0.0]]), "w": torch.tensor([[1.0, 2.0], [0.0, 1.0]])}

    def drawn(n_steps, d_hidden):
        states = torch.tanh(torch.randn(n_steps, d_hidden, generator=generator)).round(decimals=1).clamp(-0.9, 0.9)
        return {"states": states, "w": (10 * torch.randn(d_hidden, d_hidden, generator=generator)).round() / 10}

    return [one, two, drawn(3, 4), drawn(5, 3)]


def property_states_of_zero(answer, generator):
    w = torch.randn(4, 4, generator=generator) / 2
    product = torch.linalg.matrix_power(w.double(), 6)
    assert torch.allclose(answer(torch.zeros(6, 4), w).double(), product, atol=1e-4), (
        "If all states are 0, tanh has slope one everywhere, so six steps should give the sixth power of W."
    )


def property_saturated(answer, generator):
    states = torch.zeros(3, 2)
    states[1] = 1.0
    assert float(answer(states, torch.eye(2)).abs().max()) < 1e-6, (
        "Where a state is 1 or −1, tanh is flat and nothing gets through. Your derivative should be 0 then."
    )


def hidden_cases(generator):
    def drawn(n_steps, d_hidden):
        states = torch.tanh(torch.randn(n_steps, d_hidden, generator=generator)).clamp(-0.95, 0.95)
        return {"states": states, "w": torch.randn(d_hidden, d_hidden, generator=generator)}

    return [drawn(2, 3), drawn(4, 5), drawn(7, 2), drawn(1, 4)]


TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}
