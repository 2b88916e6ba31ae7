import math


def _width(exact, multiple_of, rounded=math.ceil):
    return rounded(exact / multiple_of) * multiple_of


def _extra(d_model, d_ff, width):
    return 3 * d_model * width - 2 * d_model * d_ff


def _of(exact, d_model, d_ff, multiple_of, rounded=math.ceil):
    width = _width(exact, multiple_of, rounded)
    return width, _extra(d_model, d_ff, width)


def rounded_down(d_model, d_ff, multiple_of):
    """You round down to a multiple. Round up."""
    return _of(2 * d_ff / 3, d_model, d_ff, multiple_of, math.floor)


def rounded_to_the_nearest(d_model, d_ff, multiple_of):
    """You round to the nearest multiple. Round up."""
    return _of(2 * d_ff / 3, d_model, d_ff, multiple_of, round)


def decimals_dropped_first(d_model, d_ff, multiple_of):
    """You drop the decimals of the exact width before you round up, as LLaMA's code does. If what is left is a multiple
    already, the gated layer has fewer parameters than the plain one."""
    return _of(2 * d_ff // 3, d_model, d_ff, multiple_of)


def rounded_twice(d_model, d_ff, multiple_of):
    """You round the exact width to the nearest whole number before you round up. If this goes down to a multiple, the
    gated layer has fewer parameters than the plain one."""
    return _of(round(2 * d_ff / 3), d_model, d_ff, multiple_of)


def not_rounded(d_model, d_ff, multiple_of):
    """You do not round to a multiple of `multiple_of`."""
    return _of(2 * d_ff // 3, d_model, d_ff, 1)


def one_multiple_more(d_model, d_ff, multiple_of):
    """You add a whole multiple even if the exact width is one already."""
    width = (2 * d_ff // (3 * multiple_of) + 1) * multiple_of
    return width, _extra(d_model, d_ff, width)


def two_thirds_rounded_first(d_model, d_ff, multiple_of):
    """Your two thirds are a rounded number such as 0.667, so your width is too large. Use 2/3 itself."""
    return _of(0.667 * d_ff, d_model, d_ff, multiple_of)


def three_halves(d_model, d_ff, multiple_of):
    """You multiply the width by three halves. With more matrices, each of them must be narrower."""
    return _of(3 * d_ff / 2, d_model, d_ff, multiple_of)


def half(d_model, d_ff, multiple_of):
    """Your width is half of the plain one. The gated layer has three matrices for two, not four."""
    return _of(d_ff / 2, d_model, d_ff, multiple_of)


def one_third(d_model, d_ff, multiple_of):
    """Your width is a third of the plain one. Three narrow matrices should have as many numbers as two wide ones."""
    return _of(d_ff / 3, d_model, d_ff, multiple_of)


def width_unchanged(d_model, d_ff, multiple_of):
    """You keep the width of the plain layer, rounded, so the gated layer has one and a half times the parameters or
    more."""
    return _of(d_ff, d_model, d_ff, multiple_of)


def d_model_as_the_start(d_model, d_ff, multiple_of):
    """Your width comes from `d_model`. It should come from `d_ff`."""
    return _of(2 * d_model / 3, d_model, d_ff, multiple_of)


def parameters_of_the_gated_layer(d_model, d_ff, multiple_of):
    """Your width is right, but your second number is all parameters of the gated layer. How many more are these than
    those of the plain layer?"""
    width = _width(2 * d_ff / 3, multiple_of)
    return width, 3 * d_model * width


def parameters_of_the_plain_layer(d_model, d_ff, multiple_of):
    """Your width is right, but your second number is the number of parameters of the plain layer."""
    return _width(2 * d_ff / 3, multiple_of), 2 * d_model * d_ff


def difference_turned_round(d_model, d_ff, multiple_of):
    """Your width is right, but your difference has the wrong sign: how many parameters *more* has the gated layer?"""
    width = _width(2 * d_ff / 3, multiple_of)
    return width, -_extra(d_model, d_ff, width)


def difference_of_one_matrix(d_model, d_ff, multiple_of):
    """Your width is right, but your difference leaves out how many matrices each layer has."""
    width = _width(2 * d_ff / 3, multiple_of)
    return width, d_model * (width - d_ff)


def two_matrices_each(d_model, d_ff, multiple_of):
    """Your width is right, but in the difference you count two matrices in both layers. The gated layer has three."""
    width = _width(2 * d_ff / 3, multiple_of)
    return width, 2 * d_model * (width - d_ff)


def three_matrices_each(d_model, d_ff, multiple_of):
    """Your width is right, but in the difference you count three matrices in both layers. The plain layer has two."""
    width = _width(2 * d_ff / 3, multiple_of)
    return width, 3 * d_model * (width - d_ff)


def difference_of_the_exact_width(d_model, d_ff, multiple_of):
    """Your width is right, but your difference is that before rounding, which is 0."""
    return _width(2 * d_ff / 3, multiple_of), 0


def difference_of_widths(d_model, d_ff, multiple_of):
    """Your width is right, but your second number lacks the factor `d_model`: it compares widths. A unit of the width
    costs `d_model` parameters in each matrix."""
    width = _width(2 * d_ff / 3, multiple_of)
    return width, 3 * width - 2 * d_ff


def parameters_first(d_model, d_ff, multiple_of):
    """Your two numbers are in the wrong order: the width comes first."""
    width = _width(2 * d_ff / 3, multiple_of)
    return _extra(d_model, d_ff, width), width
