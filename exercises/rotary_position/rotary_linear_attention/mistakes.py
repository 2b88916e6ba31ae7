import torch
from torch.nn.functional import elu


def _turn(x, positions, base, exponents=None):
    exponents = torch.arange(0, x.shape[-1], 2) / x.shape[-1] if exponents is None else exponents
    angles = positions[:, None] * base**-exponents
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
    """You rotate in the numerator and in the denominator, so your weights sum to one. In the denominator the terms have
    to stay positive."""
    above = _turned(queries, keys, positions, base)
    return _divide(above, above, values)


def turned_below_only(queries, keys, values, positions, base):
    """You rotate in the denominator and not in the numerator. It should be the other way round."""
    return _divide(_plain(queries, keys), _turned(queries, keys, positions, base), values)


def not_turned(queries, keys, values, positions, base):
    """Your output does not depend on the positions: this is linear attention without RoPE."""
    return _divide(_plain(queries, keys), _plain(queries, keys), values)


def turned_before_phi(queries, keys, values, positions, base):
    """You rotate first and apply φ afterwards, so the result does not depend only on the offset. Look at the order in
    the formula."""
    return _divide(_plain(_turn(queries, positions, base), _turn(keys, positions, base)), _plain(queries, keys), values)


def queries_only(queries, keys, values, positions, base):
    """You rotate only the queries, so their absolute positions matter. Rotate the keys as well."""
    return _divide(_table(_turn(_phi(queries), positions, base), _phi(keys)).tril(), _plain(queries, keys), values)


def keys_only(queries, keys, values, positions, base):
    """You rotate only the keys, so their absolute positions matter. Rotate the queries as well."""
    return _divide(_table(_phi(queries), _turn(_phi(keys), positions, base)).tril(), _plain(queries, keys), values)


def no_division(queries, keys, values, positions, base):
    """You return the numerator. Divide it by the denominator."""
    return _turned(queries, keys, positions, base) @ values


def looks_ahead(queries, keys, values, positions, base):
    """Your tokens attend to later tokens. The sums end at the token itself."""
    above = _table(_turn(_phi(queries), positions, base), _turn(_phi(keys), positions, base))
    return _divide(above, _table(_phi(queries), _phi(keys)), values)


def looks_ahead_below(queries, keys, values, positions, base):
    """In the denominator you sum over all tokens, later ones too. Both sums end at the token itself."""
    return _divide(_turned(queries, keys, positions, base), _table(_phi(queries), _phi(keys)), values)


def softmax_below(queries, keys, values, positions, base):
    """You use a softmax. Linear attention has none: the dot products themselves are the weights, before the
    division."""
    scores = _table(_turn(queries, positions, base), _turn(keys, positions, base)) / queries.shape[-1] ** 0.5
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ values


def exponential_for_phi(queries, keys, values, positions, base):
    """You use exponentials as features. They are positive as well, but here φ is elu + 1."""
    queries, keys = queries.exp(), keys.exp()
    above = _table(_turn(queries, positions, base), _turn(keys, positions, base)).tril()
    return _divide(above, _table(queries, keys).tril(), values)


def one_forgotten(queries, keys, values, positions, base):
    """Your features can be negative, because elu goes down to −1. What does the formula add to it?"""
    queries, keys = elu(queries), elu(keys)
    above = _table(_turn(queries, positions, base), _turn(keys, positions, base)).tril()
    return _divide(above, _table(queries, keys).tril(), values)


def values_turned_too(queries, keys, values, positions, base):
    """You rotate the values as well. Rotate only queries and keys."""
    return _divide(_turned(queries, keys, positions, base), _plain(queries, keys), _turn(values, positions, base))


def order_in_the_list(queries, keys, values, positions, base):
    """You number the tokens in the order in which they are listed. Their positions are given and may have gaps."""
    return _divide(_turned(queries, keys, torch.arange(len(positions)), base), _plain(queries, keys), values)


def clockwise(queries, keys, values, positions, base):
    """You rotate in the wrong direction. The result still depends only on the offset, but with its sign changed."""
    return _divide(_turned(queries, keys, -positions, base), _plain(queries, keys), values)


