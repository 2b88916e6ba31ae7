import math


def _within(ratio):
    return math.erf(ratio / math.sqrt(2))


def _effect(n_questions, shared):
    return 1 + (n_questions - 1) * shared


def promised(n_texts, n_questions, shared):
    """Your first number is the 95 % that the interval promises. The questions of a text have a part in common, so it is
    right less often."""
    return _within(1.96), _within(1.96)


def misses(n_texts, n_questions, shared):
    """Your numbers are the probabilities of a miss. Say how often the interval contains the truth."""
    return 1 - _within(1.96 / _effect(n_questions, shared) ** 0.5), 1 - _within(1.96)


def exchanged(n_texts, n_questions, shared):
    """Your two numbers are exchanged: the first one is for all questions."""
    return _within(1.96), _within(1.96 / _effect(n_questions, shared) ** 0.5)


def same_twice(n_texts, n_questions, shared):
    """Your second number is the first one again. With one question for each text, the scores are independent."""
    return (_within(1.96 / _effect(n_questions, shared) ** 0.5),) * 2


def factor_of_the_deviation(n_texts, n_questions, shared):
    """Your first number divides the interval by the design effect. That is a factor of the variance; take its root."""
    return _within(1.96 / _effect(n_questions, shared)), _within(1.96)


def variances_as_deviations(n_texts, n_questions, shared):
    """In your first number, the parts have too small a spread: `shared` is a variance, so its root is the standard
    deviation."""
    return _within(1.96 / (n_questions * shared**2 + (1 - shared) ** 2) ** 0.5), _within(1.96)


def text_alone(n_texts, n_questions, shared):
    """Your first number is that of questions which are answered alike throughout a text. A part belongs to each
    question."""
    return _within(1.96 / n_questions**0.5), _within(1.96)


def one_question_with_a_narrow_interval(n_texts, n_questions, shared):
    """Your second interval is as narrow as the first one. With one question for each text, there are fewer scores."""
    return _within(1.96 / _effect(n_questions, shared) ** 0.5), _within(1.96 / n_questions**0.5)


def variances_as_deviations_throughout(n_texts, n_questions, shared):
    """In both your numbers, the parts have too small a spread: `shared` and 1 − `shared` are variances, so their roots
    are the standard deviations."""
    text, question = shared**2, (1 - shared) ** 2
    return _within(1.96 / (n_questions * text + question) ** 0.5), _within(1.96 / (text + question) ** 0.5)


def one_part_for_all_texts(n_texts, n_questions, shared):
    """You draw one part for all texts of a benchmark together. Each text has its own."""
    first, second = (n * shared + 1 - shared for n in (n_texts * n_questions, n_texts))
    return _within(1.96 / first**0.5), _within(1.96 / second**0.5)
