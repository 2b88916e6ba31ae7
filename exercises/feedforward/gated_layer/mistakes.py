import torch
import torch.nn.functional as F


def _f(kind, **others):
    right = {"bilinear": lambda z: z, "glu": torch.sigmoid, "reglu": F.relu, "geglu": F.gelu, "swiglu": F.silu}
    return (right | others)[kind]


def _layer(x, w, v, w_2, kind, **others):
    return (_f(kind, **others)(x @ w) * (x @ v)) @ w_2


def activation_on_the_value(x, w, v, w_2, kind):
    """You activate xV. The gate is the other one, xW."""
    return (x @ w * _f(kind)(x @ v)) @ w_2


def activation_on_the_product(x, w, v, w_2, kind):
    """You activate the product. The activation acts on the gate xW alone, before it is multiplied by xV."""
    return _f(kind)((x @ w) * (x @ v)) @ w_2


def activation_on_both(x, w, v, w_2, kind):
    """You activate xW and xV. Only the gate xW is activated."""
    return (_f(kind)(x @ w) * _f(kind)(x @ v)) @ w_2


def activation_at_the_end(x, w, v, w_2, kind):
    """You apply the activation at the end, after the projection down. It acts on the gate xW alone."""
    return _f(kind)(((x @ w) * (x @ v)) @ w_2)


def sum_of_the_branches(x, w, v, w_2, kind):
    """You add the gate to xV. Multiply them, entry by entry."""
    return (_f(kind)(x @ w) + x @ v) @ w_2


def gate_alone(x, w, v, w_2, kind):
    """You never use V, so your layer is a plain one with the activation of the gate."""
    return _f(kind)(x @ w) @ w_2


def gate_times_itself(x, w, v, w_2, kind):
    """You multiply the activated xW by xW itself. The other factor is xV."""
    return (_f(kind)(x @ w) * (x @ w)) @ w_2


def always_bilinear(x, w, v, w_2, kind):
    """You leave out the activation, so every kind is the bilinear one."""
    return ((x @ w) * (x @ v)) @ w_2


def always_swiglu(x, w, v, w_2, kind):
    """You use Swish, whatever `kind` says."""
    return (F.silu(x @ w) * (x @ v)) @ w_2


def swiglu_by_the_sigmoid(x, w, v, w_2, kind):
    """With swiglu, you multiply xV by the sigmoid of the gate, which is GLU. Swish multiplies z by its sigmoid."""
    return _layer(x, w, v, w_2, kind, swiglu=torch.sigmoid)


def glu_by_swish(x, w, v, w_2, kind):
    """With glu, you activate the gate by Swish. GLU has the sigmoid alone."""
    return _layer(x, w, v, w_2, kind, glu=F.silu)


def geglu_by_tanh(x, w, v, w_2, kind):
    """With geglu, your GELU is the approximation with the hyperbolic tangent. The statement asks for the exact one."""
    return _layer(x, w, v, w_2, kind, geglu=lambda z: F.gelu(z, approximate="tanh"))


def geglu_by_sigmoid(x, w, v, w_2, kind):
    """With geglu, your GELU is the approximation z σ(1.702 z). The statement asks for the exact one."""
    return _layer(x, w, v, w_2, kind, geglu=lambda z: z * torch.sigmoid(1.702 * z))


def geglu_by_the_distribution(x, w, v, w_2, kind):
    """With geglu, you activate the gate by Φ(z) alone. GELU multiplies it by z."""
    return _layer(x, w, v, w_2, kind, geglu=torch.special.ndtr)


def glu_by_softmax(x, w, v, w_2, kind):
    """With glu, your gates compete in a softmax. Each of them has a sigmoid of its own."""
    return _layer(x, w, v, w_2, kind, glu=lambda z: z.softmax(-1))


def glu_by_tanh(x, w, v, w_2, kind):
    """With glu, you activate the gate by the hyperbolic tangent. GLU has the sigmoid."""
    return _layer(x, w, v, w_2, kind, glu=torch.tanh)


def bilinear_by_the_identity_of_tokens(x, w, v, w_2, kind):
    """With bilinear, you leave out the gate. It is there, but no activation changes it."""
    return x @ v @ w_2 if kind == "bilinear" else _layer(x, w, v, w_2, kind)


def matrices_transposed(x, w, v, w_2, kind):
    """You transpose the matrices, as `functional.linear` does, which expects a row for each output. Here W and V have a
    row for each entry of the token."""
    return F.linear(_f(kind)(F.linear(x, w)) * F.linear(x, v), w_2)


def argument_not_projected(x, w, v, w_2, kind):
    """You activate the token before it is projected by W. The activation acts on xW."""
    return (_f(kind)(x) @ w * (x @ v)) @ w_2


def projected_separately(x, w, v, w_2, kind):
    """You project the gate and xV down one by one and multiply the results. Multiply first, and project the product."""
    return (_f(kind)(x @ w) @ w_2) * (x @ v @ w_2)


def with_the_residual(x, w, v, w_2, kind):
    """You add the token to the result. The residual connection belongs to the block around the layer."""
    return x + _layer(x, w, v, w_2, kind)


def glu_with_the_halves_exchanged(x, w, v, w_2, kind):
    """With glu, the sigmoid acts on xV. It should act on xW. PyTorch's own function glu takes the sigmoid of the second
    half of its argument."""
    return (x @ w * torch.sigmoid(x @ v)) @ w_2 if kind == "glu" else _layer(x, w, v, w_2, kind)
