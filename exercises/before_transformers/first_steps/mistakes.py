def conclusion_for_the_long_run(seed):
    """Your norms are right, but your conclusion does not follow from them. Is the norm of the first power above one?"""
    return [1.8, 2.0, 0.0001], "shrinks from the first step"


def radius_for_norm(seed):
    """Your first two norms are hardly above the spectral radius and its third power. Either you measure the radius
    itself, or your numbers are not from the standard normal distribution, which is `randn`."""
    return [0.95, 0.95**3, 0.95**200], "shrinks from the first step"


def not_scaled(seed):
    """You did not scale the matrices to a spectral radius of 0.95; their powers explode."""
    return [11.0, 300.0, 1e30], "grows for ever"


def scaled_by_the_norm(seed):
    """You scaled the matrices to a spectral norm of 0.95. Scale them to a spectral radius of 0.95: use the
    eigenvalues."""
    return [0.95, 0.2, 0.0], "shrinks from the first step"


def frobenius(seed):
    """The norms of your first two powers are far too large. Is it the Frobenius norm, or another one? The spectral
    norm is
    the one with `ord=2`."""
    return [5.4, 6.0, 0.0005], "grows first, then shrinks"


def radius_one(seed):
    """Your 200th power is too large. Did you scale to a spectral radius of 1 instead of 0.95?"""
    return [1.85, 2.0, 1.5], "grows for ever"


def not_each_by_its_own(seed):
    """Your 200th power explodes, so some of your matrices have a radius above one. Divide each matrix by the largest
    absolute value of its own eigenvalues."""
    return [1.75, 2.1, 1e9], "grows for ever"


def entry_by_entry(seed):
    """Your first norm is right and the third is too small. Do you raise each entry to a power? A power of a matrix is a
    product of matrices: use `matrix_power`."""
    return [1.7, 0.5, 0.0], "grows first, then shrinks"
