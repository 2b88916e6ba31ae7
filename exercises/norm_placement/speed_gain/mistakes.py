RIGHT = [5.14, 4.89, 2.0, 245, 34.2]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def same_gain_twice():
    """Only your second number is wrong: it repeats the first. Steps per second and seconds per step are not the same
    thing: a step takes 3.50/3.68 of its time."""
    return _with(n2=5.14)


def first_gain_for_the_time():
    """Your second number repeats the first, and your third one follows from it. Steps per second and seconds per step
    are not the same thing: a step takes 3.50/3.68 of its time."""
    return _with(n2=5.14, n3=2.1)


def fall_with_a_sign():
    """Only the sign of your second number is wrong. The time falls by a positive number of percent."""
    return _with(n2=-4.89)


def time_for_speed():
    """Only your first number is wrong: it is the time that is saved. Divide by the number of steps with LayerNorm."""
    return _with(n1=4.89)


def gains_exchanged():
    """Your first two numbers are exchanged. Which of them compares with 3.50, and which with 3.68?"""
    return _with(n1=4.89, n2=5.14)


def fractions():
    """Your percentages are given as fractions. 5 % is 5 here and not 0.05."""
    return _with(n1=0.05, n2=0.05, n5=0.3)


def first_two_as_fractions():
    """Your first two numbers are given as fractions. 5 % is 5 here and not 0.05."""
    return _with(n1=0.05, n2=0.05)


def difference_of_steps():
    """Only your first number is wrong: it is the difference of the steps per second. Divide it by the steps with
    LayerNorm."""
    return _with(n1=0.18)


def quotient_for_gain():
    """Your first two numbers are quotients, in percent. By how many percent do they differ from 100?"""
    return _with(n1=105.14, n2=95.11)


def quotients_for_all_gains():
    """Three of your numbers, the first two and the last, are quotients, in percent. By how many percent do they differ
    from 100?"""
    return _with(n1=105.14, n2=95.11, n5=134.2)


def time_left_for_time_saved():
    """Only your second number is wrong: it is the time that is left. How much less than 100 % is that?"""
    return _with(n2=95.11)


def one_decimal():
    """Your first two numbers are right as far as they go. Return them to two decimals."""
    return _with(n1=5.1, n2=4.9)


def whole_hours_of_training():
    """Only your third number is wrong: it is the time of the whole training with RMSNorm. By how much is it shorter?"""
    return _with(n3=39.6)


def hours_with_layer_norm():
    """Only your third number is wrong: it is the time of the whole training with LayerNorm. By how much is it shorter
    with RMSNorm?"""
    return _with(n3=41.6)


def hours_by_the_first_gain():
    """Only your third number is wrong: it is 5.14 % of the training's time with LayerNorm. Which of your two
    percentages is that of the time?"""
    return _with(n3=2.1)


def minutes_for_hours():
    """Only your third number is wrong: it is in minutes. An hour has 60 of them."""
    return _with(n3=122.1)


def seconds_for_hours():
    """Only your third number is wrong: it is in seconds. An hour has 3600 of them."""
    return _with(n3=7327.0)


def time_over_operations_alone():
    """Only your fourth number is wrong: it is the quotient of the two shares of the normalization class. Compare it
    with that of the matrix products."""
    return _with(n4=150)


def shares_of_operations_alone():
    """Only your fourth number is wrong: it compares the operations alone. How long do they take?"""
    return _with(n4=587)


def ratio_upside_down():
    """Only your fourth number is wrong. An operation of the normalization class takes longer than one of a matrix
    product, so the ratio is above 1."""
    return _with(n4=0)


def ratio_of_products_multiplied():
    """Only your fourth number is wrong: you multiply by the time per operation of the matrix products. Divide by it."""
    return _with(n4=92)


def share_for_the_bound():
    """Only your fifth number is wrong: it is the time that would be saved. By how much does the number of steps per
    second grow if a step takes 74.5 % of its time?"""
    return _with(n5=25.5)


def what_is_left_for_the_bound():
    """Only your fifth number is wrong: it is the time that is left. By how much does the number of steps per second
    grow?"""
    return _with(n5=74.5)


def speed_for_the_bound():
    """Only your fifth number is wrong: it is the new number of steps per second in percent of the old one. By how much
    is it more than 100?"""
    return _with(n5=134.2)


def operations_for_the_bound():
    """Only your fifth number is wrong: it uses the share of the operations. The share of the time counts."""
    return _with(n5=0.2)


def share_over_the_products():
    """Only your fifth number is wrong: it divides by the time of the matrix products alone. The element-wise operators
    stay as well."""
    return _with(n5=41.8)
