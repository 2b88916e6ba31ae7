import math

import torch

from llm_anatomy.layers.positions.buckets import T5Buckets
from llm_anatomy.shapes import Int, Tensor


def t5_bucket(
    offset: Int[Tensor, "n_queries n_keys"], n_buckets: int, max_distance: int
) -> Int[Tensor, "n_queries n_keys"]:
    """The bucket of each offset (key position minus query position), for both directions."""
    half = n_buckets // 2
    single = half // 2  # how many distances have a bucket of their own
    distance = offset.abs()
    growth = torch.log(distance.clamp(min=single) / single) / math.log(max_distance / single)
    shared = (single + (growth * (half - single)).long()).clamp(max=half - 1)
    return torch.where(distance < single, distance, shared) + half * (offset > 0)


def accepted_logarithm(offset, n_buckets, max_distance):
    """Uses the formula directly, with where and a logarithm that never sees a zero."""
    n = n_buckets // 2
    e = n // 2
    distance = offset.abs()
    growth = (distance.clamp(min=e) / e).log() / math.log(max_distance / e)
    shared = (e + ((n - e) * growth).long()).clamp(max=n - 1)
    return torch.where(offset > 0, n, 0) + torch.where(distance < e, distance, shared)


def accepted_first_distance_of_each_bucket(offset, n_buckets, max_distance):
    """Finds with integers where each bucket begins, and counts the buckets that begin up to each distance."""
    n = n_buckets // 2
    e = n // 2

    def begins(bucket):
        """The first distance r with (n − e) ln(r / e) ≥ (bucket − e) ln(L / e), without the logarithms."""
        r = e
        while r ** (n - e) * e ** (bucket - e) < max_distance ** (bucket - e) * e ** (n - e):
            r += 1
        return r

    beginnings = torch.tensor([*range(1, e + 1), *(begins(bucket) for bucket in range(e + 1, n))])
    return torch.bucketize(offset.abs(), beginnings, right=True) + n * (offset > 0)


def accepted_buckets_of_the_package(offset, n_buckets, max_distance):
    """Calls the package's own buckets."""
    return T5Buckets(n_buckets, max_distance)(offset)


def cases(generator):
    def between(query_positions, key_positions, n_buckets, max_distance):
        offset = torch.tensor(key_positions) - torch.tensor(query_positions)[:, None]
        return {"offset": offset, "n_buckets": n_buckets, "max_distance": max_distance}

    # Distances at which the logarithm just reaches a bucket's number are left out: there rounding decides.
    return [
        between([9], [2, 8, 9, 10, 13, 39], 8, 10),
        between([50, 57], [0, 20, 29, 39, 47, 50, 52, 62, 80, 140, 90000], 32, 128),  # T5's own sizes
        between([100], [0, 60, 70, 77, 85, 97, 100, 102, 109, 125, 160], 20, 60),
        between([3, 4, 5, 9], [300, 5, 3, 20, 50, 101], 12, 200),
        between([20], [0, 8, 10, 15, 18, 21, 23, 29, 60], 10, 23),  # an odd number for each direction
    ]


FAR = torch.tensor([[-1000, -500, -200, 200, 500, 1000]])


def property_within_the_table(answer, generator):
    offset = torch.randint(-300, 300, (6, 40), generator=generator)
    for n_buckets in (8, 32):
        buckets = answer(offset, n_buckets, 128)
        assert buckets.min() >= 0 and buckets.max() < n_buckets, (
            f"There are {n_buckets} buckets, counted from 0, but your numbers run from {buckets.min()} to "
            f"{buckets.max()}."
        )


def property_far_is_far(answer, generator):
    assert len(answer(FAR, 32, 128).unique()) == 2, (
        "Beyond the maximum distance, all offsets of a direction should share one bucket, and the two directions "
        "should have different ones."
    )


def property_two_directions(answer, generator):
    distance = torch.arange(1, 60)[None]
    assert torch.equal(answer(distance, 32, 128), answer(-distance, 32, 128) + 16), (
        "The bucket of a key in the future should be that of a key equally far in the past, plus half the number of "
        "buckets."
    )


def property_near_ones_alone(answer, generator):
    assert torch.equal(answer(-torch.arange(8)[None], 32, 128), torch.arange(8)[None]), (
        "With 32 buckets, each of the distances 0 to 7 in the past should have its own bucket, from 0 to 7."
    )


def property_never_back(answer, generator):
    buckets = answer(-torch.arange(200)[None], 32, 128)
    assert (buckets.diff() >= 0).all() and buckets.diff().max() == 1, (
        "From each distance to the next in the past, the bucket should stay the same or increase by one."
    )


def hidden_cases(generator):
    # Whole numbers under the floor are left out: there rounding decides.
    def drawn(n_queries, n_keys, n_buckets, max_distance, single, bins):
        def safe(distance):
            growth = bins * torch.log(distance.double() / single) / torch.log(torch.tensor(max_distance / single))
            return (distance < single) | (distance > max_distance) | ((growth - growth.round()).abs() > 1e-3)

        distances = torch.arange(0, 3 * max_distance)
        distances = distances[safe(distances)]
        picked = torch.randint(0, len(distances), (n_queries, n_keys), generator=generator)
        near = torch.randint(0, 2 * single, (n_queries, n_keys), generator=generator)
        closer = torch.rand(n_queries, n_keys, generator=generator) < 0.4
        offset = torch.where(closer & safe(near), near, distances[picked])
        offset[0, 0] = 0
        sign = torch.randint(0, 2, (n_queries, n_keys), generator=generator) * 2 - 1
        return {"offset": offset * sign, "n_buckets": n_buckets, "max_distance": max_distance}

    return [
        drawn(9, 14, 32, 128, 8, 8),
        drawn(5, 8, 16, 50, 4, 4),
        drawn(6, 11, 64, 256, 16, 16),
        drawn(7, 4, 10, 20, 2, 3),
    ]
