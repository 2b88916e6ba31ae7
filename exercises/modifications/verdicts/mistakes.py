GOOD, BAD, NOISE, UNSTABLE = "better", "worse", "within noise", "unstable"
RIGHT = {"A": GOOD, "B": NOISE, "C": BAD, "D": UNSTABLE, "E": GOOD, "F": NOISE, "G": UNSTABLE, "H": NOISE}


def no_correction():
    """B and H are wrong: you take the p-values, or the intervals, as they are. Correct them for their number."""
    return RIGHT | {"B": GOOD, "H": BAD}


def no_correction_for_b():
    """Only B is wrong: correct its p-value for the number of comparisons."""
    return RIGHT | {"B": GOOD}


def no_correction_for_h():
    """Only H is wrong: correct its p-value for the number of comparisons."""
    return RIGHT | {"H": BAD}


def only_large_differences():
    """Only E is wrong: a difference need not be large to be beyond noise. What is its corrected p-value?"""
    return RIGHT | {"E": NOISE}


def spread_overlooked():
    """Only D is wrong: compare its standard deviation with the baseline's."""
    return RIGHT | {"D": GOOD}


def unstable_for_noise():
    """Only D is wrong: its difference is not beyond noise, but another verdict comes first."""
    return RIGHT | {"D": NOISE}


def divergence_overlooked():
    """Only G is wrong: one of its runs is missing from the mean."""
    return RIGHT | {"G": GOOD}


def no_p_value_for_noise():
    """Only G is wrong: that it has no p-value is not the reason of its verdict. Which of its runs has no loss?"""
    return RIGHT | {"G": NOISE}


def both_unstable_overlooked():
    """D and G are wrong: look at the last two columns first."""
    return RIGHT | {"D": GOOD, "G": GOOD}


def unstable_ones_as_noise():
    """D and G are wrong: look at the last two columns first. Another verdict than noise is meant for such rows."""
    return RIGHT | {"D": NOISE, "G": NOISE}


def four_times_misread():
    """C and F are wrong: their standard deviations are larger than the baseline's, but not more than four times."""
    return RIGHT | {"C": UNSTABLE, "F": UNSTABLE}


def f_unstable():
    """Only F is wrong: its standard deviation is less than four times the baseline's."""
    return RIGHT | {"F": UNSTABLE}


def c_unstable():
    """Only C is wrong: its standard deviation is less than four times the baseline's."""
    return RIGHT | {"C": UNSTABLE}


def noise_is_worse():
    """Only F is wrong: its interval contains 0, and its p-value is large even without a correction."""
    return RIGHT | {"F": BAD}


def bonferroni_of_a_stricter_level():
    """C and E are wrong: correct their p-values again. Only the smallest one is multiplied by 7."""
    return RIGHT | {"C": NOISE, "E": NOISE}


def signs_turned_round():
    """Your signs are the wrong way round: a difference is that of the variant minus the baseline, and a smaller loss is
    better."""
    turned = {GOOD: BAD, BAD: GOOD}
    return {letter: turned.get(verdict, verdict) for letter, verdict in RIGHT.items()}


def no_correction_and_no_spread():
    """B, D and H are wrong. Apply the first rule to every row, and correct the p-values of the others."""
    return RIGHT | {"B": GOOD, "D": GOOD, "H": BAD}


def no_correction_no_spread_no_divergence():
    """B, D, G and H are wrong. Apply the first rule to every row, and correct the p-values of the others."""
    return RIGHT | {"B": GOOD, "D": GOOD, "G": GOOD, "H": BAD}
