import torch


def _rates(steps, warmup_steps, peak, power=0.5):
    s = steps.float()
    return peak * torch.minimum(s / warmup_steps, (warmup_steps / s) ** power)


def counted_from_0(steps, warmup_steps, peak):
    """Your learning rates belong to the step before. Here the steps are counted from 1, so that the first one already
    moves the weights."""
    s = steps.float() - 1
    return peak * torch.minimum(s / warmup_steps, (warmup_steps / s).sqrt())


def counted_one_further(steps, warmup_steps, peak):
    """Your learning rates belong to the step after. Here the steps are counted from 1 already."""
    return _rates(steps + 1, warmup_steps, peak)


def larger_of_the_two(steps, warmup_steps, peak):
    """You take the larger of the two parts at each step, or each part where the other one belongs. Then the learning
    rate is smallest at the end of the warm-up."""
    s = steps.float()
    return peak * torch.maximum(s / warmup_steps, (warmup_steps / s).sqrt())


def decay_without_the_root(steps, warmup_steps, peak):
    """The warm-up is right, but afterwards you divide by the step itself. It should be its root."""
    return _rates(steps, warmup_steps, peak, 1)


def decay_by_the_square(steps, warmup_steps, peak):
    """The warm-up is right, but afterwards you divide by the square of the step. It should be its root."""
    return _rates(steps, warmup_steps, peak, 2)


def no_decay(steps, warmup_steps, peak):
    """The warm-up is right, but afterwards your learning rate stays at the peak."""
    return _rates(steps, warmup_steps, peak, 0)


def warm_up_for_ever(steps, warmup_steps, peak):
    """Your learning rate goes on growing after the warm-up."""
    return peak * steps / warmup_steps


def no_warm_up(steps, warmup_steps, peak):
    """Your learning rate follows the decay from the first step on. There is no warm-up."""
    return peak * (warmup_steps / steps).sqrt()


def jump_after_the_warm_up(steps, warmup_steps, peak):
    """The warm-up is right, but afterwards your learning rate is the peak divided by the root of the step, which is a
    jump. The decay begins at the peak."""
    s = steps.float()
    return torch.where(s <= warmup_steps, peak * s / warmup_steps, peak * s.rsqrt())


def jump_one_step_early(steps, warmup_steps, peak):
    """Your learning rate is the peak divided by the root of the step from step warmup_steps on, which is a jump. The
    decay begins at the peak."""
    s = steps.float()
    return torch.where(s < warmup_steps, peak * s / warmup_steps, peak * s.rsqrt())


def steps_since_the_warm_up(steps, warmup_steps, peak):
    """The warm-up is right, but afterwards you divide by the root of the number of steps since its end. The root is
    that of the step itself."""
    s = steps.float()
    return torch.where(s <= warmup_steps, peak * s / warmup_steps, peak * (s - warmup_steps).clamp(min=1).rsqrt())


def steps_since_the_warm_up_and_one(steps, warmup_steps, peak):
    """The warm-up is right, but afterwards your decay counts the steps from the end of the warm-up. The root is that of
    the step itself."""
    s = steps.float()
    return torch.where(s <= warmup_steps, peak * s / warmup_steps, peak * (1 + s - warmup_steps).clamp(min=1).rsqrt())


def share_of_the_peak(steps, warmup_steps, peak):
    """Your learning rates are fractions of the peak. Multiply them by it."""
    return _rates(steps, warmup_steps, 1.0)


def peak_in_the_warm_up_alone(steps, warmup_steps, peak):
    """Your warm-up is right, but the decay does not begin at the peak: it is not multiplied by it."""
    s = steps.float()
    return torch.where(s <= warmup_steps, peak * s / warmup_steps, (warmup_steps / s).sqrt())


def formula_of_the_paper(steps, warmup_steps, peak):
    """Your curve has the right form, but not the right size: at step warmup_steps it is the peak divided by the root of
    warmup_steps. Both parts should be equal to the peak there."""
    return _rates(steps, warmup_steps, peak) / warmup_steps**0.5


def product_of_the_two(steps, warmup_steps, peak):
    """You multiply the two parts, so that the learning rate grows like the root of the step. Each part holds on one
    side of step warmup_steps."""
    return peak * (steps / warmup_steps).sqrt()


def root_in_the_warm_up(steps, warmup_steps, peak):
    """The decay is right, but your warm-up grows like the root of the step. It should be proportional to the step."""
    s = steps.float()
    return peak * torch.minimum((s / warmup_steps).sqrt(), (warmup_steps / s).sqrt())


def warm_up_counted_from_0(steps, warmup_steps, peak):
    """The decay is right, but in the warm-up you count the steps from 0. They are counted from 1, so that the first one
    already moves the weights."""
    s = steps.float()
    return peak * torch.where(s < warmup_steps, (s - 1) / warmup_steps, (warmup_steps / s).sqrt())


def warm_up_counted_from_0_to_the_end(steps, warmup_steps, peak):
    """The decay is right, but in the warm-up you count the steps from 0, so that the peak is never reached. They are
    counted from 1."""
    s = steps.float()
    return peak * torch.where(s <= warmup_steps, (s - 1) / warmup_steps, (warmup_steps / s).sqrt())
