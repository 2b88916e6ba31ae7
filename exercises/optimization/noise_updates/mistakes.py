import torch


def _measured(seed, size, beta1=0.9, first=True, second=True, fresh=True, shape=None, late=0, divided=True):
    torch.manual_seed(seed)
    m = v = torch.zeros(10_000)
    gradient, found = size * torch.randn(10_000), []
    for t in range(1, 101 + late):
        if fresh or t == 1:
            gradient = size * torch.randn(10_000)
        m, v = beta1 * m + (1 - beta1) * gradient, 0.95 * v + 0.05 * gradient**2
        m_hat, v_hat = m / (1 - beta1**t) if first else m, v / (1 - 0.95**t) if second else v
        update = m_hat / (v_hat.sqrt() + 1e-8) if divided else m_hat
        if t - late in (1, 2, 10, 100):
            found.append((shape(update) if shape else update.square().mean().sqrt()).item())
    return found


def conclusion_turned_round(seed, size):
    """Your numbers are right, but your conclusion is the wrong way round: in which step are the updates largest?"""
    return _measured(seed, size), "largest at the end"


def differences_overlooked(seed, size):
    """Your numbers are right, but they are not the same: the first one is more than twice the last."""
    return _measured(seed, size), "always the same"


def no_correction(seed, size):
    """Your updates are not corrected for the bias of the averages, although your conclusion is right. In the first
    step, the update of a weight should be 1 or −1."""
    return _measured(seed, size, first=False, second=False), "largest at first"


def no_correction_and_its_conclusion(seed, size):
    """Your updates are not corrected for the bias of the averages. In the first step, the update of a weight should be
    1 or −1."""
    return _measured(seed, size, first=False, second=False), "always the same"


def second_not_corrected(seed, size):
    """Your first updates are more than four times too large: the average of the squares is not corrected for its
    bias."""
    return _measured(seed, size, second=False), "largest at first"


def first_not_corrected(seed, size):
    """Your first updates are too small: the average of the gradients is not corrected for its bias."""
    return _measured(seed, size, first=False), "largest at the end"


def one_gradient_for_all_steps(seed, size):
    """Your updates have about the size 1 in all steps: nothing cancels. Are there new gradients with mean 0 in each
    step, and is the numerator an average over the steps?"""
    return _measured(seed, size, fresh=False), "always the same"


def means_of_absolute_values(seed, size):
    """Your numbers are means of absolute values. They should be roots of means of squares."""
    return _measured(seed, size, shape=lambda update: update.abs().mean()), "largest at first"


def no_root_of_the_mean(seed, size):
    """Your numbers are means of squares. Take the root of them."""
    return _measured(seed, size, shape=lambda update: update.square().mean()), "largest at first"


def norms(seed, size):
    """Your numbers are norms, 100 times as large as the roots of the means of the squares."""
    return _measured(seed, size, shape=lambda update: update.norm()), "largest at first"


def reversed_order(seed, size):
    """Your numbers are in the reversed order. Step 1 comes first."""
    return _measured(seed, size)[::-1], "largest at first"


def with_the_learning_rate(seed, size):
    """Your updates contain a learning rate of 0.001. The update as it is defined here does not."""
    return _measured(seed, size, shape=lambda update: 0.001 * update.square().mean().sqrt()), "largest at first"


def one_step_late(seed, size):
    """Your numbers are those of the steps 2, 3, 11 and 101. The step with the first gradient is step 1."""
    return _measured(seed, size, late=1), "largest at first"


def not_divided(seed, size):
    """Your updates grow with the gradients. The average of the gradients is divided by the root of that of their
    squares."""
    return _measured(seed, size, divided=False), "largest at first"
