def _gains(bleu):
    return bleu[:, 1] - bleu[:, 0]


def absolute_minus_relative(bleu):
    """Your gains have the wrong sign. Look at the order of your subtraction."""
    return -_gains(bleu), (-_gains(bleu)).argmax(0)


def per_cent(bleu):
    """You return the gains in per cent of the absolute scheme's score. Return BLEU points."""
    gains = 100 * _gains(bleu) / bleu[:, 0]
    return gains, gains.argmax(0)


def model_against_model(bleu):
    """You compare the last model with the first. Compare the two schemes: that is the middle axis."""
    gains = bleu[-1] - bleu[0]
    return gains, gains.argmax(0)


def pair_against_pair(bleu):
    """You compare languages with each other, whose BLEU scores have no common scale. Schemes are on the middle axis."""
    gains = bleu[..., 1] - bleu[..., 0]
    return gains, gains.argmax(0)


def best_score_not_gain(bleu):
    """Your gains are right, but then you name the model with the best score. Name the one that gains most."""
    return _gains(bleu), bleu[:, 1].argmax(0)


def best_pair_not_model(bleu):
    """You name for each model the pair on which it gains most. Name the model for each pair: look at the axis."""
    return _gains(bleu), _gains(bleu).argmax(1)


def least_gain(bleu):
    """Your gains are right, but you name the model that gains least."""
    return _gains(bleu), _gains(bleu).argmin(0)


def mean_over_pairs(bleu):
    """You average over the languages. Each pair has a gain of its own."""
    gains = _gains(bleu).mean(-1)
    return gains, gains.argmax(0)


def one_model_for_all_pairs(bleu):
    """You name one model, the one that gains most on average. Each pair has its own."""
    return _gains(bleu), _gains(bleu).mean(1).argmax().expand(bleu.shape[2])


def other_order(bleu):
    """You return the models first and the gains second. Return the gains first."""
    return _gains(bleu).argmax(0), _gains(bleu)
