import math

import torch


def _of_a_power(n):
    return 2.0 ** (-8.0 * torch.arange(1, n + 1) / n)


def _lower(n_heads):
    return 2 ** math.floor(math.log2(n_heads))


def _slopes(n_heads):
    lower = _lower(n_heads)
    return torch.cat((_of_a_power(lower), _of_a_power(2 * lower)[0::2][: n_heads - lower]))


def _offsets(query_positions, key_positions):
    return key_positions[None, :] - query_positions[:, None]


def _times(slopes, distances):
    return slopes.reshape(-1, 1, 1) * distances


def reward(n_heads, query_positions, key_positions):
    """Your bias grows with the distance, so distant keys are rewarded. It is a penalty and should be negative."""
    return _times(_slopes(n_heads), _offsets(query_positions, key_positions).abs())


def signed_offset(n_heads, query_positions, key_positions):
    """Your bias is negative for keys in the past and positive for keys in the future. A distance has no sign."""
    return _times(_slopes(n_heads), _offsets(query_positions, key_positions))


def key_position_alone(n_heads, query_positions, key_positions):
    """Your bias depends only on the key's position. Under a causal mask the weights would be the same, but you should
    return the penalty itself, which is 0 at the query's own position."""
    return _times(_slopes(n_heads), key_positions.expand(len(query_positions), -1))


def first_slope_is_one(n_heads, query_positions, key_positions):
    """Your first head has slope 1, and all slopes are one step too steep. Where does h begin?"""
    slopes = _slopes(n_heads) * 2 ** (8.0 / _lower(n_heads))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def half_each_time(n_heads, query_positions, key_positions):
    """Each of your slopes is half the one before, for any number of heads. This ratio is right only for 8 heads."""
    slopes = 0.5 ** torch.arange(1, n_heads + 1)
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def one_formula_for_any_number(n_heads, query_positions, key_positions):
    """You use the formula for powers of two for every number of heads. Any other number of heads takes its slopes from
    two powers of two."""
    return -_times(_of_a_power(n_heads), _offsets(query_positions, key_positions).abs())


def first_of_the_higher_power(n_heads, query_positions, key_positions):
    """If the number of heads is not a power of two, you take the first slopes of the next higher power. Begin with the
    slopes of the lower power."""
    power = 2 ** math.ceil(math.log2(n_heads))
    return -_times(_of_a_power(power)[:n_heads], _offsets(query_positions, key_positions).abs())


def borrowed_without_a_gap(n_heads, query_positions, key_positions):
    """You take the slopes of the higher power one after another, so some heads have the same slope. Only every second
    one is new."""
    lower = _lower(n_heads)
    slopes = torch.cat((_of_a_power(lower), _of_a_power(2 * lower)[: n_heads - lower]))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def borrowed_the_old_ones(n_heads, query_positions, key_positions):
    """You take every second slope of the higher power, but these are the ones that the lower power also has. With which
    slope do you begin?"""
    lower = _lower(n_heads)
    slopes = torch.cat((_of_a_power(lower), _of_a_power(2 * lower)[1::2][: n_heads - lower]))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def sorted_slopes(n_heads, query_positions, key_positions):
    """Your slopes are right, but you sort them. Those of the higher power come last, whatever their size."""
    return -_times(_slopes(n_heads).sort(descending=True).values, _offsets(query_positions, key_positions).abs())


def lowest_slope_first(n_heads, query_positions, key_positions):
    """Your heads are in reverse order. Within a power of two, the first head has the steepest slope."""
    return -_times(_slopes(n_heads).flip(0), _offsets(query_positions, key_positions).abs())


def one_slope_for_all(n_heads, query_positions, key_positions):
    """All your heads have the slope of the first head. Each head should have its own."""
    return -_times(_slopes(n_heads)[:1].expand(n_heads), _offsets(query_positions, key_positions).abs())


def squared_distance(n_heads, query_positions, key_positions):
    """Your penalty grows with the square of the distance. It should be proportional to the distance."""
    return -_times(_slopes(n_heads), _offsets(query_positions, key_positions) ** 2)


def positions_not_used(n_heads, query_positions, key_positions):
    """You count queries and keys from 0. Use the positions that are given."""
    positions = torch.arange(len(query_positions)), torch.arange(len(key_positions))
    return -_times(_slopes(n_heads), _offsets(*positions).abs())


