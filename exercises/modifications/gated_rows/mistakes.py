T, F, X = "true", "false", "cannot tell"
RIGHT = {"A": F, "B": T, "C": F, "D": X, "E": F, "F": T, "G": X, "H": T}


def two_scores_overlooked():
    """Only A is wrong: compare each of the twenty scores with the baseline's."""
    return RIGHT | {"A": T}


def order_not_compared():
    """Only C is wrong: write both orders down. Two rows change places."""
    return RIGHT | {"C": T}


def five_rows_for_an_order():
    """Only B is wrong: it is about which five rows these are, whatever their order."""
    return RIGHT | {"B": F}


def one_run_is_enough():
    """Only D is wrong: by how much does a final loss change from seed to seed?"""
    return RIGHT | {"D": T}


def noise_for_equality():
    """Only D is wrong: that a difference may be noise does not mean that it would turn round."""
    return RIGHT | {"D": F}


def more_matrices_more_time():
    """Only E is wrong: read the column of the speed. The widths of the matrices differ, too."""
    return RIGHT | {"E": T}


def smaller_deviation():
    """Only F is wrong: the larger of the two standard deviations is Sigmoid's."""
    return RIGHT | {"F": F}


def other_sizes_as_well():
    """Only G is wrong: all rows have the same size. What the table suggests, it need not say."""
    return RIGHT | {"G": T}


def other_sizes_denied():
    """Only G is wrong: the table does not contradict the claim."""
    return RIGHT | {"G": F}


def a_tie_is_below():
    """Only H is wrong: a row that has the same loss as the baseline is not below it."""
    return RIGHT | {"H": F}


def plausible_for_true():
    """D and G are wrong: they may well be true, but the table does not say so."""
    return RIGHT | {"D": T, "G": T}


def all_with_noise():
    """B and F are wrong: these claims are about the numbers in the table, which decide them."""
    return RIGHT | {"B": X, "F": X}
