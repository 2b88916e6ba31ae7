NOISE, NAMES = "within noise", ("BoolQ", "PIQA", "HellaSwag", "WinoGrande", "ARC-e", "ARC-c", "OBQA")
RIGHT = dict.fromkeys(NAMES, NOISE) | {"BoolQ": "better", "ARC-e": "better", "questions for OBQA": 13075}


def signs_alone():
    """You decide by the sign of the difference. Compare each difference with its standard error."""
    signs = {name: "better" for name in ("HellaSwag", "WinoGrande", "ARC-c")} | {"PIQA": "worse", "OBQA": "worse"}
    return RIGHT | signs


def one_standard_error():
    """Only WinoGrande is wrong: the difference is more than one standard error, but not more than 1.96."""
    return RIGHT | {"WinoGrande": "better"}


def errors_of_one_model():
    """WinoGrande is wrong, and your last number is half of the right one: the standard error contains the products of
    both models."""
    return RIGHT | {"WinoGrande": "better", "questions for OBQA": 13075 / 2}


def errors_of_one_model_in_the_last():
    """Only the last number is wrong: it is half of the right one. Both models contribute to the standard error."""
    return RIGHT | {"questions for OBQA": 13075 / 2}


def without_196():
    """Only the last number is wrong: it makes the difference one standard error. It is to be 1.96 of them."""
    return RIGHT | {"questions for OBQA": 13075 / 1.96**2}


def percentages_mixed():
    """Only the last number is wrong, by a factor of 10,000: you mix proportions and percentages."""
    return RIGHT | {"questions for OBQA": 1.3075}


def percentages_mixed_hundred():
    """Only the last number is far too large: if you take differences in proportions, take the products in proportions,
    too."""
    return RIGHT | {"questions for OBQA": 13075e4}


def not_squared():
    """Only the last number is wrong: square both sides before you solve for n."""
    return RIGHT | {"questions for OBQA": 13075 * 0.012 / 1.96}


def small_difference_of_many_questions():
    """Only HellaSwag is wrong: it has many questions, but the difference is even smaller than its standard error."""
    return RIGHT | {"HellaSwag": "better"}


def arc_e_overlooked():
    """Only ARC-e is wrong: how many standard errors are 6 percentage points there?"""
    return RIGHT | {"ARC-e": NOISE}


def only_large_benchmarks():
    """Only OBQA is wrong: its few questions make its standard error the largest of all."""
    return RIGHT | {"OBQA": "worse"}


def piqa_worse():
    """Only PIQA is wrong: the difference is smaller than its standard error."""
    return RIGHT | {"PIQA": "worse"}


def both_worse():
    """PIQA and OBQA are wrong: these differences are smaller than their standard errors."""
    return RIGHT | {"PIQA": "worse", "OBQA": "worse"}


def arc_c_better():
    """Only ARC-c is wrong: the difference is smaller than its standard error."""
    return RIGHT | {"ARC-c": "better"}


def everything_is_noise():
    """BoolQ and ARC-e are wrong: these differences are many standard errors. Did you forget to divide by n?"""
    return RIGHT | {"BoolQ": NOISE, "ARC-e": NOISE}


def signs_turned_round():
    """BoolQ and ARC-e are beyond noise, but your verdicts are about GPT-3. They should be about LLaMA-13B."""
    return RIGHT | {"BoolQ": "worse", "ARC-e": "worse"}


def one_standard_error_throughout():
    """WinoGrande and the last number are wrong: a difference is beyond noise if it is more than 1.96 standard errors,
    not one."""
    return RIGHT | {"WinoGrande": "better", "questions for OBQA": 13075 / 1.96**2}


def two_standard_errors():
    """Only the last number is wrong, by 4 %: it makes the difference two standard errors. It is to be 1.96 of them."""
    return RIGHT | {"questions for OBQA": 13075 * 4 / 1.96**2}


def twice_as_many():
    """Only the last number is wrong: it is twice the right one. Both models answer the same n questions."""
    return RIGHT | {"questions for OBQA": 2 * 13075}


def how_many_more():
    """Only the last number is wrong: it is how many questions OBQA lacks. Say how many it needs in all."""
    return RIGHT | {"questions for OBQA": 13075 - 500}


def in_proportion_to_the_ratio():
    """Only the last number is wrong: the standard error shrinks with the root of n, so n grows with the square of what
    is missing."""
    return RIGHT | {"questions for OBQA": (500 * 13075) ** 0.5}
