import torch


def _run(x, h_0, step):
    h, rows = h_0, []
    for token in x:
        h = step(token, h)
        rows.append(h)
    return torch.stack(rows)


def initial_state_returned_too(x, h_0, w, u, b):
    """You also return the initial state, so there is a row too many. The first row is the state after the first
    token."""
    return torch.cat([h_0[None], _run(x, h_0, lambda t, h: torch.tanh(w @ h + u @ t + b))])


def one_step_late(x, h_0, w, u, b):
    """Your rows are one step late: the first is the initial state. Update the state before you store it."""
    return torch.cat([h_0[None], _run(x, h_0, lambda t, h: torch.tanh(w @ h + u @ t + b))])[:-1]


def last_state_only(x, h_0, w, u, b):
    """You return only the last state. Return the states after all tokens."""
    return _run(x, h_0, lambda t, h: torch.tanh(w @ h + u @ t + b))[-1]


def state_not_carried(x, h_0, w, u, b):
    """You use the initial state at every step. Carry the new state on to the next token."""
    return torch.stack([torch.tanh(w @ h_0 + u @ token + b) for token in x])


def no_tanh(x, h_0, w, u, b):
    """You leave out the tanh."""
    return _run(x, h_0, lambda t, h: w @ h + u @ t + b)


def no_bias(x, h_0, w, u, b):
    """You leave out the bias b."""
    return _run(x, h_0, lambda t, h: torch.tanh(w @ h + u @ t))


def w_transposed(x, h_0, w, u, b):
    """You multiply the state by the transpose of W. With the state in a row the matrix is transposed, and with the
    matrix first it is not."""
    return _run(x, h_0, lambda t, h: torch.tanh(w.T @ h + u @ t + b))


def initial_state_ignored(x, h_0, w, u, b):
    """You begin with a state of zeros. Begin with h_0."""
    return _run(x, torch.zeros_like(h_0), lambda t, h: torch.tanh(w @ h + u @ t + b))


def input_outside_the_tanh(x, h_0, w, u, b):
    """You add the input after the tanh. It belongs inside."""
    return _run(x, h_0, lambda t, h: torch.tanh(w @ h) + u @ t + b)


def bias_outside_the_tanh(x, h_0, w, u, b):
    """You add the bias after the tanh. It belongs inside."""
    return _run(x, h_0, lambda t, h: torch.tanh(w @ h + u @ t) + b)


def state_added(x, h_0, w, u, b):
    """You add the new state to the old one. Here the new state replaces it."""
    return _run(x, h_0, lambda t, h: h + torch.tanh(w @ h + u @ t + b))


def no_recurrence(x, h_0, w, u, b):
    """Your states do not depend on the state before. Add W h."""
    return torch.tanh(x @ u.T + b)


def backwards(x, h_0, w, u, b):
    """You read the sequence from its end. Begin with the first row of x."""
    return _run(x.flip(0), h_0, lambda t, h: torch.tanh(w @ h + u @ t + b)).flip(0)


def sigmoid_for_tanh(x, h_0, w, u, b):
    """You use a sigmoid. The formula has a tanh."""
    return _run(x, h_0, lambda t, h: torch.sigmoid(w @ h + u @ t + b))
