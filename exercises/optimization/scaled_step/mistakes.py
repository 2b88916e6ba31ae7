import torch


def _step(weights, gradients, lr, scale, n_good, growth_interval, used=None, grown=2.0, halved=0.5, skip=None, n_bad=0):
    """The step with an own scale of the update, growth, decline, rule for skipping, or counter after a skipped step."""
    finite = bool(gradients.isfinite().all()) if skip is None else not skip
    if not finite:
        return weights.clone(), scale * halved, n_bad
    weights = weights - lr * gradients.float() / (scale if used is None else used)
    if n_good + 1 >= growth_interval:
        return weights, scale * grown, 0
    return weights, scale, n_good + 1


def divided_in_half_precision(weights, gradients, lr, scale, n_good, growth_interval):
    """You divide by the scale in float16, where small gradients lose their digits or become zero. Convert first."""
    _, new_scale, n = _step(weights, gradients, lr, scale, n_good, growth_interval)
    if not gradients.isfinite().all():
        return weights.clone(), new_scale, n
    return weights - lr * (gradients / scale).float(), new_scale, n


def not_divided(weights, gradients, lr, scale, n_good, growth_interval):
    """Your update still contains the scale. Divide the gradients by it."""
    return _step(weights, gradients, lr, scale, n_good, growth_interval, used=1)


def multiplied(weights, gradients, lr, scale, n_good, growth_interval):
    """You multiply the gradients by the scale. They have been multiplied by it already."""
    return _step(weights, gradients, lr, scale, n_good, growth_interval, used=1 / scale)


def never_skipped(weights, gradients, lr, scale, n_good, growth_interval):
    """Your step is made even if a gradient is infinite or NaN, so that the weights are lost."""
    return _step(weights, gradients, lr, scale, n_good, growth_interval, skip=False)


def made_although_halved(weights, gradients, lr, scale, n_good, growth_interval):
    """Your scale is right, but the step is made even if a gradient is infinite or NaN, so that the weights are lost."""
    _, new_scale, n = _step(weights, gradients, lr, scale, n_good, growth_interval)
    return weights - lr * gradients.float() / scale, new_scale, n


def infinity_not_noticed(weights, gradients, lr, scale, n_good, growth_interval):
    """You skip a step with NaN, but not one with an infinite gradient."""
    return _step(weights, gradients, lr, scale, n_good, growth_interval, skip=bool(gradients.isnan().any()))


def nan_not_noticed(weights, gradients, lr, scale, n_good, growth_interval):
    """You skip a step with an infinite gradient, but not one with NaN."""
    return _step(weights, gradients, lr, scale, n_good, growth_interval, skip=bool(gradients.isinf().any()))


def positive_infinity_only(weights, gradients, lr, scale, n_good, growth_interval):
    """You skip a step with NaN or with a gradient of +∞, but not one with −∞."""
    skip = bool((gradients.isnan() | gradients.isposinf()).any())
    return _step(weights, gradients, lr, scale, n_good, growth_interval, skip=skip)


def bad_entries_replaced(weights, gradients, lr, scale, n_good, growth_interval):
    """Your scale is right, but you set only the entries to zero that are infinite or NaN, and make a step with the
    others. The whole step should be skipped."""
    _, new_scale, n = _step(weights, gradients, lr, scale, n_good, growth_interval)
    gradients = torch.where(gradients.isfinite(), gradients, torch.zeros_like(gradients))
    return weights - lr * gradients.float() / scale, new_scale, n


def not_halved(weights, gradients, lr, scale, n_good, growth_interval):
    """After an overflow, your scale stays as it is, so that the next step will overflow, too."""
    return _step(weights, gradients, lr, scale, n_good, growth_interval, halved=1)


def doubled_after_an_overflow(weights, gradients, lr, scale, n_good, growth_interval):
    """After an overflow, you double the scale. It should become smaller."""
    return _step(weights, gradients, lr, scale, n_good, growth_interval, halved=2)


def never_grows(weights, gradients, lr, scale, n_good, growth_interval):
    """After enough good steps, your scale does not grow."""
    return _step(weights, gradients, lr, scale, n_good, growth_interval, grown=1)


def grows_one_step_late(weights, gradients, lr, scale, n_good, growth_interval):
    """Your scale grows one step late. The present step counts, too."""
    new = _step(weights, gradients, lr, scale, n_good, growth_interval + 1)
    return (*new[:2], n_good + 1) if gradients.isfinite().all() and n_good < growth_interval else new


def grows_one_step_early(weights, gradients, lr, scale, n_good, growth_interval):
    """Your scale grows one step early. It should grow when `n_good` reaches `growth_interval`."""
    return _step(weights, gradients, lr, scale, n_good, growth_interval - 1)


def grows_in_each_good_step(weights, gradients, lr, scale, n_good, growth_interval):
    """Your scale grows in each good step. It should wait for `growth_interval` of them."""
    weights, _, n = _step(weights, gradients, lr, scale, n_good, growth_interval)
    return weights, scale * (2 if gradients.isfinite().all() else 0.5), n


def counter_goes_on_after_growth(weights, gradients, lr, scale, n_good, growth_interval):
    """When the scale has grown, your counter does not start again from 0."""
    weights, new_scale, n = _step(weights, gradients, lr, scale, n_good, growth_interval)
    return weights, new_scale, n_good + 1 if gradients.isfinite().all() else n


def counter_stays_after_an_overflow(weights, gradients, lr, scale, n_good, growth_interval):
    """After an overflow, your counter stays as it is. It counts good steps in a row, so it starts again from 0."""
    return _step(weights, gradients, lr, scale, n_good, growth_interval, n_bad=n_good)


def counter_never_counts(weights, gradients, lr, scale, n_good, growth_interval):
    """After a good step, your counter does not grow by one."""
    weights, new_scale, n = _step(weights, gradients, lr, scale, n_good, growth_interval)
    return weights, new_scale, max(0, n - 1)


def new_scale_used(weights, gradients, lr, scale, n_good, growth_interval):
    """When the scale grows, you divide the gradients by the new one. They were multiplied by the old one."""
    used = 2 * scale if n_good + 1 == growth_interval else scale
    return _step(weights, gradients, lr, scale, n_good, growth_interval, used=used)


def uphill(weights, gradients, lr, scale, n_good, growth_interval):
    """Your weights go uphill: the gradient is subtracted."""
    return _step(weights, gradients, -lr, scale, n_good, growth_interval)


def weights_in_half_precision(weights, gradients, lr, scale, n_good, growth_interval):
    """Your weights have been rounded to float16 on the way, where small updates vanish. Convert the gradients
    instead."""
    new, new_scale, n = _step(weights, gradients, lr, scale, n_good, growth_interval)
    return new.half().float(), new_scale, n


def changed_in_place(weights, gradients, lr, scale, n_good, growth_interval):
    """Your results are right, but you also change the caller's weights. Make a new tensor."""
    new, new_scale, n = _step(weights, gradients, lr, scale, n_good, growth_interval)
    return weights.copy_(new), new_scale, n


def sum_tested(weights, gradients, lr, scale, n_good, growth_interval):
    """You also skip a step with large gradients that are all finite. Their sum or norm leaves the range of float16, so
    look at each of them."""
    skip = not gradients.isfinite().all() or float(gradients.float().sum().abs()) > 65_504
    return _step(weights, gradients, lr, scale, n_good, growth_interval, skip=skip)
