def _factor(scale, running_var, eps):
    return scale / (running_var + eps).sqrt()


def multiplied_by_the_deviation(w, b, scale, shift, running_mean, running_var, eps):
    """You multiply by the standard deviation. Batch norm divides by it."""
    factor = scale * (running_var + eps).sqrt()
    return factor[:, None] * w, factor * (b - running_mean) + shift


def mean_in_the_weight(w, b, scale, shift, running_mean, running_var, eps):
    """Your bias is right, but you subtract the running mean from the weight, too. It is a constant, so it only changes
    the bias."""
    factor = _factor(scale, running_var, eps)
    return factor[:, None] * (w - running_mean[:, None]), factor * (b - running_mean) + shift


def bias_as_it_was(w, b, scale, shift, running_mean, running_var, eps):
    """Your weight is right, but your bias is still that of the linear layer."""
    return _factor(scale, running_var, eps)[:, None] * w, b


def bias_not_scaled(w, b, scale, shift, running_mean, running_var, eps):
    """Your weight is right, but the factor of the batch norm is missing in front of the old bias."""
    factor = _factor(scale, running_var, eps)
    return factor[:, None] * w, b - factor * running_mean + shift


def mean_not_scaled(w, b, scale, shift, running_mean, running_var, eps):
    """Your weight is right, but the factor of the batch norm is missing in front of the running mean."""
    factor = _factor(scale, running_var, eps)
    return factor[:, None] * w, factor * b - running_mean + shift


def nothing_scaled_in_the_bias(w, b, scale, shift, running_mean, running_var, eps):
    """Your weight is right, but in your bias nothing is multiplied by the factor of the batch norm."""
    return _factor(scale, running_var, eps)[:, None] * w, b - running_mean + shift


def no_old_bias(w, b, scale, shift, running_mean, running_var, eps):
    """Your weight is right, but the bias of the linear layer is missing in yours."""
    factor = _factor(scale, running_var, eps)
    return factor[:, None] * w, shift - factor * running_mean


def no_running_mean(w, b, scale, shift, running_mean, running_var, eps):
    """Your weight is right, but the running mean is missing in your bias."""
    factor = _factor(scale, running_var, eps)
    return factor[:, None] * w, factor * b + shift


def no_shift(w, b, scale, shift, running_mean, running_var, eps):
    """Your weight is right, but the shift is missing in your bias."""
    factor = _factor(scale, running_var, eps)
    return factor[:, None] * w, factor * (b - running_mean)


def shift_scaled(w, b, scale, shift, running_mean, running_var, eps):
    """Your weight is right, but in your bias the shift is multiplied by the factor as well. It is added at the very
    end."""
    factor = _factor(scale, running_var, eps)
    return factor[:, None] * w, factor * (b - running_mean + shift)


def mean_added(w, b, scale, shift, running_mean, running_var, eps):
    """Your weight is right, but you add the running mean. Batch norm subtracts it."""
    factor = _factor(scale, running_var, eps)
    return factor[:, None] * w, factor * (b + running_mean) + shift


def shift_alone(w, b, scale, shift, running_mean, running_var, eps):
    """Your weight is right, but your bias is the shift alone. What else does not depend on x?"""
    return _factor(scale, running_var, eps)[:, None] * w, shift


def weight_as_it_was(w, b, scale, shift, running_mean, running_var, eps):
    """Your bias is right, but your weight is still that of the linear layer."""
    return w, _factor(scale, running_var, eps) * (b - running_mean) + shift


def columns_scaled(w, b, scale, shift, running_mean, running_var, eps):
    """You multiply the columns of the weight. An output has a row, and the batch norm scales outputs."""
    factor = _factor(scale, running_var, eps)
    return factor * w, factor * (b - running_mean) + shift


def weight_transposed(w, b, scale, shift, running_mean, running_var, eps):
    """Your weight is transposed: it should have a row for each output, like the one that you are given."""
    factor = _factor(scale, running_var, eps)
    return factor * w.T, factor * (b - running_mean) + shift


def no_scale(w, b, scale, shift, running_mean, running_var, eps):
    """The scale γ is missing, in the weight and in the bias."""
    factor = _factor(1.0, running_var, eps)
    return factor[:, None] * w, factor * (b - running_mean) + shift


def no_variance(w, b, scale, shift, running_mean, running_var, eps):
    """You multiply by the scale, but the division by the root of the variance is missing."""
    return scale[:, None] * w, scale * (b - running_mean) + shift


def no_root(w, b, scale, shift, running_mean, running_var, eps):
    """You divide by the variance. The formula divides by its root."""
    factor = scale / (running_var + eps)
    return factor[:, None] * w, factor * (b - running_mean) + shift


def no_eps(w, b, scale, shift, running_mean, running_var, eps):
    """You leave out epsilon, or use one of your own instead of `eps`."""
    factor = scale / running_var.sqrt()
    return factor[:, None] * w, factor * (b - running_mean) + shift


def eps_outside_the_root(w, b, scale, shift, running_mean, running_var, eps):
    """You add epsilon to the standard deviation. Where does it stand in the formula?"""
    factor = scale / (running_var.sqrt() + eps)
    return factor[:, None] * w, factor * (b - running_mean) + shift


def scale_and_shift_exchanged(w, b, scale, shift, running_mean, running_var, eps):
    """Scale and shift are exchanged."""
    factor = _factor(shift, running_var, eps)
    return factor[:, None] * w, factor * (b - running_mean) + scale


def bias_first(w, b, scale, shift, running_mean, running_var, eps):
    """Your two results are right, but the weight comes first."""
    factor = _factor(scale, running_var, eps)
    return factor * (b - running_mean) + shift, factor[:, None] * w
