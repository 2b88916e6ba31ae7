import math


def _found(rating_a, rating_b, nu, scale=800.0, base=10.0, tie_share=0.5):
    power = base ** ((rating_a - rating_b) / scale)
    total = power + nu + 1 / power
    return power / total, nu / total, 1 / power / total, (power + tie_share * nu) / total


def scale_of_400(rating_a, rating_b, nu):
    """Your difference is divided by 400. In this form, where B has the opposite power, it is divided by 800."""
    return _found(rating_a, rating_b, nu, scale=400.0)


def powers_of_e(rating_a, rating_b, nu):
    """You use powers of e. The ratings belong to powers of 10."""
    return _found(rating_a, rating_b, nu, base=math.e)


def exchanged(rating_a, rating_b, nu):
    """You have exchanged A and B: the higher rating should win more often."""
    return _found(rating_b, rating_a, nu)


def ties_count_nothing(rating_a, rating_b, nu):
    """Your expected score is the probability of a win. A tie counts as half a win."""
    return _found(rating_a, rating_b, nu, tie_share=0.0)


def ties_count_fully(rating_a, rating_b, nu):
    """In your expected score, a tie counts as a whole win."""
    return _found(rating_a, rating_b, nu, tie_share=1.0)


def score_without_ties(rating_a, rating_b, nu):
    """Your expected score is that of Bradley and Terry, who have no ties. Here it is the chance of a win plus half that
    of a tie."""
    return *_found(rating_a, rating_b, nu)[:3], _found(rating_a, rating_b, 0)[0]


def not_divided(rating_a, rating_b, nu):
    """Your numbers are in the right proportion, but do not add up to 1. Divide them by their sum."""
    power = 10 ** ((rating_a - rating_b) / 800)
    return power, nu, 1 / power, power + nu / 2


def tie_left_out_of_the_sum(rating_a, rating_b, nu):
    """You divide by the terms of A and B alone. The tie belongs to the sum."""
    power = 10 ** ((rating_a - rating_b) / 800)
    total = power + 1 / power
    return power / total, nu / total, 1 / power / total, (power + nu / 2) / total


def tie_is_nu(rating_a, rating_b, nu):
    """Your tie parameter is used as a probability. It is a proportion, beside the two powers."""
    power = 10 ** ((rating_a - rating_b) / 800)
    total = power + 1 / power
    won, lost = ((1 - nu) * each / total for each in (power, 1 / power))
    return won, nu, lost, won + nu / 2


def order_of_outcomes(rating_a, rating_b, nu):
    """Your three probabilities are in another order: a win of A, a tie, a win of B."""
    won, tie, lost, score = _found(rating_a, rating_b, nu)
    return won, lost, tie, score


def strengths_without_the_root(rating_a, rating_b, nu):
    """You give B the power 0, and A the whole difference. Then ties are not the same for both: the tie needs the root
    of the product of the strengths."""
    power = 10 ** ((rating_a - rating_b) / 400)
    total = power + nu + 1
    return power / total, nu / total, 1 / total, (power + nu / 2) / total


def win_minus_loss(rating_a, rating_b, nu):
    """Your expected score is the chance of a win minus that of a loss. A loss counts 0, and a tie counts as half a
    win."""
    won, tie, lost, _ = _found(rating_a, rating_b, nu)
    return won, tie, lost, won - lost
