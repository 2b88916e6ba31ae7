import torch


def _filled(unique, shares, n_tokens, most, weights=None, passes=100):
    limits, full = most * unique, torch.zeros_like(unique, dtype=torch.bool)
    weights = shares if weights is None else weights
    read = n_tokens * shares
    for _ in range(passes):
        if not (read > limits).any():
            break
        full |= read > limits
        left = n_tokens - limits[full].sum()
        read = torch.where(full, limits, left * weights / weights[~full].sum())
    return read


def no_limit(unique, shares, n_tokens, most):
    """You divide the run by the shares alone. Some sources are then read too often."""
    return n_tokens * shares


def cut_off(unique, shares, n_tokens, most):
    """You cut off what is too much, but nobody gives what is missing."""
    return torch.minimum(n_tokens * shares, most * unique)


def single_pass(unique, shares, n_tokens, most):
    """You divide what is missing only once. It takes another source beyond its limit."""
    return _filled(unique, shares, n_tokens, most, passes=1)


def two_passes(unique, shares, n_tokens, most):
    """You divide what is missing twice. Go on until no source is read too often."""
    return _filled(unique, shares, n_tokens, most, passes=2)


def single_pass_and_cut_off(unique, shares, n_tokens, most):
    """You divide what is missing once, and cut off what is then too much. It has to be divided again."""
    return torch.minimum(_filled(unique, shares, n_tokens, most, passes=1), most * unique)


def missing_divided_equally(unique, shares, n_tokens, most):
    """You give each of the other sources the same part of what is missing. Divide it in proportion to their shares."""
    limits, read = most * unique, n_tokens * shares
    for _ in range(100):
        full = read >= limits
        missing = (read - limits).clamp(min=0).sum()
        if missing < 1e-6:
            break
        read = torch.where(full, limits, read + missing / (~full).sum())
    return read


def missing_divided_by_size(unique, shares, n_tokens, most):
    """You divide what is missing in proportion to the sizes of the other sources, instead of their shares."""
    limits, read = most * unique, n_tokens * shares
    for _ in range(100):
        full = read >= limits
        missing = (read - limits).clamp(min=0).sum()
        if missing < 1e-6:
            break
        read = torch.where(full, limits, read + missing * unique / unique[~full].sum())
    return read


def rest_divided_by_size(unique, shares, n_tokens, most):
    """You divide the rest of the run in proportion to the sizes of the other sources, instead of their shares."""
    return _filled(unique, shares, n_tokens, most, weights=unique)


def shares_of_the_whole(unique, shares, n_tokens, most):
    """You divide what is missing by shares that do not add up to 1 any more, so that a part of it is lost. Divide by
    the sum of the shares of the other sources."""
    limits = most * unique
    full = n_tokens * shares > limits
    missing = (n_tokens * shares - limits).clamp(min=0).sum()
    return torch.where(full, limits, (n_tokens + missing) * shares)


def read_once(unique, shares, n_tokens, most):
    """Your limit is a single reading of each source. They may be read `most` times."""
    return _filled(unique, shares, n_tokens, 1.0)


def proportional_to_sizes(unique, shares, n_tokens, most):
    """You divide the run by the sizes of the sources, so that all are read equally often. The shares say which part
    should come from each."""
    return n_tokens * unique / unique.sum()


def epochs(unique, shares, n_tokens, most):
    """You return how many times each source is read. Return the tokens."""
    return _filled(unique, shares, n_tokens, most) / unique


def new_shares(unique, shares, n_tokens, most):
    """You return the new shares. Multiply them by the length of the run."""
    return _filled(unique, shares, n_tokens, most) / n_tokens


def all_at_their_limits(unique, shares, n_tokens, most):
    """You read every source `most` times, which is more than the run needs."""
    return most * unique
