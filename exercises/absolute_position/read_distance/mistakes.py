import math

import torch


def _sine_cosine(query_codes, key_codes, t=-1):
    (s_q, c_q), (s_k, c_k) = query_codes.unflatten(-1, (-1, 2))[:, t].T, key_codes.unflatten(-1, (-1, 2))[:, t].T
    return s_k * c_q - c_k * s_q, c_k * c_q + s_k * s_q


def _slowest(query_codes):
    d_model = query_codes.shape[-1]
    return 10000 ** ((d_model - 2) / d_model)


def query_minus_key(query_codes, key_codes):
    """Your distances have the wrong sign. Have you exchanged query and key, or the sine and the cosine of a pair?"""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes))
    return -(angle * _slowest(query_codes)).round().long()


def without_a_sign(query_codes, key_codes):
    """Your result does not tell before from after. The cosine alone, or an absolute value, loses the sign. What does
    the sine tell you?"""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes))
    return (angle * _slowest(query_codes)).round().long().abs()


def cut_off(query_codes, key_codes):
    """Some of your distances are too close to 0 by one. Converting to whole numbers cuts the decimals off, so round
    first."""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes))
    return (angle * _slowest(query_codes)).long()


def angles_subtracted(query_codes, key_codes):
    """Some of your distances are wrong by a whole wavelength. The difference of two angles can leave the range from −π
    to π. Bring it back into this range, or use the two formulas."""
    query_angle, key_angle = (torch.atan2(codes[:, -2], codes[:, -1]) for codes in (query_codes, key_codes))
    return ((key_angle - query_angle) * _slowest(query_codes)).round().long()


def sine_and_cosine_exchanged(query_codes, key_codes):
    """Each of your angles is a quarter turn minus the correct angle. The first argument of `atan2` is the sine."""
    sine, cosine = _sine_cosine(query_codes, key_codes)
    return (torch.atan2(cosine, sine) * _slowest(query_codes)).round().long()


def multiplied_by_the_frequency(query_codes, key_codes):
    """All your distances are 0. The slowest pair turns by a tiny angle at each position: how many of these small turns
    make up your angle?"""
    return torch.zeros(len(query_codes), dtype=torch.long)


def in_degrees(query_codes, key_codes):
    """Your distances are about 57 times too large, because you convert the angle to degrees. The frequency of a pair is
    in radians."""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes)).rad2deg()
    return (angle * _slowest(query_codes)).round().long()


def in_whole_turns(query_codes, key_codes):
    """Your distances are too small by a factor of 2π. The frequency of a pair is in radians per position, not in whole
    turns."""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes)) / (2 * math.pi)
    return (angle * _slowest(query_codes)).round().long()


def slowest_pair_but_one(query_codes, key_codes):
    """You read the angle of one pair and divide by the frequency of another. In which column does the last pair
    begin?"""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes, -2))
    return (angle * _slowest(query_codes)).round().long()


def fastest_pair(query_codes, key_codes):
    """You use the fastest pair, which repeats after 2π positions. It is wrong for distances above three positions
    (erratum E-08)."""
    return torch.atan2(*_sine_cosine(query_codes, key_codes, 0)).round().long()


def arcsine(query_codes, key_codes):
    """You compute the angle from the sine alone, so large distances come out too small. Use the sine and the cosine
    together."""
    return (_sine_cosine(query_codes, key_codes)[0].asin() * _slowest(query_codes)).round().long()


def quotient(query_codes, key_codes):
    """You divide the sine by the cosine, so angles that are half a turn apart look alike. Use a function that takes
    both and tells these angles apart."""
    sine, cosine = _sine_cosine(query_codes, key_codes)
    return ((sine / cosine).atan() * _slowest(query_codes)).round().long()


def angle_not_distance(query_codes, key_codes):
    """You return the angle between the codes. How many positions does it take to turn by this angle?"""
    return torch.atan2(*_sine_cosine(query_codes, key_codes)).round().long()


def frequency_of_no_pair(query_codes, key_codes):
    """You divide by a frequency of 1/10000, which no pair has. Since t starts at 0, what is the last t?"""
    return (torch.atan2(*_sine_cosine(query_codes, key_codes)) * 10000).round().long()


def exponent_of_the_last_coordinate(query_codes, key_codes):
    """Your frequency has d − 1 in its exponent, which is the number of the last coordinate. Since t starts at 0, what
    is the last 2t?"""
    angle, d_model = torch.atan2(*_sine_cosine(query_codes, key_codes)), query_codes.shape[-1]
    return (angle * 10000 ** ((d_model - 1) / d_model)).round().long()


def without_the_two(query_codes, key_codes):
    """Your frequency is too high for the last pair. A factor is missing in the exponent of 10000."""
    angle, d_model = torch.atan2(*_sine_cosine(query_codes, key_codes)), query_codes.shape[-1]
    return (angle * 10000 ** ((d_model // 2 - 1) / d_model)).round().long()


def position_of_the_query(query_codes, key_codes):
    """You return the position of the query. Return the distance of the key from it, with its sign."""
    sine, cosine = query_codes[:, -2:].T
    return (torch.atan2(sine, cosine) * _slowest(query_codes)).round().long()


def position_of_the_key(query_codes, key_codes):
    """You return the position of the key. Return its distance from the query, with its sign."""
    sine, cosine = key_codes[:, -2:].T
    return (torch.atan2(sine, cosine) * _slowest(query_codes)).round().long()


def length_of_the_difference(query_codes, key_codes):
    """You measure the distance between the two vectors. It grows with the distance between the positions but is not the
    same."""
    return (key_codes - query_codes).norm(dim=-1).round().long()


def sine_for_angle(query_codes, key_codes):
    """You take the sine for the angle itself. The two are close only for small angles, so large distances come out too
    small."""
    return (_sine_cosine(query_codes, key_codes)[0] * _slowest(query_codes)).round().long()


def from_0_to_a_whole_turn(query_codes, key_codes):
    """Your distances are never negative. An angle of more than half a turn means that the key comes before the
    query."""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes)).remainder(2 * math.pi)
    return (angle * _slowest(query_codes)).round().long()


def _of_each_pair(query_codes, key_codes):
    pairs, d_model = range(query_codes.shape[-1] // 2), query_codes.shape[-1]
    angles = (torch.atan2(*_sine_cosine(query_codes, key_codes, t)) for t in pairs)
    return torch.stack([angle * 10000 ** (2 * t / d_model) for t, angle in enumerate(angles)], -1)


def mean_of_all_pairs(query_codes, key_codes):
    """You average over all pairs. The fast pairs have repeated, perhaps many times, and spoil the mean."""
    return _of_each_pair(query_codes, key_codes).mean(-1).round().long()


def a_distance_for_each_pair(query_codes, key_codes):
    """You return a distance for each pair. Only one of the pairs gives the right distance: return that one."""
    return _of_each_pair(query_codes, key_codes).round().long()
