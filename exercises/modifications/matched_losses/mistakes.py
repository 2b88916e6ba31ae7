def _at(step, steps, losses, share=lambda share: share):
    i = 1
    while i < len(steps) - 1 and steps[i] < step:
        i += 1
    a, b = float(steps[i - 1]), float(steps[i])
    way = share(min(1.0, max(0.0, (float(step) - a) / (b - a))))
    return float(losses[i - 1]) * (1 - way) + float(losses[i]) * way


def _read(steps, baseline, variant, of_baseline, of_variant, **options):
    n = float(steps[-1])
    return _at(n * of_baseline, steps, baseline, **options), _at(n * of_variant, steps, variant, **options)


def same_steps(steps, baseline, variant, time_ratio):
    """You read both curves at their ends, after equally many steps. The time is to be the same."""
    return _read(steps, baseline, variant, 1, 1)


def variant_alone(steps, baseline, variant, time_ratio):
    """Where a step of the variant is shorter, you read the baseline at its end. It has not come so far by then."""
    return _read(steps, baseline, variant, 1, 1 / max(1, time_ratio))


def baseline_alone(steps, baseline, variant, time_ratio):
    """Where a step of the variant takes longer, you read the variant at its end. It has not come so far by then."""
    return _read(steps, baseline, variant, min(1, time_ratio), 1)


def ratio_turned_round(steps, baseline, variant, time_ratio):
    """You take the ratio the wrong way round, so that the slower of the two has made more steps."""
    return _read(steps, baseline, variant, min(1, 1 / time_ratio), min(1, time_ratio))


def exchanged(steps, baseline, variant, time_ratio):
    """You return the two losses in the wrong order: that of the baseline comes first."""
    return _read(steps, baseline, variant, min(1, time_ratio), 1 / max(1, time_ratio))[::-1]


def point_before(steps, baseline, variant, time_ratio):
    """Between two measurements, you take the earlier one. Take the straight line between them."""
    return _read(
        steps, baseline, variant, min(1, time_ratio), 1 / max(1, time_ratio), share=lambda w: float(w > 0.9999)
    )


def point_after(steps, baseline, variant, time_ratio):
    """Between two measurements, you take the later one. Take the straight line between them."""
    return _read(
        steps, baseline, variant, min(1, time_ratio), 1 / max(1, time_ratio), share=lambda w: float(w > 0.0001)
    )


def nearest_point(steps, baseline, variant, time_ratio):
    """Between two measurements, you take the nearer one. Take the straight line between them."""
    return _read(steps, baseline, variant, min(1, time_ratio), 1 / max(1, time_ratio), share=lambda w: float(w > 0.5))


def index_for_step(steps, baseline, variant, time_ratio):
    """You shift the index of the last measurement by the ratio, and not its step. Measurements need not be equally far
    apart, and between two of them you should take the straight line."""
    last = len(steps) - 1
    return float(baseline[int(last * min(1, time_ratio))]), float(variant[int(last / max(1, time_ratio))])


def rounded_index_for_step(steps, baseline, variant, time_ratio):
    """You shift the index of the last measurement by the ratio and round it. Shift the step: measurements need not be
    equally far apart, and between two of them you should take the straight line."""
    last = len(steps) - 1
    return float(baseline[round(last * min(1, time_ratio))]), float(variant[round(last / max(1, time_ratio))])


def middle(steps, baseline, variant, time_ratio):
    """Between two measurements, you take their mean. Take the straight line between them."""

    def share(w):
        return 0.5 if 0.0001 < w < 0.9999 else w

    return _read(steps, baseline, variant, min(1, time_ratio), 1 / max(1, time_ratio), share=share)


def line_turned_round(steps, baseline, variant, time_ratio):
    """Between two measurements, your line runs the wrong way: near the later step, it is near the earlier loss."""

    def share(w):
        return 1 - w if 0.0001 < w < 0.9999 else w

    return _read(steps, baseline, variant, min(1, time_ratio), 1 / max(1, time_ratio), share=share)


def both_read_early(steps, baseline, variant, time_ratio):
    """You shift both curves by the ratio, though only one of them has to be read before its end."""
    shorter = min(time_ratio, 1 / time_ratio)
    return _read(steps, baseline, variant, shorter, shorter)


def line_over_the_whole_run(steps, baseline, variant, time_ratio):
    """Your straight line runs from the first to the last measurement. Take that between the two neighbours."""
    ends = [0, -1]
    return _read(steps[ends], baseline[ends], variant[ends], min(1, time_ratio), 1 / max(1, time_ratio))


def steps_of_the_variant_multiplied(steps, baseline, variant, time_ratio):
    """You read the baseline at its end, and multiply the steps of the variant by the ratio. A slower variant makes
    fewer steps in the same time; beside a faster one, the baseline is read before its end."""
    return _read(steps, baseline, variant, 1, time_ratio)


def variant_read_for_the_baseline(steps, baseline, variant, time_ratio):
    """Where a step of the variant is shorter, you read the variant before its end. It is the baseline that has not
    finished."""
    return _read(steps, baseline, variant, 1, min(time_ratio, 1 / time_ratio))
