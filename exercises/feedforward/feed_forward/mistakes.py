import torch
import torch.nn.functional as F


def _functions(**others):
    right = {"relu": F.relu, "squared_relu": lambda z: F.relu(z) ** 2, "gelu": F.gelu, "swish": F.silu}
    return right | others


def _layer(x, w_1, w_2, activation, **others):
    return _functions(**others)[activation](x @ w_1) @ w_2


def no_activation(x, w_1, w_2, activation):
    """Your layer has no activation, so it is a single linear map."""
    return x @ w_1 @ w_2


def activation_at_the_end(x, w_1, w_2, activation):
    """You apply the activation after the second projection. It stands between the two."""
    return _functions()[activation](x @ w_1 @ w_2)


def activation_at_the_start(x, w_1, w_2, activation):
    """You apply the activation to the token itself, before the first projection. It stands between the two."""
    return _functions()[activation](x) @ w_1 @ w_2


def activation_twice(x, w_1, w_2, activation):
    """You apply the activation after each of the two projections. After the second there is none."""
    f = _functions()[activation]
    return f(f(x @ w_1) @ w_2)


def always_relu(x, w_1, w_2, activation):
    """You use ReLU, whatever `activation` says."""
    return F.relu(x @ w_1) @ w_2


def gelu_by_tanh(x, w_1, w_2, activation):
    """Your GELU is the approximation with the hyperbolic tangent. The statement asks for the exact one."""
    return _layer(x, w_1, w_2, activation, gelu=lambda z: F.gelu(z, approximate="tanh"))


def gelu_by_sigmoid(x, w_1, w_2, activation):
    """Your GELU is the approximation z σ(1.702 z). The statement asks for the exact one."""
    return _layer(x, w_1, w_2, activation, gelu=lambda z: z * torch.sigmoid(1.702 * z))


def gelu_is_swish(x, w_1, w_2, activation):
    """Your GELU multiplies z by the sigmoid, which makes it Swish."""
    return _layer(x, w_1, w_2, activation, gelu=F.silu)


def swish_is_gelu(x, w_1, w_2, activation):
    """Your Swish is GELU. Swish multiplies z by the sigmoid."""
    return _layer(x, w_1, w_2, activation, swish=F.gelu)


def swish_is_sigmoid(x, w_1, w_2, activation):
    """Your Swish is the sigmoid alone. Multiply it by z."""
    return _layer(x, w_1, w_2, activation, swish=torch.sigmoid)


def gelu_is_the_distribution(x, w_1, w_2, activation):
    """Your GELU is Φ(z) alone. Multiply it by z."""
    return _layer(x, w_1, w_2, activation, gelu=torch.special.ndtr)


def gelu_with_the_density(x, w_1, w_2, activation):
    """Your GELU multiplies z by the density of the normal distribution. Φ is its cumulative distribution function."""
    return _layer(x, w_1, w_2, activation, gelu=lambda z: z * torch.exp(-(z**2) / 2) / (2 * torch.pi) ** 0.5)


def gelu_without_root_two(x, w_1, w_2, activation):
    """In your GELU, the argument of erf is z. It should be z divided by the root of 2."""
    return _layer(x, w_1, w_2, activation, gelu=lambda z: z * (1 + torch.erf(z)) / 2)


def square_without_relu(x, w_1, w_2, activation):
    """Your squared ReLU squares negative numbers as well. They should become 0."""
    return _layer(x, w_1, w_2, activation, squared_relu=torch.square)


def relu_not_squared(x, w_1, w_2, activation):
    """Your squared ReLU is ReLU. The square is missing."""
    return _layer(x, w_1, w_2, activation, squared_relu=F.relu)


def absolute_value(x, w_1, w_2, activation):
    """Your ReLU is the absolute value. Negative numbers should become 0."""
    return _layer(x, w_1, w_2, activation, relu=torch.abs)


def relu_upside_down(x, w_1, w_2, activation):
    """Your ReLU and its square keep the negative numbers and drop the positive ones. It is the other way round."""
    return _layer(x, w_1, w_2, activation, relu=lambda z: z.clamp(max=0), squared_relu=lambda z: z.clamp(max=0) ** 2)


def gelu_of_the_other_tail(x, w_1, w_2, activation):
    """Your GELU multiplies z by the probability of a value above z. Φ(z) is that of a value below z."""
    return _layer(x, w_1, w_2, activation, gelu=lambda z: z * torch.special.ndtr(-z))


def matrices_exchanged(x, w_1, w_2, activation):
    """You have exchanged the two matrices, and transposed them so that they fit."""
    return _functions()[activation](x @ w_2.T) @ w_1.T


def with_the_residual(x, w_1, w_2, activation):
    """You add the token to the result. The residual connection belongs to the block around the layer."""
    return x + _layer(x, w_1, w_2, activation)
