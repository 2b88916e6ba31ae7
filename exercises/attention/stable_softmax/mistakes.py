import torch


def _normalised(shifted):
    return shifted.exp() / shifted.exp().sum(-1, keepdim=True)


def nothing_subtracted(scores):
    """You take the exponentials of the scores as they are, and that of 1000 is too large for a float."""
    return _normalised(scores)


def one_maximum_for_all(scores):
    """You subtract one maximum from the whole table. A row far below it vanishes: 0/0. Each row has its own maximum."""
    return _normalised(scores - scores.max())


def maximum_of_each_column(scores):
    """You subtract the maximum of each column, so the scores of one row are shifted unequally. Look at the axis."""
    return _normalised(scores - scores.amax(0))


def minimum_subtracted(scores):
    """You subtract the smallest score of a row. The others are then above zero, and a large one still overflows."""
    return _normalised(scores - scores.amin(-1, keepdim=True))


def mean_subtracted(scores):
    """You subtract the mean of a row. A score far above the mean still overflows."""
    return _normalised(scores - scores.mean(-1, keepdim=True))


def divided_by_the_maximum(scores):
    """You divide the scores by their maximum. That changes how far they lie apart, which is what the weights show."""
    return _normalised(scores / scores.amax(-1, keepdim=True))


def scores_clipped(scores):
    """You clip large scores. All that lie beyond the limit become equal, and with them their weights."""
    return _normalised(scores.clamp(max=80))


def over_the_queries(scores):
    """Your columns add up to one. The weights of each query should sum to one over the keys, so the rows should: look
    at the axes."""
    return torch.softmax(scores, 0)


def sum_of_each_column(scores):
    """You divide by the sums of the columns. The maximum is right; look at the axis of the sum."""
    shifted = (scores - scores.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum(0)


def one_sum_for_all(scores):
    """You divide by the sum of the whole table. Each row should add up to one by itself."""
    shifted = (scores - scores.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum()


def never_divided(scores):
    """The largest entry of each of your rows is one. What remains is to make each row add up to one."""
    return (scores - scores.amax(-1, keepdim=True)).exp()


def no_exponential(scores):
    """You divide the scores themselves by their sum. That can give negative weights; the exponential cannot."""
    return scores / scores.sum(-1, keepdim=True)


def logarithm_of_the_weights(scores):
    """You return the logarithms of the weights. Take their exponentials, or leave out the logarithm."""
    return torch.log_softmax(scores, -1)


def axis_of_the_maximum_lost(scores):
    """Your maxima are in one row, and are subtracted along the columns. Look at their shape: one axis is lost."""
    shifted = (scores - scores.amax(-1)).exp()
    return shifted / shifted.sum(-1, keepdim=True)


def axis_of_the_sum_lost(scores):
    """Your sums are in one row, and the columns are divided by them. Look at their shape: one axis is lost."""
    shifted = (scores - scores.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum(-1)


def both_axes_lost(scores):
    """Your maxima and sums are in one row each and are combined with the wrong numbers. Look at their shape: one axis
    is lost."""
    shifted = (scores - scores.amax(-1)).exp()
    return shifted / shifted.sum(-1)


def scaled_too(scores):
    """You also divide the scores by the root of their number. A softmax takes them as they come, scaled or not."""
    return torch.softmax(scores / scores.shape[-1] ** 0.5, -1)


def changes_the_scores(scores):
    """The weights are right, but the scores are changed in place, and the caller still needs them. Use a new tensor."""
    scores -= scores.amax(-1, keepdim=True)
    return _normalised(scores)
