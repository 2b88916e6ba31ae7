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
    """Each of your tokens attends to itself: query and key point the same way at distance 0. Turn one of them so that
    they do so n_back positions apart."""
    return 1e4 * _key(d_head), _key(d_head)


def looks_ahead(n_back, d_head, base):
    """Your head attends ahead, where the mask hides all tokens. Turn the other way."""
    return _long(n_back, d_head, base), _key(d_head)


def one_too_far(n_back, d_head, base):
    """Your head attends one position further back than it should. The token itself is 0 positions back."""
    return _long(-n_back - 1, d_head, base), _key(d_head)


def one_too_near(n_back, d_head, base):
    """Your head attends one position less far back than it should. The token itself is 0 positions back."""
    return _long(1 - n_back, d_head, base), _key(d_head)


def twice_as_far(n_back, d_head, base):
    """Your head attends twice as far back. Query and key are both turned, in opposite directions: turn only one of
    them."""
    return _long(-n_back, d_head, base), _turned(n_back, d_head, base)


def too_soft(n_back, d_head, base):
    """Your head prefers the right token but gives it less than 0.99. What makes a softmax sharper, and do all planes
    take part?"""
    return _turned(-n_back, d_head, base), _key(d_head)


def too_soft_in_narrow_heads(n_back, d_head, base):
    """Your head prefers the right token, but in narrow heads it gives it less than 0.99. What makes a softmax sharper?
    Fewer planes need a longer query."""
    return 4 * d_head**0.5 * _turned(-n_back, d_head, base), _key(d_head)


def too_soft_in_the_narrowest(n_back, d_head, base):
    """Your head prefers the right token, but in the narrowest head it gives it less than 0.99. What makes a softmax
    sharper? Fewer planes need a longer query."""
    return 50 * _turned(-n_back, d_head, base), _key(d_head)


def two_forgotten(n_back, d_head, base):
    """You turn the slower planes by too much: the exponent lacks its factor of 2. So the planes agree nowhere."""
    return _long(-n_back, d_head, base, torch.arange(d_head // 2) / d_head), _key(d_head)


def paired_across_halves(n_back, d_head, base):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. Here neighbours form a plane."""
    query, key = (x.unflatten(0, (-1, 2)).T.flatten() for x in (_turned(-n_back, d_head, base), _key(d_head)))
    return 1e4 * query, key


def nothing_preferred(n_back, d_head, base):
    """Your scores are all about the same, so each token spreads its weight over all that it sees. When do a turned
    query and a turned key point the same way?"""
    return torch.zeros(d_head), _key(d_head)


def slow_planes_only(n_back, d_head, base):
    """Several tokens get about as much weight as the best one. Either your query is too short for a sharp softmax, or
    you use slow planes alone, which hardly turn from one token to the next."""
    slowest = torch.zeros(d_head)
    slowest[-2:] = 1
    return 100 * slowest * _turned(-n_back, d_head, base), slowest * _key(d_head)


def same_turn_in_all_planes(n_back, d_head, base):
    """You turn all planes by the same angle. Each needs its own, the angle by which it turns in n_back positions."""
    return _long(-n_back, d_head, base, torch.zeros(d_head // 2)), _key(d_head)


def a_query_for_each_token(n_back, d_head, base):
    """You return vectors for several tokens. All tokens have the same query and the same key: return one of each, not
    yet turned by a token's position."""
    return _turned(-n_back, d_head, base).expand(200, -1), _key(d_head)


def base_fixed(n_back, d_head, base):
    """You take 10000 whatever the base. It is given, and newer models set it higher."""
    return _long(-n_back, d_head, 10000), _key(d_head)


def exponent_positive(n_back, d_head, base):
    """Your planes become faster from one to the next. Look at the sign of the exponent."""
    return _long(-n_back, d_head, 1 / base), _key(d_head)
