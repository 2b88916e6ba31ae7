import torch
from torch.nn.functional import elu


def _turn(x, positions, base, exponents=None):
    exponents = torch.arange(0, x.shape[-1], 2) / x.shape[-1] if exponents is None else exponents
    angles = (positions[:, None] * base**-exponents).to(x.dtype)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def _phi(x):
    return elu(x) + 1


def _table(queries, keys):
    return queries @ keys.transpose(-2, -1)


def _turned(queries, keys, positions, base, exponents=None):
    return _table(
        _turn(_phi(queries), positions, base, exponents), _turn(_phi(keys), positions, base, exponents)
    ).tril()


def _plain(queries, keys):
    return _table(_phi(queries), _phi(keys)).tril()


def _divide(above, below, values):
    return above @ values / below.sum(-1, keepdim=True)


def turned_below_too(queries, keys, values, positions, base):
    """You turn above and below the line, so your weights add up to one. Below, the terms have to stay positive."""
    above = _turned(queries, keys, positions, base)
    return _divide(above, above, values)


def turned_below_only(queries, keys, values, positions, base):
    """You turn below the line and not above it. It is the other way round."""
    return _divide(_plain(queries, keys), _turned(queries, keys, positions, base), values)


def not_turned(queries, keys, values, positions, base):
    """Your output does not depend on the positions: this is linear attention without RoPE."""
    return _divide(_plain(queries, keys), _plain(queries, keys), values)


def turned_before_phi(queries, keys, values, positions, base):
    """You turn first and make positive afterwards, and so lose that only the offset matters. Look at the formula."""
    return _divide(_plain(_turn(queries, positions, base), _turn(keys, positions, base)), _plain(queries, keys), values)


def queries_only(queries, keys, values, positions, base):
    """You turn the queries only, so that their absolute positions are seen. The keys turn as well."""
    return _divide(_table(_turn(_phi(queries), positions, base), _phi(keys)).tril(), _plain(queries, keys), values)


def keys_only(queries, keys, values, positions, base):
    """You turn the keys only, so that their absolute positions are seen. The queries turn as well."""
    return _divide(_table(_phi(queries), _turn(_phi(keys), positions, base)).tril(), _plain(queries, keys), values)


def no_division(queries, keys, values, positions, base):
    """You return what stands above the line. The division is missing."""
    return _turned(queries, keys, positions, base) @ values


def looks_ahead(queries, keys, values, positions, base):
    """Your tokens see those that come after them. The sums end at the token itself."""
    above = _table(_turn(_phi(queries), positions, base), _turn(_phi(keys), positions, base))
    return _divide(above, _table(_phi(queries), _phi(keys)), values)


def looks_ahead_below(queries, keys, values, positions, base):
    """Below the line you add up all tokens, later ones too. Both sums end at the token itself."""
    return _divide(_turned(queries, keys, positions, base), _table(_phi(queries), _phi(keys)), values)


def softmax_below(queries, keys, values, positions, base):
    """You use a softmax. Linear attention has none: its weights are the products themselves."""
    scores = _table(_turn(queries, positions, base), _turn(keys, positions, base)) / queries.shape[-1] ** 0.5
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ values


def exponential_for_phi(queries, keys, values, positions, base):
    """Your features are exponentials. They are positive as well; here they are elu + 1."""
    queries, keys = queries.exp(), keys.exp()
    above = _table(_turn(queries, positions, base), _turn(keys, positions, base)).tril()
    return _divide(above, _table(queries, keys).tril(), values)


def one_forgotten(queries, keys, values, positions, base):
    """Your features can be negative: elu alone goes down to −1. What does the formula add to it?"""
    queries, keys = elu(queries), elu(keys)
    above = _table(_turn(queries, positions, base), _turn(keys, positions, base)).tril()
    return _divide(above, _table(queries, keys).tril(), values)


def values_turned_too(queries, keys, values, positions, base):
    """You turn the values as well. They carry what is said, not where."""
    return _divide(_turned(queries, keys, positions, base), _plain(queries, keys), _turn(values, positions, base))


def order_in_the_list(queries, keys, values, positions, base):
    """You count the tokens as they are listed. Their positions are given and can have gaps."""
    return _divide(_turned(queries, keys, torch.arange(len(positions)), base), _plain(queries, keys), values)


def clockwise(queries, keys, values, positions, base):
    """You turn the other way. The offset is still all that counts, but with its sign changed."""
    return _divide(_turned(queries, keys, -positions, base), _plain(queries, keys), values)


def two_forgotten(queries, keys, values, positions, base):
    """Your slower planes turn too fast: the exponent lacks its factor of 2."""
    width = queries.shape[-1]
    exponents = torch.arange(width // 2) / width
    return _divide(_turned(queries, keys, positions, base, exponents), _plain(queries, keys), values)


def divided_by_their_number(queries, keys, values, positions, base):
    """You divide by how many tokens are seen. Below the line stands the sum of the unturned weights."""
    return _divide(_turned(queries, keys, positions, base), torch.ones(len(positions), len(positions)).tril(), values)
