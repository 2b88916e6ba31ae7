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
    """Your bias grows with the distance. A penalty is negative."""
    return _times(_slopes(n_heads), _offsets(query_positions, key_positions).abs())


def signed_offset(n_heads, query_positions, key_positions):
    """Keys of the past get less and keys of the future more. The distance has no sign."""
    return _times(_slopes(n_heads), _offsets(query_positions, key_positions))


def key_position_alone(n_heads, query_positions, key_positions):
    """Every query adds the same to a key. Under a causal mask the weights come out the same, but here you return the
    penalty itself, which is 0 at the query's own position."""
    return _times(_slopes(n_heads), key_positions.expand(len(query_positions), -1))


def first_slope_is_one(n_heads, query_positions, key_positions):
    """Your first head has slope 1, and all heads are one step too steep. Where does h begin?"""
    slopes = _slopes(n_heads) * 2 ** (8.0 / _lower(n_heads))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def half_each_time(n_heads, query_positions, key_positions):
    """Each of your slopes is half the one before, for any number of heads. That ratio belongs to 8 heads alone."""
    slopes = 0.5 ** torch.arange(1, n_heads + 1)
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def one_formula_for_any_number(n_heads, query_positions, key_positions):
    """You use the formula for powers of two for every number of heads. Other numbers take their slopes from two
    powers."""
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
    """Of the higher power you take every second slope, but those that the lower power also has. Where do you begin?"""
    lower = _lower(n_heads)
    slopes = torch.cat((_of_a_power(lower), _of_a_power(2 * lower)[1::2][: n_heads - lower]))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def sorted_slopes(n_heads, query_positions, key_positions):
    """Your slopes are the right ones, but sorted. Those of the higher power come last, whatever their size."""
    return -_times(_slopes(n_heads).sort(descending=True).values, _offsets(query_positions, key_positions).abs())


def lowest_slope_first(n_heads, query_positions, key_positions):
    """Your heads are in reverse order. The steepest slope of a power of two belongs to its first head."""
    return -_times(_slopes(n_heads).flip(0), _offsets(query_positions, key_positions).abs())


def one_slope_for_all(n_heads, query_positions, key_positions):
    """All your heads have the slope of the first. Each has one of its own."""
    return -_times(_slopes(n_heads)[:1].expand(n_heads), _offsets(query_positions, key_positions).abs())


def squared_distance(n_heads, query_positions, key_positions):
    """Your penalty grows with the square of the distance. It should be a line."""
    return -_times(_slopes(n_heads), _offsets(query_positions, key_positions) ** 2)


def positions_not_used(n_heads, query_positions, key_positions):
    """You count queries and keys from 0. Take the positions that you were given."""
    positions = torch.arange(len(query_positions)), torch.arange(len(key_positions))
    return -_times(_slopes(n_heads), _offsets(*positions).abs())


def counted_from_zero(n_heads, query_positions, key_positions):
    """Your first head has slope 1. Where does h begin?"""
    lower = _lower(n_heads)
    others = 2.0 ** (-4.0 * torch.arange(0, 2 * lower, 2) / lower)
    slopes = torch.cat((_of_a_power(lower) * 2 ** (8.0 / lower), others[: n_heads - lower]))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def counted_from_zero_everywhere(n_heads, query_positions, key_positions):
    """Your first head has slope 1, and you use one formula for every number of heads. Where does h begin, and what
    happens where the number is no power of two?"""
    slopes = _of_a_power(n_heads) * 2 ** (8.0 / n_heads)
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def no_eight(n_heads, query_positions, key_positions):
    """Your slopes fall from head to head, but far too slowly: those of 8 heads should get down to 1/256. Compare the
    exponent, factor by factor."""
    return -_times(_slopes(n_heads) ** 0.125, _offsets(query_positions, key_positions).abs())


def e_for_two(n_heads, query_positions, key_positions):
    """Your slopes are powers of e. They should be powers of 2."""
    slopes = torch.exp(torch.log2(_slopes(n_heads)))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def growing_slopes(n_heads, query_positions, key_positions):
    """Your slopes are larger than 1 and grow. The exponent has a sign."""
    return -_times(1 / _slopes(n_heads), _offsets(query_positions, key_positions).abs())


def ratio_upside_down(n_heads, query_positions, key_positions):
    """Your exponents grow with the number of heads. What is divided by what?"""
    slopes = 2.0 ** (-n_heads / 8 * torch.arange(1, n_heads + 1))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def a_power_like_any_number(n_heads, query_positions, key_positions):
    """Where the number of heads is a power of two, you take the slopes for half as many and fill up. It has slopes of
    its own, in falling order."""
    lower = 2 ** math.floor(math.log2(max(n_heads - 1, 1)))
    slopes = torch.cat((_of_a_power(lower), _of_a_power(2 * lower)[0::2][: n_heads - lower]))[:n_heads]
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def future_without_penalty(n_heads, query_positions, key_positions):
    """Keys of the future pay nothing. Distances count the same in both directions, and a mask hides the future."""
    return _times(_slopes(n_heads), _offsets(query_positions, key_positions).clamp(max=0))


def future_hidden(n_heads, query_positions, key_positions):
    """You hide the future. Distances count the same in both directions here; hiding is the task of a mask."""
    offsets = _offsets(query_positions, key_positions)
    return (-_times(_slopes(n_heads), offsets.abs())).masked_fill(offsets > 0, -math.inf)


def signed_distance(n_heads, query_positions, key_positions):
    """Keys of the future get less and keys of the past more. The distance has no sign."""
    return -_times(_slopes(n_heads), _offsets(query_positions, key_positions))


def heads_last(n_heads, query_positions, key_positions):
    """Your heads are on the last axis. They come first: one matrix of queries and keys for each head."""
    return (-_times(_slopes(n_heads), _offsets(query_positions, key_positions).abs())).permute(1, 2, 0)


def keys_in_rows(n_heads, query_positions, key_positions):
    """Your matrices have a row for each key. They should have a row for each query: look where you put the new axes."""
    return (-_times(_slopes(n_heads), _offsets(query_positions, key_positions).abs())).mT


def borrowed_ones_first(n_heads, query_positions, key_positions):
    """Your slopes are the right ones, but those of the higher power come first. The lower power's come first, whatever
    their size."""
    lower = _lower(n_heads)
    slopes = _slopes(n_heads)
    slopes = torch.cat((slopes[lower:], slopes[:lower]))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())


def no_slopes(n_heads, query_positions, key_positions):
    """Your penalty is the distance itself, in every head. Each head multiplies it by a slope of its own."""
    return -_times(torch.ones(n_heads), _offsets(query_positions, key_positions).abs())


def no_axis_of_heads(n_heads, query_positions, key_positions):
    """You return one matrix, of the distances alone. Each head has one, with a slope of its own."""
    return -_offsets(query_positions, key_positions).abs().float()


def borrowed_from_the_end(n_heads, query_positions, key_positions):
    """Of the higher power you take the flattest slopes, counted from its end, so some heads are twins. Begin at its
    first."""
    lower = _lower(n_heads)
    slopes = torch.cat((_of_a_power(lower), _of_a_power(2 * lower).flip(0)[: n_heads - lower]))
    return -_times(slopes, _offsets(query_positions, key_positions).abs())
