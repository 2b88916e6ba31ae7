import torch

PLAIN = "only plain loses it"
TABLE = torch.tensor([[0.43, 1e-9], [0.97, 0.96]])


def conclusion_does_not_follow(seed):
    """Your four ratios are right, but your conclusion does not follow from them. Which of the two ratios with 16 layers
    is below 0.01?"""
    return TABLE, "both lose it"


def plain_too_large(seed):
    """Your ratios of the plain stack are too large. Is its input added to each layer's output, or do you divide the
    gradient of the last layer by that of the first?"""
    return TABLE[1:].expand(2, 2), "neither loses it"


def rows_exchanged(seed):
    """The rows of your table are exchanged: the plain stack comes first."""
    return TABLE.flip(0), PLAIN


def transposed(seed):
    """Your table is transposed. Its rows are the two stacks, and its columns are the two depths."""
    return TABLE.T, PLAIN


def columns_exchanged(seed):
    """The columns of your table are exchanged: 2 layers come first."""
    return TABLE.flip(1), PLAIN


def never_residual(seed):
    """Both of your stacks lose the gradient with 16 layers, as if neither had residual connections. In the second row,
    each layer's output should be added to its input."""
    return TABLE[:1].expand(2, 2), "both lose it"


def not_divided(seed):
    """Only your last ratio is as large as it should be; the others are too small. Do you divide by the gradient of the
    last layer?"""
    return torch.tensor([[0.006, 5e-12], [0.2, 0.6]]), PLAIN


def one_layer_for_all(seed):
    """All four of your ratios are 1, as if the first layer and the last were the same one. Each layer of a stack needs
    weights of its own."""
    return torch.ones(2, 2), "neither loses it"


def no_activation(seed):
    """Your plain stack loses the gradient, but its ratios are too large. Does each layer have its ReLU, between its two
    matrices?"""
    return torch.tensor([[0.98, 8e-8], [1.05, 1.3]]), PLAIN


def gradients_added_up(seed):
    """Your ratio of the plain stack with 16 layers is too large, and the other three are right. Do its layers still
    hold the gradients of an earlier pass?"""
    return torch.tensor([[0.43, 0.5], [0.97, 0.96]]), "neither loses it"