def counted_from_zero(n_heads, query_positions, key_positions):
    """Your first head has slope 1. Where does h begin?"""
    lower = _lower(n_heads)
    others = 2.0 ** (-4.0 * torch.arange(0, 2 * lower, 2) / lower)
    slopes = torch.cat((_of_a_power(lower) * 2 ** (8.0 / lower), others[: n_heads - lower]))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def counted_from_zero_everywhere(n_heads, query_positions, key_positions):
    """Your first head has slope 1, and you use one formula for every number of heads. Where does h begin, and which
    slopes apply when the number is not a power of two?"""
    slopes = _of_a_power(n_heads) * 2 ** (8.0 / n_heads)
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def no_eight(n_heads, query_positions, key_positions):
    """Your slopes fall from head to head, but far too slowly: with 8 heads the last one should be 1/256. Compare your
    exponent with the formula, factor by factor."""
    return -_times(_slopes(n_heads) ** 0.125, _offsets(query_positions, key_positions).abs())


def e_for_two(n_heads, query_positions, key_positions):
    """Your slopes are powers of e. They should be powers of 2."""
    slopes = torch.exp(torch.log2(_slopes(n_heads)))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def growing_slopes(n_heads, query_positions, key_positions):
    """Your slopes grow from head to head and are larger than 1. Look at the sign of the exponent."""
    return -_times(1 / _slopes(n_heads), _offsets(query_positions, key_positions).abs())


def ratio_upside_down(n_heads, query_positions, key_positions):
    """Your exponents grow with the number of heads. In the formula's fraction, what is divided by what?"""
    slopes = 2.0 ** (-n_heads / 8 * torch.arange(1, n_heads + 1))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def a_power_like_any_number(n_heads, query_positions, key_positions):
    """If the number of heads is a power of two, you take the slopes for half as many heads and add others. A power of
    two has its own slopes, in falling order."""
    lower = 2 ** math.floor(math.log2(max(n_heads - 1, 1)))
    slopes = torch.cat((_of_a_power(lower), _of_a_power(2 * lower)[0::2][: n_heads - lower]))[:n_heads]
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def future_without_penalty(n_heads, query_positions, key_positions):
    """Keys in the future get no penalty in your answer. A distance counts the same in both directions, and hiding the
    future is the task of the mask."""
    return _times(_slopes(n_heads), _offsets(query_positions, key_positions).clamp(max=0))


def future_hidden(n_heads, query_positions, key_positions):
    """You mask the future. Here a distance counts the same in both directions, and masking is done elsewhere."""
    offsets = _offsets(query_positions, key_positions)
    return (-_times(_slopes(n_heads), offsets.abs())).masked_fill(offsets > 0, -math.inf)


def signed_distance(n_heads, query_positions, key_positions):
    """Your bias is positive for keys in the past and negative for keys in the future. A distance has no sign."""
    return -_times(_slopes(n_heads), _offsets(query_positions, key_positions))


def heads_last(n_heads, query_positions, key_positions):
    """Your heads are on the last axis. They should come first, so that each head has a matrix of queries and keys."""
    return (-_times(_slopes(n_heads), _offsets(query_positions, key_positions).abs())).permute(1, 2, 0)


def keys_in_rows(n_heads, query_positions, key_positions):
    """Your matrices have a row for each key. They should have a row for each query: look at where you insert the new
    axes."""
    return (-_times(_slopes(n_heads), _offsets(query_positions, key_positions).abs())).mT


def borrowed_ones_first(n_heads, query_positions, key_positions):
    """Your slopes are right, but those of the higher power come first. Those of the lower power should come first,
    whatever their size."""
    lower = _lower(n_heads)
    slopes = _slopes(n_heads)
    slopes = torch.cat((slopes[lower:], slopes[:lower]))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def no_slopes(n_heads, query_positions, key_positions):
    """In every head your penalty is the distance itself. Each head multiplies it by its own slope."""
    return -_times(torch.ones(n_heads), _offsets(query_positions, key_positions).abs())


def no_axis_of_heads(n_heads, query_positions, key_positions):
    """You return a single matrix of distances. Each head has its own matrix, with its own slope."""
    return -_offsets(query_positions, key_positions).abs().float()


def borrowed_from_the_end(n_heads, query_positions, key_positions):
    """You take the slopes of the higher power from its end, so some heads have the same slope. Begin at its first
    slope."""
    lower = _lower(n_heads)
    slopes = torch.cat((_of_a_power(lower), _of_a_power(2 * lower).flip(0)[: n_heads - lower]))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())
