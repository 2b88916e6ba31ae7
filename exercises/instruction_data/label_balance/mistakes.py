import math
from collections import Counter


def _balance(
    labels,
    *,
    clean=lambda label: label.strip().lower(),
    without_empty=True,
    largest=max,
    number=lambda p: math.exp(-sum(each * math.log(each) for each in p)),
):
    counts = Counter(clean(label) for label in labels if label.strip() or not without_empty)
    p = [n / sum(counts.values()) for n in counts.values()]
    return largest(p), number(p)


def as_written(labels):
    """You count labels as they are written. Capital letters and white space at the ends make no difference."""
    return _balance(labels, clean=lambda label: label)


def capitals(labels):
    """You distinguish capital and small letters."""
    return _balance(labels, clean=str.strip)


def white_space(labels):
    """You distinguish labels with and without white space at their ends."""
    return _balance(labels, clean=str.lower)


def empty_counted(labels):
    """You count empty labels. They are left out."""
    return _balance(labels, without_empty=False)


def empty_in_the_sum(labels):
    """You divide by the number of all labels, of which some are empty, so that the shares do not sum to 1."""
    counts = Counter(label.strip().lower() for label in labels if label.strip())
    p = [n / len(labels) for n in counts.values()]
    return max(p), math.exp(-sum(each * math.log(each) for each in p))


def entropy(labels):
    """Your second number is the entropy itself. The effective number is its exponential."""
    return _balance(labels, number=lambda p: -sum(each * math.log(each) for each in p))


def entropy_in_bits(labels):
    """Your second number is the entropy, in bits. The effective number is an exponential."""
    return _balance(labels, number=lambda p: -sum(each * math.log2(each) for each in p))


def bases_mixed(labels):
    """The bases of your logarithm and of your power differ: an entropy in bits belongs to a power of 2."""
    return _balance(labels, number=lambda p: math.exp(-sum(each * math.log2(each) for each in p)))


def two_to_the_nats(labels):
    """The bases of your logarithm and of your power differ: with the natural logarithm, take exp."""
    return _balance(labels, number=lambda p: 2 ** -sum(each * math.log(each) for each in p))


def sign(labels):
    """The sign in your exponent is wrong: the effective number is at least 1."""
    return _balance(labels, number=lambda p: math.exp(sum(each * math.log(each) for each in p)))


def number_of_labels(labels):
    """Your second number is how many different labels there are. Rare ones should count less."""
    return _balance(labels, number=lambda p: float(len(p)))


def inverse_squares(labels):
    """Your second number is 1 divided by the sum of the squared shares, which is another effective number."""
    return _balance(labels, number=lambda p: 1 / sum(each * each for each in p))


def balance_between_0_and_1(labels):
    """You divide by the number of labels, or the entropy by its maximum. The effective number lies between 1 and the
    number of labels."""
    return _balance(labels, number=lambda p: math.exp(-sum(each * math.log(each) for each in p)) / len(p))


def count_for_share(labels):
    """Your first number is a count. Divide it by the number of labels that are not empty."""
    counts = Counter(label.strip().lower() for label in labels if label.strip())
    return float(max(counts.values())), _balance(labels)[1]


def smallest_share(labels):
    """Your first number is the smallest share."""
    return _balance(labels, largest=min)


def exchanged(labels):
    """You return the two numbers in the wrong order."""
    return _balance(labels)[::-1]


def only_spaces(labels):
    """You take spaces away from the ends of labels, but not line breaks."""
    return _balance(labels, clean=lambda label: label.strip(" ").lower())


def spaces_inside(labels):
    """You also take away the spaces inside of labels. So labels become the same that are different."""
    return _balance(labels, clean=lambda label: "".join(label.split()).lower())


def punctuation(labels):
    """You take away more than white space. Labels with and without a full stop are different here."""
    return _balance(labels, clean=lambda label: label.strip(" \n\t.,!").lower())
