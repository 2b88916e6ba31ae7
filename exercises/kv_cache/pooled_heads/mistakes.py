import torch


def _both(w_key, w_value, n_heads, n_groups, pool):
    def pooled(w):
        heads = w.reshape(len(w), n_groups, n_heads // n_groups, -1)
        return pool(heads).flatten(1)

    return pooled(w_key), pooled(w_value)


def sum_for_mean(w_key, w_value, n_heads, n_groups):
    """You add up the heads of a group. Divide by their number."""
    return _both(w_key, w_value, n_heads, n_groups, lambda heads: heads.sum(2))


def divided_by_all_heads(w_key, w_value, n_heads, n_groups):
    """You divide the sum over a group by the number of all heads. Divide by the number of heads in the group."""
    return _both(w_key, w_value, n_heads, n_groups, lambda heads: heads.sum(2) / n_heads)


def divided_by_the_groups(w_key, w_value, n_heads, n_groups):
    """You divide the sum over a group by the number of groups. Divide by the number of heads in the group."""
    return _both(w_key, w_value, n_heads, n_groups, lambda heads: heads.sum(2) / n_groups)


def first_head(w_key, w_value, n_heads, n_groups):
    """You keep the first head of each group and drop the others. Take their mean."""
    return _both(w_key, w_value, n_heads, n_groups, lambda heads: heads[:, :, 0])


def last_head(w_key, w_value, n_heads, n_groups):
    """You keep the last head of each group and drop the others. Take their mean."""
    return _both(w_key, w_value, n_heads, n_groups, lambda heads: heads[:, :, -1])


def mean_over_the_groups(w_key, w_value, n_heads, n_groups):
    """You average over the groups: each new head is a mean of heads from different groups. Average the heads within
    each group."""
    return _both(w_key, w_value, n_heads, n_groups, lambda heads: heads.mean(1))


def heads_take_turns(w_key, w_value, n_heads, n_groups):
    """The heads of your groups are not neighbours: with 4 heads and 2 groups, you average the first and the third, and
    the second and the fourth."""

    def pooled(w):
        return w.reshape(len(w), n_heads // n_groups, n_groups, -1).mean(1).flatten(1)

    return pooled(w_key), pooled(w_value)


def groups_as_heads(w_key, w_value, n_heads, n_groups):
    """You have exchanged the number of groups and the number of heads in a group: your matrices have H/G heads."""
    group = n_heads // n_groups

    def pooled(w):
        return w.reshape(len(w), group, n_groups, -1).mean(2).flatten(1)

    return pooled(w_key), pooled(w_value)


def features_averaged(w_key, w_value, n_heads, n_groups):
    """You average neighbouring columns, so that the features of one head are mixed. Average the same feature of
    different heads."""

    def pooled(w):
        return w.reshape(len(w), -1, n_heads // n_groups).mean(2)

    return pooled(w_key), pooled(w_value)


def repeated_for_each_head(w_key, w_value, n_heads, n_groups):
    """Your means are right, but each stands there once for every head of its group, so the matrices, and the cache,
    are as large as before."""
    n = n_heads // n_groups
    return _both(
        w_key, w_value, n_heads, n_groups, lambda heads: heads.mean(2, keepdim=True).expand(-1, -1, n, -1).clone()
    )


def values_not_pooled(w_key, w_value, n_heads, n_groups):
    """Your keys are right, but the values keep all heads. They are averaged in the same way."""
    return _both(w_key, w_value, n_heads, n_groups, lambda heads: heads.mean(2))[0], w_value.clone()


def all_heads_averaged(w_key, w_value, n_heads, n_groups):
    """All of your new heads are the same, the mean of all heads. Each group has its own mean."""
    return _both(
        w_key, w_value, n_heads, n_groups, lambda heads: heads.mean((1, 2), keepdim=True).expand(-1, n_groups, 1, -1)
    )


def keys_and_values_exchanged(w_key, w_value, n_heads, n_groups):
    """Your matrices are right, but that of the values comes first. Return the keys' first."""
    return _both(w_value, w_key, n_heads, n_groups, lambda heads: heads.mean(2))


def transposed(w_key, w_value, n_heads, n_groups):
    """Your matrices are right, but they are transposed. A token is a row that is multiplied by them from the right, so
    they have d_model rows."""
    key, value = _both(w_key, w_value, n_heads, n_groups, lambda heads: heads.mean(2))
    return key.T, value.T


def order_within_a_group(w_key, w_value, n_heads, n_groups):
    """Your means are right, but their columns are in another order: the first features of all groups come first.
    The features of a head should stand side by side."""

    def pooled(w):
        return w.reshape(len(w), n_groups, n_heads // n_groups, -1).mean(2).mT.flatten(1)

    return pooled(w_key), pooled(w_value)


def divided_by_the_root(w_key, w_value, n_heads, n_groups):
    """You divide the sum over a group by the root of the number of its heads. A mean divides by the number itself."""
    return _both(
        w_key, w_value, n_heads, n_groups, lambda heads: heads.sum(2) / torch.tensor(n_heads // n_groups).sqrt()
    )
