import torch


def _run(x, gradients, lr, weight_decay, update):
    m, v = torch.zeros_like(x), torch.zeros_like(x)
    for t, gradient in enumerate(gradients, 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        x = x - lr * (update(m, v, t) + weight_decay * x)
    return x


def _hats(m, v, t):
    return m / (1 - 0.9**t), v / (1 - 0.999**t)


def epsilon_removed(x, gradients, lr, weight_decay):
    """Small gradients count now, but nothing prevents a division by zero any more. A gradient of zero should lead to an
    update of zero."""

    def update(m, v, t):
        m_hat, v_hat = _hats(m, v, t)
        return m_hat / v_hat.sqrt()

    return _run(x, gradients, lr, weight_decay, update)


def smaller_epsilon_under_the_root(x, gradients, lr, weight_decay):
    """Your ε is still added under the root, although it is smaller there. PyTorch adds it outside."""

    def update(m, v, t):
        m_hat, v_hat = _hats(m, v, t)
        return m_hat / (v_hat + 1e-16).sqrt()

    return _run(x, gradients, lr, weight_decay, update)


def slightly_smaller_epsilon(x, gradients, lr, weight_decay):
    """Your ε is still under the root, and its root, 0.000001, still exceeds some of the gradients."""

    def update(m, v, t):
        m_hat, v_hat = _hats(m, v, t)
        return m_hat / (v_hat + 1e-12).sqrt()

    return _run(x, gradients, lr, weight_decay, update)


def larger_of_the_two(x, gradients, lr, weight_decay):
    """You divide by the root or by ε, whichever is larger. PyTorch divides by their sum."""

    def update(m, v, t):
        m_hat, v_hat = _hats(m, v, t)
        return m_hat / v_hat.sqrt().clamp(min=1e-8)

    return _run(x, gradients, lr, weight_decay, update)


def epsilon_before_the_correction(x, gradients, lr, weight_decay):
    """Your ε is added to the root of the moment before its bias correction, so that it is enlarged with it in the first
    steps. It belongs beside the root of the corrected moment."""

    def update(m, v, t):
        m_hat, _ = _hats(m, v, t)
        return m_hat / ((v.sqrt() + 1e-8) / (1 - 0.999**t) ** 0.5)

    return _run(x, gradients, lr, weight_decay, update)


def root_of_epsilon(x, gradients, lr, weight_decay):
    """You add the root of ε to the root of the moment. Add ε itself."""

    def update(m, v, t):
        m_hat, v_hat = _hats(m, v, t)
        return m_hat / (v_hat.sqrt() + 1e-4)

    return _run(x, gradients, lr, weight_decay, update)


def root_removed(x, gradients, lr, weight_decay):
    """There is no root any more: you divide by the second moment itself."""

    def update(m, v, t):
        m_hat, v_hat = _hats(m, v, t)
        return m_hat / (v_hat + 1e-8)

    return _run(x, gradients, lr, weight_decay, update)


def correction_of_the_second_lost(x, gradients, lr, weight_decay):
    """Your ε is where it belongs, but the second moment is not corrected any more."""

    def update(m, v, t):
        m_hat, _ = _hats(m, v, t)
        return m_hat / (v.sqrt() + 1e-8)

    return _run(x, gradients, lr, weight_decay, update)


def as_if_epsilon_were_zero(x, gradients, lr, weight_decay):
    """Your weights are those of an AdamW without ε: gradients as small as 0.00000001 lead to full updates. For
    gradients of this size, PyTorch's ε counts."""
    return _run(x, gradients, lr, weight_decay, lambda m, v, t: _hats(m, v, t)[0] / (_hats(m, v, t)[1].sqrt() + 1e-16))


def both_corrections_lost(x, gradients, lr, weight_decay):
    """Your ε is where it belongs, but the moments are not corrected for their bias any more."""
    return _run(x, gradients, lr, weight_decay, lambda m, v, t: m / (v.sqrt() + 1e-8))


def correction_outside_the_root(x, gradients, lr, weight_decay):
    """Your ε is where it belongs, but the correction of the second moment has come out of the root as well. It is the
    corrected moment whose root is taken."""
    return _run(x, gradients, lr, weight_decay, lambda m, v, t: _hats(m, v, t)[0] / (v.sqrt() / (1 - 0.999**t) + 1e-8))
