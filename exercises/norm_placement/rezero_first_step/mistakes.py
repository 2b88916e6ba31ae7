RIGHT = [6, 0, 1, 0.82, 0.0108]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def alpha_does_not_learn():
    """Only your first number is wrong: α₁ is 0, but that does not make its gradient 0. What stands beside α₁ in the
    formula?"""
    return _with(n1=0)


def neither_learns():
    """Your first two numbers are both 0, so nothing would ever change. α₁ is 0, but what stands beside α₁ in the
    formula?"""
    return _with(n1=0, n4=2, n5=0)


def weight_learns():
    """Only your second number is wrong: it forgets that α₁, which stands beside w₁, is 0."""
    return _with(n2=2)


def weights_learn_in_the_first_step():
    """Your second number forgets that α₁, which stands beside w₁, is 0. What follows from it is wrong, too."""
    return _with(n2=2, n4=0.8244, n5=0.0106)


def no_loss_in_the_first_number():
    """Your first number lacks the input x: beside α₁ stand w₁ and x."""
    return _with(n1=3)


def input_for_the_weight():
    """Your first number lacks the weight: beside α₁ stand w₁ and x."""
    return _with(n1=2)


def both_alphas():
    """Only your first number is wrong: it is the gradient of α₂."""
    return _with(n1=10)


def sum_of_the_branches():
    """Your gradient of x counts the branches as if each α were 1. They are 0, so only the identity path is left."""
    return _with(n3=24)


def no_gradient_for_x():
    """Only your third number is wrong. All branches are zero, but the identity path is not."""
    return _with(n3=0)


def value_of_x():
    """Only your third number is wrong: it is the value of x or of y. The gradient of y is y − 1."""
    return _with(n3=2)


def square_without_the_half():
    """Your gradients are twice as large as they should be. The loss has a factor of 1/2."""
    return _with(n1=12, n3=2, n4=0.0, n5=0.0)


def step_uphill():
    """Your step goes uphill: the learning rate times the gradient is subtracted."""
    return _with(n4=3.54, n5=0.4572)


def first_alpha_alone():
    """Only the step of α₁ is in your fourth number. α₂ changes as well."""
    return _with(n4=1.64, n5=-0.0768)


def second_alpha_alone():
    """Only the step of α₂ is in your fourth number. α₁ changes as well."""
    return _with(n4=1.0, n5=0.0)


def output_of_the_first_step():
    """Your fourth number is the output of the first step. It asks for the one after it, and the fifth number
    follows."""
    return _with(n4=2, n5=0)


def first_step_again():
    """Only your fifth number is wrong. After the first step, α₁ is no longer 0."""
    return _with(n5=0)


def wrong_sign_in_the_end():
    """Only the sign of your fifth number is wrong. Both y − 1 and α₁ are negative in the second step."""
    return _with(n5=-0.0108)


def error_of_the_first_step():
    """Only your fifth number is wrong. In the second step y − 1 is another number, and so is α₁; α₂ counts as well."""
    return _with(n5=-0.12)


def second_layer_forgotten():
    """Only your fifth number is wrong: on its way to w₁ the gradient also passes the second layer, whose factor is 1 +
    α₂w₂."""
    return _with(n5=0.0216)


def two_decimals():
    """Your fifth number is right as far as it goes. Return it to four decimals."""
    return _with(n5=0.01)


def one_layer_in_the_output():
    """Only your fourth number is wrong: it is h, the stream after the first of the two layers."""
    return _with(n4=1.64)
