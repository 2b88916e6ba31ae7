import torch

AXES = {"batch": (0, 1), "layer": (2,), "instance": (1,), "group": (1, 3)}


def _normed(x, kind, n_groups, eps, correction=0, wrong=None, scale=None):
    axes = (AXES | (wrong or {}))[kind]
    parts = x.unflatten(-1, (n_groups, -1)) if kind == "group" else x
    centred = parts - parts.mean(axes, keepdim=True)
    variance = parts.var(axes, correction=correction, keepdim=True)
    return (centred / (scale(variance) if scale else (variance + eps).sqrt())).reshape(x.shape)


def divided_by_one_less(x, kind, n_groups, eps):
    """Your variance divides by one less than the number of values, which is PyTorch's default."""
    return _normed(x, kind, n_groups, eps, correction=1)


def eps_outside_the_root(x, kind, n_groups, eps):
    """You add epsilon to the standard deviation. Where does it stand in the formula?"""
    return _normed(x, kind, n_groups, eps, scale=lambda variance: variance.sqrt() + eps)


def no_root(x, kind, n_groups, eps):
    """You divide by the variance. The formula divides by its root."""
    return _normed(x, kind, n_groups, eps, scale=lambda variance: variance + eps)


def no_eps(x, kind, n_groups, eps):
    """You leave out epsilon, so equal numbers become 0/0."""
    return _normed(x, kind, n_groups, 0.0)


def batch_and_layer_exchanged(x, kind, n_groups, eps):
    """Batch and layer norm are exchanged. Which of the two has a mean for each feature?"""
    return _normed(x, kind, n_groups, eps, wrong={"batch": (2,), "layer": (0, 1)})


def axes_that_are_named(x, kind, n_groups, eps):
    """You average over the axes that the table names. An axis that it names keeps its own means; the others are
    averaged over."""
    return _normed(x, kind, n_groups, eps, wrong={"batch": (2,), "layer": (0, 1), "instance": (0, 2), "group": (0, 2)})


def batch_over_the_sequences_alone(x, kind, n_groups, eps):
    """Your batch norm has a mean for each feature at each position. It has one for each feature, over all tokens of all
    sequences."""
    return _normed(x, kind, n_groups, eps, wrong={"batch": (0,)})


def layer_over_the_whole_sequence(x, kind, n_groups, eps):
    """Your layer norm has one mean for each sequence. It has one for each token."""
    return _normed(x, kind, n_groups, eps, wrong={"layer": (1, 2)})


def layer_as_instance(x, kind, n_groups, eps):
    """Your layer norm averages over the tokens of a sequence, as instance norm does. It averages over the features of a
    token."""
    return _normed(x, kind, n_groups, eps, wrong={"layer": (1,)})


def instance_over_the_whole_sequence(x, kind, n_groups, eps):
    """Your instance norm has one mean for each sequence. It has one for each feature of each sequence."""
    return _normed(x, kind, n_groups, eps, wrong={"instance": (1, 2)})


def instance_as_layer(x, kind, n_groups, eps):
    """Your instance norm averages over the features of a token, as layer norm does. It averages over the tokens of a
    sequence."""
    return _normed(x, kind, n_groups, eps, wrong={"instance": (2,)})


def instance_over_the_sequences(x, kind, n_groups, eps):
    """Your instance norm averages over the sequences. It has a mean for each sequence."""
    return _normed(x, kind, n_groups, eps, wrong={"instance": (0,)})


def instance_as_batch(x, kind, n_groups, eps):
    """Your instance norm has the same means for all sequences, as batch norm does. Each sequence has its own."""
    return _normed(x, kind, n_groups, eps, wrong={"instance": (0, 1)})


def group_of_each_token(x, kind, n_groups, eps):
    """Your group norm has a mean for each token. All tokens of a sequence share the mean of a group."""
    return _normed(x, kind, n_groups, eps, wrong={"group": (3,)})


def group_over_the_batch(x, kind, n_groups, eps):
    """Your group norm has the same means for all sequences. Each sequence has its own."""
    return _normed(x, kind, n_groups, eps, wrong={"group": (0, 1, 3)})


def group_as_instance(x, kind, n_groups, eps):
    """Your group norm has a mean for each feature. All features of a group share one."""
    return _normed(x, kind, n_groups, eps, wrong={"group": (1,)})


def group_over_the_groups(x, kind, n_groups, eps):
    """Your group norm averages over the groups instead of the features in them. Which of the two new axes is which?"""
    return _normed(x, kind, n_groups, eps, wrong={"group": (1, 2)})


def one_group(x, kind, n_groups, eps):
    """Your group norm puts all features into one group, whatever `n_groups` says."""
    return _normed(x, kind, 1, eps)


def groups_of_that_size(x, kind, n_groups, eps):
    """Your groups have `n_groups` features each. It is the number of groups, and not their size."""
    return _normed(x, kind, x.shape[-1] // n_groups, eps)


def features_dealt_out(x, kind, n_groups, eps):
    """Your features are dealt out to the groups in turn. The first group holds the first features, side by side."""
    if kind != "group":
        return _normed(x, kind, n_groups, eps)
    dealt = x.unflatten(-1, (-1, n_groups)).mT.flatten(-2)
    return _normed(dealt, kind, n_groups, eps).unflatten(-1, (n_groups, -1)).mT.flatten(-2)


def groups_for_all_kinds(x, kind, n_groups, eps):
    """You divide the features into groups for every kind. Only group norm does that; the other kinds ignore
    `n_groups`."""
    parts = x.unflatten(-1, (n_groups, -1))
    axes = (3,) if kind == "layer" else AXES[kind]
    return _normed(parts, "layer", n_groups, eps, wrong={"layer": axes}).reshape(x.shape)


def groups_not_merged(x, kind, n_groups, eps):
    """Your numbers are right, but as group norm they have an axis for the groups. The result should have the shape of
    x."""
    y = _normed(x, kind, n_groups, eps)
    return y.unflatten(-1, (n_groups, -1)) if kind == "group" else y


def always_layer_norm(x, kind, n_groups, eps):
    """Your result is layer norm, whatever `kind` says."""
    return _normed(x, "layer", n_groups, eps)


def always_batch_norm(x, kind, n_groups, eps):
    """Your result is batch norm, whatever `kind` says."""
    return _normed(x, "batch", n_groups, eps)


def not_centred(x, kind, n_groups, eps):
    """You divide by the root, but do not subtract the mean."""
    parts = x.unflatten(-1, (n_groups, -1)) if kind == "group" else x
    return (parts / (parts.var(AXES[kind], correction=0, keepdim=True) + eps).sqrt()).reshape(x.shape)


def root_mean_square(x, kind, n_groups, eps):
    """You divide by the root mean square of x, without a mean. That is RMSNorm over these axes."""
    parts = x.unflatten(-1, (n_groups, -1)) if kind == "group" else x
    return (parts * torch.rsqrt(parts.square().mean(AXES[kind], keepdim=True) + eps)).reshape(x.shape)
