RIGHT = [5.35, 5.12, 4.3, 4.5, 4.3]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def logarithms_for_perplexities():
    """You take the numbers of the table for perplexities. They are the logarithms."""
    return [1.677, 1.633, 2.6, 2.7, 1.6]


def percent_of_the_logarithms():
    """Your perplexities are right, but your percentages compare their logarithms."""
    return _with(n3=2.6, n4=2.7, n5=1.6)


def powers_of_two():
    """Your perplexities are powers of 2. The numbers are in nats, so the base is e."""
    return [2**1.677, 2**1.633, 3.0, 3.1, 3.0]


def powers_of_ten():
    """Your perplexities are powers of 10. The numbers are in nats, so the base is e."""
    return [10**1.677, 10**1.633, 9.6, 10.7, 9.6]


def same_divisor():
    """Only your fourth number is wrong. Seen from GEGLU, what is 100 %?"""
    return _with(n4=4.3)


def divisors_exchanged():
    """Your third and fourth numbers are exchanged. Lower than ReLU means that ReLU is 100 %."""
    return _with(n3=4.5, n4=4.3)


def always_from_geglu():
    """All your percentages take the smaller perplexity as 100 %. In the third and the fifth, the old and larger one
    is."""
    return _with(n3=4.5, n5=4.5)


def gap_as_percent():
    """You take the gap in nats, 0.044, as 4.4 percent. That is nearly right, but the ratio is e to the power of it."""
    return _with(n3=4.4, n4=4.4, n5=4.4)


def gap_grows_with_perplexity():
    """Only your fifth number is wrong. The perplexities there are larger, and so is their difference, by the same
    factor."""
    return _with(n5=1.6)


def difference_not_divided():
    """Only your fifth number is wrong. It is the difference of the two perplexities, and not a percentage of the first
    of them."""
    return _with(n5=0.6)


def fractions():
    """Your percentages are fractions. Multiply them by 100."""
    return [5.35, 5.12, 0.043, 0.045, 0.043]


def signs():
    """A perplexity that is lower by 4 percent is lower by a positive number. Leave out the minus signs."""
    return _with(n3=-4.3, n5=-4.3)


def ratios():
    """You return ratios in percent. By how many percent do they differ from 100?"""
    return _with(n3=95.7, n4=104.5, n5=95.7)


def models_exchanged():
    """Your perplexities are in the wrong order: ReLU comes first."""
    return _with(n1=5.12, n2=5.35)


def one_decimal():
    """Your perplexities are right as far as they go. Return them to two decimals."""
    return _with(n1=5.3, n2=5.1)


def whole_percentages():
    """Your percentages are right as far as they go. Return them to one decimal."""
    return _with(n3=4, n4=4, n5=4)
