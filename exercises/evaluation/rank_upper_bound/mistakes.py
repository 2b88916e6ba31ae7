import torch


def _count(above):
    """Ranks from a table that says for each model (row) which others count (columns)."""
    return 1 + above.sum(1)


def _ends(score, plus, minus):
    return score - minus, score + plus


def scores_alone(score, plus, minus):
    """Your ranks are the order of the scores. A model counts only if it is better beyond doubt."""
    return _count(score[None, :] > score[:, None])


def score_above_the_upper_end(score, plus, minus):
    """You compare the other models' scores with the upper end. Their lower ends have to be above it."""
    return _count(score[None, :] > (score + plus)[:, None])


def lower_end_above_the_score(score, plus, minus):
    """You compare the other models' lower ends with the score. They have to be above the upper end."""
    return _count((score - minus)[None, :] > score[:, None])


def upper_ends(score, plus, minus):
    """You compare upper ends with upper ends. It is the lower end of the other model that counts."""
    high = score + plus
    return _count(high[None, :] > high[:, None])


def lower_ends(score, plus, minus):
    """You compare lower ends with lower ends. It is the upper end of this model that counts."""
    low = score - minus
    return _count(low[None, :] > low[:, None])


def ends_exchanged(score, plus, minus):
    """You compare the other models' upper ends with the lower end of this one, so that overlapping ones count."""
    low, high = _ends(score, plus, minus)
    return _count((high[None, :] > low[:, None]) & ~torch.eye(len(score), dtype=torch.bool))


def plus_and_minus_exchanged(score, plus, minus):
    """You have exchanged `plus` and `minus`: the first belongs to the upper end."""
    low, high = _ends(score, minus, plus)
    return _count(low[None, :] > high[:, None])


def plus_on_both_sides(score, plus, minus):
    """You use `plus` for both ends. The intervals need not be symmetric."""
    low, high = _ends(score, plus, plus)
    return _count(low[None, :] > high[:, None])


def minus_on_both_sides(score, plus, minus):
    """You use `minus` for both ends. The intervals need not be symmetric."""
    low, high = _ends(score, minus, minus)
    return _count(low[None, :] > high[:, None])


def touching_ends(score, plus, minus):
    """You count a model whose lower end equals the upper end. There has to be a gap."""
    low, high = _ends(score, plus, minus)
    return _count(low[None, :] >= high[:, None])


def counted_from_zero(score, plus, minus):
    """Your ranks are too small by one: the best rank is 1."""
    low, high = _ends(score, plus, minus)
    return _count(low[None, :] > high[:, None]) - 1


def worse_models_counted(score, plus, minus):
    """You count the models that are worse beyond doubt. Those that are better decide the rank."""
    low, high = _ends(score, plus, minus)
    return _count(high[None, :] < low[:, None])


def ranks_without_gaps(score, plus, minus):
    """Your ranks have no gaps: after three models with rank 3, the next may have rank 6 and not 4."""
    low, high = _ends(score, plus, minus)
    return _count(low[None, :] > high[:, None]).unique(return_inverse=True)[1] + 1
