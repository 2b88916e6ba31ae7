import torch


def _normalised(shifted):
    return shifted.exp() / shifted.exp().sum(-1, keepdim=True)


def nothing_subtracted(scores):
    """You take the exponentials of the scores as they are, and that of 1000 is too large for any float."""
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
    """You divide the scores of a row by the largest of them. That changes how far they lie apart, which is what the
    weights show. What else keeps exponentials small?"""
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


def divided_by_the_largest_size(scores):
    """You divide the scores of a row by the largest of their sizes. That changes how far they lie apart, which is what
    the weights show. What else keeps exponentials small?"""
    return _normalised(scores / scores.abs().amax(-1, keepdim=True))


def divided_by_the_largest_of_all(scores):
    """You divide all scores by the largest of them. That changes how far they lie apart, which is what the weights
    show. What else keeps exponentials small?"""
    return _normalised(scores / scores.max())


def nan_replaced(scores):
    """You repair what has overflowed by putting 0 in place of NaN. The weights of that row are lost by then: keep the
    exponentials from overflowing."""
    return _normalised(scores).nan_to_num(0.0)


def shifted_only_above(scores):
    """You subtract the maximum above the fraction line but not below it. Both must use the same exponentials."""
    return (scores - scores.amax(-1, keepdim=True)).exp() / scores.exp().sum(-1, keepdim=True)


def shifted_only_below(scores):
    """You subtract the maximum below the fraction line but not above it. Both must use the same exponentials."""
    return scores.exp() / (scores - scores.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)


def one_softmax_for_all(scores):
    """Your weights add up to one over the whole table. Each row should add up to one by itself."""
    return _normalised((scores - scores.max()).flatten()).view_as(scores)


def divided_by_the_mean(scores):
    """You divide by the mean of the exponentials. Then a row adds up to the number of its keys instead of one."""
    shifted = (scores - scores.amax(-1, keepdim=True)).exp()
    return shifted / shifted.mean(-1, keepdim=True)


def softmax_twice(scores):
    """You normalise a second time: the weights themselves go through another softmax, which makes them more equal. Once
    is enough."""
    return torch.softmax(torch.softmax(scores, -1), -1)


def largest_size_subtracted(scores):
    """You subtract the largest size, without its sign. In a row of negative scores that makes them smaller still, and
    all exponentials vanish: 0/0."""
    return _normalised(scores - scores.abs().amax(-1, keepdim=True))


def sign_turned(scores):
    """The smallest score of a row gets the largest weight. Look at the sign of what stands in the exponential."""
    return _normalised(scores.amin(-1, keepdim=True) - scores)


def subtracted_from_the_maximum(scores):
    """You subtract the scores from their maximum, so the smallest gets the largest exponential, and it can overflow.
    Turn the difference round."""
    return _normalised(scores.amax(-1, keepdim=True) - scores)


def standardised(scores):
    """You divide the scores of a row by their spread. How far they lie apart is what the weights show; a shift alone is
    enough."""
    return _normalised((scores - scores.mean(-1, keepdim=True)) / scores.std(-1, keepdim=True))


def squeezed_between_0_and_1(scores):
    """You squeeze the scores of a row between 0 and 1. How far they lie apart is what the weights show; a shift alone
    is enough."""
    shifted = scores - scores.amin(-1, keepdim=True)
    return _normalised(shifted / shifted.amax(-1, keepdim=True))


def clipped_at_a_small_number(scores):
    """You clip scores that are large, or far below zero. All that lie beyond the limit become equal, and with them
    their weights."""
    return _normalised(scores.clamp(-20, 20))


def powers_of_two(scores):
    """Your weights are made of powers of two. The formula has powers of e."""
    shifted = 2 ** (scores - scores.amax(-1, keepdim=True))
    return shifted / shifted.sum(-1, keepdim=True)


def scores_clipped_on_both_sides(scores):
    """You clip scores that are large, or far below zero. All that lie beyond a limit become equal, and with them their
    weights."""
    return _normalised(scores.clamp(-80, 80))
