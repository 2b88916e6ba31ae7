RIGHT = [-0.2, 0.04, -1.04, 9.94, 0.94, 0.1]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def first_weight():
    """Your first three numbers are those of the first weight. The questions are about the second one."""
    return _with(n1=9.4, n2=8.836, n3=8.296)


def curvature_forgotten():
    """Your first three numbers leave out the 20. The gradient of the second weight is 20 times the weight."""
    return _with(n1=0.94, n2=0.884, n3=0.83)


def uphill():
    """Your first three numbers go uphill: the gradient is subtracted."""
    return _with(n1=2.2, n2=4.84, n3=5.92)


def old_gradient_again():
    """Only your second number is wrong: the second step uses the gradient where the first step has led."""
    return _with(n2=-1.4)


def sign_of_the_second_gradient():
    """Only your second number is wrong. The weight is negative after the first step, and so is its gradient."""
    return _with(n2=-0.44)


def momentum_forgotten():
    """Only your third number is wrong: it is that of SGD. With momentum, the second step contains 0.9 of the first
    gradient, too."""
    return _with(n3=0.04)


def gradient_forgotten():
    """Only your third number is wrong: its second step contains only 0.9 of the first gradient, and not the new one."""
    return _with(n3=-1.28)


def momentum_not_reduced():
    """Only your third number is wrong: the first gradient counts in full in its second step. It is multiplied by
    0.9."""
    return _with(n3=-1.16)


def gradient_times_a_tenth():
    """Only your third number is wrong: you weigh the new gradients with 0.1. In this form of momentum, they count in
    full."""
    return _with(n3=0.666)


def updates_without_the_sign():
    """Your third number adds up the sizes of the gradients. The second one is negative."""
    return _with(n3=-1.52)


def adam_like_sgd():
    """Your fourth and fifth numbers are those of SGD. Adam divides by the root of the second moment."""
    return _with(n4=9.4, n5=-0.2)


def adam_not_corrected():
    """Your fourth and fifth numbers lack the bias correction of both moments."""
    return _with(n4=9.81, n5=0.81)


def first_moment_not_corrected():
    """Your fourth and fifth numbers lack the bias correction of the first moment."""
    return _with(n4=9.994, n5=0.994)


def adam_with_two_sizes():
    """Only your fifth number is wrong: it takes a step twice as large as the first weight does. Does the size of a
    gradient matter in Adam's first step?"""
    return _with(n5=0.88)


def half_the_bound():
    """Only your sixth number is wrong: at this rate, the steep weight is zero after a single step. It may go through
    zero and still become smaller."""
    return _with(n6=0.05)


def bound_of_the_flat_weight():
    """Only your sixth number is wrong: it is the bound of the first weight. The second one diverges earlier."""
    return _with(n6=2)


def bound_with_momentum():
    """Only your sixth number is wrong: it is the bound with momentum. The question is about SGD."""
    return _with(n6=0.19)


def one_decimal():
    """Your numbers are right as far as they go. Return them to three decimals."""
    return _with(n1=-0.2, n3=-1.0, n4=9.9, n5=0.9)


def uphill_with_all():
    """Your first five numbers go uphill: updates are subtracted."""
    return _with(n1=2.2, n2=4.84, n3=5.92, n4=10.06, n5=1.06)
