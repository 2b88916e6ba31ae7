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


def fastest_pair(query_codes, key_codes):
    """You ask the fastest pair, which is back after 2π positions. Beyond three positions it misleads (erratum E-08)."""
    return torch.atan2(*_sine_cosine(query_codes, key_codes, 0)).round().long()


def arcsine(query_codes, key_codes):
    """You read the angle from the sine alone, so far distances fold back. It takes sine and cosine together."""
    return (_sine_cosine(query_codes, key_codes)[0].asin() * _slowest(query_codes)).round().long()


def quotient(query_codes, key_codes):
    """You divide sine by cosine, so angles half a turn apart look alike. One function takes the two apart."""
    sine, cosine = _sine_cosine(query_codes, key_codes)
    return ((sine / cosine).atan() * _slowest(query_codes)).round().long()


def angle_not_distance(query_codes, key_codes):
    """You return the angle between the codes. How many positions does it take to turn by so much?"""
    return torch.atan2(*_sine_cosine(query_codes, key_codes)).round().long()


def frequency_of_no_pair(query_codes, key_codes):
    """You divide by a frequency of 1/10000, which no pair has. With t from 0, what is the last t?"""
    return (torch.atan2(*_sine_cosine(query_codes, key_codes)) * 10000).round().long()


def position_of_the_key(query_codes, key_codes):
    """You return where the key stands. Asked is how far it stands from the query."""
    sine, cosine = key_codes[:, -2:].T
    return (torch.atan2(sine, cosine) * _slowest(query_codes)).round().long()


def length_of_the_difference(query_codes, key_codes):
    """You measure the distance between the two vectors. It grows with that of the positions but is not the same."""
    return (key_codes - query_codes).norm(dim=-1).round().long()
