import torch


def _key(d_head):
    return torch.tensor([1.0, 0.0]).repeat(d_head // 2)


def _turned(positions, d_head, base, exponents=None):
    exponents = torch.arange(0, d_head, 2) / d_head if exponents is None else exponents
    angles = positions * base**-exponents
    return torch.stack((angles.cos(), angles.sin()), -1).flatten()


def itself(n_back, d_head, base):
    """Each word attends to itself, since its query is its key. The query has to be turned against the key."""
    return 1e4 * _key(d_head), _key(d_head)


def looks_ahead(n_back, d_head, base):
    """Your head looks ahead, where the mask hides all words. Turn the other way."""
    return 1e4 * _turned(n_back, d_head, base), _key(d_head)


def one_too_far(n_back, d_head, base):
    """Your head looks one position further back than it should. The word itself is at 0 positions."""
    return 1e4 * _turned(-n_back - 1, d_head, base), _key(d_head)


def twice_as_far(n_back, d_head, base):
    """Your head looks twice as far. Query and key are both turned, and in opposite directions: one of them will do."""
    return 1e4 * _turned(-n_back, d_head, base), _turned(n_back, d_head, base)


def too_soft(n_back, d_head, base):
    """Your head prefers the right word but gives it less than 0.99. What makes a softmax sharper?"""
    return _turned(-n_back, d_head, base), _key(d_head)


def two_forgotten(n_back, d_head, base):
    """You turn the slower planes by too much: the exponent lacks its factor of 2. So the planes agree nowhere."""
    return 1e4 * _turned(-n_back, d_head, base, torch.arange(d_head // 2) / d_head), _key(d_head)


def paired_across_halves(n_back, d_head, base):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. Here neighbours form a plane."""
    query, key = (x.unflatten(0, (-1, 2)).T.flatten() for x in (_turned(-n_back, d_head, base), _key(d_head)))
    return 1e4 * query, key


def nothing_preferred(n_back, d_head, base):
    """Your scores are all alike, so each word shares its weight among all that it sees."""
    return torch.zeros(d_head), _key(d_head)


def same_turn_in_all_planes(n_back, d_head, base):
    """You turn all planes by the same angle. Each needs its own, as far as it turns in so many positions."""
    return 1e4 * _turned(-n_back, d_head, base, torch.zeros(d_head // 2)), _key(d_head)
