import torch


def _hidden(x, real, w_1):
    return torch.relu(x[real] @ w_1)


def _dead(x, real, w_1):
    return int((_hidden(x, real, w_1) == 0).all(0).sum())


def _zeros(x, real, w_1):
    return float((_hidden(x, real, w_1) == 0).float().mean())


def _all(real):
    return torch.ones_like(real)


def padding_counted(x, real, w_1):
    """You count padding as if it were text, in both numbers."""
    return _dead(x, _all(real), w_1), _zeros(x, _all(real), w_1)


def padding_in_the_share(x, real, w_1):
    """Your count of dead units is right, but your share of zeros includes the outputs at padding."""
    return _dead(x, real, w_1), _zeros(x, _all(real), w_1)


def padding_in_the_count(x, real, w_1):
    """Your share of zeros is right, but a unit that is active at padding alone does not count as dead in your first
    number. Padding is not text."""
    return _dead(x, _all(real), w_1), _zeros(x, real, w_1)


def padding_as_zeros(x, real, w_1):
    """Your count of dead units is right, but in your share you set the outputs at padding to 0 and count them as
    zeros."""
    hidden = torch.relu(x @ w_1) * real[..., None]
    return _dead(x, real, w_1), float((hidden == 0).float().mean())


def zeros_over_all_tokens(x, real, w_1):
    """Your count of dead units is right. In your share, you count the zeros of real tokens, but divide by the number of
    all outputs, with those at padding."""
    hidden = _hidden(x, real, w_1)
    return _dead(x, real, w_1), float((hidden == 0).sum() / (real.numel() * w_1.shape[1]))


def any_zero(x, real, w_1):
    """You count the units that are 0 at some token. A dead unit is 0 at every token."""
    return int((_hidden(x, real, w_1) == 0).any(0).sum()), _zeros(x, real, w_1)


def alive_counted(x, real, w_1):
    """Your share is right, but you count the units that are not dead."""
    return w_1.shape[1] - _dead(x, real, w_1), _zeros(x, real, w_1)


def share_of_positive(x, real, w_1):
    """Your count is right, but your share is that of the outputs above 0."""
    return _dead(x, real, w_1), 1 - _zeros(x, real, w_1)


def alive_and_positive(x, real, w_1):
    """You count what is active: the units that are not dead, and the outputs above 0. Both numbers are about zeros."""
    return w_1.shape[1] - _dead(x, real, w_1), 1 - _zeros(x, real, w_1)


def share_of_dead_units(x, real, w_1):
    """Your count is right, but your second number is the share of dead units. It should be the share of zeros among the
    outputs of all units."""
    return _dead(x, real, w_1), _dead(x, real, w_1) / w_1.shape[1]


def share_for_both(x, real, w_1):
    """Your second number is right, but the first should be the number of dead units, not their share."""
    return _dead(x, real, w_1) / w_1.shape[1], _zeros(x, real, w_1)


def number_of_zeros(x, real, w_1):
    """Your count is right, but your second number is how many outputs are 0. It should be their share."""
    return _dead(x, real, w_1), int((_hidden(x, real, w_1) == 0).sum())


def percent(x, real, w_1):
    """Your count is right, but your share is in percent. It should be a number from 0 to 1."""
    return _dead(x, real, w_1), 100 * _zeros(x, real, w_1)


def silent_tokens(x, real, w_1):
    """Your first number counts the tokens for which all units are 0. It should count the units that are 0 for all
    tokens."""
    return int((_hidden(x, real, w_1) == 0).all(1).sum()), _zeros(x, real, w_1)


def dead_left_out(x, real, w_1):
    """Your count is right, but your share leaves out the dead units. They count there, too."""
    zero = _hidden(x, real, w_1) == 0
    return _dead(x, real, w_1), float(zero[:, ~zero.all(0)].float().mean())


def by_sequence(x, real, w_1):
    """Your share is right, but your first number adds up, over the sequences, the units that are dead in one of them. A
    unit that is active in another sequence is not dead."""
    hidden = torch.relu(x @ w_1).masked_fill(~real[..., None], 0)
    return int((hidden == 0).all(1).sum()), _zeros(x, real, w_1)


def mean_is_negative(x, real, w_1):
    """Your share is right, but you call a unit dead if its input is negative on average, or at the last token. One
    token with an output above 0 is enough to keep it alive."""
    return int((x[real] @ w_1).mean(0).le(0).sum()), _zeros(x, real, w_1)


def negative_only(x, real, w_1):
    """You count inputs below 0. If the input of ReLU is exactly 0, the output is 0, too."""
    negative = x[real] @ w_1 < 0
    return int(negative.all(0).sum()), float(negative.float().mean())


def zero_inputs(x, real, w_1):
    """You look for inputs that are exactly 0. The output of ReLU is 0 wherever the input is 0 or below."""
    zero = x[real] @ w_1 == 0
    return int(zero.all(0).sum()), float(zero.float().mean())


def mask_turned_round(x, real, w_1):
    """Your numbers come from the padding, and leave the text out. `real` is True at the text."""
    zero = x[~real] @ w_1 <= 0
    return int(zero.all(0).sum()), float(zero.float().mean())


def share_first(x, real, w_1):
    """Your two numbers are in the wrong order: the count comes first."""
    return _zeros(x, real, w_1), _dead(x, real, w_1)


def mean_over_sequences(x, real, w_1):
    """Your count is right, but your share is the mean of the shares of the sequences. Each real token should count
    equally, whatever the length of its sequence."""
    shares = [_zeros(x[i : i + 1], real[i : i + 1], w_1) for i in range(len(x)) if real[i].any()]
    return _dead(x, real, w_1), sum(shares) / len(shares)


def dead_in_some_sequence(x, real, w_1):
    """Your share is right, but your first number counts the units that are dead in at least one sequence. A unit that
    is active in another sequence is not dead."""
    quiet = ((torch.relu(x @ w_1) == 0) | ~real[..., None]).all(1)
    return int(quiet.any(0).sum()), _zeros(x, real, w_1)
