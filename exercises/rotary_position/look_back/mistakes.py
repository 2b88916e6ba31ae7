import torch


def _key(d_head):
    return torch.tensor([1.0, 0.0]).repeat(d_head // 2)


def _turned(positions, d_head, base, exponents=None):
    exponents = torch.arange(0, d_head, 2) / d_head if exponents is None else exponents
    angles = positions * base**-exponents
    return torch.stack((angles.cos(), angles.sin()), -1).flatten()


def _long(positions, d_head, base, exponents=None):
    return 1e4 * _turned(positions, d_head, base, exponents)


def itself(n_back, d_head, base):
    """Each of your tokens attends to itself, because query and key point in the same direction at distance 0. Rotate
    one of them so that this happens at n_back positions."""
    return 1e4 * _key(d_head), _key(d_head)


def looks_ahead(n_back, d_head, base):
    """Your head attends to tokens ahead, which the mask hides. Rotate in the other direction."""
    return _long(n_back, d_head, base), _key(d_head)


def one_too_far(n_back, d_head, base):
    """Your head attends one position too far back. The token itself is 0 positions back."""
    return _long(-n_back - 1, d_head, base), _key(d_head)


def one_too_near(n_back, d_head, base):
    """Your head attends one position less far back than it should. The token itself is 0 positions back."""
    return _long(1 - n_back, d_head, base), _key(d_head)


def twice_as_far(n_back, d_head, base):
    """Your head attends twice as far back as it should, because you rotate both query and key, in opposite directions.
    Rotate only one of them."""
    return _long(-n_back, d_head, base), _turned(n_back, d_head, base)


def too_soft(n_back, d_head, base):
    """Your head prefers the right token but gives it less than 0.99 of the weight. What makes a softmax sharper, and do
    you use all planes?"""
    return _turned(-n_back, d_head, base), _key(d_head)


def too_soft_in_narrow_heads(n_back, d_head, base):
    """Your head prefers the right token, but in narrow heads it gives it less than 0.99 of the weight. What makes a
    softmax sharper? With fewer planes, the query has to be longer."""
    return 4 * d_head**0.5 * _turned(-n_back, d_head, base), _key(d_head)


def too_soft_in_the_narrowest(n_back, d_head, base):
    """Your head prefers the right token, but in the narrowest head it gives it less than 0.99 of the weight. What makes
    a softmax sharper? With fewer planes, the query has to be longer."""
    return 50 * _turned(-n_back, d_head, base), _key(d_head)


def two_forgotten(n_back, d_head, base):
    """You rotate the slower planes by too much, because the factor 2 is missing in the exponent. So there is no offset
    at which all planes agree."""
    return _long(-n_back, d_head, base, torch.arange(d_head // 2) / d_head), _key(d_head)


def paired_across_halves(n_back, d_head, base):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. Here neighbouring entries form a plane."""
    query, key = (x.unflatten(0, (-1, 2)).T.flatten() for x in (_turned(-n_back, d_head, base), _key(d_head)))
    return 1e4 * query, key


def nothing_preferred(n_back, d_head, base):
    """Your scores are all about the same, so each token spreads its weight over all tokens before it. When do a rotated
    query and a rotated key point in the same direction?"""
    return torch.zeros(d_head), _key(d_head)


def slow_planes_only(n_back, d_head, base):
    """Several tokens get about as much weight as the best one. Either your query is too short for a sharp softmax, or
    you use only slow planes, which hardly rotate from one token to the next."""
    slowest = torch.zeros(d_head)
    slowest[-2:] = 1
    return 100 * slowest * _turned(-n_back, d_head, base), slowest * _key(d_head)


def same_turn_in_all_planes(n_back, d_head, base):
    """You rotate all planes by the same angle. Each plane needs its own angle, the one by which it rotates in n_back
    positions."""
    return _long(-n_back, d_head, base, torch.zeros(d_head // 2)), _key(d_head)


def a_query_for_each_token(n_back, d_head, base):
    """You return vectors for several tokens. All tokens have the same query and the same key: return one of each, not
    yet rotated by a token's position."""
    return _turned(-n_back, d_head, base).expand(200, -1), _key(d_head)


def base_fixed(n_back, d_head, base):
    """You always use base 10000. The base is an argument, and newer models use larger ones."""
    return _long(-n_back, d_head, 10000), _key(d_head)


def exponent_positive(n_back, d_head, base):
    """Your frequencies increase from plane to plane. Look at the sign of the exponent."""
    return _long(-n_back, d_head, 1 / base), _key(d_head)
