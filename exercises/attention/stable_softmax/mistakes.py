import torch


def _normalised(shifted):
    return shifted.exp() / shifted.exp().sum(-1, keepdim=True)


def nothing_subtracted(scores):
    """You take the exponentials of the scores as they are, or of even larger numbers. The exponential of 1000 is too
    large for any float."""
    return _normalised(scores)


def one_maximum_for_all(scores):
    """You subtract one maximum from the whole table. In a row far below it, all exponentials are rounded to zero, and
    the row becomes 0/0. Each row has its own maximum."""
    return _normalised(scores - scores.max())


def maximum_of_each_column(scores):
    """You subtract the maximum of each column, so the scores of one row are shifted by different amounts. Look at the
    axis of the maximum."""
    return _normalised(scores - scores.amax(0))


def minimum_subtracted(scores):
    """You subtract the smallest score of each row. The other scores are then above zero, and a large one still
    overflows."""
    return _normalised(scores - scores.amin(-1, keepdim=True))


def mean_subtracted(scores):
    """You subtract the mean of each row. A score far above the mean still overflows."""
    return _normalised(scores - scores.mean(-1, keepdim=True))


def divided_by_the_maximum(scores):
    """You divide the scores of each row by the largest of them. That changes the differences between the scores, and
    the weights depend on these differences. What else keeps the exponentials small?"""
    return _normalised(scores / scores.amax(-1, keepdim=True))


def scores_clipped(scores):
    """You clip large scores. All scores beyond the limit become equal, and so do their weights."""
    return _normalised(scores.clamp(max=80))


def over_the_queries(scores):
    """Your columns add up to one, but the rows should: the weights of each query sum to one over the keys. Look at the
    axes."""
    return torch.softmax(scores, 0)


def sum_of_each_column(scores):
    """You divide by the sums of the columns. The maximum is right; look at the axis of the sum."""
    shifted = (scores - scores.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum(0)


def one_sum_for_all(scores):
    """You divide by the sum of the whole table. Each row should add up to one on its own."""
    shifted = (scores - scores.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum()


def never_divided(scores):
    """The largest entry in each of your rows is one. A last step is missing: each row should add up to one."""
    return (scores - scores.amax(-1, keepdim=True)).exp()


def no_exponential(scores):
    """You divide the scores themselves by their sum, so weights can be negative. The formula uses the exponentials of
    the scores."""
    return scores / scores.sum(-1, keepdim=True)


def logarithm_of_the_weights(scores):
    """You return the logarithms of the weights. Take their exponentials, or leave out the logarithm."""
    return torch.log_softmax(scores, -1)


def axis_of_the_maximum_lost(scores):
    """Your maxima have lost an axis. They form a single row, so the maximum of the first row is subtracted from the
    first column. Look at their shape."""
    shifted = (scores - scores.amax(-1)).exp()
    return shifted / shifted.sum(-1, keepdim=True)


def axis_of_the_sum_lost(scores):
    """Your sums have lost an axis. They form a single row, so the first column is divided by the sum of the first row.
    Look at their shape."""
    shifted = (scores - scores.amax(-1, keepdim=True)).exp()
    return shifted / shifted.sum(-1)


def both_axes_lost(scores):
    """Your maxima and your sums have lost an axis. Each of them forms a single row, so it is combined with the columns
    instead of the rows. Look at their shapes."""
    shifted = (scores - scores.amax(-1)).exp()
    return shifted / shifted.sum(-1)


def scaled_too(scores):
    """You also divide the scores by the root of their number. A softmax uses the scores as they are."""
    return torch.softmax(scores / scores.shape[-1] ** 0.5, -1)


def changes_the_scores(scores):
    """The weights are right, but you change the scores in place, and the caller still needs them. Make a new tensor."""
    scores -= scores.amax(-1, keepdim=True)
    return _normalised(scores)


def divided_by_the_largest_size(scores):
    """You divide the scores of each row by the largest absolute value. That changes the differences between the scores,
    and the weights depend on these differences. What else keeps the exponentials small?"""
    return _normalised(scores / scores.abs().amax(-1, keepdim=True))


def divided_by_the_largest_of_all(scores):
    """You divide all scores by the largest of them. That changes the differences between the scores, and the weights
    depend on these differences. What else keeps the exponentials small?"""
    return _normalised(scores / scores.max())


def nan_replaced(scores):
    """You replace NaN by 0 after an overflow. By then the weights of that row are lost: keep the exponentials from
    overflowing."""
    return _normalised(scores).nan_to_num(0.0)


def shifted_only_above(scores):
    """You subtract the maximum in the numerator but not in the denominator. Both must use the same exponentials."""
    return (scores - scores.amax(-1, keepdim=True)).exp() / scores.exp().sum(-1, keepdim=True)


def shifted_only_below(scores):
    """You subtract the maximum in the denominator but not in the numerator. Both must use the same exponentials."""
    return scores.exp() / (scores - scores.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)


def one_softmax_for_all(scores):
    """Your weights add up to one over the whole table. Each row should add up to one on its own."""
    return _normalised((scores - scores.max()).flatten()).view_as(scores)


def divided_by_the_mean(scores):
    """You divide by the mean of the exponentials, so each row adds up to the number of keys. It should add up to
    one."""
    shifted = (scores - scores.amax(-1, keepdim=True)).exp()
    return shifted / shifted.mean(-1, keepdim=True)


def softmax_twice(scores):
    """You normalise a second time: the weights go through another softmax, which makes them more equal. Once is
    enough."""
    return torch.softmax(torch.softmax(scores, -1), -1)


def largest_size_subtracted(scores):
    """You subtract the largest absolute value. In a row of negative scores that makes the scores even lower: all
    exponentials are rounded to zero, and the row becomes 0/0."""
    return _normalised(scores - scores.abs().amax(-1, keepdim=True))


def sign_turned(scores):
    """The smallest score of a row gets the largest weight. Look at the sign inside the exponential."""
    return _normalised(scores.amin(-1, keepdim=True) - scores)


def subtracted_from_the_maximum(scores):
    """You subtract the scores from their maximum, so the smallest score gets the largest exponential, which can
    overflow. Reverse the difference."""
    return _normalised(scores.amax(-1, keepdim=True) - scores)


def standardised(scores):
    """You divide the scores of each row by their standard deviation. The weights depend on the differences between the
    scores, so shift the scores without rescaling them."""
    return _normalised((scores - scores.mean(-1, keepdim=True)) / scores.std(-1, keepdim=True))


def squeezed_between_0_and_1(scores):
    """You rescale the scores of each row to the range from 0 to 1. The weights depend on the differences between the
    scores, so shift the scores without rescaling them."""
    shifted = scores - scores.amin(-1, keepdim=True)
    return _normalised(shifted / shifted.amax(-1, keepdim=True))


def clipped_at_a_small_number(scores):
    """You clip scores that are large or far below zero. All scores beyond the limit become equal, and so do their
    weights."""
    return _normalised(scores.clamp(-20, 20))


def powers_of_two(scores):
    """Your weights are made of powers of two. The formula uses powers of e."""
    shifted = 2 ** (scores - scores.amax(-1, keepdim=True))
    return shifted / shifted.sum(-1, keepdim=True)


def scores_clipped_on_both_sides(scores):
    """You clip scores that are large or far below zero. All scores beyond a limit become equal, and so do their
    weights."""
    return _normalised(scores.clamp(-80, 80))
