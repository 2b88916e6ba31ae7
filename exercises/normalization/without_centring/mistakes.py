import torch


def bias_not_centred(w, b):
    """Your weight is right, but the mean of the bias still reaches the outputs."""
    return w - w.mean(0), b


def weight_not_centred(w, b):
    """Your bias is right, but the weight still gives the outputs a mean that depends on x."""
    return w, b - b.mean()


def rows_centred(w, b):
    """You subtract from each row of the weight its own mean. An output belongs to a row, and the mean is taken over the
    outputs."""
    return w - w.mean(1, keepdim=True), b - b.mean()


def rows_centred_and_bias_kept(w, b):
    """You subtract from each row of the weight its own mean, and the bias is as it was. An output belongs to a row, and
    the mean is taken over the outputs."""
    return w - w.mean(1, keepdim=True), b


def one_mean_for_the_weight(w, b):
    """You subtract one number from the whole weight. The mean of the outputs depends on x: what does each entry of x
    contribute to it?"""
    return w - w.mean(), b - b.mean()


def sum_subtracted(w, b):
    """You subtract the sum over the outputs. Their mean is the sum divided by their number."""
    return w - w.sum(0), b - b.sum()


def mean_added(w, b):
    """You add the mean. Centring subtracts it."""
    return w + w.mean(0), b + b.mean()


def standardized(w, b):
    """You also divide by a standard deviation. The division depends on x, and RMSNorm takes care of it."""
    return (w - w.mean(0)) / w.std(0, correction=0), (b - b.mean()) / b.std(correction=0)


def the_means_alone(w, b):
    """You return the means. Subtract them from the weight and from the bias."""
    return w.mean(0).expand_as(w), b.mean().expand_as(b)


def means_of_the_given_shape_missing(w, b):
    """You return the means alone. Subtract them from the weight and from the bias."""
    return w.mean(0), b.mean()


def weight_transposed(w, b):
    """Your weight is transposed: it should have a row for each output, like the one that you are given."""
    return (w - w.mean(0)).T, b - b.mean()


def divided_by_the_inputs(w, b):
    """Your mean divides by the number of inputs. It is a mean over the outputs."""
    return w - w.sum(0) / w.shape[1], b - b.sum() / w.shape[1]


def median(w, b):
    """You subtract the median, not the mean."""
    return w - w.median(0).values, b - b.median()


def bias_dropped(w, b):
    """Your weight is right, but your bias is zero. Part of the given bias is left after centring."""
    return w - w.mean(0), torch.zeros_like(b)


def mean_of_weight_and_bias(w, b):
    """Your bias subtracts the means of the weight. It has a mean of its own."""
    return w - w.mean(0), b - w.mean()


def nothing_changed(w, b):
    """You return the layer as it was. RMSNorm alone does not remove the mean."""
    return w.clone(), b.clone()
