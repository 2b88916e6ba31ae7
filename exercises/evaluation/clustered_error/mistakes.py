import torch


def _parts(scores, texts):
    """The deviations, and those of each text."""
    deviations = (scores - scores.mean()).double()
    return deviations, [deviations[texts == text] for text in texts.unique()]


def _errors(scores, texts, factor=lambda g: g / (g - 1), square=lambda d: d.sum() ** 2, n=None):
    deviations, groups = _parts(scores, texts)
    plain = deviations.square().sum() / len(scores) / (len(scores) - 1)
    total = sum(float(square(group)) for group in groups)
    return float(plain) ** 0.5, (factor(len(groups)) * total) ** 0.5 / (n or len(scores))


def squared_first(scores, texts):
    """In your second number, you square the deviations before you add up those of a text. Add them up first."""
    return _errors(scores, texts, square=lambda d: d.square().sum())


def factor_forgotten(scores, texts):
    """In your second number, the factor G / (G − 1) is missing."""
    return _errors(scores, texts, factor=lambda g: 1)


def questions_in_the_factor(scores, texts):
    """In your second number, the factor has the number of questions in it. G is the number of texts."""
    return _errors(scores, texts, factor=lambda g: len(scores) / (len(scores) - 1))


def largest_number_for_g(scores, texts):
    """You take the largest number in `texts` for the number of texts. Count the different ones."""
    return _errors(scores, texts, factor=lambda g: abs((int(texts.max()) + 1) / (int(texts.max()) or 1)))


def divided_by_texts(scores, texts):
    """In your second number, you divide by the number of texts. It is the number of questions."""
    return _errors(scores, texts, n=len(texts.unique()))


def means_of_texts(scores, texts):
    """Your second number is the standard error of the mean over the texts' means. Texts with more questions count more
    here, as they do in the mean score."""
    means = torch.stack([scores[texts == text].mean() for text in texts.unique()]).double()
    return _errors(scores, texts)[0], float(means.std() / len(means) ** 0.5)


def deviations_from_the_text(scores, texts):
    """In your second number, you take the deviations from the mean of the text. They are from the mean of all
    scores."""
    within = sum(float((d - d.mean()).square().sum()) for d in _parts(scores, texts)[1])
    return _errors(scores, texts)[0], within**0.5 / len(scores)


def divided_by_n(scores, texts):
    """In your first number, you divide the sum of the squares by n². It is n (n − 1)."""
    return float(scores.double().std(correction=0)) / len(scores) ** 0.5, _errors(scores, texts)[1]


def standard_deviation(scores, texts):
    """Your first number is the standard deviation of the scores. That of their mean is smaller, by the root of n."""
    return float(scores.double().std()), _errors(scores, texts)[1]


def same_twice(scores, texts):
    """Both your numbers are the standard error of independent questions."""
    return (_errors(scores, texts)[0],) * 2


def roots_forgotten(scores, texts):
    """Your numbers are variances. The roots are missing."""
    return tuple(error**2 for error in _errors(scores, texts))


def n_inside_the_root(scores, texts):
    """In your second number, you divide by the root of n. The formula divides by n outside of the root."""
    return _errors(scores, texts, n=len(scores) ** 0.5)


def exchanged(scores, texts):
    """Your two numbers are exchanged: that of independent questions comes first."""
    return _errors(scores, texts)[::-1]


def neighbours_alone(scores, texts):
    """You take a text to end where the number changes. The questions of a text need not stand beside each other."""
    changes = torch.cat([torch.zeros(1, dtype=torch.long), (texts.diff() != 0).long()]).cumsum(0)
    return _errors(scores, changes)


def sums_of_scores(scores, texts):
    """In your second number, you add up the scores of a text. Subtract the mean of all scores from each first."""
    sums = sum(float(scores[texts == text].sum()) ** 2 for text in texts.unique())
    g = len(texts.unique())
    return _errors(scores, texts)[0], (g / (g - 1) * sums) ** 0.5 / len(scores)


def proportion(scores, texts):
    """Your first number is the root of m (1 − m) / n with the mean m, which is meant for scores of 0 or 1. The formula
    is for any scores, and divides by n (n − 1)."""
    mean = float(scores.mean())
    return (mean * (1 - mean) / len(scores)) ** 0.5, _errors(scores, texts)[1]
