import torch


def _row(sizes, n_steps, penalty=0.0, decay=0.0, sign=1, corrected=True, alternating=True, plain=False):
    x, m, v = torch.ones(3, len(sizes), dtype=torch.float64) * torch.tensor([[1.0], [0.0], [0.0]])
    for t in range(1, n_steps + 1):
        g = sign * sizes.double() * (1 if t % 2 or not alternating else -1) + penalty * x
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        first, second = (1 - 0.9**t, 1 - 0.999**t) if corrected else (1, 1)
        update = g if plain else m / first / ((v / second).sqrt() + 1e-8)
        x = x - 0.01 * update - decay * x
    return x


def _table(sizes, n_steps, conclusion="large gradients", penalty=0.1, decay=0.001, **more):
    rows = _row(sizes, n_steps, penalty=penalty, **more), _row(sizes, n_steps, decay=decay, **more)
    return torch.stack(rows), conclusion


def rows_exchanged(sizes, n_steps):
    """Your rows are in the wrong order: Adam with L2 comes first."""
    table, conclusion = _table(sizes, n_steps)
    return table.flip(0), conclusion


def conclusion_the_wrong_way_round(sizes, n_steps):
    """Your table is right, but your conclusion is the wrong way round. Which entries of the first row are larger?"""
    return _table(sizes, n_steps, "small gradients")


def neither(sizes, n_steps):
    """Your table is right, but your conclusion is that of its second row. The question is about the first."""
    return _table(sizes, n_steps, "neither")


def adamw_twice(sizes, n_steps):
    """Both of your rows are those of AdamW. In Adam with L2, the penalty is a part of the gradient. If your first run
    has it there, does the second one overwrite its weights?"""
    row = _row(sizes, n_steps, decay=0.001)
    return torch.stack((row, row)), "large gradients"


def adamw_twice_and_its_conclusion(sizes, n_steps):
    """Both of your rows are those of AdamW, and your conclusion follows from them. In Adam with L2, the penalty is a
    part of the gradient."""
    row = _row(sizes, n_steps, decay=0.001)
    return torch.stack((row, row)), "neither"


def penalty_twice(sizes, n_steps):
    """Your first row is right, but your second row is that of Adam with L2, too. AdamW keeps the decay out of the
    moments."""
    row = _row(sizes, n_steps, penalty=0.1)
    return torch.stack((row, row)), "large gradients"


def decay_of_the_paper(sizes, n_steps):
    """Your first row is right, but in your second row, the decay is not multiplied by the learning rate."""
    return _table(sizes, n_steps, decay=0.1)


def default_decay(sizes, n_steps):
    """Your first row is right, but your second row has the decay 0.01, which is PyTorch's default. Set it to 0.1."""
    return _table(sizes, n_steps, decay=0.0001)


def no_penalty(sizes, n_steps):
    """Your second row is right, but in your first row, nothing decays. PyTorch's Adam has no decay by default."""
    return _table(sizes, n_steps, penalty=0.0)


def defaults(sizes, n_steps):
    """Your decays are PyTorch's defaults: none for Adam, and 0.01 for AdamW. Set both to 0.1."""
    return _table(sizes, n_steps, penalty=0.0, decay=0.0001)


def no_bias_correction(sizes, n_steps):
    """Your updates are not corrected for the bias of the moments."""
    return _table(sizes, n_steps, corrected=False)


def always_the_same_sign(sizes, n_steps):
    """Your gradients do not alternate: they should be +s in odd steps and −s in even ones."""
    return _table(sizes, n_steps, alternating=False)


def begins_with_minus(sizes, n_steps):
    """Your gradients alternate, but they begin with −s. The first step is step 1, with +s."""
    return _table(sizes, n_steps, sign=-1)


def one_step_less(sizes, n_steps):
    """You run one step too few."""
    return _table(sizes, n_steps - 1)


def one_step_more(sizes, n_steps):
    """You run one step too many."""
    return _table(sizes, n_steps + 1)


def shares_lost(sizes, n_steps):
    """Your table holds how much the weights have lost. It should hold the weights after the last step."""
    table, conclusion = _table(sizes, n_steps)
    return 1 - table, conclusion


def plain_descent(sizes, n_steps):
    """Your updates are those of plain gradient descent. Adam divides the first moment by the root of the second."""
    return _table(sizes, n_steps, plain=True)


def one_run_for_both(sizes, n_steps):
    """Your first row is right, but your second row goes on with the weights of the first. Both methods begin at 1."""
    row = _row(sizes, n_steps, penalty=0.1)
    x = _row(sizes, n_steps, decay=0.001)
    return torch.stack((row, x + (row - 1) * 0.999**n_steps)), "large gradients"
