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
    """You give the second half of the buckets to the past. An offset is key minus query: which sign does the future
    have?"""
    half = n_buckets // 2
    return _one_way(offset.abs(), half, max_distance) + half * (offset < 0)


def own_position_in_the_future(offset, n_buckets, max_distance):
    """A token's own position falls into the first bucket of the future. It belongs to the past: look at r = 0."""
    half = n_buckets // 2
    return _one_way(offset.abs(), half, max_distance) + half * (offset >= 0)


def one_direction(offset, n_buckets, max_distance):
    """All your buckets serve the past, and the future shares bucket 0. That is T5's decoder; here each direction has
    half."""
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
    """Far offsets leave their half: the past runs into the future's buckets and the future out of the table. From
    max_distance on, all share the last bucket of their half."""
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
    """You take the logarithms of the distances as they are. Divide them by the first shared distance."""
    half = n_buckets // 2
    growth = torch.log(offset.abs().clamp(min=1).float()) / math.log(max_distance)
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def bins_of_equal_width(offset, n_buckets, max_distance):
    """Your shared bins all have the same width. They should grow with the distance."""
    half = n_buckets // 2
    growth = (offset.abs() - half // 2).clamp(min=0) / (max_distance - half // 2)
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def none_shared(offset, n_buckets, max_distance):
    """Each distance has its own bucket until they run out. Only the first half of each half holds single distances."""
    half = n_buckets // 2
    return offset.abs().clamp(max=half - 1) + half * (offset > 0)


def sign_kept(offset, n_buckets, max_distance):
    """Near keys of the past have negative buckets. Both formulas use the distance."""
    half = n_buckets // 2
    near = offset.abs() < half // 2
    return torch.where(near, offset, _one_way(offset.abs(), half, max_distance)) + half * (offset > 0)


def halves_as_large_as_the_whole(offset, n_buckets, max_distance):
    """You lay out all the buckets for the past and as many again for the future. Each direction has one half of
    n_buckets."""
    return _one_way(offset.abs(), n_buckets, max_distance) + n_buckets * (offset > 0)


def fraction_kept(offset, n_buckets, max_distance):
    """Your far buckets have fractions. A bucket is a whole number: the formula rounds down."""
    half = n_buckets // 2
    shared = half // 2 + (half - half // 2) * _growth(offset.abs(), half // 2, max_distance)
    shared = torch.where(offset.abs() < half // 2, offset.abs(), shared.clamp(max=half - 1))
    return shared + half * (offset > 0)


def last_bucket_of_the_table(offset, n_buckets, max_distance):
    """Your upper bound is the last bucket of the whole table, so far keys of the past run into the future's half. Each
    half has a last bucket of its own."""
    half = n_buckets // 2
    shared = half // 2 + (half - half // 2) * _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, shared.clamp(max=n_buckets - 1))


def last_bucket_of_the_table_for_both(offset, n_buckets, max_distance):
    """Only the whole table has a last bucket in your answer, so far keys of the past run into the future's half. Each
    half has a last bucket of its own."""
    half = n_buckets // 2
    shared = half // 2 + (half - half // 2) * _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, shared).clamp(max=n_buckets - 1)


def shared_from_zero(offset, n_buckets, max_distance):
    """Your shared buckets begin at 0, where the near distances are. They come after the first e."""
    half = n_buckets // 2
    growth = _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, ((half - half // 2) * growth).clamp(max=half - 1))


def all_of_the_half_for_the_shared(offset, n_buckets, max_distance):
    """Your shared buckets fill up too fast: you give them all n. How many are left after the first e?"""
    half = n_buckets // 2
    growth = _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, (half // 2 + half * growth).clamp(max=half - 1))


def only_the_distance_divided(offset, n_buckets, max_distance):
    """You divide the distance by e in the upper logarithm, but not the maximum distance in the lower one. Both are
    counted in units of e."""
    half = n_buckets // 2
    growth = torch.log(offset.abs().clamp(min=half // 2) / (half // 2)) / math.log(max_distance)
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def only_the_maximum_divided(offset, n_buckets, max_distance):
    """You divide the maximum distance by e in the lower logarithm, but not the distance in the upper one. Both are
    counted in units of e."""
    half = n_buckets // 2
    growth = torch.log(offset.abs().clamp(min=1)) / math.log(max_distance / (half // 2))
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def whole_quotient(offset, n_buckets, max_distance):
    """The quotient under your logarithm is a whole number: it was rounded down too early. Only the bucket
    is rounded."""
    half = n_buckets // 2
    quotient = offset.abs().clamp(min=half // 2) // (half // 2)
    growth = torch.log(quotient) / math.log(max_distance / (half // 2))
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def future_at_zero(offset, n_buckets, max_distance):
    """Keys of the future all share bucket 0 with the query's own position. They have the other half of the buckets."""
    return _one_way((-offset).clamp(min=0), n_buckets // 2, max_distance)


def future_counted_from_zero(offset, n_buckets, max_distance):
    """Your future begins one bucket too early: distance 1 of the future has the bucket n + 1."""
    half = n_buckets // 2
    future = offset > 0
    return _one_way(offset.abs() - future.long(), half, max_distance) + half * future


def no_halves_at_all(offset, n_buckets, max_distance):
    """A key in the past and one as far in the future share a bucket, among all that there are. Each direction has half
    of them."""
    return _one_way(offset.abs(), n_buckets, max_distance)


def rounded_before_the_product(offset, n_buckets, max_distance):
    """You round the quotient of the logarithms, so that all shared distances below max_distance have one bucket. Round
    the product."""
    half = n_buckets // 2
    growth = torch.floor(_growth(offset.abs(), half // 2, max_distance))
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def n_minus_one_for_the_rest(offset, n_buckets, max_distance):
    """Your shared buckets fill up too fast: you give them n - 1. How many are left after the first e?"""
    half = n_buckets // 2
    growth = _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, (half // 2 + (half - 1) * growth).clamp(max=half - 1))


def two_kinds_of_logarithm(offset, n_buckets, max_distance):
    """Your two logarithms have different bases, so the buckets grow too fast. Their quotient needs the same base
    twice."""
    half = n_buckets // 2
    growth = _growth(offset.abs(), half // 2, max_distance) / math.log(2)
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))
