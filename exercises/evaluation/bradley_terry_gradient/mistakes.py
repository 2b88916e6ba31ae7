import torch
import torch.nn.functional as F


def _d(theta):
    return theta[:, None] - theta


def _right(wins, theta):
    d = _d(theta)
    return (wins * F.logsigmoid(d)).sum(), (wins - (wins + wins.T) * torch.sigmoid(d)).sum(1)


def columns_for_rows(wins, theta):
    """You read the table of wins the wrong way round: the row is that of the winner."""
    return _right(wins.T, theta)


def downhill(wins, theta):
    """Both your results have the wrong sign: they are those of the negative log-likelihood."""
    return tuple(-each for each in _right(wins, theta))


def gradient_downhill(wins, theta):
    """Your gradient has the wrong sign: a model that wins more than expected should go up."""
    total, gradient = _right(wins, theta)
    return total, -gradient


def losses_forgotten(wins, theta):
    """Your gradient only contains the battles that a model has won. Those that it has lost pull it down."""
    return _right(wins, theta)[0], (wins * torch.sigmoid(-_d(theta))).sum(1)


def expected_of_the_wins(wins, theta):
    """In your gradient, the expected wins come from twice the wins of the model. They come from its wins and its
    losses."""
    return _right(wins, theta)[0], (wins - 2 * wins * torch.sigmoid(_d(theta))).sum(1)


def probability_of_the_winner(wins, theta):
    """In your gradient, each win counts σ of the difference. The derivative of log σ(x) is σ(−x)."""
    d = _d(theta)
    pull = wins * torch.sigmoid(d)
    return _right(wins, theta)[0], (pull - pull.T).sum(1)


def without_expectation(wins, theta):
    """Your gradient is the number of wins minus the number of losses. What do the strengths lead one to expect?"""
    return _right(wins, theta)[0], (wins - wins.T).sum(1)


def likelihoods_added(wins, theta):
    """Your first result adds up probabilities. Add up their logarithms."""
    return (wins * torch.sigmoid(_d(theta))).sum(), _right(wins, theta)[1]


def mean_over_battles(wins, theta):
    """You divide by the number of battles. The formula has sums."""
    return tuple(each / wins.sum() for each in _right(wins, theta))


def with_powers_of_ten(wins, theta):
    """You use powers of 10, as on the scale of Elo. σ has a power of e."""
    d = _d(theta) * 2.302585092994046
    return (wins * F.logsigmoid(d)).sum(), (wins - (wins + wins.T) * torch.sigmoid(d)).sum(1)


def upper_half_alone(wins, theta):
    """You go through each pair once and count only the wins of the model with the smaller index."""
    return _right(wins.triu(), theta)


def logarithm_of_a_rounded_probability(wins, theta):
    """If the strengths are far apart, your sum is infinite: the probability is rounded to 0 before its logarithm
    is taken."""
    d = _d(theta)
    logs = torch.where(wins > 0, torch.sigmoid(d).log(), 0)
    return (wins * logs).sum(), _right(wins, theta)[1]


def clamped_probability(wins, theta):
    """If the strengths are far apart, your sum is too close to zero: a rounded probability, or its logarithm, is
    replaced by another number. Work with the logarithm from the start."""
    logs = torch.sigmoid(_d(theta)).clamp(min=1e-12).log()
    return (wins * logs).sum(), _right(wins, theta)[1]


def slope_of_the_sigmoid(wins, theta):
    """Your gradient has σ(1 − σ), the slope of σ, in it. The slope of log σ is 1 − σ."""
    p = torch.sigmoid(_d(theta))
    pull = wins * p * (1 - p)
    return _right(wins, theta)[0], (pull - pull.T).sum(1)


def gradient_of_elo_points(wins, theta):
    """Your gradient is multiplied by ln 10 / 400, as if the strengths were points of Elo. They are not."""
    total, gradient = _right(wins, theta)
    return total, gradient * 2.302585092994046 / 400


def losses_in_the_sum(wins, theta):
    """Your first result takes σ of the wrong difference: for a win of i against j, it is θ of i minus θ of j."""
    return (wins * F.logsigmoid(-_d(theta))).sum(), _right(wins, theta)[1]


def losses_lift(wins, theta):
    """In your gradient, the battles that a model has lost lift it. They pull it down."""
    pull = wins * torch.sigmoid(-_d(theta))
    return _right(wins, theta)[0], (pull + pull.T).sum(1)
