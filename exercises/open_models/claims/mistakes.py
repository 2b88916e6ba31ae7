T, F, X = "true", "false", "cannot tell"
RIGHT = {"A": T, "B": F, "C": F, "D": X, "E": T, "F": X, "G": F, "H": T}


def empty_cells_left_out():
    """Only D is wrong: you leave out the gated model whose norm is not known."""
    return RIGHT | {"D": T}


def empty_cell_for_layer_norm():
    """Only D is wrong: that a cell is empty does not say that another norm belongs there."""
    return RIGHT | {"D": F}


def every_empty_cell_counts():
    """Only G is wrong: try it with each norm that LaMDA could have."""
    return RIGHT | {"G": X}


def majority_miscounted():
    """Only G is wrong: count the models again. Half of them are six."""
    return RIGHT | {"G": T}


def cause_read_into_the_table():
    """Only F is wrong: does a column say how well a model predicts text?"""
    return RIGHT | {"F": T}


def cause_denied():
    """Only F is wrong: that the table does not support a claim does not make it false."""
    return RIGHT | {"F": F}


def empty_cells_and_causes():
    """D and F are wrong. A claim that the table does not contradict need not be true."""
    return RIGHT | {"D": T, "F": T}


def empty_cells_and_causes_denied():
    """D and F are wrong. A claim that the table does not support need not be false."""
    return RIGHT | {"D": F, "F": F}


def late_models_alone():
    """Only B is wrong: RoPE is older than 2023."""
    return RIGHT | {"B": T}


def lamda_overlooked():
    """Only C is wrong: look at each of the gated models."""
    return RIGHT | {"C": T}


def lamda_without_a_gate():
    """Only E is wrong: which activations are gated? Some of them stand far up in the table."""
    return RIGHT | {"E": F}


def factor_counted():
    """Only H is wrong: the MLP factor is not among what the claim names."""
    return RIGHT | {"H": F}


def block_not_known():
    """Only A is wrong: the model whose block is not known need not be among those that the claim is about."""
    return RIGHT | {"A": X}


def models_outside_the_claim():
    """Only A is wrong: it says nothing about a model with LayerNorm that has other positions."""
    return RIGHT | {"A": F}


def everything_undecided():
    """You decide nothing. A claim about all models is false as soon as one row contradicts it."""
    return dict.fromkeys(RIGHT, X)


def rows_that_contradict():
    """Only B is wrong: look for a single row that contradicts it. No cell that you need is empty."""
    return RIGHT | {"B": X}


def norm_that_does_not_matter():
    """Only C is wrong: look for a single row that contradicts it. The norm does not matter here."""
    return RIGHT | {"C": X}


def count_undecided():
    """Only E is wrong: no activation is missing, so you can count."""
    return RIGHT | {"E": X}


def full_columns_undecided():
    """Only H is wrong: none of these three columns is empty in 2023."""
    return RIGHT | {"H": X}
