RIGHT = [0.3, 0.009, 1, 3.16, 1.26, 0.32]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def weights_exchanged():
    """Your moments weigh the new gradient with β. It has the weight 1 − β."""
    return [2.7, 8.991, 1, 0.9, 1, 0.95]


def gradient_not_squared():
    """Your second moment is made from the gradient itself. It is made from its square."""
    return _with(n2=0.003, n4=5.48)


def gradient_not_squared_updates_right():
    """Only your second number is wrong. The second moment is made from the square of the gradient."""
    return _with(n2=0.003)


def first_moment_squared():
    """Your second moment is made from the square of the first moment. It is made from the square of the gradient."""
    return _with(n2=0.00009, n4=31.62)


def no_root():
    """Your updates divide by the second moment. They should divide by its root."""
    return _with(n3=0.33, n4=33.33, n5=0.53, n6=0.33)


def corrections_exchanged():
    """You have exchanged the first update with and without bias correction."""
    return _with(n3=3.16, n4=1)


def gradient_left_in():
    """Your third number contains the gradient. Divide by the root of the second moment: what remains of the 3?"""
    return _with(n3=3)


def only_first_corrected():
    """Only your third number is wrong: in it, the second moment is not corrected."""
    return _with(n3=31.62)


def only_second_corrected():
    """Only your third number is wrong: in it, the first moment is not corrected."""
    return _with(n3=0.1)


def too_small_for_both():
    """Only your fourth number is wrong: it is a tenth, as if only the numerator were too small at first. The
    denominator is too small, too, and by another factor."""
    return _with(n4=0.1)


def equal_rates_in_both():
    """Only your fourth number is wrong: it is the answer to question 6, with equal βs."""
    return _with(n4=0.32)


def rates_kept_in_the_last():
    """Only your sixth number is wrong: it is the answer to question 4. Which number is β₂ in question 6?"""
    return _with(n6=3.16)


def equal_rates_cancel():
    """Only your sixth number is wrong. The two factors are equal, but there is a root over one of them."""
    return _with(n6=1)


def late_is_corrected():
    """Only your fifth number is wrong. After 1,000 steps, is 0.999 to the power of 1,000 negligible?"""
    return _with(n5=1)


def late_without_root():
    """Only your fifth number is wrong. There is a root over 1 − 0.368."""
    return _with(n5=1.58)


def late_turned_round():
    """Only your fifth number is wrong. Is the denominator too small or too large after 1,000 steps, and what does that
    do to the update?"""
    return _with(n5=0.8)


def power_taken_for_the_rest():
    """Only your fifth number is wrong: you divide by the root of 0.368. That is what is missing from v, and not what is
    there."""
    return _with(n5=1.65)


def with_the_learning_rate():
    """Your updates contain the default learning rate. Divide them by α, or leave it out."""
    return [0.3, 0.009, 0.001, 0.00316, 0.00126, 0.00032]


def one_decimal():
    """Your numbers are right as far as they go. Return the updates to two decimals."""
    return _with(n4=3.2, n5=1.3, n6=0.3)


def signs():
    """An update is subtracted from the weight. Its own sign is that of the gradient, so leave out the minus signs."""
    return _with(n3=-1, n4=-3.16, n5=-1.26, n6=-0.32)


def second_moment_rounded():
    """Only your second number is wrong: it is to be given to three decimals."""
    return _with(n2=0.01)
