import torch


def _halves(x, w_gate_value):
    return (x @ w_gate_value).chunk(2, dim=-1)


def sigmoid_alone(x, w_gate_value, w_2):
    """You now multiply xV by the sigmoid of the gate, which is GLU. Swish also multiplies by the gate itself."""
    gate, value = _halves(x, w_gate_value)
    return (torch.sigmoid(gate) * value) @ w_2


def sigmoid_of_the_value_alone(x, w_gate_value, w_2):
    """You have left out the gate, so nothing depends on W. Only one of the two factors of Swish was wrong."""
    _, value = _halves(x, w_gate_value)
    return (torch.sigmoid(value) * value) @ w_2


def sigmoid_of_the_product(x, w_gate_value, w_2):
    """Your sigmoid is now that of the product of gate and value. Swish has the same argument on both sides."""
    gate, value = _halves(x, w_gate_value)
    return (gate * torch.sigmoid(gate * value) * value) @ w_2


def sigmoid_of_both(x, w_gate_value, w_2):
    """You now multiply by the sigmoids of both branches. In the formula, V enters once."""
    gate, value = _halves(x, w_gate_value)
    return (gate * torch.sigmoid(gate) * torch.sigmoid(value) * value) @ w_2


def gate_twice(x, w_gate_value, w_2):
    """Swish is right now, but you multiply it by the gate instead of the value, so nothing depends on V."""
    gate, _ = _halves(x, w_gate_value)
    return (gate * torch.sigmoid(gate) * gate) @ w_2


def swish_alone(x, w_gate_value, w_2):
    """Swish is right now, but the product with the value is missing."""
    gate, _ = _halves(x, w_gate_value)
    return (gate * torch.sigmoid(gate)) @ w_2


def no_sigmoid(x, w_gate_value, w_2):
    """You have left out the sigmoid, so the layer is bilinear."""
    gate, value = _halves(x, w_gate_value)
    return (gate * value) @ w_2


def gate_replaced(x, w_gate_value, w_2):
    """You have replaced the factor before the sigmoid by the value. Swish is z σ(z), where z is xW both times."""
    gate, value = _halves(x, w_gate_value)
    return (value * torch.sigmoid(gate) * value) @ w_2


def halves_interleaved(x, w_gate_value, w_2):
    """Swish is right now, but you take every other column for the gate. The first half of the columns is W; that part
    was right."""
    both = x @ w_gate_value
    gate, value = both[:, ::2], both[:, 1::2]
    return (gate * torch.sigmoid(gate) * value) @ w_2


def value_negated(x, w_gate_value, w_2):
    """Your sigmoid is now that of xV with the sign changed. Swish has the same argument on both sides."""
    gate, value = _halves(x, w_gate_value)
    return (gate * torch.sigmoid(-value) * value) @ w_2


def value_made_positive(x, w_gate_value, w_2):
    """You now take the absolute value of xV in the sigmoid. So the sign of V passes through, but the gate is still not
    Swish."""
    gate, value = _halves(x, w_gate_value)
    return (gate * torch.sigmoid(value.abs()) * value) @ w_2


def swish_of_the_sum(x, w_gate_value, w_2):
    """You add the value to Swish. The formula multiplies them, and that line was right."""
    gate, value = _halves(x, w_gate_value)
    return (gate * torch.sigmoid(gate) + value) @ w_2


def gelu_for_swish(x, w_gate_value, w_2):
    """Your gate is GELU now, so this is GEGLU. Swish multiplies z by its sigmoid."""
    gate, value = _halves(x, w_gate_value)
    return (torch.nn.functional.gelu(gate) * value) @ w_2


def relu_for_swish(x, w_gate_value, w_2):
    """Your gate is ReLU now, so this is ReGLU. Swish multiplies z by its sigmoid."""
    gate, value = _halves(x, w_gate_value)
    return (torch.relu(gate) * value) @ w_2
