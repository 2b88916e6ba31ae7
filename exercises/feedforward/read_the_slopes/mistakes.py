def gelu_and_swish_exchanged():
    """You have exchanged GELU and Swish. Which of the two gates, Φ and σ, goes from 0 to 1 faster?"""
    return ["gelu", "squared_relu", "elu", "swish", "softplus"]


def elu_and_softplus_exchanged():
    """You have exchanged ELU and softplus. Which of the two is exactly a straight line on the right?"""
    return ["swish", "squared_relu", "softplus", "gelu", "elu"]


def both_pairs_exchanged():
    """You have exchanged GELU and Swish, and also ELU and softplus. GELU's gate Φ goes from 0 to 1 faster than σ, and
    ELU is exactly a straight line on the right."""
    return ["gelu", "squared_relu", "softplus", "swish", "elu"]


def elu_and_squared_relu_exchanged():
    """You have exchanged ELU and the squared ReLU. What is the derivative of z²?"""
    return ["swish", "elu", "squared_relu", "gelu", "softplus"]


def swish_and_softplus_exchanged():
    """You have exchanged Swish and softplus. Softplus never falls, so what can be said of its derivative?"""
    return ["softplus", "squared_relu", "elu", "gelu", "swish"]


def gelu_and_softplus_exchanged():
    """You have exchanged GELU and softplus. Softplus never falls, so what can be said of its derivative?"""
    return ["swish", "squared_relu", "elu", "softplus", "gelu"]


def softplus_and_squared_relu_exchanged():
    """You have exchanged softplus and the squared ReLU. The derivative of max(0, z)² is 0 on the whole left side."""
    return ["swish", "softplus", "elu", "gelu", "squared_relu"]


def elu_swish_exchanged():
    """You have exchanged ELU and Swish. ELU never falls, so what can be said of its derivative?"""
    return ["elu", "squared_relu", "swish", "gelu", "softplus"]


def order_of_the_table():
    """You return the names in the order of the table. The order should be that of the curves, from A to E."""
    return ["elu", "gelu", "softplus", "squared_relu", "swish"]


def from_e_to_a():
    """Your names are right, but their order is reversed: curve A comes first."""
    return ["softplus", "gelu", "elu", "squared_relu", "swish"]
