import torch


def _layer(x, axes, eps, correction=0, cut=()):
    mean, variance = x.mean(axes, keepdim=True), x.var(axes, correction=correction, keepdim=True)
    mean = mean.detach() if "mean" in cut else mean
    variance = variance.detach() if "variance" in cut else variance
    return (x - mean) / (variance + eps).sqrt()


def _jacobian(x, axes, eps, **options):
    return torch.autograd.functional.jacobian(lambda x: _layer(x, axes, eps, **options), x)


def _table(jacobian):
    return jacobian.square().sum((0, 2, 3, 5)).sqrt()


def _judged(table):
    return table, bool((table.triu(1) > 1e-4).any())


def outputs_summed_first(x, axes, eps):
    """You take the gradient of the sum of all outputs at a position. In this sum, derivatives with opposite signs
    cancel; the sum of a standardized vector does not depend on the vector at all."""
    return _judged(_jacobian(x, axes, eps).sum((0, 2)).square().sum((1, 3)).sqrt())


def features_summed_first(x, axes, eps):
    """You add the outputs of a token over its features before you differentiate. In this sum, derivatives with opposite
    signs cancel."""
    return _judged(_jacobian(x, axes, eps).sum(2).square().sum((0, 2, 4)).sqrt())


def sequences_summed_first(x, axes, eps):
    """You add the outputs over the sequences before you differentiate. In this sum, derivatives with opposite signs
    cancel."""
    return _judged(_jacobian(x, axes, eps).sum(0).square().sum((1, 2, 4)).sqrt())


def derivatives_summed(x, axes, eps):
    """You add up the derivatives before you square. Those with opposite signs cancel: square each of them first."""
    return _judged(_jacobian(x, axes, eps).sum((0, 2, 3, 5)).abs())


def absolute_values(x, axes, eps):
    """You add up absolute values. The table holds roots of sums of squares."""
    return _judged(_jacobian(x, axes, eps).abs().sum((0, 2, 3, 5)))


def squares_not_rooted(x, axes, eps):
    """Your table holds the sums of squares. Their roots are missing."""
    return _judged(_jacobian(x, axes, eps).square().sum((0, 2, 3, 5)))


def mean_of_squares(x, axes, eps):
    """You average the squares of the derivatives. Add them up."""
    return _judged(_jacobian(x, axes, eps).square().mean((0, 2, 3, 5)).sqrt())


def largest_derivative(x, axes, eps):
    """Your table holds the largest derivative of each pair of positions. All of them count."""
    return _judged(_jacobian(x, axes, eps).abs().amax((0, 2, 3, 5)))


def same_sequence_only(x, axes, eps):
    """You only look at pairs from the same sequence. An output can also depend on another sequence of the batch."""
    return _judged(_jacobian(x, axes, eps).diagonal(dim1=0, dim2=3).square().sum((1, 3, 4)).sqrt())


def one_sequence_of_each(x, axes, eps):
    """You only look at the outputs and the inputs of the first sequence. The sum runs over all pairs of sequences."""
    return _judged(_jacobian(x, axes, eps)[0, :, :, 0].square().sum((1, 3)).sqrt())


def same_feature_only(x, axes, eps):
    """You only look at pairs with the same feature. An output can depend on all features of a token."""
    return _judged(_jacobian(x, axes, eps).diagonal(dim1=2, dim2=5).square().sum((0, 2, 4)).sqrt())


def first_sequence_only(x, axes, eps):
    """You only look at the outputs of the first sequence. Those of all sequences count."""
    return _judged(_jacobian(x, axes, eps)[:1].square().sum((0, 2, 3, 5)).sqrt())


def own_position_counted(x, axes, eps):
    """Your table is right, but you say that a layer reads the future if an output depends on its own token."""
    table = _table(_jacobian(x, axes, eps))
    return table, bool((table.triu() > 1e-4).any())


def decision_inverted(x, axes, eps):
    """Your table is right, but your decision is the wrong way round: True means that the layer reads the future."""
    table, future = _judged(_table(_jacobian(x, axes, eps)))
    return table, not future


def never_the_future(x, axes, eps):
    """Your table is right, but you always decide that the layer does not read the future. Which half of the table is
    about later inputs?"""
    return _table(_jacobian(x, axes, eps)), False


def other_sequences_counted(x, axes, eps):
    """Your table is right, but you also say True for a layer that only reads other sequences. The decision is about
    later positions."""
    table, future = _judged(_table(_jacobian(x, axes, eps)))
    return table, future or 0 in axes


def decision_only(x, axes, eps):
    """You return the decision alone. Return the table before it."""
    return _judged(_table(_jacobian(x, axes, eps)))[1]


def decision_first(x, axes, eps):
    """Your two results are in the wrong order: the table comes first."""
    return _judged(_table(_jacobian(x, axes, eps)))[::-1]


def divided_by_one_less(x, axes, eps):
    """Your layer's variance divides by one less than the number of values, which is PyTorch's default."""
    return _judged(_table(_jacobian(x, axes, eps, correction=1)))


def statistics_detached(x, axes, eps):
    """Your gradients do not flow through mean and variance, as if they were constants. But this is the very way in
    which one token reads another."""
    return _judged(_table(_jacobian(x, axes, eps, cut=("mean", "variance"))))


def variance_detached(x, axes, eps):
    """Your gradients do not flow through the variance, as if it were a constant."""
    return _judged(_table(_jacobian(x, axes, eps, cut=("variance",))))


def always_the_features(x, axes, eps):
    """Your layer takes its statistics over the features, whatever `axes` says."""
    return _judged(_table(_jacobian(x, [2], eps)))


def eps_left_out(x, axes, eps):
    """Your layer leaves out epsilon."""
    return _judged(_table(_jacobian(x, axes, 0.0)))


def eps_outside_the_root(x, axes, eps):
    """Your layer adds epsilon to the standard deviation. Where does it stand in the formula?"""

    def layer(x):
        return (x - x.mean(axes, keepdim=True)) / (x.std(axes, correction=0, keepdim=True) + eps)

    return _judged(_table(torch.autograd.functional.jacobian(layer, x)))
