RIGHT = [3, 0, 1.5, 3, 6, 120]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def glu_closed():
    """Only your first number is wrong. The sigmoid of 0 is not 0."""
    return _with(n1=0)


def glu_open():
    """Only your first number is wrong. The sigmoid of 0 is not 1."""
    return _with(n1=6)


def swiglu_half_open():
    """Only your second number is wrong. Swish multiplies the sigmoid by its argument, which is 0."""
    return _with(n2=3)


def sigmoid_for_both():
    """You use the sigmoid in SwiGLU as well. Swish multiplies the sigmoid by its argument."""
    return _with(n2=3, n4=1.5, n6=6)


def swish_for_both():
    """You use Swish in GLU as well. The gate of GLU is the sigmoid alone."""
    return _with(n1=0, n3=3, n5=120)


def names_exchanged():
    """You have exchanged GLU and SwiGLU. Which of them has the sigmoid alone?"""
    return [0, 3, 3, 1.5, 120, 6]


def glu_then_swiglu():
    """Your numbers are right, but their order is not: GLU and SwiGLU take turns."""
    return [3, 1.5, 6, 0, 3, 120]


def derivatives_without_the_value():
    """Your outputs are right, but your derivatives are those of the gates alone. The output is the gate times 6."""
    return _with(n3=0.25, n4=0.5)


def value_left_out():
    """You have left out the value 6 everywhere. The output is the gate times the value."""
    return [0.5, 0, 0.25, 0.5, 1, 20]


def slope_of_the_sigmoid_is_half():
    """Only your third number is wrong. The derivative of the sigmoid is σ(1 − σ), not σ."""
    return _with(n3=3)


def slope_of_swish_zero():
    """Only your fourth number is wrong. Swish is 0 at 0, but it rises there: use the product rule."""
    return _with(n4=0)


def slope_of_swish_one():
    """Only your fourth number is wrong. The slope of Swish at 0 is neither 0 nor 1: use the product rule."""
    return _with(n4=6)


def slope_of_swish_quarter():
    """Only your fourth number is wrong. In the product rule, the factor z of Swish is differentiated, too."""
    return _with(n4=1.5)


def slope_of_swish_three_quarters():
    """Only your fourth number is wrong. The second part of Swish's derivative has the factor z, which is 0."""
    return _with(n4=4.5)


def swish_saturates():
    """Only your last number is wrong. The sigmoid does not exceed 1, but Swish does."""
    return _with(n6=6)


def swish_without_the_value():
    """Only your last number is wrong. It is the gate alone; the output is the gate times the value."""
    return _with(n6=20)


def dead_gates():
    """Your outputs are right, but not your derivatives. Weights of 0 do not mean that the gradient is 0."""
    return _with(n3=0, n4=0)


def first_two_exchanged():
    """Your first two numbers are exchanged. Which of the two gates is the sigmoid alone?"""
    return _with(n1=0, n2=3)


def last_two_exchanged():
    """Your last two numbers are exchanged. Which of the two gates cannot exceed 1?"""
    return _with(n5=120, n6=6)


def derivatives_exchanged():
    """Your two derivatives are exchanged. Which of the two gates is the sigmoid alone?"""
    return _with(n3=3, n4=1.5)
