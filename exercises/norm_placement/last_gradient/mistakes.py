import torch

PRE = "only pre-norm falls"
TABLE = torch.tensor([[6.0, 6.1], [5.3, 1.4]])


def conclusion_does_not_follow(seed):
    """Your four norms are right, but your conclusion does not follow from them. In which row is the second number less
    than half of the first?"""
    return TABLE, "both fall"


def rows_exchanged(seed):
    """Your post-norm stack behaves as pre-norm should, and your pre-norm stack as post-norm. Are the rows of the table
    or the two placements exchanged?"""
    return TABLE.flip(0), "only post-norm falls"


def columns_exchanged(seed):
    """Your pre-norm gradient grows from 2 to 64 layers. Are the columns of the table exchanged? 2 layers come first."""
    return TABLE.flip(1), PRE


def final_norm_missing(seed):
    """Your post-norm stack is right, but both gradients of your pre-norm stack are too large. Is there a norm after its
    last layer?"""
    return torch.tensor([[6.0, 6.1], [7.15, 7.2]]), "neither falls"


def first_layer(seed):
    """With 2 layers your norms are right, but with 64 they are too large. Do you look at the last layer, and not at the
    first one?"""
    return torch.tensor([[6.0, 35.0], [6.3, 8.4]]), "neither falls"


def last_too_large(seed):
    """Only your pre-norm gradient with 64 layers is too large. Does each layer add its branch to the stream itself, and
    not to its norm? Are there 64 layers, and is there one more norm after the last?"""
    return torch.tensor([[6.0, 6.1], [5.6, 5.0]]), "neither falls"


def default_initialization(seed):
    """Your numbers are those of matrices whose entries are too small. The default of `nn.Linear` is a uniform
    distribution; here the distribution is normal, and the standard deviation is 1/8."""
    return torch.tensor([[5.0, 5.1], [5.0, 2.25]]), PRE


def variance_for_deviation(seed):
    """Three of your norms are too small, and all four are nearly equal, as if the branches were tiny. Is 1/8 the
    standard deviation of your entries, and not 1/64?"""
    return torch.tensor([[1.4, 1.35], [1.4, 1.4]]), "neither falls"


def no_tanh(seed):
    """Only your first norm is too large. Does each layer have its tanh, between its two matrices?"""
    return torch.tensor([[8.0, 7.6], [6.4, 1.4]]), PRE


def branch_normalized(seed):
    """Your pre-norm stack is right, but both gradients of your post-norm stack are too large. Does its norm apply to
    the sum of the stream and the branch, in every layer?"""
    return torch.tensor([[11.5, 11.0], [5.3, 1.4]]), PRE


def all_too_large(seed):
    """All four of your norms are too large. Is the loss divided by 32, is the stream added in each layer, and does each
    layer have matrices of its own? Is the norm that of the last W₂ alone, and the root of a sum of squares?"""
    return 32 * TABLE, PRE


def all_too_small(seed):
    """All four of your norms are too small. Is the loss a sum over all entries, divided by 32 alone? Is the norm of the
    gradient the root of a sum of squares, and not of their mean? Is the standard deviation 1/8, and not 1?"""
    return TABLE / 64, PRE
