import math

import torch

from llm_anatomy.shapes import Float, Int, Tensor


def read_distance(
    query_codes: Float[Tensor, "n_pairs_of_positions d_model"], key_codes: Float[Tensor, "n_pairs_of_positions d_model"]
) -> Int[Tensor, "n_pairs_of_positions"]:
    """Return the offset of each key from its query, read from their sinusoidal codes."""
    d_model = query_codes.shape[-1]
    (s_q, c_q), (s_k, c_k) = query_codes[:, -2:].T, key_codes[:, -2:].T  # the slowest pair
    angle = torch.atan2(s_k * c_q - c_k * s_q, c_k * c_q + s_k * s_q)
    return (angle * 10000 ** ((d_model - 2) / d_model)).round().long()


def _slowest_frequency(d_model):
    return 10000 ** (-(d_model - 2) / d_model)


def accepted_slowest_pair(query_codes, key_codes):
    """Computes the sine and cosine of the difference for the last pair and takes their angle."""
    query_sine, query_cosine = query_codes[:, -2:].T
    key_sine, key_cosine = key_codes[:, -2:].T
    sine = key_sine * query_cosine - key_cosine * query_sine
    cosine = key_cosine * query_cosine + key_sine * query_sine
    angles = torch.atan2(sine, cosine)
    return (angles / _slowest_frequency(query_codes.shape[1])).round().long()


def accepted_difference_of_angles(query_codes, key_codes):
    """Takes the angle of each code by itself and brings the difference back to half a turn to either side."""
    query_angles, key_angles = (torch.atan2(codes[:, -2], codes[:, -1]) for codes in (query_codes, key_codes))
    angles = torch.remainder(key_angles - query_angles + math.pi, 2 * math.pi) - math.pi
    return (angles / _slowest_frequency(query_codes.shape[1])).round().long()


def accepted_from_slow_to_fast(query_codes, key_codes):
    """Uses all pairs: the slowest gives a first estimate, and each faster one corrects what is left of it."""
    d_model = query_codes.shape[1]
    queries, keys = (torch.complex(codes[:, 1::2], codes[:, 0::2]) for codes in (query_codes, key_codes))
    rotors = keys * queries.conj()
    offsets = torch.zeros(len(rotors))
    for pair in reversed(range(d_model // 2)):
        frequency = 10000 ** (-2 * pair / d_model)
        expected = torch.polar(torch.ones_like(offsets), frequency * offsets)
        offsets = offsets + (rotors[:, pair] * expected.conj()).angle() / frequency
    return offsets.round().long()


def code(positions, d_model):
    """The codes of positions in float64."""
    angles = torch.tensor(positions)[:, None] / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


def cases(generator):
    def of(queries, keys, d_model):
        return {"query_codes": code(queries, d_model).float(), "key_codes": code(keys, d_model).float()}

    return [
        of([0], [6], 4),  # the slide's
        of([2, 9, 1, 30], [3, 2, 46, 9], 4),
        of([10, 250, 300, 700], [210, 2, 370, 690], 4),
        of([100, 40, 5, 2], [40, 99, 6, 900], 8),
    ]


def property_rounded(answer, generator):
    positions = torch.arange(301)
    gap = positions - answer(code([0] * 301, 4).float(), code(positions.tolist(), 4).float())
    wrong = gap.abs().argmax().item()
    assert gap.abs().max() != 1, (
        f"Some of your distances are off by one: the distance {wrong} comes out as {wrong - gap[wrong].item()}. By "
        "itself, `long` cuts the decimals off. Round first."
    )


def property_the_same_wherever_it_is_measured(answer, generator):
    here = answer(code([0, 9], 12).float(), code([5, 2], 12).float())
    there = answer(code([80, 89], 12).float(), code([85, 82], 12).float())
    assert torch.equal(here, there), (
        "If we move the query and the key together, the distance between them should stay the same. Yours changes."
    )


def property_there_and_back(answer, generator):
    a, b = code([3, 70, 12], 10).float(), code([64, 1, 12], 10).float()
    assert torch.equal(answer(a, b), -answer(b, a)), (
        "If we exchange the query and the key, only the sign of the offset should change. Yours changes in another way."
    )


def property_every_distance(answer, generator):
    positions = list(range(0, 301))
    found = answer(code([0] * 301, 4).float(), code(positions, 4).float())
    assert found.tolist() == positions, (
        "At width 4, with the query at position 0, all distances from 0 to 300 should come out right. At least one "
        "of yours does not."
    )


def hidden_cases(generator):
    def of(n, reach, d_model, first=0):
        positions = first + torch.randint(0, reach, (2, n, 1), generator=generator)
        angles = positions / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
        query, key = torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).float()
        return {"query_codes": query, "key_codes": key}

    return [of(12, 310, 4), of(7, 2000, 16), of(9, 3000, 8), of(3, 500, 128), of(8, 300, 4, first=200)]
