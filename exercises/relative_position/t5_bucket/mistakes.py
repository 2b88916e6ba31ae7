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
    """You give the second half of the buckets to the past. The offset is key minus query, so which sign does the future
    have?"""
    half = n_buckets // 2
    return _one_way(offset.abs(), half, max_distance) + half * (offset < 0)


def own_position_in_the_future(offset, n_buckets, max_distance):
    """You put the query's own position into the first bucket of the future. It belongs to the past: look at r = 0."""
    half = n_buckets // 2
    return _one_way(offset.abs(), half, max_distance) + half * (offset >= 0)


def one_direction(offset, n_buckets, max_distance):
    """You use all buckets for the past, and the whole future shares bucket 0. T5's decoder does that, but here each
    direction has half of the buckets."""
    return _one_way((-offset).clamp(min=0), n_buckets, max_distance)


def directions_not_told_apart(offset, n_buckets, max_distance):
    """A key in the past and a key equally far in the future share a bucket, and half of the buckets are never used.
    Each direction should have its own half."""
    return _one_way(offset.abs(), n_buckets // 2, max_distance)


def both_directions_use_all(offset, n_buckets, max_distance):
    """You use all buckets for each direction, so the two directions overlap. Each should have its own half."""
    return _one_way(offset.abs(), n_buckets, max_distance) + n_buckets // 2 * (offset > 0)


def rounded(offset, n_buckets, max_distance):
    """You round to the nearest bucket. A bucket begins where the formula reaches its number, so round down."""
    half = n_buckets // 2
    shared = half // 2 + torch.round((half - half // 2) * _growth(offset.abs(), half // 2, max_distance))
    return _both_ways(offset, half, shared.clamp(max=half - 1))


def rounded_up(offset, n_buckets, max_distance):
    """You round up, as DeBERTa's code does. Here a bucket begins where the formula reaches its number."""
    half = n_buckets // 2
    shared = half // 2 + torch.ceil((half - half // 2) * _growth(offset.abs(), half // 2, max_distance))
    return _both_ways(offset, half, shared.clamp(max=half - 1))


def no_last_bucket(offset, n_buckets, max_distance):
    """Far offsets leave their half: those in the past get buckets of the future, and those in the future leave the
    table. From max_distance on, all offsets share the last bucket of their half."""
    half = n_buckets // 2
    return _both_ways(offset, half, half // 2 + (half - half // 2) * _growth(offset.abs(), half // 2, max_distance))


def last_bucket_one_too_far(offset, n_buckets, max_distance):
    """Your farthest offsets are one bucket too high, so in the past they share a bucket with the future. Buckets are
    counted from 0."""
    half = n_buckets // 2
    shared = half // 2 + (half - half // 2) * _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, shared.clamp(max=half))


def logarithm_not_divided(offset, n_buckets, max_distance):
    """Your bucket numbers grow too fast, and max_distance has no influence on them. What is the logarithm divided
    by?"""
    half = n_buckets // 2
    growth = torch.log(offset.abs().clamp(min=half // 2) / (half // 2))
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def logarithm_of_the_distance(offset, n_buckets, max_distance):
    """You take the logarithms of the distances themselves. Divide the distances by e first."""
    half = n_buckets // 2
    growth = torch.log(offset.abs().clamp(min=1).float()) / math.log(max_distance)
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def bins_of_equal_width(offset, n_buckets, max_distance):
    """Your shared buckets all have the same width. They should get wider as the distance grows."""
    half = n_buckets // 2
    growth = (offset.abs() - half // 2).clamp(min=0) / (max_distance - half // 2)
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def none_shared(offset, n_buckets, max_distance):
    """You give each distance its own bucket until there are none left. Only the first e distances of each direction
    have their own."""
    half = n_buckets // 2
    return offset.abs().clamp(max=half - 1) + half * (offset > 0)


def sign_kept(offset, n_buckets, max_distance):
    """Near keys in the past get negative buckets. Both formulas use the distance, without its sign."""
    half = n_buckets // 2
    near = offset.abs() < half // 2
    return torch.where(near, offset, _one_way(offset.abs(), half, max_distance)) + half * (offset > 0)


def halves_as_large_as_the_whole(offset, n_buckets, max_distance):
    """You use n_buckets buckets for the past and as many again for the future. Each direction should have half of
    n_buckets."""
    return _one_way(offset.abs(), n_buckets, max_distance) + n_buckets * (offset > 0)


def fraction_kept(offset, n_buckets, max_distance):
    """Your far buckets are fractions. A bucket is an integer, because the formula rounds down."""
    half = n_buckets // 2
    shared = half // 2 + (half - half // 2) * _growth(offset.abs(), half // 2, max_distance)
    shared = torch.where(offset.abs() < half // 2, offset.abs(), shared.clamp(max=half - 1))
    return shared + half * (offset > 0)


def last_bucket_of_the_table(offset, n_buckets, max_distance):
    """You use the last bucket of the whole table as the upper bound, so far keys in the past get buckets of the future.
    Each half has its own last bucket."""
    half = n_buckets // 2
    shared = half // 2 + (half - half // 2) * _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, shared.clamp(max=n_buckets - 1))


def last_bucket_of_the_table_for_both(offset, n_buckets, max_distance):
    """You limit only the final sum to the last bucket of the table, so far keys in the past get buckets of the future.
    Each half has its own last bucket."""
    half = n_buckets // 2
    shared = half // 2 + (half - half // 2) * _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, shared).clamp(max=n_buckets - 1)


def shared_from_zero(offset, n_buckets, max_distance):
    """Your shared buckets begin at 0, which near distances already use. They should begin after the first e."""
    half = n_buckets // 2
    growth = _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, ((half - half // 2) * growth).clamp(max=half - 1))


def all_of_the_half_for_the_shared(offset, n_buckets, max_distance):
    """Your bucket numbers grow too fast, because you use all n buckets of a half for the shared ones. How many are left
    after the first e?"""
    half = n_buckets // 2
    growth = _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, (half // 2 + half * growth).clamp(max=half - 1))


def only_the_distance_divided(offset, n_buckets, max_distance):
    """You divide the distance by e in the upper logarithm, but not max_distance in the lower one. Divide both by e."""
    half = n_buckets // 2
    growth = torch.log(offset.abs().clamp(min=half // 2) / (half // 2)) / math.log(max_distance)
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def only_the_maximum_divided(offset, n_buckets, max_distance):
    """You divide max_distance by e in the lower logarithm, but not the distance in the upper one. Divide both by e."""
    half = n_buckets // 2
    growth = torch.log(offset.abs().clamp(min=1)) / math.log(max_distance / (half // 2))
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def whole_quotient(offset, n_buckets, max_distance):
    """You round the quotient inside the logarithm down to an integer. Round only at the end."""
    half = n_buckets // 2
    quotient = offset.abs().clamp(min=half // 2) // (half // 2)
    growth = torch.log(quotient) / math.log(max_distance / (half // 2))
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def future_at_zero(offset, n_buckets, max_distance):
    """All keys in the future share bucket 0 with the query's own position. They should use the other half of the
    buckets."""
    return _one_way((-offset).clamp(min=0), n_buckets // 2, max_distance)


def future_counted_from_zero(offset, n_buckets, max_distance):
    """Your buckets of the future begin one too early. Distance 1 in the future has bucket n + 1."""
    half = n_buckets // 2
    future = offset > 0
    return _one_way(offset.abs() - future.long(), half, max_distance) + half * future


def no_halves_at_all(offset, n_buckets, max_distance):
    """A key in the past and a key equally far in the future share a bucket, and you spread the distances over all the
    buckets. Each direction should have half of them."""
    return _one_way(offset.abs(), n_buckets, max_distance)


def rounded_before_the_product(offset, n_buckets, max_distance):
    """You round the quotient of the logarithms down, so all shared distances below max_distance get the same bucket.
    Round after the multiplication."""
    half = n_buckets // 2
    growth = torch.floor(_growth(offset.abs(), half // 2, max_distance))
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))


def n_minus_one_for_the_rest(offset, n_buckets, max_distance):
    """Your bucket numbers grow too fast, because you use n - 1 buckets for the shared ones. How many are left after the
    first e?"""
    half = n_buckets // 2
    growth = _growth(offset.abs(), half // 2, max_distance)
    return _both_ways(offset, half, (half // 2 + (half - 1) * growth).clamp(max=half - 1))


def two_kinds_of_logarithm(offset, n_buckets, max_distance):
    """Your two logarithms have different bases, so the bucket numbers grow too fast. Use the same base for both."""
    half = n_buckets // 2
    growth = _growth(offset.abs(), half // 2, max_distance) / math.log(2)
    return _both_ways(offset, half, (half // 2 + (half - half // 2) * growth).clamp(max=half - 1))
