import torch


def _gate(z, beta):
    return torch.sigmoid(beta * z)


def _value(z, beta):
    return z * _gate(z, beta)


def _slope(z, beta, factor=None):
    gate = _gate(z, beta)
    return gate + (beta if factor is None else factor) * z * gate * (1 - gate)


def inner_derivative_missing(z, beta):
    """Your values are right, but the derivatives are right only for β = 1 and where z is 0. What does the chain rule
    add when you differentiate σ(βz)? The known formula f + σ(1 − f) also holds only for β = 1."""
    return _value(z, beta), _slope(z, beta, 1.0)


def inner_derivative_everywhere(z, beta):
    """Your values are right, but in your derivative both parts are multiplied by β. In the first part, nothing is
    differentiated but z."""
    return _value(z, beta), beta * _slope(z, beta, 1.0)


def first_part_only(z, beta):
    """Your values are right, but your derivative is only the gate σ(βz), as if it did not depend on z."""
    return _value(z, beta), _gate(z, beta)


def second_part_only(z, beta):
    """Your values are right, but your derivative is only the part in which the gate is differentiated. The other
    factor, z, has a derivative, too."""
    return _value(z, beta), _slope(z, beta) - _gate(z, beta)


def z_missing(z, beta):
    """Your values are right, but in your derivative the factor z is missing where the gate is differentiated."""
    gate = _gate(z, beta)
    return _value(z, beta), gate + beta * gate * (1 - gate)


def derivative_of_the_sigmoid(z, beta):
    """Your values are right, but your derivative is that of the gate σ(βz) alone."""
    gate = _gate(z, beta)
    return _value(z, beta), beta * gate * (1 - gate)


def product_of_derivatives(z, beta):
    """Your values are right, but your derivative is the product of the derivatives of z and of σ(z). A product needs
    the product rule."""
    gate = _gate(z, beta)
    return _value(z, beta), gate * (1 - gate)


def second_part_subtracted(z, beta):
    """Your values are right, but you subtract the second part of the derivative. Both parts are added."""
    return _value(z, beta), 2 * _gate(z, beta) - _slope(z, beta)


def gate_squared_missing(z, beta):
    """Your values are right, but you differentiate the sigmoid as if σ' were σ. It is σ(1 − σ)."""
    gate = _gate(z, beta)
    return _value(z, beta), gate + beta * z * gate


def one_minus_gate_only(z, beta):
    """Your values are right, but you differentiate the sigmoid as if σ' were 1 − σ. It is σ(1 − σ)."""
    gate = _gate(z, beta)
    return _value(z, beta), gate + beta * z * (1 - gate)


def beta_ignored(z, beta):
    """You leave out β, in the values and in the derivatives."""
    return _value(z, 1.0), _slope(z, 1.0)


def beta_before_the_product(z, beta):
    """You multiply the product by β. It stands only in the argument of the sigmoid."""
    return beta * _value(z, 1.0), beta * _slope(z, 1.0)


def beta_on_both_factors(z, beta):
    """You compute βz σ(βz), which is SiLU of βz. Outside the sigmoid there is z without β."""
    return beta * _value(z, beta), beta * _slope(z, beta)


def sigmoid_alone(z, beta):
    """You return the sigmoid and its derivative. Swish multiplies z by the sigmoid."""
    gate = _gate(z, beta)
    return gate, beta * gate * (1 - gate)


def exponentials_overflow(z, beta):
    """Your formula is right, but for a large βz your exponential is infinite, and infinity divided by infinity is
    NaN."""
    exponential = torch.exp(beta * z)
    gate = exponential / (1 + exponential)
    return z * gate, gate + beta * z * gate * (1 - gate)


def quotient_overflows(z, beta):
    """Your values are right, but where βz is far below 0, the exponential in your derivative is infinite, and infinity
    divided by infinity is NaN."""
    exponential = torch.exp(-beta * z)
    return _value(z, beta), (1 + exponential + beta * z * exponential) / (1 + exponential) ** 2


def divided_by_beta(z, beta):
    """You divide by β, as in SiLU(βz)/β. That is right unless β is 0, where it is 0 / 0."""
    return torch.nn.functional.silu(beta * z) / beta if beta else torch.full_like(z, torch.nan), _slope(z, beta)


def values_twice(z, beta):
    """You return the values twice. The second result is the derivative."""
    return _value(z, beta), _value(z, beta)


def slope_first(z, beta):
    """Your two results are in the wrong order: the values come first."""
    return _slope(z, beta), _value(z, beta)


def slope_alone(z, beta):
    """You return the derivatives alone. Return the values before them."""
    return _slope(z, beta)


def sign_of_the_exponent(z, beta):
    """The exponent of your sigmoid has the wrong sign, so your gate closes where it should open."""
    return _value(z, -beta), _slope(z, -beta)
