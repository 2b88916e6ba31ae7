import torch


def _rated(n_models, pairs, scores, k, start, changes):
    ratings = torch.full((n_models,), start, dtype=torch.float64)
    for (a, b), score in zip(pairs.tolist(), scores.tolist(), strict=True):
        up, down = changes(float(ratings[a]), float(ratings[b]), score, k)
        ratings[a] += up
        ratings[b] += down
    return ratings


def _expected(own, other, scale=400.0, base=10.0):
    return 1 / (1 + base ** ((other - own) / scale))


def b_first(n_models, pairs, scores, k, start):
    """You have turned the order round, so that B is updated first, and A's expectation comes from B's new rating. Both
    have to come from the ratings before the battle."""

    def changes(a, b, score, k):
        down = k * (1 - score - _expected(b, a))
        return k * (score - _expected(a, b + down)), down

    return _rated(n_models, pairs, scores, k, start, changes)


def same_sign(n_models, pairs, scores, k, start):
    """Both models gain or lose together. What A gains, B loses."""

    def changes(a, b, score, k):
        up = k * (score - _expected(a, b))
        return up, up

    return _rated(n_models, pairs, scores, k, start, changes)


def winner_alone(n_models, pairs, scores, k, start):
    """Only the first model of a pair moves. The second one loses what it gains."""
    return _rated(n_models, pairs, scores, k, start, lambda a, b, score, k: (k * (score - _expected(a, b)), 0.0))


def ratings_of_the_start(n_models, pairs, scores, k, start):
    """Your expectations come from the ratings at the start, before all battles. They come from those before each
    battle."""

    def changes(a, b, score, k):
        return k * (score - 0.5), -k * (score - 0.5)

    return _rated(n_models, pairs, scores, k, start, changes)


def expectation_turned_round(n_models, pairs, scores, k, start):
    """The sign in your exponent is wrong: a model with the higher rating should be expected to win."""

    def changes(a, b, score, k):
        up = k * (score - _expected(b, a))
        return up, -up

    return _rated(n_models, pairs, scores, k, start, changes)


def expectation_of_the_same(n_models, pairs, scores, k, start):
    """For B, you take the expectation of A. It is 1 minus that."""

    def changes(a, b, score, k):
        return k * (score - _expected(a, b)), k * (1 - score - _expected(a, b))

    return _rated(n_models, pairs, scores, k, start, changes)


def powers_of_e(n_models, pairs, scores, k, start):
    """Your expectation is a power of e. The rule has a power of 10."""

    def changes(a, b, score, k):
        up = k * (score - _expected(a, b, base=2.718281828459045))
        return up, -up

    return _rated(n_models, pairs, scores, k, start, changes)


def without_an_expectation(n_models, pairs, scores, k, start):
    """You add the score without subtracting what was expected of the model."""
    return _rated(n_models, pairs, scores, k, start, lambda a, b, score, k: (k * score, k * (1 - score)))


def shifted_to_the_mean(n_models, pairs, scores, k, start):
    """You shift all ratings at the end, so that their mean is right. The single battles are still updated wrongly."""

    def changes(a, b, score, k):
        up = k * (score - _expected(a, b))
        return up, k * (1 - score - _expected(b, a + up))

    ratings = _rated(n_models, pairs, scores, k, start, changes)
    return ratings - ratings.mean() + start


def half_each(n_models, pairs, scores, k, start):
    """Each model moves by half of what it should."""

    def changes(a, b, score, k):
        up = k * (score - _expected(a, b)) / 2
        return up, -up

    return _rated(n_models, pairs, scores, k, start, changes)


def backwards(n_models, pairs, scores, k, start):
    """You go through the battles from the last to the first."""

    def changes(a, b, score, k):
        up = k * (score - _expected(a, b))
        return up, -up

    return _rated(n_models, pairs.flip(0), scores.flip(0), k, start, changes)


def ties_as_losses(n_models, pairs, scores, k, start):
    """You count a tie as a loss of the first model. It is half a win."""

    def changes(a, b, score, k):
        up = k * ((score == 1) - _expected(a, b))
        return up, -up

    return _rated(n_models, pairs, scores, k, start, changes)


def ties_left_out(n_models, pairs, scores, k, start):
    """You leave out ties. A tie moves the ratings, too, unless the models are equal."""

    def changes(a, b, score, k):
        up = k * (score - _expected(a, b)) * (score != 0.5)
        return up, -up

    return _rated(n_models, pairs, scores, k, start, changes)


def score_of_a_for_b(n_models, pairs, scores, k, start):
    """For B, you take the score of A. It is 1 minus that."""

    def changes(a, b, score, k):
        return k * (score - _expected(a, b)), k * (score - _expected(b, a))

    return _rated(n_models, pairs, scores, k, start, changes)
