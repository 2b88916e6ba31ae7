def _step(
    x,
    gradient,
    m,
    v,
    t,
    eta,
    alpha,
    weight_decay,
    beta1=0.9,
    beta2=0.999,
    first=True,
    second=True,
    decay=None,
    root=None,
):
    m, v = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient**2
    m_hat = m / (1 - beta1**t) if first else m
    v_hat = v / (1 - beta2**t) if second else v
    decay = eta * weight_decay if decay is None else decay
    below = v_hat.sqrt() + 1e-8 if root is None else root(v_hat)
    return x - eta * alpha * m_hat / below - decay * x, m, v


def decay_times_alpha(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but you multiply the decay by α, as PyTorch does. In the formula above, only the
    schedule's multiplier scales it."""
    return _step(x, gradient, m, v, t, eta, alpha, weight_decay, decay=eta * alpha * weight_decay)


def decay_without_schedule(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but the schedule's multiplier scales only the part with the gradient. It stands before
    both parts."""
    return _step(x, gradient, m, v, t, eta, alpha, weight_decay, decay=weight_decay)


def schedule_left_out(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but your update lacks the schedule's multiplier."""
    return _step(x, gradient, m, v, t, 1, alpha, weight_decay)


def no_decay(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but the weights do not decay."""
    return _step(x, gradient, m, v, t, eta, alpha, 0)


def decay_added(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but the decay has the wrong sign: it makes the weights grow."""
    return _step(x, gradient, m, v, t, eta, alpha, -weight_decay)


def decay_of_new_weights(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but the decay acts on weights that the gradient has already changed. It belongs to the
    weights before the step."""
    x, m, v = _step(x, gradient, m, v, t, eta, alpha, 0)
    return x - eta * weight_decay * x, m, v


def decay_in_the_gradient(x, gradient, m, v, t, eta, alpha, weight_decay):
    """You add the decay to the gradient, so that both moments contain it. That is Adam with L2."""
    return _step(x, gradient + weight_decay * x, m, v, t, eta, alpha, 0)


def decay_twice(x, gradient, m, v, t, eta, alpha, weight_decay):
    """You add the decay to the gradient, so that both moments contain it, and use it again in the update. Only the
    update contains it."""
    return _step(x, gradient + weight_decay * x, m, v, t, eta, alpha, weight_decay)


def no_correction(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but your update uses them without their hats, that is, without bias correction."""
    return _step(x, gradient, m, v, t, eta, alpha, weight_decay, first=False, second=False)


def first_not_corrected(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but in your update, the first one is not corrected for its bias."""
    return _step(x, gradient, m, v, t, eta, alpha, weight_decay, first=False)


def second_not_corrected(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but in your update, the second one is not corrected for its bias."""
    return _step(x, gradient, m, v, t, eta, alpha, weight_decay, second=False)


def correction_of_the_next_step(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but you correct them with the exponent t + 1. The first step has t = 1."""
    new = _step(x, gradient, m, v, t, eta, alpha, weight_decay)[1:]
    m_hat, v_hat = new[0] / (1 - 0.9 ** (t + 1)), new[1] / (1 - 0.999 ** (t + 1))
    return x - eta * (alpha * m_hat / (v_hat.sqrt() + 1e-8) + weight_decay * x), *new


def corrections_without_powers(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but you divide them by 1 − β. The β stands there to the power of t."""
    new = _step(x, gradient, m, v, t, eta, alpha, weight_decay)[1:]
    m_hat, v_hat = new[0] / 0.1, new[1] / 0.001
    return x - eta * (alpha * m_hat / (v_hat.sqrt() + 1e-8) + weight_decay * x), *new


def corrected_moments_returned(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your weights are right, but you return the corrected moments. The next step needs the moments without their
    hats."""
    x, m, v = _step(x, gradient, m, v, t, eta, alpha, weight_decay)
    return x, m / (1 - 0.9**t), v / (1 - 0.999**t)


def epsilon_under_the_root(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but your ε stands under the root, where it counts for much more."""
    return _step(x, gradient, m, v, t, eta, alpha, weight_decay, root=lambda v_hat: (v_hat + 1e-8).sqrt())


def no_root(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but your update divides by the second moment. It should divide by its root."""
    return _step(x, gradient, m, v, t, eta, alpha, weight_decay, root=lambda v_hat: v_hat + 1e-8)


def uphill(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but your weights go uphill: the part with the moments is subtracted."""
    return _step(x, gradient, m, v, t, eta, -alpha, weight_decay)


def rates_of_the_moments_exchanged(x, gradient, m, v, t, eta, alpha, weight_decay):
    """You have exchanged β₁ and β₂."""
    return _step(x, gradient, m, v, t, eta, alpha, weight_decay, beta1=0.999, beta2=0.9)


def moments_turned_round(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments weigh the new gradient with β and the past with 1 − β. It is the other way round."""
    m, v = 0.1 * m + 0.9 * gradient, 0.001 * v + 0.999 * gradient**2
    m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
    return x - eta * (alpha * m_hat / (v_hat.sqrt() + 1e-8) + weight_decay * x), m, v


def second_moment_of_the_first(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your first moment is right, but your second moment is made from its square. It is made from the square of the
    gradient."""
    m = 0.9 * m + 0.1 * gradient
    v = 0.999 * v + 0.001 * m**2
    m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
    return x - eta * (alpha * m_hat / (v_hat.sqrt() + 1e-8) + weight_decay * x), m, v


def old_moments_used(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but your update uses those of the step before."""
    new = _step(x, gradient, m, v, t, eta, alpha, weight_decay)[1:]
    m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
    return x - eta * (alpha * m_hat / (v_hat.sqrt() + 1e-8) + weight_decay * x), *new


def gradient_instead_of_moment(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but the numerator of your update is the gradient itself. It should be the corrected first
    moment."""
    _, m, v = _step(x, gradient, m, v, t, eta, alpha, weight_decay)
    v_hat = v / (1 - 0.999**t)
    return x - eta * (alpha * gradient / (v_hat.sqrt() + 1e-8) + weight_decay * x), m, v


def decay_divided_too(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but your decay is divided by the root of the second moment. The fraction ends before the
    decay."""
    _, m, v = _step(x, gradient, m, v, t, eta, alpha, weight_decay)
    m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
    return x - eta * (alpha * m_hat + weight_decay * x) / (v_hat.sqrt() + 1e-8), m, v


def changed_in_place(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your results are right, but you also change the caller's tensors. Make new ones."""
    results = _step(x, gradient, m, v, t, eta, alpha, weight_decay)
    for old, new in zip((x, m, v), results, strict=True):
        old.copy_(new)
    return x, m, v


def moments_first(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your three tensors are in the wrong order. The weights come first, then the two moments."""
    x, m, v = _step(x, gradient, m, v, t, eta, alpha, weight_decay)
    return m, v, x


def moments_exchanged(x, gradient, m, v, t, eta, alpha, weight_decay):
    """You return the second moment before the first one."""
    x, m, v = _step(x, gradient, m, v, t, eta, alpha, weight_decay)
    return x, v, m


def epsilon_before_the_correction(x, gradient, m, v, t, eta, alpha, weight_decay):
    """Your moments are right, but ε is added to the root of the second moment before its bias correction, which
    enlarges ε, too. It belongs beside the root of the corrected moment."""
    correction = (1 - 0.999**t) ** 0.5
    return _step(x, gradient, m, v, t, eta, alpha, weight_decay, root=lambda v_hat: v_hat.sqrt() + 1e-8 / correction)
