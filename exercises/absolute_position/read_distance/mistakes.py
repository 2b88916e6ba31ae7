import math

import torch


def _sine_cosine(query_codes, key_codes, t=-1):
    (s_q, c_q), (s_k, c_k) = query_codes.unflatten(-1, (-1, 2))[:, t].T, key_codes.unflatten(-1, (-1, 2))[:, t].T
    return s_k * c_q - c_k * s_q, c_k * c_q + s_k * s_q


def _slowest(query_codes):
    d_model = query_codes.shape[-1]
    return 10000 ** ((d_model - 2) / d_model)


def query_minus_key(query_codes, key_codes):
    """Your distances have the wrong sign. Have you exchanged query and key, or the sine and cosine of a pair?"""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes))
    return -(angle * _slowest(query_codes)).round().long()


def without_a_sign(query_codes, key_codes):
    """You cannot tell before from after. The cosine alone, or an absolute value, has lost it: what about the sine?"""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes))
    return (angle * _slowest(query_codes)).round().long().abs()


def cut_off(query_codes, key_codes):
    """Some of your distances are one too near to 0. Making whole numbers cuts decimals off: round first."""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes))
    return (angle * _slowest(query_codes)).long()


def angles_subtracted(query_codes, key_codes):
    """Some of your distances are off by a whole wavelength. The difference of two angles can leave the range from −π
    to π; bring it back, or use the two formulas."""
    query_angle, key_angle = (torch.atan2(codes[:, -2], codes[:, -1]) for codes in (query_codes, key_codes))
    return ((key_angle - query_angle) * _slowest(query_codes)).round().long()


def sine_and_cosine_exchanged(query_codes, key_codes):
    """Your angles are a quarter turn minus the right ones. `atan2` takes the sine first."""
    sine, cosine = _sine_cosine(query_codes, key_codes)
    return (torch.atan2(cosine, sine) * _slowest(query_codes)).round().long()


def multiplied_by_the_frequency(query_codes, key_codes):
    """All your distances are 0. The slowest pair turns by a tiny angle at each position: how many of these steps make
    up your angle?"""
    return torch.zeros(len(query_codes), dtype=torch.long)


def in_degrees(query_codes, key_codes):
    """Your distances are about 57 times too large: you convert the angle to degrees. A pair turns by radians."""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes)).rad2deg()
    return (angle * _slowest(query_codes)).round().long()


def in_whole_turns(query_codes, key_codes):
    """Your distances are 2π times too small. The pair turns by its frequency in radians, not in whole turns."""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes)) / (2 * math.pi)
    return (angle * _slowest(query_codes)).round().long()


def slowest_pair_but_one(query_codes, key_codes):
    """You use a pair with a frequency that belongs to another one. Where does the last pair begin?"""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes, -2))
    return (angle * _slowest(query_codes)).round().long()


def fastest_pair(query_codes, key_codes):
    """You use the fastest pair, which repeats after 2π positions. Beyond three positions it misleads (erratum E-08)."""
    return torch.atan2(*_sine_cosine(query_codes, key_codes, 0)).round().long()


def arcsine(query_codes, key_codes):
    """You read the angle from the sine alone, so far distances fold back. Use sine and cosine together."""
    return (_sine_cosine(query_codes, key_codes)[0].asin() * _slowest(query_codes)).round().long()


def quotient(query_codes, key_codes):
    """You divide sine by cosine, so angles half a turn apart look alike. One function tells the two apart."""
    sine, cosine = _sine_cosine(query_codes, key_codes)
    return ((sine / cosine).atan() * _slowest(query_codes)).round().long()


def angle_not_distance(query_codes, key_codes):
    """You return the angle between the codes. How many positions does it take to turn by so much?"""
    return torch.atan2(*_sine_cosine(query_codes, key_codes)).round().long()


def frequency_of_no_pair(query_codes, key_codes):
    """You divide by a frequency of 1/10000, which no pair has. With t from 0, what is the last t?"""
    return (torch.atan2(*_sine_cosine(query_codes, key_codes)) * 10000).round().long()


def exponent_of_the_last_coordinate(query_codes, key_codes):
    """Your frequency has d − 1 in its exponent, the number of the last coordinate. With t from 0, what is the last
    2t?"""
    angle, d_model = torch.atan2(*_sine_cosine(query_codes, key_codes)), query_codes.shape[-1]
    return (angle * 10000 ** ((d_model - 1) / d_model)).round().long()


def without_the_two(query_codes, key_codes):
    """Your frequency is too high for the last pair: a factor in the exponent of 10000 is missing."""
    angle, d_model = torch.atan2(*_sine_cosine(query_codes, key_codes)), query_codes.shape[-1]
    return (angle * 10000 ** ((d_model // 2 - 1) / d_model)).round().long()


def position_of_the_query(query_codes, key_codes):
    """You return the position of the query. Return the key's distance from it, with its sign."""
    sine, cosine = query_codes[:, -2:].T
    return (torch.atan2(sine, cosine) * _slowest(query_codes)).round().long()


def position_of_the_key(query_codes, key_codes):
    """You return the position of the key. Return its distance from the query, with its sign."""
    sine, cosine = key_codes[:, -2:].T
    return (torch.atan2(sine, cosine) * _slowest(query_codes)).round().long()


def length_of_the_difference(query_codes, key_codes):
    """You measure the distance between the two vectors. It grows with that of the positions but is not the same."""
    return (key_codes - query_codes).norm(dim=-1).round().long()


def sine_for_angle(query_codes, key_codes):
    """You take the sine for the angle itself. That holds for small angles only, and far distances come out too near."""
    return (_sine_cosine(query_codes, key_codes)[0] * _slowest(query_codes)).round().long()


def from_0_to_a_whole_turn(query_codes, key_codes):
    """Your distances are never negative. An angle beyond half a turn means that the key comes before the query."""
    angle = torch.atan2(*_sine_cosine(query_codes, key_codes)).remainder(2 * math.pi)
    return (angle * _slowest(query_codes)).round().long()


def _of_each_pair(query_codes, key_codes):
    pairs, d_model = range(query_codes.shape[-1] // 2), query_codes.shape[-1]
    angles = (torch.atan2(*_sine_cosine(query_codes, key_codes, t)) for t in pairs)
    return torch.stack([angle * 10000 ** (2 * t / d_model) for t, angle in enumerate(angles)], -1)


def mean_of_all_pairs(query_codes, key_codes):
    """You average over all pairs. The fast ones have come round, perhaps many times, and spoil the mean."""
    return _of_each_pair(query_codes, key_codes).mean(-1).round().long()


def a_distance_for_each_pair(query_codes, key_codes):
    """You return a distance for each pair. One of the pairs gives the right one: return that."""
    return _of_each_pair(query_codes, key_codes).round().long()
