import torch


def cases(generator):
    def between(query_positions, key_positions, n_buckets, max_distance):
        offset = torch.tensor(key_positions) - torch.tensor(query_positions)[:, None]
        return {"offset": offset, "n_buckets": n_buckets, "max_distance": max_distance}

    # Distances at which the logarithm just reaches a bucket's number are left out: there rounding decides.
    return [
        between([50, 57], [0, 20, 29, 39, 47, 50, 52, 62, 80, 140, 900], 32, 128),  # T5's own sizes
        between([7, 8, 10], [0, 1, 6, 9, 10, 15, 30], 8, 10),
        between([100], [0, 60, 70, 77, 85, 97, 100, 102, 109, 125, 160], 20, 60),
        between([3, 4, 5, 9], [300, 5, 3, 20, 50, 101], 12, 200),
    ]


FAR = torch.tensor([[-1000, -500, -200, 200, 500, 1000]])


def property_within_the_table(answer, generator):
    offset = torch.randint(-300, 300, (6, 40), generator=generator)
    for n_buckets in (8, 32):
        buckets = answer(offset, n_buckets, 128)
        assert buckets.min() >= 0 and buckets.max() < n_buckets, (
            f"Of {n_buckets} buckets, counted from 0, you use {buckets.min()} to {buckets.max()}."
        )


def property_far_is_far(answer, generator):
    assert len(answer(FAR, 32, 128).unique()) == 2, (
        "Beyond the maximum distance all offsets of a direction should share one bucket, and the directions differ."
    )


def property_two_directions(answer, generator):
    distance = torch.arange(1, 60)[None]
    assert torch.equal(answer(distance, 32, 128), answer(-distance, 32, 128) + 16), (
        "At the same distance, a key of the future should have the bucket of the past plus half the number of buckets."
    )


def property_near_ones_alone(answer, generator):
    assert torch.equal(answer(-torch.arange(8)[None], 32, 128), torch.arange(8)[None]), (
        "Of 32 buckets the first eight should hold the distances 0 to 7 of the past, one each."
    )


def property_never_back(answer, generator):
    buckets = answer(-torch.arange(200)[None], 32, 128)
    assert (buckets.diff() >= 0).all() and buckets.diff().max() == 1, (
        "Going back into the past, one position at a time, the bucket should stay or rise by one."
    )
