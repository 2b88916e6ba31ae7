import torch


def _product(factors):
    result = torch.eye(factors.shape[-1])
    for factor in factors:
        result = factor @ result
    return result


def _factors(states, w):
    return (1 - states**2).unsqueeze(-1) * w


def order_reversed(states, w):
    """You multiply the factors in the opposite order. The factor of the first step stands on the right."""
    return _product(_factors(states, w).flip(0))


def diagonal_on_the_right(states, w):
    """You scale the columns of W, which is W diag(1 − h²). The slope of tanh is applied after W, so it scales the
    rows."""
    return _product((1 - states**2).unsqueeze(-2) * w)


def no_slope(states, w):
    """You leave out the slope of tanh and multiply only by W."""
    return torch.linalg.matrix_power(w, len(states))


def slope_without_the_square(states, w):
    """Your slope of tanh is 1 − h. It is 1 − h²."""
    return _product((1 - states).unsqueeze(-1) * w)


def slope_of_the_preactivation(states, w):
    """You apply tanh to the states again before you square them. They are the outputs of tanh already."""
    return _product((1 - states.tanh() ** 2).unsqueeze(-1) * w)


def square_itself(states, w):
    """You use h² as the slope of tanh. It is 1 − h²."""
    return _product((states**2).unsqueeze(-1) * w)


def transposed(states, w):
    """Your matrix is transposed. The row belongs to the last state, the column to the first."""
    return _product(_factors(states, w)).T


def w_transposed(states, w):
    """You use the transpose of W. The network multiplies the state by W itself."""
    return _product(_factors(states, w.T))


def last_step_only(states, w):
    """You return the derivative of the last step. Multiply the factors of all steps."""
    return _factors(states, w)[-1]


def first_step_only(states, w):
    """You return the derivative of the first step. Multiply the factors of all steps."""
    return _factors(states, w)[0]


def added_up(states, w):
    """You add the factors. By the chain rule they are multiplied."""
    return _factors(states, w).sum(0)


def entry_by_entry(states, w):
    """You multiply the factors entry by entry. Use the matrix product."""
    return _factors(states, w).prod(0)


def first_step_left_out(states, w):
    """You leave out the factor of the first step, from h_0 to h_1."""
    return _product(_factors(states, w)[1:])


def last_step_left_out(states, w):
    """You leave out the factor of the last step."""
    return _product(_factors(states, w)[:-1])


def w_only_once(states, w):
    """You multiply by W only once. Each step has its own factor W."""
    return (1 - states**2).prod(0)[:, None] * w


def norm(states, w):
    """You return one number. Return the matrix; its norm comes later."""
    return torch.linalg.matrix_norm(_product(_factors(states, w)), ord=2)


def slope_of_the_last_state_everywhere(states, w):
    """You use the slope at the last state in every step. Each step has its own state."""
    return torch.linalg.matrix_power((1 - states[-1] ** 2)[:, None] * w, len(states))


def slopes_pulled_in_front(states, w):
    """You multiply all the slopes first and the matrices after them. The slopes stand between the matrices, and
    the order of the factors matters."""
    return (1 - states**2).prod(0)[:, None] * torch.linalg.matrix_power(w, len(states))
