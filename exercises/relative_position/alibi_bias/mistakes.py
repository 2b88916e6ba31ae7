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
    """The further away a key is, the more it gets from you. A penalty is negative."""
    return _times(_slopes(n_heads), _offsets(query_positions, key_positions).abs())


def signed_offset(n_heads, query_positions, key_positions):
    """Keys of the past get less and keys of the future more. The distance has no sign."""
    return _times(_slopes(n_heads), _offsets(query_positions, key_positions))


def key_position_alone(n_heads, query_positions, key_positions):
    """Every query adds the same to a key. Under a causal mask the weights come out alike, but here the penalty itself
    is asked, with 0 at the query's own position."""
    return _times(_slopes(n_heads), key_positions.expand(len(query_positions), -1))


def first_slope_is_one(n_heads, query_positions, key_positions):
    """Your first head has slope 1 and all are one step too steep. Where does h begin?"""
    slopes = _slopes(n_heads) * 2 ** (8.0 / _lower(n_heads))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def half_each_time(n_heads, query_positions, key_positions):
    """Each of your slopes is half the one before, for any number of heads. That ratio belongs to 8 heads alone."""
    slopes = 0.5 ** torch.arange(1, n_heads + 1)
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def one_formula_for_any_number(n_heads, query_positions, key_positions):
    """You use the formula for powers of two for every number of heads. Others borrow from two powers."""
    return -_times(_of_a_power(n_heads), _offsets(query_positions, key_positions).abs())


def first_of_the_higher_power(n_heads, query_positions, key_positions):
    """Where the number is no power of two you cut off the slopes of the next higher one. Begin with the lower power."""
    power = 2 ** math.ceil(math.log2(n_heads))
    return -_times(_of_a_power(power)[:n_heads], _offsets(query_positions, key_positions).abs())


def borrowed_without_a_gap(n_heads, query_positions, key_positions):
    """Of the higher power you take the slopes one after another, so some heads are twins. Every second one is new."""
    lower = _lower(n_heads)
    slopes = torch.cat((_of_a_power(lower), _of_a_power(2 * lower)[: n_heads - lower]))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def borrowed_the_old_ones(n_heads, query_positions, key_positions):
    """Of the higher power you take every second slope, but those the lower power has too. Where do you begin?"""
    lower = _lower(n_heads)
    slopes = torch.cat((_of_a_power(lower), _of_a_power(2 * lower)[1::2][: n_heads - lower]))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def sorted_slopes(n_heads, query_positions, key_positions):
    """Your slopes are the right ones, but sorted. The borrowed ones come last, whatever their size."""
    return -_times(_slopes(n_heads).sort(descending=True).values, _offsets(query_positions, key_positions).abs())


def lowest_slope_first(n_heads, query_positions, key_positions):
    """Your heads stand in reverse order. The steepest slope of a power of two belongs to its first head."""
    return -_times(_slopes(n_heads).flip(0), _offsets(query_positions, key_positions).abs())


def one_slope_for_all(n_heads, query_positions, key_positions):
    """All your heads have the slope of the first. Each has one of its own."""
    return -_times(_slopes(n_heads)[:1].expand(n_heads), _offsets(query_positions, key_positions).abs())


def squared_distance(n_heads, query_positions, key_positions):
    """Your penalty grows with the square of the distance. It is a line."""
    return -_times(_slopes(n_heads), _offsets(query_positions, key_positions) ** 2)


def positions_not_positions(n_heads, query_positions, key_positions):
    """You count queries and keys from 0. Take the positions that you were given."""
    positions = torch.arange(len(query_positions)), torch.arange(len(key_positions))
    return -_times(_slopes(n_heads), _offsets(*positions).abs())
