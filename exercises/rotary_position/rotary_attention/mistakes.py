import math

import torch


def _angles(positions, d_head, base, exponents=None):
    exponents = torch.arange(0, d_head, 2) / d_head if exponents is None else exponents
    return positions[:, None, :, None] * base**-exponents


def _by_angles(x, angles):
    angles = angles.double()
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)


def _turn(x, positions, base, exponents=None):
    return _by_angles(x, _angles(positions, x.shape[-1], base, exponents))


def _attend(queries, keys, values, mask, scale=None):
    scores = queries @ keys.transpose(-2, -1) / (scale or math.sqrt(keys.shape[-1]))
    return torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), -1) @ values


def _counted(positions):
    return torch.arange(positions.shape[1]).expand_as(positions)


def not_turned(queries, keys, values, query_positions, key_positions, mask, base):
    """Your output does not depend on the positions. Is what you turned also what you go on with?"""
    return _attend(queries, keys, values, mask)


def values_turned_too(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn the values as well. They carry what is said, not where: only queries and keys are turned."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, _turn(values, key_positions, base), mask)


def output_turned(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn what comes out. Positions belong into the scores, before the softmax, and nowhere else."""
    return _turn(_attend(queries, keys, values, mask), query_positions, base)


def keys_and_values_turned(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn keys and values. One of the two takes no turn, and one that should is missing."""
    return _attend(queries, _turn(keys, key_positions, base), _turn(values, key_positions, base), mask)


def queries_only(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn the queries only, so their absolute positions are seen. The keys turn too, each by its own position."""
    return _attend(_turn(queries, query_positions, base), keys, values, mask)


def keys_only(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn the keys only, so their absolute positions are seen. The queries turn too, each by its own position."""
    return _attend(queries, _turn(keys, key_positions, base), values, mask)


def counted_from_zero(queries, keys, values, query_positions, key_positions, mask, base):
    """You count queries and keys from 0 instead of taking their positions. With a cache the first query is not at 0."""
    queries, keys = _turn(queries, _counted(query_positions), base), _turn(keys, _counted(key_positions), base)
    return _attend(queries, keys, values, mask)


def positions_of_the_first_sequence(queries, keys, values, query_positions, key_positions, mask, base):
    """You use the positions of the first sequence for all. Each has its own, and one may be padded or further on."""
    queries, keys = _turn(queries, query_positions[:1], base), _turn(keys, key_positions[:1], base)
    return _attend(queries, keys, values, mask)


def keys_one_position_on(queries, keys, values, query_positions, key_positions, mask, base):
    """Your keys stand one position too far on, or your queries one too few. Both count in the same way."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions + 1, base)
    return _attend(queries, keys, values, mask)


def both_clockwise(queries, keys, values, query_positions, key_positions, mask, base):
    """You turn queries and keys the other way. The offset is still all that counts, but with its sign changed."""
    return _attend(_turn(queries, -query_positions, base), _turn(keys, -key_positions, base), values, mask)


def keys_turned_back(queries, keys, values, query_positions, key_positions, mask, base):
    """Queries and keys turn in opposite directions, so their positions add up. The same turn is applied to both."""
    return _attend(_turn(queries, query_positions, base), _turn(keys, -key_positions, base), values, mask)


def paired_across_halves(queries, keys, values, query_positions, key_positions, mask, base):
    """You pair entry i with entry i + d/2, as GPT-NeoX does. Here neighbours form a plane."""
    halves = [torch.stack(x.chunk(2, -1), -1).flatten(-2) for x in (queries, keys)]
    return _attend(_turn(halves[0], query_positions, base), _turn(halves[1], key_positions, base), values, mask)


def two_forgotten(queries, keys, values, query_positions, key_positions, mask, base):
    """Your slower planes turn too fast: the exponent lacks its factor of 2, or divides by a wrong width."""
    width = queries.shape[-1]
    exponents = torch.arange(width // 2) / width
    queries, keys = (_turn(x, p, base, exponents) for x, p in ((queries, query_positions), (keys, key_positions)))
    return _attend(queries, keys, values, mask)


def paces_over_all_heads(queries, keys, values, query_positions, key_positions, mask, base):
    """Your planes are numbered on through all heads, so later heads turn slower. Each head begins at pace 1 again."""
    exponents = (torch.arange(0, queries[0, :, 0].numel(), 2) / queries[0, :, 0].numel()).view(queries.shape[1], 1, -1)
    queries, keys = (_turn(x, p, base, exponents) for x, p in ((queries, query_positions), (keys, key_positions)))
    return _attend(queries, keys, values, mask)


def base_fixed(queries, keys, values, query_positions, key_positions, mask, base):
    """You take 10000 whatever the base. It is given, and newer models set it higher."""
    return _attend(_turn(queries, query_positions, 10000), _turn(keys, key_positions, 10000), values, mask)


def waves_added(queries, keys, values, query_positions, key_positions, mask, base):
    """You add sines and cosines to queries and keys. RoPE adds nothing: it multiplies."""
    width = queries.shape[-1]
    waves = (_angles(positions, width, base) for positions in (query_positions, key_positions))
    waves = [torch.stack((w.cos(), w.sin()), -1).flatten(-2).to(queries.dtype) for w in waves]
    return _attend(queries + waves[0], keys + waves[1], values, mask)


def angles_as_bias(queries, keys, values, query_positions, key_positions, mask, base):
    """You add the offset to the scores. That is a bias; here the position changes queries and keys themselves."""
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(keys.shape[-1])
    scores = scores + (key_positions[:, None, None, :] - query_positions[:, None, :, None])
    return torch.softmax(scores.masked_fill(~mask[:, None], -math.inf), -1) @ values


def no_scale(queries, keys, values, query_positions, key_positions, mask, base):
    """The scores go into the softmax as they are. A turn keeps lengths, so they need the same scale as without it."""
    return _attend(_turn(queries, query_positions, base), _turn(keys, key_positions, base), values, mask, scale=1.0)


def no_mask(queries, keys, values, query_positions, key_positions, mask, base):
    """Your mask hides nothing: padding and later tokens are seen. A position does not hide a key."""
    queries, keys = _turn(queries, query_positions, base), _turn(keys, key_positions, base)
    return _attend(queries, keys, values, torch.ones_like(mask))
