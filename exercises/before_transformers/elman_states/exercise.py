import torch

from llm_anatomy.shapes import Float, Tensor


def elman_states(
    x: Float[Tensor, "n_tokens d_input"],
    h_0: Float[Tensor, "d_hidden"],
    w: Float[Tensor, "d_hidden d_hidden"],
    u: Float[Tensor, "d_hidden d_input"],
    b: Float[Tensor, "d_hidden"],
) -> Float[Tensor, "n_tokens d_hidden"]:
    """Return the hidden state after each token of a sequence."""
    h, states = h_0, []
    for from_input in x @ u.T + b:
        h = torch.tanh(w @ h + from_input)
        states.append(h)
    return torch.stack(states)


def accepted_library(x, h_0, w, u, b):
    """Copies the weights into PyTorch's recurrent network."""
    rnn = torch.nn.RNN(u.shape[1], u.shape[0])
    for name, value in zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0"), (u, w, b), strict=True):
        getattr(rnn, name).data = value.clone()
    rnn.bias_hh_l0.data.zero_()
    return rnn(x, h_0[None])[0]


def accepted_filled_in(x, h_0, w, u, b):
    """Writes the states into a tensor that has a row for the initial state too."""
    every = torch.zeros(len(x) + 1, len(b))
    every[0] = h_0
    for t in range(len(x)):
        every[t + 1] = torch.tanh(every[t] @ w.T + x[t] @ u.T + b)
    return every[1:]


def accepted_one_matrix(x, h_0, w, u, b):
    """Lays state, input and a one end to end, and multiplies by all weights at once."""
    weights, h, rows = torch.cat([w, u, b[:, None]], dim=1), h_0, []
    for token in x:
        h = (weights @ torch.cat([h, token, torch.ones(1)])).tanh()
        rows.append(h[None])
    return torch.cat(rows)


def cases(generator):
    small = {
        "x": torch.tensor([[1.0], [0.0]]),
        "h_0": torch.tensor([0.5]),
        "w": torch.tensor([[2.0]]),
        "u": torch.tensor([[1.0]]),
        "b": torch.tensor([-0.5]),
    }

    def drawn(n_tokens, d_input, d_hidden):
        def tenths(*shape):
            return (6 * torch.randn(*shape, generator=generator)).round() / 10

        return {
            "x": tenths(n_tokens, d_input),
            "h_0": tenths(d_hidden),
            "w": tenths(d_hidden, d_hidden),
            "u": tenths(d_hidden, d_input),
            "b": tenths(d_hidden),
        }

    return [small, drawn(4, 3, 2), drawn(3, 2, 5), drawn(1, 4, 3)]


def property_the_future_has_no_influence(answer, generator):
    x, h, w, u, b = (torch.randn(*shape, generator=generator) for shape in ((6, 3), (4,), (4, 4), (4, 3), (4,)))
    assert torch.allclose(answer(x, h, w, u, b)[:4], answer(x[:4], h, w, u, b), atol=1e-5), (
        "Your first states change when more tokens follow. A state depends only on what came before it."
    )


def property_it_can_be_continued(answer, generator):
    x, h, w, u, b = (torch.randn(*shape, generator=generator) for shape in ((6, 3), (4,), (4, 4), (4, 3), (4,)))
    states = answer(x, h, w, u, b)
    assert torch.allclose(answer(x[2:], states[1], w, u, b), states[2:], atol=1e-5), (
        "If we read the first two tokens, and then go on from the state after them, we should get the same states."
    )


def hidden_cases(generator):
    def drawn(n_tokens, d_input, d_hidden):
        shapes = {"x": (n_tokens, d_input), "h_0": (d_hidden,), "w": (d_hidden, d_hidden)}
        shapes |= {"u": (d_hidden, d_input), "b": (d_hidden,)}
        return {name: torch.randn(*shape, generator=generator) / 2 for name, shape in shapes.items()}

    return [drawn(7, 2, 4), drawn(12, 5, 3), drawn(2, 6, 6), drawn(5, 3, 3)]
