import math

import torch


def _growth(distance, single, max_distance):
    return torch.log(distance.clamp(min=single) / single) / math.log(max_distance / single)


def _one_way(distance, half, max_distance):
    single = half // 2
    shared = single + torch.floor((half - single) * _growth(distance, single, max_distance)).long()
    return torch.where(distance < single, distance, torch.minimum(shared, torch.tensor(half - 1)))


def _both_ways(offset, half, shared):
    """With a rule of one's own for distances that share a bucket."""
    distance = offset.abs()
    return torch.where(distance < half // 2, distance, shared.long()) + half * (offset > 0)


def past_and_future_exchanged(offset, n_buckets, max_distance):
    """You give the second half of the buckets to the past. An offset is key minus query: which sign has the future?"""
    half = n_buckets // 2
    return _one_way(offset.abs(), half, max_distance) + half * (offset < 0)


def own_position_in_the_future(offset, n_buckets, max_distance):
    """A token's own position falls into the first bucket of the future. It belongs to the past: look at r = 0."""
    half = n_buckets // 2
    return _one_way(offset.abs(), half, max_distance) + half * (offset >= 0)


def one_direction(offset, n_buckets, max_distance):
    """All your buckets serve the past, and the future shares bucket 0. That is T5's decoder; here half are each."""
    return _one_way((-offset).clamp(min=0), n_buckets, max_distance)


def directions_not_told_apart(offset, n_buckets, max_distance):
    """A key in the past and one as far in the future share a bucket. One half of the buckets is never used."""
    return _one_way(offset.abs(), n_buckets // 2, max_distance)


def both_directions_use_all(offset, n_buckets, max_distance):
    """You lay out all the buckets in each direction, so that the two overlap. Each direction has one half."""
    return _one_way(offset.abs(), n_buckets, max_distance) + n_buckets // 2 * (offset > 0)


def rounded(offset, n_buckets, max_distance):
    """You round to the nearest bucket. A bucket begins where the formula reaches its number, not half a step before."""
    half = n_buckets // 2
    shared = half // 2 + torch.round((half - half // 2) * _growth(offset.abs(), half // 2, max_distance))
    return _both_ways(offset, half, shared.clamp(max=half - 1))


def rounded_up(offset, n_buckets, max_distance):
    """You round up, as DeBERTa's code does. Here a bucket begins where the formula reaches its number."""
    half = n_buckets // 2
    shared = half // 2 + torch.ceil((half - half // 2) * _growth(offset.abs(), half // 2, max_distance))
    return _both_ways(offset, half, shared.clamp(max=half - 1))


def no_last_bucket(offset, n_buckets, max_distance):
    """Far offsets leave their half: the past runs into the future's buckets and the future out of the table."""
    half = n_buckets // 2
    return _both_ways(offset, half, half // 2 + (half - half // 2) * _growth(offset.abs(), half // 2, max_distance))


def last_bucket_one_too_far(offset, n_buckets, max_distance):
    """The farthest offsets are one bucket too high: in the past they share one with the future. Count from 0."""
    half = n_buckets // 2
    shared = half // 2 + (half - half // 2) * _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, shared.clamp(max=half))


def logarithm_not_divided(offset, n_buckets, max_distance):
    """Your bins grow too fast: the maximum distance has no influence. By what is the logarithm divided?"""
    half = n_buckets // 2
    growth = torch.log(offset.abs().clamp(min=half // 2) / (half // 2))
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def logarithm_of_the_distance(offset, n_buckets, max_distance):
    """You take the logarithms of the distances as they are. They are counted in units of the first shared one."""
    half = n_buckets // 2
    growth = torch.log(offset.abs().clamp(min=1).float()) / math.log(max_distance)
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def bins_of_equal_width(offset, n_buckets, max_distance):
    """Your shared bins all have the same width. They should grow with the distance."""
    half = n_buckets // 2
    growth = (offset.abs() - half // 2).clamp(min=0) / (max_distance - half // 2)
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def none_shared(offset, n_buckets, max_distance):
    """Each distance has its own bucket until they run out. Only the first half of a half is given out singly."""
    half = n_buckets // 2
    return offset.abs().clamp(max=half - 1) + half * (offset > 0)


def sign_kept(offset, n_buckets, max_distance):
    """Near keys of the past have negative buckets. Both formulas are for the distance."""
    half = n_buckets // 2
    near = offset.abs() < half // 2
    return torch.where(near, offset, _one_way(offset.abs(), half, max_distance)) + half * (offset > 0)
