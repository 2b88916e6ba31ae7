RIGHT = [3, 0.3, 1.7, 2.41, 1]


def _with(**wrong):
    return [wrong.get(f"n{i}", right) for i, right in enumerate(RIGHT, 1)]


def population_in_the_running_variance():
    """Your first two numbers are right. Your running variance takes in the variance that divides by the number of
    samples, here and after a long time."""
    return _with(n3=1.3, n4=3)


def population_in_the_first_step():
    """Only your third number is wrong. Which of the two variances enters the running average?"""
    return _with(n3=1.3)


def population_in_the_end():
    """Only your fourth number is wrong, as if evaluation gave what training gave. Which of the two variances does the
    running variance approach?"""
    return _with(n4=3)


def one_decimal():
    """Your numbers are right as far as they go. Return the fourth one to two decimals."""
    return _with(n4=2.4)


def unbiased_in_training():
    """Only your first number is wrong. Which of the two variances normalizes the batch itself?"""
    return _with(n1=2.41)


def unbiased_then_population():
    """Your two variances are exchanged. Which one normalizes the batch, and which one enters the running average?"""
    return _with(n1=2.41, n3=1.3, n4=3)


def momentum_of_the_old():
    """Your running averages keep a tenth of the old value. Here the momentum is the weight of the newest batch."""
    return _with(n2=2.7, n3=7.3)


def momentum_of_the_old_and_population():
    """Your running averages keep a tenth of the old value; here the momentum is the weight of the newest batch. Look
    also at which variance enters the running average."""
    return _with(n2=2.7, n3=3.7, n4=3)


def one_step_of_evaluation():
    """Your last two numbers use the running averages after one batch. Training went on for a long time: where do they
    end?"""
    return _with(n4=1 + 2 * 4.7 / 1.7**0.5, n5=1 + 2 * 2.7 / 1.7**0.5)


def start_of_evaluation():
    """Your last two numbers use the running averages from before the first batch. Training went on for a long time:
    where do they end?"""
    return _with(n4=11, n5=7)


def no_scale():
    """Your outputs lack the scale γ."""
    return _with(n1=2, n4=1.71)


def no_shift():
    """Your outputs lack the shift β."""
    return _with(n1=2, n4=1.41, n5=0)


def neither_scale_nor_shift():
    """Your outputs are standardized, but lack the scale γ and the shift β."""
    return _with(n1=1, n4=0.71, n5=0)


def shift_scaled():
    """You add the shift β before the multiplication by the scale γ. The shift comes last."""
    return _with(n1=4, n4=3.41, n5=2)


def scale_of_the_input():
    """Your outputs are γ · x + β for the values as they came, which is a slip on the slide (erratum E-04). What is
    scaled and shifted?"""
    return _with(n1=11, n4=11, n5=7)


def divided_by_the_variance():
    """You divide by the variances. Divide by their roots."""
    return _with(n1=2, n4=1.5)


def batch_of_one_in_training():
    """Only your last number is wrong: do you take the statistics from the single sample, or is it 0 / 0 then? It is
    evaluation, so none are taken from the batch."""
    return _with(n5=float("nan"))


def single_sample_is_zero():
    """Only your last number is wrong. The standardized value is 0, and something follows after it."""
    return _with(n5=0)


def value_of_the_sample():
    """Only your last number is wrong. The value 3 passes the same steps as any other in evaluation."""
    return _with(n5=3)


def first_sample():
    """Your first number is the output for the first sample, whose value is 1. Return that for the second one."""
    return _with(n1=-1)


def old_variance_forgotten():
    """Only your third number is wrong: it takes in the batch, but nine tenths of the old running variance stay, and it
    was 1."""
    return _with(n3=0.8)


def running_standard_deviation():
    """Your third number averages standard deviations. The running average is that of the variance."""
    return _with(n3=0.9 + 0.1 * 8**0.5)


def averages_replaced():
    """Your running averages after one batch are those of the batch alone. Nine tenths of the old ones stay."""
    return _with(n2=3, n3=8)