def two_forgotten(queries, keys, values, positions, base):
    """Your slower planes rotate too fast: the factor 2 is missing in the exponent."""
    width = queries.shape[-1]
    exponents = torch.arange(width // 2) / width
    return _divide(_turned(queries, keys, positions, base, exponents), _plain(queries, keys), values)


def divided_by_their_number(queries, keys, values, positions, base):
    """You divide by the number of tokens. The denominator is the sum of the weights without rotation."""
    return _divide(_turned(queries, keys, positions, base), torch.ones(len(positions), len(positions)).tril(), values)


def _softmax(queries, keys, values, scale=1.0):
    scores = _table(queries, keys) / scale
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ values


def softmax_of_turned_features(queries, keys, values, positions, base):
    """You use a softmax over the products of rotated features. Linear attention has none: the dot products themselves
    are the weights, before the division."""
    queries, keys = _turn(_phi(queries), positions, base), _turn(_phi(keys), positions, base)
    return _softmax(queries, keys, values, queries.shape[-1] ** 0.5)


def softmax_of_turned_features_unscaled(queries, keys, values, positions, base):
    """You use a softmax over the products of rotated features. Linear attention has none: the dot products themselves
    are the weights, before the division."""
    return _softmax(_turn(_phi(queries), positions, base), _turn(_phi(keys), positions, base), values)


def self_left_out(queries, keys, values, positions, base):
    """Your sums end before the token itself, so the first token divides 0 by 0. A token attends to itself too."""
    return _divide(_turned(queries, keys, positions, base).tril(-1), _plain(queries, keys).tril(-1), values)


def only_itself(queries, keys, values, positions, base):
    """Your tokens attend only to themselves, so each gets its own value back. Sum over the tokens before it as well."""
    return values.clone()


def paired_across_halves(queries, keys, values, positions, base):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. Here neighbouring entries form a plane."""
    halves = [torch.stack(x.chunk(2, -1), -1).flatten(-2) for x in (queries, keys)]
    return _divide(_turned(*halves, positions, base), _plain(queries, keys), values)


def base_fixed(queries, keys, values, positions, base):
    """You always use base 10000. The base is an argument, and newer models use larger ones."""
    return _divide(_turned(queries, keys, positions, 10000), _plain(queries, keys), values)


def features_of_relu(queries, keys, values, positions, base):
    """Your features are never negative, but many are 0. Here φ is elu + 1, which is always positive."""
    queries, keys = queries.relu(), keys.relu()
    above = _table(_turn(queries, positions, base), _turn(keys, positions, base)).tril()
    return _divide(above, _table(queries, keys).tril(), values)


def nothing_before_the_turn(queries, keys, values, positions, base):
    """You leave out φ. It makes queries and keys positive, so that the denominator is positive."""
    above = _table(_turn(queries, positions, base), _turn(keys, positions, base)).tril()
    return _divide(above, _table(queries, keys).tril(), values)


def looks_ahead_above(queries, keys, values, positions, base):
    """In the numerator you sum over all tokens, later ones too. Both sums end at the token itself."""
    above = _table(_turn(_phi(queries), positions, base), _turn(_phi(keys), positions, base))
    return _divide(above, _plain(queries, keys), values)


def unscaled_softmax(queries, keys, values, positions, base):
    """You use a softmax. Linear attention has none: the dot products themselves are the weights, before the
    division."""
    return _softmax(_turn(queries, positions, base), _turn(keys, positions, base), values)


def values_made_positive(queries, keys, values, positions, base):
    """You apply φ to the values as well. Apply it only to queries and keys."""
    return _divide(_turned(queries, keys, positions, base), _plain(queries, keys), _phi(values))


def later_tokens_instead(queries, keys, values, positions, base):
    """Your tokens attend to themselves and to later tokens. They should attend to themselves and to earlier tokens."""
    above = _table(_turn(_phi(queries), positions, base), _turn(_phi(keys), positions, base)).triu()
    return _divide(above, _table(_phi(queries), _phi(keys)).triu(), values)


def one_denominator_for_all(queries, keys, values, positions, base):
    """You divide all tokens of a head by the same number. Each query has its own sum."""
    return _turned(queries, keys, positions, base) @ values / _plain(queries, keys).sum((-2, -1), keepdim=True)


def one_denominator_for_all_heads(queries, keys, values, positions, base):
    """You divide all heads by a single sum. Each query of each head has its own sum."""
    return _turned(queries, keys, positions, base) @ values / _plain(queries, keys).sum()


def lengths_below(queries, keys, values, positions, base):
    """Your denominator is the sum of the absolute values of the rotated weights. It should contain the products before
    the rotation."""
    above = _turned(queries, keys, positions, base)
    return _divide(above, above.abs(), values)


def own_weight_below(queries, keys, values, positions, base):
    """Your denominator contains only the token's weight on itself. Add its weights on the tokens before it."""
    below = (_phi(queries) * _phi(keys)).sum(-1, keepdim=True)
    return _turned(queries, keys, positions, base) @ values / below


def scaled_above(queries, keys, values, positions, base):
    """You divide the numerator by the root of the width. Linear attention has no such scale."""
    above = _turned(queries, keys, positions, base) / queries.shape[-1] ** 0.5
    return _divide(above, _plain(queries, keys), values)
