def _gains(bleu):
    return bleu[:, 1] - bleu[:, 0]


def absolute_minus_relative(bleu):
    """Your gains have the wrong sign. Look at the order of your subtraction."""
    return -_gains(bleu), (-_gains(bleu)).argmax(0)


def per_cent(bleu):
    """You return the gains in per cent of the absolute scheme's score. Return them in BLEU points."""
    gains = 100 * _gains(bleu) / bleu[:, 0]
    return gains, gains.argmax(0)


def model_against_model(bleu):
    """You subtract the first model from the last. Compare the two schemes, which are on the middle axis."""
    gains = bleu[-1] - bleu[0]
    return gains, gains.argmax(0)


def pair_against_pair(bleu):
    """You compare language pairs, whose BLEU scores are not on a common scale. Compare the two schemes, which are on
    the middle axis."""
    gains = bleu[..., 1] - bleu[..., 0]
    return gains, gains.argmax(0)


def best_score_not_gain(bleu):
    """Your gains are right, but then you return the model with the best score. Return the model that gains most."""
    return _gains(bleu), bleu[:, 1].argmax(0)


def best_pair_not_model(bleu):
    """For each model you return the pair on which it gains most. Return a model for each pair: look at the axis."""
    return _gains(bleu), _gains(bleu).argmax(1)


def least_gain(bleu):
    """Your gains are right, but you return the model that gains least."""
    return _gains(bleu), _gains(bleu).argmin(0)


def mean_over_pairs(bleu):
    """You average over the language pairs. Each pair has its own gain."""
    gains = _gains(bleu).mean(-1)
    return gains, gains.argmax(0)


def one_model_for_all_pairs(bleu):
    """You return one model, the one that gains most on average. Return a model for each pair."""
    return _gains(bleu), _gains(bleu).mean(1).argmax().expand(bleu.shape[2])


def other_order(bleu):
    """You return the models first and the gains second. Return the gains first."""
    return _gains(bleu).argmax(0), _gains(bleu)


def first_against_second(bleu):
    """You subtract the first model from the second. Compare the two schemes, which are on the middle axis."""
    gains = bleu[1] - bleu[0]
    return gains, gains.argmax(0)


def second_against_first(bleu):
    """You subtract the second model from the first. Compare the two schemes, which are on the middle axis."""
    gains = bleu[0] - bleu[1]
    return gains, gains.argmax(0)


def gain_not_model(bleu):
    """Your gains are right, but then you return the largest gain of each pair. Return the number of the model that has
    it."""
    return _gains(bleu), _gains(bleu).amax(0)


def absolute_values(bleu):
    """You return the gains without their sign. If the relative scheme scores less, its gain is negative."""
    gains = _gains(bleu).abs()
    return gains, gains.argmax(0)


def absolute_values_for_the_model(bleu):
    """Your gains are right, but then you return the model with the largest change, up or down. Return the model that
    gains most."""
    return _gains(bleu), _gains(bleu).abs().argmax(0)


def as_a_fraction(bleu):
    """You divide the gains by the absolute scheme's score. Return them in BLEU points."""
    gains = _gains(bleu) / bleu[:, 0]
    return gains, gains.argmax(0)


def ratio_of_the_scores(bleu):
    """You divide one score by the other. A gain in points is a difference."""
    ratio = bleu[:, 1] / bleu[:, 0]
    return ratio, ratio.argmax(0)


def best_absolute_score(bleu):
    """Your gains are right, but then you return the model that scores best with the absolute scheme. Return the model
    that gains most."""
    return _gains(bleu), bleu[:, 0].argmax(0)


def counted_from_one(bleu):
    """Your gains are right, but you count the models from 1. The base model is number 0."""
    return _gains(bleu), _gains(bleu).argmax(0) + 1


def one_best_of_all(bleu):
    """Your gains are right, but you return the index of one entry in the whole table. Return a model for each pair:
    give argmax the axis of the models."""
    return _gains(bleu), _gains(bleu).argmax()


def gains_alone(bleu):
    """You return only the gains, and they are right. The models that gain most are missing."""
    return _gains(bleu)


def pairs_in_rows(bleu):
    """Your gains have a row for each language pair. They should have a row for each model."""
    return _gains(bleu).T, _gains(bleu).argmax(0)


def per_cent_of_the_relative_score(bleu):
    """You return the gains in per cent of the relative scheme's score. Return them in BLEU points."""
    gains = 100 * _gains(bleu) / bleu[:, 1]
    return gains, gains.argmax(0)


def one_number_for_all_pairs(bleu):
    """Your gains are right, but you return one model, the one that gains most on average. Return a model for each
    pair."""
    return _gains(bleu), _gains(bleu).mean(1).argmax()


def best_mean_score(bleu):
    """Your gains are right, but then you return the model whose score, averaged over the schemes, is best. Return the
    model that gains most."""
    return _gains(bleu), bleu.mean(1).argmax(0)
