def _norm(x, axis):
    low, high = x.amin(axis, keepdim=True), x.amax(axis, keepdim=True)
    return (x - low) / (high - low)


def _std(x, axis, correction=0):
    return (x - x.mean(axis, keepdim=True)) / x.std(axis, correction=correction, keepdim=True)


def divided_by_one_less(x, axis):
    """Your standard deviation divides by one less than the number of values, which is PyTorch's default. The statement
    says by what it is divided here."""
    return _norm(x, axis), _std(x, axis, 1)


def other_axis(x, axis):
    """You take the statistics along the other axis. With axis 0 each column has a mean of its own, so it is the rows
    over which you average."""
    return _norm(x, 1 - axis % 2), _std(x, 1 - axis % 2)


def other_axis_for_the_second(x, axis):
    """Your first table is right, but the second takes its mean and standard deviation along the other axis."""
    return _norm(x, axis), _std(x, 1 - axis % 2)


def other_axis_for_the_first(x, axis):
    """Your second table is right, but the first takes its minimum and maximum along the other axis."""
    return _norm(x, 1 - axis % 2), _std(x, axis)


def always_the_columns(x, axis):
    """You rescale each column, whatever `axis` says."""
    return _norm(x, 0), _std(x, 0)


def always_the_rows(x, axis):
    """You rescale each row, whatever `axis` says."""
    return _norm(x, 1), _std(x, 1)


def one_scale_for_all(x, axis):
    """You take the statistics of the whole table. Ages and dollars would still be on different scales afterwards: each
    line along the axis has its own."""
    return (x - x.min()) / (x.max() - x.min()), (x - x.mean()) / x.std(correction=0)


def one_scale_for_all_and_one_less(x, axis):
    """You take the statistics of the whole table instead of those along the axis, and your standard deviation divides
    by one less than the number of values."""
    return (x - x.min()) / (x.max() - x.min()), (x - x.mean()) / x.std()


def divided_by_the_variance(x, axis):
    """Your second table is divided by the variance. The formula divides by its root."""
    return _norm(x, axis), (x - x.mean(axis, keepdim=True)) / x.var(axis, correction=0, keepdim=True)


def divided_by_the_range(x, axis):
    """Your second table is centred, but divided by the range of the values instead of their standard deviation."""
    span = x.amax(axis, keepdim=True) - x.amin(axis, keepdim=True)
    return _norm(x, axis), (x - x.mean(axis, keepdim=True)) / span


def centred_only(x, axis):
    """Your second table has mean 0, but nothing divides it."""
    return _norm(x, axis), x - x.mean(axis, keepdim=True)


def not_centred(x, axis):
    """Your second table is divided by the standard deviation, but its mean is not 0."""
    return _norm(x, axis), x / x.std(axis, correction=0, keepdim=True)


def divided_by_the_largest(x, axis):
    """Your first table is divided by the largest value, so that the smallest does not become 0."""
    return x / x.amax(axis, keepdim=True), _std(x, axis)


def minimum_kept_in_the_divisor(x, axis):
    """You subtract the minimum, but divide by the maximum instead of the range, so that the largest value does not
    become 1."""
    return (x - x.amin(axis, keepdim=True)) / x.amax(axis, keepdim=True), _std(x, axis)


def upside_down(x, axis):
    """In your first table the smallest value becomes 1 and the largest 0."""
    return 1 - _norm(x, axis), _std(x, axis)


def order_exchanged(x, axis):
    """Your two tables are exchanged: the one from 0 to 1 comes first."""
    return _std(x, axis), _norm(x, axis)


def order_exchanged_and_one_less(x, axis):
    """Your two tables are exchanged: the one from 0 to 1 comes first. Look also at what the standard deviation divides
    by."""
    return _std(x, axis, 1), _norm(x, axis)


def standardized_afterwards(x, axis):
    """You standardize the first table instead of x, which would give the same numbers, but you divide by one less than
    the number of values, or by a variance. The values of your second table should have variance 1."""
    first = _norm(x, axis)
    return first, (first - first.mean(axis, keepdim=True)) / first.var(axis, correction=0, keepdim=True)


def mean_deviation(x, axis):
    """You divide by the mean of the absolute deviations. The standard deviation is the root of the mean of their
    squares."""
    centred = x - x.mean(axis, keepdim=True)
    return _norm(x, axis), centred / centred.abs().mean(axis, keepdim=True)


def mean_square_not_centred(x, axis):
    """You divide by the root of the mean square of the values themselves. The standard deviation is about their
    deviations from the mean."""
    return _norm(x, axis), (x - x.mean(axis, keepdim=True)) / x.square().mean(axis, keepdim=True).sqrt()
