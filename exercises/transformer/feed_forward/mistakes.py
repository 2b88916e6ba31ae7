import torch
import torch.nn.functional as F


def no_activation(x, w_1, b_1, w_2, b_2):
    """The maximum with 0 is missing. Without it, the two matrices could be multiplied into one."""
    return (x @ w_1.T + b_1) @ w_2.T + b_2


def no_first_bias(x, w_1, b_1, w_2, b_2):
    """b_1 has no effect in your function. It is added before the maximum."""
    return (x @ w_1.T).relu() @ w_2.T + b_2


def no_second_bias(x, w_1, b_1, w_2, b_2):
    """b_2 has no effect in your function. It is added at the very end."""
    return (x @ w_1.T + b_1).relu() @ w_2.T


def no_biases(x, w_1, b_1, w_2, b_2):
    """Neither bias has an effect in your function. One is added after each of the two products."""
    return (x @ w_1.T).relu() @ w_2.T


def bias_after_the_maximum(x, w_1, b_1, w_2, b_2):
    """You take the maximum before you add b_1. The bias decides where a neuron begins to fire, so it comes first."""
    return ((x @ w_1.T).relu() + b_1) @ w_2.T + b_2


def maximum_at_the_end(x, w_1, b_1, w_2, b_2):
    """You also take the maximum with 0 after the second product. A layer that can add nothing negative is too
    limited: the maximum belongs between the two products alone."""
    return ((x @ w_1.T + b_1).relu() @ w_2.T + b_2).relu()


def maximum_only_at_the_end(x, w_1, b_1, w_2, b_2):
    """Your maximum comes after the second product. It belongs between the two products."""
    return ((x @ w_1.T + b_1) @ w_2.T + b_2).relu()


def matrices_not_transposed(x, w_1, b_1, w_2, b_2):
    """Your matrices are transposed: it can be seen where d_ff equals d_model. A token is a row here and a column in the
    formula."""
    return (x @ w_1 + b_1).relu() @ w_2 + b_2


def minimum(x, w_1, b_1, w_2, b_2):
    """You keep what is negative and drop what is positive. Is it `clamp(max=0)` or a minimum?"""
    return (x @ w_1.T + b_1).clamp(max=0) @ w_2.T + b_2


def gelu(x, w_1, b_1, w_2, b_2):
    """Your activation is GELU, which GPT-2 uses. The formula asks for the maximum with 0, which is ReLU."""
    return F.gelu(x @ w_1.T + b_1) @ w_2.T + b_2


def sigmoid(x, w_1, b_1, w_2, b_2):
    """Your activation is the sigmoid. The formula asks for the maximum with 0, which is ReLU."""
    return torch.sigmoid(x @ w_1.T + b_1) @ w_2.T + b_2


def with_the_residual(x, w_1, b_1, w_2, b_2):
    """You add x to the output. The residual connection is not part of this layer; the block adds it."""
    return x + (x @ w_1.T + b_1).relu() @ w_2.T + b_2


def softmax(x, w_1, b_1, w_2, b_2):
    """Your activation is a softmax, in which the neurons compete. The formula asks for the maximum with 0, which is
    ReLU."""
    return torch.softmax(x @ w_1.T + b_1, -1) @ w_2.T + b_2


def absolute_value(x, w_1, b_1, w_2, b_2):
    """You take the absolute value where the maximum with 0 should be: what is negative should become 0."""
    return (x @ w_1.T + b_1).abs() @ w_2.T + b_2


def matrices_on_the_left(x, w_1, b_1, w_2, b_2):
    """Your matrices multiply x from the left, as if a token were a column. Here a token is a row."""
    return w_2 @ (w_1 @ x + b_1).relu() + b_2


def columns_with_biases_of_rows(x, w_1, b_1, w_2, b_2):
    """Your biases are added along the wrong axis, as if tokens were rows where they are columns. A bias has one number
    for each entry of a token."""
    return (w_2 @ (w_1 @ x.mT + b_1).relu() + b_2).mT


def silu(x, w_1, b_1, w_2, b_2):
    """Your activation is SiLU, which Llama uses. The formula asks for the maximum with 0, which is ReLU."""
    return F.silu(x @ w_1.T + b_1) @ w_2.T + b_2


def one_maximum_for_all(x, w_1, b_1, w_2, b_2):
    """You take one maximum of all entries. The formula takes the maximum with 0 of each entry on its own."""
    inner = x @ w_1.T + b_1
    return inner.max().clamp(min=0).expand_as(inner) @ w_2.T + b_2
